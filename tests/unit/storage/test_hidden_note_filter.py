"""The gate before the note table: what the rules hide leaves no row that a tool could read."""

from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import PolicyChanged
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.hidden_notes import RULES_KEY
from mcp_notarium.storage.sync_state import LoadProgress
from support import corpus
from support.cache_room import find, make, second_connection, store, suggest

NO_PRIVATE = Visibility(hidden_tags=("private",))
READ_BY_TOOLS = ("notes", "note_base", "note_tags", "note_counts")


def note(note_id, text="words", *tags, etag="r1"):
    return replace(corpus.make(note_id, Content(text, tags)), etag=etag)


def under(cache, rules):
    """The same file under these rules, settled."""
    ruled = Cache(cache.database, rules)
    apply_rules(ruled)
    return ruled


@pytest.fixture
def ruled(cache):
    return under(cache, NO_PRIVATE)


def rows(cache, *tables):
    return {name: cache.database.rows(f"SELECT * FROM {name}") for name in tables}


def found(cache, words):
    return [one.id for one in find(cache, parse(words), limit=9).notes]


def test_a_hidden_note_is_noted_down_by_id_and_revision_and_nothing_else(ruled):
    store(ruled, [note("a", "plain"), note("b", "secretive", "Private")])
    assert ruled.notes.get("b") is None
    assert ruled.notes.base("b") is None
    assert ruled.notes.etags() == {"a": "r1"}
    assert ruled.notes.last_seen_etag("b") == "r1"
    assert ruled.database.rows("SELECT id, etag, rule FROM hidden_notes") == [
        ("b", "r1", 'hidden_tags "Private"')
    ]
    assert found(ruled, "secretive") == []
    assert ruled.notes.counts().total == 1
    dump = repr(rows(ruled, *READ_BY_TOOLS, "hidden_notes", "sync_metadata"))
    assert "secretive" not in dump


def test_rows_and_ranks_are_those_of_a_cache_that_never_saw_the_note(tmp_path, ruled):
    (tmp_path / "other").mkdir(mode=0o700)
    other = under(make(tmp_path / "other"), NO_PRIVATE)
    seen = [note(str(number), "tea " * number + "milk", "x") for number in range(1, 5)]
    hidden = [note("h1", "tea " * 50, "private"), note("h2", "milk", "private")]
    store(other, seen)
    store(ruled, [hidden[0], *seen[:2], hidden[1], *seen[2:]])
    assert rows(ruled, *READ_BY_TOOLS) == rows(other, *READ_BY_TOOLS)
    assert found(ruled, "tea milk") == found(other, "tea milk")
    ranks = "SELECT rowid, rank FROM notes_fts WHERE notes_fts MATCH 'tea' ORDER BY rank"
    assert ruled.database.rows(ranks) == other.database.rows(ranks)
    other.close()


@pytest.mark.parametrize("emptied", [True, False])
def test_a_rule_on_an_id_follows_its_note_from_name_to_name(cache, emptied):
    ruled = under(cache, Visibility(hidden_ids=("a",)))
    for note_id, identity in (("a", "1"), ("b", "1"), ("b", "2"), ("c", "2")):
        store(ruled, [replace(note(note_id, "secretive"), identity=identity)])
        if emptied:
            with ruled.transaction():
                ruled.notes.clear()
    store(ruled, [note("b", "b was its name"), replace(note("d", "another"), identity="3")])
    assert ruled.notes.etags().keys() == {"d"}
    assert found(ruled, "secretive") == []


def test_what_is_stored_goes_when_it_shows_that_it_is_the_hidden_note(cache):
    ruled = under(cache, Visibility(hidden_ids=("a",)))
    store(ruled, [replace(note("b", "secretive"), identity="1")])
    store(ruled, [replace(note("a", "secretive"), identity="1")])
    assert ruled.notes.etags() == {}
    assert suggest(ruled, "secretivf") == []


def test_a_note_that_is_hidden_later_goes_like_a_removed_one_and_comes_back(ruled):
    store(ruled, [note("a", "once secretive")])
    with ruled.transaction():
        done = ruled.notes.apply([note("a", "once secretive", "private", etag="r2")])
    assert (done.stored, done.removed) == (0, 1)
    assert ruled.notes.get("a") is None
    assert found(ruled, "secretive") == []
    assert ruled.notes.last_seen_etag("a") == "r2"
    store(ruled, [note("a", "back", etag="r3")])
    assert ruled.notes.get("a").text == "back"
    assert ruled.database.rows("SELECT * FROM hidden_notes") == []


def test_a_tombstone_ends_the_memory_of_a_hidden_note(ruled):
    store(ruled, [note("a", "x", "private")])
    store(ruled, [Tombstone("a")])
    assert ruled.notes.last_seen_etag("a") is None


def test_hidden_arrivals_do_not_count_as_stored(ruled):
    with ruled.transaction():
        done = ruled.notes.apply([note("a", "x", "private"), note("b")])
    assert (done.stored, done.removed, done.unchanged) == (1, 0, 1)


@pytest.mark.parametrize("count", [1, 30])
def test_words_of_a_hidden_note_suggest_nothing(ruled, count):
    store(ruled, [note(f"n{n}", f"zymurgy{n} zymurgist") for n in range(count)])
    store(ruled, [note("seen", "plain")])
    assert suggest(ruled, "zymurgisd") == ["zymurgist"]
    store(ruled, [note(f"n{n}", "zymurgist", "private", etag="r2") for n in range(count)])
    assert suggest(ruled, "zymurgisd") == []
    assert b"zymurgist" not in ruled.vocabulary._lines
    other = Cache(second_connection(ruled), NO_PRIVATE)
    assert suggest(other, "zymurgisd") == []
    assert b"zymurgist" not in other.vocabulary._lines
    other.close()


@pytest.mark.parametrize("count", [2, 40])
def test_stricter_rules_remove_at_once_and_compare_everything_again(cache, count):
    store(cache, [note(f"n{n}", "secretive", "private") for n in range(count)], cursor="9")
    store(cache, [note("seen", "plain")])
    cache.sync_state.set_progress(LoadProgress(anchor_cursor="9", complete=True))
    ruled = under(cache, NO_PRIVATE)
    assert ruled.notes.etags() == {"seen": "r1"}
    assert len(ruled.notes.visibility.hidden_notes()) == count
    assert ruled.sync_state.cursor() is None
    assert ruled.sync_state.progress().complete
    assert found(ruled, "secretive") == []
    assert ruled.sync_state.get(RULES_KEY) == NO_PRIVATE.digest
    assert integrity.check(ruled.database) == ()
    with ruled.database.path.open("rb") as file:
        assert b"secretive" not in file.read()


def test_looser_rules_forget_the_hidden_notes_so_that_they_are_fetched(ruled):
    store(ruled, [note("a", "x", "private")], cursor="9")
    ruled.sync_state.set_progress(LoadProgress(anchor_cursor="9", mark="m"))
    open_ = under(ruled, Visibility())
    assert open_.database.rows("SELECT * FROM hidden_notes") == []
    assert open_.sync_state.cursor() is None
    assert open_.sync_state.progress() == LoadProgress()
    assert open_.sync_state.get(RULES_KEY) is None


def test_rules_that_hold_already_change_nothing(ruled):
    store(ruled, [note("a")], cursor="9")
    before = ruled.database.rows("SELECT * FROM sync_metadata")
    assert apply_rules(ruled) == 0
    assert ruled.database.rows("SELECT * FROM sync_metadata") == before


def test_a_process_with_other_rules_stores_and_empties_nothing(ruled):
    store(ruled, [note("a")])
    stale = Cache(ruled.database, Visibility())
    for write in (lambda: stale.notes.apply([note("b")]), stale.notes.clear):
        with pytest.raises(PolicyChanged) as refused, stale.transaction():
            write()
        assert "NOTARIUM_DATA_DIR" in refused.value.resolution_hint
    assert ruled.notes.etags() == {"a": "r1"}


def test_emptying_the_cache_forgets_the_hidden_notes(ruled):
    store(ruled, [note("a", "x", "private")])
    with ruled.transaction():
        ruled.notes.clear()
    assert ruled.notes.visibility.hidden_notes() == {}


OF_ANY_STORE = [b'{"tags": []}', b'{"labels": "private"}', b"tags: private\n", b"\xff\x00", b""]
"""What codecs may make of an object; where its tags stand there is nobody else's business."""


def odd(note_id, raw, *seen):
    return replace(note(note_id, "odd", *seen), raw=raw, tags_understood=False)


@pytest.mark.parametrize("raw", OF_ANY_STORE)
@pytest.mark.parametrize(
    "rules", [NO_PRIVATE, Visibility(allowed_tags=("work",), allowed_ids=("b",))]
)
def test_a_note_with_tags_not_understood_is_hidden_by_any_rule_on_tags(cache, rules, raw):
    ruled = under(cache, rules)
    store(ruled, [note("a", "plain", "work"), odd("b", raw, "work")])
    assert ruled.notes.etags() == {"a": "r1"}
    assert ruled.notes.visibility.hidden_notes().keys() == {"b"}


@pytest.mark.parametrize("raw", OF_ANY_STORE)
def test_without_a_rule_on_tags_it_is_shown_and_a_new_rule_hides_it(cache, raw):
    ruled = under(cache, Visibility(hidden_ids=("c",)))
    store(ruled, [note("a", "plain"), odd("b", raw)])
    assert ruled.notes.etags().keys() == {"a", "b"}
    assert ruled.notes.base("b").raw == raw
    assert under(ruled, NO_PRIVATE).notes.etags().keys() == {"a"}


@pytest.mark.parametrize("raw", OF_ANY_STORE)
def test_a_note_with_tags_understood_is_judged_by_its_tags_alone(ruled, raw):
    store(ruled, [replace(note("a"), raw=raw), replace(note("b", "x", "private"), raw=raw)])
    assert ruled.notes.etags().keys() == {"a"}
