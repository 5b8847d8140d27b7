"""Run the program with one more store in its registry: ``python other_store.py NAME MODULE ARGUMENTS``."""

from __future__ import annotations

import sys
from pathlib import Path


def command(name: str, module: str) -> list[str]:
    """The command that knows the store of this module."""
    return [sys.executable, __file__, name, module]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    # In a fork the package is there already, and has read the registry.
    for known in [one for one in sys.modules if one.partition(".")[0] == "mcp_notarium"]:
        del sys.modules[known]
    from mcp_notarium.stores import registry

    name, module = sys.argv.pop(1), sys.argv.pop(1)
    registry._MODULES[name] = module
    from mcp_notarium.__main__ import main

    sys.exit(main())
