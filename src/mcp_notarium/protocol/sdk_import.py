"""Import the SDK in the parts that are used, and have Python store the bytecode of what a server imports.

The packages ``mcp`` and ``mcp.server`` import the SDK's client, its web server and its decorators when they are
initialized, and every model of the wire is built at once: two fifths of the time and half of the memory (mcp
2.3.0). Here the packages are not initialized, and such a model is built when it is first used. A release of
the SDK that does not permit this is imported as a whole.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Final

_TOLD_BY = ("mcp_notarium.protocol.sdk_server", "mcp", "pydantic", "httpx")
_LOADED = (
    "mcp_notarium.protocol.event_loop",
    "mcp_notarium.protocol.sdk_server",
    "mcp_notarium.account.repair",
    "mcp_notarium.account.rewrite",
    *("httpx", "httpcore", "argon2.low_level"),
)


def make_bytecode() -> None:
    """Import what a server needs if that has no bytecode yet, so that Python writes it now.

    A confined process writes nothing beside the sources, and without bytecode every start compiles some
    hundred modules again. pip compiles what it installs; other installers leave it to the first import.
    Nothing that anybody wrote is read by then.
    """
    if sys.dont_write_bytecode or not any(map(_lacks_bytecode, _TOLD_BY)):
        return
    from mcp_notarium.tools import toolsets  # noqa: PLC0415 - rarely needed

    for name in (*_LOADED, *toolsets.native_modules()):
        import_module(name)  # defence: bytecode-made-first


def _lacks_bytecode(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.cached is None or spec.origin is None or Path(spec.cached).exists():
        return False
    return os.access(Path(spec.origin).parent, os.W_OK)


_UNINITIALIZED: Final = ("mcp", "mcp.server")
_NEEDLESS: Final = ("httpx._main", "uvicorn")
"""What the SDK and the HTTP client import if it is there: a command line, a web server. None in
``sys.modules`` means to Python that it is not there."""
_STARTED: Final = ("mcp.", "mcp_types", "mcp_notarium.protocol.")
"""Beginnings of the names of modules that a failed import may leave."""


def import_sdk() -> None:
    """Import ``sdk_server``, and with it what it needs of the SDK."""
    for module in _NEEDLESS:
        sys.modules[module] = None  # type: ignore[assignment]
    if "mcp" in sys.modules:
        _import_server()
        return
    before = set(sys.modules)
    try:
        for package in _UNINITIALIZED:
            spec = find_spec(package)
            assert spec is not None  # noqa: S101 - it is a dependency
            sys.modules[package] = module_from_spec(spec)
        from mcp_types._wire_base import WireModel  # noqa: PLC0415 - the order matters

        WireModel.model_config["defer_build"] = True
        _import_server()
    except (ImportError, AttributeError):
        for name in set(sys.modules) - before:
            if name == "mcp" or name.startswith(_STARTED):
                del sys.modules[name]
        _import_server()


def _import_server() -> None:
    from mcp_notarium.protocol import sdk_server  # noqa: F401, PLC0415 - imported to be there
