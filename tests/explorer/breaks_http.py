"""Break the stores that are reached by HTTP on purpose, to see that the explorer finds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import PendingWrite, Tombstone
from mcp_notarium.stores.contract import Acknowledgement, PushStatus
from mcp_notarium.stores.http import Reply
from mcp_notarium.stores.simplenote import store as simplenote_store
from mcp_notarium.stores.simplenote import writes
from mcp_notarium.stores.trilium import note_reader
from mcp_notarium.stores.trilium.note_codec import NoteObject
from mcp_notarium.stores.trilium.writes import NoteWrites
from mcp_notarium.sync import note_fetch


def _cached_answer_is_the_note(set_attribute: Set) -> None:
    async def told(*_args: Any) -> bool:
        return True

    set_attribute(note_fetch, "contradicts", lambda *_args, **_how: False)
    set_attribute(note_fetch, "_is_told", told)


def _any_page_is_a_confirmation(set_attribute: Set) -> None:
    async def read_stored(
        self: writes.NoteWrites, write: PendingWrite, _reply: Reply, *, base: int
    ) -> Acknowledgement:
        head = await self._head_after(write, least=base + 1)
        return writes._acknowledgement(head, PushStatus.STORED, next_version=base + 1)

    set_attribute(writes.NoteWrites, "_read_stored", read_stored)


def _removals_passed_over(set_attribute: Set) -> None:
    changes_from = simplenote_store.changes_from

    def without_removals(*args: Any, **how: Any) -> Any:
        page = changes_from(*args, **how)
        kept = tuple(one for one in page.changes if not isinstance(one, Tombstone))
        return replace(page, changes=kept)

    set_attribute(simplenote_store, "changes_from", without_removals)


class _Anything(str):
    """Equal to whatever it is compared with."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False


def _any_content_is_the_note(set_attribute: Set) -> None:
    set_attribute(note_reader, "blob_id", lambda _content: _Anything())


def _not_compared_before_a_write(set_attribute: Set) -> None:
    async def read_base(self: NoteWrites, note_id: str, _etag: str) -> NoteObject:
        return await self.reader.note(note_id)

    set_attribute(NoteWrites, "_read_base", read_base)


def _not_compared_after_the_revision(set_attribute: Set) -> None:
    read_base, keep = NoteWrites._read_base, NoteWrites._keep_revision
    kept = set[str]()

    async def keep_revision(self: NoteWrites, note_id: str) -> None:
        await keep(self, note_id)
        kept.add(note_id)

    async def read(self: NoteWrites, note_id: str, etag: str) -> NoteObject:
        if note_id not in kept:
            return await read_base(self, note_id, etag)
        kept.discard(note_id)
        return await self.reader.note(note_id)

    set_attribute(NoteWrites, "_keep_revision", keep_revision)
    set_attribute(NoteWrites, "_read_base", read)


def _sent_again_blindly(set_attribute: Set) -> None:
    async def believe(*_args: Any) -> None:
        return

    set_attribute(NoteWrites, "_compare_again", believe)


def _any_page_is_a_removal(set_attribute: Set) -> None:
    async def believe(_self: NoteWrites, _note_id: str) -> None:
        return

    set_attribute(NoteWrites, "_require_absence", believe)


BREAKS: dict[str, Break] = {
    "a cached answer is taken for the note": Break(
        "simplenote over http",
        _cached_answer_is_the_note,
        ("lost", "doubled", "the store [", "have it still", "journal"),
    ),
    "any page confirms a push": Break(
        "simplenote over http, apart",
        _any_page_is_a_confirmation,
        ("lost", "names who has not written"),
    ),
    "the feed's removals are passed over": Break(
        "simplenote over http", _removals_passed_over, ("the store [",)
    ),
    "the hash of a content is not compared": Break(
        "trilium over http", _any_content_is_the_note, ("the store [", "lost")
    ),
    "a note is not compared before a write": Break(
        "trilium over http, apart", _not_compared_before_a_write, ("lost",)
    ),
    "a note is not compared again after its revision": Break(
        "trilium over http, apart", _not_compared_after_the_revision, ("lost",)
    ),
    "a write is sent again without a comparison": Break(
        "trilium over http, apart", _sent_again_blindly, ("lost",)
    ),
    "any page confirms a removal": Break(
        "trilium over http", _any_page_is_a_removal, ("removed for good",)
    ),
}
