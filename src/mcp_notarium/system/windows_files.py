r"""Work on files that other programs write, on Windows.

An open folder is a handle that does not share its deletion: neither it nor a folder above it can be renamed meanwhile. Each
folder below is opened by the path that Windows tells of it and one name, and must be no link. A folder that is emptied can
become a link although it is open, so whatever was opened, made or moved by a path must lie in the folder. Paths begin with ``\\?\``: nothing in them is normalized, and names that only so are names are refused.

Windows has no exchange of two files. ``ReplaceFileW`` gives the replaced one a spare name; moving it to the temporary file's
name completes what looks like an exchange. A process that ends in between leaves the spare name behind, which tells the name
that is missing.

Sources (Microsoft Learn): "CreateFileW function", "GetFinalPathNameByHandleW function", "ReplaceFileW function", "MoveFileExW
function", "DeleteFileW function", "GetFileInformationByHandleEx function", "FILE_ID_BOTH_DIR_INFO structure",
"FILE_BASIC_INFO structure", "FSCTL_SET_REPARSE_POINT" ([MS-FSA] 2.1.5.10.37), "BY_HANDLE_FILE_INFORMATION structure", "Reparse Point Tags", "File Attribute Constants", "Naming
Files, Paths, and Namespaces". What only NTFS has is missing on FAT: then a change is seen by size and time alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from mcp_notarium.system.port import FileState
from mcp_notarium.system.windows_access import AccessLists
from mcp_notarium.system.windows_kernel import (
    ACCESS_DENIED,
    INVALID_HANDLE,
    NO_MORE_FILES,
    SHARING_VIOLATION,
    UNABLE_TO_MOVE_REPLACEMENT,
    UNABLE_TO_MOVE_REPLACEMENT_2,
    UNABLE_TO_REMOVE_REPLACED,
    UNSUPPORTED,
    AttributeTag,
    BasicInfo,
    FileId,
    FileInformation,
    Kernel,
    windows_error,
)

_Result = TypeVar("_Result")

GENERIC_READ, GENERIC_WRITE = 0x80000000, 0x40000000
_LIST = 0x1 | 0x80 | 0x100000  # FILE_LIST_DIRECTORY, FILE_READ_ATTRIBUTES, SYNCHRONIZE
_LOOK = 0x80  # FILE_READ_ATTRIBUTES
_SHARE_READ, _SHARE_WRITE, _SHARE_DELETE = 0x1, 0x2, 0x4
_SHARE_ALL = _SHARE_READ | _SHARE_WRITE | _SHARE_DELETE
"""With FILE_SHARE_DELETE another process may rename or remove what this one has open, as on POSIX."""
_SHARE_FOLDER = 3  # defence: windows-folder-stays 3=7
"""Without FILE_SHARE_DELETE nobody renames or removes a folder, nor one above it."""
CREATE_NEW, OPEN_EXISTING, OPEN_ALWAYS = 1, 3, 4
NO_REPARSE, NORMAL = 0x00200000, 0x80
_FOLDERS = 0x02000000  # FILE_FLAG_BACKUP_SEMANTICS
_LOOK_FLAGS = _FOLDERS | NO_REPARSE | 0x00100000  # FILE_FLAG_OPEN_NO_RECALL
_TYPE_DISK = 1
_BASIC_INFO, _TAG_INFO, _ENTRIES, _ENTRIES_AGAIN, _ID_INFO = 0, 9, 10, 11, 18
_DIRECTORY, _REPARSE = 0x10, 0x400
_NOT_HERE = 0x1000 | 0x40000 | 0x400000
"""FILE_ATTRIBUTE_OFFLINE, RECALL_ON_OPEN, RECALL_ON_DATA_ACCESS."""
STANDS_FOR_ANOTHER_NAME = 0x20000000
"""The bit of ``IsReparseTagNameSurrogate``: links and mount points have it, files of OneDrive have not."""
_CLOUD, _CLOUD_MASK = 0x9000001A, 0xFFFF0FFF
"""IO_REPARSE_TAG_CLOUD, of which there are sixteen."""
_CONTENT_TAGS = (0x80000013, 0x80000017)
"""IO_REPARSE_TAG_DEDUP and _WOF: regular files that are stored in another way."""
_MOVE_REPLACE, _MOVE_WRITE_THROUGH = 0x1, 0x8
_READ_ONLY = 0x1
_LONGEST, _LONGEST_NAME, _MOST_PATH = 240, 255, 0x8000
_TRIES, _FEW_TRIES, _PAUSE = 20, 5, 0.05
_BUSY = {errno.EBUSY, errno.EAGAIN}
_HELD = _BUSY | {errno.EACCES}
"""Errors while an antivirus, a backup or an indexer has a file for a moment; a lack of rights looks the same."""
_AGAIN = {ACCESS_DENIED, SHARING_VIOLATION, UNABLE_TO_REMOVE_REPLACED, UNABLE_TO_MOVE_REPLACEMENT}
"""Codes after which both files have their names."""
_EPOCH = 116_444_736_000_000_000
"""1970 in steps of 100 ns since 1601, as Windows counts."""
_SECOND = 10**9
_ROOM = 0x10000
_ENTRY = struct.Struct("<II4qq8xIIII")
"""FILE_ID_BOTH_DIR_INFO up to EaSize, which is the tag of a reparse point."""
_ID_AT, _NAME_AT = 96, 104
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f<>:"/\\|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(\..*)?", re.IGNORECASE)


class WindowsState(NamedTuple):
    """Hold what Windows tells of a file, as :class:`FileState` names it; ``st_birth_ns``: when it was created."""

    st_mode: int
    st_ino: int
    st_dev: int
    st_nlink: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_birth_ns: int
    attributes: int

    @property
    def st_mtime(self) -> float:
        """Return when it was last written, in seconds."""
        return self.st_mtime_ns / _SECOND

    @property
    def st_ctime(self) -> float:
        """Return when anything of it was last changed, in seconds."""
        return self.st_ctime_ns / _SECOND


class WindowsEntry(NamedTuple):
    """Hold what a folder's listing tells of an entry. Nothing was opened for it."""

    name: str
    state: WindowsState

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Tell a folder; a link is none."""
        del follow_symlinks
        return stat.S_ISDIR(self.state.st_mode)

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Tell a regular file."""
        del follow_symlinks
        return stat.S_ISREG(self.state.st_mode)

    def stat(self, *, follow_symlinks: bool) -> WindowsState:
        """Return its state; other names of it are not counted."""
        del follow_symlinks
        return self.state


class _Elsewhere(FileNotFoundError):
    """A path below a folder leads out of it, which has become a link."""


class WindowsFiles:
    """Implement that part of the port; ``pause`` waits so many seconds."""

    def __init__(
        self, kernel: Kernel | None = None, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._kernel = kernel or Kernel()
        self._lists = AccessLists(self._kernel)
        self._pause = pause

    def open_top(self, path: Path) -> int:
        """Open it, also by a link."""
        return self._open_folder(long_path(path), _FOLDERS)

    def open_folder(self, above: int, name: str) -> int:
        """Open it, and look at what was opened: a link is no folder."""
        return self._open_folder(self._below(above, name), _FOLDERS | NO_REPARSE, above)

    def _open_folder(self, path: str, flags: int, above: int | None = None) -> int:
        handle = self._patiently(
            lambda: self.create(path, _LIST, OPEN_EXISTING, flags, share=_SHARE_FOLDER),
            _FEW_TRIES,
            _BUSY,
        )
        with self.closed_on_error(handle):
            if above is not None:
                self._demand_inside(above, handle)
            # defence: windows-folder-no-link =False
            if not stat.S_ISDIR(self._state(handle).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "it is not a folder", path)
            return self._kernel.libraries.descriptor(handle, os.O_RDONLY)

    def open_file(self, folder: int, name: str) -> int:
        """Open it itself; other programs may still write, rename and remove it."""
        path = self._below(folder, name)
        handle = self._patiently(
            lambda: self.open_itself(path, GENERIC_READ, OPEN_EXISTING, None), _FEW_TRIES, _BUSY
        )
        with self.closed_on_error(handle):
            self._demand_inside(folder, handle)
            return self._kernel.libraries.descriptor(handle, os.O_RDONLY | binary())

    def create_file(self, folder: int, name: str, *, private: bool) -> int:
        """Create it with the rights that the folder hands down, or as the user's alone."""
        path, access = self._below(folder, name), GENERIC_READ | GENERIC_WRITE
        if private:
            with self._lists.attributes(folder=False) as attributes:
                handle = self.create(path, access, CREATE_NEW, NO_REPARSE, attributes)
        else:
            handle = self.create(path, access, CREATE_NEW, NO_REPARSE)
        with self.closed_on_error(handle):
            try:
                self._demand_inside(folder, handle)
            except _Elsewhere:
                self._kernel.call("DeleteFileW", self._final_path(handle))
                raise
            return self._kernel.libraries.descriptor(handle, os.O_WRONLY | binary())

    def make_folder(self, above: int, name: str) -> None:
        """Create it with the rights that the one above hands down."""
        path = self._below(above, name)
        self._kernel.demand("CreateDirectoryW", path, None)
        try:
            self.look(above, name)
        except _Elsewhere:
            self._kernel.call("RemoveDirectoryW", path)
            raise

    def remove_folder(self, above: int, name: str) -> None:
        """Use ``RemoveDirectory``."""
        self.look(above, name)
        self._kernel.demand("RemoveDirectoryW", self._below(above, name))

    def unlink(self, folder: int, name: str) -> None:
        """Use ``DeleteFile``; try again while another program has it open."""
        self.look(folder, name)
        path = self._below(folder, name)
        self._patiently(lambda: self._kernel.demand("DeleteFileW", path))

    @contextmanager
    def scan(self, folder: int) -> Iterator[Iterable[WindowsEntry]]:
        """Give what the folder's listing tells: no file is opened, and none is fetched."""
        yield self._entries(folder)

    def list_names(self, folder: int) -> list[str]:
        """Read the same listing."""
        return [one.name for one in self._entries(folder)]

    def _entries(self, folder: int) -> Iterator[WindowsEntry]:
        handle, room = self._kernel.libraries.handle(folder), (ctypes.c_uint64 * (_ROOM // 8))()
        what = _ENTRIES_AGAIN
        while self._kernel.call(
            "GetFileInformationByHandleEx", handle, what, ctypes.byref(room), _ROOM
        ):
            what = _ENTRIES
            # What other programs of Windows cannot name is no note.
            yield from (one for one in _parse(bytes(room)) if self.takes_name(one.name))
        if (code := self._kernel.libraries.last_error()) != NO_MORE_FILES:
            raise windows_error(code)

    def look(self, folder: int, name: str) -> FileState:
        """Open it for its attributes alone, which fetches nothing. What is being deleted is gone."""
        path = self._below(folder, name)
        try:
            handle = self.create(path, _LOOK, OPEN_EXISTING, _LOOK_FLAGS)
        except OSError as error:
            if error.errno in _HELD:
                raise FileNotFoundError(errno.ENOENT, "it is being deleted", name) from None
            raise
        try:
            self._demand_inside(folder, handle)
            return self._state(handle)
        finally:
            self._kernel.call("CloseHandle", handle)

    def look_at_open(self, descriptor: int) -> FileState:
        """Ask its handle."""
        return self._state(self._kernel.libraries.handle(descriptor))

    def _state(self, handle: int) -> WindowsState:
        found, basic, tag = FileInformation(), BasicInfo(), 0
        self._kernel.demand("GetFileInformationByHandle", handle, ctypes.byref(found))
        self._inform(handle, _BASIC_INFO, basic, "")
        if found.FileAttributes & _REPARSE:
            tag = self._tag(handle, "").ReparseTag
        return WindowsState(
            st_mode=_mode(found.FileAttributes, tag),
            st_ino=found.FileIndexHigh << 32 | found.FileIndexLow,
            st_dev=found.VolumeSerialNumber,
            st_nlink=found.NumberOfLinks,
            st_size=found.FileSizeHigh << 32 | found.FileSizeLow,
            st_mtime_ns=_nanoseconds(basic.LastWriteTime),
            st_ctime_ns=_nanoseconds(basic.ChangeTime or basic.LastWriteTime),
            st_birth_ns=_nanoseconds(basic.CreationTime),
            attributes=found.FileAttributes,
        )

    def is_elsewhere(self, found: FileState) -> bool:
        """Read the attributes of a file whose content is at OneDrive or another server only."""
        return bool(getattr(found, "attributes", 0) & _NOT_HERE)

    def is_read_only(self, folder: int, name: str) -> bool:
        """Read the attribute of the file; that of a folder means something else."""
        return bool(name) and bool(getattr(self.look(folder, name), "attributes", 0) & _READ_ONLY)

    def has_no_blocks(self, _found: FileState) -> bool:
        """Return False: the attributes tell what is not here."""
        return False

    def takes_name(self, name: str) -> bool:
        """Refuse devices, streams, what Windows cuts off at the end, and characters that no name has."""
        return (
            bool(name)
            and name[-1] not in " ."
            and not _NOT_IN_NAMES.search(name)
            and not _DEVICES.fullmatch(name)
            and len(name.encode("utf-16-le", "surrogatepass")) <= 2 * _LONGEST_NAME
        )

    def rename(
        self,
        old_folder: int,
        old: str,
        new_folder: int,
        new: str,
        *,
        exchange: bool,
        spare: str = "",
    ) -> bool:
        """Use ``MoveFileEx``, or for an exchange ``ReplaceFile`` first; both try again while a program has one of them open."""
        one, other = self._below(old_folder, old), self._below(new_folder, new)
        if not exchange:
            self._patiently(lambda: self._move_inside(old_folder, one, new_folder, other))
            return True
        if not self.takes_name(spare):  # too long
            return False
        between = self._below(new_folder, spare)
        if not self._replace(one, other, between):
            return False
        self._patiently(lambda: self._move(between, one))
        return True

    def _move_inside(self, old_folder: int, old: str, new_folder: int, new: str) -> None:
        """Move a file, and back if the new path led elsewhere. Raises ``NotADirectoryError`` for a path that does."""
        handle = self.create(old, _LOOK, OPEN_EXISTING, _LOOK_FLAGS)
        moved = False
        try:
            self._demand_inside(old_folder, handle)
            self._move(old, new)
            moved = True
            self._demand_inside(new_folder, handle)
        except _Elsewhere as error:
            if moved:
                self._move(self._final_path(handle), old)
            raise NotADirectoryError(errno.ENOTDIR, error.strerror, new) from None
        finally:
            self._kernel.call("CloseHandle", handle)

    def _replace(self, new: str, name: str, spare: str) -> bool:
        """Put a new file in the place of another, which gets the spare name; False if the file system cannot."""
        for left in reversed(range(_TRIES)):
            if self._kernel.call("ReplaceFileW", name, new, spare, 0, None, None):
                return True
            code = self._kernel.libraries.last_error()
            if code in UNSUPPORTED:
                return False
            if code == UNABLE_TO_MOVE_REPLACEMENT_2:  # defence: half-replacement-undone =False
                self._patiently(lambda: self._move(spare, name))
            elif code not in _AGAIN or not left:
                raise windows_error(code, name)
            self._pause(_PAUSE)
        raise windows_error(UNABLE_TO_MOVE_REPLACEMENT_2, name)

    def replace(self, folder: int, old: str, new: str) -> None:
        """Use ``MoveFileEx``."""
        one, other = self._below(folder, old), self._below(folder, new)
        self._patiently(lambda: self._move(one, other, replaces=True))

    def _move(self, old: str, new: str, *, replaces: bool = False) -> int:
        flags = _MOVE_WRITE_THROUGH | (_MOVE_REPLACE if replaces else 0)
        return self._kernel.demand("MoveFileExW", old, new, flags, path=new)

    def link(self, _old_folder: int, _old: str, _new_folder: int, _new: str) -> None:
        """Refuse: a move never needs it here."""
        raise OSError(errno.ENOTSUP, "files have one name")

    def permit_as(self, above: int, descriptor: int, *, is_folder: bool) -> None:
        """Do nothing: rights are handed down."""

    def copy_rights(self, _source: int, found: FileState, to: int) -> None:
        """Set the time of creation; ``ReplaceFile`` keeps rights, attributes and streams of the file that it replaces."""
        born = getattr(found, "st_birth_ns", 0) // 100 + _EPOCH
        basic = BasicInfo(CreationTime=born)
        self._kernel.demand(
            "SetFileInformationByHandle",
            self._kernel.libraries.handle(to),
            _BASIC_INFO,
            ctypes.byref(basic),
            ctypes.sizeof(basic),
        )

    def flush_names(self, folder: int) -> None:
        """Do nothing: NTFS logs names, and a move waits for the disk, also for what was logged before."""

    def birth(self, _descriptor: int, found: FileState) -> str | None:
        """Return the time of creation."""
        return "{}.{:09}".format(*divmod(getattr(found, "st_birth_ns", 0), _SECOND))

    def is_being_written(self, descriptor: int) -> bool:
        """Open it without sharing what others write: that is refused while anybody may write."""
        path = self._final_path(self._kernel.libraries.handle(descriptor))
        share = _SHARE_READ | _SHARE_DELETE
        try:
            handle = self.create(path, GENERIC_READ, OPEN_EXISTING, NO_REPARSE, share=share)
        except OSError as error:
            return error.errno == errno.EBUSY
        self._kernel.call("CloseHandle", handle)
        return False

    def read_attribute(self, _descriptor: int, _name: str) -> bytes | None:
        """Return None: NTFS' streams are no attributes that survive a copy."""
        return None

    def write_attribute(self, _descriptor: int, _name: str, _value: bytes) -> None:
        """Refuse."""
        raise OSError(errno.ENOTSUP, "no extended attributes")

    def _below(self, folder: int, name: str) -> str:
        r"""Return the path of what an open folder holds. Behind ``\\?\`` a device or a stream would be made as it is named."""
        if not self.takes_name(name):  # defence: windows-name-is-one =False
            raise FileNotFoundError(errno.ENOENT, "no file has such a name", name)
        return f"{self._final_path(self._kernel.libraries.handle(folder))}\\{name}"

    def _demand_inside(self, folder: int, handle: int) -> None:
        """Raise ``FileNotFoundError`` unless what was opened by a path below an open folder lies in it."""
        path, above = map(self._final_path, (handle, self._kernel.libraries.handle(folder)))
        # defence: windows-path-stays-inside =False
        if path.rpartition("\\")[0] != above:
            raise _Elsewhere(errno.ENOENT, "a folder has become a link", above)

    @contextmanager
    def closed_on_error(self, handle: int) -> Iterator[None]:
        """Close a handle if the block raises."""
        try:
            yield
        except BaseException:
            self._kernel.call("CloseHandle", handle)
            raise

    def _final_path(self, handle: int) -> str:
        size = _LONGEST
        while True:
            room = ctypes.create_unicode_buffer(size)
            length = self._kernel.demand("GetFinalPathNameByHandleW", handle, room, size, 0)
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
            if tag.FileAttributes & _REPARSE and tag.ReparseTag & STANDS_FOR_ANOTHER_NAME:
                raise OSError(errno.ELOOP, "it is a link", str(path))
            if not tag.FileAttributes & _REPARSE:
                self.demand_regular(handle, path)
                kept, handle = handle, 0
                return kept
            again = self.create(path, access, OPEN_EXISTING, NORMAL)
            with self.closed_on_error(again):
                self.demand_regular(again, path)
                if self._identity(again, path) != self._identity(handle, path):
                    raise OSError(errno.ELOOP, "it was replaced by a link", str(path))
                return again
        finally:
            if handle:
                self._kernel.call("CloseHandle", handle)

    def create(
        self,
        path: str | Path,
        access: int,
        how: int,
        flags: int,
        attributes: object = None,
        *,
        share: int = _SHARE_ALL,
    ) -> int:
        """Use ``CreateFile``; return the handle."""
        new = ctypes.byref(attributes) if isinstance(attributes, ctypes.Structure) else None
        found = self._kernel.call(
            "CreateFileW", long_path(path), access, share, new, how, flags, None
        )
        if not found or found == INVALID_HANDLE:
            raise windows_error(self._kernel.libraries.last_error(), path)
        return int(found)

    def demand_regular(self, handle: int, path: str | Path) -> None:
        """Raise ``OSError`` for a folder, a pipe or a device."""
        try:
            is_disk = self._kernel.call("GetFileType", handle) == _TYPE_DISK
            if is_disk and not self._tag(handle, path).FileAttributes & _DIRECTORY:
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
        self, do: Callable[[], _Result], tries: int = _TRIES, held: Iterable[int | None] = _HELD
    ) -> _Result:
        while True:
            tries -= 1
            try:
                return do()
            except OSError as error:
                if error.errno not in held or not tries:
                    raise
                self._pause(_PAUSE)


def long_path(path: str | Path) -> str:
    r"""Return the path as Windows takes it however long it is: ``\\?\`` before an absolute one with backslashes."""
    text = str(path)
    if len(text) < _LONGEST or text.startswith("\\\\?\\"):
        return text
    text = os.path.abspath(text).replace("/", "\\")  # noqa: PTH100 - no link may be followed
    return f"\\\\?\\UNC\\{text[2:]}" if text.startswith("\\\\") else f"\\\\?\\{text}"


def binary() -> int:
    """Return the flags of a descriptor whose line ends pass as they are, and which no other program inherits."""
    return getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)


def _parse(told: bytes) -> Iterator[WindowsEntry]:
    """Yield the entries of one answer, without the folder itself and the one above."""
    at, following = 0, -1
    while following:
        following, _, born, _, wrote, changed, size, attributes, length, tag, _ = (
            _ENTRY.unpack_from(told, at)
        )
        name = told[at + _NAME_AT : at + _NAME_AT + length].decode("utf-16-le", "surrogatepass")
        (number,) = struct.unpack_from("<Q", told, at + _ID_AT)
        at += following
        if name in (".", ".."):
            continue
        state = WindowsState(
            st_mode=_mode(attributes, tag if attributes & _REPARSE else 0),
            st_ino=number,
            st_dev=0,
            st_nlink=1,
            st_size=size,
            st_mtime_ns=_nanoseconds(wrote),
            st_ctime_ns=_nanoseconds(changed or wrote),
            st_birth_ns=_nanoseconds(born),
            attributes=attributes,
        )
        yield WindowsEntry(name, state)


def _mode(attributes: int, tag: int) -> int:
    """Return what something is: whatever stands for another name, or is unknown, is a link to us."""
    if tag and tag & _CLOUD_MASK != _CLOUD and tag not in _CONTENT_TAGS:
        return stat.S_IFLNK
    return stat.S_IFDIR if attributes & _DIRECTORY else stat.S_IFREG


def _nanoseconds(steps: int) -> int:
    """Return nanoseconds since 1970."""
    return (steps - _EPOCH) * 100
