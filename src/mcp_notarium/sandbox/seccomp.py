"""Refuse system calls that a server never makes, with seccomp on Linux. They fail with EPERM.

Landlock knows only files and the addresses of plain TCP. It does not cover programs out of memory, sockets
that listen without an address, other protocols, the modes and times of files, watching files, a terminal's
keys, what the kernel keeps for all processes of a user (keyrings, queues, shared memory), and what only
root may do. The filter cannot be undone. It holds for this thread and whatever it starts afterwards, and
only on architectures whose call numbers are listed here.
The filter is a program for the kernel's packet filter: ``linux/seccomp.h``, ``linux/filter.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from mcp_notarium.system import SYSTEM

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
"""Requests to an open file that are refused: type keys for the user, change what a file is."""
_WATCH_FOLDER = 1026
"""Command of ``fcntl`` that watches a folder by signals (F_NOTIFY)."""
_NAMESPACES = 0x7E020000
"""Flags of ``clone`` that start a process with another view of the machine (CLONE_NEWNS and so on)."""
_X32 = 0x40000000
_NO_CALL = 1023
"""A number that is no system call on either architecture."""

_NUMBER, _ARCHITECTURE = 0, 4  # offsets in the structure that a filter looks at
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45

Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if its condition holds, those to skip if not, operand."""

ALLOW: Instruction = (_RETURN, 0, 0, 0x7FFF0000)
DENY: Instruction = (_RETURN, 0, 0, 0x00050000 | errno.EPERM)
_UNKNOWN: Instruction = (_RETURN, 0, 0, 0x00050000 | errno.ENOSYS)
_OURS: Instruction = (_RETURN, 0, 0, 0x00050000 | errno.E2BIG)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Hold the kernel's name of an architecture, and its call numbers."""

    audit: int
    refused: Mapping[str, int]
    """Always."""
    inspected: Mapping[str, int]
    """Depending on their arguments."""


# Each row: number on x86_64, number on aarch64 (None: not there). A call that something of ours
# comes to need is taken out here, and nowhere else.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # run programs, listen, hand calls to the kernel past this filter
    "execve": (59, 221),
    "execveat": (322, 281),
    "listen": (50, 201),
    "io_uring_setup": (425, 425),
    # look into other processes, or steer them
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    # what the kernel keeps for all processes of a user
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory that nobody else sees, or that faults when the process likes
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    # watch files: Landlock does not restrict notifications of changes
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # change modes, owners, times, attributes of files
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # what is root's: another view of the machine ...
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "unshare": (272, 97),
    "mount": (165, 40),
    "umount2": (166, 39),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_by_handle_at": (304, 265),
    # ... and the machine itself
    "acct": (163, 89),
    "syslog": (103, 116),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_OF_OPEN_FILES = frozenset({"fchmod", "fchown", "fsetxattr"})
"""Calls that set attributes of a file by its descriptor, so Landlock has decided about the file."""
_WATCHING = frozenset({"inotify_add_watch"})
_INSPECTED: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "setsockopt": (54, 208),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "clone": (56, 220),
    "clone3": (435, 435),
}


def _numbers(table: Mapping[str, tuple[int | None, int | None]], column: int) -> dict[str, int]:
    return {name: number for name, row in table.items() if (number := row[column]) is not None}


X86_64 = Architecture(0xC000003E, _numbers(_REFUSED, 0), _numbers(_INSPECTED, 0))
AARCH64 = Architecture(0xC00000B7, _numbers(_REFUSED, 1), _numbers(_INSPECTED, 1))


def architecture() -> Architecture | None:
    """Return the architecture this process runs on; None where its call numbers are not known here."""
    if not SYSTEM.can_confine or struct.calcsize("P") != 8:  # noqa: PLR2004 - bytes of an address
        return None
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(SYSTEM.machine())


def explain_missing_support() -> str:
    """Explain why no filter is possible here; empty where one is."""
    if not SYSTEM.can_confine:
        return "this system has no seccomp"
    if architecture() is None:
        return f"the system calls of {SYSTEM.machine()} are not known"
    libc = ctypes.CDLL(None, use_errno=True)
    # Without a filter: only a kernel that knows them looks where it should be.
    libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, None)
    return "" if ctypes.get_errno() == errno.EFAULT else "this kernel has no seccomp filters"


def restrict(
    where: Architecture | None = None, *, attributes: bool = False, watch: bool = False
) -> None:
    """Refuse all calls of the list from now on.

    ``attributes``: but those that set attributes of open files. ``watch``: but the one that watches files.
    Raises ``OSError`` if no filter is possible, or an emulator runs the program and its calls are those of
    another architecture; nothing is refused then.
    """
    where = where or architecture()
    if where is None:
        raise OSError(errno.ENOSYS, explain_missing_support())
    libc = ctypes.CDLL(None, use_errno=True)
    _install(libc, build_probe(where))
    libc.syscall(_NO_CALL)
    if ctypes.get_errno() != errno.E2BIG:  # defence: seccomp-emulator-noticed
        raise OSError(errno.ENOSYS, "the program is run by an emulator")
    _install(libc, build_filter(where, attributes=attributes, watch=watch))


def build_filter(
    where: Architecture, *, attributes: bool = False, watch: bool = False
) -> list[Instruction]:
    """Build the filter; see :func:`restrict`. Calls of another architecture, or with short addresses (x32), are refused."""
    call = where.inspected
    permitted = (_OF_OPEN_FILES if attributes else frozenset()) | (
        _WATCHING if watch else frozenset()
    )
    # defence: seccomp-architecture -_unless
    steps = [_load(_ARCHITECTURE), *_unless(where.audit, DENY), _load(_NUMBER)]
    steps += [(_IF_AT_LEAST, 0, 1, _X32), DENY]
    if attributes:
        steps += _if(where.refused["utimensat"], *_allow_without_path())
    for name, number in where.refused.items():
        if name not in permitted:
            steps += _if(number, DENY)  # defence: seccomp-refused-calls
    for name in ("socket", "socketpair"):
        steps += _if(call[name], *_allow_known_sockets())
    steps += _if(call["setsockopt"], *_deny_tcp_ulp())
    # defence: seccomp-terminal-keys DENY=ALLOW
    controls = (step for control in _CONTROLS.values() for step in _if(control, DENY))
    steps += _if(call["ioctl"], _argument(1), *controls, ALLOW)
    steps += _if(call["fcntl"], _argument(1), *_if(_WATCH_FOLDER, DENY), ALLOW)
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        # defence: seccomp-connect-by-send DENY=ALLOW
        refused = [_argument(flags), (_IF_ANY_BIT, 0, 1, _CONNECT_AND_SEND), DENY, ALLOW]
        steps += _if(call[name], *refused)
    # defence: seccomp-no-namespaces DENY=ALLOW
    steps += _if(call["clone"], _argument(0), (_IF_ANY_BIT, 0, 1, _NAMESPACES), DENY, ALLOW)
    # Its flags lie in memory, where no filter looks; every C library goes back to the other one.
    steps += _if(call["clone3"], _UNKNOWN)  # defence: seccomp-no-clone3
    return [*steps, ALLOW]


def build_probe(where: Architecture) -> list[Instruction]:
    """Build a filter that only shows, by the error of an unknown call, whose calls the kernel sees."""
    return [
        _load(_ARCHITECTURE),
        *_unless(where.audit, ALLOW),
        _load(_NUMBER),
        *_if(_NO_CALL, _OURS),
        ALLOW,
    ]


def _allow_without_path() -> list[Instruction]:
    """Allow the call if its second argument, an address of a path, is null: it is about an open file then."""
    low, high = 16 + 8, 16 + 8 + 4
    return [_load(low), *_unless(0, DENY), _load(high), *_unless(0, DENY), ALLOW]


def _allow_known_sockets() -> list[Instruction]:
    """Allow local sockets, the kernel's for its network settings, TCP and UDP."""
    tcp_or_udp = [
        _argument(1),
        (_AND, 0, 0, _KIND),
        *_unless(_STREAM, *_unless(_DATAGRAM, DENY)),
        _argument(2),
        *(step for protocol in (_ANY, _TCP, _UDP) for step in _if(protocol, ALLOW)),
        DENY,  # defence: seccomp-other-protocols DENY=ALLOW
    ]
    return [
        _argument(0),
        *_if(_UNIX, ALLOW),
        *_if(_NETLINK, ALLOW),
        *_if(_INET, *tcp_or_udp),
        *_if(_INET6, *tcp_or_udp),
        DENY,
    ]


def _deny_tcp_ulp() -> list[Instruction]:
    """Refuse the option that turns a TCP socket into something else."""
    # defence: seccomp-tcp-stays-tcp DENY=ALLOW
    return [_argument(1), *_if(_TCP, _argument(2), *_if(_UPPER_PROTOCOL, DENY)), ALLOW]


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _argument(number: int) -> Instruction:
    """Load an argument's lower half: the kernel uses no more of these; both architectures put it first."""
    return _load(16 + 8 * number)


def _if(value: int, *then: Instruction) -> list[Instruction]:
    return [(_IF_EQUAL, 0, len(then), value), *then]


def _unless(value: int, *then: Instruction) -> list[Instruction]:
    return [(_IF_EQUAL, len(then), 0, value), *then]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _install(libc: ctypes.CDLL, steps: list[Instruction]) -> None:
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)
    filter_ = _Program(len(steps), packed)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_)
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
