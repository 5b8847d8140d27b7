"""Put a marker into every secret and note, run every flow at TRACE, and search every output."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support import cheap_stretching
from support.leaks import assert_clean
from support.whole import Server, account_folder, environment, run, until

USERNAME = "canary.owner@mailbox-of-canary.example"
PASSWORD = "Pw-canary-7f3e 'quoted' \"twice\" ü"
PASSPHRASE = "Kp-canary-91bd passphrase with spaces"
TITLE = "Ti-canary-42aa the title of a note"
BODY = "Bo-canary-53cc a sentence nobody else may read"
TAG = "Ta-canary-64dd"
NEW_TAGS = ["Nt-canary-86ff-divorce-lawyer", "Kündigung-canary-97a1"]
WORDY_ID = "a-note-id-canary-a8b2-made-of-words"
QUERY = "Qu-canary-75ee"
FOUND_WORDS = [
    "canary-7f3e", "canary-91bd", "canary-42aa", "canary-53cc", "canary-64dd", "canary-75ee",
    "canary-86ff", "canary-97a1", "canary-a8b2", "canary.owner", "mailbox-of-canary",
]  # fmt: skip


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator(username=USERNAME, password=PASSWORD, poll_seconds=1.0)
    simulator.load(
        {
            f"{number:032x}" if number else WORDY_ID: {
                "content": f"{TITLE}\n{BODY} {number}\n",
                "tags": [TAG],
                "systemTags": [],
                "creationDate": 1_700_000_000 + number,
                "modificationDate": 1_700_000_000 + number,
                "deleted": False,
                "shareURL": "",
                "publishURL": "",
            }
            for number in range(30)
        }
    )
    with simulator.running():
        yield simulator


@pytest.mark.attack(33)
@pytest.mark.slow("one story at every level of the log")
def test_no_secret_and_no_note_text_is_written_anywhere_at_any_level(
    simulator: Simulator, tmp_path: Path
) -> None:
    log_file = tmp_path / "notarium.log"
    env = environment(
        simulator, tmp_path, DB_ENCRYPTION_KEY=PASSPHRASE, LOG_LEVEL="trace",
        LOG_FILE_PATH=str(log_file), NOTARIUM_DESTRUCTIVE="trust", **cheap_stretching.MARKED,
    )  # fmt: skip
    written = {
        "reading and writing": _read_and_write(simulator, env),
        "export, import, backup": _transfer(env, tmp_path),
        "failing service": _failing_service(simulator, env),
        "wrong key": _wrong_key(env),
        "damaged database": _damaged(simulator, env, tmp_path),
        "command line": _commands(env),
        "log file": log_file.read_bytes(),
    }
    assert len(written["log file"]) > 10_000, "the flows were not traced"
    token = simulator.token
    for flow, output in written.items():
        assert_clean(flow, output, [*FOUND_WORDS, token])
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            assert_clean(path.name, path.read_bytes(), [*FOUND_WORDS, token])


def test_the_search_for_leaks_finds_one() -> None:
    leak = {"deep": base64.b64encode(f"xx{PASSWORD}".encode()).decode()}
    with pytest.raises(AssertionError, match="canary-7f3e"):
        assert_clean("control", json.dumps(leak).encode(), FOUND_WORDS)


def _read_and_write(simulator: Simulator, env: dict[str, str]) -> bytes:
    with Server(env) as server:
        server.loaded(30)
        first = server.tool("list", query=f"{QUERY} OR canary tag:{TAG}")
        assert first["total_items"] == 30
        note = server.tool("get", id=f"{3:032x}")
        patch = [{"operation": "addition", "line_number": 1, "value": f"{BODY} new line"}]
        saved = server.tool(
            "save", id=note["id"], local_version=note["local_version"], text_patch=patch
        )
        wordy = server.tool("get", id=WORDY_ID)
        server.tool(
            "save", id=WORDY_ID, local_version=wordy["local_version"], tags=[TAG, NEW_TAGS[0]]
        )
        until(lambda: len(simulator.bucket("tag").all()) == 1)
        server.tool("save", text=f"{TITLE}\nwith a new tag", tags=NEW_TAGS)
        until(lambda: len(simulator.bucket("tag").all()) == len(NEW_TAGS))
        made = server.tool("save", text=f"{TITLE}\nmade here", tags=[TAG])
        simulator.edit(f"{4:032x}", content=f"{BODY} changed elsewhere")
        until(lambda: "elsewhere" in server.tool("get", id=f"{4:032x}")["text"])
        for way, text in (server.tool, "theirs"), (server.error, "ours"):
            line = {"operation": "modification", "line_number": 1, "value": f"{BODY} {text}"}
            way("save", id=note["id"], local_version=saved["local_version"], text_patch=[line])
        server.error("get", id=f"{BODY}")
        server.error("list", query="before:2024-99-99 " + QUERY)
        server.error("save", text=BODY, text_patch=patch)
        server.error("save", text=BODY, tags=["someone@canary.owner.example"])
        server.send({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": {"name": BODY}})
        server.receive()
        server.raw(f'{{"broken {BODY}\n'.encode())
        server.receive()
        trashed = server.tool(
            "manage", action="trash", id=made["id"], local_version=made["local_version"]
        )
        asked = server.error(
            "manage", action="delete_permanently", id=made["id"],
            local_version=trashed["new_local_version"],
        )  # fmt: skip
        assert TITLE in asked["details"]["asks"]
        server.tool(
            "manage", action="delete_permanently", id=made["id"],
            local_version=trashed["new_local_version"], confirm=True,
        )  # fmt: skip
        server.tool("manage", action="get_stats")["stats"]
        server.tool("manage", action="reset_cache", confirm=True)
        assert saved["server_version"] == 2
        assert server.leave() == 0
        return server.errors().encode()


def _transfer(env: dict[str, str], folder: Path) -> bytes:
    """Titles of notes that lose something are shown, so nothing here loses anything."""
    local = env | {"NOTARIUM_STORE": "local"}
    names = ("out.json", "notes", "cut.json", "no-text.json", "all.backup", "cut.backup")
    notes, markdown, cut, no_text, backup, cut_backup = (str(folder / name) for name in names)
    output = b""
    for account, arguments, code in (
        (env, ["export", notes], 0),
        (local, ["import", notes, "--yes"], 0),
        (local, ["export", markdown], 0),
        (local, ["import", markdown, "--yes"], 0),
        (local, ["import", cut], 1),
        (local, ["import", no_text], 1),
        (env, ["backup", backup], 0),
        (env, ["restore", "--backup", cut_backup, "--yes"], 1),
    ):
        done = run(account, *arguments)
        assert done.returncode == code, done.stderr
        output += done.stdout.encode() + done.stderr.encode()
        if Path(arguments[-1]) == folder / "out.json":
            text = Path(notes).read_text()
            Path(cut).write_text(text[: len(text) // 2])
            Path(no_text).write_text(text.replace('"text":', '"other":'))
        if arguments[0] == "backup":
            Path(cut_backup).write_bytes(Path(backup).read_bytes()[:-500])
    return output


def _failing_service(simulator: Simulator, env: dict[str, str]) -> bytes:
    with Server(env | {"API_TIMEOUT_SECONDS": "5"}) as server:
        server.loaded(31)
        simulator.faults.status(400, method="POST", path="*/i/*", times=1, body=BODY.encode())
        server.error("save", text=f"{BODY} refused")
        simulator.faults.bad_gateway(method="POST", path="*/i/*", times=1)
        simulator.faults.truncate(method="POST", path="*/i/*", times=1)
        server.result("save", text=f"{BODY} through trouble")
        simulator.stop_listening()
        server.error("save", text=f"{BODY} unreachable")
        simulator.resume()
        simulator.change_password("another password")
        server.result("save", text=f"{BODY} login refused")
        server.leave()
        simulator.change_password(PASSWORD)
        return server.errors().encode()


def _wrong_key(env: dict[str, str]) -> bytes:
    with Server(env | {"DB_ENCRYPTION_KEY": PASSPHRASE + " canary-91bd wrong"}) as server:
        assert server.error("list")["details"]["verdict"] == "wrong_key"
        assert server.leave() == 1
        return server.errors().encode()


def _damaged(simulator: Simulator, env: dict[str, str], folder: Path) -> bytes:
    path = next(account_folder(simulator, folder).glob("*.sqlite.encrypted"))
    whole = path.read_bytes()
    path.write_bytes(bytes(4096) + whole[4096:])  # without its first page nothing can be repaired
    with Server(env) as server:
        server.error("list")
        server.leave()
        output = server.errors().encode()
    path.write_bytes(whole)
    return output


def _commands(env: dict[str, str]) -> bytes:
    output = b""
    for arguments in (
        ["status", "--json"], ["doctor", "--deep"], ["--print-config-vars"], ["--help"],
        ["login", "--code-stdin"], ["reset-cache"], ["rotate-key", "--new-key-stdin"],
    ):  # fmt: skip
        done = run(env, *arguments, stdin="canary-91bd")
        output += done.stdout.encode() + done.stderr.encode()
    for arguments, typed in (
        (["rotate-key", "--new-key-stdin"], PASSPHRASE + " newer"),
        (["reset-cache", "--yes"], ""),
        (["logout"], ""),
        (["audit", "verify", "--json"], ""),
        (["audit", "tail", "-n", "500", "--json"], ""),
        (["audit", "export"], ""),
    ):
        key = PASSPHRASE + (" newer" if arguments[0] != "rotate-key" else "")
        done = run(env | {"DB_ENCRYPTION_KEY": key}, *arguments, stdin=typed)
        assert done.returncode == 0, done.stderr
        output += done.stdout.encode() + done.stderr.encode()
    acts = {json.loads(line).get("act") for line in done.stdout.splitlines()}
    assert {"tool.save", "tool.list", "tool.get", "tool.unknown", "keys.changed"} <= acts
    # The account's own folder name, and a person's own address in their own settings table, are
    # for that person's terminal; everything else is not.
    return output.replace(USERNAME.encode(), b"")
