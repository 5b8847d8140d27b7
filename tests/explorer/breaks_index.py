"""Break what is kept beside the texts of notes: words of the search, totals, numbers of versions, copies."""

from __future__ import annotations

from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import Tombstone, WriteKind
from mcp_notarium.storage import note_table
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.sync.write_commit import WriteCommit


def _words_stay(set_attribute: Set) -> None:
    update = FtsIndex.update

    def updated(self: FtsIndex, *, replaced: Any, written: Any) -> Any:
        return update(
            self, replaced=[one for one in replaced if one not in written], written=written
        )

    set_attribute(FtsIndex, "update", updated)


def _new_notes_not_counted(set_attribute: Set) -> None:
    set_attribute(note_table, "_COUNT_NEW", "UPDATE note_counts SET active = active + 0 * (? + ?)")


def _numbers_from_the_beginning(set_attribute: Set) -> None:
    def removed(self: NoteTable, pks: list[int]) -> None:
        self._db.run_many("DELETE FROM notes WHERE pk = ?", [(pk,) for pk in pks])

    set_attribute(NoteTable, "_remove", removed)


def _removed_at_the_next_cycle(set_attribute: Set) -> None:
    finish = WriteCommit.finish

    def finished(self: WriteCommit, write: Any, storing: Any, *args: Any, **how: bool) -> bool:
        if write.kind is WriteKind.DELETE and isinstance(storing, Tombstone):
            return self._journal.finish(write)
        return finish(self, write, storing, *args, **how)

    set_attribute(WriteCommit, "finish", finished)


# What the journal and the process keep.


def _copy_not_recorded(set_attribute: Set) -> None:
    finish = WriteCommit.finish

    def finished(
        self: WriteCommit, write: Any, storing: Any, follow_ups: Any = (), **how: bool
    ) -> bool:
        left = [one for one in follow_ups if not one.copied]
        return finish(self, write, storing, left, **how)

    set_attribute(WriteCommit, "finish", finished)


BREAKS: dict[str, Break] = {
    "words of a changed note stay in the search": Break(
        "simplenote", _words_stay, ("cannot be read", "does not fit to its notes")
    ),
    "new notes are not counted": Break("memento", _new_notes_not_counted, ("it counts",)),
    "a note that comes back has versions from the beginning": Break(
        "memento files, removals", _numbers_from_the_beginning, ("two contents",)
    ),
    "a note that was removed for good is shown until the next cycle": Break(
        "vault files", _removed_at_the_next_cycle, ("still has", "the store")
    ),
    "a conflict copy is sent that is not recorded": Break(
        "memento", _copy_not_recorded, ("text is lost",)
    ),
}
