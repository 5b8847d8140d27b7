"""Break what keeps notes whole where a store answers in parts, wrongly, or something else than it was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.sync import head_reader
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.write_decisions import Asked, Fact, Held, View


def _created_in_parts_is_whole(set_attribute: Set) -> None:
    held_for_creation = head_reader.held_for_creation

    def held(head: Any, sent: Any, *, others: bool, in_parts: bool = False) -> Held:
        del in_parts
        return held_for_creation(head, sent, others=others)

    set_attribute(head_reader, "held_for_creation", held)


def _undo_over_the_same_text(set_attribute: Set) -> None:
    look = HeadReader._look_at_note

    async def looked(self: HeadReader, view: View, asked: Asked) -> View:
        loose = await look(self, view, replace(asked, facts=asked.facts - {Fact.EXACT}))
        return loose if loose.case.held is Held.BASE else await look(self, view, asked)

    set_attribute(HeadReader, "_look_at_note", looked)


BREAKS: dict[str, Break] = {
    "a new note without its tags counts as made": Break(
        "trilium over http", _created_in_parts_is_whole, ("tags lost",)
    ),
    "an undo goes over a note that looks the same": Break(
        "trilium over http", _undo_over_the_same_text, ("goes over what came since",)
    ),
}
