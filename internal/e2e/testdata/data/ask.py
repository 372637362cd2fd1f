"""Has callcell mcp run a program, as the Python SDK does, and prints its answer as
JSON. Arguments: the program, then the server's command."""

import json
import sys

import anyio
from mcp import Client, StdioServerParameters


async def main(code, command, *args):
    async with Client(StdioServerParameters(command=command, args=list(args)), mode="auto") as client:
        answer = await client.call_tool("run_code", {"language": "python", "code": code})
        print(json.dumps({"isError": bool(answer.is_error), "answer": answer.structured_content}))


anyio.run(main, *sys.argv[1:])
