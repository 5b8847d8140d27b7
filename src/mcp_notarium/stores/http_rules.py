"""Define the rules of HTTP: permitted hosts, waiting times, the error that a failure means. Pure.

Nothing here sleeps, reads a clock or draws a number; ``http`` does.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from mcp_notarium.errors import (
    ConfigError,
    NotariumError,
    OutcomeUnknown,
    RateLimited,
    StoreTimeout,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from mcp_notarium.stores.http import Reply

_TOO_MANY = 429
_BAD_GATEWAY = 502
_GATEWAY_TIMEOUT = 504
_PORTS = {"https": 443, "http": 80}

Origin = tuple[str, str, int]
"""Scheme, host (lower-case) and port."""


_SHOW_ADDRESS = "`mcp-notarium --print-config-vars` shows the store's address and where it was set."


_LOCAL_NAMES = (".local", ".lan", ".home.arpa", ".internal")


def usable_origin(base: str, *, plain_http: bool = False) -> Origin:
    """Return the origin of a configured base URL.

    Raises ``ConfigError`` unless it is https, or http to loopback; with ``plain_http`` also to the local
    network.
    """
    try:
        parts = urlsplit(base)
        origin = _origin(parts)
    except ValueError:
        raise ConfigError(
            "the address of the note store is not a URL", resolution_hint=_SHOW_ADDRESS
        ) from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            "the address of the note store holds more than scheme, host, port and path",
            resolution_hint=_SHOW_ADDRESS,
        )
    permitted = is_loopback(origin[1]) or (plain_http and is_local_network(origin[1]))
    if origin[0] == "http" and not permitted:  # defence: http-plain-to-here-only
        raise ConfigError(
            "the address of the note store must be https (plain http only to this machine)",
            resolution_hint=_SHOW_ADDRESS,
        )
    return origin


def origin_of(url: str) -> Origin | None:
    """Return the origin of any URL; None if it has none."""
    try:
        return _origin(urlsplit(url))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local_network(host: str) -> bool:
    """Tell whether a host is one of the local network: a private address, or a name that only it knows."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_LOCAL_NAMES)
    return address.is_private and not address.is_unspecified


class ConnectionDropped(StoreUnavailable):
    """Report a service that was reached but gave no answer of its own: cut off, or 502."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Compute exponential back-off with full jitter: the n-th pause is drawn from 0 to ``first`` * 2**(n-1) seconds."""

    tries: int = 5
    first: float = 0.5
    longest: float = 8.0
    """Seconds that no pause exceeds."""

    def pause(self, number: int, drawn: float) -> float:
        """Return the seconds to wait after try ``number`` (from 1); ``drawn`` is uniform in [0, 1)."""
        return drawn * min(self.longest, self.first * 2.0 ** (number - 1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold how one try ended, with a reply or without one."""

    reply: Reply | None = None
    retry_after: float | None = None
    arrived: bool = True
    """The request may have arrived."""
    timed_out: bool = False
    cause: BaseException | None = None

    @property
    def may_have_arrived(self) -> bool:
        """Tell whether the service may have acted although it did not confirm it.

        A 429 comes before anything is done; after a 5xx nobody can tell.
        """
        if self.reply is None:
            return self.arrived
        return self.reply.status >= 500  # noqa: PLR2004 - every status from 500 is a failure

    @property
    def status(self) -> int | None:
        """Return the status of the reply, if there is one."""
        return None if self.reply is None else self.reply.status


def error_for(
    outcome: Outcome, host: str, *, write: bool, in_doubt: bool, why: str = ""
) -> NotariumError:
    """Return the error for the last try and the doubt left by the ones before.

    ``host`` was asked; ``why`` no connection to it came about, '' if nobody knows.

    A write that certainly did not arrive gives ``StoreUnavailable``, however it failed.
    """
    if in_doubt:
        return OutcomeUnknown("the write was sent and no answer came back")
    if outcome.status == _TOO_MANY:
        return RateLimited(
            f"the note store at {host} asks to slow down", retry_after=outcome.retry_after
        )
    if not write and (outcome.timed_out or outcome.status == _GATEWAY_TIMEOUT):
        return StoreTimeout(f"the note store at {host} did not answer in time")
    if outcome.status == _BAD_GATEWAY or (outcome.reply is None and outcome.arrived):
        return ConnectionDropped(f"the note store at {host} broke off without an answer")
    if outcome.status is not None:
        return StoreUnavailable(f"the note store at {host} is failing (status {outcome.status})")
    return StoreUnavailable(
        f"the note store at {host} cannot be reached{why and ': '}{why}",
        resolution_hint="Notes in the cache can still be read. Try this again in a few minutes; if it stays like this, "
        "ask the user to check the address of the note store and the network.",
    )


def host_of(url: str) -> str:
    """Return the host of a URL, with a port that is not the usual one; never a name or password before it."""
    scheme, host, port = origin_of(url) or ("", "", 0)
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _PORTS.get(scheme) else f"{shown}:{port}"


def retry_after_seconds(header: str | None, *, now: float, date: str | None = None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, never negative.

    ``date``: the ``Date`` header beside it, by the same clock; without one ``now`` is taken.
    None for no header or one that is neither a number of seconds nor an HTTP date.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        ahead = math.nan if date is None else _until(date, now)
        seconds = _until(header, now + ahead if math.isfinite(ahead) else now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def clock_difference(date: str | None, *, now: float) -> float | None:
    """Return the seconds that a ``Date`` header, which leaves fractions out, is ahead of ``now``; None without one."""
    seconds = math.nan if date is None else _until(date, now) + 0.5
    return seconds if math.isfinite(seconds) else None


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError, IndexError):
        return math.nan


def _origin(parts: SplitResult) -> Origin:
    host = parts.hostname
    if parts.scheme not in _PORTS or not host:
        raise ValueError("no origin")
    return parts.scheme, host.lower(), parts.port or _PORTS[parts.scheme]
