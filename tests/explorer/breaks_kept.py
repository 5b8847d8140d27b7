"""Break on purpose what stays of notes that others remove, hide, tag or bring back; each has to be found, and told in words."""

from __future__ import annotations

from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.memento import store as memento_store
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.write_commit import WriteCommit
from mcp_notarium.sync.write_decisions import Asked, Fact, Held, View


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
}
"""By what is broken."""
