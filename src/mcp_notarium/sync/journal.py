"""``Intents``: the journal of writes. An intent is on the disk before anything is sent.

It records, claims and ends intents together with the notes that belong to them, each in one
transaction. It sends nothing and decides nothing about their content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind, WriteState
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.cache import Cache

Hook = Callable[[], None]

LONGEST_LEASE = 3600.0
"""Seconds; nobody leases for so long. A lease that ends later was given before the clock was set back."""


class Intents:
    """The pending writes of one cache, from the view of one process."""

    def __init__(
        self,
        cache: Cache,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        gone: Callable[[str], bool],
        before_intent: Hook | None,
        after_last_intent: Hook | None,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._owner = owner
        self._lease = lease
        self._gone = gone
        self._before_intent = before_intent
        self._after_last_intent = after_last_intent

    def make(
        self,
        *,
        write_id: str,
        note_id: str,
        kind: WriteKind,
        base_etag: str | None,
        content: Content,
        body: str,
        copied: bool = False,
    ) -> PendingWrite:
        """An intent of this process, leased from now on; not recorded yet."""
        now = self._clock()
        return PendingWrite(
            write_id=write_id,
            note_id=note_id,
            kind=kind,
            base_etag=base_etag,
            content=content,
            body=body,
            created_at=now,
            owner=self._owner,
            lease_until=now + self._lease,
            copied=copied,
        )

    def record(
        self, write: PendingWrite, *, base: Revision | None = None, seen: str | None = None
    ) -> bool:
        """Put the intent on the disk, with the revision ``base`` it was made from.

        False, and nothing recorded, if the note has another intent by now, or the cache no longer
        holds the revision ``seen`` that it held when the caller looked.
        """
        with self._cache.transaction(durable=True):
            if self.in_flight(write.note_id):
                return False
            if self._cache.notes.etag(write.note_id) not in (seen, base.etag if base else seen):
                return False
            if base is not None:
                self._cache.notes.apply([base])
            self._add(write)
        return True

    def adopt(self, head: Revision | Tombstone, *, seen: str | None) -> bool:
        """Store what the store holds of a note; False if the note has moved on or is being saved."""
        with self._cache.transaction():
            held = self._cache.notes.etag(head.id)
            etag = head.etag if isinstance(head, Revision) else seen
            if held not in (seen, etag) or self.in_flight(head.id):
                return False
            self._cache.notes.apply([head])
        return True

    def rebase(
        self, write: PendingWrite, *, base: Revision | None, content: Content, body: str
    ) -> PendingWrite | None:
        """The same intent, under the same write_id, made anew from ``base`` (None: of a new note).

        None, and nothing recorded, if another process has finished it or taken it over.
        """
        now = self._clock()
        rebased = replace(
            write,
            base_etag=base.etag if base else None,
            content=content,
            body=body,
            owner=self._owner,
            lease_until=now + self._lease,
        )
        with self._cache.transaction(durable=True):
            if not self._is_ours(write):
                return None
            self._cache.pending.drop(write.write_id)
            if base is not None:
                self._cache.notes.apply([base])
            self._add(rebased)
        return rebased

    def finish(
        self,
        write: PendingWrite,
        *,
        storing: Iterable[Revision | Tombstone] = (),
        follow_ups: Iterable[PendingWrite] = (),
        differs: bool = False,
    ) -> bool:
        """Store the answer and drop the intent, in one transaction; record what follows from it.

        ``differs``: the store holds something else than was sent, which is counted for the person.
        False if another process has taken it over or finished it in the meantime. While that is still
        at it, the answer is stored all the same, so that nobody is shown the note from before.
        """
        with self._cache.transaction(durable=True):
            ours = self._is_ours(write)
            if ours:
                self._cache.pending.drop(write.write_id)
                self._cache.notes.apply(storing)
                if differs:
                    self._cache.sync_state.record_difference(at=self._clock())
                for follow_up in follow_ups:
                    self._add(follow_up)
            elif self._cache.pending.get(write.write_id) and self._still_from_before(write):
                self._cache.notes.apply(storing)
        self._tell_if_last()
        return ours

    def reject(self, write: PendingWrite, reason: str) -> None:
        """Keep the intent as text that the store will never take."""
        self._cache.pending.reject(write.write_id, reason)

    def release(self, write: PendingWrite) -> None:
        """Nobody is busy with it any more; whoever comes first may finish it.

        If that cannot be written down now, others wait until the lease has run out.
        """
        with suppress(CacheError):
            self._cache.pending.renew(write.write_id, owner=self._owner, lease_until=0.0)

    def claim(self, write: PendingWrite) -> PendingWrite | None:
        """The intent, now leased to this process; None if somebody else is busy with it."""
        now = self._clock()
        claimed = self._cache.pending.claim(
            write.write_id,
            owner=self._owner,
            now=now,
            lease_until=now + self._lease,
            latest=now + LONGEST_LEASE,
            gone_owner=write.owner if self._gone(write.owner) else None,
        )
        return self._cache.pending.get(write.write_id) if claimed else None

    def claimable(self, write: PendingWrite) -> bool:
        """Whether :meth:`claim` would succeed now."""
        mine, now = write.owner == self._owner, self._clock()
        leased = now < write.lease_until <= now + LONGEST_LEASE
        return mine or not leased or self._gone(write.owner)

    def sees(self, note_id: str, content: Content) -> bool:
        """Whether the note could be shown with this content."""
        return self._cache.notes.gate.rules.sees(note_id, content.tags)

    def sees_revision(self, revision: Revision) -> bool:
        """Whether the note can be shown as the store has it."""
        return self._cache.notes.gate.hides(revision) is None

    def in_flight(self, note_id: str) -> PendingWrite | None:
        """The note's unfinished intent; there is never more than one."""
        writes = self._cache.pending.for_note(note_id)
        return next((write for write in writes if write.state is WriteState.IN_FLIGHT), None)

    def all_in_flight(self) -> list[PendingWrite]:
        """Every unfinished intent, oldest first."""
        if self._cache.pending.count() == 0:
            return []
        return [write for write in self._cache.pending.all() if write.state is WriteState.IN_FLIGHT]

    def _still_from_before(self, write: PendingWrite) -> bool:
        return self._cache.notes.etag(write.note_id) == write.base_etag

    def _is_ours(self, write: PendingWrite) -> bool:
        kept = self._cache.pending.get(write.write_id)
        return kept is not None and kept.owner == self._owner

    def _add(self, write: PendingWrite) -> None:
        if self._before_intent is not None:
            # Inside the write lock, so that no other process takes the flag away in between.
            self._before_intent()
        self._cache.pending.add(write)

    def _tell_if_last(self) -> None:
        # After the commit: a flag taken away before it would be missing if the commit failed.
        if self._after_last_intent is not None and self._cache.pending.count() == 0:
            self._after_last_intent()
