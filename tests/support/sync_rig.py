"""A cache, a store and the engine between them, for tests of sync: real parts, no wall clock.

``Client`` is one process's view: its own database connection, store, writer and scheduler. Clients
share a store, and may share a cache file. ``FlyingTime`` passes only while somebody waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp_notarium.domain.note import Content, Note, PendingWrite
from mcp_notarium.domain.policy import EVERYTHING, Visibility
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.database import Database
from mcp_notarium.stores.contract import Acknowledgement, Store, Traits, check_not_withdrawn
from mcp_notarium.sync.cycle_states import Event, State
from mcp_notarium.sync.scheduler import Scheduler
from mcp_notarium.sync.writer import Saved, Writer
from support.cache_room import new_file
from support.memory_client import LIKE_SIMPERIUM, Faults, MemoryClient
from support.memory_store import MemoryStore

KEY = Secret("x'" + "5a" * 80 + "'")
LEASE = 60.0
DATABASE = "cache.sqlite.encrypted"
_numbers = itertools.count(1)


class Crash(BaseException):
    """The process ends here: nothing may catch this."""


class FlyingTime:
    """A clock that jumps over every pause; whoever sleeps lets all others run first.

    ``set_by``: seconds by which somebody has set the wall clock since; no stopwatch notices that.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.set_by = 0.0

    def clock(self) -> float:
        return self.now + self.set_by

    def stopwatch(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        self.now += seconds


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where the system has one: these tests wait for the disk otherwise."""
    with tempfile.TemporaryDirectory(dir=memory_place(), prefix="notarium-") as folder:
        yield Path(folder).resolve()


def memory_place() -> Path | None:
    """The folder in memory that the system has, if any."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def open_cache(folder: Path, rules: Visibility = EVERYTHING, *, key: Secret | None = KEY) -> Cache:
    """The cache in this folder, made if there is none."""
    path = folder / DATABASE
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(new_file(None if key is None else key.reveal_text()))
    cache = Cache(database_opener.connect(path, key), rules)
    apply_rules(cache)
    return cache


async def run_cycle(scheduler: Scheduler) -> State:
    """Run one cycle now, without the lock of the leader; gives the state it ended in."""
    await scheduler._runner.work(Event.DUE)
    return scheduler._runner.state


class Client:
    """One process: it can be thrown away at any moment and started again on the same folder."""

    def __init__(
        self,
        folder: Path,
        store: MemoryStore | None,
        *,
        time: FlyingTime | None = None,
        traits: Traits = LIKE_SIMPERIUM,
        faults: Faults | None = None,
        remote: Store | Callable[[Database], Store] | None = None,
        on_step: Callable[[str], None] = lambda _step: None,
        rules: Visibility = EVERYTHING,
        **writer: object,
    ) -> None:
        self.folder = folder
        self.time = time or FlyingTime()
        self.owner = f"process-{next(_numbers)}"
        self.ended = False
        self.cache = open_cache(folder, rules)
        self.cache.versions.clock = self.time.clock
        self.faults = faults or Faults()
        if callable(remote):  # its notes are in the database of the cache
            remote = remote(self.cache.database)
        self.remote = remote or MemoryClient(
            store, faults=self.faults, traits=traits, poll_seconds=0.01
        )
        self.writer = Writer(
            self.cache,
            self.remote,
            owner=self.owner,
            lease=LEASE,
            sleep=self.time.sleep,
            on_step=on_step,
            **{"owner_ended": lambda _owner: False, "stopwatch": self.time.stopwatch} | writer,
        )
        self.scheduler = Scheduler(
            self.cache,
            self.remote,
            self.writer,
            stopwatch=self.time.stopwatch,
            interval=300.0,
            leader_lock_path=folder / "sync.lock",
            sleep=self.time.sleep,
            jitter=lambda: 0.5,
        )

    def close(self) -> None:
        self.cache.close()

    async def sync(self):
        """One cycle; gives the state it ended in."""
        return await run_cycle(self.scheduler)

    async def run_cycles(self, cycles: int = 5) -> None:
        """Cycles until nothing is left to do (bounded)."""
        for _ in range(cycles):
            await self.sync()
            self.time.now += LEASE + 1

    async def create(self, text: str, *tags: str) -> Note:
        return (await self.writer.save(note=None, content=Content(text, tags))).note

    async def change(self, note: Note, text: str) -> Saved:
        content = Content(text, note.tags, note.trash, properties=note.properties)
        return await self.writer.save(note=note, content=content)

    async def trash(self, note: Note) -> Note:
        content = Content(note.text, note.tags, trash=True, properties=note.properties)
        return (await self.writer.save(note=note, content=content)).note

    def note(self, note_id: str) -> Note:
        note = self.cache.notes.get(note_id)
        assert note is not None
        return note

    def contents(self) -> dict[str, Content]:
        """Everything in the cache."""
        ids = self.cache.notes.etags()
        return {note_id: self.note(note_id).content for note_id in ids}

    def rows(self) -> list[tuple]:
        """Every row that sync may change, for comparing before and after."""
        tables = ("notes", "note_base", "journal", "sync_metadata", "note_tags")
        return [
            (table, *row)
            for table in tables
            for row in self.cache.database.rows(f"SELECT * FROM {table}")
            if not (table == "sync_metadata" and row[0] in ("sync.metrics", "sync.swept_at"))
        ]


def raced(
    client: Client, act: Callable[[], None], *, after: Callable[[], None] = lambda: None
) -> None:
    """Let another program act right before the next push, after all comparisons, and right after it."""
    push = client.remote.push

    async def late(write: PendingWrite) -> Acknowledgement:
        client.remote.push = push
        act()
        answer = await push(write)
        after()
        return answer

    client.remote.push = late


async def until(holds: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Let the event loop run until something holds; fails after a bounded time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.001)


@asynccontextmanager
async def running(*clients: Client) -> AsyncIterator[None]:
    """The schedulers of these clients run while this is entered."""
    tasks = [asyncio.create_task(client.scheduler.run()) for client in clients]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)


@asynccontextmanager
async def account_of(
    folder: Path, remote: Store | Callable[[Database], Store], **more: Any
) -> AsyncIterator[Client]:
    """An account of this store, in step with it."""
    client = Client(folder, None, remote=remote, **more)
    try:
        await client.sync()
        yield client
    finally:
        await client.remote.close()
        client.close()


def in_step(store: MemoryStore, *clients: Client) -> Callable[[], bool]:
    """Whether every cache equals the store, as a question to wait for."""
    return lambda: all(client.contents() == store.contents() for client in clients)


class Slow:
    """Pushes are begun and go on when ``go_on`` is set; ``most`` were under way at one time."""

    def __init__(self, client: Client) -> None:
        self.begun: list[str] = []
        self.go_on = asyncio.Event()
        self.most = self._now = 0
        self._push, client.remote.push = client.remote.push, self.push  # type: ignore[method-assign]

    async def push(self, write: PendingWrite) -> Acknowledgement:
        check_not_withdrawn()
        self.begun.append(write.content.text)
        self._now += 1
        self.most = max(self.most, self._now)
        await self.go_on.wait()
        try:
            return await self._push(write)
        finally:
            self._now -= 1
