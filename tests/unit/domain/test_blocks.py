"""Test that lines added to a Markdown text are blocks of their own."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.patch import Operation, append, apply_patch, prepend

TABLE = "| a |\n| --- |\n| 1 |"
FRONT = "---\ntags: a\n---\n"


@pytest.mark.parametrize(
    ("text", "added", "whole"),
    [
        ("Call Ann.", "Call Bob.", "Call Ann.\n\nCall Bob."),
        ("Call Ann.\r\n", "Call Bob.", "Call Ann.\r\n\r\nCall Bob.\r\n"),
        ("a\n\n", "b", "a\n\nb\n"),
        ("", "b", "b"),
        ("a", "b\nc", "a\n\nb\nc"),
        ("a", "", "a\n\n"),
        ("a", "---", "a\n\n---"),
        ("a", "--", "a\n\n--"),
        ("a", "===", "a\n\n==="),
        ("a", "# b", "a\n\n# b"),
        ("# a", "b", "# a\nb"),
        ("- a", "b", "- a\n\nb"),
        ("- a", "- b", "- a\n- b"),
        ("- a", "* b", "- a\n* b"),
        ("- [ ] a", "- [ ] b", "- [ ] a\n- [ ] b"),
        ("- a", "1. b", "- a\n\n1. b"),
        ("1. a", "- b", "1. a\n\n- b"),
        ("1. a", "2. b", "1. a\n2. b"),
        ("- a", "  b", "- a\n  b"),
        ("- a", "  - b", "- a\n  - b"),
        ("- a\n\t- b", "- c", "- a\n\t- b\n- c"),
        ("- a\n  1. b", "- c", "- a\n  1. b\n- c"),
        ("- a\n  1. b", "  - c", "- a\n  1. b\n\n  - c"),
        ("- a\n\n  b", "- c", "- a\n\n  b\n- c"),
        ("- a\nb", "- c", "- a\nb\n- c"),
        ("- a\n\nb", "- c", "- a\n\nb\n\n- c"),
        ("- a\n# b", "- c", "- a\n# b\n- c"),
        ("> a", "b", "> a\n\nb"),
        ("> a", "> b", "> a\n\n> b"),
        ("> [!NOTE]\n> a", "> [!TIP]\n> b", "> [!NOTE]\n> a\n\n> [!TIP]\n> b"),
        (TABLE, "b", f"{TABLE}\n\nb"),
        (TABLE, "| 2 |", f"{TABLE}\n| 2 |"),
        (TABLE, TABLE, f"{TABLE}\n\n{TABLE}"),
        ("| no table |", "| 2 |", "| no table |\n\n| 2 |"),
        ("```\ncode", "more", "```\ncode\nmore"),
        ("~~~\n```", "more", "~~~\n```\nmore"),
        ("```\ncode\n```", "b", "```\ncode\n```\n\nb"),
        ("```one``` line", "b", "```one``` line\n\nb"),
        ("- ```\n  code\n  ```", "b", "- ```\n  code\n  ```\n\nb"),
        ("- ```\n  code", "  more", "- ```\n  code\n  more"),
        ("> ```\n> code", "> more", "> ```\n> code\n> more"),
        ("> ```\n> code", "b", "> ```\n> code\n\nb"),
        ("> ```\n> code\n\n```\ncode\n```", "b", "> ```\n> code\n\n```\ncode\n```\n\nb"),
        ("$$\nx\n$$", "b", "$$\nx\n$$\n\nb"),
        ("<details>\na\n</details>", "b", "<details>\na\n</details>\n\nb"),
        (FRONT, "b", f"{FRONT}b\n"),
    ],
)  # fmt: skip
def test_append(text: str, added: str, whole: str) -> None:
    assert append(text, added, form=Form.FILE) == whole


@pytest.mark.parametrize(
    ("text", "added", "whole"),
    [
        ("Intro.", "- item", "- item\n\nIntro."),
        ("- a", "- item", "- item\n- a"),
        ("- a", "text", "text\n\n- a"),
        ("---", "text", "text\n\n---"),
        ("===", "text", "text\n\n==="),
        (TABLE, "| 2 |", f"| 2 |\n\n{TABLE}"),
        (FRONT + "a", "b", f"{FRONT}b\n\na"),
        (FRONT, "b", f"{FRONT}b\n"),
        ("\n\na", "b", "b\n\n\na"),
    ],
)  # fmt: skip
def test_prepend(text: str, added: str, whole: str) -> None:
    assert prepend(text, added, below_title=False, form=Form.FILE) == whole


@pytest.mark.parametrize(
    ("text", "line", "added", "whole"),
    [
        ("a\n\nb", 2, "x", "a\n\nx\n\nb"),
        ("a\n\nb", 3, "x", "a\n\nx\n\nb"),
        ("a\nb", 2, "x", "a\nx\nb"),
        ("a\nb", 2, "---", "a\n\n---\n\nb"),
        ("> a\n> b", 2, "> x", "> a\n> x\n> b"),
        ("> a\n> b", 2, "> [!TIP]", "> a\n\n> [!TIP]\n\n> b"),
        ("- a\n- b", 2, "- x", "- a\n- x\n- b"),
        ("- a\n- b", 2, "x", "- a\n\nx\n\n- b"),
        ("```\na\nb\n```", 3, "x", "```\na\nx\nb\n```"),
        ("$$\na\n$$", 2, "x", "$$\nx\na\n$$"),
        (FRONT + "a", 2, "x: y", "---\nx: y\ntags: a\n---\na"),
        (FRONT + "a", 1, "x", f"{FRONT}x\n\na"),
    ],
)
def test_an_addition_in_the_middle(text: str, line: int, added: str, whole: str) -> None:
    assert apply_patch(text, [Operation("addition", line, added)], form=Form.FILE) == whole


@pytest.mark.parametrize(
    ("operations", "whole"),
    [
        ([Operation("deletion", 2), Operation("addition", 2, "x")], "a\nx\nc"),
        ([Operation("modification", 2, "y"), Operation("addition", 3, "x")], "a\ny\nx\nc"),
    ],
)
def test_an_addition_that_replaces_a_line_stands_exactly_there(
    operations: list[Operation], whole: str
) -> None:
    assert apply_patch("a\nb\nc", operations, form=Form.FILE) == whole


def test_only_a_file_has_front_matter() -> None:
    text = "---\n\na\n\n---\n\nb"
    assert prepend(text, "x", below_title=False, form=Form.MARKDOWN) == f"x\n\n{text}"


def test_a_text_of_lines_gets_no_blank_ones() -> None:
    assert append("milk\nbread", "eggs") == "milk\nbread\neggs"
    assert prepend("List\n\nmilk", "eggs", below_title=True) == "List\n\neggs\nmilk"


PARTS = st.sampled_from(
    [
        "a", "a\nb", "# a", "- a", "- a\n  - b", "1. a", "- [ ] a", "> a", "> [!NOTE]\n> a", TABLE, "---", "a\n===",
        "```\na\n```", "<div>\na\n</div>", "    a", "- a\n\n  b", "- ```\n  a\n  ```", "> ```\n> a", "> - a", "> | a |\n> |---|",
    ]
)  # fmt: skip


@example(parts=["> ```\n> a", "> - a"], added="> x")
@example(parts=["> ```\n> a", "> ```\n> a"], added="x")
@settings(deadline=None)
@given(
    st.lists(PARTS, min_size=1, max_size=4),
    st.sampled_from(["x", "---", "===", "--", "> x", "# x"]),
)
def test_the_parser_takes_an_appended_line_for_a_block_of_its_own(
    parts: list[str], added: str
) -> None:
    if added == "> x" and parts[-1].startswith("> ```"):
        return  # it goes on with the code
    parser = MarkdownIt("commonmark").enable("table")
    text = "\n\n".join(parts)
    whole = append(text, added, form=Form.MARKDOWN)
    assert whole.startswith(text)
    assert parser.render(whole) == parser.render(text + "\n") + parser.render(added)
