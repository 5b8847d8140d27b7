"""Where the person's D-Bus session is, for clients that start servers with a bare environment.

Many MCP clients pass on HOME and PATH and little else. The bus of a login session then still lies at
its fixed place, where other programs look for it too; the library that ``keyring`` uses does not.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_ADDRESS = "DBUS_SESSION_BUS_ADDRESS"
_RUNTIME = "XDG_RUNTIME_DIR"


def find() -> None:
    """Name the bus in this process's environment, if it is not named and there is one of ours."""
    if sys.platform != "linux" or os.environ.get(_ADDRESS):
        return
    runtime = os.environ.get(_RUNTIME) or f"/run/user/{os.getuid()}"
    bus = Path(runtime, "bus")
    if _is_our_socket(bus):
        os.environ[_ADDRESS] = f"unix:path={bus}"


def _is_our_socket(path: Path) -> bool:
    """Somebody else's bus could offer a keychain of theirs."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()
