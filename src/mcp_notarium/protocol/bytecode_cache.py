"""Bytecode of what a server imports, made before the process confines itself.

A confined process writes nothing beside the sources, and without bytecode every start compiles some
hundred modules again. pip compiles what it installs; other installers leave it to the first import. So
the first server after such an installation imports everything before it confines itself; nothing
that anybody wrote is read by then.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_TOLD_BY = ("mcp_notarium.protocol.sdk_server", "mcp", "pydantic", "httpx")
_LOADED = (
    "mcp_notarium.protocol.event_loop",
    "mcp_notarium.protocol.sdk_server",
    *("httpx", "httpcore", "argon2.low_level"),
)


def make_missing() -> bool:
    """Import what has no bytecode and could have some; False: there was nothing to do."""
    if sys.dont_write_bytecode or not any(map(_lacking, _TOLD_BY)):
        return False
    for name in _LOADED:
        import_module(name)
    return True


def _lacking(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.cached is None or spec.origin is None or Path(spec.cached).exists():
        return False
    return os.access(Path(spec.origin).parent, os.W_OK)
