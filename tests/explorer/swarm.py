"""Draw what a run is about: few kinds of misfortune and few acts, and those often.

What needs two rare choices at once is hardly ever met where every choice has its small share in each run. So each run leaves out some kinds of choices,
and some options of the others, and makes up for it with the rest (swarm testing).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

_SHARES = (1.0, 0.5, 0.2, 0.1)
"""Shares of the kinds of choices that a run has: one share of misfortunes, one of places to end at, and so on."""
_SHARES_OF_OPTIONS = (1.0, 0.3, 0.2)
_NEIGHBOURS = (2, 3, 4)
"""How many options that stand side by side a run has instead: those of a list are akin."""
_SIDE_BY_SIDE = ("edit the top", "edit the end", "tag", "edit above front matter")
"""Options that are akin, but stand apart in their list: schedules name options by number, so later ones come at its end."""
_MOST = 0.5
"""How often a choice is not calm, at most, because others are left out."""
_NAMES = re.compile(r"\b(?:[abmn]\d*|[0-9a-f]{32})\b|\d+")
"""Servers, computers, notes and numbers in a label."""
_OTHERS = "another device"


@lru_cache(maxsize=10_000)
def _kind(label: str) -> str:
    """Return what a choice is about, whoever it is that meets it."""
    return _NAMES.sub("", label)


@lru_cache(maxsize=10_000)
def _group(label: str) -> str:
    """Return what has the same options as a choice, and the same ones left out."""
    return _OTHERS if _OTHERS in label else _kind(label).rpartition(": ")[2]


@lru_cache(maxsize=10_000)
def _family(label: str) -> str:
    """Return whose share of the kinds a choice belongs to."""
    before, _, after = label.partition(": ")
    return before if before == "kill" else after.rpartition(": ")[2]


@lru_cache(maxsize=1_000)
def _side_by_side(names: tuple[object, ...]) -> list[int]:
    """Return the numbers of the options, but for the calm one, with those that are akin side by side."""
    akin = [names.index(one) for one in _SIDE_BY_SIDE if one in names[1:]]
    return [*akin, *(at for at in range(1, len(names)) if at not in akin)]


class Swarm:
    """Hold what the run of a seed leaves out."""

    def __init__(self, seed: str, draws: random.Random) -> None:
        self._seed = seed
        self._is_any = draws.random() < 1 / len(_SHARES)
        self._share_of_options = draws.choice(_SHARES_OF_OPTIONS)
        self._neighbours = draws.choice(_NEIGHBOURS) if draws.random() < 1 / 3 else 0
        self._factors: dict[str, float] = {}

    def rate(self, label: str, rate: float) -> float:
        """Return how often a choice is not calm in this run, which is so often in all of them."""
        if self._is_any or rate == 1.0:
            return rate
        factor = self._factors.get(label)
        if factor is None:
            share = _SHARES[int(self._draw(_family(label)) * len(_SHARES))]
            has = self._draw(_kind(label)) < share
            self._factors[label] = factor = 1 / share if has else 0.0
        return min(max(rate, _MOST), rate * factor)

    def options(self, label: str, names: Sequence[object]) -> Sequence[int]:
        """Return the numbers of the options, but for the calm one, that a choice has in this run: one at least."""
        every, share, group = range(1, len(names)), self._share_of_options, _group(label)
        if self._neighbours:
            first, akin = int(self._draw(group) * len(every)), _side_by_side(tuple(names))
            return [akin[(first + at) % len(every)] for at in range(self._neighbours)]
        if share == 1.0:
            return every
        return [at for at in every if self._draw(f"{group} {names[at]}") < share] or every

    def _draw(self, what: str) -> float:
        """Return a number below 1, the same whenever it is asked for."""
        hashed = blake2b(f"{self._seed} {what}".encode(), digest_size=4).digest()
        return int.from_bytes(hashed) / 2**32
