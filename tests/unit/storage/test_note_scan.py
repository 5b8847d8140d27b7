"""Notes found by literal text, newest first, in any number of slices; and what the statements read."""

from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.storage import note_rows
from support.cache_room import store

DAY = 1_765_117_800.25


def note(number, title, text, *, trash=False, at=0.0):
    return Revision(
        id=f"{number:08x}",
        etag="1",
        content=Content(text, trash=trash, title=title),
        created_at=DAY + at,
        modified_at=DAY + at,
        raw=b"",
    )


NOTES = [
    note(1, "Harbour", "no ships", at=0.5),
    note(2, "Über", "the HARBOUR", at=0.1),
    note(3, "Größe", "x%y", at=90),
    note(4, None, "GRÖẞE is other", at=0.5),
    note(5, "Harbour", "in the trash", trash=True, at=80),
    note(6, "Kelvin", "273 \u212a", at=-5000),
    note(7, "Last", "quiet harbour", at=0.5),
]


@pytest.fixture(name="database", params=[1, 2, 500])
def _database(cache, request, monkeypatch):
    monkeypatch.setattr(note_rows, "SLICE", request.param)
    store(cache, NOTES)
    store(cache, [replace(NOTES[0], etag="2")])
    return cache.database


def found(database, query):
    def matches(title, text):
        return query.lower() in f"{title}\0{text}".lower()

    parts = note_rows.find_literally(database, query, matches)
    keys = sorted([key for part in parts for key in part], reverse=True)
    return [int(one.id) for one in note_rows.read(database, keys, texts=False)]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("harbour", [7, 1, 2]),
        ("x%Y", [3]),
        ("größe", [3, 4]),
        ("ÜBER", [2]),
        ("nowhere", []),
        ("273 \u212a", [6]),
        ("ß", [3, 4]),
    ],
)
def test_a_text_is_found_literally_in_any_case_newest_first(database, query, ids):
    assert found(database, query) == ids


def test_the_newest_come_first_and_of_equally_old_ones_the_last_stored(database):
    keys = note_rows.find_newest(database, 4)
    assert [int(one.id) for one in note_rows.read(database, keys, texts=False)] == [3, 7, 4, 1]


def test_rows_are_read_in_the_order_asked_for_without_those_that_went(database):
    keys = note_rows.find_newest(database, 9)
    shown = note_rows.read(database, [keys[2], (0.0, 999), keys[0]], texts=True)
    assert [(int(one.id), one.text) for one in shown] == [(4, "GRÖẞE is other"), (3, "x%y")]
    assert {one.text for one in note_rows.read(database, keys, texts=False)} == {""}
