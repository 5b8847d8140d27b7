"""Test what only the system itself can show: each test runs on the system it is started on, over its real page of the port.

Elsewhere Windows and macOS are simulated. ``scripts/try_system.py`` runs these tests on a person's machine and measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import keyring
import pytest
from keyring.errors import KeyringError

from mcp_notarium.system import PLATFORM, SYSTEM
from support.long import LONG

pytestmark = pytest.mark.this_system
whole = pytest.mark.skipif(
    PLATFORM == "linux" and not (LONG or "NOTARIUM_TRY" in os.environ),
    reason="other tests say the same of Linux; ./scripts/test --all runs this one as well",
)
LONGEST = 30.0
KEPT = ("PATH", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "TMPDIR", "LANG", "COMSPEC", "PATHEXT")
PROGRAM = [sys.executable, "-m", "mcp_notarium"]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
HOLD = """
import os, sys, time
from pathlib import Path
from mcp_notarium.system import SYSTEM
SYSTEM.lock(SYSTEM.open_private(Path(sys.argv[1]), os.O_RDWR | os.O_CREAT), exclusive=True)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(name="env")
def _env(tmp_path: Path) -> dict[str, str]:
    """A home of its own, on every system."""
    home = tmp_path / "home"
    roaming, local = home / "AppData" / "Roaming", home / "AppData" / "Local"
    for one in (roaming, local, home / ".config"):
        one.mkdir(parents=True)
    return {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(roaming), "LOCALAPPDATA": str(local),
        "NOTARIUM_KEYCHAIN": "off",
    }  # fmt: skip


class Server:
    """The server, as a client starts it: words in lines, ended by the end of its input."""

    def __init__(self, env: dict[str, str], *words: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*PROGRAM, *words], env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        self._number = 0
        self._limit = threading.Timer(LONGEST * 2, self.process.kill)
        self._limit.start()

    def __enter__(self) -> Self:
        self.ask("initialize", HELLO)
        self._send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        self._input.close()
        code = self.process.wait(LONGEST)
        self._output.close()
        self._limit.cancel()
        assert code == 0

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), json.loads(result["content"][0]["text"])["code"]
        return result["structuredContent"]

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while line := self._output.readline():
            if (answer := json.loads(line)).get("id") == self._number:
                return answer["result"]
        raise AssertionError("the server ended")

    def _send(self, message: dict[str, Any]) -> None:
        self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._input.flush()


@pytest.fixture(name="measure")
def _measure(record_testsuite_property: Any) -> Any:
    """Note a figure in milliseconds for the report."""

    def note(what: str, seconds: float) -> None:
        record_testsuite_property(what, f"{seconds * 1000:.0f} ms")

    return note


def test_what_is_private_is_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    SYSTEM.make_private_folder(folder)
    with os.fdopen(
        SYSTEM.open_private(folder / "key", os.O_RDWR | os.O_CREAT | os.O_EXCL), "wb"
    ) as file:
        file.write(b"key")
        file.flush()
        SYSTEM.flush(file.fileno())
        own = SYSTEM.access(file.fileno(), os.fstat(file.fileno()))
    around = SYSTEM.access(folder, folder.lstat())
    SYSTEM.flush_folder(folder)
    for found in (own, around):
        assert (found.owner, found.is_private) == ("user", True)
        assert [found.others_read, found.others_change, found.others_replace] == [False] * 3


def test_a_lock_of_another_process_is_met_and_ends_with_it(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == b"held"
        own = SYSTEM.open_private(place, os.O_RDWR)
        try:
            with pytest.raises(BlockingIOError):
                SYSTEM.lock(own, exclusive=True)
            other.kill()
            other.wait(LONGEST)
            end = time.monotonic() + LONGEST
            while time.monotonic() < end:
                with suppress(BlockingIOError):
                    SYSTEM.lock(own, exclusive=True)
                    break
                time.sleep(0.01)
            else:
                pytest.fail("the lock outlived its process")
        finally:
            os.close(own)


def test_a_file_that_is_open_elsewhere_is_replaced_or_the_refusal_leaves_both(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    with old.open("rb") as reader:
        try:
            SYSTEM.move(new, old)
        except PermissionError:
            assert (old.read_bytes(), new.read_bytes()) == (b"old", b"new")
        else:
            assert old.read_bytes() == b"new"
        assert reader.read() == b"old"


@pytest.mark.skipif(PLATFORM == "linux", reason="test_real_keychain.py starts one")
def test_the_systems_keychain_keeps_a_secret() -> None:
    name = f"mcp-notarium-test-{uuid.uuid4()}"
    keyring.set_password(name, "test", "kept")
    try:
        assert keyring.get_password(name, "test") == "kept"
    finally:
        keyring.delete_password(name, "test")
    with suppress(KeyringError):
        assert keyring.get_password(name, "test") is None


@whole
@pytest.mark.slow("it starts the program several times")
def test_a_vault_is_served_and_the_edit_of_another_program_is_found(
    tmp_path: Path, env: dict[str, str], measure: Any
) -> None:
    vault = tmp_path / "vault"
    (vault / "Work").mkdir(parents=True)
    for number in range(200):
        (vault / "Work" / f"Note {number}.md").write_text(f"text {number}\n", encoding="utf-8")
    settings = {
        "NOTARIUM_STORE": "vault",
        "VAULT_PATH": str(vault),
        "NOTARIUM_DATA_DIR": str(tmp_path / "data"),
    }
    key = {"DB_ENCRYPTION_KEY": "raw:" + "5a" * 32}
    began = time.monotonic()
    with Server(env | settings | key) as server:
        measure("vault: first answer", time.monotonic() - began)
        end = time.monotonic() + LONGEST
        while server.tool("list", limit=1)["total_items"] < 200 and time.monotonic() < end:
            time.sleep(0.05)
        measure("vault: 200 notes listed", time.monotonic() - began)
        saved = _timed(lambda number: server.tool("save", text=f"saved {number}\n"))
        measure("vault: a save, median", saved)
        measure(
            "vault: a search, median", _timed(lambda _number: server.tool("list", query="saved"))
        )
        seconds = []
        for number in range(5):
            time.sleep(0.3)
            other = vault / "Work" / f"Note {number}.md"
            other.write_text(f"edited outside {number}\n", encoding="utf-8")
            began = time.monotonic()
            while not server.tool("list", query=f'"edited outside {number}"')["total_items"]:
                assert time.monotonic() - began < LONGEST, "the edit was never found"
                time.sleep(0.005)
            seconds.append(time.monotonic() - began)
        measure("vault: an edit outside is found, median", sorted(seconds)[2])
        measure("vault: an edit outside is found, longest", max(seconds))
    assert (vault / "saved 0.md").read_text(encoding="utf-8") == "saved 0\n"


@whole
@pytest.mark.slow("it starts the program several times")
def test_one_command_sets_up_a_notebook_that_is_there_after_a_restart(
    env: dict[str, str], measure: Any
) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [*PROGRAM, "setup", "--yes", "--client", "none"],
        env=env,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    measure("setup of a notebook", time.monotonic() - began)
    with Server(env, "--account", "local") as server:
        server.tool("save", text="My first note\n")
        measure(
            "notebook: a save, median",
            _timed(lambda number: server.tool("save", text=f"note {number}\n")),
        )
    with Server(env, "--account", "local") as server:
        assert server.tool("list", query='"My first note"')["total_items"] == 1
    doctor = subprocess.run(
        [*PROGRAM, "doctor"], env=env, capture_output=True, check=False, timeout=60
    )
    assert doctor.returncode == 0


def _timed(act: Any) -> float:
    seconds = []
    for number in range(9):
        began = time.monotonic()
        act(number)
        seconds.append(time.monotonic() - began)
    return sorted(seconds)[4]
