"""Which pages a listing touches: the wide table is read for the rows of one page only."""

import pytest

from mcp_notarium.query.parser import parse
from mcp_notarium.query.sql import build
from support import corpus
from support.cache_room import store

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
    about_notes = step.split(" ")[1] in {"n", "m", "wide", "notes"}
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
