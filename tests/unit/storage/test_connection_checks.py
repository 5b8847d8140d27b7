"""Looking through a database that another process writes to finds no damage that is none."""

from mcp_notarium.storage.connection import Database
from support import corpus
from support.cache_room import make, second_connection, store

OPTIMISE = "INSERT INTO notes_fts(notes_fts) VALUES ('optimize')"
SEARCH = "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'the' LIMIT 1"


def test_search_index_that_was_merged_elsewhere_is_not_taken_for_damaged(tmp_path):
    cache = make(tmp_path)
    revisions = list(corpus.revisions(60))
    for number in range(0, 60, 5):
        store(cache, revisions[number : number + 5])
    looking = second_connection(cache)
    looking.rows(SEARCH)
    cache.database.run(OPTIMISE)
    assert looking.walk(deep=True) == ()
    looking.close()
    cache.close()


def test_what_seems_wrong_once_is_looked_at_again(tmp_path, monkeypatch):
    cache = make(tmp_path)
    store(cache, corpus.revisions(5))
    answers = [("fts5: corruption found",), ("fts5: corruption found",), ()]
    monkeypatch.setattr(Database, "_found", lambda _self, _questions: answers.pop(0))
    assert cache.database.walk(deep=True) == ()
    assert cache.database.rows("SELECT 1") != []
    answers += [("page 7 is never used",)] * 3
    assert cache.database.walk(deep=True) == ("page 7 is never used",)
    assert answers == []
    cache.close()
