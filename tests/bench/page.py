"""Rewrite the tables and plots of docs/performance.md from the figures of one run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import everyday_page, plots
from bench.measure import Figure, exponent
from bench.report import Run, load_json, short
from bench.search_page import GROUP, search_tables
from bench.targets import LOGARITHMIC, TARGETS, Target, growths, targets_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN = "<!-- results: made by scripts/bench -->"
END = "<!-- end of results -->"
ROWS: dict[str, tuple[str, ...]] = {
    "start": (
        "initialize",
        "tools/list",
        "first list, warm",
        "first list, warm: SDK import",
        "first list, warm: beyond the SDK's import",
    ),
    "keys": ("first list, warm, raw key", "first list, warm, Argon2id", "first list, warm, PBKDF2"),
    "transport": ("echo",),
    "first sync": (
        "round trips before the first list",
        "launch to the first list at 40 ms",
        "all notes at 40 ms",
        "all notes at 0 ms",
        "processor time at 0 ms",
        "calls meanwhile",
        "requests",
    ),
    "stalls": (
        "ping, just synced",
        "list, just synced",
        "list, settled",
        "list, without a pause",
    ),
    "memory": (
        "after initialize",
        "before the first call",
        "peak, first sync",
        "after the first sync",
        "after 100 calls",
        "at rest, after a get",
    ),
    "writes": (
        "save, new note",
        "save, new note: beyond the requests",
        "save, new text",
        "save, new text: beyond the requests",
        "eight new notes at once",
    ),
    "unsettled": ("save, new note, without a pause", "tag, after a save"),
    "encryption": ("reads", "save, new note", "save, new text"),
    "size": ("database",),
    "idle": ("share of a core", "change seen", "requests a refresh", "bytes a refresh"),
    "files": (
        "first index, 2,000 files",
        "first photo: processor time",
        "first photo: memory of the copy",
        "another photo: processor time",
        "another photo: memory of the copy",
        "memory after two photos",
    ),
    "tokens": ("tool list", "a listed note", "a hit"),
}
"""What the second table shows of each group: at the size that the target of the row means."""
BY_SIZE = {"local": "The local notebook"}
"""Groups with a table of their own: every row at every size."""


def main() -> None:
    """Rewrite the page and its plots."""
    run, machine = load_json(DOCS / "performance.json")
    page = DOCS / "performance.md"
    drawn = plots.draw(run.figures, DOCS / "plots")
    text = page.read_text(encoding="utf-8")
    page.write_text(put_into(text, results(run, machine, drawn)), encoding="utf-8")


def put_into(text: str, found: str) -> str:
    """Return ``text`` with another marked section. Raises ``ValueError`` where there is none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no section between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{found}\n{END}{after}"


def results(run: Run, machine: dict[str, str], drawn: Sequence[plots.Plot]) -> str:
    """Return the marked section: the run, its plots, two tables, the targets that are not met."""
    said = "; ".join(f"{name}: {value}" for name, value in machine.items())
    ended = "" if run.whole else " The run ended early: rows are missing."
    lines = [f"`scripts/bench {run.arguments}`, {run.seconds / 60:.0f} minutes. {said}.{ended}"]
    for how in dict.fromkeys(run.parts.values()):
        names = ", ".join(f"`{name}`" for name, said in run.parts.items() if said == how)
        lines.append(f"Measured later, {names}: {how}.")
    for plot in drawn:
        lines += ["", f"![{plot.title}](plots/{plot.name}.svg)"]
    older = _older(run)
    calls = [figure for figure in run.figures if figure.group == "calls"]
    if calls:
        lines += ["", "### Calls: median in ms, by number of notes", "", *_calls(calls, older)]
    for group, name in BY_SIZE.items():
        if of_group := [figure for figure in run.figures if figure.group == group]:
            lines += ["", f"### {name}: by number of notes", "", *_by_size(of_group)]
    if found := [figure for figure in run.figures if figure.group == GROUP]:
        lines += ["", "### How well `list` finds", "", *search_tables(found)]
    if found := [figure for figure in run.figures if figure.group == everyday_page.GROUP]:
        said = "Tokens of requests and answers, and in how many calls:"
        lines += ["", "### Everyday tasks", "", said, "", *everyday_page.everyday_tables(found)]
    lines += ["", "### Everything else", "", *_rest(run.figures, older, _shown(run.figures))]
    lines += ["", "### Targets that are not met", "", *_missed(run.figures)]
    return "\n".join(lines) + "\n"


def _older(run: Run) -> str | None:
    found = re.search(r"--against (\S+)", run.arguments)
    return found[1] if found else None


def _shown(figures: Sequence[Figure]) -> int:
    """Return the size that the second table shows where no target names one: 10,000 notes, or the largest below."""
    sizes = {figure.notes for figure in figures if figure.group not in {"tokens", "transport"}}
    return max((size for size in sizes if size <= 10_000), default=max(sizes, default=0))


def _calls(figures: Sequence[Figure], older: str | None) -> Iterator[str]:
    sizes = sorted({figure.notes for figure in figures})
    last = max((size for size in sizes if size <= 50_000), default=sizes[-1])
    floors = {name for figure in figures for name in figure.floors}
    named = ("raw SQL + round trip", "bare loop, encrypted", "without a key", older)
    beside = [name for name in named if name in floors]
    heads = [f"{size:,}" for size in sizes] + [f"p99, {last:,}"]
    heads += [f"times {name}, {last:,}" for name in beside]
    yield f"| call | {' | '.join(heads)} |"
    yield "|---|" + "--:|" * len(heads)
    for row in dict.fromkeys(figure.row for figure in figures):
        of_size = {figure.notes: figure for figure in figures if figure.row == row}
        cells = [short(of_size[size].value) if size in of_size else "" for size in sizes]
        one = of_size.get(last)
        cells.append("" if one is None or one.p99 is None else short(one.p99))
        cells += [_times(one, name) for name in beside]
        yield f"| {row} | {' | '.join(cells)} |"


def _by_size(figures: Sequence[Figure]) -> Iterator[str]:
    sizes = sorted({figure.notes for figure in figures})
    yield f"| | {' | '.join(f'{size:,}' for size in sizes)} | grows like |"
    yield "|---|" + "--:|" * (len(sizes) + 1)
    for row, unit in dict.fromkeys((figure.row, figure.unit) for figure in figures):
        values = {figure.notes: figure.value for figure in figures if figure.row == row}
        cells = [short(values[size]) if size in values else "" for size in sizes]
        slope = exponent(values)
        cells.append("" if slope is None else f"n^{slope:.2f}")
        yield f"| {row}, {unit} | {' | '.join(cells)} |"


def _times(figure: Figure | None, floor: str) -> str:
    ratio = figure.ratios.get(floor) if figure else None
    return "" if ratio is None else f"x{short(ratio)}"


def _rest(figures: Sequence[Figure], older: str | None, size: int) -> Iterator[str]:
    head = f" times {older} |" if older else ""
    yield f"| | notes | median | beside |{head} target |"
    yield f"|---|--:|--:|---|{'--:|' if older else ''}---|"
    for group, rows in ROWS.items():
        of_group = [figure for figure in figures if figure.group == group]
        sizes = {figure.notes for figure in of_group}
        for row in rows:
            target = TARGETS.get((group, row))
            meant = target.at if target and target.at in sizes else size
            shown = meant if meant in sizes else min(sizes, default=0)
            for figure in of_group:
                if (figure.row, figure.notes) == (row, shown):
                    notes = f"{figure.notes:,}" if figure.notes else ""
                    median = f"{short(figure.value)} {figure.unit}".strip() + _p99(figure)
                    cells = [f"{group}: {row}", notes, median, _beside(figure, older)]
                    cells += [_times(figure, older)] if older else []
                    yield f"| {' | '.join([*cells, _target(figure)])} |"


def _p99(figure: Figure) -> str:
    """Return the slowest where the target means it."""
    target = TARGETS.get((figure.group, figure.row))
    meant = target is not None and target.of == "p99" and figure.p99 is not None
    return f", p99 {short(figure.p99 or 0.0)}" if meant else ""


def _beside(figure: Figure, older: str | None) -> str:
    """Return the ratio to the floor that the target means."""
    if figure.group == "encryption":
        return "without a key"
    for name, ratio in figure.ratios.items():
        if name != older:
            return f"x{short(ratio)} {name}"
    return ""


def _target(figure: Figure) -> str:
    target = TARGETS.get((figure.group, figure.row))
    met = None if target is None else target.met(figure)
    return "" if met is None else f"{target}: {'met' if met else '**not met**'}"


def _missed(figures: Sequence[Figure]) -> Iterator[str]:
    missed: dict[tuple[str, str, Target], list[str]] = {}
    for figure in figures:
        for target in targets_of(figure):
            if not target.met(figure):
                ratio = next(iter(figure.ratios.values()), 0.0)
                values = {"ratio": ratio, "p99": figure.p99 or 0.0, "value": figure.value}
                said = ("x" if target.of == "ratio" else "") + short(values[target.of])
                at = f" at {figure.notes:,}" if figure.notes else ""
                missed.setdefault((figure.group, figure.row, target), []).append(f"{said}{at}")
    for (group, row, target), found in missed.items():
        reason = target.reason or "No reason is known yet."
        yield f"* **{group}: {row}** ({target}): {', '.join(found)}. {reason}"
    for growth in growths(list(figures)):
        if growth.met is False:
            grows = f"grows like notes to the power of {growth.exponent:.2f}"
            unknown = "No reason is known yet."
            yield f"* **{growth.group}: {growth.row}** {grows} (≤ {LOGARITHMIC}). {unknown}"


if __name__ == "__main__":
    main()
