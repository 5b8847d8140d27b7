"""Simulate the calls of macOS that exchange files and hold attributes, on real files by the calls of Linux.

What the simulation promises is what Apple's man pages promise: rename(2) for ``renameatx_np``, getxattr(2), setxattr(2) and
listxattr(2). Their numbers of arguments and flags are checked as the linker would not.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from mcp_notarium.stores.vault import file_writer, system_calls
from mcp_notarium.system.linux import Linux
from mcp_notarium.system.macos import RENAME_EXCL, RENAME_SWAP, MacOS


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


class MacLibrary:
    """The C library, as far as the page of the port uses it for shared files. ``swaps``: the file system can exchange."""

    def __init__(self, *, swaps: bool = True) -> None:
        self._linux = Linux()
        self._swaps = swaps
        self.renameatx_np = _Call(self._rename)
        self.fgetxattr = _Call(self._get)
        self.fsetxattr = _Call(self._set)
        self.flistxattr = _Call(self._list)

    def _rename(self, old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int) -> int:
        if flags not in (RENAME_SWAP, RENAME_EXCL):
            raise OSError(errno.EINVAL, "flags")
        if not self._swaps:
            raise OSError(errno.ENOTSUP, "not on this file system")
        names = os.fsdecode(old), os.fsdecode(new)
        exchange = flags == RENAME_SWAP
        assert self._linux.rename(old_folder, names[0], new_folder, names[1], exchange=exchange)
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
        os.setxattr(file, name, value)
        return 0

    def _list(self, file: int, names: Any, size: int, options: int) -> int:
        assert options == 0
        found = b"".join(os.fsencode(one) + b"\0" for one in os.listxattr(file))
        if len(found) > size:
            raise OSError(errno.ERANGE, "too long")
        ctypes.memmove(names, found, len(found))
        return len(found)


def simulate_macos(patch: pytest.MonkeyPatch, *, swaps: bool = True) -> None:
    """Let the vault's files go through the page of macOS."""
    library = MacLibrary(swaps=swaps)
    system = MacOS(load=lambda: library)
    # The time of birth is a field of ``stat`` there, which Linux has a call for.
    patch.setattr(system, "birth", Linux().birth)
    for module in (file_writer, system_calls):
        patch.setattr(module, "SYSTEM", system)
