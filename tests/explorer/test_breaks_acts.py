"""See that what is broken on purpose in acts on many notes and on parts of one, and in changes of policy and key, is found, and told in words."""

from __future__ import annotations

import pytest

from explorer.run import forget_loaded, replayed, seeded, shorten, tell
from explorer.shares import ALL_BREAKS
from explorer.shares import BREAKS_OF_ACTS as BREAKS
from support.long import LONG, sample

QUICK = (
    "a renamed tag takes the others away",
    "newly hidden notes stay",
    "the key file is not flushed",
    "what is for a section goes to the end",
    "one note alone is undone",
    "an undo takes nothing back",
)
MOST = 3000
"""Schedules in which a break has to be found; most are found in the first two hundred."""


def test_each_break_breaks_what_is_there() -> None:
    for broken in ALL_BREAKS.values():
        with pytest.MonkeyPatch.context() as patch:
            broken.make(patch.setattr)


@pytest.mark.slow("explores until a fault is found")
@pytest.mark.parametrize("name", BREAKS if LONG else sample("breaks of acts", QUICK, 2))
def test_what_is_broken_beside_single_saves_is_found_and_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, make, words = BREAKS[name]
    make(monkeypatch.setattr)
    forget_loaded()
    outcomes = (seeded(world, "breaks", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    shortest = shorten(found)
    assert any(word in shortest.fault for word in words), shortest.fault
    assert shortest.fault in tell(shortest)
    assert replayed(world, shortest.schedule).digest == shortest.digest
    forget_loaded()
