"""Read the schedules that have found something once, and make neighbours of them.

``kept.json`` has them. What ``./scripts/explore --save FILE`` writes can be added as it is, once it is mended, with what it
is ``about``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.choices import ANOTHER, Schedule

_LOST = (0.0, 0.1, 0.3, 0.6)
"""Shares of the choices of a schedule that its neighbour lacks; a run draws one of them."""
_CHANGED = (0.0, 0.1, 0.3)
"""Shares that it decides otherwise, or where the same comes up a little earlier or later."""
_JOINED = 0.25
"""How often a neighbour also has what another kept schedule of its world has."""
_ADDED = (0.0, 0.02, 0.1, 0.3)
"""How often it has new choices, as a share of how often a run of a seed alone has them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold a schedule that has found something."""

    about: str
    """What was wrong."""
    world: str
    schedule: Schedule
    told: Sequence[str] = ()
    """What its story must tell, lest it has become another one; (): all its choices come up."""
    shows: Sequence[str] = ()
    """Names of breaks that are found with it."""


KEPT = tuple(Kept(**one) for one in json.loads(Path(__file__).with_name("kept.json").read_text()))
COVERING_FILE = Path(__file__).with_name("covering.json")
COVERING = tuple(
    Kept(about=f"what is seldom reached, {number}", **one)
    for number, one in enumerate(json.loads(COVERING_FILE.read_text()))
)
"""Those that reach what a run of a seed seldom reaches; see ``covering``."""


def near(kept: Kept, draws: random.Random) -> tuple[Schedule, float]:
    """Return a schedule like this one, and how much is added to it."""
    schedule = _changed(kept.schedule, draws)
    others = [one for one in KEPT if one.world == kept.world and one is not kept]
    if others and draws.random() < _JOINED:
        schedule = _changed(draws.choice(others).schedule, draws) | schedule
    return schedule, draws.choice(_ADDED)


def _changed(schedule: Schedule, draws: random.Random) -> Schedule:
    lost, changed = draws.choice(_LOST), draws.choice(_CHANGED)
    made: Schedule = {}
    for key, option in schedule.items():
        if draws.random() < lost:
            continue
        if draws.random() >= changed:
            made[key] = option
        elif draws.random() < 0.5:
            made[key] = ANOTHER
        else:
            label, _, time = key.rpartition(" #")
            made[f"{label} #{max(1, int(time) + draws.choice((-2, -1, 1, 2)))}"] = option
    return made
