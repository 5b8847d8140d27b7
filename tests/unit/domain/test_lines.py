from __future__ import annotations

import pytest

from mcp_notarium.domain.lines import newline_of, split_lines


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


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("a", "\n"), ("a\r\nb", "\r\n"), ("a\r\nb\n", "\n"), ("a\r\nb\r\nc\n", "\r\n")],
)
def test_the_more_frequent_line_end_is_the_style_of_a_text(text, newline):
    assert newline_of(text) == newline
