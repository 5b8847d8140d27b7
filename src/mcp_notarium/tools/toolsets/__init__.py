"""Find a toolset by its name: ours, or one that is native to a kind of store, alone or beside ours.

One line in ``_NATIVE`` adds a native one. Its names are those of the prepared replies
(``protocol/static_replies.*.json``), made again by ``python -m notarium_devtools.static_replies``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mcp_notarium.tools.catalog import NOTARIUM, TITLED, WITH_PATHS, Toolset
from mcp_notarium.tools.toolsets import note_cards, note_pages, note_tree, plain_notes

_OURS = {"notarium": NOTARIUM, "titled": TITLED, "with_paths": WITH_PATHS}
_NATIVE: Mapping[str, tuple[Callable[[], Toolset], Toolset]] = {
    "plain_notes_pascal": (partial(plain_notes.toolset, "pascal"), TITLED),
    "plain_notes_snake": (partial(plain_notes.toolset, "snake"), TITLED),
    "note_tree": (note_tree.toolset, TITLED),
    "note_pages": (note_pages.toolset, WITH_PATHS),
    "note_cards": (note_cards.toolset, TITLED),
}
"""Name: what makes the toolset, and which of ours may stand beside it."""
_BOTH = "_both"


def toolset_names() -> tuple[str, ...]:
    """Return the name of every toolset."""
    return (*_OURS, *_NATIVE, *(f"{name}{_BOTH}" for name in _NATIVE))


def find_toolset(name: str) -> Toolset:
    """Return the toolset of that name, which is one of :func:`toolset_names`."""
    if name in _OURS:
        return _OURS[name]
    make, ours = _NATIVE[name.removesuffix(_BOTH)]
    native = make()
    return native if not name.endswith(_BOTH) else ours.beside(native)
