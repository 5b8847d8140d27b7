"""Test which lines of a Markdown text are headings, and which section each begins."""

import time

import pytest

from mcp_notarium.markup.sections import MOST_SHOWN, outline, read_sections
from support.durations import seconds_of_loop

TEXT = """---
# a comment
tags: [a]
---
# Plan
#no heading, a tag
## Costs #money  \r
```sh
# a comment
```
    # code
- ### Of Logseq
####### seven
text
"""


def shown(text: str) -> list[tuple[int, str]]:
    return [(one.line, one.heading) for one in outline(text)]


def spans(text: str) -> list[tuple[str, int, int]]:
    return [(one.words, one.line, one.end) for one in read_sections(text)[1:]]


def test_headings_are_found_outside_code_and_front_matter():
    assert shown(TEXT) == [(5, "# Plan"), (7, "## Costs #money"), (12, "### Of Logseq")]
    assert shown("\ufeff# First\n---\n# Second\n") == [(1, "# First"), (3, "# Second")]
    assert shown("") == []
    assert shown("---\n# no end of the block\n") == [(2, "# no end of the block")]
    assert shown("+++\n# a comment\n+++\n# First") == [(4, "# First")]


def test_of_too_many_the_deepest_are_left_out():
    chapters = "# Chapter\n" + "## Part\n" * 9 + "### Place\n" * 9
    assert [level for _, level in shown(chapters * 5)] == (["# Chapter"] + ["## Part"] * 9) * 5
    assert len(shown("# Chapter\n" * 99)) == MOST_SHOWN
    assert len(shown("## Chapter\n### Part\n" * 99)) == MOST_SHOWN, "no heading is above these"
    assert shown("# " + "x" * 200)[0][1] == "# " + "x" * 77 + "…"
    numbers = [one.number for one in outline(chapters * 5)]
    assert numbers[9:12] == [10, 20, 21], "the numbers count the headings that are left out"


def test_a_section_ends_at_the_next_heading_of_the_same_or_a_higher_level():
    text = "a\n# One\nb\n### Deep\nc\n## Two\n# Three\n"
    assert spans(text) == [("One", 2, 7), ("Deep", 4, 6), ("Two", 6, 7), ("Three", 7, 8)]
    above, *rest = read_sections(text)
    assert (above.ordinal, above.line, above.end) == (0, 1, 2)
    assert [one.within for one in rest] == [(), (1,), (1,), ()]
    assert read_sections("")[0].end == 1
    assert read_sections("- a\n\t- # b\n")[0].end == 1, "an item is not cut at a heading within"
    front = read_sections("---\na: 1\n---\nabove\n# One")[0]
    assert (front.line, front.end) == (4, 5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One\ntwo\n===\nthree\n---\n", [("One two", 1, 6), ("three", 4, 6)]),
        ("- a\n---\n# b", [("b", 3, 4)]),
        ("- a\nlazy\n===\n", []),
        ("- # a\nnot lazy\n===\n", [("a", 1, 2), ("not lazy", 2, 4)]),
        ("> quote\nlazy\n===\n\nnew\n===", [("new", 5, 7)]),
        ("- a\n\n  ```\n  # code\n  ```\n# b", [("b", 6, 7)]),
        ("- ```\n# b\n", [("b", 2, 3)]),
        ("````\n```\n# code\n````\n# b", [("b", 5, 6)]),
        ("~~~\n```\n# code\n~~~\n# b", [("b", 5, 6)]),
        ("```\n# the fence never ends", []),
        ("\t# code\n# b", [("b", 2, 3)]),
        ("<!--\n\n# hidden\n-->\n# b", [("b", 5, 6)]),
        ("<div>\n# hidden\n\n# b", [("b", 4, 5)]),
        ("%%\n\n# hidden\n%%\n# b", [("b", 5, 6)]),
        ("an %%inline%% comment\n%%one line%%\n# b", [("b", 3, 4)]),
        ("%%\n# never closed", [("never closed", 2, 3)]),
        ("| a |\n|---|\n| b |\n===\n# c", [("c", 5, 6)]),
        ("[a]: /b\n===\n# c", [("c", 3, 4)]),
        ("# a ##\r\n## C# ##\r\n##\r\n", [("a", 1, 4), ("C#", 2, 3), ("", 3, 4)]),
        ("  # in\n   # three\n    # code", [("in", 1, 2), ("three", 2, 4)]),
        ("1. a\n   # of the item\n# b", [("b", 3, 4)]),
        ("a\n2. no item\n   # heading", [("heading", 3, 4)]),
        ("- # a\n\t- b\n- c\n", [("a", 1, 3)]),
        ("- # a\n\t- # b\n\t\t- c\n\t- d\n- e", [("a", 1, 5), ("b", 2, 4)]),
        ("# T\n- # a\n  - b\n- c\n## U", [("T", 1, 6), ("a", 2, 4), ("U", 5, 6)]),
        ("- # a\n  - b\nlazy\n\n  - c\n\nnot lazy", [("a", 1, 7)]),
        ("- # a\n  - b\n#tag\n> no\n", [("a", 1, 4)]),
        ("- a\nlazy\n\t- # b\n\t- c", [("b", 3, 4)]),
    ],
)
def test_blocks_are_told_apart_as_commonmark_does(text, found):
    assert spans(text) == found


HOSTILE = {
    "headings": "# a\n" * 62_500,
    "one line": "# " + "#" * 250_000,
    "fence": "```\n" + "# a\n" * 62_500,
    "quotes": "> a\nb\n===\n" * 25_000,
    "items": "- a\nb\n===\n" * 25_000,
    "tables": "a | b\n===\n" * 25_000,
    "definitions": "[a]: /b\n===\n" * 22_500,
    "tags": "a\n<b>\n" * 40_000,
    "nested": "\n".join(" " * level + "- a" for level in range(700)),
    "nested headings": "\n".join("\t" * level + "- # a" for level in range(700)),
    "deep headings": ("- a\n" + "\t- # b\n\t\t- # c\n") * 12_500,
    "one item": "- a\n" + "\t- # b\n\t\t- # c\n" * 6_600,
    "lazy items": "- # a\n  - b\nlazy\n" * 14_000,
    "comments": "%% a\n" * 50_000,
    "blank": "-\n\n" * 82_500,
    "signs": ">" * 250_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_read_in_bounded_time(text):
    loop = seconds_of_loop(300_000)  # a fiftieth of a second on a machine with nothing else to do
    began = time.process_time()
    sections = read_sections(text)
    assert time.process_time() - began < 40 * loop, "a quarter of a second there"
    began = time.process_time()
    outline(text)
    assert time.process_time() - began < 40 * loop
    assert len(sections) <= 62_501
