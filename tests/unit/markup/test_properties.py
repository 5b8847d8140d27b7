"""Properties are read as Obsidian, Dataview and Logseq take them."""

from datetime import UTC, date, datetime
from time import process_time

import pytest

from mcp_notarium.markup.front_matter import LARGEST, NotUnderstood
from mcp_notarium.markup.properties import MOST, read_properties
from mcp_notarium.markup.property_values import (
    LONGEST_VALUE,
    OtherValue,
    UnfitProperty,
    from_json,
    to_json,
)

BLOCK = """---
Title: Soup # for winter
rating: 4.5
year: 1977
cooked: true
again: yes
zip: 00815
isbn: 97801403287219780140328721
exact: 9007199254740992
long: 9007199254740993
due: 2026-12-01
quoted: "2026-12-01"
no day: 2026-02-30
at: 2026-12-01T10:30:00
zoned: 2026-12-01 10:30Z
from:
  - Ann
  - "[[Bob]]"  # her son
link: "[[Recipes]]"
nothing:
tilde: ~
line: |-
  2026-12-01
story: |
  one
  two

nested: {a: 1}
deep:
  - [1]
forced: !!int "5"
said: !!str 5
shared: &s 7
same: *s
both: [*s, x]
listed: &l [x]
again too: *l
rating: 5
tags: [food]
aliases: Broth, Stock
? [a]
: b
---
"""


def test_the_block_has_the_values_that_obsidian_shows():
    assert list(read_properties(BLOCK).items()) == [
        ("Title", "Soup"),
        ("rating", 5),
        ("year", 1977),
        ("cooked", True),
        ("again", "yes"),
        ("zip", "00815"),
        ("isbn", "97801403287219780140328721"),
        ("exact", 2**53),
        ("long", "9007199254740993"),
        ("due", date(2026, 12, 1)),
        ("quoted", date(2026, 12, 1)),
        ("no day", "2026-02-30"),
        ("at", datetime(2026, 12, 1, 10, 30)),  # noqa: DTZ001 - the note names no zone
        ("zoned", datetime(2026, 12, 1, 10, 30, tzinfo=UTC)),
        ("from", ("Ann", "[[Bob]]")),
        ("link", "[[Recipes]]"),
        ("nothing", None),
        ("tilde", None),
        ("line", "2026-12-01"),
        ("story", "one\ntwo\n"),
        ("nested", OtherValue("{a: 1}")),
        ("deep", OtherValue("- [1]")),
        ("forced", OtherValue('!!int "5"')),
        ("said", "5"),
        ("shared", 7),
        ("same", 7),
        ("both", ("7", "x")),
        ("listed", ("x",)),
        ("again too", ("x",)),
        ("aliases", ("Broth", "Stock")),
    ]


def test_a_block_of_json_is_read():
    text = '\ufeff---\r\n{"publish": false, "n": -1.5e3, "t": "x: y"}\r\n---\r\nText'
    assert read_properties(text) == {"publish": False, "n": -1500, "t": "x: y"}


@pytest.mark.parametrize(
    "text",
    [
        "---\na: 1\n",
        "---\na: [\n---\n",
        "---\n- a\n---\n",
        "---\njust words\n---\n",
        "---\na: 1\n...\nb: 2\n---\n",
        "---\nx: " + "[" * 60 + "]" * 60 + "\n---\n",
        "---\nx: [" + "1, " * 12_000 + "1]\n---\n",
        "---\nx: " + "a" * LARGEST + "\n---\n",
    ],
)
def test_a_block_that_is_no_mapping_or_too_much_is_not_understood(text):
    with pytest.raises(NotUnderstood):
        read_properties(text)


@pytest.mark.parametrize(
    "text", ["", "Text", "---\n---\nText", "---\n# only this\n---\n", "+++\na = 1\n+++\n"]
)
def test_a_note_without_properties_has_none(text):
    assert read_properties(text) == {}


BODY = """Status:: in **progress**
**Bold Field**:: Nice!
I rate this a [rating:: 9]! It was [mood:: not bad], said (by:: [[Ann]] (and Bob)) .
- [ ] Call Ann [due:: 2026-12-01]
> quoted:: true
- item:: 1, 2, 3
  words:: "yes", "or, no"
* links:: [[A, B]], [[C]]
1. one:: "2026-12-01"
commas:: salt, pepper
empty::
Noël:: Un jeu
[🎅:: a game]
[[no:: link]] std::vector `code:: x` [open:: x
rating:: 3
tags:: #a
alias:: x, y
```
fenced:: x
```python
fenced:: y
```
Says:: [by:: Bob]
```spanned`` [deep:: 1]```
`[code:: x]` [escaped:: a \\] b]
after:: [label] \\] (x)
"""


def test_fields_within_the_text_have_the_values_that_dataview_shows():
    assert list(read_properties("---\nmood: good\n---\n" + BODY).items()) == [
        ("mood", "good"),
        ("Status", "in **progress**"),
        ("Bold Field", "Nice!"),
        ("rating", ("9", "3")),
        ("by", ("[[Ann]] (and Bob)", "Bob")),
        ("quoted", True),
        ("item", ("1", "2", "3")),
        ("words", ("yes", "or, no")),
        ("links", ("[[A, B]]", "[[C]]")),
        ("one", date(2026, 12, 1)),
        ("commas", "salt, pepper"),
        ("empty", None),
        ("Noël", "Un jeu"),
        ("🎅", "a game"),
        ("alias", ("x", "y")),
        ("escaped", "a \\] b"),
        ("after", "[label] \\] (x)"),
    ]


def test_a_fence_behind_a_byte_order_mark_is_a_fence():
    assert read_properties("\ufeff```\na:: 1\n```\nb:: 2") == {"b": 2}


def test_names_count_once_whatever_their_case():
    text = "---\nStatus: a\nstatus: b\n---\nSTATUS:: c\nMood:: d\nmood:: e\n"
    assert read_properties(text) == {"status": "b", "Mood": ("d", "e")}


def test_what_is_too_long_or_too_much_is_bounded():
    long = "x" * (LONGEST_VALUE + 1)
    text = f"---\na: {long}\nb: [{long}, y]\n{'k' * 201}: 1\n---\nc:: {long}\n"
    assert read_properties(text) == {
        "a": OtherValue(long[:-1]),
        "b": OtherValue(f"[{long}"[:LONGEST_VALUE]),
        "c": OtherValue(long[:-1]),
    }
    many = "".join(f"k{number}: {number}\n" for number in range(MOST + 9))
    assert len(read_properties(f"---\n{many}---\n")) == MOST
    assert len(read_properties(many.replace(":", "::"))) == MOST
    assert read_properties(many.replace(":", "::") + "k0:: more\n")["k0"] == ("0", "more")


LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 30)
)


@pytest.mark.parametrize(
    "text",
    [
        f"---\n{LAUGHS}---\n",
        "---\n" + "".join(f"k{number}: v\n" for number in range(4_900)) + "---\n",
        "---\n" + "{" * 60_000 + "\n---\n",
        "---\n? " * 1 + "x" * 60_000 + "\n---\n",
        "[a:: " * 200_000,
        "(a:: [b:: " * 100_000,
        ":: " * 330_000,
        "a b:: c\n" * 125_000,
        "`" * 1_000_000 + ":: ",
        "- ```\n" * 160_000 + "a:: b",
        "> " * 500_000 + "a:: b",
        'a:: "' + '\\"' * 1_900,
        "a:: " + '"b", ' * 200_000,
    ],
)
def test_hostile_texts_take_bounded_time(text):
    begin = process_time()
    try:
        found = read_properties(text)
    except NotUnderstood:
        found = {}
    assert process_time() - begin < 2
    assert len(found) <= MOST


def test_values_come_from_json_and_go_there():
    values = ["a", "2026-12-01", "2026-12-01T10:30:00", 1, 1.5, True, None, ["a", "b"]]
    assert [to_json(from_json(value)) for value in values] == values
    kinds = [str, date, datetime, int, float, bool, type(None), tuple]
    assert [type(from_json(value)) for value in values] == kinds
    assert from_json([1, True, 2.0]) == ("1", "true", "2.0")
    assert to_json(OtherValue("{a: 1}")) == "{a: 1}"
    for value in ({"a": 1}, [["a"]], [None], b""):
        with pytest.raises(UnfitProperty):
            from_json(value)
