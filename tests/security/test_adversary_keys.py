"""Test attacks of somebody with the account folder: wrong keys, damaged, swapped and cut files."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import mcp_notarium
from mcp_notarium.account import key_changes, rollback
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.audit.chain import AuditEntry
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import CacheError, LockedError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_log import AuditLog
from support import account_child
from support.account import account, fingerprint, folder_of, made, open_cheaply
from support.cache_room import KEY, make
from support.cheap_costs import CHEAPEST
from support.long import LONG


@pytest.mark.attack(1)
@pytest.mark.parametrize("left", ["by a kill", "by a clean stop"])
def test_any_number_of_wrong_keys_changes_no_byte(tmp_path, left):
    config = made(tmp_path)
    if left == "by a kill":
        account_child.leave_log(tmp_path)
        (log,) = config.account_dir.glob("*.encrypted-wal")
        assert log.stat().st_size > 0, "nothing was left to be replayed"
    before = fingerprint(tmp_path)
    for number in range(200 if LONG else 30):
        with pytest.raises(LockedError) as refused:
            open_cheaply(replace(config, db_key=Secret(f"the wrong words number {number}")))
        assert refused.value.exit_code == 11
    assert fingerprint(tmp_path) == before
    open_cheaply(config).close()


@pytest.mark.attack(2)
def test_if_any_byte_of_the_key_file_is_damaged_its_copy_opens(tmp_path):
    config = made(tmp_path)
    path = folder_of(config).key_file
    whole = path.read_bytes()
    for place in range(0, len(whole), 61):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with closing(open_cheaply(config)) as opened:
            assert "its copy `notarium_keys.json.bak` is good" in " ".join(opened.notices)
        assert path.read_bytes() == whole


@pytest.mark.attack(9)
def test_a_database_that_says_another_generation_is_refused(tmp_path):
    config = made(tmp_path)
    with closing(open_cheaply(config)) as opened:
        opened.database.run(
            "UPDATE sync_metadata SET value = ? WHERE key = 'generation'", ("0" * 16,)
        )
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.DATABASE_DAMAGED
    assert refused.value.exit_code == 13


@pytest.mark.attack(13)
def test_a_database_that_disappears_at_the_last_moment_is_not_recreated(tmp_path, monkeypatch):
    made_one = make(tmp_path)
    path = made_one.database.path
    made_one.close()
    demand = database_opener.driver.require_suitable

    def meanwhile(facts):
        path.unlink()
        return demand(facts)

    monkeypatch.setattr(database_opener.driver, "require_suitable", meanwhile)
    with pytest.raises((CacheError, LockedError)):
        database_opener.connect(path, KEY)
    assert not path.exists()


def spoilt(place, how):
    """Cut the newest records out of the log that lies beside the database, or flip a bit of them."""
    (log,) = place.rglob("*-wal")
    content = bytearray(log.read_bytes())
    frame = 4096 + 24
    assert len(content) > 18 * frame
    if how == "cut":
        del content[-12 * frame :]
    else:
        content[-12 * frame + 200] ^= 1
    log.write_bytes(content)


def _parts(opened, audit_log):
    return opened.anchor, audit_log.table, opened.database


@pytest.mark.attack(15)
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_a_cut_log_is_said_at_the_next_start(tmp_path, how):
    """SQLite takes what is left for all there is; the anchor knows better."""
    here, there = tmp_path / "here", tmp_path / "there"
    config = account(here)
    with closing(open_cheaply(config)) as opened:
        audit_log = AuditLog(
            opened.database, audit_keys(opened.data_key), clock=lambda: 5.0, days=365
        )
        for number in range(20):
            audit_log.record_begin(AuditEntry(at=number, act="tool.save"))
        assert opened.anchor.write(audit_log.table, opened.database)
        shutil.copytree(here, there)
        assert rollback.find(*_parts(opened, audit_log), had_log=False) is None
    spoilt(there, how)
    moved = account(there)
    with closing(open_cheaply(moved)) as opened:
        audit_log = AuditLog(
            opened.database, audit_keys(opened.data_key), clock=lambda: 5.0, days=365
        )
        found = rollback.find(*_parts(opened, audit_log), had_log=opened.had_log)
        assert found.missing > 0


@pytest.mark.attack(47)
def test_a_recovery_key_opens_until_it_is_removed(tmp_path):
    config, paper = made(tmp_path), user_key.generate_recovery_key()
    by_paper = replace(config, db_key=paper)
    options = ChangeOptions()
    key_changes.add(config, paper, parameters=CHEAPEST, options=options)
    open_cheaply(by_paper).close()
    key_changes.remove(config, 2, options=options)
    with pytest.raises(LockedError) as refused:
        open_cheaply(by_paper)
    assert refused.value.exit_code == 11
    open_cheaply(config).close()


@pytest.mark.attack(24)
def test_no_key_of_a_database_is_ever_changed_in_place():
    """It answers that all is well where it has failed, and the next write destroys the file."""
    word = "re" + "key"
    package = Path(mcp_notarium.__file__).parent
    sources = [path for path in package.rglob("*") if path.suffix in {".py", ".sql", ".json"}]
    assert len(sources) > 150
    assert [path.name for path in sources if word in path.read_text(encoding="utf-8")] == []
