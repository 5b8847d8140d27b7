"""Enforce the policy's limits: bytes read in a session, writes in a session and in an hour.

A session is one process. Writes of the last hour are counted in the database, for all processes that
share it. ``NotPermitted`` is raised beyond a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from mcp_notarium.domain.policy import Limits
from mcp_notarium.errors import CacheError, NotariumError, NotPermitted, OutcomeUnknown
from mcp_notarium.storage.cache import Cache

HOUR = 3600.0
_WRITES = "policy.writes"
_CHANGEABLE = "The user has set this in MCP Notarium's policy file and can change it there."


class UsageLimits:
    """Hold the limits of one session; ``clock`` gives epoch seconds. ``hourly``: see ``Policy.hourly``."""

    def __init__(
        self,
        limits: Limits,
        cache: Cache,
        *,
        clock: Callable[[], float],
        hourly: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._limits = limits
        shared = limits.writes_per_hour
        self._hourly = hourly or (() if shared is None else (("", shared),))
        self._cache = cache
        self._clock = clock
        self._read = 0
        self._written = 0

    def limit_rows(self, wanted: int) -> int:
        """Return how many notes one listing may show."""
        return min(wanted, self._limits.notes_per_call or wanted)  # defence: listing-notes min()

    @property
    def bytes_left(self) -> int | None:
        """Return the bytes that the next answer may have; None: any number."""
        bounds = [self._limits.bytes_per_call]
        if self._limits.bytes_per_session is not None:
            bounds.append(max(0, self._limits.bytes_per_session - self._read))
        return min((bound for bound in bounds if bound is not None), default=None)

    def require_read(self) -> None:
        """Raise ``NotPermitted`` if nothing may be read any more; count nothing."""
        if self.bytes_left == 0:
            self.charge_read(1)

    def charge_read(self, size: int) -> None:
        """Count an answer of ``size`` bytes. Raises ``NotPermitted`` beyond a limit."""
        largest, whole = self._limits.bytes_per_call, self._limits.bytes_per_session
        if largest is not None and size > largest:  # defence: call-bytes
            raise NotPermitted(
                f"The answer has {size} bytes; {largest} may be read at a time.",
                details={"bytes": size, "most": largest},
                resolution_hint="Ask for less, by `limit`, `preview_lines` or `range_line_count`; a picture comes whole. "
                f"{_CHANGEABLE}",
            )
        if whole is not None and self._read + size > whole:  # defence: session-bytes
            raise NotPermitted(
                f"No more than {whole} bytes may be read in one session.",
                details={"most": whole, "left": max(0, whole - self._read)},
                resolution_hint="Tell the user that the limit of this session is reached; it ends "
                f"when the client is restarted. {_CHANGEABLE}",
            )
        self._read += size

    def record_read(self, size: int) -> None:
        """Count an answer that can no longer be refused, because something was written."""
        self._read += size

    @property
    def writes_left(self) -> int | None:
        """Return how many writes are permitted now; None: any number."""
        bounds = []
        if self._limits.writes_per_session is not None:
            bounds.append(self._limits.writes_per_session - self._written)
        bounds += [most - len(self._last_hour(whose)) for whose, most in self._hourly]
        return max(0, min(bounds)) if bounds else None

    def require_write(self) -> None:
        """Raise ``NotPermitted`` if no further write is permitted now; count nothing."""
        most = self._limits.writes_per_session
        if most is not None and self._written >= most:  # defence: session-writes
            raise NotPermitted(
                f"No more than {most} changes may be made in one session.",
                details={"most": most},
                resolution_hint="Tell the user what is left to be done; the limit ends when the "
                f"client is restarted. {_CHANGEABLE}",
            )
        for whose, most_in_hour in self._hourly:
            self._require_hour(most_in_hour, self._last_hour(whose))

    @contextmanager
    def write(self) -> Iterator[None]:
        """Count the write inside the ``with`` block, unless it was not made."""
        at = self._reserve()
        try:
            yield
        except OutcomeUnknown:
            raise
        except NotariumError:
            self._release(at)
            raise

    def _reserve(self) -> float:
        at = self._clock()
        self.require_write()
        if self._hourly:
            with self._cache.transaction():
                for whose, most in self._hourly:
                    times = self._last_hour(whose)
                    self._require_hour(most, times)
                    self._store(whose, [*times, at])
        self._written += 1
        return at

    def _release(self, at: float) -> None:
        self._written -= 1
        if not self._hourly:
            return
        # The caller needs the error of the write, not this one.
        with suppress(CacheError), self._cache.transaction():
            for whose, _ in self._hourly:
                times = self._last_hour(whose)
                if at in times:
                    times.remove(at)
                self._store(whose, times)

    def _last_hour(self, whose: str) -> list[float]:
        """Return when the writes of the last hour began. A clock set back does not block for long."""
        now = self._clock()
        times: list[float] = json.loads(self._cache.sync_state.get(_key(whose)) or "[]")
        return [time for time in times if abs(now - time) < HOUR]

    def _store(self, whose: str, times: list[float]) -> None:
        self._cache.sync_state.set(_key(whose), json.dumps(times) if times else None)

    def _require_hour(self, most: int, times: list[float]) -> None:
        if len(times) < most:
            return
        wait = max(1, round(min(times) + HOUR - self._clock())) if times else None
        raise NotPermitted(
            f"No more than {most} changes may be made in an hour.",
            details={"most": most} | ({} if wait is None else {"retry_after_seconds": wait}),
            resolution_hint=f"Tell the user what is left to be done. {_CHANGEABLE}",
        )


def _key(whose: str) -> str:
    return f"{_WRITES}.{whose}" if whose else _WRITES
