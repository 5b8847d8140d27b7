"""Break acts on many notes and on older versions on purpose, to see that the explorer finds it.

A break is a world, a function that makes it by a ``setattr`` such as that of a ``MonkeyPatch``, and words that the
fault found must contain, one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mcp_notarium.errors import NotariumError
from mcp_notarium.stores.vault import canvases
from mcp_notarium.sync import link_writes, write_attempt
from mcp_notarium.tools import bulk, bulk_changes, history, tags

Set = Callable[[Any, str, Any], None]
Break = tuple[str, Callable[[Set], None], tuple[str, ...]]


def _refused_note_counts_as_done(set_attribute: Set) -> None:
    save = bulk._Run._save

    async def hopeful(run: Any, note_id: str) -> str | None:
        try:
            return await save(run, note_id)
        except NotariumError:
            return note_id

    set_attribute(bulk._Run, "_save", hopeful)


def _other_tags_dropped(set_attribute: Set) -> None:
    renamed = tags.renamed

    def alone(held: Any, old: str, new: str) -> tuple[str, ...]:
        made = renamed(held, old, new)
        return made if made == tuple(held) else (new,)

    set_attribute(bulk_changes, "renamed", alone)


def _present_text_restored(set_attribute: Set) -> None:
    async def stays(_app: Any, note: Any, _content: Any, _old: Any, goal: Any, **_how: Any) -> Any:
        goal.content = note.content
        return note.content

    set_attribute(history, "_as_it_was", stays)


def _links_not_finished(set_attribute: Set) -> None:
    make = link_writes.make_link_writes
    set_attribute(write_attempt, "make_link_writes", lambda *args: make(*args)[:1])


def _cards_not_finished(set_attribute: Set) -> None:
    async def finish(self: Any) -> None:
        for key, _ in self._cache.sync_state.card_moves():
            self._cache.sync_state.drop_card_move(key)

    set_attribute(link_writes.CardMoves, "finish", finish)


def _canvas_not_compared(set_attribute: Set) -> None:
    replacing = canvases.replacing

    @contextmanager
    def silent(*args: Any, held: Any, **how: Any) -> Iterator[Any]:
        with replacing(*args, held=held, **how) as replaced:
            yield replace(replaced, displaced=held)

    set_attribute(canvases, "replacing", silent)


def _links_of_an_undo_stay(set_attribute: Set) -> None:
    with_links = history.with_links

    async def without(app: Any, note: Any, content: Any, **how: Any) -> Any:
        return await with_links(app, note, content, **(how | {"wanted": False}))

    set_attribute(history, "with_links", without)


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
    "cards are not moved after a kill": (
        "vault files, links",
        _cards_not_finished,
        ("cards show",),
    ),
    "what is written on a canvas is not compared": (
        "vault files, links",
        _canvas_not_compared,
        ("on the canvas", "cards show"),
    ),
    "an undo of a renaming leaves the links": (
        "vault files, links",
        _links_of_an_undo_stay,
        ("leads to", "cards show"),
    ),
    "one note alone follows a renaming": ("vault files, links", _links_not_finished, ("leads to",)),
    "a renamed tag takes the others away": ("simplenote", _other_tags_dropped, ("tags lost",)),
}
"""By what is broken."""
