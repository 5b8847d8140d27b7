"""Declare the functions of Windows that the other modules call, and turn their errors into ``OSError``.

Sources: the page of Microsoft Learn that bears the function's name; "System Error Codes" for the numbers; "_get_osfhandle",
"_open_osfhandle" and "_setmode" for the C library's descriptors. Nothing is loaded before the first call, so that the
module can be imported on any system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from ctypes import wintypes as w
from typing import Any

if sys.platform == "win32":
    import msvcrt

FILE_NOT_FOUND, ACCESS_DENIED, SHARING_VIOLATION, LOCK_VIOLATION = 2, 5, 32, 33
INVALID_PARAMETER, IO_PENDING, NO_MORE_FILES = 87, 997, 18
UNABLE_TO_REMOVE_REPLACED, UNABLE_TO_MOVE_REPLACEMENT = 1175, 1176
UNABLE_TO_MOVE_REPLACEMENT_2 = 1177
UNSUPPORTED = (1, 50, 120)
"""ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED."""
DELETE_PENDING = 303
_MAPPED = 1224  # ERROR_USER_MAPPED_FILE
INVALID_HANDLE = ctypes.c_void_p(-1).value

_ERRNO = {
    1: errno.EINVAL,  # ERROR_INVALID_FUNCTION: the file system does not know it
    FILE_NOT_FOUND: errno.ENOENT,
    3: errno.ENOENT,
    4: errno.EMFILE,
    ACCESS_DENIED: errno.EACCES,
    6: errno.EBADF,
    8: errno.ENOMEM,
    17: errno.EXDEV,
    19: errno.EROFS,
    21: errno.EIO,  # ERROR_NOT_READY
    23: errno.EIO,  # ERROR_CRC
    SHARING_VIOLATION: errno.EBUSY,
    LOCK_VIOLATION: errno.EAGAIN,
    39: errno.ENOSPC,
    50: errno.ENOTSUP,
    80: errno.EEXIST,
    INVALID_PARAMETER: errno.EINVAL,
    112: errno.ENOSPC,
    123: errno.EINVAL,  # ERROR_INVALID_NAME
    145: errno.ENOTEMPTY,
    183: errno.EEXIST,
    206: errno.ENAMETOOLONG,
    267: errno.ENOTDIR,
    DELETE_PENDING: errno.EBUSY,
    1005: errno.ENXIO,  # ERROR_UNRECOGNIZED_VOLUME
    1117: errno.EIO,
    UNABLE_TO_REMOVE_REPLACED: errno.EBUSY,
    UNABLE_TO_MOVE_REPLACEMENT: errno.EBUSY,
    UNABLE_TO_MOVE_REPLACEMENT_2: errno.EBUSY,
    _MAPPED: errno.EBUSY,
    1314: errno.EPERM,
}
_WORDS = {
    SHARING_VIOLATION: "another program has it open",
    LOCK_VIOLATION: "another program has locked it",
    **dict.fromkeys((1175, 1176, 1177, _MAPPED), "another program has it open"),
    DELETE_PENDING: "it is being deleted, and another program has it open",
}


DWORD = ctypes.c_uint32
"""The type of 32 bits on every system, for structures: that of ``wintypes`` has 64 where the C type ``long`` has."""


class Overlapped(ctypes.Structure):
    """Hold ``OVERLAPPED``: of it only the offset of a lock is used."""

    _fields_ = (
        ("Internal", ctypes.c_size_t),
        ("InternalHigh", ctypes.c_size_t),
        ("Offset", DWORD),
        ("OffsetHigh", DWORD),
        ("hEvent", w.HANDLE),
    )


class SecurityAttributes(ctypes.Structure):
    """Hold ``SECURITY_ATTRIBUTES``: who may use what is created."""

    _fields_ = (
        ("nLength", DWORD),
        ("lpSecurityDescriptor", w.LPVOID),
        ("bInheritHandle", ctypes.c_int32),
    )


class AttributeTag(ctypes.Structure):
    """Hold ``FILE_ATTRIBUTE_TAG_INFO``."""

    _fields_ = (("FileAttributes", DWORD), ("ReparseTag", DWORD))


class FileId(ctypes.Structure):
    """Hold ``FILE_ID_INFO``."""

    _fields_ = (("VolumeSerialNumber", ctypes.c_ulonglong), ("FileId", ctypes.c_ubyte * 16))


class BasicInfo(ctypes.Structure):
    """Hold ``FILE_BASIC_INFO``; a time of 0 is left as it is."""

    _fields_ = (
        ("CreationTime", ctypes.c_int64),
        ("LastAccessTime", ctypes.c_int64),
        ("LastWriteTime", ctypes.c_int64),
        ("ChangeTime", ctypes.c_int64),
        ("FileAttributes", DWORD),
        ("_Padding", DWORD),
    )


class FileInformation(ctypes.Structure):
    """Hold ``BY_HANDLE_FILE_INFORMATION``."""

    _fields_ = (
        ("FileAttributes", DWORD),
        ("Times", DWORD * 6),
        ("VolumeSerialNumber", DWORD),
        ("FileSizeHigh", DWORD),
        ("FileSizeLow", DWORD),
        ("NumberOfLinks", DWORD),
        ("FileIndexHigh", DWORD),
        ("FileIndexLow", DWORD),
    )


class MemoryCounters(ctypes.Structure):
    """Hold ``PROCESS_MEMORY_COUNTERS``."""

    _fields_ = (
        ("cb", DWORD),
        ("PageFaultCount", DWORD),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
        ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
        ("PagefileUsage", ctypes.c_size_t),
        ("PeakPagefileUsage", ctypes.c_size_t),
    )


class SizeOfList(ctypes.Structure):
    """Hold ``ACL_SIZE_INFORMATION``."""

    _fields_ = (("AceCount", DWORD), ("AclBytesInUse", DWORD), ("AclBytesFree", DWORD))


_KERNEL, _RIGHTS, _POINTER = "kernel32", "advapi32", w.LPVOID
FUNCTIONS: dict[str, tuple[str, Any, tuple[Any, ...]]] = {
    "CreateFileW": (
        _KERNEL,
        w.HANDLE,
        (w.LPCWSTR, w.DWORD, w.DWORD, _POINTER, w.DWORD, w.DWORD, w.HANDLE),
    ),
    "CloseHandle": (_KERNEL, w.BOOL, (w.HANDLE,)),
    "CreateDirectoryW": (_KERNEL, w.BOOL, (w.LPCWSTR, _POINTER)),
    "MoveFileExW": (_KERNEL, w.BOOL, (w.LPCWSTR, w.LPCWSTR, w.DWORD)),
    "ReplaceFileW": (
        _KERNEL,
        w.BOOL,
        (w.LPCWSTR, w.LPCWSTR, w.LPCWSTR, w.DWORD, _POINTER, _POINTER),
    ),
    "DeleteFileW": (_KERNEL, w.BOOL, (w.LPCWSTR,)),
    "RemoveDirectoryW": (_KERNEL, w.BOOL, (w.LPCWSTR,)),
    "GetFinalPathNameByHandleW": (_KERNEL, w.DWORD, (w.HANDLE, _POINTER, w.DWORD, w.DWORD)),
    "GetFileInformationByHandle": (_KERNEL, w.BOOL, (w.HANDLE, _POINTER)),
    "SetFileInformationByHandle": (_KERNEL, w.BOOL, (w.HANDLE, ctypes.c_int, _POINTER, w.DWORD)),
    "GetFileType": (_KERNEL, w.DWORD, (w.HANDLE,)),
    "GetFileInformationByHandleEx": (_KERNEL, w.BOOL, (w.HANDLE, ctypes.c_int, _POINTER, w.DWORD)),
    "LockFileEx": (_KERNEL, w.BOOL, (w.HANDLE, w.DWORD, w.DWORD, w.DWORD, w.DWORD, _POINTER)),
    "UnlockFileEx": (_KERNEL, w.BOOL, (w.HANDLE, w.DWORD, w.DWORD, w.DWORD, _POINTER)),
    "OpenProcess": (_KERNEL, w.HANDLE, (w.DWORD, w.BOOL, w.DWORD)),
    "WaitForSingleObject": (_KERNEL, w.DWORD, (w.HANDLE, w.DWORD)),
    "GetCurrentProcess": (_KERNEL, w.HANDLE, ()),
    "K32GetProcessMemoryInfo": (_KERNEL, w.BOOL, (w.HANDLE, _POINTER, w.DWORD)),
    "SetErrorMode": (_KERNEL, w.UINT, (w.UINT,)),
    "WerSetFlags": (_KERNEL, ctypes.c_long, (w.DWORD,)),
    "GetConsoleMode": (_KERNEL, w.BOOL, (w.HANDLE, _POINTER)),
    "SetConsoleMode": (_KERNEL, w.BOOL, (w.HANDLE, w.DWORD)),
    "FlushConsoleInputBuffer": (_KERNEL, w.BOOL, (w.HANDLE,)),
    "RtlGetLastNtStatus": ("ntdll", ctypes.c_uint32, ()),
    "LocalFree": (_KERNEL, _POINTER, (_POINTER,)),
    "OpenProcessToken": (_RIGHTS, w.BOOL, (w.HANDLE, w.DWORD, _POINTER)),
    "GetTokenInformation": (_RIGHTS, w.BOOL, (w.HANDLE, ctypes.c_int, _POINTER, w.DWORD, _POINTER)),
    "ConvertSidToStringSidW": (_RIGHTS, w.BOOL, (_POINTER, _POINTER)),
    "ConvertStringSecurityDescriptorToSecurityDescriptorW": (
        _RIGHTS,
        w.BOOL,
        (w.LPCWSTR, w.DWORD, _POINTER, _POINTER),
    ),
    "GetSecurityDescriptorDacl": (_RIGHTS, w.BOOL, (_POINTER, _POINTER, _POINTER, _POINTER)),
    "GetSecurityInfo": (
        _RIGHTS,
        w.DWORD,
        (w.HANDLE, ctypes.c_int, w.DWORD, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    ),
    "SetSecurityInfo": (
        _RIGHTS,
        w.DWORD,
        (w.HANDLE, ctypes.c_int, w.DWORD, _POINTER, _POINTER, _POINTER, _POINTER),
    ),
    "GetAclInformation": (_RIGHTS, w.BOOL, (_POINTER, _POINTER, w.DWORD, ctypes.c_int)),
    "GetAce": (_RIGHTS, w.BOOL, (_POINTER, w.DWORD, _POINTER)),
}
"""Name -> library, type of the result, types of the arguments. Pointers to structures are given as ``byref``."""


def windows_error(code: int, path: object = None) -> OSError:
    """Return the error for a code of Windows; its words, where there are none of ours, hold the code."""
    number = _ERRNO.get(code, errno.EIO)
    words = _WORDS.get(code) or f"{os.strerror(number).lower()} (Windows error {code})"
    return OSError(number, words, None if path is None else str(path))


class Libraries:
    """Load the libraries of Windows and the functions of its C library."""

    def load(self, name: str) -> Any:
        """Load one of them; it keeps the last error of its calls."""
        if sys.platform == "win32":
            return ctypes.WinDLL(name, use_last_error=True)
        else:  # noqa: RET505 - mypy reads one branch
            raise _not_windows()

    def last_error(self) -> int:
        """Return the code of the last call of this thread that failed."""
        if sys.platform == "win32":
            return ctypes.get_last_error()
        else:  # noqa: RET505 - as above
            raise _not_windows()

    def handle(self, descriptor: int) -> int:
        """Return the handle of an open file."""
        if sys.platform == "win32":
            return msvcrt.get_osfhandle(descriptor)
        else:  # noqa: RET505 - as above
            raise _not_windows()

    def descriptor(self, handle: int, flags: int) -> int:
        """Return a descriptor for a handle, which is closed with it."""
        if sys.platform == "win32":
            return msvcrt.open_osfhandle(handle, flags)
        else:  # noqa: RET505 - as above
            raise _not_windows()

    def set_binary(self, descriptor: int) -> None:
        """Let line ends pass as they are."""
        if sys.platform == "win32":
            msvcrt.setmode(descriptor, os.O_BINARY)


def _not_windows() -> OSError:
    return OSError(errno.ENOSYS, "this system is not Windows")


class Kernel:
    """Call the functions of the table by name; each is loaded at its first call."""

    def __init__(self, libraries: Libraries | None = None) -> None:
        self.libraries = libraries or Libraries()
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function and return what it returns."""
        return self.function(name)(*arguments)

    def function(self, name: str) -> Any:
        """Return a function, and load it if need be."""
        found = self._functions.get(name)
        if found is None:
            library, result, types = FUNCTIONS[name]
            found = getattr(self.libraries.load(library), name)
            found.restype, found.argtypes = result, types
            self._functions[name] = found
        return found

    def demand(self, name: str, *arguments: Any, path: object = None) -> int:
        """Call a function that returns 0, or no handle, if it fails. Raises ``OSError`` then."""
        result = self.call(name, *arguments)
        if not result or result == INVALID_HANDLE:
            raise windows_error(self.libraries.last_error(), path)
        return int(result)

    def demand_success(self, name: str, *arguments: Any, path: object = None) -> None:
        """Call a function that returns the code of its error, or 0. Raises ``OSError`` for a code."""
        if code := int(self.call(name, *arguments)):
            raise windows_error(code, path)
