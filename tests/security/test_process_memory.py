"""Test that no process of the same user reads our memory: by /proc, as a debugger, or by a dump.

Each attempt is made twice: on the program as it is, and on the same program without the one measure
that forbids it. Where the second is refused too, the system forbids it to everybody and nothing is
shown.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support import peer
from support.long import sample
from support.needs import lacking
from support.plain_user import PlainUser, plain_user
from support.whole import Server, environment, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the measures of Linux"),
    pytest.mark.timeout(120),
]

# Where the kernel lets only parents trace (Yama), this process lets everybody.
_OPEN = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)\n"
_UNPROTECTED = "from mcp_notarium.sandbox import confinement as hardening; type(hardening.SYSTEM).forbid_tracing = lambda _: None\n"
_MAIN = "import sys; from mcp_notarium.__main__ import main; sys.exit(main())\n"
_PEER = Path(peer.__file__).read_text()
_CLOSED = {"EPERM", "EACCES"}


class Target:
    """A running program of ours with a key in its memory."""

    def __init__(self, user: PlainUser, process: subprocess.Popen[bytes], key: str) -> None:
        self.pid = process.pid
        self._user = user
        self._key = key

    def looked_at(self) -> dict[str, int | str]:
        """What a peer finds, by way."""
        # The key is looked for without its prefix: that stands in the code as well.
        done = self._user.run(self._user.python(_PEER, str(self.pid), self._key[4:]))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def dumped(self) -> bytes:
        """What ``gcore`` gets of its memory; nothing if it is refused."""
        self._user.run(["gcore", "-o", "core", str(self.pid)], env=self._user.bare_env)
        core = self._user.folder / f"core.{self.pid}"
        return core.read_bytes() if core.exists() else b""

    def shows(self, secret: bytes) -> bool:
        """Whether this stands in its environment, as far as the tests may look."""
        try:
            return secret in Path(f"/proc/{self.pid}/environ").read_bytes()
        except PermissionError:
            return False

    @property
    def settled(self) -> bool:
        """Whether it has taken its measures: its environment is closed, or there without the key."""
        try:
            environment = Path(f"/proc/{self.pid}/environ").read_bytes()
        except PermissionError:
            return True
        # Empty for a moment while the program is being exchanged.
        return b"PATH=" in environment and self.key not in environment

    @property
    def limits(self) -> str:
        return Path(f"/proc/{self.pid}/limits").read_text()

    @property
    def key(self) -> bytes:
        return self._key[4:].encode()


@pytest.fixture(name="user")
def _user() -> Iterator[PlainUser]:
    with plain_user() as user:
        yield user


@pytest.fixture(name="simulator", scope="module")
def _simulator() -> Iterator[Simulator]:
    simulator = Simulator()
    simulator.put("diary", content="Diary\nToday I saw a lighthouse.\n", tags=[])
    with simulator.running():
        yield simulator


@contextmanager
def server(user: PlainUser, simulator: Simulator, *, protected: bool) -> Iterator[Target]:
    """A server that has opened its cache and answers."""
    key, env, code = _setting(user, simulator, protected=protected)
    with Server(env, command=user.python(code), **user.options) as running:
        assert running.tool("list")["content"]
        yield Target(user, running.process, key)
        assert running.leave() == 0


@contextmanager
def command(user: PlainUser, simulator: Simulator, *, protected: bool) -> Iterator[Target]:
    """A command that has its key and waits for another one."""
    key, env, code = _setting(user, simulator, protected=protected)
    with Server(env, command=user.python(code), **user.options) as first:  # it makes the cache
        first.tool("list")
        assert first.leave() == 0
    with subprocess.Popen(
        user.python(code, "keys", "add", "--new-key-stdin"),
        env=env,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **user.options,
    ) as process:
        try:
            target = Target(user, process, key)
            until(lambda: target.settled)
            yield target
            assert process.poll() is None, "it did not wait for the other key"
        finally:
            process.kill()


def _setting(
    user: PlainUser, simulator: Simulator, *, protected: bool
) -> tuple[str, dict[str, str], str]:
    key = f"raw:{secrets.token_hex(32)}"
    env = environment(simulator, user.folder, DB_ENCRYPTION_KEY=key) | user.env
    return key, env, _OPEN + ("" if protected else _UNPROTECTED) + _MAIN


PROGRAMS = pytest.mark.parametrize("program", sample("programs", [server, command], 1))


@pytest.mark.attack(31)
@PROGRAMS
def test_a_peer_is_refused_every_way_into_the_memory(user, simulator, program):
    with program(user, simulator, protected=False) as open_one:
        control = open_one.looked_at()
    if not all(isinstance(found, int) and found > 0 for found in control.values()):
        lacking(f"this system closes processes by itself: {control}")
    shutil.rmtree(user.folder / "cache", ignore_errors=True)
    with program(user, simulator, protected=True) as target:
        tried = target.looked_at()
    assert tried.keys() == {way.__name__ for way in peer.WAYS}
    assert set(tried.values()) <= _CLOSED


@pytest.mark.attack(31)
@pytest.mark.skipif(shutil.which("gcore") is None, reason="gdb is not installed")
def test_a_peer_gets_no_dump(user, simulator):
    with server(user, simulator, protected=False) as open_one:
        control = open_one.dumped()
        if open_one.key not in control:
            lacking("this system lets nobody dump a process")
    shutil.rmtree(user.folder / "cache")
    with server(user, simulator, protected=True) as target:
        assert target.dumped() == b""


@pytest.mark.attack(31)
@PROGRAMS
def test_secrets_are_gone_from_the_environment_and_no_crash_writes_memory(user, simulator, program):
    with program(user, simulator, protected=True) as target:
        assert not target.shows(target.key)
        assert not target.shows(simulator.password.encode())
        (cores,) = (line for line in target.limits.splitlines() if "core file size" in line)
        assert cores.split()[-3:-1] == ["0", "0"]


def test_the_control_has_lost_nothing_but_the_one_measure(user, simulator):
    with server(user, simulator, protected=False) as target:
        assert target.shows(b"PATH=")
        assert not target.shows(target.key)
        (cores,) = (line for line in target.limits.splitlines() if "core file size" in line)
        assert cores.split()[-3:-1] == ["0", "0"]
