"""Test which lines of a Markdown text are headings."""

from mcp_notarium.markup.headings import MOST, find_headings

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


def test_headings_are_found_outside_code_and_front_matter():
    assert find_headings(TEXT) == [(5, "# Plan"), (7, "## Costs #money"), (12, "### Of Logseq")]
    assert find_headings("\ufeff# First\n---\n# Second\n") == [(1, "# First"), (3, "# Second")]
    assert find_headings("") == []
    assert find_headings("---\n# no end of the block\n") == [(2, "# no end of the block")]


def test_of_too_many_the_deepest_are_left_out():
    chapters = "# Chapter\n" + "## Part\n" * 9 + "### Place\n" * 9
    assert [level for _, level in find_headings(chapters * 5)] == (
        ["# Chapter"] + ["## Part"] * 9
    ) * 5
    assert len(find_headings("# Chapter\n" * 99)) == MOST
    assert find_headings("# " + "x" * 200)[0][1] == "# " + "x" * 77 + "…"
