"""Deep pages begin at a place that is known, and are the pages that they would be without it."""

import itertools

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.search.parser import parse
from mcp_notarium.search.query import Query
from mcp_notarium.storage import note_search
from mcp_notarium.storage.page_positions import FAR, MOST_PLACES, ListingPlaces
from support.cache_room import create, second_connection
from support.database_steps import steps_of

COUNT = 1000
PAGE = 10
LISTINGS = [
    None,
    "trash:any",
    "trash:yes",
    "-plum",
    "-tag:even trash:any",
    "before:2001-01-01",
    "++",
    "tag:even",
    "tag:even before:2001-01-01",
    "tag:even -tag:third",
    "tag:even trash:any",
    "tag:old",
]


def revision(number, *, etag="1", trash=None):
    """Every seventh in the trash; times in disorder, each held by four notes."""
    time = float(number * 389 % COUNT // 4)
    tags = {
        "even": number % 2 == 0,
        "third": number % 3 == 0,
        "old": time < COUNT // 26,
        "oldest": time < COUNT // 40,
        "few": number < 15,
    }
    content = Content(
        f"apple ++ {number}",
        tags=tuple(tag for tag, has in tags.items() if has),
        trash=number % 7 == 0 if trash is None else trash,
    )
    return Revision(f"n{number:04}", etag, content, time * 3 % 101, time, "{}")


@pytest.fixture(name="cache", scope="module")
def _filled(tmp_path_factory):
    cache = create(tmp_path_factory.mktemp("filled"))
    with cache.transaction():
        cache.notes.apply(map(revision, range(COUNT)))
    yield cache
    cache.close()


@pytest.fixture(name="changing")
def _changing(tmp_path):
    cache = create(tmp_path)
    with cache.transaction():
        cache.notes.apply(map(revision, range(COUNT)))
    yield cache
    cache.close()


def page(cache, query, offset, limit=PAGE):
    return [note.id for note in cache.search.find(query, limit=limit, offset=offset).notes]


def forget(cache):
    cache.search._places._kept._as_of = (-1, -1)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("by", ["modified_at", "created_at"])
@pytest.mark.parametrize("text", LISTINGS, ids=str)
def test_pages_are_the_same_whichever_were_read_before(cache, text, by, direction):
    query = parse(text, sort_by=by, sort_order=direction.upper())
    forget(cache)
    everything = page(cache, query, 0, limit=COUNT)
    assert len(everything) == len(set(everything)) >= COUNT // 8
    there = range(0, len(everything), PAGE)
    for offsets in (there, [*reversed(there)], sorted(there, key=lambda offset: offset * 37 % 101)):
        forget(cache)
        for offset in offsets:
            for exact in (offset, offset + 3):
                assert page(cache, query, exact) == everything[exact : exact + PAGE]


@pytest.mark.parametrize("text", [None, "trash:any", "-plum"], ids=str)
def test_a_page_in_the_middle_takes_no_more_steps_than_the_first(cache, text):
    query = parse(text)
    forget(cache)
    page(cache, query, 0)  # its total is kept from now on
    first = steps_of(cache, lambda: page(cache, query, 0))
    unknown = steps_of(cache, lambda: page(cache, query, COUNT // 2 - 100))
    again = steps_of(cache, lambda: page(cache, query, COUNT // 2 - 100))
    following = steps_of(cache, lambda: page(cache, query, COUNT // 2 - 100 + PAGE))
    assert unknown > 2 * first
    assert max(again, following) < 1.5 * first


def test_a_tag_that_many_notes_have_is_found_along_the_index(cache, monkeypatch):
    query = parse("tag:even")
    found = page(cache, query, 0)  # its total is kept from now on
    walked = steps_of(cache, lambda: page(cache, query, 0))
    monkeypatch.setattr(note_search, "PASSED_PER_HIT", 0)
    looked_up = steps_of(cache, lambda: page(cache, query, 0))
    assert page(cache, query, 0) == found
    assert 2 * walked < looked_up


def test_a_tag_that_only_the_oldest_notes_have_is_not_walked_to_the_end(cache, monkeypatch):
    query = parse("tag:oldest")
    found = page(cache, query, 0)
    in_vain = steps_of(cache, lambda: page(cache, query, 0))
    monkeypatch.setattr(note_search, "PASSED_PER_HIT", 0)
    looked_up = steps_of(cache, lambda: page(cache, query, 0))
    assert page(cache, query, 0) == found
    assert looked_up < in_vain < 4 * looked_up


def test_a_tag_of_few_notes_is_not_counted_beforehand(cache, monkeypatch):
    query = parse("tag:few")
    cache.search._totals._kept._as_of = (-1, -1)
    asked = steps_of(cache, lambda: page(cache, query, 0, limit=20))
    monkeypatch.setattr(note_search.SearchIndex, "_most_passed", lambda *_: 0)
    looked_up = steps_of(cache, lambda: page(cache, query, 0, limit=20))
    assert len(page(cache, query, 0, limit=20)) < 20
    assert asked < looked_up + 100


@pytest.mark.parametrize(
    "change",
    [
        revision(-5, trash=False),
        Tombstone("n0389"),
        revision(390, etag="2", trash=True),
    ],
    ids=["new", "gone", "trashed"],
)
def test_a_change_is_seen_at_once(changing, change):
    query = parse("trash:no")
    for offset in range(0, COUNT, PAGE):
        page(changing, query, offset)
    with changing.transaction():
        changing.notes.apply([change])
        inside = [page(changing, query, offset) for offset in range(0, COUNT, PAGE)]
    everything = page(changing, query, 0, limit=COUNT)
    assert [*itertools.chain(*inside)] == everything
    read = [page(changing, query, offset) for offset in range(0, COUNT, PAGE)]
    assert [*itertools.chain(*read)] == everything


def test_a_change_by_another_process_is_seen_at_once(changing):
    query = parse(None)
    before = [page(changing, query, offset) for offset in range(0, COUNT, PAGE)]
    other = second_connection(changing)
    with other.transaction():
        other.run("UPDATE notes SET trash = 1 WHERE id = ?", (before[3][0],))
    other.close()
    after = [page(changing, query, offset) for offset in range(0, COUNT, PAGE)]
    assert [*itertools.chain(*after)] == [*itertools.chain(*before)][: 3 * PAGE] + [
        *itertools.chain(*before)
    ][3 * PAGE + 1 :]


def test_what_a_transaction_read_and_took_back_is_forgotten(changing):
    query = parse(None)
    wanted = page(changing, query, 500)

    def undone():
        with changing.transaction():
            changing.notes.apply([revision(-3, trash=False)])
            assert page(changing, query, 500) != wanted
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert page(changing, query, 500) == wanted


def test_a_place_that_was_noted_after_a_change_is_not_taken_for_one_from_before(changing):
    places = changing.search._places
    held = places.of(parse(None), up_to=FAR)
    with changing.transaction():
        changing.notes.apply([Tombstone("n0001")])
    held.note(500, [(1, "id", 1, 1, 99, 99)])
    assert places.of(parse(None), up_to=FAR).nearest(1000) is None


def test_short_ways_are_walked_and_places_are_bounded(cache):
    forget(cache)
    page(cache, parse(None), 0)
    assert not cache.search._places._kept.now()
    places = ListingPlaces(Query())
    for offset in range(MOST_PLACES + 100):
        places.note(offset, [(offset, "id", 1, 1, 0, 0)])
    assert places.nearest(99) is None
    assert places.nearest(100).pk == 100
    assert places.nearest(10_000).pk == MOST_PLACES + 99
    places.note(20_000, [])
    assert places.nearest(20_000).pk == MOST_PLACES + 99
