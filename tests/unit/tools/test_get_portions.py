"""Portions of a text: whole lines, bounded answers, and a next place that leads to the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.errors import InvalidRequest
from mcp_notarium.tools.get import ANSWER_BYTES, cut_portion, json_bytes

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
    assert json_bytes(part.text) <= ANSWER_BYTES
    assert not part.whole
    assert part.next_start == part.count + 1
    assert part.text.endswith("\r\n")


@pytest.mark.parametrize(("start", "count"), [(1, 0), (1, None), (1000, None), (1, 15_000)])
def test_a_range_is_bounded_like_the_whole_and_goes_on(start, count):
    part = cut_portion(LONG, start=start, count=count)
    assert ANSWER_BYTES - 50 < json_bytes(part.text) <= ANSWER_BYTES
    assert part.next_start == start + part.count


def test_following_the_next_place_gives_the_text_byte_for_byte():
    text, start = "", 1
    while start is not None:
        part = cut_portion(LONG, start=None if start == 1 else start, count=None)
        text += part.text
        start = part.next_start
    assert text == LONG


@pytest.mark.parametrize(
    "line", ["x" * 200_000, "\u20ac" * 50_000, '"' * 50_000, "\x01\u20ac" * 9_000]
)
def test_line_longer_than_an_answer_comes_in_bounded_parts(line):
    text, start, character, parts = f"one\n{line}\nrest\n", 2, None, []
    while start == 2:
        part = cut_portion(text, start=start, count=None, character=character)
        assert json_bytes(part.text) <= ANSWER_BYTES
        assert not part.whole
        parts.append(part.text)
        start, character = part.next_start, part.next_character
    assert len(parts) > 1
    assert "".join(parts) == f"{line}\nrest\n"
    assert (start, character) == (None, None)


def test_long_line_is_not_begun_in_an_answer_that_holds_others():
    part = cut_portion("one\n" + "x" * 50_000, start=None, count=None)
    assert (part.text, part.next_start, part.next_character) == ("one\n", 2, None)


def test_a_count_counts_the_line_that_is_gone_on_with():
    part = cut_portion("abc\nd\ne\n", start=1, count=1, character=3)
    assert (part.text, part.count, part.next_start, part.next_character) == ("c\n", 1, 2, None)


def test_a_place_beyond_the_end_of_the_line_is_an_error_that_names_its_length():
    with pytest.raises(InvalidRequest) as caught:
        cut_portion("abc\nd\n", start=1, count=None, character=5)
    assert caught.value.details == {"total_characters": 4}


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
