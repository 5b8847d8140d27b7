"""Record every tool call: who asked for what, what was decided, what came of it.

A call that may change something is recorded on the disk before its handler is called, that somebody agreed
to it before anything is done, and its outcome afterwards; where the first two cannot be written, nothing is
done. Reads have one record, stored within half a second. Nothing of what was asked or answered is in a
record: arguments are a keyed digest, notes their ids, and a name or id that is not one of ours is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic import BaseModel

from mcp_notarium.audit.chain import OK, OPEN, UNKNOWN, Act, Decision, Entry
from mcp_notarium.errors import NotariumError, NotRecorded, OutcomeUnknown
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.tools.call_context import CallContext
from mcp_notarium.tools.catalog import Tool

SECONDS: Final = 0.5
"""How long a record of a read may be in memory only."""
_AGAIN: Final = 2.0
_MOST_EARLY: Final = 1000
_FORBIDDEN: Final = 403
_READING_ACTIONS: Final = frozenset({"get_stats"})


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a call as it came: name and version of the client ('' if it did not say), tool, arguments."""

    client: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what the caller gets: JSON text of ``size`` bytes, and the same as value unless it is an error."""

    text: str
    size: int
    value: dict[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        """Tell whether the text is an error the agent can act on."""
        return self.value is None


class PassOn(Exception):
    """End a call without an answer of ours: the protocol has a form of its own for it."""


class RecordedCall(CallContext, Protocol):
    """Describe a call that knows what was decided about it."""

    @property
    def decision(self) -> Decision:
        """Return what the person said, or that nobody was asked."""


class MakeCall(Protocol):
    """Make the call as its handler sees it, once it is known what it may do."""

    def __call__(
        self, *, setting: str, confirmed: bool, agreed: Callable[[], None]
    ) -> RecordedCall:
        """Return the call.

        ``setting`` is NOTARIUM_DESTRUCTIVE; ``confirmed``: the argument ``confirm`` says yes; ``agreed``
        is called when somebody has agreed, before the handler knows. It raises ``NotRecorded``.
        """


class Recorder:
    """Record the calls of one connection."""

    def __init__(self, holder: AppHolder) -> None:
        self._holder = holder
        self._early: deque[Entry] = deque()
        self._lost = 0
        self._timer: asyncio.TimerHandle | None = None
        holder.when_open(self._hand_over)

    @contextmanager
    def recording(self, asked: Asked, tool: Tool | None) -> Iterator[Recording]:
        """Record one call when it is left, however that is."""
        call = Recording(self, asked, tool)
        try:
            yield call
        except BaseException as error:
            call.broken_off(error)
            raise
        finally:
            call.leave()

    def trail(self) -> AuditLog | None:
        """Return the audit log, None while the account is not open."""
        app = self._holder.opened
        return None if app is None else app.audit

    def keep(self, entry: Entry) -> None:
        """Store the entry soon; if the account is not open, as soon as it is."""
        trail = self.trail()
        if trail is None:
            self._early.append(entry)
            if len(self._early) > _MOST_EARLY:
                self._early.popleft()
                self._lost += 1
            return
        trail.note(entry)
        self.wake(SECONDS)

    def _hand_over(self) -> None:
        """Store what was asked before the account was open, and how much could not be kept."""
        trail = self.trail()
        if trail is None or not self._early:
            return
        if self._lost:
            trail.note(Entry(at=trail.now(), act=Act.GAP, facts={"not_recorded": self._lost}))
            self._lost = 0
        while self._early:
            trail.note(self._early.popleft())
        self.wake(SECONDS)

    def wake(self, seconds: float) -> None:
        """Store what waits after so many seconds."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._flush)

    def _flush(self) -> None:
        self._timer = None
        trail = self.trail()
        if trail is None:
            return  # whoever closed the account has stored what waited
        if not trail.flush():
            self.wake(_AGAIN)
        trail.tidy()


class Recording:
    """Record one call."""

    def __init__(self, recorder: Recorder, asked: Asked, tool: Tool | None) -> None:
        self._recorder = recorder
        self._asked = asked
        self._act: str = Act.UNKNOWN_TOOL if tool is None else f"tool.{tool.name}"
        self._reads = tool is None or tool.read_only
        self._opened = 0
        self._agreed = False
        self._trail: AuditLog | None = None
        self._call: RecordedCall | None = None
        self._decision = Decision.REFUSED  # until it is known that it can be asked for
        self._outcome = "unknown_tool" if tool is None else "arguments"
        self._notes: tuple[str, ...] = ()
        self._bytes = 0
        self._digest: str | None = None

    def begin(self, trail: AuditLog, request: BaseModel, call: RecordedCall) -> None:
        """Record that the handler is about to be called. Raises ``NotRecorded``: then it must not be."""
        self._trail, self._call = trail, call
        self._decision, self._outcome = Decision.ALLOWED, UNKNOWN
        action = getattr(request, "action", None)
        if isinstance(action, str):
            self._act += f".{action}"
            self._reads = self._reads or action in _READING_ACTIONS
        if self._reads:
            return
        try:
            self._opened = trail.open(self._entry(trail, outcome=OPEN))
        except NotRecorded:
            self._decision = Decision.REFUSED
            raise

    def agree(self) -> None:
        """Record that somebody agreed, once: a crash from here on leaves that behind."""
        if self._opened and not self._agreed and self._trail is not None:
            self._trail.open(self._entry(self._trail, outcome=OPEN))
            self._agreed = True

    def answered(self, answer: Answer) -> Answer:
        """Note what the caller gets."""
        self._bytes = answer.size
        self._notes = notes_in(answer.value)
        if not answer.is_error:
            self._outcome = OK
        return answer

    def failed(self, error: NotariumError) -> NotariumError:
        """Note why it did not come to that."""
        self._outcome = (
            UNKNOWN
            if isinstance(error, OutcomeUnknown)
            else error.subcategory or error.category.lower()
        )
        if error.http_status_code == _FORBIDDEN and self._decision is Decision.ALLOWED:
            self._decision = Decision.REFUSED
        return error

    def broken_off(self, error: BaseException) -> None:
        """Note that the caller has gone, is asked something, or has asked for what there is not."""
        if isinstance(error, asyncio.CancelledError):
            self._outcome = UNKNOWN if self._opened else "cancelled"
        elif self._decided() is Decision.ASKED:
            self._outcome = Decision.ASKED

    def leave(self) -> None:
        """Write the record, or the second one. Never raises."""
        trail = self._trail or self._recorder.trail()
        entry = self._entry(trail, outcome=self._outcome)
        self._call = None  # it knows this record; a circle would keep megabytes of arguments
        if self._opened and trail is not None:
            trail.close(entry)
            if trail.waiting:
                self._recorder.wake(SECONDS)
        else:
            self._recorder.keep(entry)

    def _entry(self, trail: AuditLog | None, *, outcome: str) -> Entry:
        notes, asked = self._notes, self._asked.arguments.get("id")
        if not notes and isinstance(asked, str) and trail is not None and trail.known(asked):
            notes = (asked,)
        if trail is not None and self._digest is None:  # once a call: a note may have a megabyte
            self._digest = trail.digest(self._asked.tool, self._asked.arguments)
        return Entry(
            at=trail.now() if trail is not None else time.time(),
            act=self._act,
            client=self._asked.client,
            digest=self._digest or "",
            notes=tuple(map(trail.named, notes)) if trail is not None else (),
            decision=self._decided(),
            outcome=outcome,
            bytes_out=self._bytes,
            refers=self._opened,
        )

    def _decided(self) -> Decision:
        """Return what the person said; it goes before what the tool made of it."""
        if self._call is not None and self._call.decision is not Decision.ALLOWED:
            return self._call.decision
        return self._decision


def notes_in(value: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the ids of the notes that an answer is about or shows, each once."""
    found: list[str] = []
    for part in _rows(value or {}):
        ids = (part.get(name) for name in ("id", "uuid", "conflict_copy_id"))
        found += (each for each in ids if isinstance(each, str))
    return tuple(dict.fromkeys(found))


def _rows(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield value
    for part in value.values():
        if isinstance(part, list):
            yield from (row for row in part if isinstance(row, dict))
