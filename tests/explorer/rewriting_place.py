"""Keep the notes of a run in a service that makes something else of what it is sent, each time or in a version after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from explorer.place import MemoryPlace
from mcp_notarium.stores.contract import Traits
from support.memory_store import Fields

if TYPE_CHECKING:
    from explorer.world import World

_ADDED = "kept by the service"
_AS_IT_IS = "stores what it is sent"
_AGAIN = "and once more"


def _without_end(text: str) -> str:
    return text.rstrip("\n")


def _with_a_line(text: str) -> str:
    return text if _ADDED in text else f"{text}\n{_ADDED}\n"


def _with_another_line(text: str) -> str:
    return text if text.endswith(_AGAIN) else f"{text}\n{_AGAIN}"


_HOW: dict[str, tuple[Callable[[str], str], Callable[[str], str] | None]] = {
    _AS_IT_IS: (str, None),
    "drops the last line's end": (_without_end, None),
    "adds a line": (_with_a_line, None),
    "drops the end in a second version": (str, _without_end),
    "adds a line in a second version": (str, _with_a_line),
    "adds a line in both versions": (_with_another_line, _with_another_line),
}


class RewritingPlace(MemoryPlace):
    """One that does so until all is calm: what a person is told of a save need not be what they sent."""

    def __init__(self, world: World, traits: Traits) -> None:
        super().__init__(world, traits)
        self._how = ""
        self.store.rewrite = self._rewrite

    def _rewrite(self, fields: Fields) -> Fields:
        world = self._world
        if not self._how and not world.chooser.mute:
            self._how = world.chooser.among("what the service does", [*_HOW], rate=0.8)
        first, second = _HOW[self._how] if self._how and not world.calm else (str, None)
        world.oracle.rewritten = self._how not in ("", _AS_IT_IS)
        self.store.afterwards = None if second is None else lambda one: _made(one, second)
        return _made(fields, first)


def _made(fields: Fields, change: Callable[[str], str]) -> Fields:
    return fields | {"text": change(fields["text"])}
