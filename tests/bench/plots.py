"""Draw the plots of docs/performance.md as SVG: the same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

from bench.measure import Figure

_SETTINGS = {
    "svg.hashsalt": "notarium",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """Name a plot: its file without the ending, and its title."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Describe a plot of rows over the number of notes."""

    plot: Plot
    group: str
    unit: str
    rows: tuple[str, ...]
    floor: tuple[str, str] | None = None
    """A row, and the floor of it that is drawn as well."""


LINES = (
    Lines(
        Plot("calls", "Calls: median by number of notes"),
        "calls",
        "ms",
        ("list", "get", "rare word", "tag", "phrase", "common word", "list, middle page"),
        ("list", "raw SQL + round trip"),
    ),
    Lines(
        Plot("sync", "First sync by number of notes"),
        "first sync",
        "s",
        ("launch to the first list at 40 ms", "all notes at 40 ms", "all notes at 0 ms"),
        ("all notes at 40 ms", "wire"),
    ),
    Lines(
        Plot("memory", "Resident memory by number of notes"),
        "memory",
        "MB",
        ("after initialize", "before the first call", "at rest, after a get", "peak, first sync"),
    ),
)
_LINEAR = {"memory"}


def draw(figures: Sequence[Figure], folder: Path) -> list[Plot]:
    """Write every plot that the figures are enough for; remove the others. Return what there is."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    drawn = []
    with mpl.rc_context(_SETTINGS):  # type: ignore[arg-type]
        for lines in LINES:
            if len({figure.notes for figure in figures if figure.group == lines.group}) > 1:
                _save(_over_notes(lines, figures), lines.plot, folder)
                drawn.append(lines.plot)
        if (name := _commit(figures)) is not None:
            plot = Plot("against", f"Times {name}, side by side")
            _save(_against(figures, name, plot), plot, folder)
            drawn.append(plot)
    return drawn


def _save(canvas: Canvas, plot: Plot, folder: Path) -> None:
    FigureCanvasSVG(canvas)
    path = folder / f"{plot.name}.svg"
    canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def _axes(canvas: Canvas, plot: Plot) -> Axes:
    axes = canvas.add_subplot()
    axes.set_title(plot.title, loc="left", fontsize=10)
    axes.grid(visible=True, linewidth=0.3)
    return axes


def _over_notes(lines: Lines, figures: Sequence[Figure]) -> Canvas:
    canvas = Canvas(figsize=(7, 3.6), layout="constrained")
    axes = _axes(canvas, lines.plot)
    of_group = [figure for figure in figures if figure.group == lines.group]
    for row in lines.rows:
        points = {figure.notes: figure.value for figure in of_group if figure.row == row}
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label=row)
    if lines.floor is not None:
        row, floor = lines.floor
        floors = {f.notes: f.floors[floor] for f in of_group if f.row == row and floor in f.floors}
        style = {"linestyle": "--", "color": "gray"}
        axes.plot(list(floors), list(floors.values()), label=f"{row}: {floor}", **style)  # type: ignore[arg-type]
    sizes = sorted({figure.notes for figure in of_group})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("notes")
    axes.set_ylabel(lines.unit)
    if lines.group in _LINEAR:
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    canvas.legend(loc="outside right center")
    return canvas


def _commit(figures: Sequence[Figure]) -> str | None:
    """Return the name of the older build: the floor that starts, calls and writes have in common."""
    named = [set(figure.floors) for figure in figures if figure.group in {"memory", "writes"}]
    known = {"bare request", "bare requests", "without a key"}
    known |= {"SDK, two transactions", "SDK, nothing kept"}
    return next((name for floors in named for name in sorted(floors - known)), None)


def _against(figures: Sequence[Figure], name: str, plot: Plot) -> Canvas:
    sizes = sorted({figure.notes for figure in figures if name in figure.floors})
    size = max((one for one in sizes if one <= 10_000), default=sizes[-1])
    shown = [one for one in figures if one.notes == size and one.floors.get(name)]
    labels = [f"{one.group}: {one.row}" for one in shown]
    canvas = Canvas(figsize=(7, 0.6 + 0.2 * len(shown)), layout="constrained")
    axes = _axes(canvas, plot)
    ratios = [one.value / one.floors[name] for one in shown]
    axes.barh(labels, [ratio - 1 for ratio in ratios], left=1, height=0.6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    low, high = min(*ratios, 0.5), max(*ratios, 2.0)
    ticks = [tick for tick in (0.1, 0.25, 0.5, 0.8, 1, 1.25, 2, 4, 10) if low <= tick <= high]
    axes.set_xticks(ticks, [f"x{tick:g}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlim(low * 0.95, high * 1.05)
    axes.set_xlabel(f"at {size:,} notes; left of x1 is better than {name}")
    return canvas
