import pytest

from mcp_notarium.audit.chain import Seal
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CacheError
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import database, schema
from mcp_notarium.storage.audit_table import AuditTable
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.schema import MIGRATIONS, SCHEMA_VERSION, Migration
from support import corpus
from support.cache_room import KEY, create, make, reopen, store

NEXT = SCHEMA_VERSION + 1
WIDER = Migration(NEXT, "a colour for each note", ("ALTER TABLE notes ADD COLUMN colour TEXT",))
BROKEN = Migration(
    NEXT, "breaks half-way", ("CREATE TABLE half (x)", "INSERT INTO nowhere VALUES (1)")
)
THIRD = Migration(NEXT + 1, "a table", ("CREATE TABLE third (x)",))


def records(db):
    return db.rows("SELECT version, name FROM schema_migrations ORDER BY version")


def tables(db):
    return {row[0] for row in db.rows("SELECT name FROM sqlite_master")}


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_a_new_cache_has_the_current_schema_and_says_whose_it_is(tmp_path, key):
    made = create(tmp_path, key=key).database
    found = schema.state(made)
    assert found.version == SCHEMA_VERSION
    assert found.ours
    assert not found.newer_than()
    assert not found.older_than()
    assert records(made) == [(step.version, step.name) for step in MIGRATIONS]
    made.close()


def test_an_up_to_date_cache_takes_no_step(cache):
    assert schema.migrate(cache.database) == ()


def test_an_older_cache_takes_the_missing_steps_and_keeps_its_notes(tmp_path, cache):
    kept = list(corpus.revisions(10))
    store(cache, kept)
    assert schema.state(cache.database).older_than(NEXT + 1)
    assert schema.migrate(cache.database, (*MIGRATIONS, WIDER, THIRD)) == (NEXT, NEXT + 1)
    cache.close()
    again = reopen(tmp_path)
    assert again.database.user_version() == NEXT + 1
    assert [version for version, _ in records(again.database)] == list(range(1, NEXT + 2))
    assert [again.notes.base(note.id) for note in kept] == kept
    assert schema.state(again.database).newer_than()
    again.close()


def test_a_step_that_fails_leaves_the_version_before_it(cache):
    with pytest.raises(CacheError):
        schema.migrate(cache.database, (*MIGRATIONS, BROKEN))
    assert cache.database.user_version() == SCHEMA_VERSION
    assert "half" not in tables(cache.database)
    assert [version for version, _ in records(cache.database)] == list(range(1, NEXT))
    assert schema.migrate(cache.database, (*MIGRATIONS, WIDER)) == (NEXT,)


def test_a_step_another_process_took_meanwhile_is_not_taken_twice(tmp_path, cache):
    steps = (*MIGRATIONS, WIDER)
    other = reopen(tmp_path)
    assert schema.migrate(other.database, steps) == (NEXT,)
    assert schema.migrate(cache.database, steps) == ()
    other.close()


def test_a_cache_of_version_2_gets_room_for_an_audit_chain(tmp_path):
    path = tmp_path / "cache.db"
    path.touch(mode=0o600)
    older = database._open(path, KEY, memory_security=False, busy_timeout=1)
    schema.create_tables(older, meta={}, migrations=MIGRATIONS[:2])
    schema.migrate(older)
    chain = AuditTable(older, Seal(None))
    chain.begin(1.0, facts={"why": "upgraded"})
    chain.begin(2.0, facts={"why": "upgraded"})
    assert [record.at_ms for record in chain.records()] == [1000]
    older.close()


def test_migrations_are_numbered_from_one_without_gaps():
    assert [step.version for step in MIGRATIONS] == list(range(1, SCHEMA_VERSION + 1))


def test_a_database_with_tables_and_no_version_is_not_ours(tmp_path):
    cache = make(tmp_path)
    with cache.database.schema_change():
        cache.database.run("PRAGMA user_version = 0")
    found = schema.state(cache.database)
    assert found.tables > 0
    assert not found.ours
    assert not found.empty
    cache.close()


def test_a_database_of_another_program_is_not_ours(tmp_path):
    cache = make(tmp_path)
    with cache.database.schema_change():
        cache.database.run("PRAGMA application_id = 7")
    cache.close()
    again = database.connect(tmp_path / "cache.db", KEY)
    assert not schema.state(again).ours
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
            "INSERT INTO note_base(pk, etag, created_at, modified_at, raw) VALUES (9, 'e', 0, 0, '')"
        )


def test_search_finds_phrases_across_scripts_in_a_cache_of_version_1(tmp_path):
    texts = {
        "a": "Web会議 の資料",
        "b": "会議の資料はWebにあります",
        "c": "Zürich\nđường",
        "d": "plain",
    }
    path = tmp_path / "cache.db"
    made = make(tmp_path)
    made.close()
    path.unlink()
    path.touch(mode=0o600)
    first = database._open(path, KEY, memory_security=False, busy_timeout=1)
    schema.create_tables(first, meta={}, migrations=MIGRATIONS[:1])
    cache = Cache(first)
    store(cache, [corpus.make(note_id, Content(text)) for note_id, text in texts.items()])
    with cache.transaction():
        # What version 1 kept beside such a note.
        old = {"a": "web 0000000 00264160035696 0035696", "b": "web 0000000 0026416", "c": "duong"}
        for note_id, supplement in old.items():
            cache.database.run(
                "UPDATE notes SET supplement = ? WHERE id = ?", (supplement, note_id)
            )
    assert cache.search.find(parse('"Web会議"'), limit=9).total == 0
    assert schema.migrate(cache.database, MIGRATIONS[:2]) == (2,)
    assert [n.id for n in cache.search.find(parse('"Web会議"'), limit=9).notes] == ["a"]
    assert [n.id for n in cache.search.find(parse('"zurich duong"'), limit=9).notes] == ["c"]
    assert [n.id for n in cache.search.find(parse("plain"), limit=9).notes] == ["d"]
    assert cache.database.check(deep=True) == ()
    cache.close()


def test_a_rehearsed_migration_leaves_nothing_whether_it_goes_through_or_not(cache):
    before = (tables(cache.database), records(cache.database), cache.database.user_version())
    schema.rehearse(cache.database, (*MIGRATIONS, WIDER, THIRD))
    with pytest.raises(CacheError):
        schema.rehearse(cache.database, (*MIGRATIONS, BROKEN))
    assert (
        tables(cache.database),
        records(cache.database),
        cache.database.user_version(),
    ) == before
    (made,) = cache.database.rows("SELECT sql FROM sqlite_master WHERE name = 'notes'")
    assert "colour" not in made[0]
