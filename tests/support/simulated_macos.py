"""Simulate macOS on real files: names as APFS takes them, and the calls that exchange files and hold attributes.

Names on the real disk are spelled as their makers spelled them. A call that names a file below an open folder finds it by any
spelling that APFS takes for the same. ``system_rules`` says by which page each rule is one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_notarium.system.linux import Linux
from mcp_notarium.system.macos import RENAME_EXCL, RENAME_SWAP, MacOS
from support.system_rules import RULES

ATTR_CMN_CRTIME = 0x00000200
_ACL, _STAT, _XATTR = 1, 2, 4
DATALESS = 0x40000000
"""SF_DATALESS."""


def fold(name: str) -> str:
    """Return the same for all names that are one for APFS in its usual form."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


class _Call:
    """A function of the library: ``argtypes`` must fit what it is called with."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes)
        assert self.restype is not None
        for kind, argument in zip(self.argtypes, arguments, strict=True):
            kind.from_param(argument)
        try:
            return self._function(*arguments)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1


class _Stat:
    """What ``stat`` says of a file with flags."""

    def __init__(self, real: os.stat_result, flags: int) -> None:
        self._real = real
        self.st_flags = flags

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Entry:
    """An entry of a folder, the same way."""

    def __init__(self, mac: MacOSModel, real: os.DirEntry[str]) -> None:
        self._mac = mac
        self._real = real

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        return self._mac.shown(self._real.stat(follow_symlinks=follow_symlinks))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class MacOSModel:
    """The C library and the disk, as far as a vault uses them.

    ``swaps``: the file system can exchange files. ``renames_case``: RENAME_EXCL takes another spelling of the same file for
    free, which newer systems do. ``dataless``: inodes whose content is at iCloud; ``fetched``: those that were opened.
    """

    def __init__(self, *, swaps: bool = True, renames_case: bool = False) -> None:
        self._linux = Linux()
        self._swaps = swaps
        self._renames_case = renames_case
        self.dataless: set[int] = set()
        self.fetched: list[str] = []
        self.flags: dict[int, int] = {}
        self.own_flags = 0
        """Those that the system gives to each file."""
        self.fired: set[str] = set()
        self.renameatx_np = _Call(self._rename)
        self.fgetxattr = _Call(self._get)
        self.fsetxattr = _Call(self._set)
        self.fcopyfile = _Call(self._copy)
        self.fchflags = _Call(self._set_flags)
        self.fgetattrlist = _Call(self._tell)
        self.fsetattrlist = _Call(self._set_born)
        self.born: dict[tuple[int, str], bytes] = {}
        self.access_lists: dict[int, str] = {}
        self.attributes: dict[int, dict[str, bytes]] = {}
        self._real = {
            name: getattr(os, name)
            for name in ("open", "stat", "fstat", "mkdir", "unlink", "link", "rename", "scandir")
        }

    def rule(self, name: str) -> None:
        """Note that a rule has acted."""
        assert name in RULES, name
        self.fired.add(name)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let the vault's files go through the page of macOS, and their names through this disk."""
        system = MacOS(load=lambda: self)
        # The time of birth is a field of ``stat`` there, which Linux has a call for.
        patch.setattr(system, "birth", lambda file, _found: self.birth(file))
        # Events of macOS come some time after a change (tests/unit/system/test_folder_events.py); here they come at once.
        patch.setattr(system, "folder_events", self._linux.folder_events)
        for name, module in [*sys.modules.items()]:
            if name.startswith("mcp_notarium.stores.vault.") and hasattr(module, "SYSTEM"):
                patch.setattr(module, "SYSTEM", system)
        for name in ("open", "stat", "mkdir", "unlink"):
            patch.setattr(os, name, self._one(name))
        for name in ("link", "rename"):
            patch.setattr(os, name, self._two(name))
        patch.setattr(os, "fstat", lambda file: self.shown(self._real["fstat"](file)))
        patch.setattr(os, "scandir", self._scandir)

    def name(self, folder: int, name: str) -> str:
        """Return how a name is spelled on the disk; as it is given if there is none."""
        try:
            self._real["stat"](name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            wanted = fold(name)
            for other in os.listdir(folder):
                if fold(other) == wanted:
                    same = other.casefold() == name.casefold()
                    self.rule("names in any case" if same else "names in any normal form")
                    return other
        except (OSError, ValueError):
            pass
        return name

    def _one(self, call: str) -> Callable[..., Any]:
        def named(path: Any, *rest: Any, dir_fd: int | None = None, **options: Any) -> Any:
            if dir_fd is not None:
                path = self.name(dir_fd, path)
            done = self._real[call](path, *rest, dir_fd=dir_fd, **options)
            if call == "open" and self._real["fstat"](done).st_ino in self.dataless:
                self.rule("dataless files")
                self.fetched.append(str(path))
            return self.shown(done) if call == "stat" else done

        return named

    def _two(self, call: str) -> Callable[..., Any]:
        def named(
            old: Any, new: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None,
            **options: Any,
        ) -> None:  # fmt: skip
            if src_dir_fd is not None and dst_dir_fd is not None:
                old, spelled = self.name(src_dir_fd, old), self.name(dst_dir_fd, new)
                if call == "link" or not self._is_same(src_dir_fd, old, dst_dir_fd, spelled):
                    if call == "rename" and spelled != new:
                        os.unlink(spelled, dir_fd=dst_dir_fd)
                    new = spelled if call == "link" else new
            options |= {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            self._real[call](old, new, **options)

        return named

    def _is_same(self, old_folder: int, old: str, new_folder: int, new: str) -> bool:
        try:
            found = self._real["stat"](old, dir_fd=old_folder, follow_symlinks=False)
            there = self._real["stat"](new, dir_fd=new_folder, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(found, there)

    def _scandir(self, folder: Any = ".") -> Any:
        if isinstance(folder, int):
            return self._entries(folder)
        return self._real["scandir"](folder)

    @contextmanager
    def _entries(self, folder: int) -> Iterator[Iterator[Any]]:
        with self._real["scandir"](folder) as entries:
            yield (_Entry(self, one) for one in entries)

    def shown(self, real: os.stat_result) -> Any:
        """Return what ``stat`` says here."""
        flags = self.flags.get(real.st_ino, self.own_flags)
        flags |= DATALESS if real.st_ino in self.dataless else 0
        return _Stat(real, flags) if flags else real

    def _rename(self, old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int) -> int:
        if flags not in (RENAME_SWAP, RENAME_EXCL):
            raise OSError(errno.EINVAL, "flags")
        if not self._swaps:
            self.rule("no flags everywhere")
            raise OSError(errno.ENOTSUP, "not on this file system")
        wanted = os.fsdecode(new)
        one, other = self.name(old_folder, os.fsdecode(old)), self.name(new_folder, wanted)
        exchange = flags == RENAME_SWAP
        self.rule("exchange" if exchange else "exclusive rename")
        if not exchange:
            if other == wanted:
                pass
            elif self._renames_case and self._is_same(old_folder, one, new_folder, other):
                other = wanted
            else:
                raise OSError(errno.EEXIST, "it exists")
        assert self._linux.rename(old_folder, one, new_folder, other, exchange=exchange)
        return 0

    def _get(self, file: int, name: bytes, value: Any, size: int, *options: int) -> int:
        assert options == (0, 0)
        found = os.getxattr(file, name)
        if len(found) > size:
            raise OSError(errno.ERANGE, "too long")
        ctypes.memmove(value, found, len(found))
        return len(found)

    def _set(self, file: int, name: bytes, value: bytes, size: int, *options: int) -> int:
        assert (options, size) == ((0, 0), len(value))
        self._require_permitted(file, "writeextattr")
        os.setxattr(file, name, value)
        self.rule("attributes")
        return 0

    def _copy(self, source: int, to: int, state: None, what: int) -> int:
        assert state is None
        assert not what & ~(_ACL | _STAT | _XATTR)
        one, other = (os.fstat(file).st_ino for file in (source, to))
        if what & _ACL and one in self.access_lists:
            self.access_lists[other] = self.access_lists[one]
            self.rule("access lists")
        if what & _STAT:
            os.utime(to, ns=(os.fstat(source).st_atime_ns, os.fstat(source).st_mtime_ns))
        if what & _XATTR:
            self._require_permitted(to, "writeextattr")
            for name in os.listxattr(source):
                os.setxattr(to, name, os.getxattr(source, name))
            self.attributes[other] = {**self.attributes.get(one, {})}
            self.rule("copied attributes")
        return 0

    def _set_flags(self, file: int, flags: int) -> int:
        self._require_permitted(file, "writeattr")
        self.flags[os.fstat(file).st_ino] = flags
        self.rule("flags")
        return 0

    def _require_permitted(self, file: int, right: str) -> None:
        if right in self.access_lists.get(os.fstat(file).st_ino, ""):
            self.rule("denied attributes")
            raise OSError(errno.EACCES, "the access list denies it")

    def _key(self, file: int) -> tuple[int, str]:
        found = os.fstat(file)
        return found.st_ino, self._linux.birth(file, found) or ""

    def birth(self, file: int) -> str:
        """Return when an open file was made: a number is given again, so the disk's own time tells files apart."""
        key = self._key(file)
        if key not in self.born:
            return key[1]
        return "{}.{:09}".format(*struct.unpack("=qq", self.born[key]))

    def _tell(self, file: int, asked: Any, told: Any, size: int, options: int) -> int:
        self._require_creation(asked, options)
        seconds, _, rest = self.birth(file).partition(".")
        answer = struct.pack("=Iqq", 20, int(seconds), int(rest))
        assert size == len(answer)
        ctypes.memmove(told, answer, size)
        return 0

    def _set_born(self, file: int, asked: Any, given: Any, size: int, options: int) -> int:
        self._require_creation(asked, options)
        self._require_permitted(file, "writeattr")
        assert size == struct.calcsize("=qq")
        self.born[self._key(file)] = bytes(given)
        self.rule("time of creation")
        return 0

    def _require_creation(self, asked: Any, options: int) -> None:
        count, reserved, *groups = struct.unpack("=HHIIIII", bytes(asked))
        assert (count, reserved, groups, options) == (5, 0, [ATTR_CMN_CRTIME, 0, 0, 0, 0], 0)


def simulate_macos(
    patch: pytest.MonkeyPatch, *, swaps: bool = True, renames_case: bool = False
) -> MacOSModel:
    """Let vaults lie on a disk of macOS."""
    model = MacOSModel(swaps=swaps, renames_case=renames_case)
    model.install(patch)
    return model
