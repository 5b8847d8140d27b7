"""A plain cache becomes an encrypted one, and nothing readable is left."""

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import plaintext_migration
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf
from mcp_notarium.errors import CacheDamaged, CacheFull, InvalidRequest, LockedError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage import table_copy
from support import account_child
from support.account import BOUNDS, PASSPHRASE, account, fingerprint, folder_of, made, open_cheaply
from support.simplenote_settings import simplenote

KEY = Secret(PASSPHRASE)
GIVEN = ChangeOptions(bounds=BOUNDS)
MARK = "a sentence that must not be readable afterwards"
STEPS = ["alone", "prepare", "create", "copy", "verify"]
COMMITTED = ["switch", "write_copy", "switch_copy", "retire"]


def plain(folder):
    """Settings of the encrypted mode for an account whose cache is a plain one with a mark."""
    config = account(folder)
    with closing(open_cheaply(replace(config, db_encryption=False))) as opened:
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', ?)", (MARK,))
    return config


def encrypt(config, key=KEY, options=GIVEN, **others):
    return plaintext_migration.encrypt_plain(
        config, key, parameters=kdf.CHEAPEST, options=options, **others
    )


def mark(config):
    with closing(open_cheaply(config)) as opened:
        row = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
        return row and row[0]


def readable(folder):
    """Files in which the mark can be read."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if MARK.encode() in path.read_bytes()]


def refused(config, error, **options):
    before = fingerprint(config.account_dir)
    with pytest.raises(error) as caught:
        encrypt(config, **options)
    assert fingerprint(config.account_dir) == before
    assert mark(replace(config, db_encryption=False)) == MARK
    return caught.value


def test_everything_is_in_the_encrypted_cache_and_nothing_readable_is_left(tmp_path):
    config = plain(tmp_path)
    assert readable(tmp_path)
    encrypt(config)
    assert mark(config) == MARK
    assert readable(tmp_path) == []
    (generation,) = folder_of(config).generations()
    assert generation.encode() in folder_of(config).key_file.read_bytes()
    assert not folder_of(config).plain_database.exists()


def test_the_plain_bytes_are_overwritten_before_the_file_is_removed(tmp_path):
    config = plain(tmp_path)
    path = folder_of(config).plain_database
    with path.open("rb") as held:
        encrypt(config)
        assert held.read() == b""


def test_erasing_a_link_removes_it_and_what_it_leads_to_stays(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    link = tmp_path / "link"
    link.symlink_to(precious)
    plaintext_migration.erase(link)
    assert precious.read_text() == "keep me"
    assert not link.is_symlink()
    plaintext_migration.erase(tmp_path / "nowhere")


def test_without_a_plain_cache_there_is_nothing_to_do(tmp_path):
    with pytest.raises(InvalidRequest):
        encrypt(account(tmp_path))
    config = made(tmp_path)
    with pytest.raises(InvalidRequest):
        encrypt(config)
    open_cheaply(config).close()


def test_another_accounts_plain_cache_is_refused(tmp_path):
    config = plain(tmp_path)
    other = replace(config, **simplenote("other@example.com"))
    shutil.copytree(config.account_dir, other.account_dir)
    with pytest.raises(LockedError) as error:
        encrypt(other)
    assert error.value.verdict is Verdict.OTHER_OWNER


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_while_a_server_has_it_open_it_is_refused(tmp_path):
    config = plain(tmp_path)
    with (
        closing(open_cheaply(replace(config, db_encryption=False))),
        pytest.raises(LockedError) as e,
    ):
        encrypt(config)
    assert e.value.verdict is Verdict.BUSY
    assert mark(replace(config, db_encryption=False)) == MARK


@pytest.mark.parametrize("step", STEPS)
def test_a_disk_that_fills_up_leaves_the_plain_cache_as_it_was(tmp_path, step):
    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    refused(plain(tmp_path), CacheFull, options=replace(GIVEN, at=fail))


def test_a_copy_that_differs_never_counts(tmp_path, monkeypatch):
    real = table_copy.copy_into

    def lossy(source, target, **options):
        real(source, target, **options)
        target.run("DELETE FROM sync_metadata WHERE key = 'mark'")

    monkeypatch.setattr(table_copy, "copy_into", lossy)
    refused(plain(tmp_path), CacheDamaged)


@pytest.mark.parametrize("step", [*STEPS, *COMMITTED])
def test_killed_at_any_step_nothing_is_lost_and_the_next_run_ends_it(tmp_path, step):
    config = plain(tmp_path)
    assert account_child.run(tmp_path, "encrypt", step) == account_child.KILLED
    assert readable(config.account_dir)
    key = Secret(account_child.OTHER)
    encrypt(config, key)
    assert mark(replace(config, db_key=key)) == MARK
    assert readable(tmp_path) == []
    assert len(folder_of(config).generations()) == 1


def half_erased(folder, content):
    """A run that was cut short when so much of the plain database was overwritten."""
    config = plain(folder)
    assert account_child.run(folder, "encrypt", "retire") == account_child.KILLED
    remains = folder_of(config).plain_remains
    remains.write_bytes(content(remains.read_bytes()))
    return replace(config, db_key=Secret(account_child.OTHER))


@pytest.mark.parametrize(
    "content",
    [
        lambda whole: whole,
        lambda whole: bytes(4096) + whole[4096:],
        lambda whole: whole[:4096] + bytes(len(whole) - 4096),
        lambda _whole: b"",
    ],
    ids=["nothing", "the beginning", "all but the beginning", "everything"],
)
def test_interrupted_erasing_is_reported_at_the_start_and_continued_by_the_next_run(
    tmp_path, content
):
    config = half_erased(tmp_path, content)
    with pytest.raises(LockedError, match="cut short while it erased") as error:
        open_cheaply(config)
    assert "migrate-plaintext` again" in error.value.resolution_hint
    encrypt(config, config.db_key)
    assert mark(config) == MARK
    assert readable(tmp_path) == []
    assert not folder_of(config).plain_remains.exists()


def test_the_plain_cache_stays_until_the_encrypted_one_is_proven(tmp_path):
    config = half_erased(tmp_path, lambda whole: whole)
    with pytest.raises(LockedError) as error:
        encrypt(config, KEY)
    assert error.value.verdict is Verdict.WRONG_KEY
    for path in config.account_dir.glob("*.encrypted*"):
        path.unlink()
    with pytest.raises(LockedError) as error:
        encrypt(config, config.db_key)
    assert error.value.verdict is Verdict.DATABASE_MISSING
    assert MARK.encode() in folder_of(config).plain_remains.read_bytes()


def test_a_new_plain_cache_beside_the_remains_of_an_old_one_is_not_mixed_up_with_it(tmp_path):
    config = plain(tmp_path)
    folder_of(config).plain_remains.write_bytes(b"older")
    folder_of(config).plain_remains.chmod(0o600)
    encrypt(config)
    assert mark(config) == MARK
    assert readable(tmp_path) == []
    assert not folder_of(config).plain_remains.exists()


def test_an_encrypted_cache_with_other_content_is_never_taken_for_the_copy(tmp_path):
    config = plain(tmp_path)
    other = made(tmp_path / "other")
    for path in other.account_dir.iterdir():
        if path.is_file():
            shutil.copy(path, config.account_dir / path.name)
    with pytest.raises(LockedError) as error:
        encrypt(config)
    assert error.value.verdict is Verdict.MODE_MISMATCH
    assert folder_of(config).plain_database.exists()
