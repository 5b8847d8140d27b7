"""Write the figures of searches as tables: a line for each group and engine, and how engines compare in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.measure import Figure
from quality.scoring import MEASURES

GROUP = "search"
_AMOUNTS = ("tokens", "time")
_BEYOND = " beyond "


def search_tables(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of the tables of each size. Beside more notes than the fewest, all queries are one group."""
    sizes = sorted({figure.notes for figure in figures if figure.group == GROUP})
    for size in sizes:
        rows = {
            figure.row: figure
            for figure in figures
            if (figure.group, figure.notes) == (GROUP, size)
        }
        groups = list(dict.fromkeys(row.partition(": ")[0] for row in rows if ": " in row))
        shown = groups if size == sizes[0] else groups[:1]
        if size != sizes[0]:
            yield ""
        yield from (f"Among {size:,} made-up notes and the others:", "")
        yield from (*_by_group(rows, shown), "", *_in_pairs(rows))


def _by_group(rows: dict[str, Figure], groups: Sequence[str]) -> Iterator[str]:
    unit = next(figure.unit for row, figure in rows.items() if row.endswith(": tokens"))
    yield f"| queries | engine | {' | '.join(MEASURES)} | {unit} | ms |"
    yield "|---|---|" + "--:|" * (len(MEASURES) + len(_AMOUNTS))
    for group in groups:
        shares = [rows[f"{group}: {measure}"] for measure in MEASURES]
        amounts = [rows[f"{group}: {amount}"] for amount in _AMOUNTS]
        ours = [_with_bounds(figure, sign="") for figure in shares]
        ours += [_amount(figure.value) for figure in amounts]
        size = shares[0].unit.split()[1]
        yield f"| **{group}** ({size}) | here | {' | '.join(ours)} |"
        for name in shares[0].floors:
            cells = [f"{figure.floors[name]:.2f}" for figure in shares]
            cells += [_amount(figure.floors.get(name)) for figure in amounts]
            yield f"| | {name} | {' | '.join(cells)} |"


def _in_pairs(rows: dict[str, Figure]) -> Iterator[str]:
    """Yield by how much this build is above each other engine over all queries."""
    names = dict.fromkeys(row.partition(_BEYOND)[2] for row in rows if _BEYOND in row)
    if names:
        yield f"| here less | {' | '.join(MEASURES)} |"
        yield "|---|" + "--:|" * len(MEASURES)
    for name in names:
        cells = [_with_bounds(rows[f"{measure}{_BEYOND}{name}"], sign="+") for measure in MEASURES]
        yield f"| {name} | {' | '.join(cells)} |"


def _with_bounds(figure: Figure, *, sign: str) -> str:
    low, high = figure.interval or (figure.value, figure.value)
    return f"{figure.value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
