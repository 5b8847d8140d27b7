"""Break the product again as it was broken once, before the mending; each has to be found, and told in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import PendingWrite, Tombstone, WriteKind
from mcp_notarium.files.locks import Leader
from mcp_notarium.protocol.call_audit import SECONDS, Recording
from mcp_notarium.storage.kept_versions import KeptVersions
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.stores.simplenote import change_feed_codec
from mcp_notarium.stores.simplenote.writes import NoteWrites as SimplenoteWrites
from mcp_notarium.stores.trilium.note_codec import NoteObject
from mcp_notarium.stores.trilium.note_reader import NoteReader
from mcp_notarium.stores.trilium.writes import NoteWrites as TriliumWrites
from mcp_notarium.stores.vault import canvases, note_codec
from mcp_notarium.stores.vault.note_writer import NoteWriter
from mcp_notarium.sync import head_reader, note_fetch, write_commit
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.write_commit import WriteCommit
from mcp_notarium.sync.write_decisions import View

# Who made it, and what a history has.


def _credited_with_others_text(set_attribute: Set) -> None:
    keep = KeptVersions.keep_replaced
    set_attribute(
        KeptVersions,
        "keep_replaced",
        lambda self, write, storing, *, own: keep(self, write, storing, own=True),
    )


def _ours_not_kept(set_attribute: Set) -> None:
    apply = NoteTable.apply

    def applied(self: NoteTable, changes: Any, *, kept: bool = False, **_how: bool) -> Any:
        return apply(self, changes, kept=kept)

    set_attribute(NoteTable, "apply", applied)
    set_attribute(NoteTable, "mark_written", lambda _self, _note_id: None)


# Replay.


def _taken_id_taken(set_attribute: Set) -> None:
    record = Journal.record

    def recorded(self: Journal, view: View, act: Any, following: Any) -> PendingWrite | None:
        new = view.write if view.write.kind is WriteKind.CREATE else None
        return record(self, view, act, following) or new

    set_attribute(Journal, "record", recorded)


def _read_base_not_flushed(set_attribute: Set) -> None:
    record = Journal.record

    def recorded(self: Journal, view: View, act: Any, following: Any) -> PendingWrite | None:
        if act is None:
            return record(self, view, act, following)
        begin = act.transaction
        act.transaction = lambda **_durable: begin(durable=False)
        try:
            return record(self, view, act, following)
        finally:
            del act.transaction

    set_attribute(Journal, "record", recorded)


def _replay_not_flushed(set_attribute: Set) -> None:
    claim = Journal.claim

    def claimed(self: Journal, write: PendingWrite) -> Any:
        found = claim(self, write)
        self._ends_flushed.clear()
        return found

    set_attribute(Journal, "claim", claimed)


def _kept_by_each(set_attribute: Set) -> None:
    keep = KeptVersions.keep_replaced

    def kept(self: KeptVersions, write: PendingWrite, storing: Any, *, own: bool) -> bool:
        base = self._cache.notes.base(write.note_id)
        known = write if base is None else replace(write, base_etag=base.etag)
        return keep(self, known, storing, own=own)

    set_attribute(KeptVersions, "keep_replaced", kept)


def _lacking_tags_not_looked_for(set_attribute: Set) -> None:
    async def nothing(*_asked: Any) -> tuple[bool, None]:
        return False, None

    set_attribute(HeadReader, "_look_since", nothing)


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


def _gone_after_one_answer(set_attribute: Set) -> None:
    async def ask_once(self: NoteReader, note_id: str, *, cached: bool = True) -> NoteObject:
        return await self.note(note_id, cached=cached)

    set_attribute(NoteReader, "note_or_gone", ask_once)


def _deletion_sent_again_blindly(set_attribute: Set) -> None:
    async def believe(*_args: Any) -> None:
        return

    set_attribute(TriliumWrites, "_compare_deletion", believe)


def _displaced_lost_if_not_moved(set_attribute: Set) -> None:
    change, move = NoteWriter._change, NoteWriter._move
    failed: list[Exception] = []

    def moved(self: NoteWriter, *given: Any, **how: Any) -> Any:
        try:
            return move(self, *given, **how)
        except Exception as error:
            failed.append(error)
            raise

    def changed(self: NoteWriter, *given: Any) -> Any:
        failed.clear()
        answer = change(self, *given)
        if failed:
            raise failed.pop()
        return answer

    set_attribute(NoteWriter, "_move", moved)
    set_attribute(NoteWriter, "_change", changed)


def _repeated_over_the_base_of_now(set_attribute: Set) -> None:
    push = SimplenoteWrites.push

    async def forgetful(self: SimplenoteWrites, write: PendingWrite) -> Any:
        return await push(self, replace(write, first_etag=None))

    set_attribute(SimplenoteWrites, "push", forgetful)


def _another_note_is_a_contradiction(set_attribute: Set) -> None:
    async def read(cache: Any, store: Any, note_id: str) -> Any:
        found, other = await note_fetch.get_for_replay(cache, store, note_id)
        if other:
            raise note_fetch._contradiction_error()
        return found, False

    set_attribute(head_reader, "get_for_replay", read)


def _refused_canvas_given_up(set_attribute: Set) -> None:
    move = canvases.move_cards_in
    set_attribute(canvases, "move_cards_in", lambda *given: bool(move(*given)))


def _tags_below_lines_dropped(set_attribute: Set) -> None:
    set_attribute(note_codec, "_tags_below", lambda _old, _text, _tags: [])


def _repairs_that_meet_doubled(set_attribute: Set) -> None:
    settle = write_commit.settle

    def settled(**how: Any) -> Any:
        met = how["displaced"] is not None and how["held"] != how["sent"]
        return settle(**(how | {"once": False} if met else how))

    set_attribute(write_commit, "settle", settled)


def _put_back_lines_repeated(set_attribute: Set) -> None:
    settle = WriteCommit._settle

    def settled(self: WriteCommit, pushed: Any, *, once: bool) -> Any:
        return settle(self, pushed, once=once and not pushed.repeated)

    set_attribute(WriteCommit, "_settle", settled)


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
    "a write has no end when its note was made again": Break(
        "simplenote over http, apart", _another_note_is_a_contradiction, ("the store",)
    ),
    "the outcome is recorded after the answer": Break(
        "simplenote", _outcome_after_the_answer, ("audit chain",)
    ),
    "what a write has replaced is kept by each that finishes it": Break(
        "trilium over http", _kept_by_each, ("has replaced what it has made",)
    ),
    "a server asks once whether it leads": Break(
        "simplenote", _leads_at_once_or_never, ("the store", "journal")
    ),
    "a deletion is sent again without a comparison": Break(
        "trilium over http, removals", _deletion_sent_again_blindly, ("lost",)
    ),
    "what was displaced is lost if the file cannot be moved": Break(
        "vault files, trash", _displaced_lost_if_not_moved, ("lost",)
    ),
    "a canvas that the disk refuses is given up": Break(
        "vault files, links", _refused_canvas_given_up, ("cards show",)
    ),
    "tags that a repeated write has cost a note stay away": Break(
        "simplenote over http, apart",
        _lacking_tags_not_looked_for,
        ("tag that was renamed", "tags lost"),
    ),
    "a note of Trilium is gone after one answer": Break(
        "trilium over http, removals", _gone_after_one_answer, ("removed for good",)
    ),
    "a write that was done and undone has no end": Break(
        "simplenote over http, apart", _repeated_over_the_base_of_now, ("journal",)
    ),
    "tags below lines that another program writes are dropped": Break(
        "vault files", _tags_below_lines_dropped, ("lost",)
    ),
    "a line that repairs bring stands there twice": Break(
        "trilium, apart", _repairs_that_meet_doubled, ("doubled",)
    ),
    "a repeated write repeats what others have put back for it": Break(
        "example, apart", _put_back_lines_repeated, ("doubled",)
    ),
}
"""By what is broken."""
