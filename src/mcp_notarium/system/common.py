"""Implement what is the same on all systems, and answer for what most of them lack."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from mcp_notarium.system.port import Entry, FileState, System

_DEEPEST = 200
"""Folders, one in another, that a walk has open at most."""


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Close an open file or folder at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Common:
    """Implement that part of the port."""

    can_confine = False
    flushes_fully = False
    limits_memory = False
    longest_path: int | None = None

    def open_below(self: System, top: Path, path: str) -> BufferedReader:
        """Open each folder below the open one above: what was looked at before may have become a link."""
        *folders, name = path.split("/")
        if ".." in folders:
            raise FileNotFoundError(errno.ENOENT, "it leads out of the folder", path)
        above = self.open_top(top)
        try:
            for folder in folders:
                below = self.open_folder(above, folder)
                os.close(above)
                above = below
            file = self.open_file(above, name)
        finally:
            os.close(above)
        if not stat.S_ISREG(self.look_at_open(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "it is not a regular file", str(top / path))
        return os.fdopen(file, "rb")

    def walk(
        self: System, top: Path, *, enters: Callable[[Path], bool] = lambda _folder: True
    ) -> Iterator[tuple[Path, Entry]]:
        """Open each folder below the open one above, so that nothing put in its place is followed."""
        return _walk(self, self.open_top(top), top, enters, _DEEPEST)

    def flush_below(self: System, folder: Path) -> None:
        """Flush each, and the names in each folder."""
        for path, one in self.walk(folder):
            if one.is_file(follow_symlinks=False):
                self.flush_file(path)
            elif one.is_dir(follow_symlinks=False):
                self.flush_folder(path)
        self.flush_folder(folder)

    def is_group_private(self, _path: Path, _found: os.stat_result) -> bool:
        """Say no: only distributions of Linux have a group for each user."""
        return False

    def lock_holders(self, _path: Path, *, proc: Path = Path("/proc")) -> set[int]:  # noqa: ARG002 - a test gives it
        """Return none: only Linux tells."""
        return set()

    def is_held(self, _path: Path) -> bool:
        """Return False: only on Windows can a program do that."""
        return False

    def forbid_tracing(self) -> None:
        """Do nothing: POSIX has no such call, and the owner of a process of Windows can always give himself the rights on it."""

    def release_memory(self) -> bool:
        """Leave it to the C library."""
        return False

    def session_bus(self, _environ: Mapping[str, str]) -> Path | None:
        """Return nothing: only Linux has a fixed place, and the keychains of others need none."""
        return None

    def is_elsewhere(self, _found: FileState) -> bool:
        """Return False: only macOS and Windows tell."""
        return False

    def has_no_blocks(self, found: FileState) -> bool:
        """Read the number of blocks; Windows tells none."""
        return not getattr(found, "st_blocks", 1)

    def is_being_written(self, _descriptor: int) -> bool:
        """Return False: POSIX does not tell."""
        return False

    def read_attribute(self, _descriptor: int, _name: str) -> bytes | None:
        """Return None: POSIX has none, and NTFS' streams are no attributes that survive a copy."""
        return None

    def write_attribute(self, _descriptor: int, _name: str, _value: bytes) -> None:
        """Refuse the attribute."""
        raise OSError(errno.ENOTSUP, "no extended attributes")


def _walk(
    system: System, folder: int, path: Path, enters: Callable[[Path], bool], deeper: int
) -> Iterator[tuple[Path, Entry]]:
    try:
        with system.scan(folder) as listed:
            # defence: walk-follows-no-link False=True
            found = [(one.is_dir(follow_symlinks=False), one.name, one) for one in listed]
            for is_folder, name, one in sorted(found, key=lambda each: each[:2]):
                yield path / name, one
                if is_folder and enters(path / name):
                    if not deeper:
                        raise OSError(errno.ENAMETOOLONG, "too many folders in another", str(path))
                    with suppress(FileNotFoundError):
                        below = system.open_folder(folder, name)
                        yield from _walk(system, below, path / name, enters, deeper - 1)
    finally:
        os.close(folder)
