"""Read and replace files of one folder that other programs write at any moment.

A file is replaced by exchanging it with a temporary one: what was displaced is in hand, whoever wrote it.
No symbolic link is followed. A process that ends between the exchange and the answer leaves the displaced
file behind as ``.notarium-*.tmp``, and nothing deletes it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import stat
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
_NOREPLACE, _EXCHANGE = 1, 2
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_NOT_READABLE = (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)


class NotText(StoreProtocolError):
    """The file is no regular file, too large, not UTF-8, or must not be read. It is never changed."""

    def __init__(self) -> None:
        super().__init__("the file of this note is not a text file that can be read")


@dataclass(frozen=True, slots=True)
class TextFile:
    """Hold a file as it was read. ``mode``: its permissions."""

    data: bytes
    text: str
    modified: float
    mode: int

    @property
    def etag(self) -> str:
        """Return the hash of its bytes."""
        return etag_of(self.data)


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
            return TextFile(data, data.decode(), found.st_mtime, stat.S_IMODE(found.st_mode))
        except UnicodeDecodeError:
            raise NotText from None
        finally:
            os.close(file)

    def create(self, folder: int, name: str, data: bytes, *, before: Callable[[], None]) -> float:
        """Create a file and return its date. Raises ``FileExistsError``, whatever is there.

        ``before`` is called right before the file appears; what it raises keeps it from appearing.
        """
        temporary, written = _write_temporary(folder, data)
        try:
            before()
            if not _rename(folder, temporary, name, _NOREPLACE):
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            _remove(folder, temporary)
        return self._remember(name, written)

    def replace(
        self, folder: int, name: str, data: bytes, *, held: TextFile, before: Callable[[], None]
    ) -> tuple[float, TextFile, bool]:
        """Replace a file. Return the new date, what was displaced, and whether that is certain.

        ``held`` was read before: all that is known of the displaced file where the system cannot
        exchange two. Raises ``FileNotFoundError`` or ``NotText``, with nothing replaced, or
        ``OutcomeUnknown``.
        """
        temporary, written = _write_temporary(folder, data, held.mode)
        certain = False
        try:
            before()
            certain = _rename(folder, temporary, name, _EXCHANGE)
            if certain:
                held = self._take_displaced(folder, temporary, name)
            else:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OutcomeUnknown:
            raise  # the displaced file stays: its content is in nobody's hands
        except BaseException:
            _remove(folder, temporary)
            raise
        _remove(folder, temporary)
        return self._remember(name, written), held, certain

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

    def _remember(self, name: str, written: os.stat_result) -> float:
        self._written[name] = (written.st_ino, written.st_mtime_ns)
        return written.st_mtime


def etag_of(data: bytes) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


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
    folder: int, data: bytes, mode: int | None = None
) -> tuple[str, os.stat_result]:
    """Write a file that no listing shows, down to the disk; ``mode`` None: the one of new files."""
    name = f".notarium-{secrets.token_hex(8)}.tmp"
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
            return name, os.fstat(file.fileno())
        except OSError:
            _remove(folder, name)
            raise


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
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
