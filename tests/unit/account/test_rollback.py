"""What an opened database lacks: logs that lost their end, main files of another time, and no alarm without a loss."""

import asyncio
import json
import os
import shutil
from contextlib import closing

import pytest

from mcp_notarium.account import audit_anchor, opener
from mcp_notarium.account.audit_anchor import Anchored, change_private
from mcp_notarium.app import open_app
from mcp_notarium.audit.chain import AuditEntry, Head
from mcp_notarium.errors import LockedError, RollbackSeen, Verdict
from mcp_notarium.storage import database as storage
from support import put_back_child
from support.account import folder_of
from support.local_child import configured
from support.long import LONG, dice
from support.stories import KILLED, die, forked

NAMES = [f"n{number}" for number in range(12)]


def saved(home, names, end="stop"):
    process = forked(put_back_child.saved, home, names, end)
    process.join(60)
    assert process.exitcode == (0 if end == "stop" else KILLED)


@pytest.fixture(name="home")
def _home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def database_of(home):
    folder = folder_of(configured(home))
    return folder.database(*folder.generations())


def log_of(home):
    return database_of(home).with_name(f"{database_of(home).name}-wal")


def look(home):
    """Whether a change is refused, and the notes that are there (None: nothing is read)."""

    async def opened():
        async with open_app(configured(home), syncing=False) as app:
            rows = app.cache.database.rows("SELECT text FROM notebook_notes")
            try:
                app.audit.record_begin(AuditEntry(at=1, act="tool.save"))
            except RollbackSeen:
                return True, {text.split()[0] for (text,) in rows}
            return False, {text.split()[0] for (text,) in rows}

    try:
        return asyncio.run(opened())
    except LockedError as error:
        if error.verdict is not Verdict.ROLLBACK_SEEN:
            raise
        return True, None


def told(home):
    """What a start says of the database that it refuses."""
    with pytest.raises(LockedError) as refused:
        asyncio.run(_open(home))
    return refused.value.message


async def _open(home):
    async with open_app(configured(home), syncing=False):
        pass


def last_number(home):
    with closing(opener.open_cache(configured(home), read_only=True)) as opened:
        return opened.database.number("SELECT max(number) FROM audit")


def anchor_of(home):
    return json.loads(folder_of(configured(home)).audit_anchor.read_bytes())


def spoil(log, at, how):
    content = bytearray(log.read_bytes())
    if how == "flip":
        content[at] ^= 0x40
    else:
        del content[at:]
    log.write_bytes(content)


@pytest.mark.slow("opens an account for each place in a log")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_a_log_that_lost_its_end_is_never_silent_and_never_accused_for_nothing(home, tmp_path, how):
    saved(home, [])
    saved(home, NAMES, "kill")
    size, chance, lost = log_of(home).stat().st_size, dice(f"log {how}"), 0
    for number in range(600 if LONG else 40):
        at = chance.randrange(size)
        copy = tmp_path / f"copy{number}"
        shutil.copytree(home, copy)
        spoil(log_of(copy), at, how)
        refused, there = look(copy)
        missing = set(NAMES) - (there or set())
        assert refused == bool(missing), (how, at, size, sorted(missing))
        lost += refused
        if refused:
            assert look(copy)[0], "the second start is silent"
        shutil.rmtree(copy)
    assert lost > 10


@pytest.mark.attack(16)
@pytest.mark.slow("kills servers")
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("between", [1, 4, 30])
def test_an_older_file_beside_its_newer_log_is_told_and_not_opened(home, tmp_path, between, end):
    saved(home, ["a0", "a1"])
    shutil.copyfile(database_of(home), tmp_path / "older")
    upto = last_number(home)
    saved(home, [f"b{number}" for number in range(between)])
    saved(home, ["c0"], "kill")
    shutil.copyfile(tmp_path / "older", database_of(home))
    refused, there = look(home)
    assert (refused, there) == (True, None)
    assert look(home) == (True, None), "the second start is silent"
    missing = anchor_of(home)["count"] - upto
    for _ in range(2):
        assert f"{missing} audit records after number {upto} (" in told(home)


@pytest.mark.attack(16)
@pytest.mark.slow("kills servers")
def test_an_older_state_on_record_stays_one_with_the_log_of_a_killed_server(home, tmp_path):
    saved(home, [])
    shutil.copyfile(database_of(home), tmp_path / "oldest")
    saved(home, ["a0"])
    shutil.copyfile(database_of(home), tmp_path / "older")
    saved(home, ["b0", "b1"])
    shutil.copyfile(tmp_path / "older", database_of(home))
    forked(_look_and_be_killed, home).join(60)
    assert log_of(home).stat().st_size > 0
    for _ in range(2):
        copy = tmp_path / "copy"
        shutil.copytree(home, copy)
        assert look(copy) == (True, {"a0"})
        assert anchor_of(copy)["replaced"] == 0
        shutil.rmtree(copy)
    shutil.copyfile(tmp_path / "oldest", database_of(home))
    assert look(home) == (True, None), "an even older file beneath that log"


def _look_and_be_killed(home):
    async def opened():
        async with open_app(configured(home), syncing=False):
            die()

    asyncio.run(opened())


@pytest.mark.slow("kills servers")
def test_what_a_start_notes_of_a_mixture_does_not_accuse_that_moment(home, tmp_path):
    """It says by when it was seen: who put the file there, and when, nobody knows."""
    saved(home, ["a0", "a1"])
    shutil.copyfile(database_of(home), tmp_path / "older")
    saved(home, ["b0"])
    saved(home, ["c0"], "kill")
    shutil.copyfile(tmp_path / "older", database_of(home))
    assert told(home).startswith("The database file was replaced by an older one")
    assert told(home).startswith("By ")


@pytest.mark.slow("kills servers")
@pytest.mark.timeout(3000)
def test_a_log_that_is_moved_often_accuses_nobody_wherever_it_is_killed(
    home, tmp_path, monkeypatch
):
    """The main file has a part of the log, all of it, or a new log has begun."""
    chance, confirmed = dice("moved"), []
    for number in range(40 if LONG else 6):
        names = [f"m{number}x{each}" for each in range(chance.randrange(40))]
        saved(home, names, "kill")
        confirmed += names
        copy = tmp_path / "copy"
        shutil.copytree(home, copy)
        assert look(copy) == (False, set(confirmed))
        shutil.rmtree(copy)


@pytest.mark.slow("starts and stops")
def test_an_open_database_under_which_another_file_is_put_is_not_used_any_more(home, tmp_path):
    saved(home, ["a0"])
    shutil.copyfile(database_of(home), tmp_path / "older")
    saved(home, ["b0"])

    async def opened():
        async with open_app(configured(home), syncing=False) as app:
            database = app.cache.database
            assert database.number("SELECT count(*) FROM notebook_notes") == 2
            shutil.copyfile(tmp_path / "older", database_of(home))
            with database.transaction():
                pass

    with pytest.raises(LockedError) as refused:
        asyncio.run(opened())
    assert refused.value.verdict is Verdict.ROLLBACK_SEEN
    assert look(home) == (True, None)


@pytest.mark.slow("starts and stops")
@pytest.mark.parametrize("lacks", [0, 1])
def test_a_displaced_database_is_copied_if_it_has_all_that_was_confirmed(home, lacks):
    saved(home, ["a0"])
    config = configured(home)
    copies = folder_of(config).copies

    async def opened():
        async with open_app(config, syncing=False) as app:
            database, anchor = app.cache.database, app.cache.database.witness._anchor
            with database.transaction(durable=True):
                database.run("UPDATE notebook SET change = change + 1")
            head = anchor.read_alone().head
            anchor.advance(Anchored(Head(head.count + lacks, head.mac), at=1))
            database_of(home).unlink()
            database.number("SELECT count(*) FROM notebook_notes")

    before = set(copies.iterdir())
    with pytest.raises(LockedError):
        asyncio.run(opened())
    found = set(copies.iterdir()) - before
    assert len(found) == (0 if lacks else 1), found


@pytest.mark.slow("moves the log often")
def test_a_file_that_was_only_touched_or_moved_by_us_is_no_other_one(home, monkeypatch):
    saved(home, ["a0"])
    monkeypatch.setattr(storage, "CHECKPOINT_PAGES", 5)

    async def opened():
        async with open_app(configured(home), syncing=False) as app:
            database = app.cache.database
            database.set_checkpointer(True)
            for number in range(50):
                with database.transaction(durable=number % 2 == 0):
                    database.run(
                        "INSERT INTO sync_metadata VALUES (?, ?)", (f"k{number}", "x" * 9000)
                    )
                if number % 10 == 0:
                    os.utime(database.path)
                    database.path.chmod(0o600)
            with closing(database.open_another()) as another, another.transaction(durable=True):
                another.run("DELETE FROM sync_metadata WHERE key LIKE 'k%'")
            return database.number("SELECT number FROM checkpoints")

    assert asyncio.run(opened()) > 20
    assert look(home) == (False, {"a0"})


@pytest.mark.slow("starts and stops")
def test_an_anchor_that_cannot_be_written_stops_no_save_and_accuses_nobody(home, monkeypatch):
    saved(home, ["a0"])

    def full(*_args, **_options):
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(audit_anchor, "change_private", full)
        assert look(home) == (False, {"a0"})
    assert look(home) == (False, {"a0"})


@pytest.mark.slow("starts and stops")
def test_the_higher_end_stays_whoever_writes_last(home):
    saved(home, ["a0"])

    async def opened():
        async with open_app(configured(home), syncing=False) as app:
            anchor = app.cache.database.witness._anchor
            before = anchor.read_alone()
            later = Anchored(Head(before.head.count + 5, "a" * 64), at=before.at + 1, begun=7)
            anchor.advance(later)
            anchor.advance(Anchored(Head(before.head.count + 2, "b" * 64), checkpoint=10**6))
            found = anchor.read_alone()
            assert found.head == later.head
            assert (found.begun, found.checkpoint) == (max(before.begun, 7), 10**6)
            anchor.note_replaced(5.0)
            anchor.advance(Anchored(Head(10**6, "c" * 64)))
            assert anchor.read_alone().head == later.head

    asyncio.run(opened())
    assert look(home) == (True, None)


@pytest.mark.slow("two processes")
def test_a_file_is_changed_in_place_by_one_process_at_a_time(tmp_path):
    file = tmp_path / "count"
    file.write_bytes(b"0".ljust(8))
    processes = [forked(_count, file) for _ in range(2)]
    for process in processes:
        process.join(60)
    assert int(file.read_bytes()) == 400


def _count(file):
    done = 0
    while done < 200:
        try:
            change_private(file, lambda raw: str(int(raw) + 1).encode().ljust(8))
            done += 1
        except BlockingIOError:
            pass
