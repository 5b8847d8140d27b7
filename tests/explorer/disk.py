"""Simulate what a system tells of files: when they were changed, by which number it knows them, which change.

The files are real. Their times are not, as nobody can set the clock of a kernel: whoever has changed something calls
:meth:`Disk.look`, which compares all files with what they were, and gives those that differ the simulated time.
Numbers of files are given in the order in which files appear. So a run is the same whenever and wherever it is played.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from mcp_notarium.stores.vault.paths import Name, is_note_name
from mcp_notarium.system import SYSTEM

TICK = 4_000_000
"""Nanoseconds between two times that a file can have, as on Linux."""
CALM_SECONDS = 0.1


@dataclass
class Facts:
    """Hold what the system knows of a file. Times are in nanoseconds."""

    number: int
    modified: int
    changed: int
    born: int


class Disk:
    """All files below a folder. ``now``: epoch seconds."""

    def __init__(self, root: Path, *, now: Callable[[], float]) -> None:
        self.root = root
        self._now = now
        self._numbers = 0
        self._facts: dict[int, Facts] = {}
        self._seen: dict[Name, tuple[int, bytes | None]] = {}
        self.events: list[FileEvents] = []
        self.writers: Counter[int] = Counter()
        """Inode to how many programs have the file open for writing."""

    def look(self) -> None:
        """Find out what was changed since the last look; it happened now."""
        now = self._time()
        found = self.files()
        alive = {inode for inode, _ in found.values()} | self.writers.keys()
        for inode in {one for one, _ in self._seen.values()} - alive:
            self._facts.pop(inode, None)
        before = {inode: (name, data) for name, (inode, data) in self._seen.items()}
        for name, (inode, data) in found.items():
            facts = self.facts(inode)
            if inode in before and before[inode] != (name, data):
                facts.changed = now
                if before[inode][1] != data:
                    facts.modified = now
        differ = {
            name
            for name in found.keys() | self._seen.keys()
            if found.get(name) != self._seen.get(name)
        }
        for name in sorted(differ):
            is_folder = None in (found.get(name, (0, b""))[1], self._seen.get(name, (0, b""))[1])
            for one in self.events:
                one.tell(name, is_folder=is_folder)
        self._seen = found

    def touch(self, inode: int) -> None:
        """Note that an open file was written."""
        facts = self.facts(inode)
        facts.modified = facts.changed = self._time()

    def facts(self, inode: int) -> Facts:
        """Return what is known of a file; one that nobody has seen is new."""
        if inode not in self._facts:
            self._numbers += 1
            now = self._time()
            self._facts[inode] = Facts(self._numbers, now, now, now)
        return self._facts[inode]

    def shown(self, real: os.stat_result) -> os.stat_result:
        """Return the state of a file as the simulated system tells it."""
        facts = self.facts(real.st_ino)
        _, (fields, more) = real.__reduce__()  # type: ignore[misc]
        times = (more["st_atime_ns"], facts.modified, facts.changed)
        named = {}
        for name, value in zip(("st_atime", "st_mtime", "st_ctime"), times, strict=True):
            named |= {name: value / 10**9, f"{name}_ns": value}
        seconds = [value // 10**9 for value in times]
        return os.stat_result((fields[0], facts.number, *fields[2:7], *seconds), more | named)

    def files(self) -> dict[Name, tuple[int, bytes | None]]:
        """Return the inode and the bytes of each file; of a folder the inode."""
        return dict(self._walk())

    def _walk(self) -> Iterator[tuple[Name, tuple[int, bytes | None]]]:
        waiting = [""]
        while waiting:
            above = waiting.pop()
            with os.scandir(self.root / above) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{above}/{entry.name}" if above else entry.name)
                        yield (above, entry.name), (entry.inode(), None)
                    else:
                        yield (above, entry.name), (entry.inode(), Path(entry.path).read_bytes())

    def _time(self) -> int:
        now = int(self._now() * 10**9)
        return now - now % TICK


class FileEvents:
    """Stand for ``Watch``: tell which files below some folders change. ``deaf``: the system tells nothing."""

    def __init__(self, disk: Disk, *, deaf: Callable[[], bool], loses: Callable[[], bool]) -> None:
        self._disk = disk
        self._deaf = deaf
        self._loses = loses
        self._followed: set[tuple[str, int]] = set()
        self._changed: set[Name] = set()
        self._uncertain = True
        self._came: asyncio.Event = asyncio.Event()
        disk.events.append(self)

    def tell(self, name: Name, *, is_folder: bool) -> None:
        """Note a change."""
        if self._deaf() or name[0] not in {folder for folder, _ in self._followed}:
            return
        if is_folder or self._loses():
            self._uncertain = True
        elif is_note_name(name[1]):
            self._changed.add(name)
        self._came.set()

    def follow(self, folders: Iterable[str]) -> bool:
        """See ``Watch.follow``."""
        wanted = set()
        for folder in folders:
            with suppress(OSError):
                wanted.add((folder, os.stat(self._disk.root / folder).st_ino))  # noqa: PTH116
        new = wanted - self._followed
        self._followed = wanted
        return bool(new) and not self._deaf()

    def take(self) -> set[Name] | None:
        """See ``Watch.take``."""
        changed = None if self._uncertain or self._deaf() else self._changed
        self._changed, self._uncertain = set(), False
        self._came.clear()
        return changed

    async def wait(self, seconds: float) -> None:
        """See ``Watch.wait``."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._came.wait(), seconds)
            await asyncio.sleep(CALM_SECONDS)

    def close(self) -> None:
        """See ``Watch.close``."""
        if self in self._disk.events:
            self._disk.events.remove(self)


class Entry:
    """Stand for an entry of ``os.scandir``."""

    def __init__(self, disk: Disk, real: os.DirEntry[str]) -> None:
        self._disk = disk
        self._real = real
        self.name = real.name

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the simulated state."""
        return self._disk.shown(self._real.stat(follow_symlinks=follow_symlinks))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class FileCalls:
    """Stand for the module ``os`` in the vault's modules.

    ``before`` is called with the name of each call that changes something, flushes it, lists a folder or reads a file, and with
    "open the vault"; what it raises, the call raises.
    """

    def __init__(self, disk: Disk, before: Callable[[str], None]) -> None:
        self._disk = disk
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def stat(self, *args: Any, **how: Any) -> os.stat_result:
        """See ``os.stat``."""
        return self._disk.shown(os.stat(*args, **how))

    def fstat(self, file: int) -> os.stat_result:
        """See ``os.fstat``."""
        return self._disk.shown(os.fstat(file))

    @contextmanager
    def scandir(self, folder: int) -> Iterator[Iterator[Entry]]:
        """See ``os.scandir``: in the order of names."""
        self._before("scandir")
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda one: one.name)
            yield iter([Entry(self._disk, one) for one in found])

    def open(self, path: Any, flags: int, *args: Any, **how: Any) -> int:
        """See ``os.open``."""
        if flags & os.O_CREAT:
            self._before("create")
        elif not flags & os.O_DIRECTORY:
            self._before("open")
        elif "dir_fd" not in how:
            self._before("open the vault")
        file = os.open(path, flags, *args, **how)
        if flags & os.O_CREAT:
            self._disk.look()
        return file

    def read(self, file: int, size: int) -> bytes:
        """See ``os.read``."""
        self._before("read")
        return os.read(file, size)

    def fsync(self, file: int) -> None:
        """See ``os.fsync``: nothing can be lost here, so it flushes nothing."""
        self._disk.look()
        self._before("fsync")

    def unlink(self, *args: Any, **how: Any) -> None:
        """See ``os.unlink``."""
        self._before("unlink")
        os.unlink(*args, **how)
        self._disk.look()

    def rename(self, *args: Any, **how: Any) -> None:
        """See ``os.rename``."""
        self._before("rename")
        os.rename(*args, **how)  # noqa: PTH104
        self._disk.look()

    def mkdir(self, *args: Any, **how: Any) -> None:
        """See ``os.mkdir``."""
        self._before("mkdir")
        os.mkdir(*args, **how)  # noqa: PTH102
        self._disk.look()


class SystemCalls:
    """Stand for ``SYSTEM`` in the vault's modules: the same page of the port, with ``FileCalls`` for its module ``os``."""

    def __init__(self, calls: FileCalls) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(SYSTEM, name)
        made = getattr(found, "__func__", None)
        if made is None:
            return found
        known = {**made.__globals__, "os": self._calls}
        again = FunctionType(made.__code__, known, name, made.__defaults__, made.__closure__)
        again.__kwdefaults__ = made.__kwdefaults__
        return MethodType(again, self)
