"""Cause every verdict in the real program, and check that both commands report it and the hint helps."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.errors import LONGEST_REFUSAL, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.long import sample
from support.needs import lacking
from support.small_disk import SmallDisk
from support.whole import (
    DEADLINE,
    RAW_KEY,
    Server,
    account_folder,
    environment,
    folder_name,
    run,
    until,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and locks of POSIX are played")
PAGE = 4096
OTHER_KEY = "raw:" + "77" * 32


@pytest.fixture(name="simulator", scope="module")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(30, seed=3))
    with simulator.running():
        yield simulator


@pytest.fixture(name="filled", scope="module")
def _filled(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a complete cache, and a copy of its first key file; tests work on copies."""
    place = tmp_path_factory.mktemp("filled")
    env = environment(simulator, place)
    with Server(env) as server:
        server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
        assert server.leave() == 0
    assert run(env, "backup", str(place / "copy")).returncode == 0
    return place


@dataclass
class Room:
    """A cache to spoil: the account's folder and what the client's configuration sets."""

    place: Path
    folder: Path
    env: dict[str, str]
    undo: list[Callable[[], None]] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return next(self.folder.glob("*.sqlite.encrypted"))

    @property
    def key_files(self) -> list[Path]:
        return sorted(self.folder.glob("notarium_keys.json*"))

    def mcp_notarium(self, *command: str) -> None:
        done = run(self.env, *command)
        assert done.returncode == 0, done.stdout + done.stderr

    def hint(self, code: int) -> str:
        """What ``status`` and ``doctor`` both say, with the exit code of the verdict."""
        status = run(self.env, "status", "--json")
        assert status.returncode == code, status.stdout + status.stderr
        facts = json.loads(status.stdout)
        assert facts["verdict"] == Verdict(code).name.lower()
        doctor = run(self.env, "doctor", "--offline", "--json")
        assert doctor.returncode == code, doctor.stdout + doctor.stderr
        found = json.loads(doctor.stdout)["findings"]
        (cache,) = (one for one in found if one["name"] == "cache")
        assert (cache["state"], cache["hint"]) == ("bad", facts["resolution_hint"])
        assert "mcp-notarium doctor`" not in cache["hint"] or code in {15, 21}
        return cache["hint"]


@pytest.fixture(name="room")
def _room(simulator: Simulator, filled: Path, tmp_path: Path) -> Iterator[Room]:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    room = Room(tmp_path, account_folder(simulator, tmp_path), environment(simulator, tmp_path))
    yield room
    for undo in room.undo:
        undo()


def flip(path: Path, at: int) -> None:
    body = bytearray(path.read_bytes())
    body[at] ^= 1
    path.write_bytes(body)


@contextmanager
def opened(room: Room) -> Iterator[database_opener.Database]:
    found = key_file_codec.parse(room.key_files[0].read_bytes())
    data_key = key_slots.unlock(found, Secret(RAW_KEY))
    path = room.database
    with closing(
        database_opener.connect(path, data_key.database_key(found.database_salt))
    ) as inside:
        yield inside
        inside.checkpoint()


def key_taken_away(room: Room) -> None:
    del room.env["DB_ENCRYPTION_KEY"]


def key_given(room: Room) -> None:
    room.env["DB_ENCRYPTION_KEY"] = RAW_KEY


def other_key(room: Room) -> None:
    room.env["DB_ENCRYPTION_KEY"] = OTHER_KEY


def half_a_key(room: Room) -> None:
    room.env["DB_ENCRYPTION_KEY"] = "raw:7"


def new_key_and_reset(room: Room) -> None:
    room.env["DB_ENCRYPTION_KEY"] = run(room.env, "generate-key").stdout.strip()
    reset(room)


def reset(room: Room) -> None:
    room.mcp_notarium("reset-cache", "--yes")


def restore(room: Room) -> None:
    room.mcp_notarium("restore", "--key-file", str(room.place / "copy"))


def repair(room: Room) -> None:
    room.mcp_notarium("repair")


def key_files_cut(room: Room) -> None:
    for path in room.key_files:
        path.write_bytes(path.read_bytes()[:200])


def key_files_gone(room: Room) -> None:
    for path in room.key_files:
        path.unlink()


def last_page_damaged(room: Room) -> None:
    flip(room.database, -2000)


def first_page_damaged(room: Room) -> None:
    flip(room.database, 2000)


def cut_between_pages(room: Room) -> None:
    size = room.database.stat().st_size
    os.truncate(room.database, size * 9 // 10 // PAGE * PAGE)


def cut_inside_a_page(room: Room) -> None:
    os.truncate(room.database, room.database.stat().st_size - 1000)


def cut_beside_a_log(room: Room) -> None:
    with Server(room.env) as server:
        server.tool("save", text="# written last")
        server.process.kill()
        server.process.wait(DEADLINE)
    assert room.database.with_name(room.database.name + "-wal").stat().st_size
    cut_between_pages(room)


def garbage(room: Room) -> None:
    room.database.write_bytes(bytes(range(256)) * 64)


def database_gone(room: Room) -> None:
    room.database.unlink()


def database_emptied(room: Room) -> None:
    room.database.write_bytes(b"")


def somebody_elses(room: Room) -> None:
    theirs = room.folder
    room.env["SIMPLENOTE_USERNAME"] = "someone.else@example.com"
    room.folder = theirs.with_name(folder_name(room.env))
    theirs.rename(room.folder)


def moved_out(room: Room) -> None:
    folder = Path(json.loads(run(room.env, "status", "--json").stdout)["folder"])
    folder.rename(room.place / "moved out")


def schema_newer(room: Room) -> None:
    with opened(room) as inside, inside.schema_change():
        inside.run("PRAGMA user_version = 99")


LATER_RELEASE = """
from mcp_notarium.storage import schema_version
schema_version.SCHEMA_VERSION += 1
"""
"""A release whose schema is one version further."""


def schema_older(room: Room) -> None:
    later = room.place / "later"
    later.mkdir()
    (later / "sitecustomize.py").write_text(LATER_RELEASE)
    room.env["PYTHONPATH"] = str(later)


def held(room: Room) -> None:
    lock = (room.folder / "server.lock").open("rb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    room.undo.append(lock.close)


def let_go(room: Room) -> None:
    room.undo.pop()()


def older_key_file(room: Room) -> None:
    older = room.key_files[0].read_bytes()
    room.mcp_notarium("keys", "add", "--generate")
    for path in room.key_files:
        path.write_bytes(older)


def open_to_all(room: Room) -> None:
    room.folder.chmod(0o777)


def driver_missing(room: Room) -> None:
    stub = room.place / "stub" / "sqlcipher3"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError")
    room.env["PYTHONPATH"] = str(stub.parent)


def reinstalled(room: Room) -> None:
    del room.env["PYTHONPATH"]


def plain_cache(room: Room) -> None:
    shutil.rmtree(room.folder)
    with Server(room.env | {"DB_ENCRYPTION": "off"}) as server:
        server.tool("list")
        assert server.leave() == 0


def purge(room: Room) -> None:
    room.mcp_notarium("purge", "--yes")


def plain_in_its_place(room: Room) -> None:
    path = room.database
    path.unlink()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("CREATE TABLE notes(text)")
    path.chmod(0o600)


def switched_off(room: Room) -> None:
    room.env["DB_ENCRYPTION"] = "off"


def switched_on(room: Room) -> None:
    del room.env["DB_ENCRYPTION"]


def keychain_refused(room: Room) -> None:
    key_taken_away(room)
    room.env |= {
        "NOTARIUM_KEYCHAIN": "on",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }


RESET = "`mcp-notarium reset-cache`"
CASES = [
    (10, key_taken_away, "Give the key this cache was made with", key_given),
    (10, key_taken_away, RESET, new_key_and_reset),
    (10, half_a_key, "Give the key this cache was made with", key_given),
    (11, other_key, "Give the key this cache was made with", key_given),
    (11, other_key, RESET, reset),
    (12, key_files_cut, "`mcp-notarium restore --key-file PATH`", restore),
    (12, key_files_gone, "`mcp-notarium restore --key-file PATH`", restore),
    (12, key_files_gone, RESET, reset),
    (13, last_page_damaged, "`mcp-notarium repair`", repair),
    (13, last_page_damaged, RESET, reset),
    (13, cut_between_pages, "`mcp-notarium repair`", repair),
    (13, cut_inside_a_page, "`mcp-notarium repair`", repair),
    (13, cut_beside_a_log, "`mcp-notarium repair`", repair),
    (13, first_page_damaged, RESET, reset),
    (13, garbage, RESET, reset),
    (14, database_gone, RESET, reset),
    (14, database_emptied, RESET, reset),
    (15, somebody_elses, "move it out of the data folder", moved_out),
    (16, schema_newer, RESET, reset),
    (17, schema_older, "Go back to the release", reinstalled),
    (17, schema_older, RESET, reset),
    (18, held, "and `mcp-notarium watch` if it runs", let_go),
    (19, older_key_file, RESET, reset),
    (20, open_to_all, "Run `chmod 700 ", None),
    (21, driver_missing, "Reinstall", reinstalled),
    (22, plain_cache, "`mcp-notarium purge`", purge),
    (22, plain_in_its_place, RESET, reset),
    (22, switched_off, "Remove DB_ENCRYPTION=off", switched_on),
    (22, switched_off, RESET, reset),
    (23, keychain_refused, "give the key in DB_ENCRYPTION_KEY", key_given),
]
DRAWN = sample("hints", CASES, 12)


@pytest.mark.parametrize(
    ("code", "cause", "named", "way_out"),
    DRAWN,
    ids=[
        f"{code}-{cause.__name__}-{way.__name__ if way else 'shell'}"
        for code, cause, _, way in DRAWN
    ],
)
@pytest.mark.slow("six commands each; one waits for a lock")
def test_following_the_hint_solves_the_verdict(
    room: Room,
    code: int,
    cause: Callable[[Room], None],
    named: str,
    way_out: Callable[[Room], None] | None,
) -> None:
    cause(room)
    hint = room.hint(code)
    assert all(other in hint for _, by, other, _ in CASES if by == cause), hint
    if way_out is None:
        command = hint.split("`")[1].replace("~", str(room.place))
        subprocess.run(command, shell=True, check=True)
    else:
        way_out(room)
    done = run(room.env, "doctor", "--offline")
    assert done.returncode == 0, done.stdout + done.stderr


SAYS_WHERE_IT_GOES = re.compile(r"reset-cache|rebuild|aside|delet|remov|eras|purge|quarantine|`mv ")


FIRST = {code: cause for code, cause, *_ in reversed(CASES)}


@pytest.mark.parametrize(("code", "cause"), sample("one way out", list(FIRST.items()), 6))
@pytest.mark.slow("commands wait for a lock that is held")
def test_an_agent_gets_one_way_out_that_destroys_nothing(
    room: Room, code: int, cause: Callable[[Room], None]
) -> None:
    cause(room)
    if cause is open_to_all:  # refused before the handshake: no agent is there
        assert run(room.env).returncode == 1
    elif cause is not last_page_damaged:  # a server repairs that
        with Server(room.env) as server:
            error = server.error("list")
            assert error["details"] == {"verdict": Verdict(code).name.lower(), "exit_code": code}
            assert len(error["message"]) + len(error["resolution_hint"]) < LONGEST_REFUSAL
            assert error["resolution_hint"].startswith(("Ask the user to ", "Try again in"))
            assert not SAYS_WHERE_IT_GOES.search(error["resolution_hint"])
            assert server.leave() == int(code != Verdict.BUSY)


def test_both_commands_say_why_a_rebuild_was_refused(room: Room) -> None:
    last_page_damaged(room)
    quarantine.create_folder(
        AccountFolder(room.folder), time.time()
    )  # as a rebuild of today leaves one
    room.env["DB_ON_UNREADABLE"] = "rebuild"
    assert "was not followed" in room.hint(Verdict.DATABASE_DAMAGED)


def test_every_verdict_is_in_the_table() -> None:
    assert {code for code, *_ in CASES} == set(Verdict)


@pytest.fixture(name="on_a_disk")
def _on_a_disk(room: Room) -> SmallDisk:
    """The room's cache on a disk of its own."""
    place = room.place / "cache"
    place.rename(room.place / "before")
    disk = SmallDisk(place, "8m")
    room.undo.append(disk.unmount)
    if not disk.mounted:
        lacking("only root may mount a disk")
    shutil.copytree(room.place / "before", place, dirs_exist_ok=True)
    place.chmod(0o700)
    return disk


def test_a_disk_that_can_only_be_read_is_a_finding(room: Room, on_a_disk: SmallDisk) -> None:
    command = ["mount", "-o", "remount,ro", on_a_disk.folder]
    subprocess.run(command, check=True)
    hint = room.hint(Verdict.UNSAFE_PATH)
    assert "can only be read" in hint
    assert "Set NOTARIUM_DATA_DIR" in hint
    room.env["NOTARIUM_DATA_DIR"] = str(room.place / "elsewhere")
    assert run(room.env, "status").returncode == 0


def test_a_full_disk_is_a_finding(room: Room, on_a_disk: SmallDisk) -> None:
    filler = on_a_disk.folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(PAGE)):
            pass
    status = run(room.env, "status", "--json")
    assert status.returncode == 1, status.stderr
    assert json.loads(status.stdout)["verdict"] == "disk_full"
    assert "NOT USABLE" in run(room.env, "status").stdout
    done = run(room.env, "doctor", "--offline", "--json")
    assert done.returncode == 1, done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["cache"]["state"] == "bad"
    assert "Free some disk space" in found["cache"]["hint"]
    assert {"configuration", "libraries", "keys", "permissions", "quarantine"} <= set(found)
    filler.unlink()
    assert run(room.env, "status").returncode == 0


def test_doctor_tells_the_details_of_a_locked_cache(room: Room) -> None:
    other_key(room)
    keys_lock = (room.folder / "keys.lock").open("rb")
    room.undo.append(keys_lock.close)
    fcntl.flock(keys_lock, fcntl.LOCK_EX)
    done = run(room.env, "doctor", "--offline", "--json")
    assert done.returncode == Verdict.WRONG_KEY
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["keys"]["seen"].startswith("a random key; last changed")
    assert found["databases"]["state"] == "ok"
    assert found["quarantine"]["seen"] == "empty"
    if sys.platform == "linux":
        assert f"process {os.getpid()}" in found["changed by"]["seen"]


def test_beside_a_server_pages_are_looked_at_if_asked_for(room: Room) -> None:
    with Server(room.env) as server:
        # It answers before it leads, and a look may be taken where nobody does.
        until(lambda: server.tool("manage", action="get_stats")["stats"]["sync_leader"])
        for options, state, said in (((), "-", "add --deep"), (("--deep",), "ok", "authentic")):
            done = run(room.env, "doctor", "--offline", "--json", *options)
            assert done.returncode == 0, done.stdout
            found = json.loads(done.stdout)["findings"]
            (pages,) = (one for one in found if one["name"] == "pages")
            assert pages["state"] == state
            assert said in pages["seen"]
        assert server.leave() == 0


def test_only_a_deep_look_compares_the_search_index_with_the_notes(room: Room) -> None:
    with opened(room) as inside:
        inside.run(
            "INSERT INTO notes_fts(notes_fts, rowid, text, tag_words, supplement) "
            "SELECT 'delete', pk, text, tag_words, supplement FROM notes LIMIT 1"
        )
    shallow = run(room.env, "status", "--json")
    assert shallow.returncode == 0
    assert json.loads(shallow.stdout)["checked"] == "every page"
    done = run(room.env, "status", "--deep", "--json")
    assert done.returncode == Verdict.DATABASE_DAMAGED, done.stdout + done.stderr
    assert "`mcp-notarium repair`" in json.loads(done.stdout)["resolution_hint"]
    room.mcp_notarium("repair")
    room.mcp_notarium("status", "--deep")
