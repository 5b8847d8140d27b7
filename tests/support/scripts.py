"""Import the scripts of the project as modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[2] / "scripts"


@contextmanager
def script(name: str) -> Iterator[ModuleType]:
    """``scripts/name.py``, imported afresh with those beside it, and forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield import_module(name)
    finally:
        sys.path.remove(str(SCRIPTS))
        for new in set(sys.modules) - before:
            if Path(getattr(sys.modules[new], "__file__", None) or "/").parent == SCRIPTS:
                del sys.modules[new]
