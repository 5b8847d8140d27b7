"""Score answers: the rank of a right note, and how far an average of so few queries can be trusted.

Intervals are 95 % percentiles of a bootstrap over queries. It is seeded: the same answers give the same interval.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from quality.texts import Query

_DRAWS = 2000
_OUTSIDE = 0.025
_SEED = 47


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the ids of one page in its order, what an agent read, and how long it waited in ms."""

    ids: tuple[str, ...]
    text: str = ""
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold an average and the bounds of its interval."""

    value: float
    low: float
    high: float


def rank(answer: Answer, query: Query) -> int | None:
    """Return the place of the first right note on the page, from 1."""
    places = (place for place, one in enumerate(answer.ids, start=1) if one in query.wanted)
    return next(places, None)


def _within(most: int) -> Callable[[Answer, Query], float]:
    return lambda answer, query: float((rank(answer, query) or most + 1) <= most)


def _reciprocal(answer: Answer, query: Query) -> float:
    place = rank(answer, query)
    return 1 / place if place else 0.0


MEASURES: dict[str, Callable[[Answer, Query], float]] = {
    "hit@1": _within(1),
    "hit@5": _within(5),
    "MRR": _reciprocal,
    "empty": lambda answer, _query: float(not answer.ids),
}
"""Each gives a number between 0 and 1 for one query; the average counts."""


def values(measure: str, answers: Sequence[Answer], queries: Sequence[Query]) -> list[float]:
    """Return the measure of each query."""
    return [
        MEASURES[measure](answer, query) for answer, query in zip(answers, queries, strict=True)
    ]


def interval(numbers: Sequence[float]) -> Interval:
    """Return the average and where it would lie for other queries of the same kind."""
    dice = random.Random(_SEED)
    size = len(numbers)
    means = sorted(fmean(dice.choices(numbers, k=size)) for _ in range(_DRAWS))
    outside = round(_DRAWS * _OUTSIDE)
    return Interval(fmean(numbers), means[outside], means[-1 - outside])


def difference(new: Sequence[float], old: Sequence[float]) -> Interval:
    """Return by how much ``new`` is above ``old``, drawn in pairs: both answered the same queries.

    An interval that holds 0 shows no difference.
    """
    return interval([one - other for one, other in zip(new, old, strict=True)])
