"""Simulate a computer: processes that are killed, a disk that loses power, a clock that is set, threads, chance.

A kill keeps every commit, since the system has it. A loss of power keeps what was flushed, and of the
commits after it as many as the schedule says: the write-ahead log is cut where one of them ended. The
database, its pages and its locks are real.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from anyio._backends import _asyncio as anyio_on_asyncio
from anyio._backends._asyncio import CancelScope

from explorer.choices import KILL, Chooser
from explorer.database_disk import DatabaseDisk
from explorer.loop import OWNER, DeterministicLoop
from explorer.orders import EveryOrder
from mcp_notarium import threads
from mcp_notarium.files import locks
from mcp_notarium.logs import logger
from mcp_notarium.storage import database_opener, driver
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.database import Database
from mcp_notarium.sync import scheduler
from support.sync_rig import DATABASE

TICK_SECONDS = 60.0
"""Nobody waits for the clock here, so a process need not look every second."""
NOW = 1_700_000_000.0
"""The wall clock at the beginning, in epoch seconds."""


class Killed(BaseException):
    """The process ends here: nothing may catch this."""


class Process:
    """A process with its open databases. ``ends`` are called when it is gone, to let go of its locks."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.dead = False
        self.is_refused = False
        """The disk may refuse what its databases write."""
        self.missed_commit = self.missed_flush = False
        """It has refused a commit; it has refused a flush since the last one."""
        self.databases: list[Database] = []
        self.ends: list[Callable[[], object]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let what is started inside belong to this process."""
        before = OWNER.set(self)
        try:
            yield
        finally:
            OWNER.reset(before)

    def place(self, what: str) -> None:
        """A place where the process may be killed, or the power go. Raises ``Killed``."""
        if self.dead:
            raise Killed
        machine = self.machine
        chosen = machine.chooser.choose(
            f"{KILL}{self.name} {what}",
            3 if machine.powered else 2,
            rate=machine.chooser.rates.kills,
            said=("goes on", "is killed", "the power fails"),
        )
        if not chosen or machine.kills_left <= 0:
            return
        machine.kills_left -= 1
        if chosen == 1:
            machine.note(f"{self.name} is killed: {what}")
            self.kill()
        else:
            machine.lose_power(what)
        raise Killed

    def kill(self) -> None:
        """End it: its connections close without a commit, and nothing of it runs again."""
        if self.dead:
            return
        self.dead = True
        for database in self.databases:
            _cut_off(database)
        for end in self.ends:
            with suppress(Exception):
                end()
        self.machine.gone.append(self)


class Machine:
    """One computer with one account's folder. ``powered`` False: its power never fails. ``first``: its folder, if it has one."""

    def __init__(
        self,
        name: str,
        folder: Path,
        chooser: Chooser,
        note: Callable[[str], None],
        *,
        powered: bool = True,
        kills: int = 2,
        first: Path | None = None,
    ) -> None:
        self.name = name
        self.chooser = chooser
        self.note = note
        self.powered = powered
        self.kills_left = kills
        self.disk = DatabaseDisk(chooser, note)
        self._root = folder
        self._lives = 0
        self.folder = first or self._next_folder()
        self.processes: list[Process] = []
        self.before_cut: Callable[[], None] = lambda: None
        """Called right before the power fails."""
        self.after_cut: Callable[[], None] = lambda: None
        """Called while it is dark."""
        self.after_flush: Callable[[], None] = lambda: None
        """Called when the disk has all that was committed."""
        self.after_commit: Callable[[Process], None] = lambda _process: None
        """Called after a commit that nobody waits for the disk to have."""
        self.gone: list[Process] = []
        """Those that the loop has to drop."""
        self._commits = [0]
        """Sizes of the log after each commit since the last flush, which is the first one."""

    def start(self, name: str) -> Process:
        """Start a process."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    def watch(self, cache: Cache, process: Process, *, is_refused: bool = True) -> None:
        """Make each commit of a cache a place to end at, and know what was flushed; ``is_refused``: the disk may refuse it."""
        database, flush = cache.database, cache._flusher._before
        process.is_refused = is_refused

        def before_flush() -> Callable[[], None]:
            process.place("flushes its log")
            flushed = flush()
            self.disk.may_flush(process)

            def after() -> None:
                process.missed_flush = False
                self._flushed(database)
                flushed()
                process.place("has flushed its log")

            return after

        cache._flusher._before = before_flush
        self.follow(database, process)

    def follow(self, database: Database, process: Process) -> None:
        """Make each commit of a connection such a place, once."""
        if database not in process.databases:
            self._watch(database, process)

    def _watch(self, database: Database, process: Process) -> None:
        process.databases.append(database)
        run, open_another, close = database.run, database.open_another, database.close
        self._observe(database, process)

        def another() -> Database:
            if process.dead:
                raise Killed
            opened = open_another()
            self.follow(opened, process)
            return opened

        def closed() -> None:
            if database in process.databases:
                process.databases.remove(database)
            if not process.dead:
                close()

        database.run = partial(self._run, database, process, run)  # type: ignore[method-assign]
        database.open_another = another  # type: ignore[method-assign]
        database.close = closed  # type: ignore[method-assign]

    def _run(
        self,
        database: Database,
        process: Process,
        run: Callable[..., int],
        sql: str,
        parameters: Any = (),
    ) -> int:
        if sql == "COMMIT":
            return self._commit(database, process, run)
        alone = database._durable is None and not sql.startswith(("BEGIN", "PRAGMA"))
        if alone or sql == "BEGIN IMMEDIATE":
            self.disk.may_begin(database, process)
        if alone:
            self.disk.may_commit(database, process)
        changed = run(sql, parameters)
        if alone:
            self._committed(database)
            self.chooser.committed(self.name, process.name)
        return changed

    def _commit(self, database: Database, process: Process, run: Callable[..., int]) -> int:
        durable = database._durable
        process.place("commits")
        self.disk.may_commit(database, process)
        changed = run("COMMIT")
        self._committed(database)
        self.chooser.committed(self.name, process.name)
        if durable:
            process.missed_flush = False
            self._flushed(database)
        else:
            self.after_commit(process)
        process.place("has committed")
        return changed

    def _observe(self, database: Database, process: Process) -> None:
        """Let those who play every order know what the process reads."""
        if not isinstance(self.chooser, EveryOrder):
            return
        rows, row, observe = database.rows, database.row, self.chooser.observe

        def read_rows(sql: str, parameters: Any = ()) -> Any:
            found = rows(sql, parameters)
            observe(process.name, sql, found)
            return found

        def read_row(sql: str, parameters: Any = ()) -> Any:
            found = row(sql, parameters)
            observe(process.name, sql, found)
            return found

        database.rows = read_rows  # type: ignore[method-assign]
        database.row = read_row  # type: ignore[method-assign]

    def lose_power(self, what: str) -> None:
        """End all processes; the disk keeps what was flushed, and perhaps some commits more."""
        self.before_cut()
        size = self._log_size()
        kept = [one for one in dict.fromkeys(self._commits) if one <= size] or [0]
        at = self.chooser.choose(f"{self.name}: commits the disk still has", len(kept), rate=0.5)
        cut = kept[-1 - at]
        self.note(f"the power of {self.name} fails ({what}); {at} commits are lost")
        before, self.folder = self.folder, self._next_folder()
        shutil.copy(before / DATABASE, self.folder / DATABASE)
        if size:
            data = (before / _LOG).read_bytes()[:cut]
            (self.folder / _LOG).write_bytes(data)
            (self.folder / _LOG).chmod(0o600)
        for process in self.processes:
            process.kill()
        self._commits = [cut]
        self.after_cut()

    def _next_folder(self) -> Path:
        self._lives += 1
        folder = self._root / f"{self.name}-{self._lives}"
        folder.mkdir(mode=0o700)
        return folder

    def _committed(self, database: Database) -> None:
        del database  # there is one
        size = self._log_size()
        if size < self._commits[-1]:  # it was moved into the main file, which flushes
            self._commits = [size]
        elif size > self._commits[-1]:
            self._commits.append(size)

    def _flushed(self, database: Database) -> None:
        del database
        self._commits = [self._log_size()]
        self.chooser.flushed(self.name)
        self.after_flush()

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self.folder}/{_LOG}").st_size  # noqa: PTH116 - asked at each commit
        except FileNotFoundError:
            return 0


_LOG = f"{DATABASE}-wal"


def _cut_off(database: Database) -> None:
    connection, database._connection = database._connection, None
    if connection is not None:
        with suppress(Exception):
            connection.close()


class Clock:
    """Tell simulated time; ``set_by``: seconds by which somebody has set the wall clock since.

    ``ahead``: computer to the seconds that its clock is ahead of the others'.
    """

    def __init__(self, loop: DeterministicLoop) -> None:
        self._loop = loop
        self.set_by = 0.0
        self.ahead: dict[str, float] = {}

    def time(self) -> float:
        """Return epoch seconds, as the clock of the computer says whose process asks."""
        owner = OWNER.get()
        machine = owner.machine.name if isinstance(owner, Process) else ""
        return self._loop.time() + NOW + self.set_by + self.ahead.get(machine, 0.0)

    def monotonic(self) -> float:
        """Return the seconds of a clock that nobody sets."""
        return self._loop.time()


class Thread:
    """A thread that runs as one step, when the schedule says so."""

    def __init__(
        self, loop: DeterministicLoop, *, target: Callable[[], object], name: str, daemon: bool
    ) -> None:
        del name, daemon
        self._loop, self._target = loop, target

    def start(self) -> None:
        """Wait for its turn."""
        context = copy_context()
        owner = OWNER.get()
        label = f"{'' if owner is None else owner.name}: a thread works"
        self._loop.expect(label, lambda: context.run(self._target))


class Lock:
    """Stand for a lock on a file, among the processes of one run."""

    def __init__(self, held: dict[Path, Lock], path: Path) -> None:
        self._held = held
        self._path = path

    @property
    def is_locked(self) -> bool:
        """Tell whether this one has it."""
        return self._held.get(self._path) is self

    def acquire(self) -> bool:
        """Take it; False if another one has it."""
        return self._held.setdefault(self._path, self) is self

    def release(self) -> None:
        """Let go of it."""
        if self.is_locked:
            del self._held[self._path]


class _Driver:
    """Stand for the module ``driver``, and for the module of the driver, where databases are opened."""

    def __init__(self, connect: Callable[..., Any]) -> None:
        self.connect = connect
        self.Error = driver.module().Error

    def module(self) -> _Driver:
        """Return what has ``connect``."""
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(driver, name)


class _CancelScope(CancelScope):
    """A scope that has its place in a set by its number, not by where memory has it."""

    def __hash__(self) -> int:
        if self._place is None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, DeterministicLoop)
            self._place = loop.next_number()
        return self._place

    _place: int | None = None


async def _wait_for(awaitable: Awaitable[Any], timeout: float | None) -> Any:  # noqa: ASYNC109
    """See ``asyncio.wait_for``, which takes other steps before Python 3.12."""
    async with asyncio.timeout(timeout):
        return await awaitable


@contextmanager
def simulated(
    loop: DeterministicLoop,
    clock: Clock,
    *,
    seed: str,
    connect: Callable[..., Any],
    chance_of_each: bool = False,
    real_files: bool = False,
) -> Iterator[None]:
    """Replace time, chance, threads and the way to a database of this Python process while this is entered.

    ``chance_of_each``: what one process draws changes nothing for another. ``real_files``: databases are opened, and locks
    on files taken, as ever.
    """
    logger.current_redactor()  # it draws a key, once in each Python process
    chances: dict[str, random.Random] = {}

    def draw(size: int) -> bytes:
        owner = OWNER.get() if chance_of_each else None
        name = f"chance {seed}" if owner is None else f"chance {seed} {owner.name}"
        return chances.setdefault(name, random.Random(name)).randbytes(size)

    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", clock.time),
        (time, "monotonic", clock.monotonic),
        (scheduler, "TICK", TICK_SECONDS),
        (os, "urandom", draw),
        (random, "_urandom", draw),
        (
            threads,
            "threading",
            SimpleNamespace(
                Thread=partial(Thread, loop), Lock=threading.Lock, stack_size=lambda _size: 0
            ),
        ),
        (asyncio, "wait_for", _wait_for),
        (anyio_on_asyncio, "CancelScope", _CancelScope),
    ]
    if not real_files:
        replaced += [
            (database_opener, "driver", _Driver(connect)),
            (locks, "FileLock", partial(Lock, {})),
        ]
    before = [(place, name, getattr(place, name)) for place, name, _ in replaced]
    for place, name, value in replaced:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
