"""Totals are counted once, and never one moment longer than they are true."""

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.search import parser
from mcp_notarium.storage import count_cache
from support.cache_room import create, second_connection


def revision(note_id, text, *, etag="1", trash=False):
    return Revision(note_id, etag, Content(text, trash=trash), 1.0, 1.0, "{}")


@pytest.fixture(name="cache")
def _cache(tmp_path):
    cache = create(tmp_path)
    with cache.transaction():
        cache.notes.apply(revision(f"n{number}", f"apple pear {number}") for number in range(30))
    yield cache
    cache.close()


@pytest.fixture(name="counted")
def _counted(cache, monkeypatch):
    """The statements that were counted anew."""
    asked = []
    number = cache.database.number

    def noting(sql, parameters=()):
        if "MATCH" in sql:
            asked.append(parameters)
        return number(sql, parameters)

    monkeypatch.setattr(cache.database, "number", noting)
    return asked


def total(cache, text="apple", *, page=0):
    return cache.search.find(parser.parse(text), limit=5, offset=5 * page).total


def test_pages_of_one_query_are_counted_once(cache, counted):
    assert [total(cache, "apple pear", page=page) for page in range(4)] == [30] * 4
    assert len(counted) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (revision("new", "apple"), 31),
        (Tombstone("n3"), 29),
        (revision("n3", "apple", etag="2", trash=True), 29),
        (revision("n3", "plum", etag="2"), 29),
    ],
)
def test_a_change_here_is_counted(cache, change, expected):
    assert total(cache) == 30
    with cache.transaction():
        cache.notes.apply([change])
    assert total(cache) == expected


def test_a_change_by_another_process_is_counted(cache, tmp_path):
    assert total(cache) == 30
    other = second_connection(cache)
    with other.transaction():
        other.run("UPDATE notes SET trash = 1 WHERE id = 'n3'")
    other.close()
    assert total(cache) == 29


def test_what_a_transaction_counted_and_took_back_is_forgotten(cache):
    def undone():
        with cache.transaction():
            cache.notes.apply([Tombstone("n3")])
            assert total(cache) == 29
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert total(cache) == 30


def test_an_emptied_cache_has_none(cache):
    assert total(cache) == 30
    with cache.transaction():
        cache.notes.clear()
    assert total(cache) == 0


def test_what_is_written_down_meanwhile_changes_no_total(cache, counted):
    assert total(cache, "apple pear") == 30
    with cache.transaction():
        cache.sync_state.set("anything", "else")
    assert total(cache, "apple pear") == 30
    assert len(counted) == 1


def test_no_more_than_so_many_are_kept(cache, counted):
    words = [f"apple -plum{number}" for number in range(count_cache.MOST_KEPT + 1)]
    for word in (*words, words[-1], words[0]):
        assert total(cache, word) == 30
    assert len(counted) == len(words) + 1
