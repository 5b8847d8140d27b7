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
        *("- item", "* x", "+ y", "1. one", "2. two", "10) ten", "  - sub", "\t- tab", "\t- # deep", "  - ## sub", "1.  wide", "     deep"),
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
    """Line, level and words of each heading outside lists and quotes, and of bullet items that begin with one."""
    text = text.replace("\r\n", "\n")
    lines, tokens = text.split("\n"), PARSER.parse(text)
    found = []
    for at, token in enumerate(tokens):
        if token.type != "heading_open" or token.map is None:
            continue
        item = at > 0 and tokens[at - 1].type == "list_item_open"
        if token.level == 0 or (item and lines[token.map[0]].lstrip(" \t").startswith("- #")):
            words = " ".join(tokens[at + 1].content.split())
            found.append((token.map[0] + 1, int(token.tag[1]), words))
    return found


@given(documents())
@settings(max_examples=400)
@example("- a\nlazy\n\n  # in the item\n")
@example("> a\nb\n> c\nd\n===\n")
@example("a | b\n--- | ---\nrow\n===\n")
@example("- a\nb\n2. c\n   # d\n")
@example("- # head\n  text\n#tag\n\t- # deep")
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


@st.composite
def outlines(draw: st.DrawFn) -> tuple[str, list[int]]:
    """An outline as outliners write it, and how deep each line is; text of an item has the depth of its item."""
    step = draw(st.sampled_from(["\t", "  ", "    "]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines, depths, depth = [], [], 0
    for number in range(draw(st.integers(1, 9))):
        depth = draw(st.integers(0, min(3, depth + 1))) if lines else 0
        mark = draw(st.sampled_from(["", "# ", "## ", "- ["]))
        lines.append(f"{step * depth}- {mark}b{number}")
        depths.append(depth)
        if draw(st.booleans()):
            lines.append(f"{step * depth}  {draw(st.sampled_from(['id:: x', 'more', '- # x']))}")
            deeper = lines[-1].lstrip().startswith("-")
            lines[-1] = f"{step * (depth + 1)}- # c{number}" if deeper else lines[-1]
            depths.append(depth + deeper)
    return end.join(lines) + draw(st.sampled_from(["", end])), depths


VALUES = {
    "new": 1,
    "- new": 1,
    "\t- new\n\t\t- kid": 1,
    "new\nmore": 1,
    "one\n\ntwo": 2,
    "```\n- no\n\nx\n```": 1,
    "- ## Head\n- b": 2,
}
"""What is written, and how many items that is."""


@given(outlines(), st.integers(0, 20), st.sampled_from([*VALUES]), st.data())
@settings(max_examples=300)
def test_a_section_of_an_outline_is_its_block_with_the_children(
    outline: tuple[str, list[int]], number: int, value: str, data: st.DataObject
) -> None:
    text, depths = outline
    heads = read_sections(text)[1:]
    lines = split_lines(text)
    assert [one.line for one in heads] == [
        at for at, line in enumerate(lines, start=1) if line.lstrip().startswith("- #")
    ]
    assume(heads)
    one = heads[number % len(heads)]
    depth = depths[one.line - 1]
    below = [at for at in range(one.line, len(lines)) if depths[at] <= depth]
    block = next((at for at in below if lines[at].lstrip().startswith("- ")), len(lines))
    assert (one.line, one.end) == (one.line, block + 1)

    kind = data.draw(st.sampled_from(["append", "prepend", "text"]))
    assume(kind != "text" or one.level == 1 or not value.startswith("- ## "))
    change = SectionChange(f"line {one.line}", **{kind: value})
    changed = change_section(text, change, form=data.draw(st.sampled_from(list(Form))))
    above, after = "".join(lines[: one.line]), "".join(lines[block:])
    above += newline_of(text) * (not above.endswith("\n"))
    assert changed.startswith(above)
    assert changed.endswith(after)
    inside = changed[len(above) : len(changed) - len(after)]
    held = [line.strip() for line in lines[one.line : block]]
    said = [line.strip() for line in split_lines(inside)]
    if kind != "text":
        kept = iter(said)
        assert all(line in kept for line in held)
    end, count = block_of(changed, one.line)
    assert end == one.line + len(said), "what was added is within the block"
    before = 0 if kind == "text" else block_of(text, one.line)[1]
    assert count - before == VALUES[value]


def block_of(text: str, line: int) -> tuple[int, int]:
    """Where the item of a line ends, and how many children it has."""
    tokens = PARSER.parse(text.replace("\r\n", "\n"))
    items = [one for one in tokens if one.type == "list_item_open" and one.map]
    [item] = [one for one in items if one.map and one.map[0] == line - 1]
    start, end = item.map or (0, 0)
    within = [one for one in items if one.map and start < one.map[0] < end]
    return end, sum(one.level == item.level + 2 for one in within)


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
