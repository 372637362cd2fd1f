"""Speaks to callcell mcp as the Python SDK does, and prints what it saw, a line
of JSON each. Arguments: the revision of the protocol to begin with (auto, or
legacy), then the server's command, or its address, for which KEY is the key."""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def say(name, value):
    print(json.dumps({name: value}), flush=True)


def brief(r):
    a = r.structured_content or {}
    return {
        "isError": bool(r.is_error),
        "level": a.get("level"),
        "outcome": a.get("outcome"),
        "reason": a.get("refusal", {}).get("reason"),
        "hint": a.get("refusal", {}).get("hint"),
        "stdout": a.get("untrusted", {}).get("stdout", {}).get("bytes"),
        "text": len(r.content[0].text),
    }


async def cancelled(client):
    told = 0

    async def progress(*_):
        nonlocal told
        told += 1
        if told == 2:
            scope.cancel()

    with anyio.CancelScope() as scope:
        await client.call_tool("run_code", {"language": "sh", "code": "exec sleep 4242"}, progress_callback=progress)
    say("cancelled", {"progress": told})


async def main(mode, command, *args):
    server = StdioServerParameters(command=command, args=list(args))
    if command.startswith("http"):
        headers = {"Authorization": "Bearer " + os.environ["KEY"], "Callcell-Task": "client"}
        server = streamable_http_client(command, http_client=httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)))
    async with Client(server, mode=mode) as client:

        async def run(code, **more):
            return await client.call_tool("run_code", {"language": "sh", "code": code, **more})

        say("protocol", client.protocol_version)
        say("tools", sorted(t.name for t in (await client.list_tools()).tools))
        answer = await run("echo $((6*7)); echo seven > out.txt", outputs=["out.txt"])
        out = answer.structured_content["untrusted"]
        say("answer", {**brief(answer), "said": out["stdout"]["text"]})
        file = await client.read_resource(out["files"][0]["uri"])
        say("file", file.contents[0].text)
        say("print", brief(await run("yes | head -c 200000000")))
        say("hang", brief(await run("sleep 600", narrow={"resources": {"wall": "1s"}})))
        say("crash", brief(await run("kill -SEGV $$")))
        say("refusal", brief(await run("true", narrow={"resources": {"memory": "64Gi"}})))
        await cancelled(client)
        say("after", brief(await run("echo alive")))


anyio.run(main, *sys.argv[1:])
