"""Break the product in small ways that no single answer shows; each has to be found, and told in words."""

from __future__ import annotations

from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.audit.chain import OK
from mcp_notarium.domain.note import Content, PendingWrite, Tombstone
from mcp_notarium.library.history import History
from mcp_notarium.protocol.call_audit import Recording
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.sync import write_attempt
from mcp_notarium.sync.journal import Journal


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
}
"""By what is broken."""
