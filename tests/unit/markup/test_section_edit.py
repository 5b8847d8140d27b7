"""Test how a section or a block is named, and what becomes of it; all else of a text stays byte for byte."""

import time

import pytest

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.errors import InvalidRequest, PatchError
from mcp_notarium.markup.section_edit import SectionChange, change_section
from mcp_notarium.markup.section_names import find_part, is_by_place

TEXT = """---
tags: [a]
---
Above.

# Plan

## Costs: *2026*

Rent.

### Old

x

## Notes
# Log
## Notes
y

2024
----
z
"""


def lines(name: str, text: str = TEXT) -> tuple[int, int]:
    found = find_part(text, name)
    return found.line, found.end


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Plan", (6, 17)),
        ("plan", (6, 17)),
        ("# Plan", (6, 17)),
        ("#Plan", (6, 17)),
        ("### Plan", (6, 17)),
        ("Costs: *2026*", (8, 16)),
        ("costs 2026", (8, 16)),
        ("Plan > Notes", (16, 17)),
        ("Log#Notes", (18, 21)),
        ("#Log#Notes", (18, 21)),
        ("# Log > ## notes", (18, 21)),
        ("Plan > Old", (12, 16)),
        ("3", (12, 16)),
        ("line 18", (18, 21)),
        ("2024", (21, 24)),
        ("line 22", (21, 24)),
        ("0", (4, 6)),
        ("Costs: *20…", (8, 16)),
    ],
)
def test_a_section_is_found_by_every_form_of_its_name(name, found):
    assert lines(name) == found


@pytest.mark.parametrize(
    ("name", "count", "named"),
    [
        ("Notes", 2, [16, 18]),
        ("Plann", 0, [6]),
        ("Plan > Costs > Nowhere", 0, []),
        ("99", 0, []),
        ("line 4", 0, []),
        (">", 0, []),
        ("#", 0, []),
    ],
)
def test_a_name_of_none_or_several_is_an_error_that_lists_what_is_near(name, count, named):
    with pytest.raises(PatchError) as caught:
        find_part(TEXT, name)
    error = caught.value
    assert error.details["found"] == count
    assert error.tells_text
    rows = error.details["sections"]
    assert [row["line"] for row in rows][: len(named)] == named
    assert len(rows) <= 5


@pytest.mark.parametrize(("above", "by_path"), [("", False), ("# B\n", True)])
def test_a_path_is_named_as_a_way_only_where_it_tells_sections_apart(above, by_path):
    with pytest.raises(PatchError) as caught:
        find_part(f"# A\n## Costs\n{above}## Costs\n", "Costs")
    assert ("by its path" in caught.value.resolution_hint) == by_path
    assert "`line N`" in caught.value.resolution_hint


def test_a_number_that_is_a_heading_too_is_told_apart():
    text = "# 2\na\n# b\nc\n"
    with pytest.raises(PatchError) as caught:
        find_part(text, "2")
    assert [row["line"] for row in caught.value.details["sections"]] == [1, 3]
    assert lines("# 2", text) == (1, 3)
    assert lines("line 3", text) == (3, 5)
    with pytest.raises(PatchError, match="no headings"):
        find_part("text", "2")
    assert [is_by_place(name) for name in ("3", "line 3", "0", "A", "^3", "2 a")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def changed(held: str, section: str, /, *, titles: bool = True, **change: str) -> str:
    replacing = (change.pop("find"), change.pop("replace")) if "find" in change else None
    asked = SectionChange(section, replacing=replacing, **change)
    return change_section(held, asked, form=Form.FILE, titles=titles)


@pytest.mark.parametrize(
    ("text", "section", "change", "result"),
    [
        ("# A\n\na\n\n## B\n\nb\n\n# C\n", "A", {"append": "x"}, "# A\n\na\n\n## B\n\nb\n\nx\n\n# C\n"),
        ("# A\na\n# C", "A", {"append": "x"}, "# A\na\n\nx\n\n# C"),
        ("# A\n- a\n# C", "A", {"append": "- x"}, "# A\n- a\n- x\n\n# C"),
        ("# A\r\na\r\n\r\n# C\r\n", "A", {"append": "- x\n- y"}, "# A\r\na\r\n\r\n- x\r\n- y\r\n\r\n# C\r\n"),
        ("# A", "A", {"append": "x"}, "# A\nx"),
        ("# A\n\n# C\n", "A", {"append": "x"}, "# A\nx\n\n# C\n"),
        ("# A\nx\n\nB\n===\n", "A", {"append": "y"}, "# A\nx\n\ny\n\nB\n===\n"),
        ("# A\n\na\n", "A", {"prepend": "x"}, "# A\n\nx\n\na\n"),
        ("A\n===\na\n", "A", {"prepend": "x"}, "A\n===\nx\n\na\n"),
        ("# A\n\na\n\n## B\nb\n\n# C\n", "A", {"text": "x\ny\n"}, "# A\n\nx\ny\n\n# C\n"),
        ("# A\n\na\n\n# C\n", "A", {"text": "# A\n\nx"}, "# A\n\nx\n\n# C\n"),
        ("# A\n\na\n\n# C\n", "A", {"text": "\nx\n\n"}, "# A\n\nx\n\n# C\n"),
        ("A\n=\na\n\n# C\n", "A", {"text": "A\n=\n\nx"}, "A\n=\nx\n\n# C\n"),
        ("# A\n\na\n\n# C\n", "A", {"text": ""}, "# A\n\n# C\n"),
        ("# A\na\n\n# C\n", "A", {"text": ""}, "# A\n\n# C\n"),
        ("# A\n***\nB\n===\n", "A", {"text": "x"}, "# A\nx\n\nB\n===\n"),
        ("a\n# A\na\n# B\na\n", "A", {"find": "a", "replace": "x"}, "a\n# A\nx\n# B\na\n"),
        ("# A #\na\n", "A", {"heading": "B"}, "# B #\na\n"),
        ("A\na\n===\r\nx", "A a", {"heading": "B"}, "B\n===\r\nx"),
        ("  ##  A\n", "A", {"heading": "## B c"}, "  ##  B c\n"),
        ("#\na", "1", {"heading": "B"}, "# B\na"),
        ("# A\na\n", "A", {"heading": "B", "append": "x"}, "# B\na\n\nx\n"),
        ("---\nk: 1\n---\n# A\n", "0", {"append": "x"}, "---\nk: 1\n---\nx\n\n# A\n"),
        ("---\nk: 1\n---\n", "0", {"prepend": "x"}, "---\nk: 1\n---\nx\n"),
        ("- # A\n\t- a\n- # B\n", "A", {"append": "\t- x"}, "- # A\n\t- a\n\t- x\n- # B\n"),
        ("- # A\n  id:: 1\n\t- a\n- B\n", "A", {"text": "x\ny"}, "- # A\n  id:: 1\n\t- x\n\t  y\n- B\n"),
        ("- # A\n  id:: 1\n  b\n\t- a\n- B\n", "A", {"prepend": "x"}, "- # A\n  id:: 1\n  b\n\t- x\n\t- a\n- B\n"),
        ("- # A\n  id:: 1\n- B\n", "A", {"text": "- # A\n  id:: 1\n\t- x"}, "- # A\n  id:: 1\n\t- x\n- B\n"),
        ("- # A\r\n- B\r\n  - b\r\n", "A", {"append": "x\n\ny"}, "- # A\r\n  - x\r\n  - y\r\n- B\r\n  - b\r\n"),
        ("- # A\nB\n", "A", {"append": "x"}, "- # A\n\t- x\n\nB\n"),
        ("- a\n    - # A\n        - b\n    - c", "A", {"append": "- x\n  - y"}, "- a\n    - # A\n        - b\n        - x\n          - y\n    - c"),
        ("- a\n\t- # A\n\t\t- b\n", "A", {"heading": "B"}, "- a\n\t- # B\n\t\t- b\n"),
        ("- # A\n\t- b\n- B\n", "A", {"text": ""}, "- # A\n- B\n"),
        ("- # A\n\t- b\n- B\n", "A", {"text": "# A\n- c"}, "- # A\n\t- c\n- B\n"),
        ("```\n# A\n```\n# A\n~~~\n# B\n~~~\n", "A", {"append": "x"}, "```\n# A\n```\n# A\n~~~\n# B\n~~~\n\nx\n"),
    ],
)  # fmt: skip
def test_only_the_section_changes(text, section, change, result):
    assert changed(text, section, **change) == result


def test_lines_for_the_top_of_a_note_stay_below_its_title():
    assert changed("Title\n\na\n# B\n", "0", titles=False, prepend="x") == "Title\n\nx\n\na\n# B\n"
    assert changed("Title\n\na\n# B\n", "0", titles=True, prepend="x") == "x\n\nTitle\n\na\n# B\n"


@pytest.mark.parametrize(
    ("text", "section", "change"),
    [
        ("# A\n", "0", {"heading": "B"}),
        ("# A\n", "A", {"heading": "B\nc"}),
        ("# A\n", "A", {"heading": "#"}),
        ("# A\n", "A", {"heading": "b #"}),
        ("A\n---\n", "A", {"heading": "- b"}),
        ("A\n---\n", "A", {"heading": "> b"}),
        ("# A\n", "A", {"heading": "x" * 1001}),
        ("# A\na\n", "A", {"text": "# B\nb"}),
        ("a ^x\n", "^x", {"heading": "B"}),
        ("a ^x\n", "^x", {"text": " "}),
        ("# A\na\n# B\nc\n", "A", {"find": "c", "replace": "d"}),
        ("# A\naa\n", "A", {"find": "a", "replace": "d"}),
    ],
)
def test_what_no_section_can_become_is_refused(text, section, change):
    with pytest.raises(InvalidRequest):
        changed(text, section, **change)


def test_lines_in_errors_are_those_of_the_note():
    with pytest.raises(PatchError, match="in the section 2 times, from lines 3, 4") as caught:
        changed("x\n# A\na\na\n", "A", find="a", replace="b")
    assert caught.value.details["line_numbers"] == [3, 4]
    with pytest.raises(PatchError, match=r"nowhere in the section\. Line 3") as caught:
        changed("x\n# A\nmilk and bread\n", "A", find="Milk and bread", replace="b")
    assert caught.value.details["nearest_line"] == 3


def test_a_block_in_an_outline_is_found_below_a_heading_of_an_item():
    text = "- # A\n\t- b ^x\n\t\t- c\n\t- ## D ^y\n\t\t- e\n- f ^z\n"
    assert [lines(name, text) for name in ("^x", "^y", "^z")] == [(2, 4), (4, 6), (6, 7)]


BLOCKS = """# A

one
two ^para

- a ^item
  - child

  more
- b
  - c ^deep

> said
> more ^quote

| a |
|---|
| b |

^table

- x
- y

^list

```
code ^no
```

## Head ^head
z
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("^para", (3, 5)),
        ("#^para", (3, 5)),
        ("^item", (6, 10)),
        ("^deep", (11, 12)),
        ("^quote", (13, 15)),
        ("^table", (16, 19)),
        ("^list", (22, 24)),
        ("^head", (31, 33)),
    ],
)
def test_a_block_is_found_by_its_id(name, found):
    assert lines(name, BLOCKS) == found


def test_an_id_in_code_or_of_several_blocks_is_an_error():
    for name, text, count in (("^no", BLOCKS, 0), ("^x", "a ^x\n\nb ^x\n", 2), ("^x", "^x\n", 0)):
        with pytest.raises(PatchError) as caught:
            find_part(text, name)
        assert caught.value.details["found"] == count


@pytest.mark.parametrize(
    ("name", "change", "old", "new"),
    [
        ("^para", {"text": "new"}, "one\ntwo ^para\n", "new ^para\n"),
        ("^para", {"text": "new\nlines ^para\n"}, "one\ntwo ^para\n", "new\nlines ^para\n"),
        ("^para", {"append": "x"}, "two ^para\n", "two ^para\n\nx\n"),
        ("^para", {"prepend": "x"}, "\none\n", "\nx\n\none\n"),
        ("^para", {"find": "two", "replace": "2"}, "two ^para", "2 ^para"),
        ("^item", {"text": "new"}, "- a ^item\n  - child\n\n  more\n", "- new ^item\n"),
        ("^item", {"text": "- [ ] new\n  - kid"}, "- a ^item\n  - child\n\n  more\n", "- [ ] new ^item\n  - kid\n"),
        ("^item", {"append": "- x"}, "  more\n", "  more\n- x\n"),
        ("^deep", {"text": "- new"}, "  - c ^deep\n", "  - new ^deep\n"),
        ("^deep", {"append": "  - d"}, "c ^deep\n", "c ^deep\n  - d\n"),
        ("^quote", {"text": "new"}, "> said\n> more ^quote\n", "> new ^quote\n"),
        ("^table", {"append": "x"}, "\n^table\n", "\n^table\n\nx\n"),
        ("^list", {"text": "- z"}, "- x\n- y\n", "- z\n"),
        ("^head", {"append": "more"}, "z\n", "z\n\nmore\n"),
    ],
)  # fmt: skip
def test_only_the_block_changes_and_keeps_its_id(name, change, old, new):
    assert BLOCKS.count(old) == 1
    assert changed(BLOCKS, name, **change) == BLOCKS.replace(old, new)


def test_a_task_keeps_its_box():
    assert changed("* [x] a ^t\n* b\n", "^t", text="c") == "* [x] c ^t\n* b\n"


def test_blocks_of_a_hostile_note_are_looked_for_in_bounded_time():
    began = time.process_time()
    for text in ("- x ^a\n" * 12_000, "- x ^a\n" * 140_000):
        with pytest.raises(PatchError):
            find_part(text, "^a")
    assert lines("^a", f"{'> ' * 30_000}x ^a\n") == (1, 2)
    text = "".join(f"## Head {number}\nwords\n" for number in range(10_000))
    assert changed(text, "Head 5000", append="x") != text
    with pytest.raises(PatchError):
        find_part(text, "Head > nowhere#at all")
    assert time.process_time() - began < 10.0, "two seconds on a machine with nothing else to do"
