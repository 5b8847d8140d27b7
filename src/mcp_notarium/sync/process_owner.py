"""Names the process that is busy with a write, and tells whether such a process has ended.

Only processes of the same machine are judged; about others, and where the system cannot be asked
without harm, the answer is "not known to have ended" and the lease decides.
"""

from __future__ import annotations

import os
import socket
import uuid


def owner_name() -> str:
    """A new name for this process: machine, process id and a random part against reuse."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def owner_gone(owner: str) -> bool:
    """Whether the named process is known to have ended."""
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return False
    machine, _, rest = owner.rpartition(":")[0].rpartition(":")
    if machine != socket.gethostname() or not rest.isdecimal() or int(rest) < 1:
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
