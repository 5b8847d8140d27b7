"""Tells a note that the store does not serve from a store that serves nobody, and when to ask again.

Words: something is *ill* if the store serves others but not this one, for whatever reason it gives.
``asking`` uses it for notes, ``writer`` for unfinished writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mcp_notarium.errors import BackendError, CursorLost, LoginRequired, NotariumError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.cycle import backoff_delay, retry_after_of

GRACE = 4.0
"""Seconds that the others wait for one; retries of its request included."""


@dataclass(frozen=True, slots=True)
class _Illness:
    """So many failures in a row; not to be asked for again before ``until`` (of the stopwatch)."""

    failures: int
    until: float


class Ill:
    """What is ill, by id. ``stopwatch`` gives seconds from anywhere."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._known: dict[str, _Illness] = {}

    def rests(self, ident: str) -> bool:
        """Whether it is no use to ask for it now, because that was just tried."""
        ill = self._known.get(ident)
        return ill is not None and self._stopwatch() < ill.until

    def failed(self, ident: str, error: NotariumError | None = None) -> None:
        """It is asked for again in the next cycle, then after twice as long each time."""
        before = self._known.get(ident)
        failures = before.failures + 1 if before else 1
        asked = retry_after_of(error) if error else None
        pause = 0.0
        if failures > 1 or asked is not None:
            pause = backoff_delay(failures, jitter=1.0, retry_after=asked)
        self._known[ident] = _Illness(failures, self._stopwatch() + pause)

    def served(self, ident: str) -> None:
        """It was answered."""
        self._known.pop(ident, None)

    def forget_all_but(self, idents: Collection[str]) -> None:
        """Nobody will ask for any other."""
        self._known = {ident: ill for ident, ill in self._known.items() if ident in idents}


async def demand_service(cache: Cache, store: Store) -> None:
    """Return if the store serves anything at all, otherwise raise what it says."""
    cursor, can = cache.sync_state.cursor(), store.capabilities
    try:
        since = cursor if can.delta_listing else None
        await store.list_page(since=since, mark=None, limit=1, with_content=False)
    except CursorLost:
        return
    except (BackendError, LoginRequired):
        if cursor is None or not can.change_feed:
            raise
    else:
        return
    try:
        await store.changes(cursor, wait=False, base_of=lambda _note_id: None)
    except CursorLost:
        return
