"""Record a write, send it, and answer its caller.

``writer`` and ``updater`` decide what to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision
from mcp_notarium.errors import IdTaken, NoteNotFound
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.sync.direct_write import DirectWriter
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.push import NOT_STORED, Pusher
from mcp_notarium.sync.push_results import PushOutcome, PushResult
from mcp_notarium.sync.write_errors import (
    NOT_SAVED,
    add_outcome,
    collision_error,
    out_of_sight_error,
)


@dataclass(frozen=True, slots=True)
class Saved:
    """Hold the note as it is in the index now.

    ``relinked``: the notes in which links were rewritten; ``waiting``: those in which they are to be.
    ``canvases``: those whose cards follow the note; ``canvases_waiting``: those whose cards are to follow it.
    ``merged``: somebody else's change is in it too. ``copy_id``: the same lines were changed elsewhere at
    the same moment, so our text is kept in that note. ``differs``: see ``PushResult``.
    """

    note: Note
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""
    relinked: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    canvases: tuple[str, ...] = ()
    canvases_waiting: tuple[str, ...] = ()


class WriteSender:
    """Make the first attempt of single writes; ``entry_replay`` makes the later ones."""

    def __init__(
        self, cache: Cache, *, journal: Journal, pusher: Pusher, direct: DirectWriter | None
    ) -> None:
        self._cache = cache
        self._journal = journal
        self._pusher = pusher
        self._direct = direct

    async def record_and_send(
        self,
        write: PendingWrite,
        act: Act | None,
        *,
        base: Revision | None = None,
        seen: str | None = None,
        following: Sequence[PendingWrite] = (),
    ) -> PushResult | None:
        """Record a change of ``base`` (None: a creation) and send it; None: see :meth:`Journal.record`.

        None as well if a note in the same database has the id.
        """
        if self._direct is None and not await self._pusher.record(
            write, act=act, base=base, seen=seen, following=following
        ):
            return None
        try:
            if self._direct is not None:
                stored = self._direct.push(write, act, base=base)
                return PushResult(PushOutcome.STORED, stored.id)
            if base is None:
                return await self._pusher.create(write)
            return await self._pusher.send(write, base=base.content)
        except NOT_STORED as error:
            if self._direct is None:
                self._pusher.drop(write)
            elif isinstance(error, IdTaken):
                return None
            raise add_outcome(error, NOT_SAVED) from None

    def make_saved(
        self, result: PushResult, content: Content, *, merged: bool = False, created: bool = False
    ) -> Saved:
        """Answer a caller who has asked for ``content``. Raises if the store does not hold or show it."""
        note_id = result.note_id
        note = self._cache.notes.get(note_id)
        if note is None and self._cache.notes.visibility.rules.has_rules:
            raise out_of_sight_error(note_id, stored=created and result.stored)
        if not result.stored:
            raise collision_error(note_id, refused=result.outcome is PushOutcome.REFUSED)
        if note is None:
            raise NoteNotFound(
                "the note was removed right after it was saved", details={"id": note_id}
            )
        copy_id = result.copy_id
        if copy_id is not None and self._cache.notes.visibility.rules.has_rules:
            copy_id = copy_id if self._cache.notes.get(copy_id) else None
        merged = (merged or result.merged) and note.content != content
        return Saved(note, merged=merged, copy_id=copy_id, differs=result.differs)
