"""Test missing required settings: every call says so, and a process without a client ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.errors import LONGEST_REFUSAL
from support.talker import Talker, call, modern
from support.whole import DEADLINE, RAW_KEY, SERVE

USER = {"SIMPLENOTE_USERNAME": "ada@example.org"}
KEY = {"DB_ENCRYPTION_KEY": RAW_KEY}
NO_KEYCHAIN = {
    "NOTARIUM_KEYCHAIN": "on",
    "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",  # its name for: there is none
}
MISSING = {
    "everything": ({}, ("SIMPLENOTE_USERNAME", "DB_ENCRYPTION_KEY")),
    "the user name": (KEY, ("SIMPLENOTE_USERNAME",)),
    "the key": (USER, ("DB_ENCRYPTION_KEY",)),
    "the key, and there is no keychain": (USER | NO_KEYCHAIN, ("DB_ENCRYPTION_KEY",)),
}
TOOLS: dict[str, dict[str, Any]] = {
    "list": {},
    "get": {"id": "x"},
    "save": {"text": "x"},
    "manage": {"action": "get_stats"},
}


def environment(place: Path, given: dict[str, str]) -> dict[str, str]:
    base = {"PATH": os.environ["PATH"], "HOME": str(place), "NOTARIUM_KEYCHAIN": "off"}
    return base | {"NOTARIUM_DATA_DIR": str(place / "data")} | given


def server(place: Path, given: dict[str, str]) -> Talker:
    return Talker(SERVE, env=environment(place, given), cwd=place)


def critical(errors: str) -> str:
    """The one CRITICAL line."""
    (line,) = (line for line in errors.splitlines() if '"level": "critical"' in line)
    return line


def by_handshake(talker: Talker) -> list[dict[str, Any]]:
    assert talker.greet()["result"]["serverInfo"]["name"] == "mcp-notarium"
    listed = talker.ask({"jsonrpc": "2.0", "id": "l", "method": "tools/list"})
    calls = [call(number, name, **TOOLS[name]) for number, name in enumerate(TOOLS)]
    return [listed["result"], *(talker.ask(one)["result"] for one in calls)]


def by_envelope(talker: Talker) -> list[dict[str, Any]]:
    assert "tools" in talker.ask(modern("d", "server/discover"))["result"]["capabilities"]
    listed = talker.ask(modern("l", "tools/list"))
    calls = [
        modern(number, "tools/call", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(TOOLS.items())
    ]
    return [listed["result"], *(talker.ask(one)["result"] for one in calls)]


@pytest.mark.parametrize(
    ("given", "names", "converse"),
    [
        *((*one, by_handshake) for one in MISSING.values()),
        (*MISSING["everything"], by_envelope),
    ],
    ids=[*MISSING, "everything, by envelope"],
)
def test_every_call_says_what_is_missing_and_nothing_is_made(
    tmp_path: Path,
    given: dict[str, str],
    names: tuple[str, ...],
    converse: Callable[[Talker], list[dict[str, Any]]],
) -> None:
    with server(tmp_path, given) as talker:
        listed, *results = converse(talker)
        assert [tool["name"] for tool in listed["tools"]] == list(TOOLS)
        for result in results:
            assert result["isError"]
            error = json.loads(result["content"][0]["text"])
            message = f"{error['message']} {error['resolution_hint']}"
            assert all(name in message for name in names)
            assert len(message) < LONGEST_REFUSAL
            assert not error["retryable"]
        talker.hang_up()
        assert talker.leave()[0] == 1
        assert all(name in critical(talker.errors()) for name in names)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("blank", ["", "  ", '""'])
@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("simplenote", "SIMPLENOTE_USERNAME"),
        ("trilium", "TRILIUM_URL"),
        ("memento", "MEMENTO_DATABASE"),
        ("vault", "VAULT_PATH"),
    ],
)
def test_a_blank_setting_of_a_store_is_not_set(
    tmp_path: Path, store: str, name: str, blank: str
) -> None:
    with server(tmp_path, KEY | {"NOTARIUM_STORE": store, name: blank}) as talker:
        _, *results = by_handshake(talker)
        for result in results:
            error = json.loads(result["content"][0]["text"])
            assert error["subcategory"] == "settings_missing"
            assert error["details"] == {"missing": [name]}
        talker.hang_up()
        assert talker.leave()[0] == 1


def test_nothing_is_read_again(tmp_path: Path) -> None:
    with server(tmp_path, {}) as talker:
        before = by_handshake(talker)
        settings = tmp_path / ".env"
        settings.write_text("".join(f"{n}={v}\n" for n, v in (USER | KEY).items()))
        settings.chmod(0o600)
        talker.send(call("again", "list"), call("and a change", "save", text="x"))
        again = [talker.receive()["result"] for _ in range(2)]
        assert all(result["content"] == before[1]["content"] for result in again)
        talker.hang_up()
        assert talker.leave()[0] == 1
    assert not (tmp_path / "data").exists()


def test_the_rules_that_are_set_hold_all_the_same(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "policy.toml").write_text("[tools]\nsave = false\n")
    (data / "policy.toml").chmod(0o600)
    with server(tmp_path, {}) as talker:
        talker.greet()
        listed = talker.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert "save" not in [tool["name"] for tool in listed["result"]["tools"]]
    assert [path.name for path in data.iterdir()] == ["policy.toml"]


def nobody() -> dict[str, Any]:
    return {"stdin": subprocess.DEVNULL}


def an_empty_pipe() -> dict[str, Any]:
    return {"input": b""}


def a_closed_input() -> dict[str, Any]:
    return {"stdin": None, "preexec_fn": lambda: os.close(0)}


@pytest.mark.parametrize(
    ("given", "names", "stdin"),
    [
        (*one, stdin)
        for one, stdin in zip(
            MISSING.values(), [nobody, an_empty_pipe, a_closed_input, nobody], strict=True
        )
    ],
    ids=MISSING,
)
def test_without_a_possible_client_the_error_is_printed_and_the_process_ends(
    tmp_path: Path,
    given: dict[str, str],
    names: tuple[str, ...],
    stdin: Callable[[], dict[str, Any]],
) -> None:
    done = subprocess.run(
        SERVE, env=environment(tmp_path, given), cwd=tmp_path, capture_output=True,
        timeout=DEADLINE, check=False, **stdin(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, b"")
    assert all(name in critical(done.stderr.decode()) for name in names)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_at_a_terminal_nothing_is_waited_for(tmp_path: Path) -> None:
    from support.terminal import Terminal  # noqa: PLC0415 - POSIX only

    # Whether it waits cannot be told by a clock on a slow machine; so what would wait is not there.
    program = "import sys\nfrom mcp_notarium.protocol import server as run\nrun.LineReader = None\nsys.exit(run.serve(notice='now waits'))"
    with Terminal(environment(tmp_path, {}), program=[sys.executable, "-c", program]) as terminal:
        assert terminal.ends() == 1
        assert "SIMPLENOTE_USERNAME" in terminal.screen
        assert "crashed" not in terminal.screen
        assert "now waits" not in terminal.screen


def test_a_client_that_says_nothing_is_waited_for_ten_seconds(tmp_path: Path) -> None:
    """The real patience once, which takes its time; what it is made of has a test without a clock.

    A slow machine can only make it longer, so it is the lower bound that counts.
    """
    began = time.monotonic()
    with server(tmp_path, {}) as talker:
        assert talker.leave(within=DEADLINE)[0] == 1
        assert time.monotonic() - began >= 10
        assert critical(talker.errors())
        assert not talker.rest()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_ends_the_waiting(tmp_path: Path) -> None:
    with server(tmp_path, {}) as talker:
        assert talker.said("SIMPLENOTE_USERNAME")
        talker.signal(signal.SIGTERM)
        assert talker.leave()[0] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"LOG_LEVEL": "loud"},
        {"NOTARIUM_TOOLS": "foo"},
        {"NOTARIUM_DATA_DIR": __file__},
        {"NOTARIUM_POLICY_FILE": "/nowhere/policy.toml"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_invalid_setting_ends_the_process_with_any_client(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    with server(tmp_path, wrong) as talker:
        assert talker.leave()[0] == 1
        assert next(iter(wrong)) in critical(talker.errors())
        assert not talker.rest()


def set_up(place: Path, *names: str) -> None:
    folder = place / ".config/mcp-notarium"
    folder.mkdir(parents=True)
    rows = (f'[{name}]\nkey = "keychain"\nNOTARIUM_STORE = "local"\n' for name in names)
    (folder / "accounts.toml").write_text("".join(rows))
    (folder / "accounts.toml").chmod(0o600)


ONE = "an account is set up (diary), and the client's configuration does not say"
SEVERAL = "2 accounts are set up (diary, work), and the client's configuration does not say which"
MANY = "5 accounts are set up (diary, work, a and 2 more), and the client's"


@pytest.mark.parametrize(
    ("names", "begins"),
    [
        (("diary",), ONE),
        (("diary", "work"), SEVERAL),
        (("diary", "work", "a", "b", "c"), MANY),
    ],
    ids=["one", "several", "many"],
)
def test_accounts_that_are_set_up_are_named(
    tmp_path: Path, names: tuple[str, ...], begins: str
) -> None:
    set_up(tmp_path, *names)
    with server(tmp_path, {}) as talker:
        _, *results = by_handshake(talker)
        for result in results:
            error = json.loads(result["content"][0]["text"])
            assert error["message"].startswith(begins)
            assert "SIMPLENOTE" not in json.dumps(error)
            for name in names[:3]:
                assert f"`--account {name}`" in error["resolution_hint"]
            assert "setup" not in error["resolution_hint"]
            assert len(error["message"] + error["resolution_hint"]) < LONGEST_REFUSAL
        talker.hang_up()
        assert talker.leave()[0] == 1
        said = critical(talker.errors())
        assert begins in said
        assert "`--account diary`" in said


def test_settings_of_another_account_are_named_beside_those_that_are_set_up(tmp_path: Path) -> None:
    set_up(tmp_path, "diary")
    with server(tmp_path, KEY | {"NOTARIUM_STORE": "vault"}) as talker:
        _, *results = by_handshake(talker)
        for result in results:
            error = json.loads(result["content"][0]["text"])
            assert "VAULT_PATH" in error["message"]
            assert "set VAULT_PATH, or add `--account diary`" in error["resolution_hint"]
        talker.hang_up()
        assert talker.leave()[0] == 1
