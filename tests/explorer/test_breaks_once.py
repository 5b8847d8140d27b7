"""See that faults of before, and small ones, are found, and told in words."""

from __future__ import annotations

import pytest

from explorer.breaks_once import BREAKS as ONCE
from explorer.breaks_once import RARE
from explorer.breaks_subtle import BREAKS as SUBTLE
from explorer.breaks_taken_back import BREAKS as TAKEN_BACK
from explorer.run import forget_loaded, replayed, seeded, shorten, tell
from explorer.test_found import LINE_ABOVE, NOT_MOVED
from explorer.test_found_http import FOUND
from explorer.test_found_schedules import FOUND as FOUND_ELSEWHERE
from support.long import LONG

BREAKS = ONCE | SUBTLE | TAKEN_BACK
_MADE_TWICE = FOUND_ELSEWHERE["a note was made twice whose creation was taken back and repeated"]
QUICK = (
    "a call that fails has no end in the audit chain",
    "a merge takes the last tag that shows a note",
)
PLAYED_AGAIN = {
    "what a write has replaced is kept by each that finishes it": FOUND[
        "an undo found nothing to take back, as two servers had kept what the save had replaced"
    ],
    "tags that a repeated write has cost a note stay away": FOUND[
        "a tag that another device had renamed came back with a tag, which had no answer"
    ],
    "a note of Trilium is gone after one answer": FOUND[
        "a note counted as gone after an answer from before it was made"
    ],
    "a write that was done and undone has no end": FOUND[
        "a write that was done, taken back elsewhere and given a newer base never ended"
    ],
    "a write has no end when its note was made again": FOUND[
        "a write never ended whose note was made again, with numbers that begin at 1"
    ],
    "tags below lines that another program writes are dropped": ("vault files", LINE_ABOVE),
    "a deletion is sent again without a comparison": FOUND[
        "a deletion that was sent again took an edit with it that had come meanwhile"
    ],
    "what was displaced is lost if the file cannot be moved": ("vault files, trash", NOT_MOVED),
    "a note that was made again counts as removed": FOUND[
        "a note made again was removed, as the feed came in another order"
    ],
    "an act ends with its call, not with its write": FOUND_ELSEWHERE[
        "a save that was taken back counted as unknown when it was done"
    ][:2],
    "a call that is taken back has no end in the audit chain": _MADE_TWICE[:2],
    "what was taken back and is called again is done twice": FOUND_ELSEWHERE[
        "a line was appended twice whose call was taken back when it was answered, and repeated"
    ][:2],
    "a text that waits counts as not saved": FOUND_ELSEWHERE[
        "a save counted as cancelled whose text waited to be kept beside another"
    ][:2],
}
"""By what is broken: the world and the schedule in which the explorer once found that."""
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


@pytest.mark.slow("the first one loads a world")
@pytest.mark.parametrize("name", PLAYED_AGAIN)
def test_a_schedule_that_has_found_a_fault_finds_it_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, (world, schedule) = (RARE | BREAKS)[name], PLAYED_AGAIN[name]
    broken.make(monkeypatch.setattr)
    forget_loaded()
    found = replayed(world, schedule, rests=False)
    forget_loaded()
    assert any(word in found.fault for word in broken.words), tell(found)
