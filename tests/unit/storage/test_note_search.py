import asyncio
import threading

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.search import ranking
from mcp_notarium.search.parser import parse
from mcp_notarium.search.query import Query
from mcp_notarium.storage import vocabulary
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.vocabulary import distance
from support import corpus
from support.cache_room import find as look
from support.cache_room import second_connection, store, suggest


def note(number, text, *, tags=(), trash=False, modified_at=None):
    at = 1000 + number if modified_at is None else modified_at
    return corpus.make(f"id{number}", Content(text, tags, trash), modified_at=at, created_at=at)


def find(cache, text=None, *, limit=20, offset=0, **more):
    return look(cache, parse(text, **more), limit=limit, offset=offset)


def ids(found):
    return [summary.id for summary in found.notes]


def test_a_listing_shows_the_newest_first_with_an_honest_total_and_pages(cache):
    store(cache, [note(number, f"text {number}") for number in range(7)])
    assert ids(find(cache, limit=3)) == ["id6", "id5", "id4"]
    assert ids(find(cache, limit=3, offset=6)) == ["id0"]
    for offset in (0, 3, 6, 7, 50):
        assert find(cache, limit=3, offset=offset).total == 7
    assert ids(find(cache, limit=3, offset=50)) == []


def test_a_summary_says_what_a_listing_needs(cache):
    store(cache, [note(1, "\n  First line  \nsecond\n", tags=("a", "ż"), modified_at=5)])
    (summary,) = find(cache).notes
    assert summary.head == "First line"
    assert summary.tags == ("a", "ż")
    assert (summary.local_version, summary.modified_at, summary.trash) == (1, 5, False)


def test_longer_previews_come_from_the_text(cache):
    store(cache, [note(1, "one\n\ntwo\nthree\nfour"), note(2, "only")])
    found = look(cache, Query(), limit=5, preview_lines=3)
    assert [summary.head for summary in found.notes] == ["only", "one\ntwo\nthree"]


def test_the_trash_is_left_out_unless_asked_for(cache):
    store(cache, [note(1, "apple"), note(2, "apple", trash=True)])
    assert (ids(find(cache, "apple")), find(cache, "apple").total) == (["id1"], 1)
    assert ids(find(cache, "apple trash:yes")) == ["id2"]
    assert find(cache, "apple trash:any").total == 2
    assert find(cache).total == 1
    assert find(cache, "trash:yes").total == 1
    assert find(cache, "trash:any").total == 2


def test_totals_of_a_search_cover_all_pages(cache):
    store(cache, [note(number, "apple pie") for number in range(9)])
    assert find(cache, "apple", limit=4).total == 9
    assert find(cache, "apple", limit=4, offset=8).total == 9
    assert find(cache, "apple", limit=4, offset=40).total == 9


@pytest.mark.parametrize("trash", ["no", "yes", "any"])
@pytest.mark.parametrize("sort_by", ["modified_at", "created_at"])
@pytest.mark.parametrize("sort_order", ["ASC", "DESC"])
def test_every_page_is_its_part_of_the_whole(cache, trash, sort_by, sort_order):
    store(
        cache,
        [note(n, f"text {n}", trash=n % 3 == 0, modified_at=1000 + n // 4) for n in range(23)],
    )
    how = {"sort_by": sort_by, "sort_order": sort_order}
    whole = ids(find(cache, f"trash:{trash}", limit=100, **how))
    assert len(whole) == {"no": 15, "yes": 8, "any": 23}[trash]
    for limit in (1, 4, 7):
        for offset in range(30):
            page = find(cache, f"trash:{trash}", limit=limit, offset=offset, **how)
            assert (ids(page), page.total) == (whole[offset : offset + limit], len(whole))


@pytest.mark.parametrize("sort_order", ["ASC", "DESC"])
def test_of_a_word_alone_with_too_many_hits_the_newest_come_first(cache, monkeypatch, sort_order):
    store(cache, [note(n, "apple " * (1 + n % 3) + "pie", trash=n == 5) for n in range(9)])
    ranked = ids(find(cache, "apple", sort_order=sort_order))
    monkeypatch.setattr(ranking, "MOST_RANKED", 7)
    unranked = ids(find(cache, "apple", sort_order=sort_order))
    assert ranked != unranked
    assert sorted(ranked) == sorted(unranked)
    assert unranked == [i for i in ids(find(cache, sort_order=sort_order)) if i in ranked]
    for offset in (0, 3, 6, 9):
        page = find(cache, "apple", limit=3, offset=offset, sort_order=sort_order)
        assert (ids(page), page.total) == (unranked[offset : offset + 3], 8)
    assert ids(find(cache, "apple pie", sort_order=sort_order)) != unranked
    monkeypatch.setattr(ranking, "MOST_RANKED", 8)
    assert ids(find(cache, "apple", sort_order=sort_order)) == ranked


def test_notes_listed_newest_first_lack_a_word_that_no_note_has(cache, monkeypatch):
    store(cache, [note(n, "apple") for n in range(9)] + [note(9, "plum")])
    monkeypatch.setattr(ranking, "MOST_RANKED", 7)
    found = find(cache, "apple zzxq")
    assert (found.total, found.have_all) == (9, 0)
    assert {summary.lacks for summary in found.notes} == {("zzxq",)}


@pytest.mark.parametrize("most", [10, 1000])
def test_a_word_of_most_notes_counts_beside_one_that_no_note_has(cache, monkeypatch, most):
    store(cache, [note(n, "apple") for n in range(60)])
    monkeypatch.setattr(ranking, "MOST_RANKED", most)
    found = find(cache, "apple zzxq", limit=2)
    assert (found.total, found.have_all, found.notes[0].lacks) == (60, 0, ("zzxq",))


LISTINGS = [
    None,
    "-plum",
    "-tag:even",
    "before:1970-01-01",
    "++",
    "tag:even",
    "tag:even -tag:third",
]
LISTINGS += ["apple", "apple -tag:third", "apple OR plum"]


@pytest.mark.parametrize("trash", ["no", "any"])
@pytest.mark.parametrize("text", LISTINGS, ids=str)
def test_pages_of_any_query_join_to_the_whole_with_its_total(cache, monkeypatch, text, trash):
    monkeypatch.setattr(ranking, "MOST_RANKED", 20)
    store(
        cache,
        [
            note(
                n,
                "apple ++" + " plum" * (n % 5 == 0),
                tags=("even",) * (n % 2 == 0) + ("third",) * (n % 3 == 0),
                trash=n % 7 == 0,
                modified_at=n * 37 % 60 // 4,
            )
            for n in range(60)
        ],
    )
    query = f"{text or ''} trash:{trash}"
    whole = find(cache, query, limit=100)
    assert whole.total == len(set(ids(whole))) > 10
    for offset in (*range(0, 60, 7), 3):
        page = find(cache, query, limit=7, offset=offset)
        assert (ids(page), page.total) == (ids(whole)[offset : offset + 7], whole.total)


@pytest.mark.parametrize("text", [None, "apple", "-plum"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (note(30, "apple"), 31),
        (Tombstone("id3"), 29),
        (corpus.make("id3", Content("apple", trash=True), version=2), 29),
    ],
    ids=["new", "gone", "trashed"],
)
def test_a_change_shows_in_pages_and_totals_at_once_and_goes_when_it_is_undone(
    cache, text, change, expected
):
    store(cache, [note(number, f"apple {number}") for number in range(30)])
    before = find(cache, text, limit=5, offset=20)

    def undone():
        with cache.transaction():
            cache.notes.apply([change])
            assert find(cache, text, limit=5).total == expected
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert find(cache, text, limit=5, offset=20) == before
    store(cache, [change])
    assert find(cache, text, limit=5).total == expected
    assert len(ids(find(cache, text, limit=100))) == expected


def test_a_change_by_another_process_shows_in_pages_and_totals(cache):
    store(cache, [note(number, "apple") for number in range(30)])
    assert find(cache, "apple", limit=5).total == 30
    other = Cache(second_connection(cache))
    store(other, [Tombstone("id29")])
    other.close()
    assert (find(cache, "apple", limit=5).total, ids(find(cache))[0]) == (29, "id28")


def test_words_inside_other_words_are_found_and_marked(cache):
    store(cache, [note(1, "Donaudampfschifffahrt"), note(2, "Schifffahrtsamt"), note(3, "Amt")])
    found = find(cache, "schifffahrt")
    assert sorted(ids(found)) == ["id1", "id2"]
    assert found.inside_words
    assert not find(cache, "amt").inside_words
    assert ids(find(cache, "amt")) == ["id3"]


def test_compounds_come_behind_few_hits_of_the_whole_word_on_every_page(cache):
    compounds = ["Dampfschifffahrt", "Schifffahrtsamt", "Raumschiff", "raumschiffen"]
    store(
        cache,
        [
            *(note(n, f"{word} {word}") for n, word in enumerate(compounds)),
            note(10, "ein Schiff unter anderem, von dem hier gar nicht lange die Rede ist"),
            note(11, "Schiffe", trash=True),
            note(12, "nothing"),
        ],
    )
    found = find(cache, "schiff")
    assert (ids(found)[0], found.total, found.inside_words) == ("id10", 5, True)
    assert set(ids(found)) == {"id10", "id0", "id1", "id2", "id3"}
    pages = [ids(find(cache, "schiff", limit=2, offset=offset)) for offset in (0, 2, 4)]
    assert [i for page in pages for i in page] == ids(found)
    assert ids(find(cache, "schiff rede"))[0] == "id10"
    assert find(cache, "schiff rede").have_all == 1
    assert set(ids(find(cache, "schiff -rede"))) == {"id0", "id1", "id2", "id3"}


def test_many_hits_of_the_whole_word_are_not_mixed_with_compounds(cache):
    store(cache, [*(note(n, "Schiff") for n in range(ranking.FEW)), note(20, "Raumschiff")])
    found = find(cache, "schiff")
    assert (found.total, found.inside_words) == (ranking.FEW, False)


@pytest.mark.parametrize(
    ("word", "other"), [("rain", "training drainage"), ("list", "listen"), ("art", "heart artwork")]
)
def test_other_words_that_happen_to_contain_it_are_no_compounds(cache, word, other):
    store(cache, [note(1, word), note(2, other)])
    found = find(cache, word)
    assert (ids(found), found.inside_words) == (["id1"], False)


def matches(found):
    return {
        summary.id: summary.match and (summary.match.line, summary.match.text)
        for summary in found.notes
    }


def test_a_hit_that_the_row_does_not_show_comes_with_its_line(cache):
    long = "x" * 300 + " before the Lighthouses and after " + "y " * 300
    store(
        cache,
        [
            note(1, "Title\n\nthe lighthouse keeper\nkeeper\n"),
            note(2, "The lighthouse\nlighthouse again"),
            note(3, "Title\nkeepers\n  of some LIGHTHOUSES, keeping  \n"),
            note(4, f"Title\n{long}"),
            note(5, "Title\nnothing", tags=("lighthouse",)),
        ],
    )
    found = matches(look(cache, parse("lighthouse"), limit=9))
    part = found.pop("id4")
    assert found == {
        "id1": (3, "the lighthouse keeper"),
        "id2": None,
        "id3": (3, "of some LIGHTHOUSES, keeping"),
        "id5": None,
    }
    assert part[0] == 2
    assert "before the Lighthouses and after" in part[1]
    assert part[1].startswith("…")
    assert part[1].endswith("…")
    assert len(part[1]) <= 122


def test_the_line_with_most_words_is_shown_and_parts_of_words_are(cache):
    store(
        cache,
        [note(1, "Fahrplan\nDampfer\nzur Dampfschifffahrt\nSchiffe auf dem Fluss\nFluss, Schiff")],
    )

    def shown(text):
        return matches(look(cache, parse(text), limit=1))["id1"]

    assert shown("schiff fluss") == (4, "Schiffe auf dem Fluss")
    assert shown("dampfer fluss") == (2, "Dampfer")
    assert shown('"auf dem" dampfer') == (2, "Dampfer")
    assert shown('"auf dem"') == (4, "Schiffe auf dem Fluss")
    assert shown("schifffahrt") == (3, "zur Dampfschifffahrt")
    assert shown("flu*") == (4, "Schiffe auf dem Fluss")
    assert shown("dampfer OR nowhere") == (2, "Dampfer")
    assert shown("fahrplan -nowhere") is None
    assert shown("-nowhere") is None


def test_looking_inside_words_pages_and_counts_like_any_search(cache):
    store(cache, [note(number, f"prefix{number}wombat{number}") for number in range(5)])
    found = find(cache, "wombat", limit=2, offset=2)
    assert (len(found.notes), found.total, found.inside_words) == (2, 5, True)


def test_looking_inside_words_respects_tags_and_trash(cache):
    store(
        cache,
        [
            note(1, "xwombatx", tags=("open",)),
            note(2, "xwombatx", tags=("secret",)),
            note(3, "xwombatx", trash=True),
        ],
    )
    assert ids(find(cache, "wombat -tag:secret")) == ["id1"]


def test_numbers_are_not_looked_for_inside_the_codes_of_other_scripts(cache):
    store(cache, [note(1, "東京都"), note(2, "plain")])
    for number in ("026481", "26481", "\ue000026481", '"\ue000026481"', "\ue000"):
        assert find(cache, number).total == 0


@pytest.mark.parametrize(
    ("many", "tidied", "found"),
    [(300, False, [1, 1, 1]), (251, False, [0, 0, 1]), (251, True, [1, 1, 1])],
    ids=str,
)
def test_terms_of_a_large_load_are_read_when_it_is_merged_or_after_a_while(
    cache, monkeypatch, many, tidied, found
):
    now = [100.0]
    monkeypatch.setattr(vocabulary.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(vocabulary, "_QUICKLY_READ", many)

    def finds(at):
        now[0] = at
        return min(find(cache, "schiff").total, 1)

    assert finds(100.0) == 0
    store(cache, [note(number, f"Dampfschifffahrt {number}") for number in range(300)])
    while tidied and cache.notes.index.tidy():
        pass
    assert [finds(at) for at in (100.1, 130.0, 130.2)] == found


def test_a_note_stored_after_a_miss_is_found_inside_words_too(cache):
    store(cache, [note(1, "nothing of interest")])
    assert find(cache, "wombat").total == 0
    store(cache, [note(2, "marswombatburrow")])
    assert ids(find(cache, "wombat")) == ["id2"]
    store(cache, [Tombstone("id2")])
    assert find(cache, "wombat").total == 0


def test_a_note_stored_by_another_process_after_a_miss_is_found_too(cache):
    assert find(cache, "wombat").total == 0
    other = Cache(second_connection(cache))
    store(other, [note(2, "marswombatburrow")])
    assert ids(find(cache, "wombat")) == ["id2"]
    other.close()


def test_a_misspelt_word_is_answered_with_whole_words_that_do_occur(cache):
    store(cache, [note(1, "The Calendars were lost"), note(2, "A beautiful Łódź")])
    assert suggest(cache, "calender") == ["calendars"]
    assert suggest(cache, "beatiful") == ["beautiful"]
    assert suggest(cache, "lodx") == ["łódź"]
    assert suggest(cache, "xylophone") == []
    assert suggest(cache, "") == []
    assert suggest(cache, "two words") == []


@pytest.mark.parametrize(
    ("typed", "there"),
    [("pancakes", "pacave pana"), ("recipe", "ripe rep"), ("cat", "cut"), ("note", "nets")],
)
def test_what_is_not_near_is_not_suggested(cache, typed, there):
    store(cache, [note(1, there)])
    assert suggest(cache, typed) == []


def test_words_that_are_gone_do_not_displace_one_that_occurs(cache):
    gone = [f"calend{letter}r" for letter in "bcdfghijklmnop"]
    store(cache, [note(1, " ".join(gone)), note(2, "xalendar")])
    assert suggest(cache, "calendar") == gone[:3]
    store(cache, [Tombstone("id1")])
    assert suggest(cache, "calendar") == ["xalendar"]


def test_nothing_is_suggested_from_notes_outside_the_limits(cache):
    store(cache, [note(1, "calendar", tags=("secret",)), note(2, "unrelated")])
    hidden = Query(excluded_tags=("secret",))
    assert suggest(cache, "calender", within=hidden) == []
    assert suggest(cache, "calender") == ["calendar"]
    trashed = note(3, "kalender", trash=True)
    store(cache, [trashed])
    assert suggest(cache, "kalendar", within=hidden) == []


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "xbcd", 2), ("ab", "xyz", 3)],
)
def test_the_distance_counts_missing_wrong_and_swapped_letters(one, other, apart):
    assert distance(one, other, at_most=2) == apart
    assert distance(other, one, at_most=2) == apart


def test_no_text_a_person_can_type_is_an_sql_error(cache):
    store(cache, corpus.revisions(20, mix=corpus.MOTLEY))
    for text in ('"', "*", "NEAR(a b)", "text:x", "a\0b", "\ud800", "(", "^a", "x" * 4000, "'; --"):
        assert find(cache, text).total >= 0
        assert isinstance(suggest(cache, text), list)


def blow_up(_work):
    raise AssertionError("the whole index was read again")


def test_after_a_few_changes_the_vocabulary_is_kept_up_without_reading_the_index(
    cache, monkeypatch
):
    store(cache, [note(number, f"text {number}") for number in range(30)])
    assert find(cache, "wombat").total == 0
    monkeypatch.setattr(cache.database, "run_aside", blow_up)
    store(cache, [note(40, "marswombatburrow"), note(41, "Schneewombats")])
    assert sorted(ids(find(cache, "wombat"))) == ["id40", "id41"]
    store(cache, [corpus.make("id40", Content("now a platypusegg"), version=2)])
    assert ids(find(cache, "platypus")) == ["id40"]
    assert ids(find(cache, "wombat")) == ["id41"]
    assert suggest(cache, "platypusegh") == ["platypusegg"]


@pytest.mark.parametrize("at_once", [150, 1], ids=["in one go", "one by one"])
def test_after_many_changes_nothing_is_missing_from_the_vocabulary(cache, at_once):
    assert find(cache, "wombat").total == 0
    many = [note(number, f"mars{number}wombatburrow") for number in range(300)]
    for start in range(0, len(many), at_once):
        store(cache, many[start : start + at_once])
    assert find(cache, "wombat").total == 300
    assert cache.database.number("SELECT count(*) FROM index_changes") <= 256


def test_words_of_identifiers_in_new_notes_are_in_the_vocabulary(cache, monkeypatch):
    assert find(cache, "wombat").total == 0
    monkeypatch.setattr(vocabulary, "_read_terms", None)  # what was read is kept up
    store(cache, [note(1, "new MarsWombats()")])
    assert suggest(cache, "wombbats") == ["wombats"]


def test_other_calls_are_answered_while_the_words_of_the_index_are_read(cache, monkeypatch):
    read, stored = vocabulary._read_terms, threading.Event()

    def read_late(database):
        assert stored.wait(5)
        return read(database)

    async def search_and_store():
        searches = [asyncio.create_task(cache.search.find(parse("wombat"), limit=9)) for _ in "abc"]
        await asyncio.sleep(0)
        searches.pop(0).cancel()
        store(cache, [note(1, "marswombatburrow")])
        stored.set()
        return [ids(await one) for one in searches]

    monkeypatch.setattr(vocabulary, "_read_terms", read_late)
    store(cache, corpus.revisions(20, mix=corpus.MOTLEY))
    assert asyncio.run(search_and_store()) == [["id1"], ["id1"]]


def test_a_misspelt_word_is_compared_with_the_terms_that_are_most_likely_near(cache, monkeypatch):
    compared = []
    monkeypatch.setattr(
        vocabulary,
        "distance",
        lambda *words, at_most: compared.append(words) or distance(*words, at_most=at_most),
    )
    store(cache, [note(1, " ".join(f"unique{number}" for number in range(10_000, 16_000)))])
    assert suggest(cache, "uniqe13579")[0] == "unique13579"
    assert len(compared) <= 250
