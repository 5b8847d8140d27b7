"""``Feed``: how far the change feed can be trusted at the moment. Pure; time is given."""

from __future__ import annotations

FAILURES = 2
"""So many failures in a row and the feed is given up for a while."""
FIRST_PAUSE = 2.0
"""Seconds until it is tried again, the first time; until then listings are polled. An outage that
ends between a failure of the feed and the listing after it looks like a feed that is broken alone."""
LONGEST_PAUSE = 300.0
"""The pause doubles with every trial that fails, up to this."""


class Feed:
    """The health of one change feed."""

    def __init__(self, *, exists: bool, long_poll: bool) -> None:
        self._exists = exists
        self._long_poll = long_poll
        self._failures = 0
        self._given_up = 0
        self._retry_at = 0.0

    def usable(self, now: float) -> bool:
        """Whether to ask the feed rather than a listing."""
        return self._exists and now >= self._retry_at

    def listens(self, now: float) -> bool:
        """Whether to let it answer when something happens."""
        return self._long_poll and self._failures == 0 and self.usable(now)

    def due(self, now: float) -> bool:
        """Whether it was given up, and should be tried again now."""
        return self.given_up and self.usable(now)

    @property
    def given_up(self) -> bool:
        """Whether it is to be tried again, now or later."""
        return self._given_up > 0

    def worked(self) -> None:
        """It answered."""
        self._failures = 0
        self._given_up = 0

    def failed(self, now: float) -> bool:
        """It did not answer. True when it is given up for a while."""
        self._failures += 1
        if self._failures < FAILURES:
            return False
        self._retry_at = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._given_up, 16))
        self._given_up += 1
        return True

    def excuse(self) -> None:
        """The listing fails as well, so it is not the feed's fault: ask the feed first again."""
        self._failures = min(self._failures, FAILURES - 1)
        self._given_up = 0
        self._retry_at = 0.0
