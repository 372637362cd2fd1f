"""Monthly means and extremes of two cities' weather, out of a CSV."""
import collections
import csv
import json
import statistics

rows = collections.defaultdict(list)
with open("weather.csv", newline="") as f:
    for row in csv.DictReader(f):
        rows[row["location"], row["date"][5:7]].append(row)

summary = {}
for (city, month), days in sorted(rows.items()):
    highs = [float(d["temp_max"]) for d in days]
    rain = [float(d["precipitation"]) for d in days]
    summary.setdefault(city, {})[month] = {
        "days": len(days),
        "mean_high": round(statistics.mean(highs), 1),
        "hottest": max(highs),
        "rain_mm_a_day": round(statistics.mean(rain), 2),
    }

for city, months in summary.items():
    print(city)
    for month, m in months.items():
        bar = "#" * max(0, round(m["mean_high"]))
        print(f"  {month}  {m['mean_high']:5.1f} C  {m['rain_mm_a_day']:5.2f} mm/day  {bar}")

with open("summary.json", "w") as f:
    json.dump(summary, f, indent=1)
print(sum(len(d) for d in rows.values()), "days read")
