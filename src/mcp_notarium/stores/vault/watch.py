"""Wait until a file below some folders changes, by inotify where the system has it.

Events only shorten the wait: a listing looks at every file. They are missing on network drives, and where the
system's limit on watches is reached.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# What changes a listing: a file appears, goes, or is written.
_MODIFY, _MOVED_FROM, _MOVED_TO = 0x2, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ATTRIBUTES, _ONLY_FOLDERS, _NO_LINKS = 0x4, 0x01000000, 0x02000000
_MASK = (
    _MODIFY | _ATTRIBUTES | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_FOLDERS | _NO_LINKS
)  # fmt: skip
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
        self._works = self._libc is not None

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
            if number < 0 and place.is_dir():
                self._works = False  # no more watches, or not permitted
            elif number >= 0 and self._watched.get(folder) != number:
                self._watched[folder], new = number, True
        return new

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
        """Wait for events and take them; return whether any came."""
        loop, file, came = asyncio.get_running_loop(), self._file, asyncio.Event()
        assert file is not None  # noqa: S101 - a defect of ours, not a case
        loop.add_reader(file, came.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), seconds)
        finally:
            loop.remove_reader(file)
        with suppress(BlockingIOError):
            while os.read(file, _BUFFER):
                pass
        return came.is_set()

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._works = None, False
        self._watched.clear()
