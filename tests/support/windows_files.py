"""Play the functions of Windows for files: names and content are on the real disk, all else is the model's.

The model holds handles and what they share, attributes, reparse points, times of creation, streams and files that are being
deleted. ``RULES`` of ``system_rules`` says by which page each of them acts; :meth:`Files.rule` notes that one has acted.
"""
# ruff: noqa: N802, PLR0917 - names and arguments are those of Windows

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mcp_notarium.system.linux import Linux
from mcp_notarium.system.windows_kernel import Overlapped, SecurityAttributes
from support.system_rules import RULES
from support.windows_names import DEVICE, NOT_FOUND, PREFIX, Finder, Named, Refused, upcase

UNKNOWN = 0x10000
"""Handles of descriptors that the port has not made begin here."""
USER = "S-1-5-21-1-2-3-1001"

READ_ONLY, DIRECTORY, ARCHIVE, NORMAL, REPARSE, OFFLINE = 0x1, 0x10, 0x20, 0x80, 0x400, 0x1000
RECALL_ON_OPEN, RECALL_ON_DATA_ACCESS = 0x40000, 0x400000
SYMLINK, JUNCTION, CLOUD = 0xA000000C, 0xA0000003, 0x9000601A
SHARE_READ, SHARE_WRITE, SHARE_DELETE = 1, 2, 4
ALL_SHARED = SHARE_READ | SHARE_WRITE | SHARE_DELETE
_READ, _WRITE, _APPEND, _EXECUTE, _DELETE = 0x1, 0x2, 0x4, 0x20, 0x10000
_GENERIC = {0x80000000: 0x120089, 0x40000000: 0x120116, 0x20000000: 0x1200A0, 0x10000000: 0x1F01FF}
_CLASSES = (
    (_READ | _EXECUTE, SHARE_READ),
    (_WRITE | _APPEND, SHARE_WRITE),
    (_DELETE, SHARE_DELETE),
)
"""What is asked for, and how it must be shared."""
_NEW, _ALWAYS, _EXISTING, _OPEN_ALWAYS, _TRUNCATE = 1, 2, 3, 4, 5
_BACKUP, _ITSELF, _DELETE_ON_CLOSE, _NO_RECALL = 0x02000000, 0x00200000, 0x04000000, 0x00100000
DENIED, SHARING, EXISTS, NAME_TAKEN = 5, 32, 80, 183
PENDING, INVALID, NOT_EMPTY, NOT_A_FOLDER, NO_MORE = 303, 87, 145, 267, 18
DELETE_PENDING = 0xC0000056
"""The status of the system; the codes of programs do not tell it from a denial."""
REMOVE_REPLACED, MOVE_REPLACEMENT, MOVE_REPLACEMENT_2 = 1175, 1176, 1177
_BASIC, _STANDARD, _RENAME, _DISPOSITION, _TAG = 0, 1, 3, 4, 9
_ENTRIES, _ENTRIES_AGAIN, _ID, _DISPOSITION_EX, _RENAME_EX = 10, 11, 18, 21, 22
_TOO_SHORT = 24
_EPOCH = 116_444_736_000_000_000
"""1970 in steps of 100 ns since 1601."""

_HANDED_DOWN = re.compile(r"\(\w;OICI;\w+;;;[\w-]+\)")
Key = tuple[int, str]
"""A file: its inode and when that came to be, since an inode is given again."""


@dataclass(eq=False)
class Open:
    """Hold what a handle has open. ``by``: the program that has it."""

    number: int
    real: str
    key: Key
    access: int
    share: int
    by: str
    stream: str = ""
    device: bool = False
    itself: bool = False
    goes: bool = False
    wrote: bool = False
    listing: list[str] | None = None
    place: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        found = os.fstat(self.number)
        self.place = found.st_dev, found.st_ino

    @property
    def counts(self) -> bool:
        """Tell whether it takes part in sharing: a handle for attributes alone does not."""
        return any(self.access & asked for asked, _ in _CLASSES)

    @property
    def path(self) -> str:
        """Return where it is on the real disk now."""
        if not self.is_alive():
            return self.real
        return os.readlink(f"/proc/self/fd/{self.number}").removesuffix(" (deleted)")

    def is_alive(self) -> bool:
        """Tell whether its descriptor has not been closed."""
        try:
            found = os.fstat(self.number)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.place


class Files:
    """Play the functions for files; part of ``simulated_windows.Simulated``.

    ``drives``: folders that are the top of a drive. ``held``: what other programs have open without sharing, by path, for so many tries. ``scanner``: for how many tries a
    virus scanner has a file after it was written. ``posix_deletes``: a name that is deleted is free at once.
    ``unmanaged``: code for a disk that the mount manager does not know.
    ``coarse``: the drive is FAT. ``partial``: codes with which the next calls of ReplaceFileW fail.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.links: dict[str, tuple[str, int]] = {}
        self.lists: dict[str, str] = {}
        self.attributes: dict[Key, int] = {}
        self.born: dict[Key, int] = {}
        self.streams: dict[Key, dict[str, int]] = {}
        self.recalls: list[str] = []
        self.drives: set[str] = set()
        self.fired: set[str] = set()
        self.scanner = 0
        self.posix_deletes = False
        self.unmanaged = 0
        self.pending_code = DENIED
        self.partial: list[int] = []
        self.coarse = False
        self.between: Callable[[str], object] = lambda _step: None
        self._scanned: dict[Key, int] = {}
        self._shorts: dict[str, dict[str, str]] = {}
        self._open: dict[int, Open] = {}
        self._pending: dict[Key, str] = {}
        self._locks: dict[tuple[Key, int], list[tuple[int, bool]]] = {}
        self._next = 0x100
        self._error = self.status = 0
        self._finder = Finder(self.links, self._shorts, self.rule)
        self._linux = Linux()

    def rule(self, name: str) -> None:
        """Note that a rule has acted."""
        assert name in RULES, name
        self.fired.add(name)

    def _fail(self, code: int, status: int = 0) -> int:
        self._error, self.status = code, status
        return 0

    def find(self, path: str, *, follow: bool = False) -> Named:
        """Find what a path names; see :class:`Finder`."""
        self._finder = Finder(self.links, self._shorts, self.rule)
        return self._finder.find(path, follow=follow)

    def key_of(self, place: str | int) -> Key:
        """Return the key of what is at a real path, or open."""
        if isinstance(place, int):
            found = os.fstat(place)
            return found.st_ino, self._linux.birth(place, found) or ""
        number = os.open(place, os.O_PATH | os.O_NOFOLLOW)
        try:
            return self.key_of(number)
        finally:
            os.close(number)

    def attributes_of(self, real: str, key: Key | None = None) -> int:
        """Return the attributes of what is at a real path."""
        kept = self.attributes.get(key or self.key_of(real), 0)
        mode = os.lstat(real).st_mode
        if self.tag_of(real):
            kept |= REPARSE
            mode = os.stat(real).st_mode if os.path.exists(real) else mode
        return kept | (DIRECTORY if stat.S_ISDIR(mode) else 0) or ARCHIVE

    def list_of(self, real: str) -> str:
        """Return the list of rights of what is at a real path: its own, or what the folders above hand down."""
        if real in self.lists:
            return self.lists[real]
        if real == "/":
            return f"O:{USER}(A;OICI;FA;;;WD)"
        above = self.list_of(os.path.dirname(real))
        self.rule("lists are handed down")
        return f"O:{USER}" + "".join(_HANDED_DOWN.findall(above))

    def _give_list(self, real: str, descriptor: str) -> None:
        if descriptor:
            self.lists[real] = descriptor

    def tag_of(self, real: str) -> int:
        """Return the tag of the reparse point at a real path; 0: there is none."""
        if real in self.links:
            return self.links[real][1]
        return SYMLINK if os.path.islink(real) else 0

    def settle(self) -> None:
        """Notice which descriptors were closed."""
        for handle, one in [*self._open.items()]:
            if not one.is_alive():
                self._forget(handle)

    def openers(self, key: Key) -> list[Open]:
        """Return what has a file open."""
        self.settle()
        return [one for one in self._open.values() if one.key == key]

    def end_process(self, by: str = "us") -> None:
        """Close all handles of a program, as the system does when it ends; what it writes to them later goes nowhere."""
        self.settle()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for handle, one in [*self._open.items()]:
            if one.by == by:
                os.dup2(nowhere, one.number)
                self._forget(handle)
        os.close(nowhere)

    def dup(self, number: int, *, real: Callable[[int], int] = os.dup) -> int:
        """Duplicate a descriptor, and its handle."""
        self.settle()
        made = real(number)
        known = next((one for one in self._open.values() if one.number == number), None)
        if known is not None:
            self._register(replace(known, number=made))
        return made

    def flush(self, number: int, *, real: Callable[[int], None] = os.fsync) -> None:
        """Play ``_commit``: FlushFileBuffers of a descriptor."""
        self.settle()
        known = next((one for one in self._open.values() if one.number == number), None)
        if known is not None and not known.access & (_WRITE | _APPEND):
            self.rule("flush needs write access")
            raise OSError(9, "Bad file descriptor")
        real(number)

    def _register(self, one: Open) -> int:
        for handle, other in [*self._open.items()]:
            if other.number == one.number:
                self._forget(handle)
        self._next += 4
        self._open[self._next] = one
        return self._next

    def _forget(self, handle: int) -> None:
        """Close a handle whose descriptor is closed, and delete what was to go with its last one."""
        one = self._open.pop(handle, None)
        for held in self._locks.values():
            held[:] = [lock for lock in held if lock[0] != handle]
        if one is None:
            return
        if one.goes:
            self._pending[one.key] = one.real
        if one.wrote and one.by == "us" and self.scanner:
            self._scanned[one.key] = self.scanner
        if one.key in self._pending and not any(o.key == one.key for o in self._open.values()):
            self._remove_pending(one)

    def _remove_pending(self, one: Open) -> None:
        self.rule("deleted at the last close")
        real = self._pending.pop(one.key)
        if os.path.lexists(real) and self.key_of(real) == one.key:
            self._unlink(real)

    def _unlink(self, real: str) -> None:
        key = self.key_of(real)
        if real in self.links and os.path.isdir(real):
            shutil.rmtree(real)  # a test may let Python see there what the link leads to
        elif os.path.isdir(real) and not os.path.islink(real):
            os.rmdir(real)
        else:
            os.unlink(real)
        self.links.pop(real, None)
        self.lists.pop(real, None)
        if not any(one.key == key for one in self._open.values()):
            for kept in (self.attributes, self.born, self.streams, self._scanned):
                kept.pop(key, None)

    def _require_shared(self, key: Key, access: int, share: int, stream: str = "") -> None:
        """Check both directions of sharing. Raises :class:`Refused`."""
        if not any(access & asked for asked, _ in _CLASSES):
            self.rule("attributes are always shared")
            return
        others = [
            (o.access, o.share)
            for o in self._open.values()
            if o.key == key and o.counts and (o.stream == stream or access & _DELETE)
        ]
        scanned = self._scanned.get(key, 0)
        if scanned:
            others.append((_READ, SHARE_READ | SHARE_WRITE))
        for theirs, shared in others:
            for asked, needed in _CLASSES:
                if (access & asked and not shared & needed) or (
                    theirs & asked and not share & needed
                ):
                    self.rule("share modes")
                    if scanned:
                        self.rule("scanner")
                        self._scanned[key] = scanned - 1
                    raise Refused(SHARING)

    def _require_free(self, *paths: str, code: int = SHARING) -> None:
        for path in paths:
            if self.held.get(path, 0):
                self.held[path] -= 1
                self.rule("share modes")
                raise Refused(code)

    def _require_alive(self, key: Key) -> None:
        if key in self._pending:
            self.rule("deletion is pending")
            raise Refused(self.pending_code, DELETE_PENDING)

    def open(
        self, path: str, access: int, share: int, how: int, flags: int = NORMAL, *,
        descriptor: str = "", by: str = "us",
    ) -> int:  # fmt: skip
        """Play CreateFileW. Raises :class:`Refused`."""
        self.settle()
        for generic, rights in _GENERIC.items():
            access |= rights if access & generic else 0
        found = self.find(path, follow=not flags & _ITSELF)
        if found.is_device:
            return self._register(
                Open(os.open("/dev/null", os.O_RDWR), "", (0, ""), 0, ALL_SHARED, by, device=True)
            )
        self._require_free(found.real)
        exists = found.exists
        key = self.key_of(found.real) if exists else (0, "")
        if exists:
            self._require_alive(key)
        if found.stream:
            return self._open_stream(found, access, share, how, by)
        if how == _NEW and exists:
            raise Refused(EXISTS)
        if how in (_EXISTING, _TRUNCATE) and not exists:
            raise Refused(NOT_FOUND)
        if exists:
            self._require_permitted(found.real, key, access, share, flags, how)
        else:
            self._require_folder(found)
        number = os.open(
            found.real if exists else found.wanted, self._mode(found, access, how, flags), 0o600
        )
        if not exists:
            self._give_list(found.wanted, descriptor)
            if (kept := flags & (READ_ONLY | 0x2 | 0x4)) != 0:
                self.attributes[self.key_of(number)] = kept | ARCHIVE
        real = found.real if exists else found.wanted
        one = Open(number, real, self.key_of(number), access, share, by)
        one.itself = bool(flags & _ITSELF)
        one.goes = bool(flags & _DELETE_ON_CLOSE)
        one.wrote = bool(access & (_WRITE | _APPEND))
        return self._register(one)

    def _require_folder(self, found: Named) -> None:
        if found.exists:
            return
        key = self.key_of(found.folder)
        self._require_alive(key)

    def _require_permitted(
        self, real: str, key: Key, access: int, share: int, flags: int, how: int
    ) -> None:
        attributes = self.attributes_of(real, key)
        if attributes & DIRECTORY and not flags & _BACKUP:
            self.rule("a folder needs backup semantics")
            raise Refused(DENIED)
        if attributes & READ_ONLY and access & (_WRITE | _APPEND):
            self.rule("read-only")
            raise Refused(DENIED)
        self._require_shared(key, access, share)
        recalls = attributes & RECALL_ON_OPEN or (
            attributes & RECALL_ON_DATA_ACCESS and access & (_READ | _WRITE | _APPEND)
        )
        if recalls and not flags & (_NO_RECALL | _ITSELF) and not attributes & DIRECTORY:
            self.rule("placeholders")
            self.recalls.append(real)
            self.attributes[key] = attributes & ~(RECALL_ON_OPEN | RECALL_ON_DATA_ACCESS | OFFLINE)
        if how == _ALWAYS and attributes & 0x6 & ~flags:
            raise Refused(DENIED)

    def _mode(self, found: Named, access: int, how: int, flags: int) -> int:
        """Return how the real file is opened: nothing can be read or written that was not asked for."""
        if found.exists and (os.path.isdir(found.real) or os.path.islink(found.real)):
            linked = os.path.islink(found.real)
            return os.O_PATH | os.O_NOFOLLOW if linked else os.O_RDONLY | os.O_DIRECTORY
        create = os.O_CREAT | os.O_EXCL if not found.exists else 0
        empty = os.O_TRUNC if how in (_ALWAYS, _TRUNCATE) and found.exists else 0
        if access & _WRITE:
            return (os.O_RDWR if access & _READ else os.O_WRONLY) | create | empty
        if access & _APPEND:
            return os.O_WRONLY | os.O_APPEND | create | empty
        return os.O_RDONLY | create if access & _READ or create else os.O_PATH

    def _open_stream(self, found: Named, access: int, share: int, how: int, by: str) -> int:
        """Open a named stream; its file is made if there is none."""
        if not found.exists:
            if how in (_EXISTING, _TRUNCATE):
                raise Refused(NOT_FOUND)
            os.close(os.open(found.wanted, os.O_CREAT | os.O_EXCL, 0o600))
        key = self.key_of(found.wanted if not found.exists else found.real)
        held = self.streams.setdefault(key, {})
        name = found.stream.lower()
        if name in held and how == _NEW:
            raise Refused(EXISTS)
        if name not in held:
            if how in (_EXISTING, _TRUNCATE):
                raise Refused(NOT_FOUND)
            held[name] = os.memfd_create(name)
        self._require_shared(key, access, share, name)
        number = os.open(f"/proc/self/fd/{held[name]}", os.O_RDWR)
        return self._register(Open(number, found.wanted, key, access, share, by, stream=name))

    def _played(self, play: Callable[[], int]) -> int:
        self.settle()
        try:
            return play()
        except Refused as refused:
            return self._fail(refused.code, refused.status)

    def _CreateFileW(self, path, access, share, attributes, how, flags, _template):
        descriptor = self._list_of(attributes)

        def play() -> int:
            return self.open(path, access, share, how, flags, descriptor=descriptor)

        return self._played(play) or -1

    def _list_of(self, attributes: int | None) -> str:
        if not attributes:
            return ""
        given = SecurityAttributes.from_address(attributes)
        assert given.nLength == ctypes.sizeof(SecurityAttributes)
        assert not given.bInheritHandle
        return ctypes.wstring_at(given.lpSecurityDescriptor)

    def close_handle(self, handle: int) -> int:
        """Close a handle."""
        one = self._open.get(handle)
        if one is not None:
            os.close(one.number)
        self._forget(handle)
        return 1

    def _CloseHandle(self, handle):
        return self.close_handle(handle)

    def _CreateDirectoryW(self, path, attributes):
        descriptor = self._list_of(attributes)

        def play() -> int:
            found = self.find(path)
            if found.exists:
                self._require_alive(self.key_of(found.real))
                raise Refused(NAME_TAKEN)
            if found.stream or found.is_device:
                raise Refused(267)
            self._require_folder(found)
            os.mkdir(found.wanted, 0o777)
            self._give_list(found.wanted, descriptor)
            return 1

        return self._played(play)

    def _RemoveDirectoryW(self, path):
        def play() -> int:
            found = self._existing(path)
            if not self.attributes_of(found.real) & DIRECTORY:
                raise Refused(NOT_A_FOLDER)
            self._delete(found.real)
            return 1

        return self._played(play)

    def _DeleteFileW(self, path):
        return self._played(lambda: self.delete(path))

    def delete(self, path: str) -> int:
        """Play DeleteFileW. Raises :class:`Refused`."""
        found = self._existing(path)
        self._require_free(found.real)
        if self.attributes_of(found.real) & DIRECTORY:
            raise Refused(DENIED)
        self._delete(found.real)
        return 1

    def _existing(self, path: str) -> Named:
        found = self.find(path)
        if not found.exists:
            raise Refused(NOT_FOUND)
        self._require_alive(self.key_of(found.real))
        return found

    def _delete(self, real: str, *, own: Open | None = None, posix: bool | None = None) -> None:
        """Delete a file or an empty folder, or mark it. ``own``: the handle by which it is asked for."""
        key = self.key_of(real)
        attributes = self.attributes_of(real, key)
        if attributes & READ_ONLY and not attributes & DIRECTORY:
            self.rule("read-only")
            raise Refused(DENIED)
        if attributes & DIRECTORY and not self.tag_of(real) and os.listdir(real):
            raise Refused(NOT_EMPTY)
        if own is None:
            self._require_shared(key, _DELETE, ALL_SHARED)
        open_elsewhere = [one for one in self._open.values() if one.key == key and one is not own]
        at_once = self.posix_deletes if posix is None else posix
        if (own is None and (not open_elsewhere or at_once)) or (at_once and own is not None):
            self._unlink(real)
        else:
            self.rule("deletion is pending")
            self._pending[key] = real

    def _MoveFileExW(self, old, new, flags):
        return self._played(lambda: self.move(old, new, replace=bool(flags & 1)))

    def move(
        self, old: str, new: str, *, replace: bool, own: Open | None = None, posix: bool = False
    ) -> int:
        """Play MoveFileExW, and the information classes that rename. Raises :class:`Refused`."""
        self.settle()
        source = self._existing(old) if own is None else Named(own.path, "", exists=True)
        target = self.find(new)
        if target.is_device or target.stream:
            raise Refused(INVALID if target.stream else DENIED)
        self._require_free(source.real)
        self._require_free(target.real, code=DENIED)
        key = self.key_of(source.real)
        if own is None:
            self._require_shared(key, _DELETE, ALL_SHARED)
        is_folder = self.attributes_of(source.real, key) & DIRECTORY
        if is_folder and replace:
            self.rule("folders are not replaced")
            raise Refused(DENIED)
        if is_folder and not self.tag_of(source.real):
            self._require_nothing_open_below(source.real)
        if target.exists and self.key_of(target.real) != key:
            self._require_replaceable(target.real, bool(is_folder), replace=replace, posix=posix)
            self._unlink_replaced(target.real)
            place = target.wanted
        elif target.exists and target.real != source.real:
            raise Refused(NAME_TAKEN)  # another name of the same file
        else:
            self._require_folder(target)
            place = target.wanted
        self._rename(source.real, place)
        return 1

    def _require_replaceable(
        self, real: str, is_folder: bool, *, replace: bool, posix: bool
    ) -> None:
        key = self.key_of(real)
        self._require_alive(key)
        attributes = self.attributes_of(real, key)
        if not replace:
            self.rule("a move replaces only if asked")
            raise Refused(NAME_TAKEN)
        if is_folder or attributes & (DIRECTORY | READ_ONLY):
            self.rule("folders are not replaced")
            raise Refused(DENIED)
        for one in self.openers(key):
            if not posix or not one.share & SHARE_DELETE:
                self.rule("an open file is not replaced")
                raise Refused(DENIED)
        if self._scanned.get(key):
            self._scanned[key] -= 1
            self.rule("an open file is not replaced")
            raise Refused(DENIED)

    def _unlink_replaced(self, real: str) -> None:
        list_ = self.lists.get(real)
        self._unlink(real)
        if list_ is not None:
            self.lists[real] = list_

    def _require_nothing_open_below(self, real: str) -> None:
        for one in self._open.values():
            if one.path.startswith(f"{real}/"):
                self.rule("a folder in use is not renamed")
                raise Refused(DENIED)

    def _rename(self, old: str, new: str) -> None:
        os.rename(old, new)
        for one in self._open.values():
            if one.real == old or one.real.startswith(f"{old}/"):
                one.real = new + one.real[len(old) :]
        for kept in (self.links, self.lists):
            for path in [*kept]:
                if path == old or path.startswith(f"{old}/"):
                    kept[new + path[len(old) :]] = kept.pop(path)

    def _ReplaceFileW(self, replaced, replacement, backup, flags, exclude, reserved):
        assert (exclude, reserved) == (None, None)
        assert not flags & ~7
        return self._played(lambda: self._replace(replaced, replacement, backup))

    def _replace(self, replaced: str, replacement: str, backup: str | None) -> int:
        old, new = self._existing(replaced), self._existing(replacement)
        self._require_free(old.real, new.real)
        old_key, new_key = self.key_of(old.real), self.key_of(new.real)
        for one in (old, new):
            if self.attributes_of(one.real) & (DIRECTORY | READ_ONLY):
                self.rule("read-only")
                raise Refused(DENIED)
        self._require_shared(old_key, _READ | _DELETE, ALL_SHARED)
        self.rule("a replacement is opened alone")
        self._require_shared(new_key, _READ | _WRITE | _DELETE, 0)
        kept = self.find(backup) if backup else None
        if kept is not None and kept.exists:
            self._require_replaceable(kept.real, False, replace=True, posix=False)
        fails = self.partial.pop(0) if self.partial else 0
        if fails not in (0, MOVE_REPLACEMENT_2):
            half = fails in (REMOVE_REPLACED, MOVE_REPLACEMENT)
            self.rule("a replacement fails half way" if half else "a replacement fails whole")
            if fails == MOVE_REPLACEMENT and kept is None:
                self._unlink(old.real)
            raise Refused(fails)
        self._inherit(old_key, new_key)
        self.between("ReplaceFileW: attributes are copied")
        list_ = self.lists.get(old.real, "")
        if kept is None:
            self._unlink(old.real)
        else:
            if kept.exists:
                self._unlink_replaced(kept.real)
            self._rename(old.real, kept.wanted)
        self.between("ReplaceFileW: the replaced file has the name of the backup")
        if fails or os.path.lexists(old.real):
            self.rule("a replacement fails half way")
            raise Refused(fails or MOVE_REPLACEMENT_2)
        self.rule("a replacement has another id")
        self._rename(new.real, old.real)
        self.lists[old.real] = list_
        return 1

    def _inherit(self, old: Key, new: Key) -> None:
        """Give a replacement what ReplaceFileW keeps: time of creation, attributes, streams."""
        self.rule("a replacement keeps the time of creation")
        self.born[new] = self._born(old)
        if old in self.attributes:
            self.attributes[new] = self.attributes[old]
        for name, held in self.streams.get(old, {}).items():
            self.rule("a replacement keeps streams")
            self.streams.setdefault(new, {}).setdefault(name, os.dup(held))

    def _born(self, key: Key) -> int:
        """Return the time of creation in steps of 100 ns."""
        seconds, _, rest = key[1].partition(".")
        real = int(seconds or 0) * 10**7 + int(rest or 0) // 100
        return self.born.get(key, real + _EPOCH)

    def _GetFileType(self, handle):
        one = self._open.get(handle)
        return 1 if one is not None and not one.device else 2

    def _FlushFileBuffers(self, handle):
        one = self._open[handle]
        if not one.access & (_WRITE | _APPEND):
            self.rule("flush needs write access")
            return self._fail(DENIED)
        os.fsync(one.number)
        return 1

    def _GetFinalPathNameByHandleW(self, handle, buffer, size, flags):
        assert flags in (0, 2)
        if self.unmanaged and not flags:
            self.rule("a disk without a mount manager")
            return self._fail(self.unmanaged)
        path = (DEVICE if flags else PREFIX + "C:") + self._open[handle].path.replace("/", "\\")
        if len(path) >= size:
            return len(path) + 1
        ctypes.memmove(
            buffer,
            ctypes.create_unicode_buffer(path),
            ctypes.sizeof(ctypes.c_wchar) * (len(path) + 1),
        )
        return len(path)

    def times_of(self, found: os.stat_result, key: Key) -> tuple[int, int, int, int]:
        """Return when something was created, read, written and changed, in steps of 100 ns since 1601."""
        born, read, wrote, changed = (
            self._born(key),
            *(
                _EPOCH + ns // 100
                for ns in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
            ),
        )
        if self.coarse:
            self.rule("coarse times")
            wrote, changed = -(-wrote // 20_000_000) * 20_000_000, 0
        return born, read, wrote, changed

    def _GetFileInformationByHandleEx(self, handle, what, found, size):
        one = self._open[handle]

        def play() -> int:
            told = self._told(one, what)
            assert size >= len(told), "the structure is too small"
            ctypes.memmove(found, told, len(told))
            return 1

        if what in (_ENTRIES, _ENTRIES_AGAIN):
            return self._played(lambda: self._list(one, found, size, again=what == _ENTRIES_AGAIN))
        return self._played(play)

    def _told(self, one: Open, what: int) -> bytes:
        real, path = os.fstat(one.number), one.path
        attributes = self.attributes_of(path, one.key)
        if what == _BASIC:
            return struct.pack("<4qI4x", *self.times_of(real, one.key), attributes)
        if what == _STANDARD:
            is_folder = bool(attributes & DIRECTORY)
            pending = one.key in self._pending
            room = real.st_blocks * 512
            return struct.pack("<2qI2?2x", room, real.st_size, real.st_nlink, pending, is_folder)
        if what == _TAG:
            tag = self.tag_of(path) if one.itself else 0
            return struct.pack("<2I", attributes if tag else attributes & ~REPARSE, tag)
        assert what == _ID
        return struct.pack("<2Q8x", real.st_dev, one.key[0])

    def _GetFileInformationByHandle(self, handle, found):
        one = self._open[handle]
        real = os.fstat(one.number)
        born, read, wrote, _ = self.times_of(real, one.key)
        attributes = self.attributes_of(one.path, one.key)
        parts = [attributes]
        for time in (born, read, wrote):
            parts += [time & 0xFFFFFFFF, time >> 32]
        parts += [real.st_dev & 0xFFFFFFFF, real.st_size >> 32, real.st_size & 0xFFFFFFFF]
        number = self._number_of(one.path, one.key)
        parts += [real.st_nlink, number >> 32, number & 0xFFFFFFFF]
        ctypes.memmove(found, struct.pack("<13I", *parts), 52)
        return 1

    def _list(self, one: Open, found: int, size: int, *, again: bool) -> int:
        """Fill a buffer with as many entries as it holds. Raises :class:`Refused`."""
        if not one.access & _READ:
            raise Refused(DENIED)
        if one.listing is None or again:
            itself = [] if one.path in self.drives else [".", ".."]
            one.listing = [*itself, *sorted(os.listdir(one.number), key=upcase)]
            if not one.listing:
                self.rule("a drive may be empty")
                raise Refused(NOT_FOUND)
        entries: list[bytes] = []
        room = size
        while one.listing:
            entry = self._entry(one.path, one.listing[0])
            if entry is not None:
                if len(entry) > room:
                    break
                entries.append(entry)
                room -= len(entry)
            one.listing.pop(0)
        if not entries:
            raise Refused(NO_MORE if not one.listing else _TOO_SHORT)
        last = entries[-1]
        entries[-1] = b"\0\0\0\0" + last[4:]
        told = b"".join(entries)
        ctypes.memmove(found, told, len(told))
        return 1

    def _entry(self, folder: str, name: str) -> bytes | None:
        """Return FILE_ID_BOTH_DIR_INFO of an entry, as long as a multiple of eight; None if it has gone."""
        path = os.path.join(folder, name)
        try:
            key, real = self.key_of(path), os.lstat(path)
        except FileNotFoundError:
            return None
        written = name.encode("utf-16-le", "surrogatepass")
        length = -(-(104 + len(written)) // 8) * 8
        tag = self.tag_of(path)
        attributes = self.attributes_of(path, key)
        if attributes & (RECALL_ON_OPEN | RECALL_ON_DATA_ACCESS):
            self.rule("placeholders are listed")
        head = struct.pack("<2I", length, 0) + struct.pack("<4q", *self.times_of(real, key))
        head += struct.pack(
            "<2q3I", real.st_size, real.st_blocks * 512, attributes, len(written), tag
        )
        number = struct.pack("<Q", self._number_of(path, key))
        return (head.ljust(96, b"\0") + number + written).ljust(length, b"\0")

    def _number_of(self, path: str, key: Key) -> int:
        """Return the file index of what is at a real path."""
        if not self.coarse:
            return key[0]
        self.rule("ids of places")
        return zlib.crc32(os.fsencode(path))

    def _SetFileInformationByHandle(self, handle, what, given, size):
        one = self._open[handle]
        data = ctypes.string_at(given, size)
        return self._played(lambda: self._set(one, what, data))

    def _set(self, one: Open, what: int, data: bytes) -> int:
        if what in (_RENAME, _RENAME_EX):
            flags, folder, length = struct.unpack_from("<I4xQI", data)
            name = data[20 : 20 + length].decode("utf-16-le", "surrogatepass")
            self._require_access(one, _DELETE)
            if folder:
                name = PREFIX + "C:" + self._open[folder].path.replace("/", "\\") + "\\" + name
            posix = what == _RENAME_EX and bool(flags & 2)
            replaces = bool(flags & 1 if what == _RENAME_EX else data[0])
            return self.move("", name, replace=replaces, own=one, posix=posix)
        if what in (_DISPOSITION, _DISPOSITION_EX):
            self._require_access(one, _DELETE)
            if data[0] & 1:
                posix = what == _DISPOSITION_EX and bool(data[0] & 2)
                self._delete(one.path, own=one, posix=posix)
            else:
                self._pending.pop(one.key, None)
            return 1
        assert what == _BASIC
        self._require_access(one, 0x100)
        born, read, wrote, _, attributes = struct.unpack_from("<4qI", data)
        if born > 0:
            self.born[one.key] = born
        real = os.fstat(one.number)
        times = [
            (given - _EPOCH) * 100 if given > 0 else kept
            for given, kept in ((read, real.st_atime_ns), (wrote, real.st_mtime_ns))
        ]
        if read > 0 or wrote > 0:
            os.utime(one.path, ns=(times[0], times[1]))
        if attributes:
            self.attributes[one.key] = attributes & ~(DIRECTORY | NORMAL)
        return 1

    def _require_access(self, one: Open, access: int) -> None:
        if not one.access & access:
            self.rule("a handle does what it was opened for")
            raise Refused(DENIED)

    def _GetFileAttributesW(self, path):
        def play() -> int:
            return self.attributes_of(self._existing(path).real)

        return self._played(play) or 0xFFFFFFFF

    def _SetFileAttributesW(self, path, attributes):
        def play() -> int:
            self.attributes[self.key_of(self._existing(path).real)] = attributes & ~NORMAL
            return 1

        return self._played(play)

    def _LockFileEx(self, handle, how, reserved, low, high, place):
        assert (reserved, low, high, how & 1) == (0, 1, 0, 1)
        at = Overlapped.from_address(place)
        held = self._locks.setdefault((self._open[handle].key, at.OffsetHigh << 32 | at.Offset), [])
        self.rule("locks")
        if any(exclusive or how & 2 for _, exclusive in held):
            return self._fail(33)
        held.append((handle, bool(how & 2)))
        return 1

    def _UnlockFileEx(self, handle, _reserved, _low, _high, place):
        at = Overlapped.from_address(place)
        held = self._locks.get((self._open[handle].key, at.OffsetHigh << 32 | at.Offset), [])
        ours = next((one for one in held if one[0] == handle), None)
        if ours is None:
            return self._fail(158)
        held.remove(ours)
        return 1

    def locked_offsets(self) -> set[int]:
        return {place for (_, place), held in self._locks.items() if held}
