"""Which pages a listing or a change touches: the wide table is read for the rows of one page only."""

from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.search.parser import parse
from mcp_notarium.search.sql_builder import Statement, build
from mcp_notarium.storage import note_rows
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.hidden_notes import RULES_KEY
from support import corpus
from support.cache_room import find, store
from support.journal_entries import make_unfinished

QUERIES = [
    None,
    "trash:any",
    "trash:yes",
    "python",
    '"data model"',
    "tag:work",
    "tag:work python -tag:home",
    "path:Work",
    "path:Work python -path:Work/Old",
    "before:2024-01-01",
    "after:2020-01-01 exception",
    "東京",
]


def plan(cache, statement):
    rows = cache.database.rows(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
    return [row[3] for row in rows]


def reads_wide_rows(step):
    """Whether a step goes through ``notes`` itself and not through one of its narrow indexes."""
    about_notes = step.split(" ")[1:2] in (["n"], ["m"], ["wide"], ["notes"])
    return about_notes and "COVERING INDEX" not in step


STORED = [*corpus.revisions(40, mix=corpus.MOTLEY)]


@pytest.fixture
def filled(cache):
    store(cache, STORED)
    return cache


@pytest.mark.parametrize("order", [None, "created_at"])
@pytest.mark.parametrize("text", QUERIES, ids=str)
def test_a_page_reads_the_wide_table_by_key_only_for_its_own_rows(filled, text, order):
    statements = build(parse(text, sort_by=order), limit=20, offset=0)
    wide = [step for step in plan(filled, statements.rows) if reads_wide_rows(step)]
    assert wide == ["SEARCH n USING INTEGER PRIMARY KEY (rowid=?)"]


@pytest.mark.parametrize("text", QUERIES, ids=str)
def test_counting_never_reads_the_wide_table(filled, text):
    count = build(parse(text), limit=20, offset=0).count
    assert not [step for step in plan(filled, count) if reads_wide_rows(step)]


def test_the_newest_page_is_read_in_index_order_without_sorting_all_notes(filled):
    steps = plan(filled, build(parse(None), limit=20, offset=0).rows)
    assert any("notes_listing" in step for step in steps)
    materialized = steps[: steps.index("SEARCH n USING INTEGER PRIMARY KEY (rowid=?)")]
    assert not [step for step in materialized if "TEMP B-TREE" in step]


@pytest.mark.parametrize("text", ["trash:any", "-python", "-tag:work", "-python trash:any"])
@pytest.mark.parametrize("order", ["modified_at", "created_at"])
def test_what_names_no_notes_is_read_in_index_order_without_sorting_all_notes(filled, text, order):
    steps = plan(filled, build(parse(text, sort_by=order), limit=20, offset=0).rows)
    materialized = steps[: steps.index("SEARCH n USING INTEGER PRIMARY KEY (rowid=?)")]
    assert not [step for step in materialized if "TEMP B-TREE" in step]


# What may be walked to its end: one row (``CONSTANT ROW`` is none of a table), one page, what a parameter or the
# statement itself (``5-ROW VALUES``) lists, what MATCH finds, and what a part of the statement has found; the vocabulary where a word finds nothing.
SHORT = {
    *("page", "wanted", "json_each", "CONSTANT"),
    *("note_counts", "search_index", "temp.index_terms", "approvals"),
}
# Nothing here names the few notes that are possible: the narrow index is read, never the notes.
OPEN = [
    "-python",
    "-tag:work",
    "-python -data",
    "-python -tag:work",
    "++",
    "-python after:2020-01-01",
]
NARROW = "SCAN m USING COVERING INDEX notes_meta"


def walks(step):
    """Whether a step goes through a whole table or index."""
    word, name, *rest = [*step.split(" "), ""]
    found_by_match = rest[:2] == ["VIRTUAL", "TABLE"] and ":M" in rest[3]
    given = name in SHORT or rest[:2] == ["VALUES", "CLAUSE"] or name.startswith("(subquery-")
    return word == "SCAN" and not given and not found_by_match


WORK = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")


def asked_by(cache, act):
    """Every question and every change that the cache puts to the database meanwhile, values filled in.

    What the search index does in tables of its own is told as a comment, and left out.
    """
    connection, said = cache.database._connection, []
    connection.set_trace_callback(said.append)
    act()
    connection.set_trace_callback(None)
    questions = [sql for sql in dict.fromkeys(said) if sql.lstrip().startswith(WORK)]
    assert questions
    return [Statement(sql) for sql in questions]


def walked_in(cache, act):
    return {step for asked in asked_by(cache, act) for step in plan(cache, asked) if walks(step)}


def walked_by(filled, text):
    def walk():
        for offset in (0, 20):
            find(filled, parse(text), limit=20, offset=offset, preview_lines=3)

    return walked_in(filled, walk)


@pytest.mark.parametrize(
    "text",
    [
        *(q for q in QUERIES if q not in OPEN),
        "pyth*",
        "python -data",
        "zzqq",
        "python OR data",
    ],
    ids=str,
)
def test_no_listing_and_no_search_walks_through_everything(filled, text):
    assert walked_by(filled, text) == set()


@pytest.mark.parametrize("text", OPEN)
def test_what_names_no_notes_walks_through_the_narrow_index_only(filled, text):
    assert walked_by(filled, text) == {NARROW}


def test_a_note_is_got_by_key(filled):
    note_id = find(filled, parse(None), limit=1).notes[0].id
    steps = [plan(filled, asked) for asked in asked_by(filled, lambda: filled.notes.get(note_id))]
    assert [len(found) for found in steps] == [1]
    assert steps[0][0].startswith("SEARCH notes USING INDEX")


def changed(revision, **content):
    """Another revision of the same note."""
    return replace(revision, etag="other", content=replace(revision.content, **content))


CHANGES = {
    "changed": [changed(STORED[0], text="other words", tags=("other",))],
    "new": [replace(STORED[0], id="new")],
    "gone": [Tombstone(STORED[0].id)],
    "to the trash": [changed(next(one for one in STORED if not one.content.trash), trash=True)],
    # More than are removed from the full-text index for good at once.
    "many at once": [
        *(changed(one, text="other words") for one in STORED[:20]),
        Tombstone(STORED[20].id),
    ],
}
# Where words that came in are noted down: the one row of ``search_index``, and the keys in a parameter.
NOTING = {"SCAN i", "SCAN written VIRTUAL TABLE INDEX 1:"}


def apply(cache, changes):
    with cache.transaction():
        assert cache.notes.apply(changes).unchanged == 0


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_no_change_walks_through_everything(filled, changes):
    assert walked_in(filled, lambda: apply(filled, changes)) <= NOTING


def test_no_statement_scans_all_rows_if_notes_are_hidden(filled):
    rules = Visibility(hidden_ids=(STORED[0].id,))
    filled.sync_state.set(RULES_KEY, rules.digest)
    ruled = Cache(filled.database, rules)

    def act():
        apply(ruled, [changed(STORED[0]), changed(STORED[1])])
        assert ruled.notes.last_seen_etag(STORED[0].id) == "other"

    assert walked_in(ruled, act) <= NOTING


INTENT = make_unfinished(Content("text"), STORED[0].id, STORED[0])


def test_no_intent_is_looked_for_among_all(filled):
    journal = filled.journal

    def act():
        journal.add(INTENT)
        assert journal.get("w") == INTENT
        assert journal.claim("w", owner="you", now=3.0, lease_until=4.0, latest=9.0)
        assert journal.renew("w", owner="you", lease_until=5.0)
        journal.reject("w", "no")
        journal.drop("w")

    assert walked_in(filled, act) == set()


def test_only_who_wants_all_intents_walks_through_them(filled):
    # They are few: each is answered within moments, or waits for a person.
    journal = filled.journal
    assert walked_in(filled, journal.all) == {"SCAN journal"}
    assert walked_in(filled, journal.count) == {
        "SCAN journal USING COVERING INDEX sqlite_autoindex_journal_1"
    }


def test_what_is_known_of_notes_and_of_sync_is_read_by_key(filled):
    ids = [one.id for one in STORED[:3]]

    def act():
        assert filled.notes.counts().total == len(STORED)
        assert filled.notes.base(ids[0])
        assert filled.notes.last_seen_etag(ids[0])
        assert len(filled.notes.etags(ids)) == 3
        state = filled.sync_state
        state.set_cursor("c")
        state.set_cursor(None)
        state.record_cycle(at=1.0, duration_ms=1, status="ok")
        state.progress()
        state.login_token()

    assert walked_in(filled, act) == set()


def test_the_newest_notes_are_found_without_sorting_all(filled):
    steps = [
        row[3] for row in filled.database.rows(f"EXPLAIN QUERY PLAN {note_rows._NEWEST}", (20,))
    ]
    assert "SEARCH n USING COVERING INDEX notes_created (trash=?)" in steps
    assert not [step for step in steps if step == "USE TEMP B-TREE FOR ORDER BY"]
