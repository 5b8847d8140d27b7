from unittest.mock import patch

import pytest

from mcp_notarium.errors import CacheError
from mcp_notarium.storage import database_opener, migrations
from mcp_notarium.storage.migrations import MIGRATIONS, SCHEMA_VERSION, Migration
from support import corpus
from support.cache_room import KEY, create, make, reopen, store

NEXT = SCHEMA_VERSION + 1
WIDER = Migration(NEXT, "a colour for each note", ("ALTER TABLE notes ADD COLUMN colour TEXT",))
BROKEN = Migration(
    NEXT, "breaks half-way", ("CREATE TABLE half (x)", "INSERT INTO nowhere VALUES (1)")
)
THIRD = Migration(NEXT + 1, "a table", ("CREATE TABLE third (x)",))


def run(action, database, *steps):
    """Run it as a release whose schema has these steps, too."""
    with patch.object(migrations, "MIGRATIONS", (*MIGRATIONS, *steps)):
        return action(database)


def records(db):
    return db.rows("SELECT version, name FROM schema_migrations ORDER BY version")


def tables(db):
    return {row[0] for row in db.rows("SELECT name FROM sqlite_master")}


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_a_new_cache_has_the_current_schema_and_says_whose_it_is(tmp_path, key):
    made = create(tmp_path, key=key).database
    found = migrations.state(made)
    assert found.version == SCHEMA_VERSION
    assert found.ours
    assert records(made) == [(step.version, step.name) for step in MIGRATIONS]
    made.close()


def test_an_up_to_date_cache_takes_no_step(cache):
    assert migrations.migrate(cache.database) == ()


def test_an_older_cache_takes_the_missing_steps_and_keeps_its_notes(tmp_path, cache):
    kept = list(corpus.revisions(10))
    store(cache, kept)
    assert migrations.state(cache.database).version < NEXT + 1
    assert run(migrations.migrate, cache.database, WIDER, THIRD) == (NEXT, NEXT + 1)
    cache.close()
    again = reopen(tmp_path)
    assert again.database.user_version() == NEXT + 1
    assert [version for version, _ in records(again.database)] == list(range(1, NEXT + 2))
    assert [again.notes.base(note.id) for note in kept] == kept
    assert migrations.state(again.database).version > SCHEMA_VERSION
    again.close()


def test_a_step_that_fails_leaves_the_version_before_it(cache):
    with pytest.raises(CacheError):
        run(migrations.migrate, cache.database, BROKEN)
    assert cache.database.user_version() == SCHEMA_VERSION
    assert "half" not in tables(cache.database)
    assert [version for version, _ in records(cache.database)] == list(range(1, NEXT))
    assert run(migrations.migrate, cache.database, WIDER) == (NEXT,)


def test_a_step_another_process_took_meanwhile_is_not_taken_twice(tmp_path, cache):
    other = reopen(tmp_path)
    assert run(migrations.migrate, other.database, WIDER) == (NEXT,)
    assert run(migrations.migrate, cache.database, WIDER) == ()
    other.close()


def test_migrations_are_numbered_from_one_without_gaps():
    assert [step.version for step in MIGRATIONS] == list(range(1, SCHEMA_VERSION + 1))


def test_a_database_with_tables_and_no_version_is_not_ours(tmp_path):
    cache = make(tmp_path)
    with cache.database.schema_change():
        cache.database.run("PRAGMA user_version = 0")
    assert not migrations.state(cache.database).ours
    cache.close()


def test_a_database_of_another_program_is_not_ours(tmp_path):
    cache = make(tmp_path)
    with cache.database.schema_change():
        cache.database.run("PRAGMA application_id = 7")
    cache.close()
    again = database_opener.connect(tmp_path / "cache.db", KEY)
    assert not migrations.state(again).ours
    again.close()


def test_text_cannot_stand_where_a_number_belongs(cache):
    store(cache, corpus.revisions(1))
    with pytest.raises(CacheError):
        cache.database.run("UPDATE notes SET modified_at = 'yesterday'")
    with pytest.raises(CacheError):
        cache.database.run("UPDATE notes SET trash = 2")


def test_a_base_without_its_note_is_impossible(cache):
    with pytest.raises(CacheError):
        cache.database.run(
            "INSERT INTO note_base(pk, etag, created_at, modified_at, raw) VALUES (9, 'e', 0, 0, x'')"
        )


def test_a_rehearsed_migration_leaves_nothing_whether_it_goes_through_or_not(cache):
    before = (tables(cache.database), records(cache.database), cache.database.user_version())
    run(migrations.rehearse, cache.database, WIDER, THIRD)
    with pytest.raises(CacheError):
        run(migrations.rehearse, cache.database, BROKEN)
    assert (
        tables(cache.database),
        records(cache.database),
        cache.database.user_version(),
    ) == before
    (made,) = cache.database.rows("SELECT sql FROM sqlite_master WHERE name = 'notes'")
    assert "colour" not in made[0]
