"""``Writer``: every change of a note goes through here, to the store first and then to the cache.

A change made from an old view is merged or refused, never written over somebody else's; success is
reported only after the store has answered; what was sent and not answered stays as an intent and is
finished by :meth:`Writer.replay`. It does not read the change feed (``driver`` does).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.pending_write import PendingWrite
from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.errors import (
    BackendTimeout,
    BackendUnavailable,
    CacheError,
    LoginRequired,
    NotariumError,
    RateLimited,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Backend
from mcp_notarium.sync.journal import Hook, Intents
from mcp_notarium.sync.journal_replay import Replay
from mcp_notarium.sync.note_backoff import GRACE, Ill, demand_service
from mcp_notarium.sync.note_locks import Turn, Turns
from mcp_notarium.sync.process_owner import owner_gone
from mcp_notarium.sync.push import Delivery, Taken
from mcp_notarium.sync.removal import Removal
from mcp_notarium.sync.save import Saved, Saving
from mcp_notarium.sync.write_context import Desk

__all__ = ["Replayed", "Saved", "Writer"]

_PERHAPS_EVERYBODY = (BackendTimeout, BackendUnavailable, LoginRequired, RateLimited)
"""Refusals that may meet every other intent as well."""
_MOST_LATE = 2
"""Writes at most that are finished behind the caller's back: they take connections to the store."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the unfinished intents. ``waiting`` are in doubt, ill or in other hands."""

    finished: int = 0
    copies: int = 0
    rejected: int = 0
    waiting: int = 0


class Writer:
    """The one way to change notes.

    ``owner`` names this process in intents and ``lease`` (seconds) is how long others leave them
    alone; ``gone`` tells whether the process of such a name has ended. ``stopwatch`` gives seconds of a
    clock that nobody sets.

    ``before_intent`` is called before an intent is recorded, inside its transaction, so that no
    other process comes in between; if it raises, nothing is recorded. ``after_last_intent`` is
    called outside of any transaction when none seems to be left; another process may just be
    recording one, so it looks again under the write lock. ``reached`` is told each step of a
    delivery, so that a test can stop there; ``differed`` the id of each note that the store by itself holds
    differently from what was sent.
    """

    def __init__(
        self,
        cache: Cache,
        backend: Backend,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        stopwatch: Callable[[], float] = time.monotonic,
        before_intent: Hook | None = None,
        after_last_intent: Hook | None = None,
        gone: Callable[[str], bool] = owner_gone,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        reached: Callable[[str], None] = lambda _step: None,
        differed: Callable[[str], None] = lambda _note_id: None,
    ) -> None:
        self._cache = cache
        self._backend = backend
        self._ill = Ill(stopwatch)
        self._late: set[asyncio.Task[Any]] = set()
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
        delivery = Delivery(backend, self._intents, clock=clock, reached=reached, differed=differed)
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

    def call(self) -> AbstractAsyncContextManager[None]:
        """Serve one call that writes at a time, in the order they came; drafting belongs inside.

        A cancelled one keeps its turn until the request that it has sent is answered.
        """
        return self._turns.call()

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
        """Finish every intent nobody is busy with. One that fails or takes long holds up no other.

        One that was tried in vain rests, for longer each time. Raises what the store answers to
        everybody, if one fails and a request that is about all notes fails as well.
        """
        counts = dict.fromkeys(Taken, 0)
        waiting = 0
        writes = self._intents.all_in_flight()
        self._ill.forget_all_but({write.write_id for write in writes})
        for write in writes:
            if len(self._late) >= _MOST_LATE or not self._is_free(write):
                waiting += 1
                continue
            async with self._turns.of(write.note_id, beside_calls=True) as turn:
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
            if self._intents.claimable(write) and self._is_free(write)
        )

    async def drain(self) -> None:
        """Wait for writes whose caller has gone away; before the cache is closed."""
        await self._turns.drain()

    def _is_free(self, write: PendingWrite) -> bool:
        return not self._turns.taken(write.note_id) and not self._ill.rests(write.write_id)

    async def _replay_one(self, write: PendingWrite, turn: Turn) -> Taken | None:
        claimed = self._intents.claim(write)
        if claimed is None:
            return None
        try:
            async with asyncio.timeout(GRACE) as timeouts:
                return (await turn.unbroken(self._replay.finish(claimed))).taken
        except TimeoutError:
            if not timeouts.expired():
                raise
            self._ill.failed(write.write_id)
            self._let_go_on(turn)
        except CacheError:
            raise
        except _PERHAPS_EVERYBODY as error:
            self._ill.failed(write.write_id, error)
            await demand_service(self._cache, self._backend)
        except NotariumError as error:
            self._ill.failed(write.write_id, error)
        return None

    def _let_go_on(self, turn: Turn) -> None:
        """What was begun is not broken off; until it ends the note stays taken."""
        if turn.task is not None and not turn.task.done():
            self._late.add(turn.task)
            turn.task.add_done_callback(self._late.discard)


def _clean(content: Content) -> Content:
    """The content as any store and the cache can hold it."""
    return Content(
        text=replace_surrogates(content.text),
        tags=tuple(replace_surrogates(tag) for tag in content.tags),
        trash=content.trash,
    )
