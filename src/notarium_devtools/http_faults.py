"""Inject faults: which request meets which fault, and how often it happened.

A rule counts the requests that match it and fires from its ``nth`` match on, ``times`` times. It
only says what shall happen; ``http_server`` makes it happen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypedDict, Unpack

_BAD_GATEWAY = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n"
    b"<body><center><h1>502 Bad Gateway</h1></center></body>\r\n</html>\r\n"
)


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with a status instead of doing anything. ``body`` None: the host's own text."""

    status: int
    body: bytes | None = None
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class CutBefore:
    """Close the connection before anything is done."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Carry it out, then close the connection without an answer: the client cannot know."""


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """Carry it out, send the given share of the answer's body, then close the connection."""

    share: float


@dataclass(frozen=True, slots=True)
class Truncate:
    """Carry it out and answer with only the given share of the body, as if that were all."""

    share: float


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait before (or, ``after`` set, after) carrying it out, then go on."""

    seconds: float
    after: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """Run something in the serving thread before the request is handled, then go on."""

    action: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Hold:
    """Answer when ``released`` is set, and not before."""

    released: threading.Event


Fault = Status | CutBefore | CutAfter | CutAnswer | Truncate | Delay | Call | Hold


class Where(TypedDict, total=False):
    """Describe the requests a fault is meant for, as :class:`Rule` does."""

    method: str | None
    path: str
    query: dict[str, str]
    nth: int
    times: int


@dataclass(slots=True)
class Rule:
    """Hold one fault with the requests it is meant for, and its counters."""

    fault: Fault
    method: str | None = None
    path: str = "*"
    query: dict[str, str] = field(default_factory=dict)
    nth: int = 1
    times: int = 1
    matched: int = 0
    fired: int = 0

    def meets(self, method: str, path: str, query: dict[str, str]) -> bool:
        """Count the request if it matches, and return whether the fault happens to it."""
        if self.method not in {None, method} or not fnmatchcase(path, self.path):
            return False
        if any(not fnmatchcase(query.get(key, ""), want) for key, want in self.query.items()):
            return False
        self.matched += 1
        if not self.nth <= self.matched < self.nth + self.times:
            return False
        self.fired += 1
        return True


class Faults:
    """Hold the active rules. Every method may be called from any thread.

    ``path`` is a shell pattern over the decoded path (``*`` also matches ``/``); ``query`` holds
    patterns for parameters; an absent parameter counts as empty. ``nth`` counts matching requests from 1.
    Each method returns its rule, whose ``matched`` and ``fired`` tell what happened.
    """

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault, **where: Unpack[Where]) -> Rule:
        """Activate any fault."""
        rule = Rule(fault, **where)
        with self._lock:
            self._rules.append(rule)
        return rule

    def status(
        self,
        status: int,
        *,
        retry_after: str | None = None,
        body: bytes | None = None,
        **where: Unpack[Where],
    ) -> Rule:
        """Answer with ``status``; ``retry_after`` is the header's text."""
        return self.add(Status(status, body, retry_after), **where)

    def bad_gateway(self, **where: Unpack[Where]) -> Rule:
        """Answer 502 with the HTML page of a proxy."""
        return self.status(502, body=_BAD_GATEWAY, **where)

    def cut_before(self, **where: Unpack[Where]) -> Rule:
        """Close the connection before the request is carried out."""
        return self.add(CutBefore(), **where)

    def cut_after(self, **where: Unpack[Where]) -> Rule:
        """Carry the request out, then close the connection: the lost answer."""
        return self.add(CutAfter(), **where)

    def cut_answer(self, *, share: float = 0.5, **where: Unpack[Where]) -> Rule:
        """Close the connection in the middle of the answer's body."""
        return self.add(CutAnswer(share), **where)

    def truncate(self, *, share: float = 0.5, **where: Unpack[Where]) -> Rule:
        """Answer with broken-off JSON in a complete HTTP answer."""
        return self.add(Truncate(share), **where)

    def delay(self, seconds: float, *, after: bool = False, **where: Unpack[Where]) -> Rule:
        """Answer late; with ``after`` the request is carried out at once and only answered late."""
        return self.add(Delay(seconds, after), **where)

    def call(self, action: Callable[[], object], **where: Unpack[Where]) -> Rule:
        """Run ``action`` before a matching request is handled, then go on with it."""
        return self.add(Call(action), **where)

    def clear(self) -> None:
        """Drop every rule."""
        with self._lock:
            self._rules.clear()

    def meeting(self, method: str, path: str, query: dict[str, str]) -> tuple[Fault, ...]:
        """Count a request against every rule and return the faults that happen to it, in order."""
        with self._lock:
            met = [rule for rule in self._rules if rule.meets(method, path, query)]
        return tuple(rule.fault for rule in met)
