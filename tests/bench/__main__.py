"""``scripts/bench``: choose sizes and groups, measure, write the figures."""

from __future__ import annotations

import argparse
import compileall
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import mcp_notarium
from bench import report
from bench.measure import Figure
from bench.older import Older, unpack
from bench.peers import install
from bench.processes import Service
from bench.rows_calls import calls, transport
from bench.rows_everyday import everyday
from bench.rows_files import files
from bench.rows_idle import before_the_first_call, idle
from bench.rows_keys import keys
from bench.rows_local import local
from bench.rows_search import search
from bench.rows_stalls import stalls
from bench.rows_start import start
from bench.rows_sync import first_sync, size
from bench.rows_tasks import tasks
from bench.rows_tokens import tokens
from bench.rows_writes import unsettled, writes
from bench.site import FULL, SMOKE, USUAL, Pace, Site

Rows = Callable[[Site], Iterator[Figure]]
PER_SIZE: dict[str, tuple[Rows, ...]] = {
    "sync": (first_sync,),
    "stalls": (stalls,),
    "start": (start,),
    "memory": (before_the_first_call,),
    "calls": (calls,),
    "size": (size,),
    "idle": (idle,),
    "writes": (writes,),
    "unsettled": (unsettled,),
    "local": (local,),
}
"""In this order: the first loads the cache of the others, the last ones add notes."""
ONCE: dict[str, tuple[Rows, ...]] = {"transport": (transport,), "keys": (keys,), "files": (files,)}
GROUPS = (*ONCE, *PER_SIZE, "search", "tokens", "tasks", "everyday")
_SIZES = [1000, 10_000]
_ALL_SIZES = [1000, 10_000, 50_000, 100_000]
_MOST_FOR_TASKS = 10_000
_TOP = Path(__file__).resolve().parents[2]
_TOKENIZER = _TOP / ".bench"
FIGURES = _TOP / "docs" / "performance.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; return 0."""
    chosen = _parser().parse_args(arguments)
    chosen.json = FIGURES if chosen.page else chosen.json
    pace = SMOKE if chosen.smoke else FULL if chosen.full else USUAL
    sizes = chosen.notes or (_ALL_SIZES if chosen.full else _SIZES)
    if chosen.install_peers:
        install()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no folder is left behind
    _compile()
    began, described = time.monotonic(), report.machine()
    figures: list[Figure] = []
    whole = False
    try:
        with _older(chosen.against) as older:
            for figure in _measured(chosen.rows, sizes, pace, older, chosen.tokenizer):
                figures.append(figure)  # noqa: PERF402 - what is there counts, whatever comes after
        whole = True
    finally:
        run = report.Run(_words(chosen), time.monotonic() - began, figures, whole)
        _write(run, described, chosen)
    return 0


def _write(run: report.Run, described: dict[str, str], chosen: argparse.Namespace) -> None:
    """Also of a run that ended early: hours may be in it."""
    if chosen.page and tuple(chosen.rows) != GROUPS:
        before, machine = report.load_json(FIGURES)
        report.save_json(FIGURES, report.replace_rows(before, run, described), machine)
    elif chosen.json:
        report.save_json(chosen.json, run, described)
    sys.stdout.write(report.as_markdown(run, described))


def _words(chosen: argparse.Namespace) -> str:
    """What was asked for, without the names of files."""
    words = [f"--{name}" for name in ("full", "smoke") if getattr(chosen, name)]
    words += [f"--notes {','.join(map(str, chosen.notes))}"] if chosen.notes else []
    words += [f"--rows {','.join(chosen.rows)}"] if tuple(chosen.rows) != GROUPS else []
    words += [f"--against {chosen.against}"] if chosen.against else []
    words += ["--page"] if chosen.page else []
    return " ".join(words)


def _compile() -> None:
    """As pip does when it installs: a confined server cannot keep the bytecode of its modules."""
    for package in (mcp_notarium, sys.modules["bench"]):
        compileall.compile_dir(package.__path__[0], quiet=2)


@contextmanager
def _older(commit: str | None) -> Iterator[Older | None]:
    """Unpack the commit to measure beside today's sources, if one is named."""
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="notarium-older-") as folder:
        yield unpack(commit, Path(folder))


def _measured(
    groups: Sequence[str],
    sizes: Sequence[int],
    pace: Pace,
    older: Older | None,
    tokenizer: Path,
) -> Iterator[Figure]:
    for number, count in enumerate(sizes):
        with (
            tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder,
            Service(count) as service,
        ):
            site = Site(service, Path(folder), pace, older)
            available = (ONCE if number == 0 else {}) | PER_SIZE
            for group, rows in available.items():
                for each in rows if group in groups else ():
                    begun = time.monotonic()
                    yield from each(site)
                    report.tell(f"{count} notes, {group}: {time.monotonic() - begun:.1f} s")
    for count in sizes if "search" in groups else ():
        with tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder:
            whole = pace is not SMOKE
            yield from search(Path(folder), count, older, tokenizer, beside_peers=whole)
    if "tokens" in groups:
        with tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder:
            yield from tokens(Path(folder), tokenizer)
    if "tasks" in groups:
        with tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder:
            yield from tasks(Path(folder), min(max(sizes), _MOST_FOR_TASKS), tokenizer)
    if "everyday" in groups:
        with tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder:
            yield from everyday(Path(folder), tokenizer)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Speed as ratios to floors of the same run."
    )
    parser.add_argument("--full", action="store_true", help="all sizes, more rounds")
    parser.add_argument("--smoke", action="store_true", help="fewest rounds: whether it runs")
    parser.add_argument("--notes", type=_sizes, help="sizes, like 1000,10000")
    parser.add_argument("--rows", type=_groups, default=GROUPS, help=",".join(GROUPS))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the figures to docs/performance.json, and docs/performance.md and its plots from them",
    )
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit side by side")
    parser.add_argument(
        "--install-peers",
        action="store_true",
        help="first install the other servers that `search` and `everyday` compare with, each in an environment of its own",
    )
    parser.add_argument(
        "--tokenizer", type=Path, default=_TOKENIZER, help="folder with npm's gpt-tokenizer"
    )
    return parser


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _groups(text: str) -> tuple[str, ...]:
    groups = tuple(text.split(","))
    if unknown := set(groups) - set(GROUPS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return groups


if __name__ == "__main__":
    raise SystemExit(main())
