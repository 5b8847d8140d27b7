import sqlite3
import stat
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import inspection, opener, purge
from mcp_notarium.account.startup_outcomes import Locked, Open
from mcp_notarium.crypto import kdf, key_file_codec, key_slots
from mcp_notarium.errors import CacheFull, LockedError, Verdict
from mcp_notarium.files import locks
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import driver, schema_version
from support import account_child, keychains
from support.account import (
    OTHER,
    USERNAME,
    account,
    database_of,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)
from support.keyfiles import RAW_KEY, forged
from support.other_kind import named_alike
from support.simplenote_settings import simplenote, simplenote_settings

PAGE = 4096


OTHER_ACCOUNTS = {
    "the user": simplenote("else@example.com"),
    "the service": simplenote(USERNAME, SIMPERIUM_API_URL="https://proxy.example/1"),
    "the store": {"store": named_alike(), "store_settings": simplenote_settings(USERNAME)},
}


def refused(config, **options):
    """The refusal of an attempt to open, which must leave every file as it was."""
    before = fingerprint(config.data_dir) if config.data_dir.exists() else {}
    with pytest.raises(LockedError) as error:
        open_cheaply(config, **options)
    after = fingerprint(config.data_dir) if config.data_dir.exists() else {}
    assert after == before
    return error.value


def put(opened, key, value):
    opened.database.run("INSERT INTO sync_metadata(key, value) VALUES (?, ?)", (key, value))


def mark_of(opened):
    row = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
    return None if row is None else row[0]


def patch(path, offset, content):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_a_key_in_the_working_folder_is_reported_at_every_opening(tmp_path):
    config = account(tmp_path, db_key_yields=True, db_key_origin="DB_ENCRYPTION_KEY of /x/.env")
    for _ in ("made", "opened"):
        with closing(open_cheaply(config)) as opened:
            assert "DB_ENCRYPTION_KEY of /x/.env" in opened.notices[0]


def test_a_first_start_makes_a_cache_and_the_next_opens_it(tmp_path):
    with closing(open_cheaply(account(tmp_path))) as first:
        put(first, "mark", "kept")
        assert first.created
        assert first.data_key is not None
        assert first.notices == ()
    with closing(open_cheaply(account(tmp_path))) as second:
        assert not second.created
        assert second.anchor.generation == first.anchor.generation
        assert second.data_key == first.data_key
        assert mark_of(second) == "kept"


def test_files_on_the_disk_have_the_documented_names_and_are_private(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        put(opened, "mark", "x")
        names = {path.name: path for path in config.account_dir.iterdir()}
        base = f"notarium_cache.{opened.anchor.generation}.sqlite.encrypted"
        assert set(names) == {
            *(base, f"{base}-wal", f"{base}-shm", "notarium_keys.json", "notarium_keys.json.bak"),
            *("keys.lock", "server.lock"),
        }
        assert {stat.S_IMODE(path.stat().st_mode) for path in names.values()} == {0o600}
    assert stat.S_IMODE(config.account_dir.stat().st_mode) == 0o700
    folder = folder_of(config)
    assert folder.key_file.read_bytes() == folder.key_copy.read_bytes()


def test_the_database_knows_whose_it_is_and_which_key_file_names_it(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config, clock=lambda: 1_763_683_200.9)) as opened:
        rows = dict(opened.database.rows("SELECT key, value FROM sync_metadata"))
    written = key_file_codec.parse(folder_of(config).key_file.read_bytes())
    assert rows["owner_identity_hash"] == config.owner_hash
    assert rows["vault_id"] == written.vault_id
    assert rows["generation"] == written.generation == opened.anchor.generation
    assert rows["key_sequence"] == "1"
    assert rows["created_at"] == str(written.created) == "1763683200"


def test_the_settings_choose_how_a_new_passphrase_is_stretched(tmp_path):
    config = account(tmp_path, kdf="pbkdf2-sha512", kdf_iterations=210_000)
    opener.open_cache(config).close()
    written = key_file_codec.parse(folder_of(config).key_file.read_bytes())
    assert written.slots[0].kdf == kdf.Pbkdf2Sha512(210_000)
    opener.open_cache(replace(config, kdf="argon2id")).close()


def test_by_default_it_is_argon2id_at_production_cost(tmp_path):
    config = account(tmp_path)
    opener.open_cache(config).close()
    written = key_file_codec.parse(folder_of(config).key_file.read_bytes())
    assert written.slots[0].kdf == kdf.Argon2id()


def test_a_raw_key_makes_and_opens_a_cache_at_production_bounds(tmp_path):
    config = account(tmp_path, db_key=RAW_KEY)
    opener.open_cache(config).close()
    with closing(opener.open_cache(config)) as opened:
        assert not opened.created


@pytest.mark.parametrize("weak", ["hunter2", "your key", "hunter2hunter2hunter2"])
def test_a_weak_passphrase_makes_no_cache_unless_it_is_allowed(tmp_path, weak):
    config = account(tmp_path, db_key=Secret(weak))
    error = refused(config)
    assert error.verdict is Verdict.KEY_MISSING
    assert "generate-key" in error.resolution_hint
    assert weak not in error.message + error.resolution_hint
    assert not folder_of(config).generations()
    open_cheaply(replace(config, allow_weak=True)).close()
    open_cheaply(config).close()  # what is there already opens as ever


def test_no_part_of_a_note_or_name_is_in_clear_on_the_disk(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        put(opened, "mark", "PLAINTEXT-MARKER")
        content = b"".join(path.read_bytes() for path in config.account_dir.iterdir())
    content += b"".join(path.read_bytes() for path in config.account_dir.iterdir())
    for clear in (b"PLAINTEXT-MARKER", b"example", b"CREATE TABLE", b"violet"):
        assert clear not in content


def test_a_wrong_key_is_proven_without_touching_anything(tmp_path):
    config = made(tmp_path)
    error = refused(replace(config, db_key=Secret(OTHER)))
    assert error.verdict is Verdict.WRONG_KEY
    assert "DB_ENCRYPTION_KEY" in error.message
    assert OTHER not in error.message


def test_fifty_wrong_keys_with_an_old_log_change_no_byte(tmp_path):
    config = made(tmp_path)
    account_child.leave_log(tmp_path)
    log = database_of(config).with_name(database_of(config).name + "-wal")
    assert log.stat().st_size > 0
    before = fingerprint(config.account_dir)
    for number in range(50):
        with pytest.raises(LockedError) as error:
            open_cheaply(replace(config, db_key=Secret(f"wrong key number {number}")))
        assert error.value.verdict is Verdict.WRONG_KEY
    assert fingerprint(config.account_dir) == before
    with closing(open_cheaply(config)) as opened:
        assert mark_of(opened) == "written"


@pytest.mark.attack(1)
def test_a_wrong_key_does_not_disturb_a_running_server(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as running:
        put(running, "mark", "one")
        with pytest.raises(LockedError):
            open_cheaply(replace(config, db_key=Secret(OTHER)))
        running.database.run("UPDATE sync_metadata SET value = 'two' WHERE key = 'mark'")
    with closing(open_cheaply(config)) as again:
        assert mark_of(again) == "two"


def test_without_a_key_an_existing_cache_stays_closed(tmp_path):
    error = refused(replace(made(tmp_path), db_key=None))
    assert error.verdict is Verdict.KEY_MISSING
    assert error.exit_code == 10


def test_without_a_key_no_cache_is_made_and_the_way_to_one_is_named(tmp_path):
    config = account(tmp_path, db_key=None)
    error = refused(config)
    assert error.verdict is Verdict.KEY_MISSING
    assert "generate-key" in error.resolution_hint
    assert not config.data_dir.exists()


@pytest.mark.parametrize("key", ["raw:123", "   "])
def test_a_malformed_key_is_refused_before_anything_is_made(tmp_path, key):
    config = account(tmp_path, db_key=Secret(key))
    assert refused(config).verdict is Verdict.KEY_MISSING
    assert not config.data_dir.exists()


@pytest.mark.attack(46)
def test_an_unusable_keychain_is_refused_by_name(tmp_path):
    config = account(tmp_path, db_key=None, keychain=True)
    error = refused(config, system=keychains.locked())
    assert error.verdict is Verdict.KEYCHAIN_UNUSABLE


def test_a_key_from_the_keychain_opens(tmp_path):
    system = keychains.working()
    config = account(tmp_path, db_key=None, keychain=True)
    system.set("database-key", config.owner_hash, RAW_KEY)
    open_cheaply(config, system=system).close()
    with closing(open_cheaply(config, system=system)) as opened:
        assert not opened.created


def test_a_missing_key_file_is_taken_from_its_copy_with_a_notice(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.key_file.unlink()
    with closing(open_cheaply(config)) as opened:
        assert "notarium_keys.json.bak" in opened.notices[0]
    assert folder.key_file.read_bytes() == folder.key_copy.read_bytes()
    with closing(open_cheaply(config)) as opened:
        assert opened.notices == ()


@pytest.mark.attack(3)
@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_cut_key_file_is_taken_from_its_copy_and_kept_in_quarantine(tmp_path, length):
    config = made(tmp_path)
    folder = folder_of(config)
    whole = folder.key_file.read_bytes()
    folder.key_file.write_bytes(whole[:length])
    with closing(open_cheaply(config)) as opened:
        assert not opened.created
    assert folder.key_file.read_bytes() == whole
    (kept,) = folder.quarantine.rglob("notarium_keys.json")
    assert kept.read_bytes() == whole[:length]


@pytest.mark.parametrize("copy", [b"", b"rubbish", None])
def test_a_bad_or_missing_copy_is_written_again(tmp_path, copy):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.key_copy.unlink()
    if copy is not None:
        folder.key_copy.touch(mode=0o600)
        folder.key_copy.write_bytes(copy)
    open_cheaply(config).close()
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


def test_a_wrong_key_heals_nothing(tmp_path):
    config = made(tmp_path)
    folder_of(config).key_file.write_bytes(b"damaged")
    refused(replace(config, db_key=Secret(OTHER)))


def test_temporary_files_of_a_crash_are_removed_when_the_key_is_proven(tmp_path):
    config = made(tmp_path)
    temporary = config.account_dir / ".notarium_keys.json.0123456789ab.tmp"
    temporary.touch(mode=0o600)
    refused(replace(config, db_key=Secret(OTHER)))
    assert temporary.exists()
    open_cheaply(config).close()
    assert not temporary.exists()


@pytest.mark.attack(3)
@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 100])
def test_a_damaged_key_file_without_a_copy_is_refused(tmp_path, damage):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.key_file.write_bytes(damage)
    folder.key_copy.write_bytes(damage)
    error = refused(config)
    assert error.verdict is Verdict.KEY_FILE_DAMAGED
    assert "backup" in error.resolution_hint


def test_a_database_without_any_key_file_is_refused(tmp_path):
    config = made(tmp_path)
    folder_of(config).key_file.unlink()
    folder_of(config).key_copy.unlink()
    assert refused(config).verdict is Verdict.KEY_FILE_DAMAGED


def test_a_key_file_of_a_later_release_is_refused(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.key_file.write_bytes(forged(folder.key_file.read_bytes(), lambda f: f.update(version=2)))
    assert refused(config).verdict is Verdict.SCHEMA_NEWER


@pytest.mark.attack(8)
def test_the_key_file_of_another_vault_does_not_open_this_database(tmp_path):
    config, other = made(tmp_path / "one"), made(tmp_path / "other")
    for name in ("key_file", "key_copy"):
        content = getattr(folder_of(other), name).read_bytes()
        getattr(folder_of(config), name).write_bytes(content)
    assert refused(config).verdict is Verdict.DATABASE_MISSING


@pytest.mark.attack(9)
def test_a_database_of_another_vault_under_the_right_name_is_refused(tmp_path):
    config, other = made(tmp_path / "one"), made(tmp_path / "other")
    database_of(config).write_bytes(database_of(other).read_bytes())
    assert refused(config).verdict is Verdict.DATABASE_DAMAGED


@pytest.mark.parametrize("differs", OTHER_ACCOUNTS)
def test_somebody_elses_account_in_the_folder_is_refused(tmp_path, differs):
    config = made(tmp_path)
    other = replace(config, **OTHER_ACCOUNTS[differs])
    assert other.account_dir != config.account_dir
    config.account_dir.rename(other.account_dir)
    assert refused(other).verdict is Verdict.OTHER_OWNER


def flip(path, page):
    patch(path, (page - 1) * PAGE + 100, b"\xff\x00\xff\x00")


def swap_last_pages(path):
    raw = path.read_bytes()
    path.write_bytes(raw[: -2 * PAGE] + raw[-PAGE:] + raw[-2 * PAGE : -PAGE])


DAMAGES = {
    "page 1 changed": (lambda path: flip(path, 1), Verdict.DATABASE_DAMAGED),
    "page 2 changed": (lambda path: flip(path, 2), Verdict.DATABASE_DAMAGED),
    "two pages swapped": (swap_last_pages, Verdict.DATABASE_DAMAGED),
    "cut inside a page": (
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        Verdict.DATABASE_DAMAGED,
    ),
    "cut on a page edge": (
        lambda path: path.write_bytes(path.read_bytes()[:-PAGE]),
        Verdict.DATABASE_DAMAGED,
    ),
    "shorter than a page": (lambda path: path.write_bytes(b"x" * 100), Verdict.DATABASE_DAMAGED),
    "rubbish": (lambda path: path.write_bytes(b"rubbish!" * PAGE), Verdict.DATABASE_DAMAGED),
    "emptied": (lambda path: path.write_bytes(b""), Verdict.DATABASE_MISSING),
    "deleted": (lambda path: path.unlink(), Verdict.DATABASE_MISSING),
}


@pytest.mark.attack(11, 13)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_distinguished_from_a_wrong_key_and_nothing_is_deleted(tmp_path, damage):
    config = made(tmp_path)
    spoil, verdict = DAMAGES[damage]
    spoil(database_of(config))
    assert refused(config).verdict is verdict


@pytest.mark.attack(14)
def test_a_plain_database_in_the_encrypted_ones_place_is_a_mismatch(tmp_path):
    config = made(tmp_path)
    path = database_of(config)
    path.unlink()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("CREATE TABLE t(x)")
    path.chmod(0o600)
    assert refused(config).verdict is Verdict.MODE_MISMATCH


@pytest.mark.attack(10)
@pytest.mark.parametrize("head", [bytes(16), b"SQLite format 3\x00"])
def test_a_damaged_salt_does_no_harm(tmp_path, head):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        put(opened, "mark", "kept")
    patch(database_of(config), 0, head)
    with closing(open_cheaply(config)) as opened:
        assert mark_of(opened) == "kept"
        assert "16 bytes" in opened.notices[0]


def test_a_log_left_by_a_killed_server_is_taken_up(tmp_path):
    made(tmp_path)
    account_child.leave_log(tmp_path)
    with closing(open_cheaply(account(tmp_path))) as opened:
        assert mark_of(opened) == "written"


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_database_of_a_later_release_is_refused_whatever_its_tables_are(tmp_path, encrypted):
    config = account(tmp_path, db_encryption=encrypted, on_unreadable="rebuild")
    with closing(open_cheaply(config)) as opened:
        database = opened.database
        with database.schema_change(), database.transaction(durable=True):
            database.run("PRAGMA user_version = 99")
            database.run("DROP TABLE sync_metadata")
    assert refused(config).verdict is Verdict.SCHEMA_NEWER


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_database_of_an_earlier_release_is_refused(tmp_path, monkeypatch, encrypted):
    config = made(tmp_path, db_encryption=encrypted, on_unreadable="rebuild")
    monkeypatch.setattr(schema_version, "SCHEMA_VERSION", schema_version.SCHEMA_VERSION + 1)
    error = refused(config)
    assert error.verdict is Verdict.SCHEMA_OLDER
    assert "release of MCP Notarium that you had before" in error.resolution_hint


def test_a_database_with_our_tables_and_no_version_is_older_than_its_key_file(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        database = opened.database
        with database.schema_change(), database.transaction(durable=True):
            database.run("PRAGMA user_version = 0")
    assert refused(config).verdict is Verdict.ROLLBACK_SEEN


def test_two_servers_share_one_cache(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as one, closing(open_cheaply(config)) as other:
        put(one, "mark", "shared")
        assert mark_of(other) == "shared"
        assert one.anchor.generation == other.anchor.generation


def test_several_servers_started_at_once_make_one_cache(tmp_path):
    children = [account_child.start_unready(tmp_path) for _ in range(3)]
    try:
        for child in children:
            assert child.stdout.readline() == "ready\n"
        assert len(folder_of(account(tmp_path)).generations()) == 1
    finally:
        for child in children:
            child.communicate("end\n", timeout=30)
    assert not folder_of(account(tmp_path)).quarantine.exists()


def test_a_cache_made_by_another_server_in_the_middle_of_a_look_is_opened(tmp_path, monkeypatch):
    load, others = key_file_store.load, []

    def load_and_be_overtaken(folder, **options):
        files = load(folder, **options)
        if not others:
            others.append(None)
            others.append(open_cheaply(account(tmp_path)))
        return files

    (folder_of(account(tmp_path)).path).mkdir(mode=0o700, parents=True)
    monkeypatch.setattr(key_file_store, "load", load_and_be_overtaken)
    with closing(open_cheaply(account(tmp_path))) as opened, closing(others[1]) as other:
        assert opened.anchor.generation == other.anchor.generation


def test_a_cache_made_by_another_server_before_the_first_look_is_opened(tmp_path, monkeypatch):
    is_trusted, others = opener._is_trusted, []

    def is_trusted_and_made_meanwhile(folder):
        trusted = is_trusted(folder)
        if not others:
            others.append(None)
            others.append(open_cheaply(account(tmp_path)))
        return trusted

    monkeypatch.setattr(opener, "_is_trusted", is_trusted_and_made_meanwhile)
    with closing(open_cheaply(account(tmp_path))) as opened, closing(others[1]) as other:
        assert opened.anchor.generation == other.anchor.generation


@pytest.mark.attack(49)
def test_a_doubled_driver_is_refused(tmp_path, monkeypatch):
    for cached in ("module", "facts"):
        monkeypatch.setattr(driver, cached, getattr(driver, cached).__wrapped__)
    monkeypatch.setattr(
        driver, "installed_versions", lambda: ("sqlcipher3 1", "sqlcipher3-binary 1")
    )
    assert refused(account(tmp_path)).verdict is Verdict.CRYPTO_UNSUITABLE


@pytest.mark.parametrize(
    "change",
    [
        {"cipher_version": ""},
        {"cipher_version": "4.5.0 community"},
        {"fts5": False},
        {"temp_store": 1},
    ],
)
def test_an_unsuitable_driver_is_refused(tmp_path, monkeypatch, change):
    found = replace(driver.facts(), **change)
    monkeypatch.setattr(driver, "facts", lambda: found)
    assert refused(account(tmp_path)).verdict is Verdict.CRYPTO_UNSUITABLE


def test_a_driver_that_cannot_be_loaded_is_refused(tmp_path, monkeypatch):
    def missing():
        raise LockedError(Verdict.CRYPTO_UNSUITABLE, "gone", resolution_hint="Reinstall.")

    monkeypatch.setattr(driver, "facts", missing)
    assert refused(account(tmp_path)).verdict is Verdict.CRYPTO_UNSUITABLE


def test_plain_mode_makes_and_opens_a_plain_cache_with_a_warning_each_time(tmp_path):
    config = account(tmp_path, db_encryption=False, db_key=None)
    for created in (True, False):
        with closing(open_cheaply(config)) as opened:
            assert opened.created is created
            assert opened.data_key is None
            assert opened.anchor.generation == ""
            assert "NOT encrypted" in opened.notices[0]
    assert folder_of(config).plain_database.read_bytes().startswith(b"SQLite format 3")
    assert not folder_of(config).key_file.exists()


def test_plain_mode_beside_an_encrypted_cache_is_refused_and_the_other_way_round(tmp_path):
    encrypted = made(tmp_path / "one")
    assert refused(replace(encrypted, db_encryption=False)).verdict is Verdict.MODE_MISMATCH
    plain = made(tmp_path / "two", db_encryption=False)
    assert refused(replace(plain, db_encryption=True)).verdict is Verdict.MODE_MISMATCH


@pytest.mark.parametrize(
    ("content", "verdict"),
    [(b"", Verdict.DATABASE_MISSING), (b"rubbish" * 1000, Verdict.DATABASE_DAMAGED)],
)
def test_a_damaged_plain_cache_is_refused(tmp_path, content, verdict):
    config = made(tmp_path, db_encryption=False)
    folder_of(config).plain_database.write_bytes(content)
    assert refused(config).verdict is verdict


def test_a_plain_database_that_is_not_ours_is_refused(tmp_path):
    config = made(tmp_path, db_encryption=False)
    path = folder_of(config).plain_database
    path.unlink()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE theirs(x)")
    path.chmod(0o600)
    with pytest.raises(LockedError) as error:
        open_cheaply(config)
    assert error.value.verdict is Verdict.OTHER_OWNER


@pytest.mark.parametrize("differs", OTHER_ACCOUNTS)
def test_somebody_elses_plain_cache_is_refused(tmp_path, differs):
    config = made(tmp_path, db_encryption=False)
    other = replace(config, **OTHER_ACCOUNTS[differs])
    config.account_dir.rename(other.account_dir)
    assert refused(other).verdict is Verdict.OTHER_OWNER


def test_a_verdict_changes_nothing_not_even_a_left_over_log(tmp_path):
    config = made(tmp_path)
    account_child.leave_log(tmp_path)
    before = fingerprint(config.account_dir)
    assert isinstance(inspection.verdict(config), Open)
    assert fingerprint(config.account_dir) == before
    wrong = inspection.verdict(replace(config, db_key=Secret(OTHER)))
    assert isinstance(wrong, Locked)
    assert wrong.verdict is Verdict.WRONG_KEY
    assert fingerprint(config.account_dir) == before


def test_a_verdict_makes_no_folder(tmp_path):
    config = account(tmp_path)
    inspection.verdict(config)
    assert not config.data_dir.exists()


def test_a_verdict_looks_inside_where_that_changes_nothing(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        database = opened.database
        with database.schema_change(), database.transaction(durable=True):
            database.run("PRAGMA user_version = 99")
    before = fingerprint(config.account_dir)
    assert inspection.verdict(config).verdict is Verdict.SCHEMA_NEWER
    assert fingerprint(config.account_dir) == before


def test_closing_twice_is_fine_and_a_closed_cache_opens_again(tmp_path):
    opened = open_cheaply(account(tmp_path))
    opened.close()
    opened.close()
    open_cheaply(account(tmp_path)).close()


@pytest.mark.parametrize(
    "step", ["write_prepared", "verify_prepared", "switch_prepared", "database", "clear"]
)
def test_a_full_disk_during_a_first_start_leaves_nothing_behind(tmp_path, step):
    config = account(tmp_path)

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    with pytest.raises(CacheFull):
        open_cheaply(config, at=fail)
    left = {path.name for path in config.account_dir.iterdir()}
    assert left <= {"keys.lock", "server.lock"}
    with closing(open_cheaply(config)) as opened:
        assert opened.created


def test_a_full_disk_behind_the_commit_point_leaves_a_cache_that_opens(tmp_path):
    config = account(tmp_path)

    def fail(name):
        if name == "write_copy":
            raise OSError(28, "No space left on device")

    with closing(open_cheaply(config, at=fail)) as opened:
        assert opened.created
    with closing(open_cheaply(config)) as opened:
        assert not opened.created
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes()


def test_a_disk_that_fails_right_behind_the_commit_point_keeps_no_file_open(tmp_path):
    config = account(tmp_path)

    def fail(name):
        if name == "switch":
            raise OSError(5, "Input/output error")

    before = sorted(Path("/dev/fd").iterdir())
    with pytest.raises(LockedError) as refused:  # a locked server keeps the error
        open_cheaply(config, at=fail)
    assert sorted(Path("/dev/fd").iterdir()) == before, refused
    with closing(open_cheaply(config)) as opened:
        assert not opened.created


def test_a_failed_start_holds_no_lock(tmp_path):
    config = made(tmp_path)
    for key in (OTHER, "raw:1"):
        with pytest.raises(LockedError):
            open_cheaply(replace(config, db_key=Secret(key)))
    assert purge.reset_account(config) is not None


def test_databases_of_other_generations_are_left_alone(tmp_path):
    config = made(tmp_path)
    unknown_file = folder_of(config).database("0" * 16)
    unknown_file.touch(mode=0o600)
    unknown_file.write_bytes(b"somebody's")
    with closing(open_cheaply(config)) as opened:
        assert not opened.created
    assert unknown_file.read_bytes() == b"somebody's"


def test_the_key_is_stretched_once_although_a_start_may_look_twice(tmp_path, monkeypatch):
    config = made(tmp_path)
    folder_of(config).key_copy.unlink()
    calls, real = [], key_slots.unlock

    def unlock(*given, **named):
        calls.append(given)
        return real(*given, **named)

    monkeypatch.setattr(key_slots, "unlock", unlock)
    open_cheaply(config).close()
    assert len(calls) == 1


def test_a_copy_that_cannot_be_written_is_mentioned_and_the_notes_are_served(tmp_path, monkeypatch):
    config = made(tmp_path)
    folder_of(config).key_copy.unlink()

    def full(*_given, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(key_file_store, "replace_private", full)
    with closing(open_cheaply(config)) as opened:
        assert "no space left" in opened.notices[0]


def test_a_prepared_key_file_that_names_the_live_database_moves_alone(tmp_path):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.prepared_key_file.touch(mode=0o600)
    folder.prepared_key_file.write_bytes(folder.key_file.read_bytes())
    with closing(open_cheaply(config)) as opened:
        assert not opened.created
        assert folder.database(opened.anchor.generation).exists()
    assert not folder.prepared_key_file.exists()


def test_opening_lets_the_database_remember_the_newest_key_file_it_was_opened_with(tmp_path):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        opened.database.run("UPDATE sync_metadata SET value = '0' WHERE key = 'key_sequence'")
    for _ in range(2):
        with closing(open_cheaply(config)) as opened:
            row = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'key_sequence'")
    assert row == ("1",)


@pytest.mark.parametrize("held", [True, False])
def test_reading_a_cache_that_is_in_order_takes_no_key_lock(tmp_path, held):
    config = made(tmp_path)
    folder = folder_of(config)
    folder.keys_lock.unlink(missing_ok=True)
    with locks.key_lock(folder) if held else nullcontext():
        open_cheaply(config, read_only=True).close()
    assert folder.keys_lock.exists() == held
