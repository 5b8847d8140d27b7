"""Restrict files, ports and signals with Landlock, on Linux.

Needs no privileges and cannot be undone. Holds for this thread and whatever it starts afterwards; other
threads keep their rights. Older kernels support less: what takes effect depends on the version.
Constants and structures: ``linux/landlock.h`` and the kernel's documentation of Landlock.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from mcp_notarium.system import SYSTEM

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_ONLY = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)
_PATH_BENEATH, _NET_PORT = 1, 2
_PR_SET_NO_NEW_PRIVS = 38
_CONNECT, _BIND = 1 << 1, 1 << 0
_SCOPE_SIGNALS = 1 << 1
FIRST_WITH_NETWORK = 4
UNSUPPORTED = "this system has no Landlock"
FIRST_WITH_SCOPES = 6


class Access(IntFlag):
    """Name what may be done below a path; each value is the kernel's."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Access.READ_FILE | Access.READ_DIR
KEEP_FILES = (
    READ
    | Access.WRITE_FILE
    | Access.TRUNCATE
    | Access.MAKE_REG
    | Access.MAKE_DIR
    | Access.REMOVE_FILE
    | Access.REMOVE_DIR
    | Access.REFER
)
_OF_FILES = (
    Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
)
_KNOWN_SINCE = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Since which version the kernel knows how many of these rights."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hold everything that stays possible."""

    read: tuple[Path, ...] = ()
    keep: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()
    """TCP ports that may be connected to."""


def version() -> int:
    """Return the kernel's version of Landlock; 0 where there is none."""
    if not SYSTEM.can_confine:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return max(found, 0)


def restrict(allowed: Allowed) -> int:
    """Restrict this thread to what is allowed; return ``version()``. Skip paths that do not exist.

    Raises ``OSError`` if the kernel has no Landlock or refuses; nothing is restricted then.
    """
    known = version()
    if not known:
        raise OSError(0, UNSUPPORTED)
    rights = Access((1 << max(bits for since, bits in _KNOWN_SINCE if since <= known)) - 1)
    ruleset = _ruleset(rights, known)
    try:
        for paths, access in ((allowed.read, READ), (allowed.keep, KEEP_FILES)):
            _allow_paths(ruleset, paths, access & rights)
        if known >= FIRST_WITH_NETWORK:
            for port in allowed.ports:
                _call(_ADD_RULE, ruleset, _NET_PORT, struct.pack("=QQ", _CONNECT, port), 0)
        _lock(ruleset)
    finally:
        os.close(ruleset)
    return known


def _ruleset(rights: Access, known: int) -> int:
    asked = [int(rights)]
    if known >= FIRST_WITH_NETWORK:
        asked.append(_CONNECT | _BIND)  # defence: landlock-network -_CONNECT
    if known >= FIRST_WITH_SCOPES:
        asked.append(_SCOPE_SIGNALS)
    attributes = struct.pack(f"={len(asked)}Q", *asked)
    return _call(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow_paths(ruleset: int, paths: Iterable[Path], access: Access) -> None:
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            descriptor = os.open(path, _PATH_ONLY)
            try:
                rights = access if path.is_dir() else access & _OF_FILES
                _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
            finally:
                os.close(descriptor)


def _lock(ruleset: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _call(_RESTRICT_SELF, ruleset, 0)


def _call(number: int, *arguments: bytes | int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(
        number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
