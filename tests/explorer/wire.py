"""Put a network between a server and its store: requests arrive late, twice, never; answers get lost or lie.

A request travels by itself. It arrives also after its sender gave up or was killed, unless the store is one that
overwrites whatever it has: nothing could protect a note of such a store from a write that wanders.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import replace
from typing import TypeVar

from explorer.broken import all_words
from explorer.choices import Chooser
from explorer.loop import DeterministicLoop
from explorer.machine import Process
from mcp_notarium.domain.note import PendingWrite, Revision
from mcp_notarium.errors import OutcomeUnknown, StoreTimeout
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    ListingPage,
    Retry,
    Traits,
    VersionPage,
    WriteGuard,
    check_not_withdrawn,
)
from support.memory_client import Fault, MemoryClient
from support.memory_store import Fields, MemoryStore

WRITE_FAULTS = (
    Fault.TIMEOUT,
    Fault.LOST_ANSWER,
    Fault.UNAVAILABLE,
    Fault.RATE_LIMITED,
    Fault.LOGIN,
    Fault.NONSENSE,
    Fault.REJECTED,
)
READ_FAULTS = (
    Fault.UNAVAILABLE,
    Fault.TIMEOUT,
    Fault.LOST_ANSWER,
    Fault.NONSENSE,
    Fault.CURSOR_LOST,
    Fault.WITHOUT_CONTENT,
)
WRITES = ("push", "delete")
TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 20.0
UNCLEAR = "unclear"
"""The field of an object whose tags are not all understood."""
_Result = TypeVar("_Result")


class WiredClient(MemoryClient):
    """One process's client of the store, whose every request and answer is an event of the schedule.

    ``sends`` is told of each write that is sent, ``deletes`` of each id whose note is about to go. ``meddle`` lets
    another device act at that moment on the note of this id, and gives the word it wrote; ``owes`` is told of a word
    that a push may have covered: the process knows it until it ends. ``promises`` is told of one that came after the push.
    ``covers`` gets the text before and after a push at a store that overwrites; its process is None if the answer is lost.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        process: Process,
        loop: DeterministicLoop,
        chooser: Chooser,
        note: Callable[[str], None],
        traits: Traits,
        calm: Callable[[], bool],
        down: Callable[[], bool],
        meddle: Callable[[str, str], str],
        owes: Callable[[Process, str], None],
        promises: Callable[[str, str], None],
        covers: Callable[[Process | None, str, str], None],
        sends: Callable[[PendingWrite], None],
        deletes: Callable[[str], None],
    ) -> None:
        super().__init__(store, traits=traits, poll_seconds=POLL_SECONDS)
        self.process = process
        self.requests = 0
        self.unrecorded = ""
        """Words that this process has displaced since its last flush, and that go with it (docs/sync.md, where the last writer wins)."""
        self._loop = loop
        self._chooser = chooser
        self._note = note
        self._calm = calm
        self._down = down
        self._meddle = meddle
        self._owes = owes
        self._promises = promises
        self._covers = covers
        self._sends = sends
        self._deletes = deletes
        self._overwrites = traits.write_guard is WriteGuard.LAST_WRITER

    def words(self, note_id: str) -> str:
        """Return what the store has of a note, with its tags; '' if it has none."""
        content = self.store.contents().get(note_id)
        return "" if content is None else all_words(content)

    def _read(self, note_id: str, etag: str, fields: Fields, version: int | None) -> Revision:
        revision = super()._read(note_id, etag, fields, version)
        return replace(revision, tags_understood=False) if fields.get(UNCLEAR) else revision

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """See ``Store.list_page``."""
        call = super().list_page
        return await self._send(
            "list_page",
            lambda: call(since=since, mark=mark, limit=limit, with_content=with_content),
        )

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """See ``Store.changes``."""
        call = super().changes
        return await self._send("changes", lambda: call(cursor, wait=wait, base_of=base_of))

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``."""
        call = super().get
        return await self._send("get", lambda: call(note_id, etag=etag))

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        call = super().list_versions
        return await self._send("list_versions", lambda: call(note_id, before=before, limit=limit))

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        push = super().push

        async def arrive() -> Acknowledgement:
            word = self._meddle(f"right before a push of {self.process.name}", write.note_id)
            if write.base_etag is not None:
                self.store.kept(write.note_id)  # no real store makes a note again by a change of it
            known = write.note_id in self.store.ids()
            before = self.words(write.note_id)
            sent = self._with_unclear(write)
            try:
                answer = await push(sent)
            except OutcomeUnknown:
                if self._overwrites and known:  # what it has displaced goes with its answer
                    self._covers(None, before, self.words(write.note_id))
                raise
            if answer.displaced is not None:
                self.unrecorded += f" {all_words(answer.displaced.content)}"
            if word:
                self._owes(self.process, word)
            if self._overwrites and write.note_id in self.store.ids():
                self._covers(self.process, before, self.words(write.note_id))
                self._meddle_after(f"right after a push of {self.process.name}", write.note_id)
            repeatable = self.traits.retry is Retry.IDEMPOTENT
            if repeatable and self._happens("push arrives twice"):
                self._note(f"the push of {self.process.name} arrives twice")
                self.store.write(sent)
            return answer

        self._sends(write)
        return await self._send("push", arrive, note_id=write.note_id)

    def _with_unclear(self, write: PendingWrite) -> PendingWrite:
        """Leave in a note the tags that no client understands, which none sends."""
        there = write.note_id in self.store.ids() and self.store.fields(write.note_id).get(UNCLEAR)
        body = json.dumps(json.loads(write.body) | {UNCLEAR: True}).encode() if there else b""
        return replace(write, body=body) if there else write

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """See ``Store.delete``."""
        delete = super().delete

        async def arrive() -> None:
            if self._overwrites:
                self._deletes(note_id)
            await delete(note_id, etag=etag, write_id=write_id)

        await self._send("delete", arrive, note_id=note_id)

    async def _send(
        self, method: str, call: Callable[[], Awaitable[_Result]], *, note_id: str = ""
    ) -> _Result:
        """Let a request travel, and wait for its answer as long as a store waits."""
        if method in WRITES:
            check_not_withdrawn()
        self.requests += 1
        self.process.place(f"sends {method}")
        answer: asyncio.Future[_Result] = self._loop.create_future()
        strays = method not in WRITES or not self._overwrites
        context = Context() if strays and method in WRITES else None
        travel = self._travel(method, call, answer, note_id=note_id, strays=strays)
        self._loop.create_task(travel, context=context)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                found = await answer
        except TimeoutError:
            self._note(f"{self.process.name} gives {method} up")
            kind = OutcomeUnknown if method in WRITES else StoreTimeout
            raise kind("no answer came") from None
        if method in WRITES:
            self.process.place(f"has the answer to {method}")
        return found

    async def _travel(
        self,
        method: str,
        call: Callable[[], Awaitable[_Result]],
        answer: asyncio.Future[_Result],
        *,
        note_id: str,
        strays: bool,
    ) -> None:
        who = self.process.name
        await self._loop.gate(f"{who}: {method} arrives", late=strays)
        fault = self._fault(method)
        if fault is not None and not self._down():
            self._note(f"{method} of {who} meets: {fault.replace('_', ' ')}")
        if fault is not None:
            self.faults.plan(fault, on=method)
        try:
            found = await call()
        except Exception as error:  # noqa: BLE001 - it is the answer
            self.faults.clear()  # the note was gone before the fault
            if method in WRITES and isinstance(error, OutcomeUnknown):
                self._meddle_after(f"while {who} waits for an answer", note_id)
            self._chooser.bring(error)
            await self._loop.gate(f"{who}: an error comes", late=strays)
            if not answer.done():
                answer.set_exception(error)
            return
        self._chooser.bring(found)
        await self._loop.gate(f"{who}: an answer comes", late=strays)
        if not answer.done():
            answer.set_result(found)

    def _meddle_after(self, when: str, note_id: str) -> None:
        """Let another device act on what is there by now: nothing has covered the word that it wrote."""
        if word := self._meddle(when, note_id):
            self._promises(word, "another device")

    def _fault(self, method: str) -> Fault | None:
        if self._down():
            return Fault.UNAVAILABLE
        if self._calm():
            return None
        known = WRITE_FAULTS if method in WRITES else READ_FAULTS
        label = f"{self.process.name}: {method} fails"
        name = self._chooser.among(label, ["", *known], rate=self._chooser.rates.faults)
        fault = Fault(name) if name else None
        return None if fault is Fault.CURSOR_LOST and method == "list_page" else fault

    def _happens(self, what: str) -> bool:
        label, rate = f"{self.process.name}: {what}", self._chooser.rates.faults
        return not self._calm() and bool(self._chooser.choose(label, 2, rate=rate))
