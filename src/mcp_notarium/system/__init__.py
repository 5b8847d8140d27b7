"""Choose the implementation of what differs between systems, once.

``SYSTEM`` is the port's implementation for the system this runs on, see ``port``. No other module asks which system
that is; ``scripts/platforms.py`` checks it.
"""

from __future__ import annotations

import sys

from mcp_notarium.system.port import Access, System

__all__ = ["PLATFORM", "SYSTEM", "Access", "System"]

PLATFORM: str = sys.platform
"""Python's name of the system, for tables that list a path for each."""


def _choose() -> System:
    if sys.platform == "win32":
        from mcp_notarium.system.windows import Windows  # noqa: PLC0415 - one of them is loaded

        return Windows()
    elif sys.platform == "darwin":  # noqa: RET505 - mypy reads one branch
        from mcp_notarium.system.macos import MacOS  # noqa: PLC0415 - the same

        return MacOS()
    elif sys.platform == "linux":
        from mcp_notarium.system.linux import Linux  # noqa: PLC0415 - the same

        return Linux()
    else:
        from mcp_notarium.system.posix import Posix  # noqa: PLC0415 - the same

        return Posix()


SYSTEM = _choose()
