"""The pages on new stores name every combination of traits that is supported and no other, every field and every error."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mcp_notarium.stores.contract import NOT_STORED, SUPPORTED, Changes, Traits
from mcp_notarium.stores.kind import StoreKind

PAGE = Path(__file__).parents[2] / "docs" / "new-store.md"
REFERENCE = PAGE.with_name("new-store-reference.md")
ROW = re.compile(r"\| (`\w+`(?: with `DELTA`)?), `(\w+)`, `(\w+)`, `(\w+)` \|$", re.MULTILINE)


def test_the_rows_of_the_page_are_those_that_are_supported():
    named = {
        Changes.FEED | Changes.DELTA: "`FEED` with `DELTA`",
        Changes.FEED: "`FEED`",
        Changes.SNAPSHOT: "`SNAPSHOT`",
    }
    rows = {(named[changes], *(one.name for one in more)) for changes, *more in SUPPORTED}
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert set(found) == rows
    assert len(found) == len(rows)


@pytest.mark.parametrize(
    "names",
    [
        [one.name for one in fields(Traits)],
        [one.name for one in fields(StoreKind)],
        [one.__name__ for one in NOT_STORED],
    ],
    ids=["traits", "kind", "errors"],
)
def test_the_reference_has_every_field_and_every_error_of_a_store(names):
    said = {
        name
        for code in re.findall("`[^`]+`", REFERENCE.read_text(encoding="utf-8"))
        for name in re.findall(r"\w+", code)
    }
    assert [name for name in names if name not in said] == []


def test_what_the_pages_say_of_a_file_is_in_it():
    """Names as in `NAME` of `file`, or `NAME` (`file`)."""
    top = PAGE.parents[1]
    places = [top / one for one in ("", "src/mcp_notarium", "src", "src/notarium_devtools")]
    text = " ".join(
        (PAGE.read_text(encoding="utf-8") + REFERENCE.read_text(encoding="utf-8")).split()
    )
    named = re.findall(r"`(\w+)` (?:of|in|\()[ ]?`([\w/]+\.py)`", text)
    assert len(named) > 10
    for name, path in named:
        found = [
            (one / path).read_text(encoding="utf-8") for one in places if (one / path).is_file()
        ]
        assert any(name in one for one in found), (name, path)
