"""A block that would take seconds to read is not read."""

import pytest

from mcp_notarium.markup.front_edit import change_tags
from mcp_notarium.markup.front_matter import NotUnderstood, read_tags


@pytest.mark.parametrize("line", ["x: " + "[" * 60 + "]" * 60, "x: [" + "1, " * 12_000 + "1]"])
def test_a_deep_or_crowded_block_is_not_understood(line: str) -> None:
    assert read_tags(f"---\ntags: a\n{line[:3]}1\n---\n") == ("a",)
    with pytest.raises(NotUnderstood):
        read_tags(f"---\ntags: a\n{line}\n---\n")


def test_a_tag_that_stands_in_the_block_hundreds_of_times_is_not_removed() -> None:
    with pytest.raises(NotUnderstood):
        change_tags(f"---\ntags: [{'a, ' * 101}b]\n---\n", added=[], removed=["a"])
    text = change_tags(f"---\ntags: [{'a, ' * 50}b]\n---\n", added=[], removed=["a"])
    assert read_tags(text) == ("b",)


def test_a_tag_takes_the_place_of_another_where_that_stands_alone() -> None:
    text = "---\ntags: ['a b', a]\n---\n"
    changed = change_tags(text, added=["c"], removed=["a"], replaced={"a": "c"})
    assert changed == "---\ntags: [b, c]\n---\n"


@pytest.mark.parametrize("empty", ["  -\n", "  - \n", "  - # later\n"])
def test_an_empty_item_stays_as_it_is_written_with_the_comments_beside_it(empty):
    text = f"---\ntags:\n{empty}  - a # first\n  # between\n  - b\n---\n"
    changed = change_tags(text, added=["c"], removed=["a"])
    assert changed == text.replace("  - a # first\n", "").replace("  - b\n", "  - b\n  - c\n")
