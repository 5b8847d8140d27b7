"""Break on purpose what is kept of notes that others remove, hide, tag or bring back, and what a later question finds.

Each has to be found, and told in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.conflict_copy import copy_write_id
from mcp_notarium.domain.note import PendingWrite, Revision, Tombstone
from mcp_notarium.library.history import History, Version
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.merge_bases import MergeBases
from mcp_notarium.storage.note_ids import NoteNames
from mcp_notarium.stores.memento import store as memento_store
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.write_commit import WriteCommit
from mcp_notarium.sync.write_decisions import Asked, Fact, Held, View
from mcp_notarium.tools import list as note_list
from mcp_notarium.tools import manage
from mcp_notarium.tools.note_lookup import find_note


def _lost_note_dropped(set_attribute: Set) -> None:
    adopt = Cache.adopt

    def forgetful(self: Cache, head: Revision | Tombstone, **_how: bool) -> None:
        adopt(self, head, keeps_lost=False)

    set_attribute(Cache, "adopt", forgetful)


def _met_note_not_followed(set_attribute: Set) -> None:
    set_attribute(Journal, "follow", lambda _self, _revision, *_others: None)


def _tags_not_looked_at(set_attribute: Set) -> None:
    look = HeadReader._look_at_note

    async def looked(self: HeadReader, view: View, asked: Asked) -> View:
        found = await look(self, view, asked)
        head, note = found.head, asked.note
        same = isinstance(head, Revision) and note is not None and head.content.text == note.text
        if Fact.EXACT not in asked.facts or not same or found.case.held is Held.BASE:
            return found
        assert isinstance(head, Revision)
        return (await self._draft(found, head, view.write.content)).holding(Held.BASE)

    set_attribute(HeadReader, "_look_at_note", looked)


def _others_text_counts_as_ours(set_attribute: Set) -> None:
    finish = WriteCommit.finish

    def finished(self: WriteCommit, *given: Any, **how: bool) -> bool:
        return finish(self, *given, **how | {"stored": True})

    set_attribute(WriteCommit, "finish", finished)


def _any_note_is_the_one_made_again(set_attribute: Set) -> None:
    set_attribute(memento_store, "_is_ours", lambda _held, _write: True)


# What a text, an id and an answer are worth.


def _refused_text_dropped(set_attribute: Set) -> None:
    def dropped(self: Journal, write: PendingWrite, _reason: str) -> None:
        self.finish(write)

    set_attribute(Journal, "reject", dropped)


def _two_copies(set_attribute: Set) -> None:
    keep = WriteCommit.keep_as_copy

    def kept(self: WriteCommit, view: View) -> Any:
        committed = keep(self, view)
        if (copy := committed.copy) is not None:
            write_id = copy_write_id(copy.write_id)
            note_id = self._journal.make_id(copy.content, seed=write_id, attempt=1)
            self._journal.add_copy(replace(copy, write_id=write_id, note_id=note_id))
        return committed

    set_attribute(WriteCommit, "keep_as_copy", kept)


def _earlier_ids_forgotten(set_attribute: Set) -> None:
    rename = NoteNames.rename

    def renamed(self: NoteNames, old: str, new: str) -> bool:
        done = rename(self, old, new)
        self._db.run("DELETE FROM note_aliases WHERE alias = ?", (old,))
        return done

    set_attribute(NoteNames, "rename", renamed)


def _former_ids_not_hidden(set_attribute: Set) -> None:
    set_attribute(NoteNames, "seen", lambda _self: [])


def _bases_not_kept(set_attribute: Set) -> None:
    set_attribute(MergeBases, "keep", lambda _self, _pks: None)


def _another_version_told(set_attribute: Set) -> None:
    read = History.read

    async def other(self: History, note_id: str, name: str) -> Version:
        found, versions = await read(self, note_id, name), self._cache.versions
        kept = [versions.get(note_id, one.local_version) for one in versions.of(note_id)]
        texts = [one[1] for one in kept if one and one[1] and one[1] != found.content]
        return replace(found, content=texts[0]) if texts else found

    set_attribute(History, "read", other)


def _first_hit_left_out(set_attribute: Set) -> None:
    rows = note_list._rows

    def others(app: Any, query: Any, notes: Sequence[Any]) -> list[Any]:
        return rows(app, query, notes[1:])

    set_attribute(note_list, "_rows", others)


def _stays_in_the_trash(set_attribute: Set) -> None:
    async def nothing(app: Any, request: Any, _call: Any) -> Any:
        return manage._note_answer(await find_note(app, request.id), "untrashed", said="")

    set_attribute(manage, "_ACTIONS", {**manage._ACTIONS, "untrash": nothing})


BREAKS: dict[str, Break] = {
    "what was saved of a note that is gone goes with it": Break(
        "memento", _lost_note_dropped, ("cannot be made again",)
    ),
    "a rule on an id does not follow what a save has met": Break(
        "vault files, policy changes", _met_note_not_followed, ("what is hidden",)
    ),
    "an undo writes its own list of tags": Break("example", _tags_not_looked_at, ("lost",)),
    "what others wrote counts as written here after a copy": Break(
        "memento", _others_text_counts_as_ours, ("only others have written",)
    ),
    "a note that is back counts as made again": Break(
        "memento files", _any_note_is_the_one_made_again, ("counts as made again",)
    ),
    "a text that the store refuses for good is dropped": Break(
        "simplenote", _refused_text_dropped, ("lost",)
    ),
    "a save has two copies": Break("memento", _two_copies, ("a copy is made twice",)),
    "an id from before means nothing": Break(
        "vault files", _earlier_ids_forgotten, ("means its note no more",)
    ),
    "new rules on an id forget where its note went": Break(
        "vault files, policy changes", _former_ids_not_hidden, ("what is hidden",)
    ),
    "what others have replaced is no base of a merge": Break(
        "memento", _bases_not_kept, ("is refused that fits",)
    ),
    "a version is told as another one": Break(
        "memento", _another_version_told, ("told as another one",)
    ),
    "a search leaves out what it finds first": Break(
        "simplenote", _first_hit_left_out, ("is not found",)
    ),
    "a note stays in the trash": Break("simplenote", _stays_in_the_trash, ("where it was moved",)),
}
"""By what is broken."""
