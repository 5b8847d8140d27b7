"""Break what is kept beside the texts of notes: words of the search, totals, numbers of versions, copies, ends, names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import NONE, Content, Tombstone, WriteKind
from mcp_notarium.library.history import History
from mcp_notarium.storage import note_table
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.sync.journal import Journal
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


def _left_end_not_flushed(set_attribute: Set) -> None:
    set_attribute(Journal, "leave", lambda _self, _write: None)


# Names.


def _no_version_of_its_own(set_attribute: Set) -> None:
    def renamed(self: NoteTable, old: str, new: str) -> None:
        if self.names.rename(old, new):
            self.links.rename(new)

    set_attribute(NoteTable, "rename", renamed)


def _taken_names_counted(set_attribute: Set) -> None:
    def made(self: Journal, content: Any, *, seed: str, attempt: int) -> str:
        return self._store.new_id(content, seed=seed, attempt=attempt)

    set_attribute(Journal, "make_id", made)


def _links_go_on(set_attribute: Set) -> None:
    set_attribute(JournalTable, "drop_following", lambda _self, _write_id: None)


def _hidden_versions_listed(set_attribute: Set) -> None:
    set_attribute(History, "_hides", lambda _self, _revision: False)


def _properties_not_judged(set_attribute: Set) -> None:
    find_rule_of = VisibilityFilter.find_rule_of

    def found(self: VisibilityFilter, note_id: str, content: Content, **how: Any) -> str | None:
        return find_rule_of(self, note_id, replace(content, properties=NONE), **how)

    set_attribute(VisibilityFilter, "find_rule_of", found)


def _unclear_tags_not_judged(set_attribute: Set) -> None:
    find_rule_of = VisibilityFilter.find_rule_of

    def found(self: VisibilityFilter, *args: Any, **how: Any) -> str | None:
        return find_rule_of(self, *args, **how | {"clear": True})

    set_attribute(VisibilityFilter, "find_rule_of", found)


def _copies_not_judged(set_attribute: Set) -> None:
    set_attribute(Journal, "shows", lambda *_args, **_how: False)


BREAKS: dict[str, Break] = {
    "a property hides nothing": Break(
        "simplenote, hidden", _properties_not_judged, ("hidden text is shown",)
    ),
    "tags that nobody understands hide nothing": Break(
        "trilium over http, hidden", _unclear_tags_not_judged, ("hidden text is shown",)
    ),
    "a conflict copy says what is hidden in its note": Break(
        "trilium, hidden", _copies_not_judged, ("hidden text is shown",)
    ),
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
    "a renaming gives no version of its own": Break(
        "vault", _no_version_of_its_own, ("two contents",)
    ),
    "a new note gets the next name if a hidden one has its own": Break(
        "vault files, hidden", _taken_names_counted, ("betrays a hidden note",)
    ),
    "links are written though their note is not renamed": Break(
        "vault files, links", _links_go_on, ("leads to",)
    ),
    "a history shows versions that were hidden": Break(
        "simplenote, hidden", _hidden_versions_listed, ("hidden text is shown",)
    ),
    "the end of a write whose caller has left is not flushed": Break(
        "trilium", _left_end_not_flushed, ("two contents",)
    ),
}
