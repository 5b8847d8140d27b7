"""Push one recorded journal entry to the store. Decides nothing: ``write_attempt`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mcp_notarium.domain.note import PendingWrite, Tombstone, WriteKind
from mcp_notarium.errors import (
    IdTaken,
    LoginRequired,
    NoteNotFound,
    NoteUnreadable,
    RateLimited,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import WITHDRAWN, Acknowledgement, Retry, Store, WriteGuard
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.listing_pages import require_usable
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.write_errors import gone_error, unknown_outcome

NOT_STORED = (
    StoreRejected,
    StoreUnavailable,
    LoginRequired,
    NoteNotFound,
    RateLimited,
    VersionConflict,
)
"""Errors after which the store has certainly not taken the write. After any other it may have."""
_LOOK_WHETHER_IT_IS_GONE = (
    "The next sync shows whether the note is gone; it does not delete it again. Look with `get` in a "
    "while, and delete the note again if it is there and still to go."
)


class Pusher:
    """Push single entries. ``on_step``: see ``Writer``."""

    def __init__(self, store: Store, journal: Journal, *, on_step: Callable[[str], None]) -> None:
        self._store = store
        self._journal = journal
        self._on_step = on_step
        self._guarded_by_us = store.traits.write_guard is WriteGuard.LAST_WRITER
        self._compared_by_us = self._guarded_by_us and not store.traits.compares

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """Push a CREATE or UPDATE.

        Raises what the store raised: one of ``NOT_STORED`` with the entry untouched, or
        ``OutcomeUnknown`` with the entry released for any process.
        """
        with self._sending(write):
            if self._compared_by_us:
                await self._require_base(write)
            answer = await self._store.push(write)
            require_usable(answer.revision.id)
            # What follows a stored write is sent even if the caller has left.
            WITHDRAWN.set(lambda: False)
        return answer

    async def remove(self, write: PendingWrite) -> None:
        """Push a DELETE. Raises as :meth:`push` does."""
        gone = () if self._store.traits.ids.named else (NoteNotFound,)
        with self._sending(write), suppress(*gone):  # a note that was renamed is not gone
            if self._guarded_by_us:
                await self._require_base(write)
            await self._store.delete(
                write.note_id, etag=write.base_etag or "", write_id=write.write_id
            )

    @contextmanager
    def _sending(self, write: PendingWrite) -> Iterator[None]:
        """Turn an error after which the store may have the write into ``OutcomeUnknown``.

        A cancellation passes: the process may be going down, and the journal entry is all that is needed.
        """
        self._on_step("recorded")
        try:
            yield
        except NOT_STORED:
            raise
        except Exception as error:
            self._journal.release(write)
            never_repeated = (
                write.kind is WriteKind.DELETE and self._store.traits.retry is Retry.ASK
            )
            raise unknown_outcome(
                "the note store did not answer the write",
                write,
                resolution_hint=_LOOK_WHETHER_IT_IS_GONE if never_repeated else None,
            ) from error
        self._on_step("pushed")

    async def _require_base(self, write: PendingWrite) -> None:
        """Raise ``VersionConflict`` if the store no longer holds the base of the write.

        For a store that overwrites whatever it has: what comes between this answer and the push can only
        be noticed afterwards. Raises ``IdTaken`` for a new note and ``NoteNotFound`` for one that is gone.
        """
        about = {"id": write.note_id}
        try:
            head = await get_newest(self._store, write.note_id)
        except (StoreError, LoginRequired) as error:
            if isinstance(error, NOT_STORED):
                raise
            if isinstance(error, NoteUnreadable):
                if write.base_etag is None:
                    raise IdTaken("something else has this name", details=about) from None
                raise StoreUnavailable(
                    error.message, resolution_hint=error.resolution_hint
                ) from None
            raise StoreUnavailable("the note store did not answer before the write") from error
        if isinstance(head, Tombstone):
            if write.base_etag is not None:
                raise gone_error(write.note_id)
        elif write.base_etag is None and self._store.traits.ids.named:
            raise IdTaken("the note store has a note of this id", details=about)
        elif head.etag != write.base_etag:
            raise VersionConflict("the note has changed at the note store", details=about)
