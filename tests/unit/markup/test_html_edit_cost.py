"""An edit of a long note does not parse each of its lines, and reads them as the parser does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.parser_block import ParserBlock

from mcp_notarium.markup import html_edit, markdown_to_html
from mcp_notarium.markup.html_codec import to_markdown

LINES = 500


def test_an_edit_of_one_line_parses_the_note_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "".join(f"<h2>Head {i}</h2><p>line {i} with words</p>" for i in range(LINES))
    blocks, inlines = [0], [0]
    parse_blocks, parse = ParserBlock.parse, MarkdownIt.parse

    def count_blocks(*given, **named):  # type: ignore[no-untyped-def]
        blocks[0] += 1
        return parse_blocks(*given, **named)

    def count(*given, **named):  # type: ignore[no-untyped-def]
        inlines[0] += 1
        return parse(*given, **named)

    monkeypatch.setattr(ParserBlock, "parse", count_blocks)
    monkeypatch.setattr(MarkdownIt, "parse", count)
    edited = html_edit.edit(source, to_markdown(source).replace("line 77 ", "new 77 "))
    assert edited == source.replace("line 77 ", "new 77 ")
    assert blocks[0] < 20
    assert inlines[0] < 10


@given(
    st.text("ab#*_`[]()!|:-=>$~\\1. \t\0\x0b\x85\u2028é", max_size=30).map(lambda rest: "a" + rest),
    st.sampled_from(["", "# ", "###### "]),
)
def test_a_line_that_begins_with_a_letter_is_one_block_to_the_parser(line: str, mark: str) -> None:
    text = mark + line
    assert markdown_to_html.segments(text) == markdown_to_html._segments(text)
