"""Sections, with ``markdown-it`` as a parser of somebody else's, and changes of a section that leave every other byte."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.lines import newline_of, split_lines
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.front_block import text_start
from mcp_notarium.markup.section_edit import SectionChange, change_section
from mcp_notarium.markup.section_names import find_part
from mcp_notarium.markup.sections import read_sections

PARSER = MarkdownIt("commonmark").enable("table")
LINES = st.sampled_from(
    [
        *("# a", "## b ##", "#", "#tag", "- # head", "  # in", "   ## three", "    # four", "\t# tab"),
        *("text", "more words", "  text", "    code", "", "", "", "", " ", "\t", "&nbsp;"),
        *("===", "---", "--", "-", "=", "***", "- - -", "-->", "?>"),
        *("- item", "* x", "+ y", "1. one", "2. two", "10) ten", "  - sub", "\t- tab", "1.  wide", "     deep"),
        *("```", "~~~", "````", "```py", "  ```", "    ```", "- ```", "-     code"),
        *("> quote", "> # q", "> - a", ">", "> ```", "- > q", "- <b>"),
        *("<div>", "</div>", "<b>", "<!-- c -->", "<!--", "<script>", "</script>", "<a href='x'>", "<?php"),
        *("a | b", "--- | ---", "| a |", "|---|", "  |---|", "[foo]: /url", '[foo]: /url "t'),
    ]
)  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> str:
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = end.join(draw(st.lists(LINES, min_size=1, max_size=10)))
    return text + draw(st.sampled_from(["", end]))


def parsed(text: str) -> list[tuple[int, int, str]]:
    """Line, level and words of each heading outside lists and quotes, and of items that begin with one."""
    text = text.replace("\r\n", "\n")
    lines, tokens = text.split("\n"), PARSER.parse(text)
    found = []
    for at, token in enumerate(tokens):
        if token.type != "heading_open" or token.map is None:
            continue
        item = token.level == 2 and tokens[at - 1].type == "list_item_open" and at > 0
        if token.level == 0 or (item and lines[token.map[0]].startswith("- #")):
            words = " ".join(tokens[at + 1].content.split())
            found.append((token.map[0] + 1, int(token.tag[1]), words))
    return found


@given(documents())
@settings(max_examples=400)
@example("- a\nlazy\n\n  # in the item\n")
@example("> a\nb\n> c\nd\n===\n")
@example("a | b\n--- | ---\nrow\n===\n")
@example("- a\nb\n2. c\n   # d\n")
def test_headings_are_those_of_another_parser(text: str) -> None:
    assume(not text_start(text))
    found = [(one.line, one.level, " ".join(one.words.split())) for one in read_sections(text)[1:]]
    assert found == parsed(text)


@given(documents(), st.integers(0, 9), st.data())
@settings(max_examples=300)
def test_a_change_of_a_section_leaves_every_other_byte(
    text: str, number: int, data: st.DataObject
) -> None:
    sections = read_sections(text)
    one = sections[number % len(sections)]
    kind = data.draw(st.sampled_from(["append", "prepend", "text"]))
    value = data.draw(st.sampled_from(["new", "- new", "a\nb\n", "> q", "| r |"]))
    form = data.draw(st.sampled_from([Form.LINES, Form.FILE]))
    change = SectionChange(str(one.ordinal), **{kind: value})
    if any(each.words == str(one.ordinal) for each in sections):
        return
    changed = change_section(text, change, form=form)
    lines = split_lines(text)
    above, below = "".join(lines[: one.body - 1]), "".join(lines[one.end - 1 :])
    if not above.endswith("\n") and above:
        above += newline_of(text)  # the heading was the last line, and had no end
    assert changed.startswith(above)
    assert changed.endswith(below)
    middle = changed[len(above) : len(changed) - len(below)]
    for line in value.splitlines():
        assert line in middle
    if kind != "text":
        held = iter(middle.splitlines())
        assert all(
            any(line == was for was in held)
            for line in "".join(lines[one.body - 1 : one.end - 1]).splitlines()
        )


@given(
    documents(),
    st.integers(1, 9),
    st.sampled_from(["New", "# x", "- x", "new *words* ", "C#", "a #", "---", ""]),
)
@settings(max_examples=300)
def test_a_renamed_heading_is_one_or_nothing_is_changed(text: str, number: int, words: str) -> None:
    sections = read_sections(text)
    if len(sections) == 1:
        return
    one = sections[1:][number % (len(sections) - 1)]
    changed = text
    with suppress(InvalidRequest):
        changed = change_section(text, SectionChange(f"line {one.line}", heading=words))
        assert [each.level for each in read_sections(changed)] == [each.level for each in sections]
        assert read_sections(changed)[one.ordinal].words in words
    start = sum(map(len, split_lines(text)[: one.line - 1]))
    stop = sum(map(len, split_lines(text)[one.body - 1 :]))
    assert changed[:start] == text[:start]
    assert not stop or changed.endswith(text[-stop:])


@given(documents())
def test_every_section_is_found_by_its_number_its_line_and_its_path(text: str) -> None:
    sections = read_sections(text)
    for one in sections[1:]:
        found = find_part(text, f"line {one.line}")
        assert (found.line, found.end) == (one.line, one.end)
        same = [each for each in sections[1:] if each.words == one.words]
        if one.words and len(same) == 1 and not one.words.isdigit():
            assert find_part(text, one.words).section == one
