"""What stands in a block of code for another reader of Markdown does so here."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mcp_notarium.markup.code_parts import lines_outside_code

LINES = st.lists(
    st.sampled_from(["word", "", "```", "~~~", "````", "```python", "~~~ a`b", "``` a`b", "  ```", "text ``` word", "```word```"]),
    max_size=10,
)  # fmt: skip


@given(LINES, st.sampled_from(["\n", "\r\n"]))
def test_blocks_of_code_are_those_of_another_reader(lines, end):
    text = end.join(lines)
    tokens = [one for one in MarkdownIt().parse(text) if one.type == "fence" and one.map]
    inside = {number for one in tokens for number in range(*one.map)}
    wanted = [
        number for number, line in enumerate(lines) if "word" in line and number not in inside
    ]
    found = [
        text.count("\n", 0, start) for start, _ in lines_outside_code(text, re.compile("word"))
    ]
    assert found == wanted
