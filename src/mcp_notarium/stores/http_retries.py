"""Pure rules for trying again: how long to wait, and what to say in the end.

Nothing here sleeps, reads a clock or draws a number; ``http`` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from mcp_notarium.errors import (
    BackendTimeout,
    BackendUnavailable,
    NotariumError,
    OutcomeUnknown,
    RateLimited,
)

if TYPE_CHECKING:
    from mcp_notarium.stores.http import Reply

_TOO_MANY = 429
_BAD_GATEWAY = 502
_GATEWAY_TIMEOUT = 504


class ConnectionDropped(BackendUnavailable):
    """The service was reached and gave no answer of its own: cut off, or 502 by a gateway."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Exponential back-off with full jitter: the n-th pause is drawn from 0 to first * 2**(n-1)."""

    tries: int = 5
    first: float = 0.5
    longest: float = 8.0

    def pause(self, number: int, drawn: float) -> float:
        """Seconds to wait after try ``number`` (from 1); ``drawn`` is uniform in [0, 1)."""
        return drawn * min(self.longest, self.first * 2.0 ** (number - 1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one try ended: a ``reply``, or none; ``arrived``: the request may have got there."""

    reply: Reply | None = None
    retry_after: float | None = None
    arrived: bool = True
    timed_out: bool = False
    cause: BaseException | None = None

    @property
    def may_have_arrived(self) -> bool:
        """Whether the service may have acted although it did not say so.

        A 429 is an answer before anything is done; of a 5xx nobody can say.
        """
        if self.reply is None:
            return self.arrived
        return self.reply.status >= 500  # noqa: PLR2004 - every status from 500 is a failure

    @property
    def status(self) -> int | None:
        """The reply's status."""
        return None if self.reply is None else self.reply.status


def conclusion(outcome: Outcome, *, write: bool, in_doubt: bool) -> NotariumError:
    """The error that the last try, and the doubt left by the ones before, amount to.

    A write that surely did not arrive is ``BackendUnavailable``, however it failed.
    """
    if in_doubt:
        return OutcomeUnknown("the write was sent and no answer came back")
    if outcome.status == _TOO_MANY:
        return RateLimited("the note service asks to slow down", retry_after=outcome.retry_after)
    if not write and (outcome.timed_out or outcome.status == _GATEWAY_TIMEOUT):
        return BackendTimeout("the note service did not answer in time")
    if outcome.status == _BAD_GATEWAY or (outcome.reply is None and outcome.arrived):
        return ConnectionDropped("the note service broke off without an answer")
    if outcome.status is not None:
        return BackendUnavailable(f"the note service is failing (status {outcome.status})")
    return BackendUnavailable("the note service cannot be reached")


def retry_after_seconds(header: str | None, *, now: float) -> float | None:
    """What a ``Retry-After`` header asks for: seconds from ``now``, never negative.

    None for no header or one that is neither a number of seconds nor an HTTP date.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError, IndexError):
        return math.nan
