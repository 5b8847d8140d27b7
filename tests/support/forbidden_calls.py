"""Make the system calls that Landlock permits and a confined server must not make.

An attempt that another side refuses, or that lacks something of this machine, was allowed: only EPERM
counts as forbidden. Everything is undone by leaving the process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct
import termios
from collections.abc import Callable
from pathlib import Path

from mcp_notarium.sandbox import seccomp

SET_FLAGS = 0x40086602
MPTCP, CONNECT_AND_SEND, UPPER_PROTOCOL = 262, 0x20000000, 31
_EXIT_WITH_0 = {
    "x86_64": (62, bytes.fromhex("31ff b83c000000 0f05")),
    "aarch64": (183, bytes.fromhex("000080d2 a80b80d2 010000d4")),
}
"""The number of the machine in the head of a program, and the calls that end it."""
BOTH_NEW_AND_SHARED = 0x10000000 | 0x200
"""Flags of a new process that the kernel refuses as nonsense before it asks for any right."""
_HARMLESS = {
    # What is asked for does not exist, or is nonsense, so nothing comes of it; the kernel says so
    # before it asks for rights.
    "msgget": (-2, 0),
    "msgsnd": (-1, 0, 0, 0),
    "msgrcv": (-1, 0, 0, 0, 0),
    "msgctl": (-1, 0, 0),
    "semget": (-2, 0, 0),
    "semop": (-1, 0, 0),
    "semtimedop": (-1, 0, 0, 0),
    "semctl": (-1, 0, 0, 0),
    "shmget": (-2, 0, 0),
    "shmctl": (-1, 0, 0),
    "mq_open": (0, 0, 0, 0),
    "mq_unlink": (0,),
    "userfaultfd": (1 << 30 | 1,),
    "memfd_secret": (1 << 30,),
    "fanotify_mark": (-1, 0, 0, 0, 0),
    "chroot": (0,),
    "setns": (-1, 0),
    "unshare": (1,),
    "open_by_handle_at": (-1, 0, 0),
}
_BY_ROOT = {
    # Here the kernel asks for root's rights first.
    "acct": (-1,),
    "syslog": (10, 0, 0),
    "fanotify_init": (1 << 30, 0),
    "kexec_load": (0, 0, 0, -1),
    "delete_module": (0, 0),
    "clock_adjtime": (-1, 0),
    "mount": (0, 0, 0, 0, 0),
}


def forbidden_calls(outside: Path, port: int) -> dict[str, Callable[[], object]]:
    """By name, as ``confined_child`` tries them. ``port``: somebody listens there, on loopback."""
    return {
        "never: listen without an address": lambda: listening(socket.AF_INET).close(),
        "never: listen without an address, IPv6": lambda: listening(socket.AF_INET6).close(),
        "never: listen on a local socket without a file": listen_without_file,
        "never: listen to other virtual machines": lambda: tried(
            lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
        ),
        "never: connect by MPTCP": lambda: tried(lambda: connect_by(MPTCP, port)),
        "never: listen by MPTCP": lambda: tried(
            lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
        ),
        "never: a pair of sockets of another kind": lambda: tried(
            lambda: socket.socketpair(socket.AF_VSOCK, socket.SOCK_STREAM)
        ),
        "never: connect by sendto": lambda: tried(lambda: send_to(port)),
        "never: connect by sendmsg": lambda: tried(lambda: send_message(port)),
        "never: connect by sendmmsg": lambda: tried(send_messages),
        "never: put another protocol in the place of TCP": lambda: tried(
            lambda: socket.socket().setsockopt(socket.IPPROTO_TCP, UPPER_PROTOCOL, b"tls")
        ),
        "never: run a program out of memory": lambda: run_from_memory(lambda fd: fd),
        "never: run a program out of memory, by path": lambda: run_from_memory(
            lambda fd: f"/proc/self/fd/{fd}"
        ),
        "never: change the mode of a file of the user": lambda: outside.chmod(0o666),
        "never: change the times of a file of the user": lambda: os.utime(outside, (0, 0)),
        "never: change the owner of a file of the user": lambda: os.chown(outside, -1, -1),
        "never: change an attribute of a file of the user": lambda: tried(
            lambda: os.setxattr(outside, "user.notarium", b"x")
        ),
        "never: change a flag of an open file": lambda: tried(lambda: control(SET_FLAGS)),
        "never: type into the terminal": lambda: tried(lambda: control(termios.TIOCSTI)),
        "never: look into memory that another process shares": lambda: tried(
            lambda: call("shmat", -1, 0, 0)
        ),
        "never: read the keyring that the kernel keeps for the user": lambda: tried(
            lambda: call("keyctl", 0, -4, 0)
        ),
        "never: read memory by another process's means": lambda: tried(
            lambda: call("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)
        ),
        "never: write memory by another process's means": lambda: tried(
            lambda: call("process_vm_writev", os.getpid(), 0, 0, 0, 0, 0)
        ),
        "never: take another process's files": lambda: tried(lambda: call("pidfd_getfd", -1, 0, 0)),
        "never: trace": lambda: in_a_copy(lambda: call("ptrace", 0, 0, 0, 0)),
        "never: hand calls to the kernel in a ring": lambda: tried(
            lambda: call("io_uring_setup", 0, 0)
        ),
        "never: watch a folder of the user": lambda: watch(outside.parent),
        "never: watch a folder by signals": watch_by_signals,
        "never: start a process with a view of its own": lambda: tried(
            lambda: call("clone", BOTH_NEW_AND_SHARED, 0, 0, 0, 0)
        ),
        "never: start a process by a call that no filter can look into": without_clone3,
        **{
            f"never: {name}": lambda name=name, given=given: tried(lambda: call(name, *given))
            for name, given in (_HARMLESS | (_BY_ROOT if _may_do_accounting() else {})).items()
        },
    }


def watch(folder: Path) -> None:
    """Be told of every change in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watching = libc.inotify_init1(0)
    try:
        call("inotify_add_watch", watching, ctypes.c_char_p(bytes(folder)), 0x100)
    finally:
        os.close(watching)


def watch_by_signals() -> None:
    """Be sent a signal at the first change in a folder that may be read; asks for no kind of change."""
    opened = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.fcntl(opened, fcntl.F_NOTIFY, 0)
    finally:
        os.close(opened)


def without_clone3() -> None:
    """The kernel knows the call, and refuses what it is given; the filter says that it knows none."""
    try:
        call("clone3", 0, 0)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise PermissionError(errno.EPERM, "clone3") from None


def _may_do_accounting() -> bool:
    """Whether this is a root with root's rights; without a file the call changes nothing."""
    try:
        call("acct", -1)
    except OSError as error:
        return error.errno != errno.EPERM
    return True


def control(request: int) -> None:
    """Of a pipe, which knows no such request: only the filter says EPERM."""
    reading, writing = os.pipe()
    try:
        fcntl.ioctl(reading, request, bytes(8))
    finally:
        os.close(reading)
        os.close(writing)


def tried(attempt: Callable[[], object]) -> None:
    """Raises ``PermissionError`` if the call itself is forbidden, nothing else."""
    try:
        attempt()
    except OSError as error:
        if error.errno == errno.EPERM:
            raise


def listening(family: int) -> socket.socket:
    """On an address and a port that the system chooses."""
    one = socket.socket(family)
    one.listen()
    return one


def listen_without_file() -> None:
    """On a name that only the kernel knows."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"\0notarium-{os.getpid()}")
        one.listen()


def connect_by(protocol: int, port: int) -> None:
    """A stream of that protocol."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as one:
        one.connect(("127.0.0.1", port))


def send_to(port: int) -> None:
    """Connect with the first bytes."""
    with socket.socket() as one:
        one.sendto(b"out", CONNECT_AND_SEND, ("127.0.0.1", port))


def send_message(port: int) -> None:
    """The same, as a message."""
    with socket.socket() as one:
        one.sendmsg([b"out"], [], CONNECT_AND_SEND, ("127.0.0.1", port))


def send_messages() -> None:
    """The same, none of several; the flag alone is judged."""
    with socket.socket() as one:
        call("sendmmsg", one.fileno(), 0, 0, CONNECT_AND_SEND)


def run_from_memory(named: Callable[[int], int | str]) -> None:
    """A program of our own, in a file without a name, in a copy of this process."""
    file = os.memfd_create("program", 0)
    os.write(file, smallest_program())
    in_a_copy(lambda: os.execve(named(file), ["program"], {}))


def in_a_copy(attempt: Callable[[], object]) -> None:
    """Raises ``OSError`` with the number that the copy ended with, if that is not 0."""
    copy = os.fork()
    if copy == 0:
        try:
            attempt()
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if number:
        raise OSError(number, os.strerror(number))


def smallest_program() -> bytes:
    """ELF, 64 bit: one segment that holds everything, and ends with 0."""
    machine, code = _EXIT_WITH_0[platform.machine()]
    place, heads = 0x400000, 64 + 56
    kind = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    entry = struct.pack("<HHIQQQI", 2, machine, 1, place + heads, 64, 0, 0)
    sizes = struct.pack("<6H", 64, 56, 1, 0, 0, 0)
    size = heads + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, place, place, size, size, 0x10000)
    return kind + entry + sizes + segment + code


def call(name: str, *arguments: int | ctypes.c_char_p) -> None:
    """A system call without a name in Python. Raises ``OSError``."""
    where = seccomp.architecture()
    assert where is not None
    number = {**where.refused, **where.inspected}[name]
    libc = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if libc.syscall(number, *given) < 0:
        raise OSError(ctypes.get_errno(), name)
