"""The anchor outside the database, and the chain through every change of keys and databases."""

import json
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from mcp_notarium.account import audit_anchor, key_changes, reencryption, repair, user_key_rotation
from mcp_notarium.account import key_changes as recording
from mcp_notarium.account.audit_anchor import AnchorUnusable, audit_keys
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.audit.chain import ActName, AuditEntry
from mcp_notarium.audit.verification import FaultKind
from mcp_notarium.cli import audit as audit_cli
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import CacheFull
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_log import AuditLog
from support.account import OTHER, account, folder_of, open_cheaply
from support.cheap_costs import CHEAPEST

BEGAN = 1_795_856_400.0
"""The time of the first record: 2026-11-28 09:00:00 UTC."""


@contextmanager
def chain(config):
    with closing(open_cheaply(config)) as opened:
        keys = audit_keys(opened.data_key)
        audit_log = AuditLog(opened.database, keys, clock=lambda: BEGAN + 5, days=365)
        yield audit_cli.OpenChain(audit_log, opened.anchor, opened.database)


def worked(config, count=3, *, stopping=True):
    """A server was there, did something, and stopped cleanly or not."""
    with chain(config) as made:
        for number in range(count):
            made.audit_log.record_begin(AuditEntry(at=BEGAN + number, act="tool.save"))
        if stopping:
            assert made.anchor.write(made.audit_log.table, made.database)
        return made.audit_log.table.head()


def verdict(config, expected=None):
    with chain(config) as made:
        return made.verify(expected)


def acts(config):
    with chain(config) as made:
        return [record.act for record in made.audit_log.table.records()]


def cut(config, more_than):
    with chain(config) as made:
        with made.database.schema_change():
            made.database.run("DROP TRIGGER audit_oldest_first")
        made.database.run("DELETE FROM audit WHERE number > ?", (more_than,))


@pytest.fixture(params=[True, False], ids=["encrypted", "plain"])
def config(tmp_path, request):
    return account(tmp_path, db_encryption=request.param)


def test_clean_stop_leaves_an_anchor_that_nobody_else_can_read(config):
    head = worked(config)
    file = folder_of(config).audit_anchor
    assert file.stat().st_mode & 0o777 == 0o600
    said = json.loads(file.read_bytes())
    assert (said["count"], said["head"]) == (3, head.mac)
    assert verdict(config).whole


def test_anchor_removes_what_a_killed_process_left(config):
    worked(config, stopping=False)
    left = folder_of(config).path / ".audit_anchor.json.0123456789ab.tmp"
    left.touch(mode=0o600)
    worked(config)
    assert not left.exists()
    assert verdict(config).whole


def test_chain_is_on_the_disk_before_its_anchor(config, monkeypatch):
    """Or a power cut would make the anchor look like evidence."""
    steps = []
    with chain(config) as made:
        made.audit_log.buffer(AuditEntry(at=1, act="x"))
        made.audit_log.flush()  # committed, not flushed
        run = made.database.run

        def seen(sql, *rest):
            steps.append(sql.split()[0] + (" FULL" if "= FULL" in sql else ""))
            return run(sql, *rest)

        monkeypatch.setattr(made.database, "run", seen)
        write = audit_anchor.replace_private
        monkeypatch.setattr(
            audit_anchor,
            "replace_private",
            lambda *a, **o: steps.append("anchor") or write(*a, **o),
        )
        assert made.anchor.write(made.audit_log.table, made.database)
    durable = steps.index("PRAGMA FULL")
    assert durable < steps.index("INSERT") < steps.index("COMMIT") < steps.index("anchor")


def test_crash_between_flush_and_first_anchor_is_no_fault(config, monkeypatch):
    def crash(*_args, **_options):
        raise OSError

    with chain(config) as made:
        made.audit_log.record_begin(AuditEntry(at=1, act="x"))
        with monkeypatch.context() as patch:
            patch.setattr(audit_anchor, "replace_private", crash)
            assert not made.anchor.write(made.audit_log.table, made.database)
        assert made.find_rollback() is None
        assert made.verify(None).whole
        assert made.anchor.write(made.audit_log.table, made.database)
    assert verdict(config).whole


@pytest.mark.attack(16)
def test_start_says_that_the_end_is_missing(config):
    worked(config)
    with chain(config) as made:
        assert made.find_rollback() is None
    cut(config, 1)
    with chain(config) as made:
        found = made.find_rollback()
    assert (found.missing, found.upto, found.mixed) == (2, 1, False)
    assert found.notice.startswith(
        "2 audit records after number 1 (2026-11-28 09:00:00 UTC) are missing, up to "
        "2026-11-28 09:00:02 UTC: an older copy"
    )
    folder_of(config).audit_anchor.unlink()
    with chain(config) as made, pytest.raises(AnchorUnusable, match="anchor is missing"):
        made.find_rollback()


@pytest.mark.attack(50)
def test_anchor_finds_a_cut_tail(config):
    worked(config)
    cut(config, 1)
    assert [(f.kind, f.number) for f in verdict(config).faults] == [(FaultKind.TAIL_CUT, 2)]


def test_anchor_that_does_not_fit_is_never_overwritten(config):
    worked(config)
    cut(config, 1)
    before = folder_of(config).audit_anchor.read_bytes()
    with chain(config) as made:
        made.audit_log.record_begin(AuditEntry(at=1, act="x"))
        assert not made.anchor.write(made.audit_log.table, made.database)
        for _ in range(4):
            made.audit_log.record_begin(AuditEntry(at=1, act="x"))
        assert not made.anchor.write(made.audit_log.table, made.database)
    assert folder_of(config).audit_anchor.read_bytes() == before
    assert [fault.kind for fault in verdict(config).faults] == [FaultKind.FOREIGN]


def test_anchor_that_was_taken_away_is_missed(config):
    worked(config)
    cut(config, 1)
    folder_of(config).audit_anchor.unlink()
    (fault,) = verdict(config).faults
    assert fault.kind is FaultKind.ANCHOR
    assert "missing" in fault.words


def test_anchor_that_was_changed_is_not_believed(tmp_path):
    config = account(tmp_path)
    worked(config)
    file = folder_of(config).audit_anchor
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(bytes(changed))
        assert [fault.kind for fault in verdict(config).faults] == [FaultKind.ANCHOR], place
    file.write_bytes(b"x" * 5000)
    assert [fault.kind for fault in verdict(config).faults] == [FaultKind.ANCHOR]


def test_anchor_through_a_link_is_not_followed(config, tmp_path):
    worked(config)
    file = folder_of(config).audit_anchor
    file.rename(tmp_path / "elsewhere")
    with chain(config) as made:
        file.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AnchorUnusable):
            made.anchor.read(made.database)


def test_chain_that_went_on_without_a_clean_stop_is_whole(config):
    worked(config)
    worked(config, stopping=False)
    assert verdict(config).whole


def test_anchor_continues_after_pruning(config):
    worked(config)
    with chain(config) as made:
        made.audit_log.record_begin(AuditEntry(at=BEGAN + 500 * 86_400, act="x"))
        assert made.audit_log.table.prune(2, at=BEGAN + 500 * 86_400) == 2
        assert made.anchor.write(made.audit_log.table, made.database)
    assert verdict(config).whole


def test_head_noted_before_is_known_after_a_new_data_key_was_made(tmp_path):
    config = account(tmp_path)
    head = worked(config)
    reencryption.reencrypt(config, new=Secret(OTHER), parameters=CHEAPEST)
    config = replace(config, db_key=Secret(OTHER))
    found = verdict(config, expected=head)
    assert found.whole
    assert found.head.count == 4
    assert acts(config)[-1] == ActName.CARRIED
    with chain(config) as made:
        assert made.anchor.write(made.audit_log.table, made.database)
    assert verdict(config).whole


def test_new_data_key_has_an_anchor_at_once_that_misses_what_is_cut(tmp_path):
    config = account(tmp_path)
    worked(config)
    folder = folder_of(config)
    left = folder.path / ".audit_anchor.json.0123456789ab.tmp"  # by a server that was killed
    left.touch(mode=0o600)
    reencryption.reencrypt(config, parameters=CHEAPEST)
    (generation,) = folder.generations()
    said = json.loads(folder.audit_anchor.read_bytes())
    found = verdict(config)
    assert (said["generation"], f"{said['count']}:{said['head']}") == (generation, str(found.head))
    assert (found.faults, found.notes) == ((), ())
    assert not left.exists()
    cut(config, 3)
    assert [fault.kind for fault in verdict(config).faults] == [FaultKind.TAIL_CUT]
    folder.audit_anchor.unlink()
    assert [fault.kind for fault in verdict(config).faults] == [FaultKind.ANCHOR]


@pytest.mark.parametrize("step", ["switch", "remove"])
def test_new_data_key_counts_without_its_anchor_until_one_is_written(tmp_path, step):
    """After a crash before it, the old anchor accuses nobody."""
    config = account(tmp_path)
    worked(config)

    def crash(seen):
        if seen == step:
            raise KeyboardInterrupt

    options = ChangeOptions(at=crash)
    with pytest.raises(KeyboardInterrupt):
        reencryption.reencrypt(config, parameters=CHEAPEST, options=options)
    assert verdict(config).whole
    worked(config)
    found = verdict(config)
    assert (found.faults, found.notes) == ((), ())


def test_anchor_that_the_disk_does_not_take_undoes_no_new_data_key(tmp_path, monkeypatch):
    config = account(tmp_path)
    worked(config)

    def full(*_args, **_options):
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(audit_anchor, "replace_private", full)
        reencryption.reencrypt(config, parameters=CHEAPEST)
    found = verdict(config)
    assert found.whole
    assert "no anchor yet" in found.notes[0]


def test_new_data_key_does_not_make_a_cut_chain_good(tmp_path):
    config = account(tmp_path)
    worked(config)
    cut(config, 1)
    reencryption.reencrypt(config, parameters=CHEAPEST)
    (fault,) = verdict(config).faults
    assert fault.kind is FaultKind.CARRIED
    assert "tail_cut" in fault.words


def test_new_data_key_does_not_make_up_for_a_missing_anchor(tmp_path):
    config = account(tmp_path)
    worked(config)
    folder_of(config).audit_anchor.unlink()
    reencryption.reencrypt(config, parameters=CHEAPEST)
    (fault,) = verdict(config).faults
    assert (fault.kind, "missing" in fault.words) == (FaultKind.CARRIED, True)


def test_repair_carries_over_what_can_be_read(tmp_path):
    config = account(tmp_path)
    head = worked(config, 400)
    with chain(config) as made:
        path = made.database.path
        rows = [(f"k{n}", "v" * 3000) for n in range(60)]
        made.database.run_many("INSERT INTO sync_metadata(key, value) VALUES (?, ?)", rows)
        made.database.checkpoint()
    damaged = bytearray(path.read_bytes())
    damaged[-4096 * 3] ^= 1
    path.write_bytes(bytes(damaged))
    repair.repair(config)
    found = verdict(config, expected=head)
    assert found.whole or {fault.kind for fault in found.faults} <= {
        FaultKind.CARRIED,
        FaultKind.UNEXPECTED,
    }
    assert acts(config)[-1] == ActName.CARRIED


def test_a_change_that_could_not_be_recorded_counts_and_the_next_record_shows_the_gap(
    tmp_path, monkeypatch
):
    config = account(tmp_path)
    worked(config, 1)
    key_changes.add(config, Secret(OTHER), parameters=CHEAPEST)

    def full(*_args, **_options):
        raise CacheFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(recording.AuditTable, "append", full)
        key_changes.remove(config, 2)
    key_changes.add(config, user_key.generate())
    with chain(config) as made:
        facts = [json.loads(record.facts) for record in made.audit_log.table.records()][1:]
    assert [one["sequence"] for one in facts] == [2, 4]
    assert facts[1]["added"] == ["2 raw"]


def test_every_change_of_keys_is_on_record(tmp_path):
    config = account(tmp_path)
    worked(config, 1)
    key_changes.add(config, Secret(OTHER), parameters=CHEAPEST, label="my diary")
    key_changes.remove(config, 2)
    user_key_rotation.rotate_passphrase(config, new=Secret(OTHER), parameters=CHEAPEST)
    config = replace(config, db_key=Secret(OTHER))
    with chain(config) as made:
        records = list(made.audit_log.table.records())[1:]
    facts = [json.loads(record.facts) for record in records]
    assert [record.act for record in records] == ["keys.changed"] * 3
    assert facts[0] == {"sequence": 2, "added": ["2 passphrase"]}
    assert facts[1] == {"sequence": 3, "removed": ["2 passphrase"]}
    assert facts[2]["sequence"] == 4
    assert "diary" not in repr(records)
    assert verdict(config).whole
