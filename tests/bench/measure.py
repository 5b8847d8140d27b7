"""Measure figures: subjects in turn, medians, ratios to floors of the same run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Act = Callable[[], object]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Figure:
    """One row at one size. ``floors`` are in the same unit, the one that targets refer to first.

    ``interval``: the bounds of a value that is the average of few answers.
    """

    group: str
    row: str
    notes: int
    unit: str
    value: float
    p99: float | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    interval: tuple[float, float] | None = None

    @property
    def ratios(self) -> dict[str, float]:
        """How many times each floor."""
        return {name: self.value / floor for name, floor in self.floors.items() if floor}


@dataclass(frozen=True, slots=True)
class Taken:
    """Times of one subject, in seconds."""

    times: Sequence[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.times)

    @property
    def p99(self) -> float:
        """Of a hundred, the second longest; of fewer, the longest."""
        return sorted(self.times)[min(len(self.times) - 1, int(len(self.times) * 0.99))]


def timed(act: Act) -> float:
    """Seconds of one act."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def turned(subjects: Iterable[_Item], number: int) -> list[_Item]:
    """The order of round ``number``: each round begins with another one."""
    items = list(subjects)
    turn = number % len(items)
    return items[turn:] + items[:turn]


def in_turn(rounds: Sequence[Mapping[str, Act]]) -> dict[str, Taken]:
    """Every subject once a round, in an order that turns by one each round; times by subject."""
    times: dict[str, list[float]] = {name: [] for name in rounds[0]}
    for number, subjects in enumerate(rounds):
        for name in turned(subjects, number):
            times[name].append(timed(subjects[name]))
    return {name: Taken(taken) for name, taken in times.items()}


def exponent(values: Mapping[int, float]) -> float | None:
    """The power of the number of notes that fits best; None of fewer than two sizes."""
    if len(values) < 2 or min(values.values()) <= 0:
        return None
    sizes = [math.log(size) for size in values]
    logs = [math.log(value) for value in values.values()]
    return statistics.linear_regression(sizes, logs).slope
