"""Read what Windows tells of a file, by a handle or in a folder's listing, in ``os.stat_result``'s terms.

Sources (Microsoft Learn): "GetFileInformationByHandle function", "BY_HANDLE_FILE_INFORMATION structure", "FILEBASIC_INFO
structure", "GetFileInformationByHandleEx function", "FILE_ID_BOTH_DIR_INFO structure" (its EaSize: [MS-FSCC] 2.4.17), "Reparse
Point Tags", "File Attribute Constants". What only NTFS has is missing on FAT: then a change is seen by size and time alone.
"""

from __future__ import annotations

import ctypes
import errno
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mcp_notarium.system.port import FileState
from mcp_notarium.system.windows_handles import (
    DIRECTORY,
    LOOK,
    LOOK_FLAGS,
    OPEN_EXISTING,
    REPARSE,
    WindowsHandles,
)
from mcp_notarium.system.windows_kernel import (
    FILE_NOT_FOUND,
    NO_MORE_FILES,
    BasicInfo,
    FileInformation,
    windows_error,
)

BASIC_INFO = 0
_ENTRIES, _ENTRIES_AGAIN = 10, 11
_NOT_HERE = 0x1000 | 0x40000 | 0x400000
"""FILE_ATTRIBUTE_OFFLINE, RECALL_ON_OPEN, RECALL_ON_DATA_ACCESS."""
_READ_ONLY = 0x1
_CLOUD, _CLOUD_MASK = 0x9000001A, 0xFFFF0FFF
"""IO_REPARSE_TAG_CLOUD, of which there are sixteen."""
_CONTENT_TAGS = (0x80000013, 0x80000017)
"""IO_REPARSE_TAG_DEDUP and _WOF: regular files that are stored in another way."""
EPOCH = 116_444_736_000_000_000
"""1970 in steps of 100 ns since 1601, as Windows counts."""
_SECOND = 10**9
_ROOM = 0x10000
_ENTRY = struct.Struct("<II4qq8xIIII")
"""FILE_ID_BOTH_DIR_INFO up to EaSize, which is the tag of a reparse point."""
_ID_AT, _NAME_AT = 96, 104


class WindowsState(NamedTuple):
    """Hold what Windows tells of a file, as :class:`FileState` names it."""

    st_mode: int
    st_ino: int
    st_dev: int
    st_nlink: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_birth_ns: int
    """Time of creation."""
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


class WindowsStates(WindowsHandles):
    """Implement what the port tells of files."""

    def look(self, folder: int, name: str) -> FileState:
        """Open it for its attributes alone, which fetches nothing. What is denied is looked up in the folder's listing."""
        path = self._below(folder, name)
        try:
            handle = self.create(path, LOOK, OPEN_EXISTING, LOOK_FLAGS)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise FileNotFoundError(errno.ENOENT, "it is being deleted", name) from None
            if error.errno == errno.EACCES:  # defence: denied-look-is-listed =False
                return self._listed(folder, name)
            raise
        try:
            self._demand_inside(folder, handle, name)
            return self._state(handle)
        finally:
            self._kernel.call("CloseHandle", handle)

    def _listed(self, folder: int, name: str) -> FileState:
        """Return the state of what may not be opened, or is being deleted: the code is the same."""
        for one in self._entries(folder):
            if one.name == name:
                return one.state
        raise FileNotFoundError(errno.ENOENT, "no such file", name)

    def look_at_open(self, descriptor: int) -> FileState:
        """Ask its handle."""
        return self._state(self._kernel.libraries.handle(descriptor))

    def _state(self, handle: int) -> WindowsState:
        found, basic, tag = FileInformation(), BasicInfo(), 0
        self._kernel.demand("GetFileInformationByHandle", handle, ctypes.byref(found))
        self._inform(handle, BASIC_INFO, basic, "")
        if found.FileAttributes & REPARSE:
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
        # The first answer for a folder without entries, not even those of itself (an empty drive), is "not found".
        if (code := self._kernel.libraries.last_error()) not in {NO_MORE_FILES, FILE_NOT_FOUND}:
            raise windows_error(code)

    def is_elsewhere(self, found: FileState) -> bool:
        """Read the attributes of a file whose content is at OneDrive or another server only."""
        return bool(getattr(found, "attributes", 0) & _NOT_HERE)

    def is_read_only(self, folder: int, name: str) -> bool:
        """Read the attribute of the file; that of a folder means something else."""
        return bool(name) and bool(getattr(self.look(folder, name), "attributes", 0) & _READ_ONLY)

    def birth(self, _descriptor: int, found: FileState) -> str | None:
        """Return the time of creation."""
        return "{}.{:09}".format(*divmod(getattr(found, "st_birth_ns", 0), _SECOND))


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
            st_mode=_mode(attributes, tag if attributes & REPARSE else 0),
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
    # defence: windows-link-is-no-folder =False
    if tag and tag & _CLOUD_MASK != _CLOUD and tag not in _CONTENT_TAGS:
        return stat.S_IFLNK
    return stat.S_IFDIR if attributes & DIRECTORY else stat.S_IFREG


def _nanoseconds(steps: int) -> int:
    """Return nanoseconds since 1970."""
    return (steps - EPOCH) * 100
