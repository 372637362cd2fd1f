// Speaks to callcell mcp as the TypeScript SDK does, and prints what it saw, a
// line of JSON each. Arguments: which SDK (v1 or v2), then the server's command,
// or its address, for which KEY is the key.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.CLIENTS + "/package.json");
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function sdk(which) {
  if (which === "v1") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, call: (c, p, o) => c.callTool(p, undefined, o) };
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  return { Client, StdioClientTransport, StreamableHTTPClientTransport, call: (c, p, o) => c.callTool(p, o) };
}

const say = (name, value) => console.log(JSON.stringify({ [name]: value }));
const [which, command, ...args] = process.argv.slice(2);
const { Client, StdioClientTransport, StreamableHTTPClientTransport, call } = await sdk(which);
const headers = { Authorization: "Bearer " + process.env.KEY, "Callcell-Task": "client" };
const transport = command.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args, stderr: "inherit" });
const client = new Client({ name: "test-" + which, version: "1" }, which === "v2" ? { versionNegotiation: { mode: "auto" } } : {});
await client.connect(transport);

const run = (code, more, options) => call(client, { name: "run_code", arguments: { language: "sh", code, ...more } }, options);
const brief = (r) => ({ isError: !!r.isError, level: r.structuredContent?.level, outcome: r.structuredContent?.outcome, reason: r.structuredContent?.refusal?.reason, stdout: r.structuredContent?.untrusted?.stdout?.bytes, text: r.content[0].text.length, hint: r.structuredContent?.refusal?.hint });

say("tools", (await client.listTools()).tools.map((t) => t.name).sort());
const answer = await run("echo $((6*7)); echo seven > out.txt", { outputs: ["out.txt"] });
say("answer", { ...brief(answer), said: answer.structuredContent.untrusted.stdout.text });
const file = await client.readResource({ uri: answer.structuredContent.untrusted.files[0].uri });
say("file", file.contents[0].text);
say("print", brief(await run("yes | head -c 200000000")));
say("hang", brief(await run("sleep 600", { narrow: { resources: { wall: "1s" } } })));
say("crash", brief(await run("kill -SEGV $$")));
say("refusal", brief(await run("true", { narrow: { resources: { memory: "64Gi" } } })));

let told = 0;
const stop = new AbortController();
const long = run("exec sleep 4242", {}, {
  signal: stop.signal,
  onprogress: () => {
    if (++told === 2) stop.abort(new Error("enough"));
  },
}).catch((e) => say("cancelled", { progress: told, error: String(e) }));
await long;
say("after", brief(await run("echo alive")));
await client.close();
