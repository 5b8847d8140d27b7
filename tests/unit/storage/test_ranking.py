"""What bare words find, and in which order."""

import asyncio

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.search import ranking
from mcp_notarium.search.parser import parse
from mcp_notarium.storage.cache import Cache
from support import corpus
from support.cache_room import find as look
from support.cache_room import second_connection, store

FILLER = " and so on with other words of no interest here" * 3


def note(name, text, *, tags=(), at=1000, trash=False):
    return corpus.make(name, Content(text, tags, trash), modified_at=at, created_at=at)


def find(cache, text, **how):
    return look(cache, parse(text), **{"limit": 50, "corrects": False} | how)


def ids(found):
    return [summary.id for summary in found.notes]


def lacks(found):
    return {summary.id: list(summary.lacks) for summary in found.notes}


def test_more_and_rarer_words_come_first(cache):
    store(cache, [note(f"n{n}", f"common\n{FILLER}") for n in range(20)])
    store(cache, [note("both", f"t\nrare and common{FILLER}"), note("rare", f"t\nrare{FILLER}")])
    store(cache, [note(f"x{n}", f"nothing\n{FILLER}") for n in range(40)])
    found = find(cache, "common rare")
    assert ids(found)[:2] == ["both", "rare"]
    assert (found.total, found.have_all) == (22, 1)
    assert lacks(found)["rare"] == ["common"]
    assert lacks(found)["n3"] == ["rare"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [(None, ["new", "a", "b", "old"]), ("ASC", ["old", "b", "a", "new"])],
)
def test_equals_follow_by_time_and_then_as_they_came(cache, order, expected):
    times = {"old": 1, "a": 5, "b": 5, "new": 9}
    store(cache, [note(name, f"note\nsaffron{FILLER}", at=at) for name, at in times.items()])
    store(cache, [note(f"x{n}", f"note\n{FILLER}") for n in range(5)])
    query = parse("saffron rice", sort_order=order)
    assert ids(look(cache, query, limit=50, corrects=False)) == expected


def test_a_word_counts_more_than_one_that_it_is_inside(cache):
    store(cache, [note("inside", f"note\nschifffahrt{FILLER}", at=9)])
    store(cache, [note("whole", f"note\nfahrt{FILLER}", at=1)])
    store(cache, [note(f"x{n}", f"note\n{FILLER}") for n in range(5)])
    assert ids(find(cache, "fahrt nowhere")) == ["whole", "inside"]


def test_title_then_tag_then_text(cache):
    store(
        cache,
        [
            note("text", f"note\nsaffron{FILLER}"),
            note("tag", f"note\nnothing{FILLER}", tags=("saffron",)),
            note("title", f"saffron\nnothing{FILLER}"),
            note("other", f"note\nnothing at all{FILLER}"),
            *(note(f"n{n}", f"note\n{FILLER}") for n in range(5)),
        ],
    )
    assert ids(find(cache, "saffron")) == ["title", "tag", "text"]


@pytest.mark.parametrize("query", ["Graph View", "graph  view", "# GRAPH view", "Gräph view"])
def test_the_note_with_exactly_this_title_is_first(cache, query):
    title = "# Gräph View" if "ä" in query else "# Graph View"
    store(
        cache,
        [
            note("exact", f"{title}\n{FILLER * 20}"),
            note("all", f"The view of a graph\n{FILLER * 20}"),
            note("most", "graph\ngraph view graph view graph view graph view"),
        ],
    )
    assert ids(find(cache, query)) == ["exact", "all", "most"]


def test_a_title_of_stop_words_is_found_as_it_is(cache):
    store(cache, [note(f"n{n}", f"or to be\nnot to be, or{FILLER}") for n in range(60)])
    store(cache, [note("hamlet", f"To be or not to be\n{FILLER}")])
    assert ids(find(cache, "to be or not to be", limit=5))[0] == "hamlet"


def test_an_exact_title_comes_first_also_of_a_very_common_word(cache, monkeypatch):
    monkeypatch.setattr(ranking, "MOST_RANKED", 10)
    store(cache, [note("old", "Apple\npie", at=1)])
    store(cache, [note(f"n{n}", f"pie {n}\nwith apple", at=100 + n) for n in range(20)])
    whole = find(cache, "apple")
    assert (ids(whole)[:2], whole.total, whole.have_all) == (["old", "n19"], 21, None)
    paged = [i for at in range(0, 21, 4) for i in ids(find(cache, "apple", limit=4, offset=at))]
    assert paged == ids(whole)


def test_long_lists_that_have_all_words_do_not_hide_a_note_that_is_about_them(cache):
    links = "\n".join(f"[link {n}](http://example.org/{n}) about topic{n}" for n in range(400))
    words = "install\noffline\nmaps"
    store(cache, [note(f"list{n}", f"Links\n{links}\n{words}") for n in range(3)])
    store(cache, [note("about", "Maps\nInstall maps before you go: maps work offline")])
    store(cache, [note("near", "Maps offline\nHow maps are put on the phone")])
    assert ids(find(cache, "how do I install the maps offline"))[:2] == ["about", "near"]


def test_stop_words_neither_find_nor_are_lacking(cache):
    store(cache, [note("a", "turn the graph off"), note("b", "the how and the do")])
    found = find(cache, "how do I find the graph")
    assert lacks(found) == {"a": ["find"]}


def test_words_of_most_notes_say_nothing_beside_rarer_ones(cache):
    store(cache, [note(f"n{n}", f"recipe {n}\n{FILLER}") for n in range(60)])
    store(cache, [note("pancake", "pancakes\nflour")])
    assert lacks(find(cache, "pancake recipe")) == {"pancake": []}
    assert find(cache, "recipe").total == 60


def test_filters_leave_what_they_leave_and_one_bare_word_has_to_be_there(cache):
    store(
        cache,
        [
            note("a", "soup with leek", tags=("work",)),
            note("b", "leek pie", tags=("work",)),
            note("c", "soup", at=5),
            note("d", "bread", tags=("work",)),
            note("e", "soup in the bin", trash=True, tags=("work",)),
        ],
    )
    assert set(ids(find(cache, "soup leek tag:work"))) == {"a", "b"}
    assert set(ids(find(cache, "soup leek -pie"))) == {"a", "c"}
    assert ids(find(cache, 'soup leek "leek pie"')) == ["b"]
    assert ids(find(cache, "soup leek after:1970-01-01 before:1970-01-01 -leek")) == ["c"]
    assert ids(find(cache, "soup leek trash:yes")) == ["e"]
    assert ids(find(cache, "soup leek bread OR pie")) == ["b"]
    assert find(cache, "nothing nowhere tag:work").total == 0


@pytest.mark.parametrize("most", [3, 8, 1000])
def test_common_words_only_add_to_the_rank_and_pages_join_to_the_whole(cache, monkeypatch, most):
    """However few notes may be ranked, what the rarest words find is found, with true totals."""
    monkeypatch.setattr(ranking, "MOST_RANKED", most)
    store(
        cache,
        [
            note(
                f"n{n}",
                f"note {n}\nalpha{FILLER}" + " beta" * (n % 2) + " gamma" * (n % 5 == 0),
                at=n,
            )
            for n in range(40)
        ],
    )
    store(cache, [note(f"x{n}", "nothing of it") for n in range(60)])
    for query in ("alpha gamma", "alpha beta gamma", "alpha beta gamma missing", "alpha beta"):
        whole = find(cache, query)
        assert whole.total == len(set(ids(whole))) >= 4, query
        assert whole.notes[0].lacks in {(), ("missing",)}, query
        holders = {summary.id for summary in whole.notes if "gamma" not in summary.lacks}
        assert "gamma" not in query or {f"n{n}" for n in range(0, 40, 10)} <= holders, query
        pages = [find(cache, query, limit=3, offset=at) for at in range(0, whole.total, 3)]
        assert [i for page in pages for i in ids(page)] == ids(whole), query
        assert {page.total for page in pages} == {whole.total}, query
        short = [find(cache, query, limit=20, short_page=number) for number in (1, 2)]
        assert len(short[0].notes) == min(short[0].size, whole.total), query
        joined = ids(short[0]) + ids(short[1])
        assert joined == ids(whole)[: len(joined)], query


def test_the_common_words_of_a_note_count_as_much_as_if_all_were_ranked(cache, monkeypatch):
    store(
        cache,
        [
            note(
                f"n{n}",
                "note\n" + "rare " * (n % 5 == 0) + "often " * (n % 4 == 0) + FILLER * (n % 7),
                at=n,
            )
            for n in range(140)
        ],
    )
    store(cache, [note("z", "seven or eleven")])
    ranked = ids(find(cache, "rare often seven eleven", limit=200))
    monkeypatch.setattr(ranking, "MOST_RANKED", 30)
    bounded = ids(find(cache, "rare often seven eleven", limit=200))
    assert len(bounded) == 29
    assert bounded == [i for i in ranked if i in bounded]


def test_a_word_of_many_notes_is_corrected_where_the_filter_leaves_none_of_them(cache):
    store(cache, [note(f"n{n}", f"colour {n}") for n in range(12)])
    store(cache, [note("x", "color of the door", tags=("x",))])
    found = find(cache, "colour tag:x", corrects=True)
    assert (ids(found), found.corrected) == (["x"], {"colour": "color"})
    assert find(cache, "colour", corrects=True).corrected == {}


def test_a_part_of_a_compound_is_found_for_one_word_of_several(cache):
    store(cache, [note("ship", "Dampfschifffahrt auf dem Fluss"), note("river", "Fluss und See")])
    found = find(cache, "fahrt Fluss")
    assert (ids(found), found.have_all, found.inside_words) == (["ship", "river"], 1, True)
    assert lacks(found) == {"ship": [], "river": ["fahrt"]}


def test_the_place_of_the_rarest_word_is_shown(cache):
    store(cache, [note(f"n{n}", f"t\n{FILLER} common") for n in range(20)])
    store(cache, [note("a", "title\nit is common\nfiller\nhere is the rarest\ncommon, how common")])
    (first, *_) = find(cache, "how common is the rarest").notes
    assert (first.id, first.match.line) == ("a", 4)


def test_rows_and_totals_are_of_one_moment(cache, monkeypatch):
    store(cache, [note(f"n{n}", "apple pie" if n % 2 else "apple") for n in range(8)])
    other = Cache(second_connection(cache))
    rows = type(cache.database).rows

    def change_after(database, sql, parameters=()):
        found = rows(database, sql, parameters)
        if database is cache.database and " UNION ALL " in sql:
            store(other, [Tombstone(f"n{n}") for n in range(8)])
        return found

    monkeypatch.setattr(type(cache.database), "rows", change_after)
    found = find(cache, "apple pie cake")
    assert (found.total, len(found.notes), found.have_all) == (8, 8, 0)
    assert find(cache, "apple pie cake").total == 0
    other.close()


def test_a_long_search_lets_other_calls_through(cache, monkeypatch):
    asides = []
    run_aside = cache.database.run_aside

    async def noted(work):
        asides.append(work)
        return await run_aside(work)

    monkeypatch.setattr(cache.database, "run_aside", noted)
    store(cache, [note("a", " ".join(f"w{n}x" for n in range(40)))])
    words = " ".join(f"w{n}x" for n in range(40))
    assert find(cache, words).have_all is None
    assert len([work for work in asides if "query" in getattr(work, "keywords", {})]) == 1
    asides.clear()
    assert asyncio.run(cache.search.find(parse("w1x w2x"), limit=5)).total == 1
    assert not [work for work in asides if "query" in getattr(work, "keywords", {})]
