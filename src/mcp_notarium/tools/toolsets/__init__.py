"""Find a toolset by its name: ours, or one that is native to a kind of store, alone or beside ours.

A native toolset is a module here with ``toolset(names)``; one line in ``_NATIVE`` adds it. Its names are
those of the prepared replies (``protocol/static_replies.*.json``), made again by
``python -m notarium_devtools.static_replies``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcp_notarium.tools.catalog import NOTARIUM, TITLED, Toolset
from mcp_notarium.tools.toolsets import plain_notes

_OURS = {"notarium": NOTARIUM, "titled": TITLED}
_NATIVE: Mapping[str, tuple[Callable[[str], Toolset], Toolset]] = {
    "plain_notes": (plain_notes.toolset, TITLED),
}
"""Name of a module: its toolset in one spelling of the names, and which of ours may stand beside it."""
_SPELLINGS = ("pascal", "snake")
_BOTH = "_both"


def toolset_names() -> tuple[str, ...]:
    """Return the name of every toolset."""
    native = [f"{module}_{names}" for module in _NATIVE for names in _SPELLINGS]
    return (*_OURS, *native, *(f"{name}{_BOTH}" for name in native))


def find_toolset(name: str) -> Toolset:
    """Return the toolset of that name, which is one of :func:`toolset_names`."""
    if name in _OURS:
        return _OURS[name]
    module, _, names = name.removesuffix(_BOTH).rpartition("_")
    make, ours = _NATIVE[module]
    native = make(names)
    return native if not name.endswith(_BOTH) else ours.beside(native)
