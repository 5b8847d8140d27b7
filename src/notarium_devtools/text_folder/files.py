"""Read and replace files of one folder that other programs write at any moment.

A file is replaced by exchanging it with a temporary one: what was displaced is in hand, whoever wrote it.
No symbolic link is followed. A process that ends in the middle leaves a temporary file behind. Its name tells
what we have written and read: another content is somebody's edit that we have displaced, and becomes
a note again.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import re
import secrets
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import OutcomeUnknown, StoreProtocolError

LARGEST = 1_048_576
SETTLED = 0.05
"""Seconds without a change after which a file counts as written to its end."""
LONGEST_WAIT = 1.0
"""Most seconds to wait for that."""
LEFT_BEHIND = 600.0
"""Seconds after which nobody is working with a temporary file any more."""
RECOVERED = "Recovered {}.txt"
"""The name of what was found in a temporary file."""
_TEMPORARY = re.compile(r"\.notarium-(?P<ours>\w+)-(?P<read>\w*)-(?P<number>\w+)\.tmp")
_NOREPLACE, _EXCHANGE = 1, 2
_EMPTY_PATH, _BIRTH_TIME, _AT_BIRTH_TIME = 0x1000, 0x800, 80
"""Flag, mask and place in the answer of ``statx``."""
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_NOT_READABLE = (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)


class NotText(StoreProtocolError):
    """The file is no regular file, too large, not UTF-8, or must not be read. It is never changed."""

    def __init__(self) -> None:
        super().__init__("the file of this note is not a text file that can be read")


@dataclass(frozen=True, slots=True)
class TextFile:
    """Hold a file as it was read. ``mode``: its permissions; ``identity``: see :func:`identity_of`."""

    data: bytes
    text: str
    modified: float
    mode: int
    identity: str | None

    @property
    def etag(self) -> str:
        """Return the hash of its bytes."""
        return etag_of(self.data)


@dataclass(frozen=True, slots=True)
class Written:
    """Describe a file of ours: its date, its identity, and the mark by which our own write is known."""

    modified: float
    identity: str | None
    mark: tuple[int, int]


class Folder:
    """Read and write files below one path, which must stay the same folder while this object lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._written: dict[str, tuple[int, int]] = {}
        """Name -> inode and time of our own last write: nobody else is in the middle of that."""

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the folder. Raises ``OSError``, also if another one (an empty mount point) is in its place."""
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(folder)
            self._identity = self._identity or (found.st_dev, found.st_ino)
            if self._identity != (found.st_dev, found.st_ino):
                raise OSError(errno.ESTALE, "another folder is in its place")
            yield folder
        finally:
            os.close(folder)

    def read(self, folder: int, name: str, *, written_as: str = "") -> TextFile:
        """Read a file, when nobody seems to be writing it. Raises ``FileNotFoundError``, ``NotText``."""
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(name, how, dir_fd=folder)
        except OSError as error:
            if error.errno in _NOT_READABLE:
                raise NotText from None
            raise
        try:
            data, found = _read_settled(file, self._written.get(written_as or name))
            mode, identity = stat.S_IMODE(found.st_mode), identity_of(file, found)
            return TextFile(data, data.decode(), found.st_mtime, mode, identity)
        except UnicodeDecodeError:
            raise NotText from None
        finally:
            os.close(file)

    def create(self, folder: int, name: str, data: bytes, *, before: Callable[[], None]) -> Written:
        """Create a file. Raises ``FileExistsError``, whatever is there.

        ``before`` is called right before the file appears; what it raises keeps it from appearing.
        """
        temporary, written = _write_temporary(folder, data, read="")
        try:
            before()
            if not _rename(folder, temporary, name, _NOREPLACE):
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            _remove(folder, temporary)
        return self._remember(name, written)

    def replace(
        self, folder: int, name: str, data: bytes, *, held: TextFile, before: Callable[[], None]
    ) -> tuple[Written, TextFile, bool]:
        """Replace a file. Return the new one, what was displaced, and whether that is certain.

        ``held`` was read before: all that is known of the displaced file where the system cannot
        exchange two. Raises ``FileNotFoundError`` or ``NotText``, with nothing replaced, or
        ``OutcomeUnknown``.
        """
        temporary, written = _write_temporary(folder, data, held.mode, read=held.etag)
        certain = False
        try:
            before()
            certain = _rename(folder, temporary, name, _EXCHANGE)
            if certain:
                held = self._take_displaced(folder, temporary, name)
            else:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            if not certain or isinstance(error, NotText):
                _remove(folder, temporary)
            raise  # otherwise the displaced file stays: its content is in nobody's hands
        _remove(folder, temporary)
        return self._remember(name, written), held, certain

    def recover(self, folder: int, name: str, changed: float) -> None:
        """Make a note of a temporary file (changed at epoch seconds) that a process has left behind.

        It is removed if it holds what we have written, which the journal has, or what that was made from.
        """
        found = _TEMPORARY.fullmatch(name)
        if found is None or time.time() - changed < LEFT_BEHIND:
            return
        with suppress(NotText):
            etag = self.read(folder, name).etag
            if etag in (found["ours"], found["read"], etag_of(b"")):
                _remove(folder, name)
                return
        note = RECOVERED.format(found["number"])
        if not _rename(folder, name, note, _NOREPLACE):
            os.link(name, note, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            _remove(folder, name)

    def _take_displaced(self, folder: int, temporary: str, name: str) -> TextFile:
        try:
            try:
                return self.read(folder, temporary, written_as=name)
            except NotText:
                _rename(folder, temporary, name, _EXCHANGE)
                raise
        except OSError as error:
            raise OutcomeUnknown(
                "the file that was replaced can be neither read nor put back"
            ) from error

    def _remember(self, name: str, written: Written) -> Written:
        self._written[name] = written.mark
        return written


def etag_of(data: bytes) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


def identity_of(file: int, found: os.stat_result) -> str | None:
    """Return what names an open file beyond its name; None if the system does not tell.

    An inode alone is given to the next file when a file is gone. Its time of birth makes it unique.
    """
    born = getattr(found, "st_birthtime_ns", None) or getattr(found, "st_birthtime", None)
    statx = _statx() if born is None else None
    if statx is not None:
        answer = ctypes.create_string_buffer(256)
        if statx(file, b"", _EMPTY_PATH, _BIRTH_TIME, answer) == 0:
            (known,) = struct.unpack_from("=I", answer, 0)
            if known & _BIRTH_TIME:
                born = "{}.{:09}".format(*struct.unpack_from("=qI", answer, _AT_BIRTH_TIME))
    return None if born is None else f"{found.st_ino}:{born}"


@functools.cache
def _statx() -> Callable[..., int] | None:
    """Return the system's function; Python tells no time of birth on Linux."""
    return getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None


def _read_settled(file: int, own: tuple[int, int] | None) -> tuple[bytes, os.stat_result]:
    """Read until the file has been left alone for a moment. Programs empty a file before they write it."""
    deadline = time.monotonic() + LONGEST_WAIT
    while True:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise NotText
        os.lseek(file, 0, os.SEEK_SET)
        data = b"".join(iter(lambda: os.read(file, LARGEST), b""))
        now = os.fstat(file)
        same = now.st_mtime_ns == found.st_mtime_ns and now.st_size == len(data)
        left_alone = abs(time.time() - now.st_mtime) > SETTLED
        if (same and (left_alone or own == (now.st_ino, now.st_mtime_ns))) or (
            time.monotonic() > deadline
        ):
            return data, now
        time.sleep(SETTLED / 5)


def _write_temporary(
    folder: int, data: bytes, mode: int | None = None, *, read: str
) -> tuple[str, Written]:
    """Write a file that no listing shows, down to the disk.

    ``mode`` None: the one of new files. ``read``: etag of what it is to replace.
    """
    name = f".notarium-{etag_of(data)}-{read}-{secrets.token_hex(4)}.tmp"
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    first = 0o666 if mode is None else 0o600
    with os.fdopen(os.open(name, how, first, dir_fd=folder), "wb") as file:
        try:
            file.write(data)
            if mode is not None:
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
            made = os.fstat(file.fileno())
            identity = identity_of(file.fileno(), made)
            return name, Written(made.st_mtime, identity, (made.st_ino, made.st_mtime_ns))
        except OSError:
            _remove(folder, name)
            raise


def _remove(folder: int, name: str) -> None:
    """Remove a temporary file. One that stays says nothing of the write; ``recover`` finds it later."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _rename(folder: int, old: str, new: str, flag: int) -> bool:
    """Rename by ``renameat2`` with a flag; False if the system or the file system has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(folder, os.fsencode(old), folder, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_FLAGS:
        return False
    raise OSError(number, os.strerror(number))
