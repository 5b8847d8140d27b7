"""The page on new stores names every combination of traits that is supported, and no other."""

import re
from pathlib import Path

from mcp_notarium.stores.contract import SUPPORTED, Changes

PAGE = Path(__file__).parents[2] / "docs" / "new-store.md"
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
