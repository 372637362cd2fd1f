// The strongest earthquakes of one week, and how they spread over magnitudes.
const fs = require("fs");
const { events } = JSON.parse(fs.readFileSync("earthquakes.json", "utf8"));

const byMagnitude = new Map();
for (const e of events) {
  const m = Math.floor(e.mag ?? 0);
  byMagnitude.set(m, (byMagnitude.get(m) ?? 0) + 1);
}
console.log(`${events.length} events`);
for (const [m, n] of [...byMagnitude].sort((a, b) => a[0] - b[0]))
  console.log(`  magnitude ${String(m).padStart(2)}: ${String(n).padStart(4)} ${"*".repeat(Math.ceil(n / 20))}`);

const strongest = [...events].sort((a, b) => b.mag - a.mag).slice(0, 5);
for (const e of strongest)
  console.log(`  ${e.mag.toFixed(1)}  ${new Date(e.time).toISOString()}  ${e.place}`);
fs.writeFileSync("strongest.json", JSON.stringify(strongest, null, 1));
