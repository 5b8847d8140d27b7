"""Play again the schedules in which something once did not hold, and neighbours of them."""

from __future__ import annotations

import pytest

from explorer.kept import KEPT, Kept
from explorer.run import replayed, tell


@pytest.mark.parametrize("kept", KEPT, ids=[one.about for one in KEPT])
def test_what_was_found_once_holds(kept: Kept) -> None:
    outcome = replayed(kept.world, kept.schedule, rests=False)
    told = tell(outcome)
    assert outcome.fault == "", told
    assert [words for words in kept.told if words not in told] == []
    assert kept.told or outcome.schedule.keys() == kept.schedule.keys()


def test_each_is_kept_once() -> None:
    assert len({one.about for one in KEPT}) == len(KEPT)
    assert len({(one.world, *sorted(one.schedule.items())) for one in KEPT}) == len(KEPT)
