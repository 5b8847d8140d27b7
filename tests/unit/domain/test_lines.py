from __future__ import annotations

import pytest

from mcp_notarium.domain.lines import LineRange, count_lines, cut_lines, newline_of, split_lines
from mcp_notarium.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a\n"]),
        ("a\n\n", ["a\n", "\n"]),
        ("\n", ["\n"]),
        ("a\r\nb", ["a\r\n", "b"]),
        ("a\rb\n", ["a\rb\n"]),
        ("a\r", ["a\r"]),
        ("a\x0cb\u2028c\x85d\x1ee\u2029", ["a\x0cb\u2028c\x85d\x1ee\u2029"]),
    ],
)
def test_only_line_feeds_end_lines(text, lines):
    assert split_lines(text) == lines
    assert count_lines(text) == len(lines)


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("a", "\n"), ("a\r\nb", "\r\n"), ("a\r\nb\n", "\n"), ("a\r\nb\r\nc\n", "\r\n")],
)
def test_the_more_frequent_line_end_is_the_style_of_a_text(text, newline):
    assert newline_of(text) == newline


def test_a_range_gives_its_lines_byte_for_byte():
    got = cut_lines("one\r\ntwo\nthree", LineRange(start=1, count=2))
    assert (got.text, got.start, got.count, got.total) == ("one\r\ntwo\n", 1, 2, 3)
    assert got.partial


def test_count_zero_reaches_to_the_end():
    got = cut_lines("one\ntwo\nthree", LineRange(start=2, count=0))
    assert (got.text, got.count, got.partial) == ("two\nthree", 2, True)


def test_the_whole_text_is_not_partial():
    assert not cut_lines("one\ntwo\n", LineRange()).partial


def test_an_end_beyond_the_last_line_is_clipped():
    got = cut_lines("one\ntwo\n", LineRange(start=2, count=50))
    assert (got.text, got.count, got.total) == ("two\n", 1, 2)


def test_a_start_beyond_the_last_line_is_refused_naming_the_total():
    with pytest.raises(InvalidRequest, match="2 lines") as caught:
        cut_lines("one\ntwo\n", LineRange(start=3))
    assert caught.value.details == {"total_lines": 2}


def test_an_empty_note_can_be_read_from_line_one_only():
    got = cut_lines("", LineRange(start=1, count=5))
    assert (got.text, got.count, got.total, got.partial) == ("", 0, 0, False)
    with pytest.raises(InvalidRequest, match="0 lines"):
        cut_lines("", LineRange(start=2))


@pytest.mark.parametrize("lines", [LineRange(start=0), LineRange(start=-1), LineRange(1, -1)])
def test_impossible_ranges_are_refused(lines):
    with pytest.raises(InvalidRequest):
        cut_lines("one\n", lines)
