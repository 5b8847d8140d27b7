"""Break what keeps notes whole where a store answers in parts, wrongly, or something else than it was sent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from explorer.breaks import Break, Set
from mcp_notarium.errors import VersionConflict
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.stores.memento import note_table
from mcp_notarium.stores.trilium.moves import Moves
from mcp_notarium.sync import batch_reader, head_reader, listing_pages, scheduler
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.write_commit import WriteCommit
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


# Notes that seem to be gone, and indexes that are made anew.


def _any_loss_believed(set_attribute: Set) -> None:
    set_attribute(batch_reader, "check_removals", lambda *_lost, **_how: None)


def _loss_of_all_believed(set_attribute: Set) -> None:
    check = batch_reader.check_removals

    def checked(known: int, removed: Any, **how: Any) -> None:
        check(known + 1, removed, **how)

    set_attribute(batch_reader, "check_removals", checked)


class _Unasked:
    """A store of which a reload asks for no listing."""

    def __init__(self, store: Store) -> None:
        self.get = store.get

    async def list_page(self, **_asked: Any) -> None:
        """Ask nobody."""


def _reload_asks_nobody(set_attribute: Set) -> None:
    reload_index = listing_pages.reload_index

    async def reload(cache: Cache, store: Store, act: Act | None = None) -> None:
        await reload_index(cache, cast("Store", _Unasked(store)), act)

    for where in (listing_pages, scheduler):
        set_attribute(where, "reload_index", reload)


def _index_of_another_codec_stays(set_attribute: Set) -> None:
    async def follow(_cache: Cache, _store: Store) -> None:
        return

    set_attribute(batch_reader, "follow_codec", follow)


# Services that rewrite what they are sent.


def _rewritten_text_is_of_others(set_attribute: Set) -> None:
    look = WriteCommit._look_between

    async def looked(self: WriteCommit, given: Any) -> tuple[Held, Any]:
        held, pushed = await look(self, given)
        ours = held is not Held.OURS or self._is_own(pushed.write, pushed.earlier)
        return (held if ours else Held.MET), pushed

    set_attribute(WriteCommit, "_look_between", looked)


def _added_version_is_of_others(set_attribute: Set) -> None:
    set_attribute(WriteCommit, "_is_own", lambda *_seen: False)


# Places in a tree.


def _others_move_is_passed_over(set_attribute: Set) -> None:
    async def both(self: Moves, note_id: str, move: Any) -> Any:
        row = await self.reader.object(note_id, cached=False)
        await self._read_branch(row, move["new"])
        with suppress(VersionConflict):
            return await self._read_branch(row, move["old"])
        return {}

    set_attribute(Moves, "_require_both", both)


def _new_place_not_read_last(set_attribute: Set) -> None:
    require = Moves._require_both

    async def both(self: Moves, note_id: str, move: Any) -> Any:
        try:
            return await require(self, note_id, move)
        except VersionConflict:
            row = await self.reader.object(note_id, cached=False)
            return await self._read_branch(row, move["old"])

    set_attribute(Moves, "_require_both", both)


def _moved_note_need_not_be_reached(set_attribute: Set) -> None:
    async def believe(*_move: Any) -> None:
        return

    set_attribute(Moves, "_require_reachable", believe)


def _old_embedding_stays(set_attribute: Set) -> None:
    set_attribute(note_table, "EMBEDDING", "no such column")


BREAKS: dict[str, Break] = {
    "a new note without its tags counts as made": Break(
        "trilium over http", _created_in_parts_is_whole, ("tags lost",)
    ),
    "an undo goes over a note that looks the same": Break(
        "trilium over http", _undo_over_the_same_text, ("goes over what came since",)
    ),
    "any loss of notes is believed": Break(
        "simplenote, many notes", _any_loss_believed, ("notes go that nobody",)
    ),
    "a store that shows no note is believed": Break(
        "local, many notes", _loss_of_all_believed, ("notes go that nobody",)
    ),
    "an index is emptied without asking the store": Break(
        "simplenote, many notes", _reload_asks_nobody, ("store was not asked",)
    ),
    "an index of another codec stays": Break(
        "example, many notes", _index_of_another_codec_stays, ("not read anew",)
    ),
    "what a service has made of our text counts as somebody's": Break(
        "memento, rewritten", _rewritten_text_is_of_others, ("what the store has made of it",)
    ),
    "a version that a service adds counts as somebody's": Break(
        "simplenote, rewritten", _added_version_is_of_others, ("what the store has made of it",)
    ),
    "a move takes no note of another one": Break(
        "trilium 0.93 over http, moves", _others_move_is_passed_over, ("two places",)
    ),
    "a moved note's new place is not looked at": Break(
        "trilium 0.93 over http, moves", _new_place_not_read_last, ("lost",)
    ),
    "two notes come to stand below each other": Break(
        "trilium 0.93 over http, moves", _moved_note_need_not_be_reached, ("reached from nowhere",)
    ),
    "an embedding of old words stays": Break("memento files", _old_embedding_stays, ("old words",)),
}
