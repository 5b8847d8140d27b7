"""Break the product in small ways that no single answer shows; each has to be found, and told in words."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.audit.chain import OK
from mcp_notarium.domain.note import Content, PendingWrite, Tombstone
from mcp_notarium.files.locks import Leader
from mcp_notarium.library.history import History
from mcp_notarium.protocol.call_audit import Recording
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.sync import write_attempt, write_commit
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.write_decisions import View


def _any_entry_is_free(set_attribute: Set) -> None:
    claim = Journal.claim

    def claimed(self: Journal, write: PendingWrite) -> Any:
        self._owner_ended = lambda _owner: True
        return claim(self, write)

    set_attribute(Journal, "claim", claimed)
    set_attribute(Journal, "can_claim", lambda _self, _write: True)


def _hidden_while_it_was_fetched(set_attribute: Set) -> None:
    set_attribute(Journal, "sees_revision", lambda _self, _revision: True)
    set_attribute(VisibilityFilter, "find_rule", lambda _self, _revision: None)


def _direct_removal_ignored(set_attribute: Set) -> None:
    apply = NoteTable.apply

    def applied(self: NoteTable, changes: Any, **how: bool) -> Any:
        kept = list(changes)
        alone = len(kept) == 1 and isinstance(kept[0], Tombstone)
        return apply(self, [] if alone else kept, **how)

    set_attribute(NoteTable, "apply", applied)


def _no_end_after_an_error(set_attribute: Set) -> None:
    leave = Recording.__exit__

    def left(self: Recording, kind: Any, error: Any, trace: Any) -> None:
        if self._outcome == OK or not self._number:
            leave(self, kind, error, trace)

    set_attribute(Recording, "__exit__", left)


def _merged_from_what_is_there_now(set_attribute: Set) -> None:
    async def content_at(self: History, note_id: str, _local_version: int) -> Content | None:
        note = self._cache.notes.get(note_id)
        return None if note is None else note.content

    set_attribute(History, "content_at", content_at)


def _merge_not_told(set_attribute: Set) -> None:
    set_attribute(write_attempt, "_told", lambda result, _asked, _head: result)


def _every_process_leads(set_attribute: Set) -> None:
    set_attribute(Leader, "acquire", lambda _self: True)


def _displaced_under_another_dropped(set_attribute: Set) -> None:
    settle = write_commit.settle

    def settled(**how: Any) -> Any:
        return settle(**(how | {"displaced": None} if how["held"] != how["sent"] else how))

    set_attribute(write_commit, "settle", settled)


class _ShowsAny:
    """Stand for a journal whose rules show whatever comes of a merge."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def sees(self, _note_id: str, _content: Content) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


def _last_tag_merged_away(set_attribute: Set) -> None:
    look = HeadReader._look_at_note

    async def looked(self: HeadReader, view: Any, asked: Any) -> Any:
        reader: Any = copy(self)
        reader._journal = _ShowsAny(self._journal)
        return await look(reader, view, asked)

    set_attribute(HeadReader, "_look_at_note", looked)


def _recorded_over_news(set_attribute: Set) -> None:
    record = Journal.record

    def recorded(self: Journal, view: View, *how: Any) -> PendingWrite | None:
        now = self._cache.standing(view.write.note_id)[0]
        return record(self, replace(view, seen=now), *how)

    set_attribute(Journal, "record", recorded)


def _rebased_whoever_has_it(set_attribute: Set) -> None:
    rebase = Journal.rebase

    def rebased(self: Journal, write: PendingWrite, **how: Any) -> PendingWrite | None:
        entry, own = self._cache.journal.get(write.write_id), self.owner
        self.owner = own if entry is None else entry.owner
        try:
            return rebase(self, write, **how)
        finally:
            self.owner = own

    set_attribute(Journal, "rebase", rebased)


def _older_by_its_date(set_attribute: Set) -> None:
    apply = NoteTable.apply

    def is_news(table: NoteTable, change: Any) -> bool:
        base = table.base(change.id)
        if base is None or isinstance(change, Tombstone):
            return True
        return bool(change.modified_at > base.modified_at - 60)

    def applied(self: NoteTable, changes: Any, **how: bool) -> Any:
        return apply(self, [one for one in changes if is_news(self, one)], **how)

    set_attribute(NoteTable, "apply", applied)


BREAKS: dict[str, Break] = {
    "a merge is not told": Break(
        "simplenote, apart", _merge_not_told, ("does not tell that it is merged",)
    ),
    "the lease of an entry is not respected": Break(
        "trilium",
        _any_entry_is_free,
        ("lost", "doubled", "journal", "the store", "nobody planned", "version"),
    ),
    "a note that was hidden while it was fetched is shown": Break(
        "simplenote, hidden", _hidden_while_it_was_fetched, ("hidden", "the store")
    ),
    "a removal that comes alone is ignored": Break(
        "simplenote", _direct_removal_ignored, ("the store", "removed for good")
    ),
    "a call that fails has no end in the audit chain": Break(
        "simplenote", _no_end_after_an_error, ("audit chain",)
    ),
    "a late save is merged from what is there now": Break(
        "simplenote", _merged_from_what_is_there_now, ("lost", "names who has not written")
    ),
    "what has an older date is taken for older": Break(
        "simplenote, apart", _older_by_its_date, ("the store [",)
    ),
    "every process leads": Break("simplenote", _every_process_leads, ("of a computer sync",)),
    "a merge takes the last tag that shows a note": Break(
        "memento, shown by tags", _last_tag_merged_away, ("hides its note",)
    ),
    "a save is recorded over what the index has learned": Break(
        "simplenote", _recorded_over_news, ("goes back",)
    ),
    "an entry that another has taken over is recorded anew": Break(
        "trilium, handed over", _rebased_whoever_has_it, ("taken from who works on it",)
    ),
    "what a save displaced is dropped if another came over it": Break(
        "trilium", _displaced_under_another_dropped, ("lost",)
    ),
}
"""By what is broken."""
