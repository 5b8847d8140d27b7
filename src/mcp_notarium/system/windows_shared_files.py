r"""Work on files that other programs write, on Windows.

An open folder is a handle that does not share its deletion: neither it nor a folder above it can be renamed meanwhile. Each
folder below is opened by the path that Windows tells of it and one name, and must be no link. A folder that is emptied can
become a link although it is open, so whatever was opened, made or moved by a path must lie in the folder.

Sources (Microsoft Learn): "CreateFileW function", "CreateDirectoryW function", "RemoveDirectoryW function", "DeleteFileW
function", "SetFileInformationByHandle function", "FILE_BASIC_INFO structure", "FSCTL_SET_REPARSE_POINT" ([MS-FSA] 2.1.5.10.37).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from mcp_notarium.system.port import FileState
from mcp_notarium.system.windows_handles import (
    BUSY,
    CREATE_NEW,
    DIRECTORY,
    FEW_TRIES,
    FOLDERS,
    GENERIC_READ,
    GENERIC_WRITE,
    NO_REPARSE,
    OPEN_EXISTING,
    SHARE_DELETE,
    SHARE_READ,
    Elsewhere,
    binary,
    long_path,
)
from mcp_notarium.system.windows_kernel import BasicInfo
from mcp_notarium.system.windows_moves import WindowsMoves
from mcp_notarium.system.windows_stat import BASIC_INFO, EPOCH, WindowsStates

_LIST = 0x1 | 0x80 | 0x100000  # FILE_LIST_DIRECTORY, FILE_READ_ATTRIBUTES, SYNCHRONIZE
_STEPS, _LAST = 10**7, (1 << 63) - 1
"""Steps of a second in which Windows counts, and the last it knows."""
_SHARE_FOLDER = 3  # defence: windows-folder-stays 3=7
"""Without FILE_SHARE_DELETE nobody renames or removes a folder, nor one above it."""


class WindowsSharedFiles(WindowsStates, WindowsMoves):
    """Implement that part of the port."""

    def open_top(self, path: Path) -> int:
        """Open it, also by a link."""
        return self._open_folder(long_path(path), FOLDERS)

    def open_folder(self, above: int, name: str) -> int:
        """Open it, and look at what was opened: a link is no folder. What is being deleted is not found."""
        try:
            return self._open_folder(self._below(above, name), FOLDERS | NO_REPARSE, above)
        except OSError as error:
            if error.errno in BUSY:  # defence: deleted-folder-is-gone =False
                self.look(above, name)
            raise

    def _open_folder(self, path: str, flags: int, above: int | None = None) -> int:
        handle = self._patiently(
            lambda: self.create(path, _LIST, OPEN_EXISTING, flags, share=_SHARE_FOLDER),
            FEW_TRIES,
            BUSY,
        )
        with self.closed_on_error(handle):
            if above is not None:
                self._demand_inside(above, handle, path.rpartition("\\")[2])
            # defence: windows-folder-no-link =False
            if not stat.S_ISDIR(self._state(handle).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "it is not a folder", path)
            return self._kernel.libraries.descriptor(handle, os.O_RDONLY)

    def open_file(self, folder: int, name: str) -> int:
        """Open it itself; other programs may still write, rename and remove it."""
        path = self._below(folder, name)
        handle = self._patiently(
            lambda: self.open_itself(path, GENERIC_READ, OPEN_EXISTING, None), FEW_TRIES
        )
        with self.closed_on_error(handle):
            self._demand_inside(folder, handle, name)
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
                self._demand_inside(folder, handle, name)
            except Elsewhere:
                self._kernel.call("DeleteFileW", self._final_path(handle))
                raise
            return self._kernel.libraries.descriptor(handle, os.O_WRONLY | binary())

    def make_folder(self, above: int, name: str) -> None:
        """Create it with the rights that the one above hands down."""
        path = self._below(above, name)
        self._kernel.demand("CreateDirectoryW", path, None)
        try:
            self.look(above, name)
        except Elsewhere:
            self._kernel.call("RemoveDirectoryW", path)
            raise

    def remove_folder(self, above: int, name: str) -> None:
        """Use ``RemoveDirectory``."""
        self.look(above, name)
        self._kernel.demand("RemoveDirectoryW", self._below(above, name))

    def unlink(self, folder: int, name: str) -> None:
        """Use ``DeleteFile``, or ``RemoveDirectory`` for a link to a folder; try again while another program has it open."""
        found = self.look(folder, name)
        is_link = getattr(found, "attributes", 0) & DIRECTORY and stat.S_ISLNK(found.st_mode)
        call, path = "RemoveDirectoryW" if is_link else "DeleteFileW", self._below(folder, name)
        self._patiently(lambda: self._kernel.demand(call, path))

    def link(self, _old_folder: int, _old: str, _new_folder: int, _new: str) -> None:
        """Refuse the link: a move never needs it here."""
        raise OSError(errno.ENOTSUP, "files have one name")

    def permit_as(self, above: int, descriptor: int, *, is_folder: bool) -> None:
        """Do nothing: rights are handed down."""

    def copy_rights(self, _source: int, found: FileState, to: int) -> None:
        """Set the time of creation; ``ReplaceFile`` keeps rights, attributes and streams of the file that it replaces."""
        born = getattr(found, "st_birth_ns", 0) // 100 + EPOCH
        self._set_times(to, BasicInfo(CreationTime=born))

    def set_modified(self, descriptor: int, seconds: float) -> None:
        """Set the time of writing; one that Windows does not know is its first."""
        steps = int(seconds * _STEPS) + EPOCH
        self._set_times(descriptor, BasicInfo(LastWriteTime=min(max(steps, 1), _LAST)))

    def _set_times(self, descriptor: int, basic: BasicInfo) -> None:
        self._kernel.demand(
            "SetFileInformationByHandle",
            self._kernel.libraries.handle(descriptor),
            BASIC_INFO,
            ctypes.byref(basic),
            ctypes.sizeof(basic),
        )

    def flush_names(self, folder: int) -> None:
        """Do nothing: NTFS logs names, and a move waits for the disk, also for what was logged before."""

    def is_being_written(self, descriptor: int) -> bool:
        """Open it without sharing what others write: that is refused while anybody may write."""
        path = self._final_path(self._kernel.libraries.handle(descriptor))
        share = SHARE_READ | SHARE_DELETE
        try:
            handle = self.create(path, GENERIC_READ, OPEN_EXISTING, NO_REPARSE, share=share)
        except OSError as error:
            return error.errno == errno.EBUSY
        self._kernel.call("CloseHandle", handle)
        return False
