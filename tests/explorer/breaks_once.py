"""Break the product again as it was broken once, before the mending; each has to be found, and told in words."""

from __future__ import annotations

from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import PendingWrite, Tombstone, WriteKind
from mcp_notarium.files.locks import Leader
from mcp_notarium.protocol.call_audit import SECONDS, Recording
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.stores.simplenote import change_feed_codec
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.sync.journal import Journal

# Who made it, and what a history has.


def _credited_with_others_text(set_attribute: Set) -> None:
    keep = Journal.keep_replaced
    set_attribute(
        Journal,
        "keep_replaced",
        lambda self, write, storing, *, own: keep(self, write, storing, own=True),
    )


def _ours_not_kept(set_attribute: Set) -> None:
    set_attribute(NoteTable, "mark_written", lambda _self, _note_id, **_how: None)


# Replay.


def _taken_id_taken(set_attribute: Set) -> None:
    record = Journal.record

    def recorded(self: Journal, write: PendingWrite, **how: Any) -> bool:
        return record(self, write, **how) or write.kind is WriteKind.CREATE

    set_attribute(Journal, "record", recorded)


def _read_base_not_flushed(set_attribute: Set) -> None:
    record = Journal.record

    def recorded(self: Journal, write: PendingWrite, *, act: Any, **how: Any) -> bool:
        if act is None:
            return record(self, write, act=act, **how)
        begin = act.transaction
        act.transaction = lambda **_durable: begin(durable=False)
        try:
            return record(self, write, act=act, **how)
        finally:
            del act.transaction

    set_attribute(Journal, "record", recorded)


def _replay_not_flushed(set_attribute: Set) -> None:
    claim = Journal.claim

    def claimed(self: Journal, write: PendingWrite) -> Any:
        found = claim(self, write)
        self._claimed.clear()
        return found

    set_attribute(Journal, "claim", claimed)


# News.


def _made_again_is_removed(set_attribute: Set) -> None:
    combine = change_feed_codec._combine

    def combined(note_id: str, steps: Any, base: Any) -> Any:
        return Tombstone(note_id) if steps[-1].removed else combine(note_id, steps, base)

    set_attribute(change_feed_codec, "_combine", combined)


# Versions, hidden notes, audit, the leader.


def _outcome_after_the_answer(set_attribute: Set) -> None:
    def leave(self: Recording, _kind: Any, _error: Any, _trace: Any) -> None:
        log = self._log or self._recorder.log
        entry = self._entry(log, outcome=self._outcome)
        if self._number and log is not None:
            log.buffer(entry)
            self._recorder.wake(SECONDS)
        else:
            self._recorder.keep(entry)

    set_attribute(Recording, "__exit__", leave)


def _leads_at_once_or_never(set_attribute: Set) -> None:
    acquire = Leader.acquire

    def acquired(self: Leader) -> bool:
        if vars(self).get("refused"):
            return False
        vars(self)["refused"] = not acquire(self)
        return not vars(self)["refused"]

    set_attribute(Leader, "acquire", acquired)


# Stores.


def _compared_before_the_revision(set_attribute: Set) -> None:
    read, keep = TriliumStore._read_base, TriliumStore._keep_revision

    async def kept(self: TriliumStore, note_id: str) -> None:
        await keep(self, note_id)
        vars(self)["compared"] = True

    async def read_base(self: TriliumStore, note_id: str, etag: str) -> Any:
        if vars(self).pop("compared", False):
            return await self._reader.note(note_id)
        return await read(self, note_id, etag)

    set_attribute(TriliumStore, "_keep_revision", kept)
    set_attribute(TriliumStore, "_read_base", read_base)


BREAKS: dict[str, Break] = {
    "a save counts as alone whatever else is in it": Break(
        "simplenote", _credited_with_others_text, ("names who has not written", "lost")
    ),
    "what was saved from here is not kept when others replace it": Break(
        "memento", _ours_not_kept, ("a history lacks",)
    ),
    "a new note takes an id that another has": Break(
        "vault", _taken_id_taken, ("lost", "journal", "the store")
    ),
    "the base that a save has read is not flushed": Break(
        "trilium", _read_base_not_flushed, ("version",)
    ),
    "the end of a repeated write is not flushed": Break(
        "memento", _replay_not_flushed, ("version",)
    ),
    "a note that was made again counts as removed": Break(
        "simplenote over http", _made_again_is_removed, ("the store", "lost", "version")
    ),
    "the outcome is recorded after the answer": Break(
        "simplenote", _outcome_after_the_answer, ("audit chain",)
    ),
    "a server asks once whether it leads": Break(
        "simplenote", _leads_at_once_or_never, ("the store", "journal")
    ),
    "a note is compared before its revision is kept": Break(
        "trilium 0.93 over http", _compared_before_the_revision, ("lost",)
    ),
}
"""By what is broken."""
