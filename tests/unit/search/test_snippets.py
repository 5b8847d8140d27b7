"""Snippets: the line that says why a note is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.search.folding import fold
from mcp_notarium.search.parser import parse
from mcp_notarium.search.snippets import WIDTH, Snippet, find_snippet, spelled, terms_of


def snippet(query, text, *, shown="", inside=False):
    terms = tuple(spelled([query], query, inside=True)) if inside else terms_of(parse(query).terms)
    return find_snippet(text, terms, shown=shown)


def test_the_line_with_the_rarest_word_is_shown_and_spellings_count_once():
    terms = [*spelled(["common", "commons"], "a"), *spelled(["rare"], "b", weight=1.5)]
    found = find_snippet("common commons\nrare\n", terms, shown="")
    assert found == Snippet(2, "rare")


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("lodz", "do Łodzi, Łódź"),
        ("Łódź", "do Łodzi, Łódź"),
        ("strasse", "Die Straße zum Hafen"),
        ("viet", "Tie\u0302\u0301ng Vie\u0323\u0302t"),
        ("京都", "東京都の会議"),
        ("iphone", "メモiPhone手機"),
        ("手機", "メモiPhone手機"),
        ('"hello world"', "Hello, World!"),
        ("hello-world", "Hello, World!"),
        ("run", "I was running"),
        ("ponies", "a pony"),
        ("don't", "don\u2019t panic"),
        ("\U0001f389", "party \U0001f389"),
        ("l'animation", "an animation"),
        ("snakeCase", "a snake_case name"),
        ("array pool", "an ArrayPool"),
        ("e-mail", "no email today"),
        ("2016-01-21", "am 21. Januar 2016"),
        ("21. Januar 2016", "on 2016-01-21"),
        ("红烧鱼的做法", "这个做法很简单"),
        ("ArrayPool<T>.Shared.Rent", "take it from an ArrayPool"),
    ],
)
def test_words_match_as_in_the_index(query, line):
    assert snippet(query, f"first\nother\r\n{line}\r\nlast\n") == Snippet(3, line)


@pytest.mark.parametrize(
    ("query", "text"),
    [("art", "heart\nparty"), ("run", "runner\nprune"), ('"a b"', "a c b"), ("++", "x\nc++")],
)
def test_what_does_not_match_is_not_shown(query, text):
    assert snippet(query, text) is None


@pytest.mark.parametrize("filler", ["word ", "\u0142\u00f3\u00df ", "\ufb01x\u0132 "])
@pytest.mark.parametrize("before", [0, 3, 20, 200])
def test_a_long_line_is_cut_around_the_hit(filler, before):
    line = filler * before + "needle " + filler * 200
    found = snippet("needle", f"title\n{line}\n")
    assert found is not None
    assert "needle" in found.text
    assert len(found.text) <= WIDTH + 2
    assert found.text.strip("…") in line


def test_terms_that_are_shown_anyway_are_not_looked_for():
    text = "Soup\nsoup of beans\nbeans\n"
    assert snippet("soup", text, shown="Soup") is None
    assert snippet("soup beans", text, shown="Soup") == Snippet(2, "soup of beans")


@given(st.text(), st.lists(st.sampled_from(["one", "Łódź", "東京", "ﬁx", "\n", " ", "x" * 90])))
def test_a_snippet_is_part_of_its_line_and_holds_a_hit(noise, words):
    text = noise.join(words)
    for query in ("one", "lodz", "東京", "fix"):
        found = snippet(query, text)
        if found is not None:
            line = text.split("\n")[found.line - 1]
            assert found.text.strip("…") in line or found.text in line
            assert fold(query) in fold(line) or query == "lodz"
