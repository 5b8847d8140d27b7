"""See that faults of before, and small ones, are found, and told in words."""

from __future__ import annotations

import pytest

from explorer.breaks_once import BREAKS as ONCE
from explorer.breaks_subtle import BREAKS as SUBTLE
from explorer.run import forget_loaded, replayed, seeded, shorten, tell
from support.long import LONG

BREAKS = ONCE | SUBTLE
QUICK = ("a server asks once whether it leads", "a call that fails has no end in the audit chain")
MOST = 5_000
"""Schedules in which a break has to be found; most are found in the first hundred."""


@pytest.mark.slow("explores until a fault is found")
@pytest.mark.parametrize("name", BREAKS if LONG else QUICK)
def test_what_was_broken_once_is_found_and_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BREAKS[name]
    broken.make(monkeypatch.setattr)
    forget_loaded()
    outcomes = (seeded(broken.world, "breaks", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    shortest = shorten(found)
    assert any(word in shortest.fault for word in broken.words), shortest.fault
    assert shortest.fault in tell(shortest)
    assert replayed(broken.world, shortest.schedule).digest == shortest.digest
    forget_loaded()
