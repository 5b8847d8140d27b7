"""Portions of a text: whole lines, bounded answers, and a next place that leads to the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.errors import InvalidRequest
from mcp_notarium.tools.get import ANSWER_BYTES, CUT_LINE, UNASKED_BYTES, cut_portion, json_bytes

LONG = "".join(f"line {n} \u00e9\r\n" for n in range(1, 20_001))


def test_short_text_comes_whole():
    part = cut_portion("a\nb", start=None, count=None)
    assert (part.text, part.total, part.whole, part.next_start) == ("a\nb", 2, True, None)


@pytest.mark.parametrize(("start", "count"), [(None, None), (1, None), (1, 0), (None, 5)])
def test_empty_text_has_an_empty_first_line(start, count):
    part = cut_portion("", start=start, count=count)
    assert (part.text, part.total, part.count, part.whole) == ("", 0, 0, True)


@pytest.mark.parametrize(("text", "start"), [("", 2), ("a\nb", 3)])
def test_start_beyond_the_end_is_an_error_that_names_the_lines(text, start):
    with pytest.raises(InvalidRequest) as caught:
        cut_portion(text, start=start, count=1)
    assert "total_lines" in caught.value.details


def test_range_is_cut_at_the_end_of_the_text():
    part = cut_portion("a\nb\nc\n", start=2, count=99)
    assert (part.text, part.start, part.count, part.next_start) == ("b\nc\n", 2, 2, None)
    assert not part.whole


def test_range_that_is_everything_is_whole():
    assert cut_portion("a\nb\n", start=1, count=0).whole


def test_unasked_long_text_is_bounded_and_says_where_to_go_on():
    part = cut_portion(LONG, start=None, count=None)
    assert json_bytes(part.text) <= UNASKED_BYTES
    assert not part.whole
    assert part.next_start == part.count + 1
    assert part.text.endswith("\r\n")


def test_asked_range_may_be_long_but_not_endless():
    huge = "0123456789\n" * 200_000
    part = cut_portion(huge, start=1, count=0)
    assert UNASKED_BYTES < json_bytes(part.text) <= ANSWER_BYTES
    assert part.next_start == part.count + 1


def test_following_the_next_place_gives_the_text_byte_for_byte():
    text, start = "", 1
    while start is not None:
        part = cut_portion(LONG, start=None if start == 1 else start, count=None)
        text += part.text
        start = part.next_start
    assert text == LONG


def test_single_long_line_is_given_whole_while_an_answer_can_hold_it():
    part = cut_portion("x" * 500_000, start=None, count=None)
    assert (len(part.text), part.whole, part.next_start) == (500_000, True, None)


def test_line_larger_than_an_answer_is_cut_and_says_so():
    part = cut_portion("\u20ac" * 500_000 + "\nrest", start=None, count=None)
    assert json_bytes(part.text) <= ANSWER_BYTES
    assert part.note == CUT_LINE
    assert not part.whole
    assert part.next_start == 2


@given(
    st.lists(st.text(max_size=6), max_size=8).map("\n".join), st.integers(1, 9), st.integers(0, 9)
)
def test_ranges_are_parts_of_the_text(text, start, count):
    try:
        part = cut_portion(text, start=start, count=count)
    except InvalidRequest:
        return
    assert part.text in text
    assert count == 0 or part.count <= count
    assert part.whole == (part.text == text and part.count == part.total)
