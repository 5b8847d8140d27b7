"""Another process of the same user, without rights of its own, that looks for a secret in memory.

Run as ``python peer.py PID SECRET``: prints a JSON object with the result of each way in: the number
of times the secret was found or ``true``, or the name of the error.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

_ATTACH, _DETACH = 16, 17
_CHUNK = 1 << 20


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_libc.process_vm_readv.argtypes = [
    ctypes.c_int,
    ctypes.POINTER(_Part),
    ctypes.c_ulong,
    ctypes.POINTER(_Part),
    ctypes.c_ulong,
    ctypes.c_ulong,
]
_libc.process_vm_readv.restype = ctypes.c_ssize_t


def _failed() -> OSError:
    return OSError(ctypes.get_errno(), "")


def _areas(pid: int) -> Iterator[tuple[int, int]]:
    """Everything the process can write to, in pieces."""
    with open(f"/proc/{pid}/maps") as maps:  # noqa: PTH123 - the process's own words
        for line in maps:
            span, rights, *_ = line.split()
            first, last = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw"):
                for start in range(first, last, _CHUNK):
                    yield start, min(_CHUNK, last - start)


def environment(pid: int, _secret: bytes) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - the same
        file.read(1)
    return True


def memory(pid: int, secret: bytes) -> int:
    """Through ``/proc/PID/mem``; opened first, because the list of areas is closed just as well."""
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    found = 0
    for start, length in _areas(pid):
        with suppress(OSError):  # an area may have gone since
            found += os.pread(descriptor, length, start).count(secret)
    return found


def foreign_read(pid: int, secret: bytes) -> int:
    """Through ``process_vm_readv``; whether it is allowed is decided before the address is looked at."""
    _copied(pid, 4096, 1)
    return sum((_copied(pid, start, length) or b"").count(secret) for start, length in _areas(pid))


def _copied(pid: int, start: int, length: int) -> bytes | None:
    """The bytes, or None where there are none; raises if it is not allowed."""
    buffer = ctypes.create_string_buffer(length)
    here = _Part(ctypes.cast(buffer, ctypes.c_void_p), length)
    there = _Part(start, length)
    if _libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) < 0:
        if ctypes.get_errno() == errno.EFAULT:
            return None
        raise _failed()
    return buffer.raw


def attach(pid: int, _secret: bytes) -> bool:
    """As a debugger does; lets the process go again."""
    if _libc.ptrace(_ATTACH, pid, None, None) < 0:
        raise _failed()
    os.waitpid(pid, 0)
    _libc.ptrace(_DETACH, pid, None, None)
    return True


WAYS: tuple[Callable[[int, bytes], int], ...] = (environment, memory, foreign_read, attach)


def _tried(way: Callable[[int, bytes], int], pid: int, secret: bytes) -> int | str:
    try:
        return way(pid, secret)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


if __name__ == "__main__":
    # Put together here, so that it never finds its own arguments.
    PID, SECRET = int(sys.argv[1]), sys.argv[2].encode()
    print(json.dumps({way.__name__: _tried(way, PID, SECRET) for way in WAYS}))  # noqa: T201
