"""Compute the plot of acts by day: stacked columns, in percent of the width and pixels of the height.

The page draws it as SVG without a view box, so that letters keep their size on a narrow screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil
from typing import Final

from mcp_notarium.report.activity import Result

HEIGHT: Final = 160
"""Pixels from the base line to the highest column."""
STACKED: Final = (Result.READ, Result.CHANGED, Result.REFUSED, Result.FAILED, Result.UNSURE)
_MOST_DAYS: Final = 45
_MOST_WEEKS: Final = 52 * 7
_MOST_LABELS: Final = 8
_MOST_NARROW_LABELS: Final = 4
_FILLED: Final = 0.76
"""Share of its place that a column fills."""
_WIDEST: Final = 9.0
"""Percent of the width that a column has at most."""
_MARGIN: Final = 9.0
"""Percent of the width that the numbers of the scale have."""


@dataclass(frozen=True, slots=True)
class Period:
    """Hold the acts of one day, week or month. ``weekday`` is '' for the longer ones."""

    name: str
    weekday: str
    results: Counter[Result]


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold one rectangle: the place in percent and pixels, what it counts."""

    result: Result
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Label:
    """Hold a label of the time axis. ``narrow``: a phone has room for it, too."""

    x: float
    text: str
    narrow: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """Hold all parts of the plot. ``lines``: height in pixels and number of each grid line."""

    pieces: tuple[Piece, ...]
    labels: tuple[Label, ...]
    lines: tuple[tuple[float, int], ...]


def divide(
    days: Mapping[date, Counter[Result]], since: date, until: date
) -> tuple[str, list[Period]]:
    """Return the days from ``since`` to ``until`` one by one, by week or by month, and which of these."""
    count = (until - since).days + 1
    unit = "day" if count <= _MOST_DAYS else "week" if count <= _MOST_WEEKS else "month"
    periods: dict[date, Period] = {}
    for number in range(count):
        day = since + timedelta(number)
        begins = _begin(day, unit)
        period = periods.setdefault(begins, Period(*_names(begins, unit), Counter()))
        period.results.update(days.get(day, {}))
    return unit, list(periods.values())


def draw(periods: list[Period]) -> Plot:
    """Return the columns of these periods."""
    top = round_up(max((one.results.total() for one in periods), default=0))
    place = (100 - _MARGIN) / max(len(periods), 1)
    width = min(place * _FILLED, _WIDEST)
    pieces = [
        piece
        for number, one in enumerate(periods)
        for piece in _stack(
            one.results, _MARGIN + place * (number + 0.5) - width / 2, width, HEIGHT / top
        )
    ]
    lines = tuple((HEIGHT - HEIGHT * part / 2, int(top * part / 2)) for part in (0, 1, 2))
    return Plot(tuple(pieces), tuple(_label(periods, place)), lines)


def round_up(most: int) -> int:
    """Return the number at the top of the scale: even, with one digit that counts, or 1 and a half."""
    scale = 1
    while True:
        for step in (2, 4, 6, 8, 10) if scale == 1 else (1.5, 2, 3, 4, 5, 6, 8, 10):
            if most <= step * scale:
                return int(step * scale)
        scale *= 10


def _stack(results: Counter[Result], x: float, width: float, unit: float) -> Iterator[Piece]:
    y = float(HEIGHT)
    for result in STACKED:
        if results[result]:
            height = max(results[result] * unit, 1.5)  # also one among thousands can be seen
            y -= height
            yield Piece(result, round(x, 3), round(y, 2), round(width, 3), round(height, 2))


def _label(periods: list[Period], place: float) -> Iterator[Label]:
    every = max(ceil(len(periods) / _MOST_LABELS), 1)
    narrow = every * ceil(ceil(len(periods) / every) / _MOST_NARROW_LABELS)
    for number, one in enumerate(periods):
        if number % every == 0:
            yield Label(round(_MARGIN + place * (number + 0.5), 3), one.name, number % narrow == 0)


def _begin(day: date, unit: str) -> date:
    if unit == "week":
        return day - timedelta(day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _names(begins: date, unit: str) -> tuple[str, str]:
    """Return the name, and the day of the week of a day."""
    if unit == "month":
        return f"{begins:%b %Y}", ""
    return f"{begins.day} {begins:%b}", f"{begins:%a}" if unit == "day" else ""
