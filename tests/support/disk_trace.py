"""What a command does to the files below a folder, in order, as the kernel was told it.

The real program runs under ``strace``: only there SQLite's writes are seen as well as our own.
A call that changes a file and that this module does not know is an error, never left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

STRACE = "strace"
LONGEST = 300.0
_WHOLE = 1 << 26
"""No write of ours is longer."""

_WATCHED = (
    *("open", "openat", "creat", "close", "lseek", "write", "pwrite64", "ftruncate"),
    *("fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir"),
    *("mkdir", "mkdirat", "fork", "vfork", "dup", "dup2", "dup3", "truncate"),
    *("sendfile", "copy_file_range"),
)
_UNKNOWN = (
    *("writev", "pwritev", "pwritev2", "fallocate"),
    *("link", "linkat", "symlink", "symlinkat", "splice", "io_uring_setup", "io_submit"),
    *("openat2", "sync_file_range"),
)
_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?).*", re.DOTALL)
_UNFINISHED = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_HERE = "AT_FDCWD"


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at a place of a file."""

    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A file's new size."""

    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Flush:
    """``fsync`` of a file."""

    file: int


@dataclass(frozen=True, slots=True)
class FlushFolder:
    """``fsync`` of a folder."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Named:
    """Names that mean another file from now on, or none: all of them or none change."""

    names: tuple[tuple[Path, int | None], ...]


@dataclass(frozen=True, slots=True)
class OnProgress:
    """What the person was told."""

    text: str


Operation = Write | Cut | Flush | FlushFolder | Named | OnProgress


@dataclass(frozen=True, slots=True)
class Recording:
    """The operations, and the names and files there were before; ``folders`` are files, too."""

    root: Path
    names: Mapping[Path, int]
    contents: Mapping[int, bytes]
    folders: frozenset[int]
    operations: Sequence[Operation]

    def reported_at(self, words: str) -> int:
        """Return the number of the operation that printed these words."""
        return next(
            number
            for number, one in enumerate(self.operations)
            if isinstance(one, OnProgress) and words in one.text
        )


def record(command: Sequence[str], *, root: Path, trace: Path, env: Mapping[str, str]) -> Recording:
    """Run a command in ``root``, a real path, to its good end; give what it did below it."""
    reader = _Reader(root)
    reader.take_in(root)
    names, contents = dict(reader.names), dict(reader.contents)
    options = ["-f", "--seccomp-bpf", "-xx", "-s", str(_WHOLE), "-o", str(trace)]
    calls = ["-e", "trace=" + ",".join((*_WATCHED, *_UNKNOWN)), "-e", "signal=none"]
    done = subprocess.run(
        [STRACE, *options, *calls, *command],
        cwd=root,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with trace.open(encoding="ascii") as lines:
        for line in _whole(lines):
            reader.read(line)
    trace.unlink()
    return Recording(root, names, contents, frozenset(reader.folders), reader.operations)


def demand() -> None:
    """Skip the test where nothing can be recorded; where everything has to be, fail."""
    reason = _why_not()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def _why_not() -> str:
    if sys.platform != "linux":
        return "strace knows Linux only"
    if shutil.which(STRACE) is None:
        return "strace is not installed (on Debian: apt install strace)"
    tried = subprocess.run([STRACE, "-f", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr[-200:]}"


def _whole(lines):
    """The lines of the trace, those of interrupted calls put together."""
    begun: dict[str, str] = {}
    for line in lines:
        stripped = line.rstrip("\n")
        if found := _UNFINISHED.fullmatch(stripped):
            begun[found[1]] = found[2]
        elif found := _RESUMED.fullmatch(stripped):
            yield f"{found[1]} {begun.pop(found[1])}{found[2]}"
        else:
            yield stripped


@dataclass
class _Open:
    """An open file or folder."""

    file: int
    path: Path
    offset: int = 0


@dataclass
class _Reader:
    """The world as the trace goes on: names, open files, and what was done."""

    root: Path
    names: dict[Path, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)
    operations: list[Operation] = field(default_factory=list)
    _opened: dict[int, _Open] = field(default_factory=dict)
    _count: int = 0

    def take_in(self, folder: Path) -> None:
        """Everything that lies there now."""
        self.names[folder] = self._new(is_folder=True)
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                self.take_in(path)
            else:
                self.names[path] = self._new()
                self.contents[self.names[path]] = path.read_bytes()

    def read(self, line: str) -> None:
        """One finished call."""
        found = _LINE.fullmatch(line)
        if found is None:
            assert " exited with " in line, line[:200]
            return
        call, result = found[2], found[4]
        if result != "?" and int(result) >= 0:
            self._done(call, found[3].split(", "), int(result))

    def _new(self, *, is_folder: bool = False) -> int:
        self._count += 1
        if is_folder:
            self.folders.add(self._count)
        else:
            self.contents[self._count] = b""
        return self._count

    def _done(self, call: str, given: list[str], result: int) -> None:
        match call:
            case "open" | "creat" | "openat":
                self._open(call, given, result)
            case "write":
                self._write(int(given[0]), _bytes(given[1]))
            case "mkdir" | "mkdirat":
                path = self._path(given[-2], given[0] if call == "mkdirat" else _HERE)
                self._name({path: self._new(is_folder=True)})
            case "truncate" if (path := self._path(given[0], _HERE)).is_relative_to(self.root):
                self.operations.append(Cut(self.names[path], int(given[1])))
            case "unlink" | "rmdir" | "unlinkat":
                at, path = (given[0], given[1]) if call == "unlinkat" else (_HERE, given[0])
                self._name({self._path(path, at): None})
            case "rename" | "renameat" | "renameat2":
                pairs = [(_HERE, given[0]), (_HERE, given[1])]
                if call != "rename":
                    assert call == "renameat" or given[4] == "0", given
                    pairs = [(given[0], given[1]), (given[2], given[3])]
                old, new = (self._path(path, at) for at, path in pairs)
                self._name({old: None, new: self.names.get(old)})
            case "fork" | "vfork":
                raise AssertionError("the command started another process")
            case _:
                self._on_open_file(call, given, result)

    def _on_open_file(self, call: str, given: list[str], result: int) -> None:
        """A call whose first argument is a descriptor."""
        opened = self._opened.get(int(given[0])) if given[0].isdigit() else None
        if opened is None:
            assert self._outside(given), (call, given)
            return
        match call:
            case "close":
                del self._opened[int(given[0])]
            case "lseek":
                opened.offset = result
            case "pwrite64":
                offset = int(given[3])
                self.operations.append(Write(opened.file, offset, _bytes(given[1])[:result]))
            case "sendfile":
                source = self._opened[int(given[1])]
                self._copy(source, int(given[2][1:].split("]")[0]), opened, opened.offset, result)
                opened.offset += result
            case "copy_file_range":  # what shutil.copyfile does since Python 3.14
                assert given[1] == "NULL", given
                target = self._opened[int(given[2])]
                self._copy(opened, opened.offset, target, int(given[3][1:-1]), result)
                opened.offset += result
            case "ftruncate":
                self.operations.append(Cut(opened.file, int(given[1])))
            case "fsync" | "fdatasync" if opened.file in self.folders:
                self.operations.append(FlushFolder(opened.path))
            case "fsync" | "fdatasync":
                self.operations.append(Flush(opened.file))
            case _:
                raise AssertionError(f"{call} is not known here")

    def _open(self, call: str, given: list[str], descriptor: int) -> None:
        at, text = (given[0], given[1]) if call == "openat" else (_HERE, given[0])
        flags = "O_CREAT|O_TRUNC" if call == "creat" else given[2 if call == "openat" else 1]
        path = self._path(text, at)
        if not path.is_relative_to(self.root):
            self._opened.pop(descriptor, None)
            return
        if path not in self.names:
            assert "O_CREAT" in flags, path
            self._name({path: self._new()})
        elif "O_TRUNC" in flags:
            self.operations.append(Cut(self.names[path], 0))
        assert "O_APPEND" not in flags, path
        self._opened[descriptor] = _Open(self.names[path], path)

    def _write(self, descriptor: int, data: bytes) -> None:
        opened = self._opened.get(descriptor)
        if opened is not None:
            self.operations.append(Write(opened.file, opened.offset, data))
            opened.offset += len(data)
        elif descriptor in {1, 2}:
            self.operations.append(OnProgress(data.decode()))

    def _copy(self, source: _Open, start: int, target: _Open, offset: int, size: int) -> None:
        """Note a copy from a file that is as it was before the command; no other's content is kept."""
        written = {one.file for one in self.operations if isinstance(one, Write | Cut)}
        assert source.file not in written, source.path
        data = self.contents[source.file][start : start + size]
        self.operations.append(Write(target.file, offset, data))

    def _name(self, changed: dict[Path, int | None]) -> None:
        within = {path: file for path, file in changed.items() if path.is_relative_to(self.root)}
        if not within:
            return
        assert within.keys() == changed.keys(), f"moved in or out: {changed}"
        self.operations.append(Named(tuple(within.items())))
        for path, file in within.items():
            if file is None:
                self.names.pop(path, None)
            else:
                self.names[path] = file

    def _path(self, text: str, at: str) -> Path:
        path = Path(os.fsdecode(_bytes(text)))
        if path.is_absolute():
            return path
        if at == _HERE:
            return self.root / path
        assert int(at) in self._opened, f"{path} in a folder that is not known"
        return self._opened[int(at)].path / path

    def _outside(self, given: list[str]) -> bool:
        """Whether none of the arguments means anything of ours."""
        paths = (_bytes(one) for one in given if one.startswith('"'))
        ours = os.fsencode(self.root)
        descriptors = {int(one) for one in given[:3] if one.isdigit()}
        return not any(path.startswith(ours) for path in paths) and not (
            descriptors & self._opened.keys()
        )


def _bytes(text: str) -> bytes:
    assert text.startswith('"'), text[:50]
    assert text.endswith('"'), "the trace was cut short"
    return bytes.fromhex(text[1:-1].replace("\\x", ""))
