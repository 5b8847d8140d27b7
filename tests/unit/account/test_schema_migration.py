from contextlib import closing

import pytest

from mcp_notarium.account import rewrite
from mcp_notarium.errors import CacheFull, LockedError, Verdict
from mcp_notarium.storage import migrations
from support.account import account, fingerprint, folder_of, made, open_cheaply

NOW = migrations.SCHEMA_VERSION
GOOD = migrations.Migration(
    NOW + 1, "add a column", ("ALTER TABLE sync_metadata ADD COLUMN note TEXT",)
)
BAD = migrations.Migration(
    NOW + 1, "fail half-way", ("CREATE TABLE half(x)", "SELECT * FROM nowhere")
)


@pytest.fixture
def release(monkeypatch):
    """Make this release one whose schema is a version further."""

    def of(step):
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", step.version)
        monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, step))

    return of


@pytest.mark.parametrize("encrypted", [True, False])
def test_an_older_database_is_migrated_after_a_copy_was_made(tmp_path, release, encrypted):
    config = made(tmp_path, db_encryption=encrypted)
    before = fingerprint(config.account_dir)
    release(GOOD)
    with closing(open_cheaply(config)) as opened:
        assert opened.database.user_version() == NOW + 1
        assert any(f"from schema {NOW} to {NOW + 1}" in notice for notice in opened.notices)
        assert not opened.created
    (copy,) = folder_of(config).quarantine.rglob("notarium_cache*")
    assert before[copy.name] == fingerprint(copy.parent)[copy.name]
    with closing(open_cheaply(config)) as again:
        assert not any("schema" in notice for notice in again.notices)


def test_the_copy_is_a_cache_that_opens_again(tmp_path, release):
    config = account(tmp_path)
    with closing(open_cheaply(config)) as opened:
        opened.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'kept')")
    release(GOOD)
    open_cheaply(config).close()
    (copy,) = folder_of(config).quarantine.rglob("notarium_cache*")
    copy.replace(config.account_dir / copy.name)
    with closing(open_cheaply(config)) as opened:
        row = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
        assert row == ("kept",)


def test_a_migration_that_fails_leaves_the_old_schema_and_its_own_verdict(tmp_path, release):
    config = made(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "SCHEMA_VERSION", NOW + 1)
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, BAD))
        with pytest.raises(LockedError) as refused:
            open_cheaply(config)
    assert refused.value.verdict is Verdict.MIGRATION_FAILED
    assert "mcp-notarium reset-cache" in refused.value.resolution_hint
    with closing(open_cheaply(config)) as opened:
        assert opened.database.user_version() == NOW
        assert opened.database.number("SELECT count(*) FROM sqlite_master WHERE name = 'half'") == 0


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_nothing_is_migrated_under_a_running_server(tmp_path, release):
    config = account(tmp_path)
    with closing(open_cheaply(config)):
        release(GOOD)
        with pytest.raises(LockedError) as refused:
            open_cheaply(config)
    assert refused.value.verdict is Verdict.BUSY


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_copy_that_differs_stops_the_migration(tmp_path, release, monkeypatch, encrypted):
    config = made(tmp_path, db_encryption=encrypted)
    release(GOOD)
    real = rewrite._copy_database

    def spoiled(path, copy):
        real(path, copy)
        *body, last = copy.read_bytes()
        copy.write_bytes(bytes([*body, last ^ 1]))
        return copy

    monkeypatch.setattr(rewrite, "_copy_database", spoiled)
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.MIGRATION_FAILED


def test_a_full_disk_while_copying_leaves_the_old_schema(tmp_path, release, monkeypatch):
    config = made(tmp_path)
    release(GOOD)

    def full(_path, _copy):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rewrite, "_copy_database", full)
    with pytest.raises(CacheFull):
        open_cheaply(config)


def test_a_damaged_page_that_no_sample_saw_stops_the_migration(tmp_path, release):
    config = made(tmp_path)
    (generation,) = folder_of(config).generations()
    path = folder_of(config).database(generation)
    pages = path.stat().st_size // 4096
    unseen = next(page for page in range(4, pages) if page not in {pages // 2, pages})
    with path.open("r+b") as file:
        file.seek((unseen - 1) * 4096 + 50)
        file.write(b"\xff\x00\xff")
    release(GOOD)
    before = path.read_bytes()
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.MIGRATION_FAILED
    assert path.read_bytes() == before


def test_a_log_that_is_left_stops_the_migration(tmp_path):
    config = made(tmp_path)
    (generation,) = folder_of(config).generations()
    path = folder_of(config).database(generation)
    path.with_name(path.name + "-wal").write_bytes(b"x" * 100)
    with pytest.raises(LockedError) as refused:
        rewrite.migrate(folder_of(config), path, None, None, now=0.0)
    assert refused.value.verdict is Verdict.MIGRATION_FAILED
    assert not folder_of(config).quarantine.exists()
