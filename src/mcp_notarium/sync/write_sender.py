"""Record a write, send it or store it in one transaction, and answer its caller.

``writer`` and ``updater`` decide what to send.

The transaction holds the note, what the index has of it, the version that it replaces, and the record that
the call begins. Nothing is sent, so nothing can be in doubt: no journal entry is made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone
from mcp_notarium.errors import IdTaken, NotariumError, NoteNotFound, StoreRejected
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import PushStatus, Store
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.push import NOT_STORED, Pusher
from mcp_notarium.sync.push_decisions import PushOutcome, PushResult
from mcp_notarium.sync.write_errors import (
    NOT_SAVED,
    add_outcome,
    collision_error,
    out_of_sight_error,
)

_Result = TypeVar("_Result")


class DirectWriter:
    """Store and remove notes directly. Every error means that nothing was changed."""

    def __init__(
        self, cache: Cache, store: Store, journal: Journal, *, on_step: Callable[[str], None]
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._on_step = on_step

    def push(self, write: PendingWrite, act: Act | None, *, base: Revision | None) -> Revision:
        """Store a CREATE, or an UPDATE of ``base``, and keep what it replaces as a version.

        Return what the store holds now. Raises what ``Store.push`` and :meth:`Journal.require_room` raise.
        """
        with self._transaction(act):
            self._journal.require_room(write)
            answer = run_at_once(self._store.push(write))
            stored, own = answer.revision, answer.status is not PushStatus.UNCHANGED
            self._cache.notes.apply([base] if base is not None else [])
            entry = replace(write, client=act.client) if act is not None else write
            self._journal.keep_replaced(entry, [stored], own=own)
            self._cache.notes.apply([stored])
        return stored

    def create_all(self, writes: Sequence[PendingWrite]) -> list[NotariumError | None]:
        """Store CREATEs in one transaction; return for each why the store did not take it, None if it did.

        Every other error is raised, and nothing was stored.
        """
        refused: list[NotariumError | None] = []
        stored: list[Revision] = []
        with self._transaction(None):  # defence: import-whole-transactions
            for write in writes:
                try:
                    stored.append(run_at_once(self._store.push(write)).revision)
                    refused.append(None)
                except (IdTaken, StoreRejected) as error:
                    refused.append(error)
            self._cache.notes.apply(stored)
        return refused

    def remove(self, write: PendingWrite, act: Act | None) -> None:
        """Remove a note. Raises what ``Store.delete`` raises."""
        with self._transaction(act):
            run_at_once(
                self._store.delete(
                    write.note_id, etag=write.base_etag or "", write_id=write.write_id
                )
            )
            self._cache.notes.apply([Tombstone(write.note_id)])

    @contextmanager
    def _transaction(self, act: Act | None) -> Iterator[None]:
        self._on_step("recorded")
        # defence: local-save-one-transaction
        with self._cache.transaction(durable=True) if act is None else act.transaction():
            yield
            self._on_step("pushed")
        self._on_step("committed")


def run_at_once(call: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that never waits. Raises ``RuntimeError`` if it does: a transaction must not wait."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _Result = done.value
        return result
    call.close()
    raise RuntimeError("a store in the database must not wait")


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
