"""Run the floor: a bare loop of JSON over stdio on SQLite, without SDK, key or policy.

Without an argument it answers the handshake, the list of tools and ``echo``. With the path of a cache
without a key it carries out the SQL it is sent, and builds the answer a listing needs; ``encrypted`` behind
the path: the file is one of ``raw.encrypted_copy``.
"""

import json
import sys

TOOL = {"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}


def serve() -> None:
    """Answer to the end of input."""
    database = None
    if len(sys.argv) > 1:
        from bench.raw import Raw  # noqa: PLC0415 - a loop without a database imports nothing

        database = (Raw.cipher if "encrypted" in sys.argv else Raw.plain)(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result: object = {}
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "floor", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [TOOL]}
            case "tools/call":
                asked = message["params"]["arguments"]
                if database is None:
                    result = {"content": [{"type": "text", "text": asked["text"]}]}
                else:
                    result = {"structuredContent": database.answer(asked)}
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
