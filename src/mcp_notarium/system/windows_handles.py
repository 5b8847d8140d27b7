r"""Open files of Windows by handles, look at what was opened, and try again while another program has it.

A link is opened itself and refused; what has a second, short name (``NOTES~1.MD``) is not found by that. Longer paths than Windows takes begin with ``\\?\``, behind which nothing is normalized.

Sources (Microsoft Learn): "CreateFileW function", "GetFinalPathNameByHandleW function", "GetFileType function",
"GetFileInformationByHandleEx function", "FILE_ATTRIBUTE_TAG_INFO structure", "FILE_ID_INFO structure", "Reparse Point Tags",
"Maximum Path Length Limitation", "_open_osfhandle", "RtlIsDosDeviceName_U function", "Naming Files, Paths, and Namespaces" (GLOBALROOT).
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mcp_notarium.system.windows_acl import AccessLists
from mcp_notarium.system.windows_kernel import (
    ACCESS_DENIED,
    DELETE_PENDING,
    INVALID_HANDLE,
    AttributeTag,
    FileId,
    Kernel,
    windows_error,
)

_Result = TypeVar("_Result")

GENERIC_READ, GENERIC_WRITE, READ_CONTROL, DELETE = 0x80000000, 0x40000000, 0x20000, 0x10000
_STATUS_DELETE_PENDING = 0xC0000056
"""NTSTATUS of what the code for programs calls a denial; LLVM's ``fs::status`` tells both apart in this way, too."""
LOOK = 0x80  # FILE_READ_ATTRIBUTES
SHARE_READ, SHARE_WRITE, SHARE_DELETE = 0x1, 0x2, 0x4
SHARE_ALL = SHARE_READ | SHARE_WRITE | SHARE_DELETE
"""With FILE_SHARE_DELETE another process may rename or remove what this one has open, as on POSIX."""
CREATE_NEW, OPEN_EXISTING, OPEN_ALWAYS = 1, 3, 4
NO_REPARSE, NORMAL = 0x00200000, 0x80
FOLDERS = 0x02000000  # FILE_FLAG_BACKUP_SEMANTICS
LOOK_FLAGS = FOLDERS | NO_REPARSE | 0x00100000  # FILE_FLAG_OPEN_NO_RECALL
DIRECTORY, REPARSE = 0x10, 0x400
STANDS_FOR_ANOTHER_NAME = 0x20000000
"""The bit of ``IsReparseTagNameSurrogate``: links and mount points have it, files of OneDrive have not."""
_TYPE_DISK = 1
_TAG_INFO, _ID_INFO = 9, 18
_ROOM, _MOST_PATH = 240, 0x8000
_OF_DEVICE, _ROOT_OF_DEVICES = 0x2, "\\\\?\\GLOBALROOT"  # VOLUME_NAME_NT
_NO_DRIVE = {errno.EINVAL, errno.ENOENT, errno.ENXIO}
"""Errors for a disk that Windows' mount manager does not know, such as one of WinFsp (Cryptomator, rclone)."""
TRIES, FEW_TRIES, PAUSE = 20, 5, 0.05
BUSY = {errno.EBUSY, errno.EAGAIN}
HELD = BUSY | {errno.EACCES}
"""Errors while an antivirus, a backup or an indexer has a file for a moment; a lack of rights looks the same."""

_DEVICES_AS_DRIVES = "\\\\.\\"
"""Behind it stands the same as behind the prefix of long paths, but normalized."""
_LONGEST_NAME = 255
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f<>:"/\\|?*]')
_DEVICES = re.compile(
    r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|con(in|out)\$) *(\..*)?", re.IGNORECASE
)


class Elsewhere(FileNotFoundError):
    """Report that a path below a folder leads out of it, which has become a link."""


class WindowsHandles:
    """Open files; ``pause`` waits so many seconds."""

    def __init__(
        self, kernel: Kernel | None = None, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._kernel = kernel or Kernel()
        self._lists = AccessLists(self._kernel)
        self._pause = pause

    def takes_name(self, name: str) -> bool:
        """Refuse devices, streams, what Windows cuts off at the end, and characters that no name has."""
        return (
            bool(name)
            and name[-1] not in " ."
            and not _NOT_IN_NAMES.search(name)
            and not _DEVICES.fullmatch(name)
            and len(name.encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_NAME
        )

    def _below(self, folder: int, name: str) -> str:
        r"""Return the path of what an open folder holds. Behind ``\\?\`` a device or a stream would be made as it is named."""
        if not self.takes_name(name):  # defence: windows-name-is-one =False
            raise FileNotFoundError(errno.ENOENT, "no file has such a name", name)
        return f"{self._final_path(self._kernel.libraries.handle(folder))}\\{name}"

    def _demand_inside(self, folder: int, handle: int, name: str) -> None:
        """Raise ``FileNotFoundError`` unless what was opened below an open folder lies in it, and has this name in some letter case."""
        path, above = map(self._final_path, (handle, self._kernel.libraries.handle(folder)))
        found, _, own = path.rpartition("\\")
        # defence: windows-path-stays-inside =False
        if found != above:
            raise Elsewhere(errno.ENOENT, "a folder has become a link", above)
        # defence: short-name-is-no-name =False
        if own.upper() != name.upper():
            raise FileNotFoundError(errno.ENOENT, "it is the short name of another", name)

    def _descriptor(self, handle: int, flags: int) -> int:
        """Return a descriptor for a handle, which is closed if there is none left."""
        with self.closed_on_error(handle):
            return self._kernel.libraries.descriptor(handle, flags)

    @contextmanager
    def closed_on_error(self, handle: int) -> Iterator[None]:
        """Close a handle if the block raises."""
        try:
            yield
        except BaseException:
            self._kernel.call("CloseHandle", handle)
            raise

    def _final_path(self, handle: int) -> str:
        try:
            return self._told_path(handle, 0)
        except OSError as error:
            if error.errno not in _NO_DRIVE:
                raise
        return _ROOT_OF_DEVICES + self._told_path(handle, _OF_DEVICE)

    def _told_path(self, handle: int, flags: int) -> str:
        size = _ROOM
        while True:
            room = ctypes.create_unicode_buffer(size)
            length = self._kernel.demand("GetFinalPathNameByHandleW", handle, room, size, flags)
            if length < size:
                return room.value.rstrip("\\")
            size = min(length + 1, _MOST_PATH)

    def open_itself(self, path: str | Path, access: int, how: int, attributes: object) -> int:
        """Open a regular file, and not what a link in its place names.

        A file that is stored in another way (OneDrive, deduplication) has a reparse point that is no name. It is
        opened again for its content, and must be the same file.
        """
        handle = self.create(path, access, how, NO_REPARSE, attributes)
        try:
            tag = self._tag(handle, path)
            if tag.FileAttributes & REPARSE and tag.ReparseTag & STANDS_FOR_ANOTHER_NAME:
                raise OSError(errno.ELOOP, "it is a link", str(path))
            if not tag.FileAttributes & REPARSE:
                self.demand_regular(handle, path)
                kept, handle = handle, 0
                return kept
            again = self._open_target(path, access, OPEN_EXISTING, None)
            with self.closed_on_error(again):
                if self._identity(again, path) != self._identity(handle, path):
                    raise OSError(errno.ELOOP, "it was replaced by a link", str(path))
                return again
        finally:
            if handle:
                self._kernel.call("CloseHandle", handle)

    def _open_target(self, path: str | Path, access: int, how: int, attributes: object) -> int:
        """Open a regular file, also by a link."""
        handle = self.create(path, access, how, NORMAL, attributes)
        with self.closed_on_error(handle):
            self.demand_regular(handle, path)
            return handle

    def create(
        self,
        path: str | Path,
        access: int,
        how: int,
        flags: int,
        attributes: object = None,
        *,
        share: int = SHARE_ALL,
    ) -> int:
        """Use ``CreateFile``; return the handle."""
        new = ctypes.byref(attributes) if isinstance(attributes, ctypes.Structure) else None
        status = self._kernel.function("RtlGetLastNtStatus")  # loading it would change the status
        found = self._kernel.call(
            "CreateFileW", long_path(path), access, share, new, how, flags, None
        )
        if not found or found == INVALID_HANDLE:
            code = self._kernel.libraries.last_error()
            if code == ACCESS_DENIED and status() == _STATUS_DELETE_PENDING:
                code = DELETE_PENDING
            raise windows_error(code, path)
        return int(found)

    def demand_regular(self, handle: int, path: str | Path) -> None:
        """Raise ``OSError`` for a folder, a pipe or a device."""
        try:
            is_disk = self._kernel.call("GetFileType", handle) == _TYPE_DISK
            if is_disk and not self._tag(handle, path).FileAttributes & DIRECTORY:
                return
        except OSError:
            pass
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))

    def _tag(self, handle: int, path: str | Path) -> AttributeTag:
        found = AttributeTag()
        self._inform(handle, _TAG_INFO, found, path)
        return found

    def _identity(self, handle: int, path: str | Path) -> tuple[int, bytes]:
        found = FileId()
        self._inform(handle, _ID_INFO, found, path)
        return found.VolumeSerialNumber, bytes(found.FileId)

    def _inform(self, handle: int, what: int, found: ctypes.Structure, path: str | Path) -> None:
        self._kernel.demand(
            "GetFileInformationByHandleEx",
            handle,
            what,
            ctypes.byref(found),
            ctypes.sizeof(found),
            path=path,
        )

    def _patiently(
        self, do: Callable[[], _Result], tries: int = TRIES, held: Iterable[int | None] = HELD
    ) -> _Result:
        while True:
            tries -= 1
            try:
                return do()
            except OSError as error:
                if error.errno not in held or not tries:
                    raise
                self._pause(PAUSE)


def long_path(path: str | Path) -> str:
    r"""Return the path as Windows takes it however long it is: ``\\?\`` before an absolute one with backslashes."""
    text = str(path)
    if len(text.encode("utf-16-le", "surrogatepass")) < 2 * _ROOM or text.startswith("\\\\?\\"):
        return text
    text = os.path.abspath(text).replace("/", "\\")  # noqa: PTH100 - no link may be followed
    text = text.removeprefix(_DEVICES_AS_DRIVES)
    return f"\\\\?\\UNC\\{text[2:]}" if text.startswith("\\\\") else f"\\\\?\\{text}"


def binary() -> int:
    """Return the flags of a descriptor whose line ends pass as they are, and which no other program inherits."""
    return getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
