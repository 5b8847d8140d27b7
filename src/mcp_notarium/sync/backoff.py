"""Compute when sync may ask again: after failures, empty cycles, single items.

Every class counts; none waits, reads a clock or draws a random number. Seconds are passed in, or come
from a ``stopwatch`` that gives seconds from any start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from mcp_notarium.errors import NotariumError, RateLimited

FIRST_DELAY = 1.0
"""Seconds; the ceiling of the first pause after a failure. It doubles with each further one."""
SHORTEST_DELAY = 0.25
LONGEST_DELAY = 300.0
LONGEST_ASKED_DELAY = 3600.0
"""A Retry-After beyond this is not believed."""
FREE_EMPTY_CYCLES = 2
"""Empty cycles in a row that cost no pause: the feed may repeat itself."""
QUIET_SECONDS = 60.0
"""Seconds of listening without an empty answer after which both counters start again."""
FEED_FAILURES = 2
"""Failures in a row after which the feed is suspended."""
FEED_FIRST_PAUSE = 2.0
"""Seconds of the first suspension; until then listings are polled."""


def backoff_delay(failures: int, *, jitter: float, retry_after: float | None = None) -> float:
    """Return the seconds to wait after ``failures`` (1 or more) failures in a row.

    ``jitter`` is uniform in [0, 1): the delay is spread over the whole range below a ceiling that
    doubles, so that many clients do not come back at once. What the store asked for is the least.
    """
    ceiling = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(failures, 1) - 1, 16))
    asked = min(max(retry_after or 0.0, 0.0), LONGEST_ASKED_DELAY)
    return max(SHORTEST_DELAY, ceiling * jitter, asked)


def retry_after_of(error: NotariumError | None) -> float | None:
    """Return the seconds the store asked us to stay away, if it did."""
    return error.retry_after if isinstance(error, RateLimited) else None


class CycleBackoff:
    """Compute the pauses of one cycle runner from its failed and its empty cycles (docs/sync.md)."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again: something was new, a note or the end of an unfinished write."""
        self._failures = self._empty = 0
        self._quiet = 0.0

    def record_failure(self) -> None:
        """Count a failed cycle."""
        self._failures += 1
        self._quiet = 0.0

    def record_empty(self) -> None:
        """Count a cycle or an answer that the store gave a reason for and that brought nothing."""
        self._empty += 1
        self._quiet = 0.0

    def record_write(self) -> None:
        """Count empty cycles from zero: something was written here, and the feed tells us our own writes."""
        self._empty = 0

    def record_quiet(self, seconds: float) -> None:
        """Add seconds in which the feed said nothing: a silent feed needs no slowing down."""
        self._quiet += seconds
        if self._quiet >= QUIET_SECONDS:
            self.reset()

    def delay(self, *, jitter: float, retry_after: float | None) -> float:
        """Return the seconds to stay away after a failure; see :func:`backoff_delay`."""
        return backoff_delay(self._failures, jitter=jitter, retry_after=retry_after)

    @property
    def pause(self) -> float:
        """Return the seconds for which the feed is not asked after a cycle that went well."""
        over = self._empty - FREE_EMPTY_CYCLES
        return min(LONGEST_DELAY, 2.0 ** min(over, 16)) if over > 0 else 0.0


class ItemBackoff:
    """Back off from single items, by id, that the store does not serve while it serves others."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self._failing: dict[str, tuple[int, float]] = {}
        """Maps an id to the failures in a row and the stopwatch time before which the item is not asked for."""

    def blocks(self, ident: str) -> bool:
        """Tell whether the item has failed too recently to be asked for again."""
        failing = self._failing.get(ident)
        return failing is not None and self._stopwatch() < failing[1]

    def failures(self, ident: str) -> int:
        """Count the failures of the item in a row."""
        return self._failing.get(ident, (0,))[0]

    def record_failure(self, ident: str, error: NotariumError | None = None) -> None:
        """Retry the item in the next cycle, then after twice as long each time."""
        failures = self.failures(ident) + 1
        asked = retry_after_of(error)
        again = failures > 1 or asked is not None
        pause = backoff_delay(failures, jitter=1.0, retry_after=asked) if again else 0.0
        self._failing[ident] = failures, self._stopwatch() + pause

    def record_success(self, ident: str) -> None:
        """Forget the failures of an item that was answered."""
        self._failing.pop(ident, None)

    def keep_only(self, idents: Collection[str]) -> None:
        """Forget every item but these: no other will be asked for."""
        self._failing = {ident: item for ident, item in self._failing.items() if ident in idents}


class FeedHealth:
    """Track whether one change feed can be used at the moment."""

    def __init__(self, *, exists: bool, long_poll: bool) -> None:
        self._exists = exists
        self._long_poll = long_poll
        self._failures = 0
        self._retry_at = 0.0

    def usable(self, now: float) -> bool:
        """Tell whether to ask the feed rather than a listing."""
        return self._exists and now >= self._retry_at

    def can_long_poll(self, now: float) -> bool:
        """Tell whether to ask for an answer only when something happens."""
        return self._long_poll and self._failures == 0 and self.usable(now)

    @property
    def suspended(self) -> bool:
        """Tell whether the feed is to be tried again, now or later."""
        return self._failures >= FEED_FAILURES

    def record_success(self) -> None:
        """Use the feed again: it answered."""
        self._failures = 0

    def record_failure(self, now: float) -> bool:
        """Count a request the feed did not answer; True if that suspends it, each time for longer."""
        self._failures += 1
        if not self.suspended:
            return False
        pause = FEED_FIRST_PAUSE * 2.0 ** min(self._failures - FEED_FAILURES, 16)
        self._retry_at = now + min(LONGEST_DELAY, pause)
        return True

    def end_suspension(self) -> None:
        """Ask the feed first again: the listing fails as well, so the feed is not to blame."""
        self._failures = min(self._failures, FEED_FAILURES - 1)
        self._retry_at = 0.0
