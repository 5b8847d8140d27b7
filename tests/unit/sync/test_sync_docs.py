"""docs/sync.md gives the numbers and names of the code; ``scripts/generated_pages.py`` writes its tables."""

from pathlib import Path

import pytest

import mcp_notarium
from mcp_notarium.sync.pull_decisions import REMOVAL_COUNT, SWEEP_SHARE

TEXT = (Path(mcp_notarium.__file__).parents[2] / "docs" / "sync.md").read_text()


def test_the_numbers_of_the_removal_limit_are_the_codes():
    assert (
        f"more than {REMOVAL_COUNT} active notes, or {SWEEP_SHARE:.0%}".replace("%", " %") in TEXT
    )


@pytest.mark.parametrize("number", range(1, 9))
def test_each_invariant_is_tested_under_its_name(number):
    invariants = TEXT.split("## Invariants")[1].split("\n## ")[0]
    sentence = invariants.split(f"\n{number}. **")[1].split("**")[0]
    words = sentence.lower().replace(",", "").rstrip(".:").split()
    tests = (Path(__file__).parents[2] / "property" / "test_sync_invariants.py").read_text()
    assert any(
        all(word.replace("page's", "pages") in name for word in words)
        for name in tests.split("def test_")
    )
