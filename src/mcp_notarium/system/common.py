"""Implement what is the same on all systems, and answer for what most of them lack."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from mcp_notarium.system.port import Entry, FileState, System

_PLAIN = re.compile(r"[A-Za-z0-9_./:\\+=-]*[A-Za-z0-9_./:\\+=]")
"""A word of these needs no quotes in either shell of Windows; a word of dashes alone does."""
_SPECIAL = re.compile(r'["$`%\u201c-\u201e]')
"""Characters with a meaning within double quotes in PowerShell or cmd; typographic quotes end a word in PowerShell."""
_AT_END = re.compile(r"(\\+)$")
"""A program takes a single backslash before a quote for a part of the word; PowerShell keeps both, which a path may have."""
_SINGLE = re.compile("(['\u2018-\u201b])")


def quote_posix(word: str) -> str:
    """Quote a word. zsh takes one that begins with `=` for a program's path."""
    import shlex  # noqa: PLC0415 - not every start shows a command

    quoted = shlex.quote(word)
    return f"'{word}'" if quoted == word and word[:1] == "=" else quoted


def quote_windows(word: str) -> str:
    """Quote a word for PowerShell and cmd, or for PowerShell alone if it cannot be written for both."""
    if _PLAIN.fullmatch(word):
        return word
    if not _SPECIAL.search(word):
        return '"' + _AT_END.sub(r"\1\1", word) + '"'
    return "'" + _SINGLE.sub(r"\1\1", word) + "'"


DEEPEST = 128
"""Folders, one in another, that are open at most: far fewer than the 256 files that a process of macOS may open by default."""
_Listed = tuple[bool, str, Entry]


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
        self: System,
        top: Path,
        *,
        enters: Callable[[Path], bool] = lambda _folder: True,
        unseen: Callable[[Path, OSError], object] | None = None,
    ) -> Iterator[tuple[Path, Entry]]:
        """Open each folder below the open one above, so that nothing put in its place is followed."""
        walk = _Walk(self, enters, unseen or _pass_gone)
        with closing_descriptor(self.open_top(top)) as folder:
            yield from walk.below(folder, top, _list(self, folder), DEEPEST)

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


def _pass_gone(_folder: Path, error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _list(system: System, folder: int) -> list[_Listed]:
    with system.scan(folder) as listed:
        # defence: walk-follows-no-link False=True
        found = [(one.is_dir(follow_symlinks=False), one.name, one) for one in listed]
        return sorted(found, key=lambda each: each[:2])


@dataclass(frozen=True, slots=True)
class _Walk:
    port: System
    enters: Callable[[Path], bool]
    unseen: Callable[[Path, OSError], object]

    def below(
        self, folder: int, path: Path, found: list[_Listed], deeper: int
    ) -> Iterator[tuple[Path, Entry]]:
        for is_folder, name, one in found:
            yield path / name, one
            if is_folder and self.enters(path / name):
                yield from self._enter(folder, path / name, deeper)

    def _enter(self, above: int, path: Path, deeper: int) -> Iterator[tuple[Path, Entry]]:
        with ExitStack() as stack:
            try:
                folder = self._open(above, path.name, deeper)
                stack.enter_context(closing_descriptor(folder))
                found = _list(self.port, folder)
            except OSError as error:
                error.filename = str(path)
                self.unseen(path, error)
                return
            yield from self.below(folder, path, found, deeper - 1)

    def _open(self, above: int, name: str, deeper: int) -> int:
        if not deeper:
            raise OSError(errno.ENAMETOOLONG, "too many folders in another")
        return self.port.open_folder(above, name)
