import itertools
import os
import shutil
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_notarium.account import purge
from mcp_notarium.account.inspection import is_damage_marked, mark_damage
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CacheDamaged, LockedError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.secret import Secret
from mcp_notarium.storage.database_opener import companions
from mcp_notarium.storage.journal_table import JournalTable
from support import account_child
from support.account import OTHER, account, database_of, fingerprint, folder_of, made, open_cheaply
from support.journal_entries import make_unfinished
from support.local_notebook import local

NOW = 1_763_683_200.0
LATER = NOW + 10 * 86_400


def at(moment):
    return {"clock": lambda: moment}


def old_cache(tmp_path, **changes):
    """A cache made ten days before everything else in a test, closed cleanly."""
    config = account(tmp_path, **changes)
    open_cheaply(config, **at(NOW)).close()
    return replace(config, on_unreadable="rebuild")


def spoil_key_files(config):
    folder_of(config).key_file.write_bytes(b"x")
    folder_of(config).key_copy.write_bytes(b"x")


def remove_key_files(config):
    folder_of(config).key_file.unlink()
    folder_of(config).key_copy.unlink()


REASONS = {
    "wrong key": lambda config: replace(config, db_key=Secret(OTHER)),
    "key files damaged": spoil_key_files,
    "key files gone": remove_key_files,
    "database gone": lambda config: database_of(config).unlink(),
    "database emptied": lambda config: database_of(config).write_bytes(b""),
    "database damaged": lambda config: database_of(config).write_bytes(b"rubbish" * 4096),
}


def happen(reason, config):
    changed = REASONS[reason](config)
    return changed if isinstance(changed, type(config)) else config


@pytest.mark.parametrize("reason", REASONS)
def test_an_unreadable_cache_is_moved_byte_for_byte_and_recreated(tmp_path, reason):
    config = happen(reason, old_cache(tmp_path))
    before = fingerprint(config.account_dir)
    with closing(open_cheaply(config, **at(LATER))) as opened:
        assert opened.created
        assert "quarantine" in opened.notices[0]
        (quarantined,) = folder_of(config).quarantine.iterdir()
        assert fingerprint(quarantined) == before
        assert folder_of(config).generations() == (opened.anchor.generation,)
    with closing(open_cheaply(config, **at(LATER))) as again:
        assert not again.created


@pytest.mark.parametrize("reason", REASONS)
def test_the_only_copy_of_the_notes_is_never_moved(tmp_path, reason):
    config = happen(reason, old_cache(tmp_path, **local()))
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config, **at(LATER))
    assert "rebuild was not followed: the notes are in this" in refused.value.resolution_hint
    assert fingerprint(config.account_dir) == before


@pytest.mark.parametrize("reason", REASONS)
def test_without_the_setting_nothing_moves(tmp_path, reason):
    config = happen(reason, replace(old_cache(tmp_path), on_unreadable="refuse"))
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config, **at(LATER))
    assert "DB_ON_UNREADABLE=rebuild" in refused.value.resolution_hint
    assert fingerprint(config.account_dir) == before


def test_an_unfinished_write_goes_to_the_quarantine_with_the_key_file_that_opens_it(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config, **at(NOW))) as opened:
        JournalTable(opened.database).add(make_unfinished(Content("unsaved text")))
    wrong = replace(config, on_unreadable="rebuild", db_key=Secret(OTHER))
    with closing(open_cheaply(wrong, **at(LATER))) as rebuilt:
        assert "never reached the note store" in rebuilt.notices[0]
    (quarantined,) = folder_of(config).quarantine.iterdir()
    restored = account(tmp_path / "restored")
    shutil.copytree(quarantined, restored.account_dir)
    restored.account_dir.chmod(0o700)
    with closing(open_cheaply(restored)) as again:
        (write,) = JournalTable(again.database).all()
    assert write.content.text == "unsaved text"


def test_a_damaged_prepared_key_file_is_kept_too(tmp_path):
    config = happen("wrong key", old_cache(tmp_path))
    folder_of(config).prepared_key_file.touch(mode=0o600)
    folder_of(config).prepared_key_file.write_bytes(b"rubbish")
    open_cheaply(config, **at(LATER)).close()
    (kept,) = folder_of(config).quarantine.rglob("notarium_keys.json.new")
    assert kept.read_bytes() == b"rubbish"


def test_a_rebuild_that_was_killed_while_it_moved_files_is_finished_and_reported(
    tmp_path, monkeypatch
):
    config = happen("wrong key", old_cache(tmp_path))
    folder = folder_of(config)
    folder.audit_anchor.touch(mode=0o600)
    folder.audit_anchor.write_bytes(b"the old anchor")
    mark_damage(folder)
    before = fingerprint(config.account_dir)

    rename, count = Path.rename, itertools.count()

    def rename_or_die(path, target):
        if (
            "quarantine" in str(target) and next(count) == 3
        ):  # the key file is away, the anchor is not
            os._exit(9)
        return rename(path, target)

    child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(Path, "rename", rename_or_die)
            open_cheaply(config, **at(LATER))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not folder.key_file.exists()
    assert folder.audit_anchor.exists()
    with closing(open_cheaply(config, **at(LATER + 60))) as opened:
        assert opened.rebuilt
        assert "quarantine" in opened.notices[0]
        assert not folder.audit_anchor.exists()
    moved = {}
    for quarantined in sorted(folder.quarantine.iterdir()):
        moved = fingerprint(quarantined) | moved
    assert before.items() <= moved.items()


@pytest.mark.attack(1)
def test_two_clients_with_different_keys_do_not_rebuild_each_other_for_ever(tmp_path):
    mine = old_cache(tmp_path)
    theirs = replace(mine, db_key=Secret(OTHER))
    open_cheaply(theirs, **at(LATER)).close()
    with pytest.raises(LockedError) as refused:
        open_cheaply(mine, **at(LATER + 3600))
    assert "24 hours" in refused.value.resolution_hint
    with closing(open_cheaply(mine, **at(LATER + 90_000))) as opened:
        assert opened.created


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_nothing_is_moved_under_a_running_server(tmp_path):
    config = old_cache(tmp_path)
    running = account_child.start(tmp_path)
    try:
        before = fingerprint(config.account_dir)
        with pytest.raises(LockedError) as refused:
            open_cheaply(replace(config, db_key=Secret(OTHER)), **at(LATER))
        assert refused.value.verdict is Verdict.BUSY
        assert fingerprint(config.account_dir) == before
    finally:
        running.communicate("end\n", timeout=30)


@pytest.mark.parametrize("content", [b"", b"rubbish" * 4096])
def test_a_plain_cache_is_rebuilt_by_the_same_rule(tmp_path, content):
    config = old_cache(tmp_path, db_encryption=False)
    folder_of(config).plain_database.write_bytes(content)
    with closing(open_cheaply(config, **at(LATER))) as opened:
        assert opened.created
    (kept,) = folder_of(config).quarantine.rglob("notarium_cache.sqlite")
    assert kept.read_bytes() == content


def test_reset_moves_everything_to_the_quarantine_and_the_next_start_creates_a_cache(tmp_path):
    config = made(tmp_path)
    before = fingerprint(config.account_dir)
    target = purge.reset_account(config)
    assert fingerprint(target) == before
    with closing(open_cheaply(config)) as opened:
        assert opened.created


def test_reset_needs_no_key_and_no_readable_file(tmp_path):
    config = made(tmp_path)
    spoil_key_files(config)
    assert purge.reset_account(replace(config, db_key=None)) is not None
    assert purge.reset_account(config) is None


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_reset_is_refused_while_a_server_runs(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)), pytest.raises(LockedError) as refused:
        purge.reset_account(config)
    assert refused.value.verdict is Verdict.BUSY


def test_reset_without_a_folder_does_nothing(tmp_path):
    config = account(tmp_path)
    assert purge.reset_account(config) is None
    assert not config.data_dir.exists()


def test_a_restored_folder_opens_after_it_was_quarantined(tmp_path):
    config = made(tmp_path)
    target = purge.reset_account(config)
    for file in target.iterdir():
        shutil.move(file, config.account_dir / file.name)
    with closing(open_cheaply(config)) as opened:
        assert not opened.created


def overwrite(path, page):
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(whole)


def test_a_start_looks_at_every_page_only_where_damage_was_met(tmp_path):
    config = made(tmp_path)
    overwrite(database_of(config), 7)
    open_cheaply(config).close()
    mark_damage(folder_of(config))
    for _ in range(2):
        with pytest.raises(LockedError) as refused:
            open_cheaply(config)
        assert refused.value.verdict is Verdict.DATABASE_DAMAGED
        assert "page 7" in refused.value.message


def test_damage_that_is_met_marks_the_folder_and_a_rebuild_takes_the_mark_along(tmp_path):
    config = old_cache(tmp_path)
    overwrite(database_of(config), 4)
    with closing(open_cheaply(config)) as opened, pytest.raises(CacheDamaged):
        opened.database.rows("SELECT * FROM notes")
    assert is_damage_marked(folder_of(config))
    with closing(open_cheaply(config, **at(LATER))) as again:
        assert again.created
    assert not is_damage_marked(folder_of(config))
    assert list(folder_of(config).quarantine.rglob("damage_met.json"))


def test_a_whole_look_that_finds_damage_marks_it_for_the_next_start(tmp_path):
    config = made(tmp_path)
    overwrite(database_of(config), 7)
    with pytest.raises(LockedError):
        open_cheaply(config, whole=True)
    with pytest.raises(LockedError):
        open_cheaply(config)


def test_a_log_mends_a_page_for_the_whole_look_too(tmp_path):
    config = made(tmp_path)
    with closing(open_cheaply(config)) as opened:
        path = opened.database.path
        # A page that stands in the log as a whole, and half written in the file.
        opened.database.run("INSERT INTO sync_metadata VALUES ('k', 'v')")
        copies = {file.name: file.read_bytes() for file in companions(path)[:2] if file.exists()}
    for name, content in copies.items():
        file = path.with_name(name)
        file.touch(mode=0o600)
        file.write_bytes(content)
    overwrite(path, 2)
    mark_damage(folder_of(config))
    with closing(open_cheaply(config, whole=True)) as again:
        assert again.database.row("SELECT value FROM sync_metadata WHERE key = 'k'") == ("v",)
    assert not is_damage_marked(folder_of(config))


def test_a_mark_that_means_nothing_goes_with_the_start(tmp_path):
    config = made(tmp_path)
    folder_of(config).damage_marker.touch(mode=0o600)
    open_cheaply(config).close()
    assert not is_damage_marked(folder_of(config))


def test_a_folder_in_the_quarantine_with_the_name_of_no_day_is_none_of_ours(tmp_path):
    config = old_cache(tmp_path)
    folder = folder_of(config)
    for name in ("20261399T000000Z", "20260101T000000Z", "notes"):
        (folder.quarantine / name).mkdir(parents=True)
    assert quarantine.find_last_use(folder) == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
