"""Units: what typed words ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.search.folding import fold, is_searchable, pieces
from mcp_notarium.search.query_expansion import MOST_PARTS, Unit, unit_of, units_of


def spellings(text):
    return [unit.spellings for unit in units_of(text.split())]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("graph", Unit("graph", ("graph",))),
        ("l'animation", Unit("l'animation", ("animation",))),
        ("d\u2019eau", Unit("d\u2019eau", ("eau",))),
        ("qu'il", Unit("qu'il", ("il",))),
        ("dell'arte", Unit("dell'arte", ("arte",))),
        ("brewer's", Unit("brewer's", ("brewer",))),
        ("brewers'", Unit("brewers'", ("brewers",))),
        ("don't", Unit("don't", ("don't", "dont"))),
        ("o'clock", Unit("o'clock", ("o'clock", "oclock"), ("clock",))),
        ("e-mail", Unit("e-mail", ("e-mail", "email"), ("mail",))),
        ("snake_case", Unit("snake_case", ("snake_case", "snakecase"), ("snake", "case"))),
        ("snakeCase", Unit("snakeCase", ("snakeCase", "snake Case"))),
        ("getHTTPServer", Unit("getHTTPServer", ("getHTTPServer", "get HTTP Server"))),
        ("URLs", Unit("URLs", ("URLs",))),
        (
            "ArrayPool<T>.Shared.Rent",
            Unit(
                "ArrayPool<T>.Shared.Rent",
                (
                    "ArrayPool<T>.Shared.Rent",
                    "arraypooltsharedrent",
                    "Array Pool<T>.Shared.Rent",
                ),
                ("arraypool", "shared", "rent"),
            ),
        ),
        ("C++", Unit("C++", ("C++",))),
        ("3.14", Unit("3.14", ("3.14",))),
        ("1,000", Unit("1,000", ("1,000", "1000"))),
        ("東京", Unit("東京", ("東京",))),
        ("東京都庁", Unit("東京都庁", ("東京都庁",), ("東京", "京都", "都庁"))),
        ("iPhone手机", Unit("iPhone手机", ("iPhone手机",), ("iphone", "手机"))),
        ("++", None),
        ("", None),
    ],
)
def test_a_word_asks_for_what_it_means(word, expected):
    assert unit_of(word) == expected


def test_neighbours_are_looked_for_as_one_word_too():
    assert spellings("get user name") == [
        ("get", "getuser", "getusername"),
        ("user", "getuser", "username", "getusername"),
        ("name", "username", "getusername"),
    ]
    assert spellings("to do a 2024 plan") == [("to",), ("do",), ("a",), ("2024",), ("plan",)]


def test_a_date_of_several_words_is_one_unit():
    before, day, after = units_of(["am", "21.", "Januar", "2016", "Berlin"])
    assert (before.text, day.text, after.text) == ("am", "21. Januar 2016", "Berlin")
    assert {"2016 01 21", "21 januar 2016", "21 janvier 2016"} <= set(day.spellings)
    assert day.parts == ("2016 01", "01 2016", "Januar", "2016")


WORD = st.text(st.sampled_from("aB1_.-'\u2019 手机的東กา😀éß+"), max_size=12)


@given(st.lists(WORD, max_size=6))
def test_every_word_that_can_be_found_belongs_to_one_unit_in_their_order(words):
    found = units_of(words)
    assert [unit.text for unit in found] == [word for word in words if is_searchable(word)]
    for unit in found:
        assert all(pieces(fold(said)) for said in (*unit.spellings, *unit.parts))
        assert len(unit.parts) <= MOST_PARTS


@given(st.text(st.sampled_from("手机的東京都"), min_size=3, max_size=40))
def test_a_run_is_its_pairs(run):
    pairs = {run[at : at + 2] for at in range(min(len(run) - 1, MOST_PARTS))}
    assert set(unit_of(run).parts) == pairs
