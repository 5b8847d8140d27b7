"""What is shown of a note begins below its front matter."""

import pytest

from mcp_notarium.domain.diff import summarize_change
from mcp_notarium.domain.lines import preview
from mcp_notarium.domain.note import Content
from mcp_notarium.markup.front_block import shown_part

FRONT = "---\ntags: [a]\n---\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{FRONT}\n# Plan\n", "# Plan"),
        (f"\ufeff{FRONT.replace(chr(10), chr(13) + chr(10))}Plan\r\n", "Plan"),
        ("+++\ntitle = 1\n+++\nPlan\n", "Plan"),
        (FRONT, "tags: [a]"),
        ("---\na line across\n", "---"),
        ("---\ntags: a\n", "---"),
        ("---\n---\n", "(empty note)"),
    ],
)
def test_a_preview_begins_below_the_front_matter(text: str, shown: str) -> None:
    assert preview(shown_part(text)) == shown


def test_a_change_is_summarised_by_a_line_of_the_text() -> None:
    new = Content(f"{FRONT}Plan\n")
    assert summarize_change(Content(""), new).line == "Plan"
    assert summarize_change(Content("Plan\n"), new).line == "tags: [a]"
    changed = Content(new.text.replace("[a]", "[b]").replace("Plan", "Plan B"))
    assert summarize_change(new, changed).line == "Plan B"
