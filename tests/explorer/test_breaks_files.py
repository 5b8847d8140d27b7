"""See that what is broken on purpose in a store of files is found, and told in words."""

from __future__ import annotations

import pytest

from explorer.breaks_files import BREAKS
from explorer.choices import Chooser
from explorer.run import play, replayed, seeded, shorten, tell
from explorer.world import WORLDS
from support.long import LONG

QUICK = (
    "the notebook stores over any base",
    "files are not exchanged",
)
MOST = 3000
"""Schedules in which a break has to be found; most are found in the first two hundred."""


@pytest.mark.slow("explores until a fault is found")
@pytest.mark.parametrize("name", BREAKS if LONG else QUICK)
def test_what_is_broken_in_a_store_of_files_is_found_and_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = BREAKS[name]
    broken.make(monkeypatch.setattr)
    outcomes = (seeded(broken.world, "breaks", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    shortest = shorten(found)
    assert any(word in shortest.fault for word in broken.words), shortest.fault
    assert shortest.fault in tell(shortest)
    assert replayed(broken.world, shortest.schedule).digest == shortest.digest


@pytest.mark.parametrize("world", [name for name in WORLDS if " files" in name])
def test_over_real_files_nothing_goes_wrong_without_a_choice(world: str) -> None:
    calm, again = (play(world, Chooser(schedule={}), rests=True) for _ in range(2))
    assert (calm.fault, calm.schedule) == ("", {})
    assert calm.digest == again.digest
