"""An exception nobody planned becomes an error that says nothing and a log line that says where.

The two share a random trace id. The text of the exception may hold note text, so it reaches no
client; the log shows its type and place only.
"""

from __future__ import annotations

import secrets

from mcp_notarium import logs
from mcp_notarium.errors import NotariumError

_log = logs.get("server")


def unexpected(error: BaseException, *, while_doing: str) -> NotariumError:
    """The error for the client; the exception itself goes to the log."""
    trace = secrets.token_hex(4)
    _log.error("server.unexpected", exc=error, phase=while_doing, id=trace)
    return NotariumError(
        "Something went wrong inside MCP Notarium.",
        details={"trace_id": trace},
        resolution_hint="Try once more. If it happens again, tell the user to look for this "
        "trace_id in the server's log.",
    )
