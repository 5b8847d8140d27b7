"""Seccomp on Linux: system calls that a server never makes are refused with EPERM from now on.

Beside Landlock, which knows files and the addresses of plain TCP only: programs out of memory, sockets that
listen without an address, other protocols, the modes and times of files, a terminal's keys, and what the
kernel keeps for all processes of a user (its keyrings, shared memory) pass it by. For good, for this thread
and whatever it starts afterwards; only where the numbers of the calls are listed here.
The filter is a program for the kernel's packet filter: ``linux/seccomp.h``, ``linux/filter.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _KIND = 1, 2, 0xF
_ANY, _TCP, _UDP = 0, 6, 17
_UPPER_PROTOCOL = 31
"""Option of a TCP socket that puts another protocol in the place of TCP (TCP_ULP)."""
_CONNECT_AND_SEND = 0x20000000
"""Flag of a message: connect by sending (MSG_FASTOPEN); Landlock sees no ``connect`` then."""
_CONTROLS = {
    "type into the terminal (TIOCSTI)": 0x5412,
    "paste into the console (TIOCLINUX)": 0x541C,
    "FS_IOC_SETFLAGS": 0x40086602,
    "FS_IOC32_SETFLAGS": 0x40046602,
    "FS_IOC_SETVERSION": 0x40087602,
    "FS_IOC32_SETVERSION": 0x40047602,
    "FS_IOC_FSSETXATTR": 0x401C5820,
}
"""What no open file is asked to do: press keys for the person, and change what a file is."""
_X32 = 0x40000000
_NO_CALL = 1023
"""A number that is no system call on either architecture."""

_NUMBER, _ARCHITECTURE = 0, 4  # offsets in the structure that a filter looks at
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45

Step = tuple[int, int, int, int]
"""Operation, how many steps to leave out where its condition holds, and where not, operand."""

ALLOW: Step = (_RETURN, 0, 0, 0x7FFF0000)
DENY: Step = (_RETURN, 0, 0, 0x00050000 | errno.EPERM)
_OURS: Step = (_RETURN, 0, 0, 0x00050000 | errno.E2BIG)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the kernel calls it, and its numbers. ``never``: calls that are refused whatever is asked."""

    audit: int
    never: Mapping[str, int]
    looked_at: Mapping[str, int]


_SAME_EVERYWHERE = {
    "io_uring_setup": 425,
    "pidfd_getfd": 438,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "file_setattr": 469,
}
X86_64 = Architecture(
    0xC000003E,
    never=_SAME_EVERYWHERE
    | {"listen": 50, "execve": 59, "execveat": 322, "ptrace": 101}
    | {"process_vm_readv": 310, "process_vm_writev": 311, "shmget": 29, "shmat": 30}
    | {"add_key": 248, "request_key": 249, "keyctl": 250}
    | {"chmod": 90, "fchmod": 91, "fchmodat": 268}
    | {"chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260}
    | {"utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280}
    | {"setxattr": 188, "lsetxattr": 189, "fsetxattr": 190}
    | {"removexattr": 197, "lremovexattr": 198, "fremovexattr": 199},
    looked_at={"socket": 41, "socketpair": 53, "setsockopt": 54, "ioctl": 16}
    | {"sendto": 44, "sendmsg": 46, "sendmmsg": 307},
)
AARCH64 = Architecture(
    0xC00000B7,
    never=_SAME_EVERYWHERE
    | {"listen": 201, "execve": 221, "execveat": 281, "ptrace": 117}
    | {"process_vm_readv": 270, "process_vm_writev": 271, "shmget": 194, "shmat": 196}
    | {"add_key": 217, "request_key": 218, "keyctl": 219}
    | {"fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "utimensat": 88}
    | {"setxattr": 5, "lsetxattr": 6, "fsetxattr": 7}
    | {"removexattr": 14, "lremovexattr": 15, "fremovexattr": 16},
    looked_at={"socket": 198, "socketpair": 199, "setsockopt": 208, "ioctl": 29}
    | {"sendto": 206, "sendmsg": 211, "sendmmsg": 269},
)


def architecture() -> Architecture | None:
    """The one that this process runs on; None where its numbers are not known here."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes of an address
        return None
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(os.uname().machine)


def lacking() -> str:
    """Why there can be no filter here; empty where there can."""
    if sys.platform != "linux":
        return "this system has no seccomp"
    if architecture() is None:
        return f"the system calls of {os.uname().machine} are not known"
    libc = ctypes.CDLL(None, use_errno=True)
    # Without a filter: only a kernel that knows them looks where it should be.
    libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None)
    return "" if ctypes.get_errno() == errno.EFAULT else "this kernel has no seccomp filters"


def restrict(where: Architecture | None = None) -> None:
    """Give up all calls of the list.

    Raises ``OSError``: there can be no filter, or the program is run by an emulator, whose calls
    are those of another architecture; nothing is given up then.
    """
    where = where or architecture()
    if where is None:
        raise OSError(errno.ENOSYS, lacking())
    libc = ctypes.CDLL(None, use_errno=True)
    _install(libc, trial(where))
    libc.syscall(_NO_CALL)
    if ctypes.get_errno() != errno.E2BIG:
        raise OSError(errno.ENOSYS, "the program is run by an emulator")
    _install(libc, program(where))


def program(where: Architecture) -> list[Step]:
    """The filter. Calls of another architecture, and of the one with short addresses, are refused."""
    call = where.looked_at
    steps = [_load(_ARCHITECTURE), *_unless(where.audit, DENY), _load(_NUMBER)]
    steps += [(_IF_AT_LEAST, 0, 1, _X32), DENY]
    for number in where.never.values():
        steps += _if(number, DENY)
    for name in ("socket", "socketpair"):
        steps += _if(call[name], *_only_known_sockets())
    steps += _if(call["setsockopt"], *_never_another_protocol())
    controls = (step for control in _CONTROLS.values() for step in _if(control, DENY))
    steps += _if(call["ioctl"], _argument(1), *controls, ALLOW)
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        refused = [_argument(flags), (_IF_ANY_BIT, 0, 1, _CONNECT_AND_SEND), DENY, ALLOW]
        steps += _if(call[name], *refused)
    return [*steps, ALLOW]


def trial(where: Architecture) -> list[Step]:
    """A filter that only shows, by the error of a call that is none, whose calls the kernel sees."""
    return [
        _load(_ARCHITECTURE),
        *_unless(where.audit, ALLOW),
        _load(_NUMBER),
        *_if(_NO_CALL, _OURS),
        ALLOW,
    ]


def _only_known_sockets() -> list[Step]:
    """Local ones, the kernel's for its network settings, TCP and UDP."""
    tcp_or_udp = [
        _argument(1),
        (_AND, 0, 0, _KIND),
        *_unless(_STREAM, *_unless(_DATAGRAM, DENY)),
        _argument(2),
        *(step for protocol in (_ANY, _TCP, _UDP) for step in _if(protocol, ALLOW)),
        DENY,
    ]
    return [
        _argument(0),
        *_if(_UNIX, ALLOW),
        *_if(_NETLINK, ALLOW),
        *_if(_INET, *tcp_or_udp),
        *_if(_INET6, *tcp_or_udp),
        DENY,
    ]


def _never_another_protocol() -> list[Step]:
    """No option that turns a TCP socket into something else."""
    return [_argument(1), *_if(_TCP, _argument(2), *_if(_UPPER_PROTOCOL, DENY)), ALLOW]


def _load(offset: int) -> Step:
    return (_LOAD, 0, 0, offset)


def _argument(number: int) -> Step:
    """The lower half, which is all that the kernel takes of these; both architectures put it first."""
    return _load(16 + 8 * number)


def _if(value: int, *then: Step) -> list[Step]:
    return [(_IF_EQUAL, 0, len(then), value), *then]


def _unless(value: int, *then: Step) -> list[Step]:
    return [(_IF_EQUAL, len(then), 0, value), *then]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _install(libc: ctypes.CDLL, steps: list[Step]) -> None:
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)
    filter_ = _Program(len(steps), packed)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_)
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
