"""Which pages a listing touches: the wide table is read for the rows of one page only."""

import pytest

from mcp_notarium.query.clauses import Statement
from mcp_notarium.query.parser import parse
from mcp_notarium.query.sql import build
from support import corpus
from support.cache_room import store
from support.database_steps import steps_of

QUERIES = [
    None,
    "trash:any",
    "trash:yes",
    "python",
    '"data model"',
    "tag:work",
    "tag:work python -tag:home",
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


@pytest.fixture
def filled(cache):
    store(cache, corpus.revisions(40, mix=corpus.MOTLEY))
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
    if count is None:
        assert filled.notes.counts().total == 40
    else:
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


@pytest.mark.parametrize("text", ["tag:work", "trash:yes tag:work -python", "tag:work ++"])
@pytest.mark.parametrize("order", ["modified_at", "created_at"])
def test_a_tag_is_walked_along_an_index_to_a_bound_without_sorting(filled, text, order):
    statements = build(parse(text, sort_by=order), limit=20, most_passed=60)
    steps = plan(filled, statements.rows)
    materialized = steps[: steps.index("SEARCH n USING INTEGER PRIMARY KEY (rowid=?)")]
    index = {"modified_at": "notes_listing", "created_at": "notes_created"}[order]
    assert f"SEARCH m USING COVERING INDEX {index} (trash=?)" in materialized
    assert not [step for step in materialized if "TEMP B-TREE" in step]


@pytest.mark.parametrize("text", [None, "trash:any"], ids=str)
def test_the_last_page_takes_no_more_steps_than_the_first(cache, text):
    store(cache, corpus.revisions(400, mix=corpus.MOTLEY))
    total = cache.search.find(parse(text), limit=1).total
    first, last = (
        steps_of(
            cache, lambda offset=offset: cache.search.find(parse(text), limit=10, offset=offset)
        )
        for offset in (0, total - 10)
    )
    assert last < 1.5 * first


# What may be walked to its end: one row (``CONSTANT ROW`` is none of a table), one page, what a parameter lists, and what MATCH finds; the
# vocabulary where a word finds nothing.
SHORT = {"page", "wanted", "CONSTANT", "note_counts", "search_index", "temp.index_terms"}
# Nothing here names the few notes that are possible: the narrow index is read, never the notes.
OPEN = ["-python -tag:work", "++", "-python after:2020-01-01"]
NARROW = "SCAN m USING COVERING INDEX notes_meta"


def walks(step):
    """Whether a step goes through a whole table or index."""
    word, name, *rest = [*step.split(" "), ""]
    found_by_match = rest[:2] == ["VIRTUAL", "TABLE"] and ":M" in rest[3]
    return word == "SCAN" and name not in SHORT and not found_by_match


def asked_by(cache, act):
    """Every question that the cache puts to the database meanwhile, values filled in."""
    connection, said = cache.database._connection, []
    connection.set_trace_callback(said.append)
    act()
    connection.set_trace_callback(None)
    questions = [sql for sql in dict.fromkeys(said) if sql.lstrip().startswith(("SELECT", "WITH"))]
    assert questions
    return [Statement(sql) for sql in questions]


def walked_by(filled, text):
    def find():
        for offset in (0, 20):
            filled.search.find(parse(text), limit=20, offset=offset, preview_lines=3)

    return {step for asked in asked_by(filled, find) for step in plan(filled, asked) if walks(step)}


@pytest.mark.parametrize(
    "text",
    [
        *(q for q in QUERIES if q not in OPEN),
        "pyth*",
        "python -data",
        "-python",
        "-tag:work",
        "-python -data",
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
    note_id = filled.search.find(parse(None), limit=1).notes[0].id
    steps = [plan(filled, asked) for asked in asked_by(filled, lambda: filled.notes.get(note_id))]
    assert [len(found) for found in steps] == [1]
    assert steps[0][0].startswith("SEARCH notes USING INDEX")
