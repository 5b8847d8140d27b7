"""Record every tool call: who asked for what, what was decided, what came of it.

A call that may change something is recorded on the disk before anything is done, with who agreed to it, and
its outcome afterwards. Nothing is done if the first cannot be written. Every other call has one record,
stored within half a second. Nothing of what was asked or answered is in a record: arguments are a keyed
digest, notes their ids, and a name or id that is not one of ours is left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from pydantic import BaseModel

from mcp_notarium.audit.chain import (
    CANCELLED,
    OK,
    OPEN,
    UNKNOWN,
    ActName,
    AuditEntry,
    Decision,
    Facts,
    clean_client_name,
)
from mcp_notarium.errors import NotariumError, NotRecorded, OutcomeUnknown, OutOfSight
from mcp_notarium.protocol.connection import RequestId, id_key
from mcp_notarium.storage.audit_log import Act, AuditLog, Steps
from mcp_notarium.tools.requests import MOST_READ, named_notes
from mcp_notarium.tools.tool import Tool

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.protocol.app_holder import AppHolder
    from mcp_notarium.tools.question import Question

SECONDS: Final = 0.5
"""Seconds that a record of a read may be in memory only."""
AT_ONCE: Final = 32
"""Records that are stored without waiting longer: that many block the event loop for about 1.5 ms."""
_AGAIN: Final = 2.0
_MOST_EARLY: Final = 1000
_FORBIDDEN: Final = 403
_MOST_FILES: Final = 20
"""Files that a record names."""
_MOST_KEPT: Final = 16
"""Calls that may change something and are known in case they are taken back and made again."""
_KEPT_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class CallResult:
    """Hold what the caller gets."""

    text: str
    """JSON text, or the plain text of a tool that answers so."""
    size: int
    """Bytes of all texts."""
    value: dict[str, Any] | None = None
    """The same as JSON; None for plain text."""
    picture: tuple[bytes, str] = (b"", "")
    """A picture that goes with it, and its kind; b"" for none."""
    file_digest: str = ""
    """The SHA-256 of the file that it is about; '' if it is about none."""
    mark: str = ""
    """Stands behind a plain text with the words of notes."""
    notes: tuple[str, ...] = ()
    """Ids of the notes that it is about or shows."""
    is_error: bool = False
    """The text is an error that the agent can act on."""
    tells_names: bool = False
    """The message of the error may repeat names of notes, or their text."""
    error_code: int | None = None
    """The code, where such an error is one of the protocol: the text is its message, the value its data."""


class PassOn(Exception):
    """End a call without an answer of ours: the protocol has a form of its own for it."""


class IncomingCall(Protocol):
    """Describe a call as it came, and the way back to its caller."""

    request_id: RequestId | None
    """Id by which its caller takes it back; None: it cannot."""
    client: str
    """Name and version of the client; '' if it did not say."""
    tool: str
    arguments: dict[str, Any]
    decision: Decision
    """The user's answer, or ``ALLOWED`` while nobody was asked."""
    approval: str
    """The id of the question that waits, or was answered, at a terminal; '' if none does."""

    def is_answered(self, *, irreversible: bool, app: App) -> bool:
        """Tell whether it brings the answer to such a question, so that nobody is asked."""

    async def ask(self, question: Question, *, app: App) -> bool:
        """Return whether the user agrees. Raises ``ConfirmationRequired`` if nobody can say."""

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress; see ``CallContext``."""


@dataclass(slots=True, eq=False)
class _Kept:
    """Hold what a call has begun to save."""

    key: object
    """Of its request id; None if that means a later call by now."""
    digest: bytes
    steps: Steps
    until: float = 0.0
    """Time of the loop until which the same call means this one, which was taken back; 0.0: it was not."""


def _hash_of(call: IncomingCall) -> bytes:
    """Return what tells a call from others; the digest of a record does not where there is no key."""
    return hashlib.blake2b(
        json.dumps([call.tool, call.arguments], sort_keys=True).encode()
    ).digest()


class Recorder:
    """Record the calls of one connection, and know which were taken back."""

    def __init__(self, holder: AppHolder) -> None:
        self._holder = holder
        self._early: deque[AuditEntry] = deque()
        self._lost = 0
        self._timer: asyncio.TimerHandle | None = None
        self._kept: deque[_Kept] = deque(maxlen=_MOST_KEPT)
        holder.on_open = self._hand_over

    @property
    def log(self) -> AuditLog | None:
        """Return the audit log, None while the account is not open."""
        app = self._holder.opened
        return None if app is None else app.audit

    def see_request(self, request_id: RequestId) -> None:
        """Learn of a request that has come: from now on its id means no earlier call."""
        for one in self._find(request_id):
            one.key = None

    def take_back(self, request_id: RequestId) -> None:
        """Learn that the client has taken a call back, also one that was answered meanwhile."""
        for one in self._find(request_id):
            one.until = asyncio.get_running_loop().time() + _KEPT_SECONDS

    def _find(self, request_id: RequestId) -> list[_Kept]:
        key = id_key(request_id)
        return [one for one in self._kept if one.key == key]

    def see_change(self, request_id: RequestId | None, digest: bytes, steps: Steps) -> Steps | None:
        """Learn of a call that may change something; return the saves of the same call that was taken back lately."""
        now = asyncio.get_running_loop().time()
        same = (one for one in self._kept if one.digest == digest and now < one.until)
        earlier = next(same, None)
        if earlier is not None:
            self._kept.remove(earlier)
        if request_id is not None:
            self._kept.append(_Kept(id_key(request_id), digest, steps))
        return earlier.steps if earlier else None

    def keep(self, entry: AuditEntry) -> None:
        """Store the entry soon; if the account is not open, as soon as it is."""
        log = self.log
        if log is None:
            self._early.append(entry)
            if len(self._early) > _MOST_EARLY:
                self._early.popleft()
                self._lost += 1
            return
        log.buffer(entry)
        if log.waiting % AT_ONCE == 0:
            asyncio.get_running_loop().call_soon(log.flush)
        self.wake(SECONDS)

    def _hand_over(self) -> None:
        """Store what was asked before the account was open, and how much could not be kept."""
        log = self.log
        if log is None or not self._early:
            return
        if self._lost:
            log.buffer(
                AuditEntry(at=log.now(), act=ActName.GAP, facts={"not_recorded": self._lost})
            )
            self._lost = 0
        while self._early:
            log.buffer(replace(self._early.popleft(), facts=log.facts))
        self.wake(SECONDS)

    def wake(self, seconds: float) -> None:
        """Store what waits after so many seconds."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._flush)

    def _flush(self) -> None:
        self._timer = None
        log = self.log
        if log is None:
            return  # closing the account has stored what waited
        if not log.flush():
            self.wake(_AGAIN)
        log.tidy()


class Recording:
    """Record one call when its ``with`` block is left, and be the context of the call's handler."""

    def __init__(self, recorder: Recorder, call: IncomingCall, tool: Tool | None) -> None:
        self._recorder = recorder
        self._call = call
        self._name: str = ActName.UNKNOWN_TOOL if tool is None else f"{tool.family}.{tool.name}"
        self._act: Act | None = None
        self._app: App | None = None
        self._log: AuditLog | None = None
        self._decision = Decision.REFUSED  # until it is known that it can be asked for
        self._outcome = "unknown_tool" if tool is None else "arguments"
        self._notes: tuple[str, ...] = ()
        self._asked: str | None = None
        """The note that was meant, however it was named."""
        self._file = ""
        self._bytes = 0
        self._digest: str | None = None
        self.steps = Steps()
        self.flush_due = False
        """The outcome of a change is committed, and has to be flushed before the answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        """Write the record, or the second one, which is to be flushed unless there was an error. Never raises.

        A call that is cancelled while it writes has them when that has ended: they tell how, and flush it.
        """
        rest = None if self._act is None else self._act.rest
        if not isinstance(error, asyncio.CancelledError):
            if error is not None and self._decided() is Decision.ASKED:
                self._outcome = Decision.ASKED
            self._write(flushed=error is not None)
        elif rest is None:
            self._end_cancelled()
        else:
            rest.add_done_callback(lambda _: self._end_cancelled())  # defence: cancelled-write-told

    def _end_cancelled(self) -> None:
        act = self._act
        self._outcome = act.outcome if act is not None and act.begun else CANCELLED
        self._write(flushed=True)

    def _write(self, *, flushed: bool) -> None:
        if self._act is None or self._act.outcome == CANCELLED:
            self.steps.made.clear()  # nothing came of them, so the same call means the note of then
        log = self._log or self._recorder.log
        entry = self._entry(log, outcome=self._outcome)
        if self._number and log is not None:
            self.flush_due = not flushed
            log.record_outcome(entry, durable=flushed)
            if log.waiting:
                self._recorder.wake(SECONDS)
        else:
            self._recorder.keep(entry)
        self._act = (
            None  # it refers to this, and 8 MB of arguments would wait for the garbage collector
        )

    def allow(self, app: App, request: BaseModel, *, changes: bool) -> None:
        """Record that the handler may be called. ``changes``: it may change something."""
        self._app, self._log = app, app.audit
        log = app.audit
        self._decision, self._outcome = Decision.ALLOWED, UNKNOWN
        self._act = Act(log, lambda: self._entry(log, outcome=OPEN), self.steps)
        if changes:
            # defence: repeated-call-stands-once =None
            self.steps.earlier = self._recorder.see_change(
                self._call.request_id, _hash_of(self._call), self.steps
            )
        self._asked = next(iter(named_notes(request).values()), None)
        action = getattr(request, "action", None)
        if isinstance(action, str):
            self._name += f".{action}"

    @property
    def client(self) -> str:
        """Return the program that calls, as versions name it."""
        return clean_client_name(self._call.client)

    @property
    def act(self) -> Act:
        """Return what a change is recorded by before it is made."""
        if self._act is None:
            raise AssertionError("the call was not allowed")
        return self._act

    @property
    def _number(self) -> int:
        """Return the number of the record that it begins, 0 if nothing was begun."""
        return 0 if self._act is None else self._act.begun

    def is_answered(self, *, irreversible: bool) -> bool:
        """Tell whether the call brings the answer to such a question, so that nobody is asked."""
        return self._call.is_answered(irreversible=irreversible, app=self._opened)

    async def confirm(self, question: Question) -> bool:
        """Return whether the user agrees. Raises ``ConfirmationRequired`` if nobody can say."""
        return await self._call.ask(question, app=self._opened)

    @property
    def _opened(self) -> App:
        if self._app is None:
            raise AssertionError("the call was not allowed")
        return self._app

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the client."""
        await self._call.progress(done, total, message)

    def answered(self, answer: CallResult) -> CallResult:
        """Record what the caller gets."""
        self._bytes = answer.size
        self._notes, self._file = answer.notes, answer.file_digest
        if not answer.is_error:
            self._outcome = OK
        return answer

    def failed(self, error: NotariumError) -> NotariumError:
        """Record why the caller gets no answer."""
        self._outcome = error.subcategory or error.category.lower()
        if isinstance(error, OutcomeUnknown):
            self._outcome = error.really if isinstance(error, OutOfSight) else UNKNOWN
        refused = error.http_status_code == _FORBIDDEN or (
            isinstance(error, NotRecorded) and not self._number
        )
        if refused and self._decision is Decision.ALLOWED:
            self._decision = Decision.REFUSED
        return error

    def _entry(self, log: AuditLog | None, *, outcome: str) -> AuditEntry:
        notes = self._notes
        if not notes and log is not None:
            notes = tuple(filter(log.has_note, self._asked_ids()))
        if log is not None and self._digest is None:  # once a call: a note may have a megabyte
            self._digest = log.digest(self._call.tool, self._call.arguments)
        return AuditEntry(
            at=log.now() if log is not None else time.time(),
            act=self._name,
            client=self._call.client,
            digest=self._digest or "",
            notes=tuple(map(log.note_reference, notes)) if log is not None else (),
            decision=self._decided(),
            outcome=outcome,
            bytes_out=self._bytes,
            refers=self._number,
            facts=self._facts(log, begins=outcome == OPEN),
        )

    def _facts(self, log: AuditLog | None, *, begins: bool) -> Facts:
        facts = dict(log.facts) if log is not None else {}
        if self._call.approval:
            facts["approval"] = self._call.approval
        files: tuple[str, ...] = (self._file,) if self._file else ()
        if self._act is not None and (begins or self._act.begun):  # nothing is done to them before
            files = files or self._act.files
        if files and log is not None:
            facts["files"] = [log.digest("file", one) for one in files[:_MOST_FILES]]
        return facts

    def _asked_ids(self) -> list[str]:
        """Return what may be the ids of notes in the arguments, at most as many as one call reads."""
        given = self._call.arguments
        one = self._asked or next(filter(None, map(given.get, _ASKED)), None)
        several = given.get("ids")
        asked = several[:MOST_READ] if isinstance(several, list) else [one]
        return [name for name in asked if isinstance(name, str)]

    def _decided(self) -> Decision:
        """Return the user's answer; it goes before what the tool made of it."""
        answer = self._call.decision
        return self._decision if answer is Decision.ALLOWED else answer


_ASKED = ("id", "uuid", "noteId", "path")
"""The arguments that name the note that a call is about."""


def notes_in(value: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the ids of the notes that an answer is about or shows, each once."""
    found: dict[str, None] = {}
    _collect_ids(value or {}, found)
    return tuple(found)


def _collect_ids(value: dict[str, Any], found: dict[str, None]) -> None:
    for name in ("id", "uuid", "conflict_copy_id"):
        if isinstance(one := value.get(name), str):
            found[one] = None
    for part in value.values():
        if isinstance(part, list):
            for row in part:
                if isinstance(row, dict):
                    _collect_ids(row, found)
