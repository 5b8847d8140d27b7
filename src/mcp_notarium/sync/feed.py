"""``Feed``: how far the change feed can be trusted at the moment. Pure; time is given."""

from __future__ import annotations

FAILURES = 2
"""So many failures in a row and the feed is given up for a while."""
PAUSE = 300.0
"""Seconds until it is tried again; until then listings are polled."""


class Feed:
    """The health of one change feed."""

    def __init__(self, *, exists: bool, long_poll: bool) -> None:
        self._exists = exists
        self._long_poll = long_poll
        self._failures = 0
        self._retry_at = 0.0

    def usable(self, now: float) -> bool:
        """Whether to ask the feed rather than a listing."""
        return self._exists and now >= self._retry_at

    def listens(self, now: float) -> bool:
        """Whether to let it answer when something happens."""
        return self._long_poll and self._failures == 0 and self.usable(now)

    def worked(self) -> None:
        """It answered."""
        self._failures = 0

    def failed(self, now: float) -> bool:
        """It did not answer. True when it is given up for a while."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        self._retry_at = now + PAUSE
        return True

    def excuse(self) -> None:
        """The listing fails as well, so it is not the feed's fault: ask the feed first again."""
        self._failures = min(self._failures, FAILURES - 1)
        self._retry_at = 0.0
