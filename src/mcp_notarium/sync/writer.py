"""``Writer``: every change of a note goes through here, to the store first and then to the cache.

A change made from an old view is merged or refused, never written over somebody else's; success is
reported only after the store has answered; what was sent and not answered stays as an intent and is
finished by :meth:`Writer.replay`. It does not read the change feed (``driver`` does).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_notarium.backends.base import Backend
from mcp_notarium.cache.store import Cache
from mcp_notarium.errors import (
    BackendUnavailable,
    CacheError,
    LoginRequired,
    NotariumError,
    RateLimited,
)
from mcp_notarium.notes.clean import replace_surrogates
from mcp_notarium.notes.note import Content, Note
from mcp_notarium.notes.pending import PendingWrite
from mcp_notarium.sync.delivery import Delivery, Taken
from mcp_notarium.sync.desk import Desk
from mcp_notarium.sync.intents import Hook, Intents
from mcp_notarium.sync.owner import owner_gone
from mcp_notarium.sync.removal import Removal
from mcp_notarium.sync.replay import Replay
from mcp_notarium.sync.saving import Saved, Saving
from mcp_notarium.sync.turns import Turn, Turns

__all__ = ["Replayed", "Saved", "Writer"]

_EVERYBODY = (BackendUnavailable, LoginRequired, RateLimited)
"""Refusals that would meet every other intent as well."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the unfinished intents. ``waiting`` are still in doubt or in other hands."""

    finished: int = 0
    copies: int = 0
    rejected: int = 0
    waiting: int = 0


class Writer:
    """The one way to change notes.

    ``owner`` names this process in intents and ``lease`` (seconds) is how long others leave them
    alone; ``gone`` tells whether the process of such a name has ended.

    ``before_intent`` is called before an intent is recorded, inside its transaction, so that no
    other process comes in between; if it raises, nothing is recorded. ``after_last_intent`` is
    called outside of any transaction when none seems to be left; another process may just be
    recording one, so it looks again under the write lock. ``reached`` is told each step of a
    delivery, so that a test can stop there.
    """

    def __init__(
        self,
        cache: Cache,
        backend: Backend,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        before_intent: Hook | None = None,
        after_last_intent: Hook | None = None,
        gone: Callable[[str], bool] = owner_gone,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        reached: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._turns = Turns()
        self._intents = Intents(
            cache,
            clock=clock,
            owner=owner,
            lease=lease,
            gone=gone,
            before_intent=before_intent,
            after_last_intent=after_last_intent,
        )
        delivery = Delivery(backend, self._intents, clock=clock, reached=reached)
        self._replay = Replay(cache, backend, intents=self._intents, delivery=delivery, clock=clock)
        desk = Desk(
            cache=cache,
            backend=backend,
            turns=self._turns,
            intents=self._intents,
            delivery=delivery,
            replay=self._replay,
            clock=clock,
            new_id=new_id,
            sleep=sleep,
        )
        self._saving = Saving(desk)
        self._removal = Removal(desk)

    async def save(self, *, note: Note | None, content: Content) -> Saved:
        """Create a note, or change ``note`` (as the caller read it) into ``content``.

        Raises ``VersionConflict`` if somebody else changed the same lines, ``NoteNotFound`` if the
        note is gone, ``OutcomeUnknown`` if the store did not answer (the write is finished later),
        or what kept the store from taking it; except for ``OutcomeUnknown`` nothing was saved.
        """
        wanted = _clean(content)
        if note is None:
            return await self._saving.create(wanted)
        return await self._saving.update(note, wanted)

    async def remove(self, note: Note) -> None:
        """Remove a note for good, as the caller read it. A note already gone is success.

        Raises ``InvalidRequest`` if it is not in the trash where the store wants that,
        ``VersionConflict`` if it has changed, otherwise as :meth:`save`.
        """
        await self._removal.remove(note)

    async def replay(self) -> Replayed:
        """Finish every intent nobody is busy with. One that fails does not hold up the others.

        Raises ``BackendUnavailable``, ``LoginRequired`` or ``RateLimited`` as soon as the store
        refuses everything.
        """
        counts = dict.fromkeys(Taken, 0)
        waiting = 0
        for write in self._intents.all_in_flight():
            if self._turns.taken(write.note_id):
                waiting += 1
                continue
            async with self._turns.of(write.note_id) as turn:
                taken = await self._replay_one(write, turn)
            if taken is None:
                waiting += 1
            else:
                counts[taken] += 1
        return Replayed(
            finished=counts[Taken.STORED],
            copies=counts[Taken.COPIED],
            rejected=counts[Taken.REFUSED],
            waiting=waiting,
        )

    def unfinished(self) -> tuple[str, ...]:
        """The ids of writes that :meth:`replay` would take up now."""
        return tuple(
            write.write_id
            for write in self._intents.all_in_flight()
            if self._intents.claimable(write) and not self._turns.taken(write.note_id)
        )

    async def drain(self) -> None:
        """Wait for writes whose caller has gone away; before the cache is closed."""
        await self._turns.drain()

    async def _replay_one(self, write: PendingWrite, turn: Turn) -> Taken | None:
        claimed = self._intents.claim(write)
        if claimed is None:
            return None
        try:
            return (await turn.unbroken(self._replay.finish(claimed))).taken
        except (*_EVERYBODY, CacheError):
            raise
        except NotariumError:
            return None


def _clean(content: Content) -> Content:
    """The content as any store and the cache can hold it."""
    return Content(
        text=replace_surrogates(content.text),
        tags=tuple(replace_surrogates(tag) for tag in content.tags),
        trash=content.trash,
    )
