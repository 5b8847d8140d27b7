"""Import the SDK without the parts of it that a server over stdio never uses.

The packages ``mcp`` and ``mcp.server`` import the SDK's client, its web server and its decorators when they are
initialized, and every model of the wire is built at once: two fifths of the time and half of the memory (mcp
2.3.0). Here the packages are not initialized, and such a model is built when it is first used. A release of
the SDK that does not permit this is imported as a whole.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from typing import Final

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
