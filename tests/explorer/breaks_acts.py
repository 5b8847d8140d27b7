"""Break acts on many notes and on older versions on purpose, to see that the explorer finds it.

A break is a world, a function that makes it by a ``setattr`` such as that of a ``MonkeyPatch``, and words that the
fault found must contain, one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_notarium.errors import NotariumError
from mcp_notarium.tools import history, tags

Set = Callable[[Any, str, Any], None]
Break = tuple[str, Callable[[Set], None], tuple[str, ...]]


def _refused_note_counts_as_done(set_attribute: Set) -> None:
    save = tags._save

    async def hopeful(*args: Any, **how: Any) -> bool:
        try:
            return await save(*args, **how)
        except NotariumError:
            return True

    set_attribute(tags, "_save", hopeful)


def _other_tags_dropped(set_attribute: Set) -> None:
    renamed = tags.renamed

    def alone(held: Any, old: str, new: str) -> tuple[str, ...]:
        made = renamed(held, old, new)
        return made if made == tuple(held) else (new,)

    set_attribute(tags, "renamed", alone)


def _present_text_restored(set_attribute: Set) -> None:
    async def stays(_app: Any, note: Any, _content: Any, _old: Any, goal: Any, **_how: Any) -> Any:
        goal.content = note.content
        return note.content

    set_attribute(history, "_as_it_was", stays)


BREAKS: dict[str, Break] = {
    "a note that was refused counts as renamed": (
        "vault",
        _refused_note_counts_as_done,
        ("have it still",),
    ),
    "the present text counts as restored": (
        "simplenote",
        _present_text_restored,
        ("has restored",),
    ),
    "a renamed tag takes the others away": ("simplenote", _other_tags_dropped, ("tags lost",)),
}
"""By what is broken."""
