"""Copies of the local notebook: made after changes, verified, rotated, restored; never made by two at once."""

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from mcp_notarium.account import copies, key_changes, purge, reencryption, repair
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.errors import (
    CacheDamaged,
    CacheError,
    CacheFull,
    InvalidRequest,
    LockedError,
    Verdict,
)
from mcp_notarium.files.locks import hold_lock
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.integrity import PAGE_SIZE
from mcp_notarium.stores.local.kind import TABLES
from support.account import (
    OTHER,
    account,
    database_of,
    fingerprint,
    folder_of,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST
from support.local_notebook import OtherProcess, local

NOW = 1_763_683_200.0
DAY = 86_400
FULL = SimpleNamespace(free=4096)
GIVEN = ChangeOptions(clock=lambda: NOW + 1000, timeout=0.1)


@pytest.fixture
def config(tmp_path):
    return account(tmp_path, **local())


def change(config, **notes):
    """A server that changes notes and stops; gives the copy it made."""
    opened = open_cheaply(config)
    with closing(opened):
        process = OtherProcess(Cache(opened.database))
        for note_id, text in notes.items():
            process.put(note_id, text)
        return copied(opened)


def copied(opened, *, keep=3, now=NOW, **others):
    return copies.copy_after_changes(opened, TABLES, keep=keep, now=now, **others)


def texts(config):
    with closing(open_cheaply(config)) as opened:
        contents = OtherProcess(Cache(opened.database)).contents()
        return {note_id: content.text for note_id, content in contents.items()}


def spoil(path, *pages):
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE_SIZE + 100)
            file.write(b"spoilt!!")


def names(config):
    return [one.path.name for one in copies.list_copies(folder_of(config))]


def test_a_copy_is_made_after_changes_only_and_the_oldest_go(config):
    assert change(config) is not None, "a notebook that was never copied"
    assert change(config) is None
    for number in range(1, 5):
        made = change(config, n1=f"text {number}")
        assert made.name == f"20251121T000000Z-{number}.sqlite.encrypted"
        assert made.stat().st_mode & 0o777 == 0o600
    assert [name.split("-")[1][0] for name in names(config)] == ["4", "3", "2"]
    assert sorted(path.name for path in folder_of(config).copies.iterdir()) == sorted(names(config))


def test_none_is_made_while_another_process_makes_one_or_where_none_is_wanted(config):
    with closing(open_cheaply(config)) as opened:
        with hold_lock(folder_of(config).copies_lock, pytest.fail, timeout=0):
            assert copied(opened) is None
        assert copied(opened, keep=0) is None
        assert copied(opened) is not None
    assert len(names(config)) == 1


def test_a_copy_is_one_state_of_a_database_that_another_process_writes_to(config):
    whole = filled(config, length=40_000)
    steps = []
    with closing(open_cheaply(config)) as opened, closing(open_cheaply(config)) as other:
        writer = OtherProcess(Cache(other.database))

        def write(*step):
            steps.append(step)
            assert len(steps) < 20, "it begins anew"
            for number in range(0, 60, 30):
                writer.put(f"n{number:02}", f"written at step {step}")

        made = copied(opened, after_step=write)
    assert len(steps) > 2, "each step was followed by writes"
    repair.restore(config, name=made.name, options=GIVEN)
    assert texts(config) == {note_id: content.text for note_id, content in whole.items()}


def test_a_copy_that_the_disk_gives_back_otherwise_is_none(config):
    before = change(config, n1="x" * 30_000)

    def spoil_it(*_step):
        (unfinished,) = folder_of(config).copies.glob(".new-*")
        with unfinished.open("r+b") as file:
            file.truncate(PAGE_SIZE * 9)  # the driver writes what it holds where it stood
            file.seek(PAGE_SIZE * 4)
            file.write(b"spoilt!!")

    with closing(open_cheaply(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n1", "y")
        with pytest.raises(CacheError, match="cannot be read back") as refused:
            copied(opened, keep=1, after_step=spoil_it)
    assert not isinstance(refused.value, CacheDamaged), "the database is as good as before"
    assert list(folder_of(config).copies.iterdir()) == [before]


def test_a_changed_notebook_whose_copy_is_old_is_reported(config):
    assert change(config, n1="x") is not None
    with closing(open_cheaply(config)) as opened:
        describe = partial(copies.describe_age, opened, TABLES, began=NOW)
        assert describe(now=NOW + 70 * DAY) is None, "nothing has changed since"
        OtherProcess(Cache(opened.database)).put("n1", "y")
        assert describe(now=NOW + 7 * DAY - 1) is None
        said = describe(now=NOW + 7 * DAY)
        assert said.startswith("Notes have changed since the newest copy of the notebook, 7 days")
        folder_of(config).copies.joinpath(names(config)[0]).unlink()
        assert describe(now=NOW + 7 * DAY - 1) is None
        assert "there is no copy of it" in describe(now=NOW + 7 * DAY)


def test_a_damaged_database_is_no_copy_and_pushes_none_out(config):
    before = change(config, n1="x" * 30_000)
    opened = open_cheaply(config)
    with closing(opened):
        OtherProcess(Cache(opened.database)).put("n1", "y")
        opened.database.checkpoint()
        spoil(database_of(config), 5)
        with pytest.raises(CacheDamaged):
            copied(opened, keep=1)
    assert list(folder_of(config).copies.iterdir()) == [before]


def test_a_full_disk_and_a_killed_copy_leave_the_older_ones(config, monkeypatch):
    before = change(config, n1="x")
    (folder_of(config).copies / ".new-00").write_bytes(b"of a killed process")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: FULL)
        with pytest.raises(CacheFull):
            change(config, n1="y")
        size = database_of(config).stat().st_size
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=size + size // 2))
        with pytest.raises(CacheFull):
            change(config, n1="z")
    assert list(folder_of(config).copies.iterdir()) == [before]


def test_the_newest_sound_copy_is_restored_and_numbers_go_on(config):
    change(config, n1="one", n2="two")
    change(config, n1="three")
    spoil(change(config, n1="four"), 2)
    old = fingerprint(config.account_dir)
    done = repair.restore(config, options=GIVEN)
    assert [one.change for one in done.unsound] == [4]
    assert done.copy.change == 3
    assert texts(config) == {"n1": "three", "n2": "two"}
    kept = fingerprint(done.result.quarantine)
    assert kept.items() <= {name: old.get(name) for name in kept}.items()
    with closing(open_cheaply(config)) as opened:
        assert opened.database.number(TABLES.last_change) >= NOW
        facts = opened.database.rows("SELECT facts FROM audit ORDER BY number DESC LIMIT 1")
        assert '"why":"restored"' in facts[0][0].replace(" ", "")
    assert change(config, n1="five").name in names(config)


@pytest.mark.parametrize("harm", ["gone", "rubbish", "no page of the schema"])
def test_a_copy_is_restored_whatever_the_database_is(config, harm):
    change(config, n1="one")
    path = database_of(config)
    if harm == "gone":
        path.unlink()
    elif harm == "rubbish":
        path.write_bytes(b"rubbish" * 4096)
    else:
        spoil(path, 1)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert "mcp-notarium restore" in refused.value.resolution_hint
    assert "reset-cache" not in refused.value.resolution_hint
    repair.restore(config, options=GIVEN)
    assert texts(config) == {"n1": "one"}


def test_a_named_copy_is_restored_and_a_name_that_is_none_is_refused(config):
    first = change(config, n1="one")
    change(config, n1="two")
    repair.restore(config, name=first.name, options=GIVEN)
    assert texts(config) == {"n1": "one"}
    for name in ("no-such-copy", "../notarium_keys.json"):
        with pytest.raises(InvalidRequest):
            repair.restore(config, name=name, options=GIVEN)


def test_a_wrong_key_and_a_server_that_runs_are_refused_and_nothing_changes(config):
    change(config, n1="one")
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as refused:
        repair.restore(replace(config, db_key=Secret(OTHER)), options=GIVEN)
    assert refused.value.verdict is Verdict.WRONG_KEY
    with closing(open_cheaply(config)), pytest.raises(LockedError) as refused:
        repair.restore(config, options=GIVEN)
    assert refused.value.verdict is Verdict.BUSY
    assert fingerprint(config.account_dir) == before


def test_no_sound_copy_changes_nothing(config):
    spoil(change(config, n1="one"), 3)
    before = fingerprint(config.account_dir)
    with pytest.raises(CacheDamaged, match="no copy can be read"):
        repair.restore(config, options=GIVEN)
    assert fingerprint(config.account_dir) == before


def test_every_key_opens_a_copy_of_before_it_was_added(config):
    change(config, n1="one")
    key_changes.add(config, Secret(OTHER), label="", parameters=CHEAPEST, options=GIVEN)
    repair.restore(replace(config, db_key=Secret(OTHER)), options=GIVEN)
    assert texts(config) == {"n1": "one"}


def test_re_encryption_leaves_one_copy_that_the_new_data_key_opens(config):
    change(config, n1="one")
    change(config, n1="two")
    reencryption.reencrypt(config, options=GIVEN)
    assert len(names(config)) == 1
    assert change(config) is None
    database_of(config).unlink()
    repair.restore(config, options=GIVEN)
    assert texts(config) == {"n1": "two"}


def test_a_copy_under_another_data_key_is_no_reason_to_make_none(config):
    made = change(config, n1="one")
    content = made.read_bytes()
    reencryption.reencrypt(config, options=GIVEN)
    for path in folder_of(config).copies.iterdir():
        path.unlink()
    made.touch(mode=0o600)
    made.write_bytes(content)
    assert change(config) is not None


def test_purge_removes_the_copies(config):
    change(config, n1="one")
    purge.purge_account(config, None, options=GIVEN)
    assert not folder_of(config).copies.exists()


def test_a_copy_shows_no_text_to_whoever_has_no_key(config):
    made = change(config, n1="canary canary")
    assert b"canary" not in made.read_bytes()
    with pytest.raises(sqlite3.DatabaseError), closing(sqlite3.connect(made)) as plain:
        plain.execute("SELECT * FROM notebook_notes")


def filled(config, *, length=900):
    """A notebook and its index, both of many pages; gives what is in it."""
    with closing(open_cheaply(config)) as opened:
        cache = Cache(opened.database)
        process = OtherProcess(cache)
        for number in range(60):
            process.put(
                f"n{number:02}",
                f"text {number} " + "x" * length,
                tags=("t",),
                title=f"title {number}",
            )
        whole = process.contents()
        with cache.transaction():
            cache.notes.apply(process.get(note_id) for note_id in whole)
        opened.database.checkpoint()
        return whole


@pytest.mark.parametrize("share", [0.35, 0.6, 0.7, 0.9])
def test_a_note_whose_page_is_damaged_comes_from_the_index(config, share):
    whole = filled(config)
    spoil(database_of(config), int(database_of(config).stat().st_size // PAGE_SIZE * share))
    done = repair.repair(config, options=GIVEN)
    assert done.salvaged.complete
    with closing(open_cheaply(config)) as opened:
        assert OtherProcess(Cache(opened.database)).contents() == whole


def cut_and_repair(config):
    """Lose the last quarter of the database, and repair what is left."""
    path = database_of(config)
    os.truncate(path, path.stat().st_size * 3 // 4 // PAGE_SIZE * PAGE_SIZE)
    done = repair.repair(config, options=GIVEN)
    assert not done.salvaged.complete


def test_the_copy_of_before_a_repair_with_losses_is_never_pushed_out(config):
    whole = filled(config)
    made = change(config)
    spoil(change(config, later="x"), 3)
    cut_and_repair(config)
    kept = made.with_name(made.name.replace(".sqlite", ".kept.sqlite"))
    assert names(config)[-1] == kept.name, "the newest that can be read"
    assert texts(config).keys() < whole.keys()
    for number in range(5):
        change(config, after=f"text {number}")
    assert [name for name in names(config) if "kept" in name] == [kept.name]
    assert len(names(config)) == 4, "as many others as ever"
    (said,) = copies.describe_kept(folder_of(config))
    assert f"mcp-notarium restore {kept.name}" in said
    repair.restore(config, name=kept.name, options=GIVEN)
    assert texts(config) == {note_id: content.text for note_id, content in whole.items()}
    assert kept.exists()


def test_a_kept_copy_is_not_lost_by_a_re_encryption(config):
    filled(config)
    change(config)
    cut_and_repair(config)
    (kept,) = [name for name in names(config) if "kept" in name]
    for act in (reencryption.reencrypt, partial(reencryption.find_dropped_slots, replacing=False)):
        with pytest.raises(InvalidRequest) as refusal:
            act(config, options=GIVEN)
        assert f"restore {kept}" in refusal.value.resolution_hint
    assert kept in names(config)
    (folder_of(config).copies / kept).unlink()
    reencryption.reencrypt(config, options=GIVEN)


def test_the_newest_copy_is_kept_where_none_can_be_read(config):
    filled(config)
    change(config)
    newest = change(config, later="x")
    for name in names(config):
        spoil(folder_of(config).copies / name, 3)
    cut_and_repair(config)
    assert [name for name in names(config) if "kept" in name] == [
        newest.name.replace(".sqlite", ".kept.sqlite")
    ]


def test_a_repair_that_loses_nothing_keeps_no_copy(config):
    filled(config)
    made = change(config)
    spoil(database_of(config), int(database_of(config).stat().st_size // PAGE_SIZE * 0.6))
    assert repair.repair(config, options=GIVEN).salvaged.complete
    assert names(config) == [made.name]
    assert copies.describe_kept(folder_of(config)) == ()
