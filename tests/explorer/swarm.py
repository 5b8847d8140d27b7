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

_SHARES = (1.0, 0.5, 0.2, 0.08)
"""Shares of the kinds of choices that a run has."""
_SHARES_OF_OPTIONS = (1.0, 0.4, 0.2, 0.2)
_MOST = 0.6
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


class Swarm:
    """Hold what the run of a seed leaves out."""

    def __init__(self, seed: str, draws: random.Random) -> None:
        self._seed = seed
        self._share = draws.choice(_SHARES)
        self._share_of_options = draws.choice(_SHARES_OF_OPTIONS)
        self._factors: dict[str, float] = {}

    def rate(self, label: str, rate: float) -> float:
        """Return how often a choice is not calm in this run, which is so often in all of them."""
        if self._share == 1.0 or rate == 1.0:
            return rate
        factor = self._factors.get(label)
        if factor is None:
            has = self._has(_kind(label), self._share)
            self._factors[label] = factor = 1 / self._share if has else 0.0
        return min(max(rate, _MOST), rate * factor)

    def options(self, label: str, names: Sequence[object]) -> Sequence[int]:
        """Return the numbers of the options, but for the calm one, that a choice has in this run: one at least."""
        every, share, group = range(1, len(names)), self._share_of_options, _group(label)
        if share == 1.0:
            return every
        return [at for at in every if self._has(f"{group} {names[at]}", share)] or every

    def _has(self, what: str, share: float) -> bool:
        hashed = blake2b(f"{self._seed} {what}".encode(), digest_size=4).digest()
        return int.from_bytes(hashed) < share * 2**32
