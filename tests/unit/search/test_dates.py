"""Dates: read as typed, written as in notes."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.search.folding import fold, pieces
from mcp_notarium.search.query_expansion import find_dates

DAY = "18.03.2020"


def forms(text):
    """What a text of one date only means."""
    words = text.split()
    (found,) = find_dates(words)
    assert (found.first, found.last) == (0, len(words))
    return {tuple(pieces(fold(form))) for form in found.forms}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "18.3.2020",
            "18.03.20",
            "18/3/2020",
            "3/18/2020",
            "18-03-2020",
            "2020-03-18",
            "2020/3/18",
        ),
        *("20200318", "2020.03.18", "2020年3月18日", "(18.03.2020)", "2020-03-18,"),
        *("18. März 2020", "18 mar 2020", "18-Mar-2020", "March 18, 2020", "MARCH 18th 2020"),
        *("Mar. 18 2020", "18th of March, 2020", "18 mars 2020", "18 de marzo de 2020"),
        *("18 de março de 2020", "18 de marzo del 2020", "18 marzo 2020", "18 maart 2020"),
    ],
)
def test_a_day_means_the_same_however_it_is_typed(text):
    assert forms(text) == forms(DAY)


@pytest.mark.parametrize(
    "text",
    ["Januar 2016", "jan 2016", "2016-01", "01/2016", "01.2016", "enero de 2016", "2016年1月"],
)
def test_a_month_means_the_same_however_it_is_typed(text):
    assert forms(text) == forms("January 2016")
    assert {("2016", "01"), ("januar", "2016"), ("gennaio", "2016")} <= forms(text)


def test_a_date_of_digits_that_may_be_two_days_is_both():
    assert forms("3/4/2020") == forms("2020-04-03") | forms("2020-03-04")
    assert forms("3.4.2020") == forms("2020-04-03")
    assert forms("3/14/2020") == forms("2020-03-14")


def test_a_day_without_a_year_needs_the_whole_name_of_the_month():
    assert {("5", "marz"), ("march", "5th"), ("03", "05")} <= forms("5. März")
    assert forms("March 5") == forms("5. März")
    assert list(find_dates(["set", "3", "alarms", "mar", "5", "out", "7"])) == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "31.02.2020",
            "99.99.2020",
            "2020-13-01",
            "1.2.3",
            "192.168.1.10",
            "12:30",
            "2016",
            "march",
        ),
        *(
            "v2020.1",
            "2020-03-18T10:00",
            "1/2",
            "20201318",
            "may the 4",
            "march of 2",
        ),
    ],
)
def test_what_is_no_date_is_not_read_as_one(text):
    assert list(find_dates(text.split())) == []


def test_the_year_of_two_digits_is_near():
    assert forms("1.2.69") == forms("2069-02-01")
    assert forms("1.2.70") == forms("1970-02-01")


@given(
    st.dates(date(1900, 1, 1), date(2099, 12, 31)),
    st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%B %d, %Y", "%d %B %Y"]),
)
def test_every_day_of_the_calendar_is_found_among_words(day, style):
    typed = day.strftime(style).split()
    (found,) = find_dates(["on", *typed, "in", "Berlin"])
    assert (found.first, found.last) == (1, 1 + len(typed))
    assert f"{day:%Y %m %d}" in found.forms
    assert found.month_forms == (f"{day:%Y %m}", f"{day:%m %Y}")


@given(st.lists(st.text(st.sampled_from("0123456789./- maijn年月日,"), max_size=10), max_size=5))
def test_any_words_are_read(words):
    last = 0
    for found in find_dates(words):
        assert last <= found.first < found.last <= len(words)
        last = found.last
