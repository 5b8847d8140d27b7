"""Simulate a computer whose servers open an account by the product's own opener: its folder loses power, too.

The folder is real, and so are the locks in it. Of a loss of power it keeps each database up to a commit, as ``machine`` says, the names of files as
they were at any moment since the folder was flushed last, and of each other file what was flushed, or what it is. Before and after each call that
changes a name, and after each that flushes something, is a place to end at, and a moment at which others may act.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from explorer.loop import OWNER
from explorer.machine import Machine, Process
from explorer.workers import Workers, require_alive
from mcp_notarium import threads
from mcp_notarium.account import anchor_keeper
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.database import Database

_SIDES = ("-wal", "-shm", "-journal")
_Names = dict[str, int]
"""Path below the folder to inode."""


class AccountMachine(Machine):
    """One computer. Its folder is the data folder, which holds the folders of accounts."""

    workers: Workers

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._logs: dict[Path, list[int]] = {}
        """Sizes of the log of each database after each commit since its last flush, which is the first one."""
        self._moments: list[_Names] = []
        """What the names were at each moment since the folder was flushed."""
        self._gone: dict[int, int] = {}
        """Inode of files without a name to a descriptor that keeps it."""
        self._flushed_files: dict[int, bytes] = {}

    def start(self, name: str) -> Process:
        """Start a process, whose threads end with it."""
        process = super().start(name)
        self.workers.follow(process)
        return process

    def put_back(self, files: dict[str, bytes]) -> None:
        """Begin with these files, which the disk has."""
        for name, content in files.items():
            path = self.folder / name
            for above in reversed(path.relative_to(self.folder).parents):
                (self.folder / above).mkdir(mode=0o700, exist_ok=True)
            path.touch(mode=0o600)
            path.write_bytes(content)
        self.settle()

    def files(self) -> dict[str, bytes]:
        """Return all files that a start needs."""
        return {
            name: (self.folder / name).read_bytes()
            for name in self._names()
            if not name.endswith(".lock")
        }

    def settle(self) -> None:
        """Let the disk have everything as it is now."""
        self._forget_names()
        names = self._names()
        self._logs = {
            self.folder / one: [_size(self.folder / one)] for one in names if _is_database(one)
        }
        self._flushed_files = {
            inode: (self.folder / one).read_bytes()
            for one, inode in names.items()
            if not _is_database(one)
        }

    def has_written(self, path: Path) -> None:
        """Let the disk have a file that a person has written or removed."""
        name, there = str(path.relative_to(self.folder)), path.exists()
        for names in self._moments:
            names.pop(name, None)
            if there:
                names[name] = path.stat().st_ino
        if there:
            self._flushed_files[path.stat().st_ino] = path.read_bytes()

    def _forget_names(self) -> None:
        """Remember no names from before: the disk has those of now."""
        for file in self._gone.values():
            os.close(file)
        self._gone, self._moments = {}, []

    # What calls of the system do.

    def holds(self, path: Any) -> bool:
        """Tell whether a path is below the folder."""
        return str(path).startswith(f"{self.folder}/")

    def about_to_change(self) -> None:
        """Remember the names that the disk may still have."""
        now = self._names()
        if not self._moments or self._moments[-1] != now:
            self._moments.append(now)

    def about_to_lose(self, path: Path) -> None:
        """Keep a file whose only name is about to go: the disk may still have that."""
        if path.is_file():
            inode = path.stat().st_ino
            self._gone.setdefault(inode, os.open(path, os.O_RDONLY))

    def flushed_file(self, descriptor: int) -> None:
        """Note that the disk has a file, or the names of a folder."""
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._forget_names()
            return
        for name, inode in self._names().items():
            if inode == found.st_ino and not _is_database(name):
                self._flushed_files[inode] = (self.folder / name).read_bytes()

    def _names(self) -> _Names:
        found, waiting = _Names(), [""]
        while waiting:
            above = waiting.pop()
            with os.scandir(self.folder / above) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{above}{entry.name}/")
                    elif not entry.name.endswith(_SIDES):
                        found[f"{above}{entry.name}"] = entry.inode()
        return found

    # A loss of power.

    def lose_power(self, what: str) -> None:
        """End all processes; the disk keeps what was flushed, and perhaps more."""
        self.before_cut()
        moments = [*self._moments, self._names()]
        back = self.chooser.choose(f"{self.name}: changes of names lost", len(moments), rate=0.5)
        names = moments[-1 - back]
        kept = {name: self._content(name, inode) for name, inode in names.items()}
        logs = {name: self._log(self.folder / name) for name in names if _is_database(name)}
        self.note(f"the power of {self.name} fails ({what}); {back} changes of names are lost")
        self.folder = self._next_folder()
        for process in self.processes:
            process.kill()
        self.settle()
        self.put_back(kept | {f"{name}-wal": log for name, log in logs.items() if log})
        self.after_cut()

    def _content(self, name: str, inode: int) -> bytes:
        content = self._read(name, inode)
        flushed = self._flushed_files.get(inode, b"")
        if _is_database(name) or content == flushed:
            return content
        label = f"{self.name}: what was not flushed of a file is lost"
        return flushed if self.chooser.choose(label, 2, rate=0.5) else content

    def _read(self, name: str, inode: int) -> bytes:
        for path, found in self._names().items():
            if found == inode:
                return (self.folder / path).read_bytes()
        with os.fdopen(os.dup(self._gone[inode]), "rb") as file:
            file.seek(0)
            return file.read()

    def _log(self, path: Path) -> bytes:
        log = _log_of(path)
        if not log.exists():
            return b""
        commits = [one for one in self._logs.get(path, [0]) if one <= log.stat().st_size]
        kept = list(dict.fromkeys(commits)) or [0]
        label = f"{self.name}: commits the disk still has"
        return log.read_bytes()[: kept[-1 - self.chooser.choose(label, len(kept), rate=0.5)]]

    def _committed(self, database: Database) -> None:
        size, known = _size(database.path), self._logs.setdefault(database.path, [0])
        if size < known[-1]:  # it was moved into the main file, which flushes
            self._logs[database.path] = [size]
        elif size > known[-1]:
            known.append(size)

    def _flushed(self, database: Database) -> None:
        self._logs[database.path] = [_size(database.path)]
        self.after_flush()


def _is_database(name: str) -> bool:
    return ".sqlite" in name


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _size(database: Path) -> int:
    log = _log_of(database)
    return log.stat().st_size if log.exists() else 0


class SystemCalls:
    """Stand between the product and the system, for as long as it is entered: for these computers."""

    def __init__(self, machines: list[AccountMachine], workers: Workers) -> None:
        self._machines = machines
        self._workers = workers
        self._patches = ExitStack()

    def begin(self, *, threaded: bool) -> None:
        """Begin. ``threaded``: somebody else has seen to threads already."""
        for name in ("replace", "rename"):
            self._put(os, name, self._moving(getattr(os, name)))
        self._put(os, "unlink", self._removing(os.unlink))
        for name in ("fsync", "fdatasync"):
            if hasattr(os, name):
                self._put(os, name, self._flushing(getattr(os, name)))
        self._put(database_opener, "_open", self._opening(database_opener._open))
        self._put(time, "perf_counter", time.monotonic)
        # Two writes within a tick of the real file system look like one: which are told apart must not depend on how busy it is.
        self._put(anchor_keeper, "_written", lambda _found: object())
        if not threaded:
            self._put(threads, "threading", self._workers.threading)
            self._put(time, "sleep", self._workers.sleep)

    def close(self) -> None:
        """End."""
        self._patches.close()

    def _put(self, where: Any, name: str, value: Any) -> None:
        self._patches.enter_context(mock.patch.object(where, name, value))

    def _machine(self, path: Any) -> AccountMachine | None:
        owner = OWNER.get()
        machine = owner.machine if isinstance(owner, Process) else None
        if isinstance(machine, AccountMachine) and machine.holds(path):
            require_alive()
            return machine
        return None

    @contextmanager
    def _changing(self, path: Any, what: str, *, loses: Any) -> Iterator[None]:
        machine = self._machine(path)
        if machine is None:
            yield
            return
        self._place(f"{what} {_kind(path)}")
        machine.about_to_change()
        if os.path.lexists(loses):
            machine.about_to_lose(Path(loses))
        yield
        self._place(f"{what} {_kind(path)}: done")

    def _place(self, what: str) -> None:
        process = OWNER.get()
        assert isinstance(process, Process)
        process.place(what)
        if not any(one.in_transaction for one in process.databases):
            self._workers.moment(what)

    def _moving(self, real: Callable[..., None]) -> Callable[..., None]:
        def moved(old: Any, new: Any, **how: Any) -> None:
            with self._changing(new, "renames", loses=new):
                real(old, new, **how)

        return moved

    def _removing(self, real: Callable[..., None]) -> Callable[..., None]:
        def removed(path: Any, **how: Any) -> None:
            with self._changing(path, "removes", loses=path):
                real(path, **how)

        return removed

    def _flushing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def flushed(descriptor: int) -> None:
            owner = OWNER.get()
            machine = owner.machine if isinstance(owner, Process) else None
            if not isinstance(machine, AccountMachine):
                real(descriptor)
                return
            require_alive()
            machine.flushed_file(descriptor)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self._place("has flushed a folder")

        return flushed

    def _opening(self, real: Callable[..., Database]) -> Callable[..., Database]:
        def opened(*args: Any, **how: Any) -> Database:
            require_alive()
            database = real(*args, **how)
            owner = OWNER.get()
            if isinstance(owner, Process) and not database.read_only:
                owner.machine.follow(database, owner)
            return database

        return opened


def _kind(path: Any) -> str:
    """Return a name of a file without what is drawn by chance."""
    name = Path(path).name
    if ".sqlite" in name:
        return f"the database{next((side for side in _SIDES if name.endswith(side)), '')}"
    return "a temporary file" if name.endswith(".tmp") else name
