"""Properties are written as Obsidian writes them, each in its place."""

from datetime import UTC, date, datetime
from time import process_time

import pytest

from mcp_notarium.markup.front_matter import NotUnderstood
from mcp_notarium.markup.properties import MOST_CHANGES, REMOVE, change_properties, read_properties
from mcp_notarium.markup.property_values import OtherValue, UnfitProperty

NOTE = """---
Title: Soup # for winter
from:
  - Ann # my aunt
  - Bob
places: [home, "the lake"] # two
nested: {a: 1} # left alone
---
Text with a [rating:: 3] in it
mood:: fine
"""


def test_each_value_is_written_in_its_place():
    changes = {
        "title": "Soup: the book",
        "from": ("Ann", "Cid", "Bob"),
        "PLACES": ("home",),
        "rating": 5,
        "mood": REMOVE,
        "due": date(2026, 12, 1),
        "at": datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
        "links": ("[[Ann]]", "plain"),
        "again": "yes",
        "cooked": False,
        "weight": 2.5,
        "empty": None,
        "none": (),
        "- odd: name": 'said "yes"\nand left',
    }
    assert change_properties(NOTE, changes) == """---
Title: "Soup: the book" # for winter
from:
  - Ann # my aunt
  - Cid
  - Bob
places: [home] # two
nested: {a: 1} # left alone
due: 2026-12-01
at: 2026-12-01T09:30:00+00:00
links:
  - "[[Ann]]"
  - plain
again: "yes"
cooked: false
weight: 2.5
empty:
none: []
"- odd: name": said "yes" and left
---
Text with a [rating:: 5] in it
""".replace('said "yes" and left', '"said \\"yes\\"\\nand left"')  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "name", "value", "wanted"),
    [
        ("a: 1\nb: 2\n", "a", ("x", "y"), "a:\n  - x\n  - y\nb: 2\n"),
        ("a: 1 # c\n", "a", ("x",), "a: # c\n  - x\n"),
        ("a: # c\n- x # d\n- y\nb: 2\n", "a", "z", "a: z # c\nb: 2\n"),
        ("a:\n- x # d\n- y # e\n", "a", ("x", "z"), "a:\n- x # d\n- z # e\n"),
        ("a:\n- x\n- y # e\n", "a", ("y",), "a:\n- y # e\n"),
        ("a:\n  - x\n", "a", (), "a: []\n"),
        ("a: [x, y, z]\n", "a", ("x", "z"), "a: [x, z]\n"),
        ("a: [x, y]\n", "a", ("w", "x", "y", "a,b"), 'a: [w, x, y, "a,b"]\n'),
        ("a: [1, 0x2]\n", "a", ("1", "0x2", "3"), 'a: [1, 0x2, "3"]\n'),
        ("a:\n", "a", 1, "a: 1\n"),
        ("a: # c\n", "a", 1, "a: 1 # c\n"),
        ("a: 1\n", "a", None, "a:\n"),
        ("a: |\n  x\n  y\n\nb: 2\n", "a", "z", "a: z\n\nb: 2\n"),
        ("a: 'x'\n", "a", "x", "a: 'x'\n"),
        ('a: "2026-12-01"\n', "a", "2026-12-01", 'a: "2026-12-01"\n'),
        ("a: x\n", "a", "2026-12-01", "a: 2026-12-01\n"),
        ("a: 1\nA: 2\n", "a", 3, "a: 1\nA: 3\n"),
        ("  a: 1\n", "b", ("x",), "  a: 1\n  b:\n    - x\n"),
        ("# c\n", "a", 1, "# c\na: 1\n"),
        ("", "a", 1, "a: 1\n"),
        ('{"a": 1, "b": ["x"]}\n', "b", ("x", "y"), '{"a": 1, "b": ["x", "y"]}\n'),
        ('{"a": 1}\n', "b", "x", '{"a": 1, "b": "x"}\n'),
        ("{}\n", "b", None, '{"b": null}\n'),
        ("a: &x 1\nb: 2\n", "a", 3, "a: 3\nb: 2\n"),
        ("a: &x 1\nb: *x\n", "b", 3, "a: &x 1\nb: 3\n"),
        ("a: x\n", "a", "1e3", 'a: "1e3"\n'),
        ("? a\n: x\n", "a", "y", "? a\n: y\n"),
        ("? a\n: x\n", "a", ("y",), "? a\n:\n  - y\n"),
        ("a: 'x' # c\n", "a", "it's", "a: 'it''s' # c\n"),
        ('a: "x"\n', "a", "y: z", 'a: "y: z"\n'),
        ("a: 'x'\n", "a", "y\tz", 'a: "y\\tz"\n'),
        ("a: 'x'\n", "a", 3, "a: 3\n"),
        ("a: '2026-12-01'\n", "a", date(2026, 12, 2), "a: '2026-12-02'\n"),
        ("a: ['x', 'y'] # c\n", "a", ("z", "y", "w"), "a: ['z', 'y', 'w'] # c\n"),
        ('a:\n  - "x" # c\n', "a", ("x", "y"), 'a:\n  - "x" # c\n  - "y"\n'),
        ("a: [x, # c\n  'y', z]\n", "a", ("w", "y", "v"), "a: [w, # c\n  'y', v]\n"),
        ("a: [x, 'y', z]\n", "a", ("w", "y", "v", "u"), "a: [w, 'y', v, u]\n"),
        ("a: | # c\n   x\n   y\n\nb: 2\n", "a", "z\n\nw", "a: |- # c\n   z\n\n   w\n\nb: 2\n"),
        ("a: |-\n  x\n", "a", "z\nw\n", "a: |\n  z\n  w\n"),
    ],
)
def test_a_value_takes_the_place_and_the_form_of_the_old_one(inner, name, value, wanted):
    for end in ("\n", "\r\n"):
        text = f"\ufeff---\n{inner}---".replace("\n", end)
        changed = change_properties(text, {name: value})
        assert changed == f"\ufeff---\n{wanted}---".replace("\n", end)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("---\nb: 1\na: 2 # c\n# d\n---\nText", "---\nb: 1\n# d\n---\nText"),
        ("---\na:\n  - x\n\n  - y\nb: 1\n---\n", "---\nb: 1\n---\n"),
        ("---\na: 1\nA: 2\n---\nText\na:: 3\n", "Text\n"),
        ("---\na: 1\n# kept\n---\nText", "---\n# kept\n---\nText"),
        ("\ufeff---\r\na: 1\r\n---\r\n", "\ufeff"),
        ("---\na: 1\n---\n---\nb: 2\n---\n", "---\n---\n---\nb: 2\n---\n"),
        ('---\n{"b": 1, "a": 2}\n---\n', '---\n{"b": 1}\n---\n'),
        ('---\n{"a": 2, "b": 1}\n---\n', '---\n{"b": 1}\n---\n'),
        ("---\n{a: 2}\n---\nText", "Text"),
        ("---\nk: |+\n  x\na: |\n  y\n\n---\n", "---\nk: |+\n  x\n---\n"),
        ("Text [a:: 1]!\n- a:: 2\n- b\n", "Text!\n- b\n"),
        ("- a:: 2\n  - child\n", "- \n  - child\n"),
        ("- [a:: 2] b", "- b"),
        ("a:: 1 [a:: 2]\nText", "Text"),
        ("b:: 1", "b:: 1"),
    ],
)  # fmt: skip
def test_a_property_goes_with_its_lines(text, wanted):
    assert change_properties(text, {"a": REMOVE}) == wanted


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("a:: 1", "x, y", "a:: x, y"),
        ("a:: 1", "5", 'a:: "5"'),
        ("a::\nb", ("x", "[[Y]]", "3"), 'a:: "x", [[Y]], 3\nb'),
        ("a:: 1\nA:: 2\n", ("x", "y"), "a:: x\nA:: y\n"),
        ("(a:: 1)", "[[X (y)]]", "(a:: [[X (y)]])"),
        ("a:: 1", (), "a:: "),
        ('a:: "x"', "x", 'a:: "x"'),
        ("\ufeffb:: 1\nText", 2, "\ufeffb:: 1\na:: 2\nText"),
        ("+++\n+++\nb:: 1\na:: 1\n", 2, "+++\n+++\nb:: 1\na:: 2\n"),
        ("a:: 1", ("x",), "a:: x"),
        ("b:: 1\n\nText", 2, "b:: 1\na:: 2\n\nText"),
        ("b:: 1", 2, "b:: 1\na:: 2"),
        ("+++\nb = 1\n+++\na:: 1\n", 2, "+++\nb = 1\n+++\na:: 2\n"),
        ("---\na: 1\n---\na:: 1\n", 2, "---\na: 2\n---\na:: 1\n"),
    ],
)
def test_a_field_in_the_text_changes_there(text, value, wanted):
    assert change_properties(text, {"a": value}) == wanted


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        *(
            ("", name, 1)
            for name in ("", " a", "a ", "a\nb", "<<", "x" * 201, "a\ud800", "tags", "Tag")
        ),
        ("", "a", float("inf")),
        ("", "a", 2**53 + 1),
        ("", "a", "x" * 4_001),
        ("", "a", ("x",) * 1_001),
        ("", "a", "\ud800"),
        ("", "a", OtherValue("{b: 1}")),
        ("---\na: {b: 1}\n---\n", "a", 1),
        ("---\na: &x 1\nb: *x\n---\n", "a", 2),
        ("---\na: &x 1\nb: *x\n---\n", "a", REMOVE),
        ("a:: 1\na:: 2\n", "a", 1),
        ("a:: 1\na:: 2\n", "a", ("x", "y", "z")),
        ("a:: 1", "a", "two\nlines"),
        ("[a:: 1]", "a", "b]c"),
        ("b:: 1", "a: b", 1),
        ("---\na: 1\nb: 2\na: 3\n---\n", "a", 4),
        ("---\na: 1\nb: 2\na: 3\n---\n", "A", REMOVE),
    ],
)
def test_what_no_property_can_be_is_refused(text, name, value):
    with pytest.raises(UnfitProperty):
        change_properties(text, {name: value})


@pytest.mark.parametrize(
    "text",
    [
        "---\na: 1\n",
        "+++\na = 1\n+++\n",
        "---\na: 1\n...\n---\n",
        "---\n- x\n---\n",
        "---\na: [\n---\n",
    ],
)
def test_a_block_that_is_not_understood_is_not_changed(text):
    with pytest.raises(NotUnderstood):
        change_properties(text, {"b": 1})


def test_many_fields_are_removed_in_bounded_time():
    text = "a:: b\nText [a:: c]\n" * 15_000
    begin = process_time()
    assert change_properties(text, {"a": REMOVE}) == "Text\n" * 15_000
    assert process_time() - begin < 10


def test_changes_take_bounded_time():
    text = "---\n" + "".join(f"k{number}: v\n" for number in range(1_000)) + "---\n"
    changes = {f"k{number}": number for number in range(MOST_CHANGES)}
    begin = process_time()
    changed = change_properties(text, changes)
    assert process_time() - begin < 4
    assert [*read_properties(changed).values()][: MOST_CHANGES + 1] == [*range(MOST_CHANGES), "v"]
    with pytest.raises(UnfitProperty):
        change_properties("", dict.fromkeys(map(str, range(MOST_CHANGES + 1))))
