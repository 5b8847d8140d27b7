"""Tell which files below some folders change, by inotify where the system has it.

Events are missing on network drives, where the system's limit on watches is reached, and for a few kinds of
changes, as of mapped memory. So whoever asks looks at every file now and then.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mcp_notarium.stores.vault.paths import Name, is_note_name, named_by

# What changes a listing: a file appears, goes, or is written.
_MODIFY, _MOVED_FROM, _MOVED_TO = 0x2, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ATTRIBUTES, _ONLY_FOLDERS, _NO_LINKS = 0x4, 0x01000000, 0x02000000
_MASK = (
    _MODIFY | _ATTRIBUTES | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_FOLDERS | _NO_LINKS  # defence: links-not-watched
)  # fmt: skip
_LOST, _FOLDER = 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""A folder has vanished, a link has its place, or it lies too deep."""
_CALM = 0.1
"""Seconds without an event after which a burst of them is over."""
_LONGEST_BURST = 1.0
_BUFFER = 65_536


class Watch:
    """Watch folders. Without the system, its limit of watches or its permission no events come, or not from all."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._file: int | None = None
        self._watched: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        self._works = self._libc is not None
        self._lock = threading.Lock()
        self._changed: set[Name] = set()
        self._uncertain = True
        """Whether anything may have changed."""

    def follow(self, folders: Iterable[str]) -> bool:
        """Watch these folders below the root, and no others; return whether any of them is new."""
        if not self._works or self._libc is None:
            return False
        if self._file is None:
            self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._file < 0:
                self._file, self._works = None, False
                return False
        wanted = {*folders}
        for gone in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._file, self._watched.pop(gone))
        new = False
        for folder in wanted:  # a folder that was made again has another number
            place = self._root / folder
            number = self._libc.inotify_add_watch(self._file, os.fsencode(place), _MASK)
            if number < 0 and ctypes.get_errno() not in _GONE:
                self._works = False  # no more watches, or not permitted
            elif number >= 0 and self._watched.get(folder) != number:
                self._watched[folder], new = number, True
        with self._lock:
            self._folders = {number: folder for folder, number in self._watched.items()}
        return new

    def take(self) -> set[Name] | None:
        """Return the files that have changed since the last call; None: anything may have."""
        self._read()
        with self._lock:
            # defence: missing-events-noticed =True
            known = self._works and self._file is not None and not self._uncertain
            changed = self._changed if known else None
            self._changed, self._uncertain = set(), False
        return changed

    async def wait(self, seconds: float) -> None:
        """Return when something has changed and a burst of changes is over, or after that time."""
        if self._file is None:
            await asyncio.sleep(seconds)
            return
        if await self._event(seconds):
            end = asyncio.get_running_loop().time() + _LONGEST_BURST
            while asyncio.get_running_loop().time() < end and await self._event(_CALM):
                pass

    async def _event(self, seconds: float) -> bool:
        loop, file, came = asyncio.get_running_loop(), self._file, asyncio.Event()
        assert file is not None  # noqa: S101 - a defect of ours, not a case
        loop.add_reader(file, came.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), seconds)
        finally:
            loop.remove_reader(file)
        self._read()
        return came.is_set()

    def _read(self) -> None:
        with self._lock, suppress(BlockingIOError):
            while self._file is not None and (events := os.read(self._file, _BUFFER)):
                self._sort(events)

    def _sort(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            number, kind, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size
            name = os.fsdecode(events[at : at + length].rstrip(b"\0"))
            at += length
            folder = self._folders.get(number)
            if kind & (_LOST | _FOLDER) or (folder is not None and not name):
                self._uncertain = (
                    True  # events were lost, or a folder has changed: files below it may be others
                )
            elif folder is not None and is_note_name(note := named_by(name) or name):
                self._changed.add((folder, note))

    def close(self) -> None:
        """Stop watching. May be called twice."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file, self._works = None, False
        self._watched.clear()
