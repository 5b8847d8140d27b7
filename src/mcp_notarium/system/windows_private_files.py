"""Read, create, lock, flush and move files of the user alone on Windows.

Sources (Microsoft Learn): "CreateFileW function" (sharing, FILE_FLAG_OPEN_REPARSE_POINT), "LockFileEx function", "UnlockFileEx
function", "MoveFileExW function", "DeleteFileW function", "RemoveDirectoryW function", "FlushFileBuffers function", "icacls".
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from mcp_notarium.system.common import Common, quote_windows
from mcp_notarium.system.port import Access, FileState
from mcp_notarium.system.windows_acl import EVERYBODY, SYSTEM_SID
from mcp_notarium.system.windows_handles import (
    BUSY,
    CREATE_NEW,
    DELETE,
    DIRECTORY,
    GENERIC_READ,
    GENERIC_WRITE,
    HELD,
    LOOK,
    LOOK_FLAGS,
    OPEN_ALWAYS,
    OPEN_EXISTING,
    PAUSE,
    READ_CONTROL,
    REPARSE,
    SHARE_ALL,
    STANDS_FOR_ANOTHER_NAME,
    TRIES,
    binary,
    long_path,
)
from mcp_notarium.system.windows_kernel import (
    IO_PENDING,
    LOCK_VIOLATION,
    SHARING_VIOLATION,
    Overlapped,
    windows_error,
)
from mcp_notarium.system.windows_moves import WindowsMoves
from mcp_notarium.system.windows_stat import WindowsStates

_APPEND_ONLY = (
    0x4 | 0x100000 | 0x80 | 0x20000
)  # FILE_APPEND_DATA, SYNCHRONIZE, READ_ATTRIBUTES, READ_CONTROL
_CHANGE_LIST = 0x40000  # WRITE_DAC
_LOCK_AT_ONCE, _LOCK_EXCLUSIVE = 0x1, 0x2
_LOCK_OFFSET = 0x7FFFFFFF
"""Upper half of the offset of the one byte that is locked: far behind the end, for nobody can read a locked byte."""


class WindowsPrivateFiles(WindowsStates, WindowsMoves, Common):
    """Implement that part of the port."""

    def open_regular(self, path: Path, *, follow: bool = False) -> BufferedReader:
        """Open it, and look at what was opened; other programs may still rename and remove it.

        Try again for a second while one does not share it.
        """
        open_ = self._open_target if follow else self.open_itself
        handle = self._patiently(lambda: open_(path, GENERIC_READ, OPEN_EXISTING, None), held=BUSY)
        return os.fdopen(self._descriptor(handle, os.O_RDONLY | binary()), "rb")

    def open_private(self, path: Path, flags: int) -> int:
        """Open it with the list of rights that makes a new one the user's alone."""
        append = flags & os.O_APPEND
        wanted = _APPEND_ONLY if append else GENERIC_READ
        if flags & (os.O_RDWR | os.O_WRONLY) and not append:
            wanted |= GENERIC_WRITE
        if not flags & os.O_CREAT:
            how = OPEN_EXISTING
        else:
            how = CREATE_NEW if flags & os.O_EXCL else OPEN_ALWAYS
        with self._lists.attributes(folder=False) as attributes:
            new = attributes if flags & os.O_CREAT else None
            wanted |= _CHANGE_LIST if append else 0
            handle = self._patiently(lambda: self.open_itself(path, wanted, how, new), held=BUSY)
        kept = flags & (os.O_RDWR | os.O_WRONLY | os.O_APPEND)
        return self._descriptor(handle, kept | binary())

    def make_private_folder(self, path: Path) -> None:
        """Create it with a list of rights that what is created in it inherits."""
        with self._lists.attributes(folder=True) as attributes:
            self._kernel.demand(
                "CreateDirectoryW", long_path(path), ctypes.byref(attributes), path=path
            )

    def access(self, place: Path | int, _found: os.stat_result) -> Access:
        """Read its list of rights: modes mean nothing here."""
        if isinstance(place, int):
            return self._lists.read(self._kernel.libraries.handle(place))
        with self._looked_at(place, READ_CONTROL) as handle:
            return self._lists.read(handle, is_drive=place.parent == place)

    @contextmanager
    def _looked_at(self, path: Path, access: int) -> Iterator[int]:
        """Open what is at a path, and no content of it. What is being deleted is not found."""
        try:
            handle = self.create(path, access, OPEN_EXISTING, LOOK_FLAGS)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise FileNotFoundError(errno.ENOENT, "it is being deleted", str(path)) from None
            raise
        try:
            yield handle
        finally:
            self._kernel.call("CloseHandle", handle)

    def is_link(self, path: Path, _found: os.stat_result) -> bool:
        """Tell a symbolic link, and a folder that is another's mount point (a junction): Python takes that for a folder."""
        with self._looked_at(path, LOOK) as handle:
            tag = self._tag(handle, path)
            return bool(tag.FileAttributes & REPARSE and tag.ReparseTag & STANDS_FOR_ANOTHER_NAME)

    def look_at(self, path: Path) -> FileState:
        """Open it for its attributes alone."""
        with self._looked_at(path, LOOK) as handle:
            return self._state(handle)

    def make_private(self, descriptor: int) -> None:
        """Give it the list of rights of a new file."""
        self._lists.make_private(self._kernel.libraries.handle(descriptor))

    def explain_privacy(self, path: Path, _quoted: str, *, folder: bool, reading: bool) -> str:
        """Return ``icacls`` with what a new one would get, or without the groups that hold everybody."""
        name = quote_windows(str(path))
        if not reading:
            groups = " ".join(f'"*{sid}"' for sid in EVERYBODY)
            return f"icacls {name} /inheritance:d /remove:g {groups}"
        inherited = "(OI)(CI)" if folder else ""
        mine, systems = (f'"*{sid}:{inherited}F"' for sid in (self._lists.user, SYSTEM_SID))
        return f"icacls {name} /inheritance:r /grant:r {mine} {systems}"

    def explain_ownership(self, path: Path, _quoted: str) -> str:
        """Return ``icacls`` as an administrator runs it."""
        return f'icacls {quote_windows(str(path))} /setowner "*{self._lists.user}"'

    def lock(self, descriptor: int, *, exclusive: bool) -> None:
        """Lock one byte far behind the end. A lock that is held already is given up first."""
        handle = self._kernel.libraries.handle(descriptor)
        with suppress(OSError):  # it holds none
            self._kernel.demand("UnlockFileEx", handle, 0, 1, 0, ctypes.byref(_lock_place()))
        how = _LOCK_AT_ONCE | (_LOCK_EXCLUSIVE if exclusive else 0)
        if not self._kernel.call("LockFileEx", handle, how, 0, 1, 0, ctypes.byref(_lock_place())):
            code = self._kernel.libraries.last_error()
            if code in {LOCK_VIOLATION, IO_PENDING}:
                raise BlockingIOError(errno.EAGAIN, "another process has the lock")
            raise windows_error(code)

    def flush(self, descriptor: int) -> None:
        """Use ``fsync``: here it is ``FlushFileBuffers``, which reaches the drive's buffer, too."""
        os.fsync(descriptor)

    def flush_file(self, path: Path) -> None:
        """Open it again for writing, and flush it."""
        descriptor = self.open_private(path, os.O_RDWR)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def flush_folder(self, folder: Path) -> None:
        """Do nothing: NTFS logs names, and :meth:`move` waits for the disk."""

    def move(self, old: Path, new: Path) -> None:
        """Use ``MoveFileEx``; try again for a second while another program has one of them open.

        It changes nothing unless it succeeds. A folder, and a link to one, has to go where nothing is.
        """
        one, other = long_path(old), long_path(new)
        with self._looked_at(old, LOOK) as handle:
            replaces = not self._tag(handle, old).FileAttributes & DIRECTORY
        with self._holder_named(new, old):
            self._patiently(lambda: self._move(one, other, replaces=replaces))

    def remove(self, path: Path) -> None:
        """Use ``DeleteFile``, or ``RemoveDirectory`` for a link to a folder; try again as :meth:`move` does."""
        name = long_path(path)
        with suppress(FileNotFoundError):
            with self._looked_at(path, LOOK) as handle:
                tag = self._tag(handle, path)
            is_folder = tag.FileAttributes & REPARSE and tag.FileAttributes & DIRECTORY
            call = "RemoveDirectoryW" if is_folder else "DeleteFileW"
            with self._holder_named(path):
                self._patiently(lambda: self._kernel.demand(call, name, path=path))

    def remove_empty(self, folder: Path) -> None:
        """Use ``RemoveDirectory``; try again as :meth:`move` does, also while files in it wait for their deletion."""
        call, held = "RemoveDirectoryW", {*HELD, errno.ENOTEMPTY}
        self._patiently(
            lambda: self._kernel.demand(call, long_path(folder), path=folder), held=held
        )

    def is_held(self, path: Path) -> bool:
        """Open it, sharing all; try again as :meth:`move` does."""
        for left in reversed(range(TRIES)):
            if not self._is_refused(path, GENERIC_READ | GENERIC_WRITE, SHARE_ALL):
                return False
            if left:
                self._pause(PAUSE)
        return True

    @contextmanager
    def _holder_named(self, *paths: Path) -> Iterator[None]:
        """Say that another program has one of the files open, where Windows says only that access is denied."""
        try:
            yield
        except PermissionError:
            for path in paths:
                if self._is_refused(path, DELETE, 0):  # defence: holder-of-file-told =False
                    raise windows_error(SHARING_VIOLATION, path) from None
            raise

    def _is_refused(self, path: Path, access: int, share: int) -> bool:
        try:
            handle = self.create(path, access, OPEN_EXISTING, LOOK_FLAGS, share=share)
        except OSError as error:
            return error.errno == errno.EBUSY
        self._kernel.call("CloseHandle", handle)
        return False


def _lock_place() -> Overlapped:
    return Overlapped(0, 0, 0, _LOCK_OFFSET, None)
