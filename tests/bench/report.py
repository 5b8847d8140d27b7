"""The page: machine, figures with ratios first, targets, growth; as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Figure
from bench.targets import TARGETS, Growth, growths
from mcp_notarium.storage import driver

BEGIN = "<!-- results: made by scripts/bench -->"
END = "<!-- end of results -->"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run found, and how it was asked for. Not ``whole``: it ended early."""

    arguments: str
    seconds: float
    figures: list[Figure]
    whole: bool = True


def machine() -> dict[str, str]:
    """The machine in words, as far as the system says; no name and no path."""
    facts = driver.facts()
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
        "SQLCipher": f"{facts.cipher_version} on SQLite {'.'.join(map(str, facts.sqlite_version))}",
        "load of others at the start": f"{os.getloadavg()[0]:.1f}",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def as_json(run: Run, described: dict[str, str]) -> dict[str, Any]:
    """Everything, for a program."""
    return {
        "machine": described,
        "arguments": run.arguments,
        "seconds": round(run.seconds, 1),
        "whole": run.whole,
        "figures": [_figure(figure) for figure in run.figures],
        "growth": [
            {"group": g.group, "row": g.row, "exponent": round(g.exponent, 3), "met": g.met}
            for g in growths(run.figures)
        ],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    target = TARGETS.get((figure.group, figure.row))
    return {
        "group": figure.group,
        "row": figure.row,
        "notes": figure.notes,
        "unit": figure.unit,
        "value": figure.value,
        "p99": figure.p99,
        "floors": dict(figure.floors),
        "ratios": figure.ratios,
        "target": None if target is None else str(target),
        "met": None if target is None else target.met(figure),
    }


def as_markdown(run: Run, described: dict[str, str]) -> str:
    """Everything, for a person."""
    command = f"scripts/bench {run.arguments}".strip()
    ended = "" if run.whole else " It ended early: rows are missing."
    lines = [f"`{command}`, {run.seconds:.0f} s.{ended}", ""]
    lines += [f"* {name}: {said}" for name, said in described.items()]
    for group in dict.fromkeys(figure.group for figure in run.figures):
        lines += ["", f"### {group.capitalize()}", ""]
        lines += _table(figure for figure in run.figures if figure.group == group)
    found = growths(run.figures)
    if found:
        lines += ["", "### Growth", "", *_growth_table(found)]
    return "\n".join(lines) + "\n"


def _table(figures: Iterator[Figure]) -> Iterator[str]:
    yield "| row | notes | times the floor | value | p99 | target | met |"
    yield "|---|--:|---|--:|--:|---|---|"
    for figure in figures:
        target = TARGETS.get((figure.group, figure.row))
        ratios = "; ".join(f"**x{short(r)}** {name}" for name, r in figure.ratios.items())
        cells = [
            figure.row,
            f"{figure.notes:,}" if figure.notes else "",
            ratios,
            f"{short(figure.value)} {figure.unit}".strip(),
            "" if figure.p99 is None else short(figure.p99),
            "" if target is None or target.met(figure) is None else str(target),
            "" if target is None else _MET[target.met(figure)],
        ]
        yield f"| {' | '.join(cells)} |"


def _growth_table(found: list[Growth]) -> Iterator[str]:
    yield "| row | grows like notes to the power of | flat or logarithmic |"
    yield "|---|--:|---|"
    for growth in found:
        said = "may grow" if growth.met is None else _MET[growth.met]
        yield f"| {growth.group}: {growth.row} | {growth.exponent:.2f} | {said} |"


_MET = {True: "yes", False: "**no**", None: ""}


def short(number: float) -> str:
    """Three digits that count."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def put_into(page: Path, results: str) -> None:
    """Replace the marked section of ``page``; a page without one, or none at all, becomes the results."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    whole = f"{before}{BEGIN}\n\n{results}\n{END}{after}" if begin and end else results
    page.write_text(whole, encoding="utf-8")


def save_json(path: Path, run: Run, described: dict[str, str]) -> None:
    """Write the JSON form."""
    path.write_text(json.dumps(as_json(run, described), indent=1) + "\n", encoding="utf-8")


def tell(line: str) -> None:
    """Progress, past standard output."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
