"""``Pace``: how long to stay away after cycles that brought nothing. Pure; seconds are given.

A cycle is *vain* if it failed, or if the store gave the reason for it (its change feed said something, or
nothing without waiting) and nothing was new. One that the clock, a person or a write began is not.
"""

from __future__ import annotations

from mcp_notarium.sync.cycle import LONGEST_DELAY, backoff_delay

FREE = 2
"""So many vain answers in a row cost no pause: the feed may repeat itself."""
QUIET = 60.0
"""Seconds of listening in which nothing vain came, after which all is forgiven."""


class Pace:
    """The pace of one engine. Answers and failures are counted apart, and forgiven together.

    A store whose answers succeed and fail in turn gets no faster by that.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._vain = 0
        self._quiet = 0.0

    def news(self) -> None:
        """Something was new: a note, or the end of an unfinished write."""
        self._failures = self._vain = 0
        self._quiet = 0.0

    def failed(self) -> None:
        """The cycle failed."""
        self._failures += 1
        self._quiet = 0.0

    def vain(self) -> None:
        """The store gave a reason for a cycle, or an answer, that brought nothing."""
        self._vain += 1
        self._quiet = 0.0

    def waited(self, seconds: float) -> None:
        """For so long nothing came: what is silent has nothing to be slowed down for."""
        self._quiet += seconds
        if self._quiet >= QUIET:
            self.news()

    def delay(self, *, jitter: float, retry_after: float | None) -> float:
        """Seconds to stay away after a failure; see :func:`~mcp_notarium.sync.cycle.backoff_delay`."""
        return backoff_delay(self._failures, jitter=jitter, retry_after=retry_after)

    @property
    def pause(self) -> float:
        """Seconds for which the feed is not asked again after a cycle that went well."""
        over = self._vain - FREE
        return min(LONGEST_DELAY, 2.0 ** min(over, 16)) if over > 0 else 0.0
