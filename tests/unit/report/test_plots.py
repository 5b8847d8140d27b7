"""Test the geometry of the plot, and the periods it shows."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest

from mcp_notarium.report.activity import Result
from mcp_notarium.report.page import HEIGHT, divide, draw, round_up

LAST = date(2026, 11, 23)


@pytest.mark.parametrize(
    ("days", "unit", "count"), [(1, "day", 1), (45, "day", 45), (46, "week", 8), (365, "month", 13)]
)
def test_each_act_is_in_one_period(days: int, unit: str, count: int) -> None:
    since = LAST - timedelta(days - 1)
    acts = {since + timedelta(number): Counter({Result.READ: 1}) for number in range(days)}
    found, periods = divide(acts, since, LAST)
    assert (found, len(periods)) == (unit, count)
    assert sum((one.results for one in periods), Counter()) == {Result.READ: days}


def test_columns_stand_on_the_base_line_beside_each_other() -> None:
    acts = {
        LAST: Counter({Result.READ: 6, Result.REFUSED: 2}),
        LAST - timedelta(1): Counter({Result.CHANGED: 4}),
    }
    _unit, periods = divide(acts, LAST - timedelta(6), LAST)
    plot = draw(periods)
    assert plot.lines == ((HEIGHT, 0), (HEIGHT / 2, 4), (0, 8))
    changed, read, refused = plot.pieces
    assert changed.y + changed.height == read.y + read.height == HEIGHT
    assert refused.y + refused.height == read.y
    assert (read.height, refused.height, changed.height) == (HEIGHT * 6 / 8, HEIGHT / 4, HEIGHT / 2)
    assert changed.x + changed.width < read.x == refused.x
    assert read.x + read.width <= 100


@pytest.mark.parametrize("days", [1, 7, 30, 45, 90, 364, 365, 3660])
def test_labels_are_few_enough_to_stand_apart(days: int) -> None:
    _unit, periods = divide({}, LAST - timedelta(days - 1), LAST)
    labels = draw(periods).labels
    assert 1 <= len(labels) <= 8
    assert 1 <= sum(one.narrow for one in labels) <= 4
    assert not draw(periods).pieces


def test_the_scale_has_whole_numbers() -> None:
    assert [round_up(most) for most in (0, 1, 3, 9, 11, 16, 99, 101, 151, 2_500)] == [
        2, 2, 4, 10, 15, 20, 100, 150, 200, 3000,
    ]  # fmt: skip
