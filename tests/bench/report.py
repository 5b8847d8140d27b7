"""Write a run: the machine, figures with ratios first, targets and growth; as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import everyday_page
from bench.measure import Figure
from bench.search_page import GROUP, search_tables
from bench.targets import Growth, growths, targets_of
from mcp_notarium.storage import driver


@dataclass(frozen=True, slots=True)
class Run:
    """What one run found, and how it was asked for. Not ``whole``: it ended early."""

    arguments: str
    seconds: float
    figures: list[Figure]
    whole: bool = True
    parts: dict[str, str] = field(default_factory=dict)
    """How the groups were measured that a later run has replaced."""


def machine() -> dict[str, str]:
    """The machine in words, as far as the system says; no name and no path."""
    facts = driver.facts()
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory() / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
        "SQLCipher": f"{facts.cipher_version} on SQLite {'.'.join(map(str, facts.sqlite_version))}",
        "load of others at the start": f"{float(Path('/proc/loadavg').read_text().split()[0]):.1f}",
    }


def _memory() -> int:
    return int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def save_json(path: Path, run: Run, described: Mapping[str, str]) -> None:
    """Write the JSON form, one figure a line, so that two runs can be compared line by line."""
    head = {"machine": described, "arguments": run.arguments, "whole": run.whole}
    head |= {"parts": run.parts} if run.parts else {}
    said = json.dumps(head | {"seconds": round(run.seconds)}, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(_rounded(_written(figure)))}" for figure in run.figures)
    path.write_text(f'{said},\n "figures": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def _written(figure: Figure) -> dict[str, Any]:
    """Return the fields of a figure; bounds only where it has them."""
    fields = asdict(figure)
    return fields if figure.interval else {k: v for k, v in fields.items() if k != "interval"}


def load_json(path: Path) -> tuple[Run, dict[str, str]]:
    """Read what ``save_json`` has written."""
    found = json.loads(path.read_text(encoding="utf-8"))
    figures = [_figure(one) for one in found["figures"]]
    said = (found["arguments"], found["seconds"], figures, found["whole"], found.get("parts", {}))
    return Run(*said), found["machine"]


def _figure(found: dict[str, Any]) -> Figure:
    bounds = found.pop("interval", None)
    return Figure(**found, interval=None if bounds is None else (bounds[0], bounds[1]))


def replace_rows(whole: Run, part: Run, described: Mapping[str, str]) -> Run:
    """Return the run with the rows that ``part`` has measured anew, at whatever sizes."""
    rows = dict.fromkeys((figure.group, figure.row) for figure in part.figures)
    figures = [figure for figure in whole.figures if (figure.group, figure.row) not in rows]
    load = described["load of others at the start"]
    said = f"`scripts/bench {part.arguments}`, load of others at the start: {load}"
    left = {figure.group for figure in figures}
    names = (f"{group}: {row}" if group in left else group for group, row in rows)
    parts = whole.parts | dict.fromkeys(names, said)
    return replace(whole, figures=[*figures, *part.figures], parts=parts)


def _rounded(value: Any) -> Any:
    """Return four digits that count of each number; more are noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return value


def as_markdown(run: Run, described: Mapping[str, str]) -> str:
    """Everything, for a person."""
    command = f"scripts/bench {run.arguments}".strip()
    ended = "" if run.whole else " It ended early: rows are missing."
    lines = [f"`{command}`, {run.seconds:.0f} s.{ended}", ""]
    lines += [f"* {name}: {said}" for name, said in described.items()]
    for group in dict.fromkeys(figure.group for figure in run.figures):
        lines += ["", f"### {group.capitalize()}", ""]
        of_group = [figure for figure in run.figures if figure.group == group]
        tables = {GROUP: search_tables, everyday_page.GROUP: everyday_page.everyday_tables}
        lines += tables.get(group, _table)(of_group)
    found = growths(run.figures)
    if found:
        lines += ["", "### Growth", "", *_growth_table(found)]
    return "\n".join(lines) + "\n"


def _table(figures: list[Figure]) -> Iterator[str]:
    yield "| row | notes | times the floor | value | p99 | target | met |"
    yield "|---|--:|---|--:|--:|---|---|"
    for figure in figures:
        judged = targets_of(figure)
        ratios = "; ".join(f"**x{short(r)}** {name}" for name, r in figure.ratios.items())
        cells = [
            figure.row,
            f"{figure.notes:,}" if figure.notes else "",
            ratios,
            f"{short(figure.value)} {figure.unit}".strip(),
            "" if figure.p99 is None else short(figure.p99),
            ", ".join(map(str, judged)),
            ", ".join(_MET[one.met(figure)] for one in judged),
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


def tell(line: str) -> None:
    """Progress, past standard output."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
