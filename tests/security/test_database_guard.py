"""Test that an injected statement on an open cache can only read and write rows."""

import pytest

from mcp_notarium.errors import CacheError
from mcp_notarium.storage.schema_version import APPLICATION_ID, SCHEMA_VERSION
from support import corpus
from support.cache_room import KEY, make, store

DENIED = [
    "ATTACH DATABASE '{target}' AS thief KEY ''",
    "ATTACH DATABASE ':memory:' AS thief",
    "DETACH DATABASE main",
    "SELECT sqlcipher_export('main')",
    "SELECT load_extension('{target}')",
    "SELECT fts3_tokenizer('simple')",
    "VACUUM",
    "VACUUM INTO '{target}'",
    "PRAGMA temp_store = 1",
    "PRAGMA temp_store = FILE",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA key = 'x'",
    "PRAGMA cipher_memory_security = OFF",
    "PRAGMA cipher_log = '{target}'",
    "PRAGMA cipher_profile = '{target}'",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode",
    "PRAGMA synchronous = OFF",
    "PRAGMA secure_delete = OFF",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA trusted_schema = ON",
    "PRAGMA writable_schema = ON",
    "PRAGMA mmap_size = 1000000",
    "PRAGMA user_version = 99",
    "PRAGMA application_id = 1",
    "PRAGMA main.user_version = 99",
    "CREATE TABLE loot (x)",
    "CREATE TRIGGER spy AFTER INSERT ON notes BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER spy AFTER INSERT ON notes BEGIN SELECT 1; END",
    "CREATE VIEW loot AS SELECT 1",
    "CREATE VIRTUAL TABLE loot USING fts5(x)",
    "CREATE VIRTUAL TABLE temp.loot USING fts4(x)",
    "ANALYZE",
    "PRAGMA optimize",
    "DROP TABLE notes",
    "DROP TRIGGER notes_uncounted",
    "DROP INDEX notes_listing",
    "ALTER TABLE notes RENAME TO loot",
]
KEY_CHANGE = "re" + "key"


@pytest.fixture(params=[KEY, None], ids=["encrypted", "plain"])
def cache(request, tmp_path):
    made = make(tmp_path, key=request.param)
    store(made, corpus.revisions(3))
    yield made
    made.close()


@pytest.mark.attack(24, 29)
@pytest.mark.parametrize("statement", [*DENIED, f"PRAGMA {KEY_CHANGE} = 'x'"])
def test_a_statement_that_could_leak_or_destroy_is_denied(cache, tmp_path, statement):
    target = tmp_path / "loot"
    with pytest.raises(CacheError):
        cache.database.rows(statement.format(target=target, folder=tmp_path))
    assert not target.exists()
    assert cache.notes.counts().total == 3
    assert cache.database.user_version() == SCHEMA_VERSION
    assert cache.database.number("PRAGMA application_id") == APPLICATION_ID


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA data_version",
        "PRAGMA user_version",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA wal_autocheckpoint = 0",
        "PRAGMA synchronous",
        "PRAGMA quick_check",
        "PRAGMA integrity_check",
        "PRAGMA cipher_integrity_check",
        "PRAGMA application_id",
        "CREATE VIRTUAL TABLE temp.v USING fts5vocab('main', 'notes_fts', 'row')",
        "SELECT count(*) FROM notes_fts WHERE notes_fts MATCH 'note'",
    ],
)
def test_what_the_program_needs_is_permitted(cache, statement):
    cache.database.rows(statement)


def test_the_creation_of_tables_may_still_not_attach(cache, tmp_path):
    with cache.database.schema_change():
        cache.database.run("CREATE TABLE extra (x)")
        with pytest.raises(CacheError):
            cache.database.run("ATTACH DATABASE ? AS thief", (str(tmp_path / "loot"),))
    with pytest.raises(CacheError):
        cache.database.run("DROP TABLE extra")
    assert not (tmp_path / "loot").exists()


def test_temporary_data_stays_in_memory(cache):
    # temp_store itself cannot be asked any more; the connection was refused unless it was MEMORY.
    with pytest.raises(CacheError):
        cache.database.number("PRAGMA temp_store")
