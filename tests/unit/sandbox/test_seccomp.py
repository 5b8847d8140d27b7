"""The filter as the kernel runs it, for both architectures: what is refused, and what passes."""

from __future__ import annotations

import errno
import os
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_notarium.sandbox import seccomp
from mcp_notarium.sandbox.seccomp import AARCH64, ALLOW, DENY, X86_64, Architecture
from support.needs import lacking

BOTH = pytest.mark.parametrize("where", [X86_64, AARCH64], ids=["x86_64", "aarch64"])
LOCAL, INET, INET6, NETLINK, PACKET, VSOCK = 1, 2, 10, 16, 17, 40
STREAM, DATAGRAM, RAW = 1, 2, 3
CLOSE_ON_EXEC = 0o2000000
HARMLESS = 63
EMULATED = """
import socket
from mcp_notarium.sandbox import seccomp
try:
    seccomp.restrict(seccomp.{other})
except OSError as error:
    print(error.strerror)
socket.socket().listen()
print("still listens")
"""
HEADERS = (
    (X86_64, Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")),
    (AARCH64, Path("/usr/include/asm-generic/unistd.h")),
)


def verdict(
    where: Architecture, number: int, *arguments: int, audit: int | None = None, **needed: bool
) -> seccomp.Instruction:
    """What the kernel's filter machine comes to: the step that it returns with."""
    seen = struct.pack(
        "<IIQ6Q", number, where.audit if audit is None else audit, 0, *(*arguments, *[0] * 6)[:6]
    )
    steps = seccomp.build_filter(where, **needed)
    at = value = 0
    while True:
        operation, holds, fails, operand = steps[at]
        at += 1
        match operation:
            case 0x20:
                (value,) = struct.unpack_from("<I", seen, operand)
            case 0x54:
                value &= operand
            case 0x15:
                at += holds if value == operand else fails
            case 0x35:
                at += holds if value >= operand else fails
            case 0x45:
                at += holds if value & operand else fails
            case 0x06:
                return steps[at - 1]
            case _:
                pytest.fail(f"an operation that the kernel does not know: {operation:#x}")


@BOTH
def test_every_call_of_the_list_is_refused_and_others_pass(where):
    assert {verdict(where, number) for number in where.refused.values()} == {DENY}
    others = {*range(600)} - {*where.refused.values(), *where.inspected.values()}
    assert {verdict(where, number) for number in others} == {ALLOW}


@BOTH
def test_a_store_may_set_attributes_of_open_files_alone(where):
    calls = where.refused
    permitted = {"fchmod", "fchown", "fsetxattr", "utimensat"}
    for name, number in calls.items():
        expected = ALLOW if name in permitted else DENY
        assert verdict(where, number, attributes=True) == expected, name
    for path in (1, 1 << 32, 1 << 40, (1 << 64) - 1):
        assert verdict(where, calls["utimensat"], 3, path, attributes=True) == DENY
    assert verdict(where, calls["utimensat"], 3, 0, 1 << 33, attributes=True) == ALLOW


@BOTH
def test_a_store_may_watch_folders_and_nothing_else(where):
    for name, number in where.refused.items():
        expected = ALLOW if name == "inotify_add_watch" else DENY
        assert verdict(where, number, watch=True) == expected, name


@BOTH
def test_calls_of_another_architecture_are_refused(where):
    i386 = 0x40000003
    for audit in {X86_64.audit, AARCH64.audit, i386} - {where.audit}:
        assert verdict(where, HARMLESS, audit=audit) == DENY
    assert verdict(where, HARMLESS | 0x40000000) == DENY  # short addresses
    assert verdict(where, HARMLESS) == ALLOW


@BOTH
@pytest.mark.parametrize("call", ["socket", "socketpair"])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((LOCAL, STREAM, 0), ALLOW),
        ((LOCAL, STREAM | CLOSE_ON_EXEC, 0), ALLOW),
        ((NETLINK, RAW, 0), ALLOW),
        ((INET, STREAM | CLOSE_ON_EXEC, 0), ALLOW),
        ((INET, STREAM, 6), ALLOW),
        ((INET6, DATAGRAM, 17), ALLOW),
        ((INET, STREAM, 262), DENY),
        ((INET6, STREAM, 262), DENY),
        ((INET, STREAM, 132), DENY),
        ((INET, RAW, 6), DENY),
        ((INET6, RAW, 17), DENY),
        ((PACKET, RAW, 0), DENY),
        ((VSOCK, STREAM, 0), DENY),
        # The kernel looks at the lower half only; so does the filter.
        ((1 << 32 | INET, STREAM, 1 << 32 | 262), DENY),
        ((1 << 32 | VSOCK, STREAM, 0), DENY),
    ],
)
def test_sockets_are_local_or_tcp_or_udp(where, call, asked, expected):
    assert verdict(where, where.inspected[call], *asked) == expected


@BOTH
@pytest.mark.parametrize(("call", "place"), [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)])
def test_nothing_is_connected_by_sending(where, call, place):
    number = where.inspected[call]
    without_signal, connect_too = 0x4000, 0x20004000
    assert verdict(where, number, *[0] * place, without_signal) == ALLOW
    assert verdict(where, number, *[0] * place, connect_too) == DENY
    assert verdict(where, number, *[connect_too] * place, 0) == ALLOW  # other arguments


@BOTH
@pytest.mark.parametrize(
    ("level", "option", "expected"), [(6, 31, DENY), (6, 1, ALLOW), (1, 31, ALLOW)]
)
def test_a_tcp_socket_stays_one(where, level, option, expected):
    assert verdict(where, where.inspected["setsockopt"], 3, level, option) == expected


@BOTH
@pytest.mark.parametrize("control", [0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820])
def test_no_key_of_a_terminal_is_pressed_and_no_flag_of_a_file_changed(where, control):
    number = where.inspected["ioctl"]
    assert verdict(where, number, 2, control) == DENY
    assert (
        verdict(where, number, 2, 1 << 32 | control) == DENY
    )  # the kernel looks at the lower half
    assert verdict(where, number, control, 0) == ALLOW  # another argument
    window_size, bytes_waiting = 0x5413, 0x541B
    assert verdict(where, number, 2, window_size) == ALLOW
    assert verdict(where, number, 2, bytes_waiting) == ALLOW


@BOTH
@pytest.mark.parametrize(
    "new", [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)], ids=lambda flag: f"{flag:#x}"
)
def test_no_process_or_thread_starts_in_a_namespace_of_its_own(where, new):
    clone, thread, child = where.inspected["clone"], 0x3D0F00, 0x01200011
    for flags in (thread, child):
        assert verdict(where, clone, flags) == ALLOW
        assert verdict(where, clone, flags | new) == DENY
        assert verdict(where, clone, 1 << 32 | flags | new) == DENY
        assert verdict(where, clone, flags, new) == ALLOW  # another argument


@BOTH
def test_clone3_is_unknown_so_that_libraries_go_back_to_clone(where):
    found = verdict(where, where.inspected["clone3"])
    assert found == (0x06, 0, 0, 0x00050000 | errno.ENOSYS)


@pytest.mark.parametrize(("where", "header"), HEADERS, ids=["x86_64", "aarch64"])
def test_the_numbers_are_the_kernels(where, header):
    if not header.is_file():
        pytest.skip("the kernel's headers are not installed")
    kernels = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    ours = {**where.refused, **where.inspected}
    known = {name: number for name, number in ours.items() if name in kernels}
    assert {*ours} - {*known} <= {
        "fchmodat2",
        "setxattrat",
        "removexattrat",
        "file_setattr",
        "open_tree_attr",
    }
    assert known == {name: int(kernels[name]) for name in known}


def test_both_architectures_refuse_the_same_acts():
    of_paths = {"chmod", "chown", "lchown", "utime", "utimes", "futimesat"}  # older names of others
    of_ports = {"iopl", "ioperm"}  # of the machine's wires, which the other has not
    assert {*X86_64.refused} - of_paths - of_ports == {*AARCH64.refused}
    assert {*X86_64.inspected} == {*AARCH64.inspected}


@pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")
def test_calls_that_an_emulator_makes_are_seen_before_anything_is_given_up():
    """Else every call of the process would be one of another architecture, and refused."""
    if missing := seccomp.explain_missing_support():
        lacking(missing)
    other = "AARCH64" if platform.machine() == "x86_64" else "X86_64"
    # In a process of its own, which would not even come to its end.
    done = subprocess.run(
        [sys.executable, "-c", EMULATED.format(other=other)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the program is run by an emulator\nstill listens\n"


@pytest.mark.parametrize(("machine", "expected"), [("riscv64", None), ("aarch64", AARCH64)])
def test_an_architecture_without_a_list_is_named(monkeypatch, machine, expected):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "uname", lambda: type("Seen", (), {"machine": machine}), raising=False)
    assert seccomp.architecture() is expected
    if expected is None:
        assert seccomp.explain_missing_support() == "the system calls of riscv64 are not known"
        with pytest.raises(OSError, match="riscv64"):
            seccomp.restrict()
