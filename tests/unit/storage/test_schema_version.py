import pytest

from mcp_notarium.errors import CacheError
from mcp_notarium.storage import database_opener, schema_version
from mcp_notarium.storage.schema_version import SCHEMA_VERSION, is_ours
from support import corpus
from support.cache_room import KEY, create, make, store


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_a_new_cache_has_the_current_schema_and_says_whose_it_is(tmp_path, key):
    made = create(tmp_path, key=key).database
    assert made.user_version() == SCHEMA_VERSION
    assert is_ours(made)
    made.close()


def test_a_creation_that_breaks_half_way_leaves_neither_table_nor_mark(monkeypatch):
    empty = database_opener._open(database_opener.MEMORY, None, memory_security=False)
    broken = (*schema_version.STATEMENTS, "INSERT INTO nowhere VALUES (1)")
    monkeypatch.setattr(schema_version, "STATEMENTS", broken)
    with pytest.raises(CacheError):
        schema_version.create_tables(empty, meta={"mark": "kept"})
    assert empty.number("SELECT count(*) FROM sqlite_master") == 0
    assert empty.user_version() == 0
    assert not is_ours(empty)
    empty.close()


def test_a_database_of_another_program_is_not_ours(tmp_path):
    cache = make(tmp_path)
    with cache.database.schema_change():
        cache.database.run("PRAGMA application_id = 7")
    cache.close()
    again = database_opener.connect(tmp_path / "cache.db", KEY)
    assert not is_ours(again)
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
