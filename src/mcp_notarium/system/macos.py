"""Implement what only macOS has.

Sources: Apple man pages fcntl(2) F_FULLFSYNC, fsync(2), ptrace(2) PT_DENY_ATTACH, getrusage(2), environ(7), rename(2)
renameatx_np, getxattr(2), setxattr(2), copyfile(3), getattrlist(2), setattrlist(2), chflags(2), stat(2) st_birthtimespec; Apple's "File System Programming Guide" for the
Application Support folder.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

assert sys.platform != "win32"  # noqa: S101 - for mypy, as in ``posix``

from mcp_notarium.system.common import closing_descriptor  # noqa: E402 - the same
from mcp_notarium.system.port import FileState, FolderEvents  # noqa: E402 - mypy stops above
from mcp_notarium.system.posix import Posix  # noqa: E402 - the same

F_FULLFSYNC = 51
_PT_DENY_ATTACH = 31
RENAME_SWAP, RENAME_EXCL = 2, 4
_DATALESS = 0x40000000
_KEPT_FLAGS = (
    0x1 | 0x8000
)  # UF_NODUMP, UF_HIDDEN; a file that is locked is not replaced, and others are the system's
_NO_FLAGS = (errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)
_LONGEST_ATTRIBUTE = 1 << 12
"""Bytes of one of ours; others are not read here."""
_COPY_LIST, _COPY_ATTRIBUTES = 1 << 0, 1 << 2  # COPYFILE_ACL, COPYFILE_XATTR
_CREATION = struct.Struct("=HxxI16x")
"""``struct attrlist``, with groups of attributes of which only the first is asked for."""
_BITMAPS, _AT_CREATION = 5, 0x200  # ATTR_BIT_MAP_COUNT, ATTR_CMN_CRTIME
_LENGTH, _TIME = 4, 16
"""Bytes of the length that an answer begins with, and of a ``timespec``."""
_DISK_FAILED = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


def _control(descriptor: int, command: int) -> int:
    import fcntl  # noqa: PLC0415 - not every start writes

    return fcntl.fcntl(descriptor, command)


def _load() -> Any:
    import ctypes  # noqa: PLC0415 - not before the first answer

    return ctypes.CDLL(None, use_errno=True)


class MacOS(Posix):
    """Implement the port with the calls of macOS. ``control`` is ``fcntl``, ``load`` loads the C library."""

    flushes_fully = True
    editors = ("nano", "vim", "vi")

    def __init__(
        self, control: Callable[[int, int], int] = _control, load: Callable[[], Any] = _load
    ) -> None:
        self._control = control
        self._load = load

    def flush(self, descriptor: int) -> None:
        """Ask the drive to write its buffer, too: ``fsync`` does not reach the platter.

        A file system that does not know the command refuses it; ``fsync`` is all there is then. A disk that has failed has
        told so once, and ``fsync`` might not tell again.
        """
        try:
            self._control(descriptor, F_FULLFSYNC)
        except OSError as error:
            if error.errno in _DISK_FAILED:  # defence: full-flush-failure-told =False
                raise
            os.fsync(descriptor)

    def flush_below(self, folder: Path) -> None:
        """Give all files and names to the drive, which is asked once, at the end, to write its buffer.

        No file is removed or replaced meanwhile, so their order on the platter does not matter.
        """
        for path, one in self.walk(folder):
            if one.is_file(follow_symlinks=False) or one.is_dir(follow_symlinks=False):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                with closing_descriptor(descriptor):
                    os.fsync(descriptor)
        self.flush_folder(folder)  # defence: export-reaches-platter

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
        """Use ``renameatx_np``, which APFS and HFS+ have; other file systems may not."""
        import ctypes  # noqa: PLC0415 - not before the first answer

        del spare
        try:
            call = _declared(self._load().renameatx_np, "isisu")
        except AttributeError:
            return False
        flag = RENAME_SWAP if exchange else RENAME_EXCL
        if call(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flag) == 0:
            return True
        number = ctypes.get_errno()
        if number in _NO_FLAGS:
            return False
        raise OSError(number, os.strerror(number))

    def is_elsewhere(self, found: FileState) -> bool:
        """Read the flag of a file whose content is at iCloud only."""
        return bool(getattr(found, "st_flags", 0) & _DATALESS)

    def read_attribute(self, descriptor: int, name: str) -> bytes | None:
        """Use ``fgetxattr``, which Python does not offer here."""
        import ctypes  # noqa: PLC0415 - the same

        value = ctypes.create_string_buffer(_LONGEST_ATTRIBUTE)
        call = _declared(self._load().fgetxattr, "isvnui", ctypes.c_ssize_t)
        size = call(descriptor, os.fsencode(name), value, _LONGEST_ATTRIBUTE, 0, 0)
        return None if size < 0 else value.raw[:size]

    def write_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Use ``fsetxattr``."""
        import ctypes  # noqa: PLC0415 - the same

        call = _declared(self._load().fsetxattr, "issnui")
        if call(descriptor, os.fsencode(name), value, len(value), 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _copy_attributes(self, source: int, to: int) -> None:
        """Copy extended attributes (Finder's tags are some), flags, time of creation and access list, each if it can be.

        The list comes last: it may forbid to set the others. ``copyfile`` would copy the time of writing, too, with what
        POSIX has: that is not asked for.
        """
        import ctypes  # noqa: PLC0415 - the same

        copy = _declared(self._load().fcopyfile, "iivu")
        copy(source, to, None, _COPY_ATTRIBUTES)
        ask = ctypes.create_string_buffer(_CREATION.pack(_BITMAPS, _AT_CREATION), _CREATION.size)
        told = ctypes.create_string_buffer(_LENGTH + _TIME)
        if _declared(self._load().fgetattrlist, "ivvnu")(source, ask, told, len(told), 0) == 0:
            born = told.raw[_LENGTH:]
            _declared(self._load().fsetattrlist, "ivvnu")(to, ask, born, _TIME, 0)
        had, has = (getattr(os.fstat(file), "st_flags", 0) for file in (source, to))
        if flags := had & _KEPT_FLAGS:
            _declared(self._load().fchflags, "iu")(to, has | flags)
        copy(source, to, None, _COPY_LIST)

    def folder_events(self, root: Path) -> FolderEvents:
        """Use ``FSEvents`` by a library."""
        from mcp_notarium.system.folder_events import TreeEvents  # noqa: PLC0415 - for a vault alone

        return TreeEvents(root)

    def forbid_tracing(self) -> None:
        """Refuse debuggers; reading another process's memory needs a right that macOS gives to few."""
        with suppress(OSError, AttributeError):
            _declared(self._load().ptrace, "iivi")(_PT_DENY_ATTACH, 0, None, 0)

    def _environment(self) -> Any:
        """Ask for the list: a library has no ``environ`` of its own here."""
        import ctypes  # noqa: PLC0415 - the same

        find = self._load()._NSGetEnviron  # noqa: SLF001 - Apple's name
        find.restype = ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))
        return find().contents

    def memory_used(self) -> int | None:
        """Return the peak; the unit is one byte here."""
        return self._peak()

    def app_folder(self, _environ: Mapping[str, str]) -> Path:
        """Return the folder Application Support."""
        return Path.home() / "Library" / "Application Support"

    def user_folder(self, _what: Literal["config", "data"], environ: Mapping[str, str]) -> Path:
        """Return one folder for both, as is usual there."""
        return self.app_folder(environ) / "mcp-notarium"


def _declared(call: Any, takes: str, gives: Any = None) -> Any:
    """Return a function of the C library with the types of its arguments, a letter for each, and of its result."""
    import ctypes  # noqa: PLC0415 - not before the first answer

    kinds = {
        "i": ctypes.c_int,
        "u": ctypes.c_uint32,
        "n": ctypes.c_size_t,
        "s": ctypes.c_char_p,
        "v": ctypes.c_void_p,
    }
    call.argtypes = tuple(kinds[letter] for letter in takes)
    call.restype = gives or ctypes.c_int
    return call
