"""Change keys while real servers save notes as fast as they can, and while one is stopped.

No write that was acknowledged is lost, no server has to be started again, and nobody waits for ever.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import pytest

from mcp_notarium.account import opener
from mcp_notarium.config import Config
from mcp_notarium.errors import Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity
from notarium_devtools.simperium import Simulator
from support.long import LONG
from support.simplenote_settings import simplenote
from support.whole import RAW_KEY, Server, account_folder, environment, run, until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.timeout(1800 if LONG else 180),
]
ROTATIONS = 40 if LONG else 3
STOPS = 30 if LONG else 1
PATIENCE = 20.0
"""Seconds within which a command has to answer, whoever stands still."""

HOLDING = """
import sys, time
from pathlib import Path
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import key_lock
with key_lock(AccountFolder(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(name="simulator")
def _simulator():
    with Simulator().running() as simulator:
        yield simulator


class Account:
    """An account's cache, and the key that opens it now."""

    def __init__(self, simulator, folder):
        self.simulator, self.folder = simulator, folder
        self.key = RAW_KEY
        self._count = 0

    @property
    def env(self):
        return environment(self.simulator, self.folder, DB_ENCRYPTION_KEY=self.key)

    def rotate(self):
        """Change the key by the real command; its end, and how long it took."""
        self._count += 1
        key, file = f"raw:{self._count:064x}", self.folder / f"key-{self._count}"
        file.write_text(key)
        began = time.monotonic()
        done = run(self.env, "rotate-key", "--new-key-file", str(file))
        if done.returncode == 0:
            self.key = key
        return done, time.monotonic() - began

    def reencrypt(self):
        began = time.monotonic()
        return run(self.env, "rotate-key", "--reencrypt"), time.monotonic() - began

    def texts(self):
        """What the cache holds, opened with the key of now."""
        config = Config(
            **simplenote(self.simulator.username, SIMPERIUM_API_URL=self.simulator.api_url),
            data_dir=self.folder / "cache",
            db_key=Secret(self.key),
            db_key_origin="DB_ENCRYPTION_KEY",
            keychain=False,
        )
        with closing(opener.open_cache(config)) as opened:
            assert integrity.check(opened.database) == ()
            assert not opened.created
            return dict(opened.database.rows("SELECT id, text FROM notes"))


@pytest.fixture(name="account")
def _account(simulator, tmp_path):
    return Account(simulator, tmp_path)


class Writer:
    """Saves one note after the other by one server; ``saved`` is what was acknowledged."""

    def __init__(self, name, server):
        self.saved: dict[str, str] = {}
        self._name, self._server = name, server
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self):
        try:
            while not self._stopped.is_set():
                text = f"{self._name} wrote number {len(self.saved)}\n"
                self.saved[self._server.tool("save", text=text)["id"]] = text
        except BaseException as failure:  # noqa: BLE001 - raised by stop()
            self._failure = failure

    def more(self, count=5):
        """Wait until so many more are saved."""
        enough = len(self.saved) + count
        until(lambda: self._failure is not None or len(self.saved) >= enough)

    def stop(self):
        self._stopped.set()
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure


@contextmanager
def writers(account, count):
    """Servers at full speed."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(account.env)) for _ in range(count)]
        working = [Writer(f"server {number}", one) for number, one in enumerate(servers)]
        try:
            yield list(zip(servers, working, strict=True))
        finally:
            for server in servers:
                server.signal(signal.SIGCONT)
            for one in working:
                one.stop()
        assert [server.leave() for server in servers] == [0] * count
        saved = {note: text for one in working for note, text in one.saved.items()}
    assert len(saved) == sum(len(one.saved) for one in working) > 10 * count
    at_the_service = account.simulator.notes()
    assert {note: at_the_service[note]["content"] for note in saved} == saved
    there = account.texts()
    assert {note: there.get(note) for note in saved} == saved


@pytest.mark.attack(20)
@pytest.mark.slow("servers write while keys change")
def test_two_servers_at_full_speed_lose_no_write_while_the_key_changes(account):
    with writers(account, 2) as working:
        for _ in range(ROTATIONS):
            for _, writer in working:
                writer.more()
            done, _ = account.rotate()
            assert done.returncode == 0, done.stderr
        done, _ = account.reencrypt()
        assert done.returncode == Verdict.BUSY
        for server, writer in working:
            assert f"process {server.process.pid}" in done.stderr
            writer.more()
    done, _ = account.reencrypt()
    assert done.returncode == 0, done.stderr
    assert len(account.texts()) == len(account.simulator.notes())


@pytest.mark.attack(21)
@pytest.mark.slow("commands wait for a server that stands still")
def test_a_stopped_server_delays_no_change_of_key_and_continues_afterwards(account):
    dice = random.Random(5)
    with writers(account, 1) as [(server, writer)]:
        for _ in range(STOPS):
            writer.more()
            time.sleep(dice.random() * 0.1)
            server.signal(signal.SIGSTOP)
            done, took = account.rotate()
            assert done.returncode == 0, done.stderr
            assert took < PATIENCE
            done, took = account.reencrypt()
            assert (done.returncode, took < PATIENCE) == (Verdict.BUSY, True), done.stderr
            assert f"process {server.process.pid}" in done.stderr
            server.signal(signal.SIGCONT)
        writer.more()


@pytest.mark.slow("commands wait for a lock that is held")
def test_a_server_stopped_in_the_middle_of_a_write_delays_no_change_of_key_either(account):
    with Server(account.env) as server:
        server.tool("save", text="before\n")
        assert server.leave() == 0
    config = Config(
        **simplenote(account.simulator.username, SIMPERIUM_API_URL=account.simulator.api_url),
        data_dir=account.folder / "cache",
        db_key=Secret(RAW_KEY),
        keychain=False,
    )
    with closing(opener.open_cache(config)) as opened, opened.database.transaction():
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'kept')")
        done, took = account.rotate()
        assert done.returncode == 0, done.stderr
        assert took < PATIENCE
    assert account.texts()
    done, _ = account.reencrypt()
    assert done.returncode == 0, done.stderr


@pytest.mark.attack(22)
@pytest.mark.slow("a command waits for a lock that is held")
def test_a_process_stopped_while_it_changes_the_keys_is_named(account):
    with Server(account.env) as server:
        server.tool("save", text="before\n")
        assert server.leave() == 0
    folder = str(account_folder(account.simulator, account.folder))
    with subprocess.Popen([sys.executable, "-c", HOLDING, folder], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"held\n"
            child.send_signal(signal.SIGSTOP)
            done, took = account.rotate()
        finally:
            child.kill()
    assert (done.returncode, took < PATIENCE) == (Verdict.BUSY, True), done.stderr
    assert f"process {child.pid}" in done.stderr
    done, _ = account.rotate()
    assert done.returncode == 0, done.stderr
    assert account.texts()
