"""Run ``./scripts/undefended [--only WORD]... [--jobs N] [--list]``: remove each defence and check that its tests fail.

Exit 0: every defence was missed by every test named for it. Exit 1: one survived, or markers and table do not fit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from undefended import defence
from undefended.defence import Defence
from undefended.trial import ALL_SECONDS, Copy

Say = Callable[[str], object]


def main(arguments: list[str]) -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/undefended", description=__doc__)
    parser.add_argument(
        "--only", metavar="WORD", action="append", help="entries whose name, file or tests have it"
    )
    parser.add_argument("--jobs", type=int, default=2, help="defences that are out at a time")
    parser.add_argument("--list", action="store_true", help="name the entries and run nothing")
    asked = parser.parse_args(arguments)
    chosen = tuple(one for one in defence.defences() if _matches(one, asked.only or [""]))
    if asked.list:
        print("\n".join(f"{one.name}  ({one.place.file})" for one in chosen))  # noqa: T201
        return 0
    rows = defence.read_table(defence.TABLE.read_text(encoding="utf-8"))
    if wrong := defence.faults(defence.places(), rows):
        print("\n".join(wrong))  # noqa: T201
        return 1
    if not chosen:
        parser.error("no entry has that word")
    return take_out(chosen, jobs=asked.jobs, say=lambda line: print(line, flush=True))  # noqa: T201


def take_out(defences: tuple[Defence, ...], *, say: Say, jobs: int = 2) -> int:
    """Take out each defence in one of ``jobs`` copies and print which tests noticed; return 0 if all were noticed."""
    with tempfile.TemporaryDirectory(prefix="undefended-") as place:
        Path(place).chmod(0o755)  # some tests run as another user
        copies = [Copy(Path(place) / str(number)) for number in range(min(jobs, len(defences)))]
        with ThreadPoolExecutor(len(copies)) as at_once:
            if not _all_pass(copies, at_once, defences, say):
                return 1
            free = SimpleQueue[Copy]()
            for copy in copies:
                free.put(copy)
            seen = list(at_once.map(lambda one: _noticed(free, one, say), defences))
        survivors = [one.name for one, noticed in zip(defences, seen, strict=True) if not noticed]
    say(
        f"{len(defences) - len(survivors)} of {len(defences)} defences are noticed missing by their tests"
    )
    say("\n".join(f"SURVIVED  {name}" for name in survivors))
    return 1 if survivors else 0


def _all_pass(
    copies: list[Copy], at_once: Executor, defences: tuple[Defence, ...], say: Say
) -> bool:
    """Return whether all the tests pass with every defence in place; otherwise a failure proves nothing."""
    tests = sorted({test for one in defences for test in one.row.tests})
    parts = (tests[number :: len(copies)] for number in range(len(copies)))
    wrong = [found for found in at_once.map(_failing, copies, filter(None, parts)) if found]
    for line in wrong:
        say(f"with every defence in place: {line}")
    return not wrong


def _failing(copy: Copy, tests: list[str]) -> str:
    """Return which tests fail, and fail again by themselves: a busy machine may be the reason for the first time."""
    found = copy.run(tests, seconds=ALL_SECONDS)
    if found.failed and not found.trouble:
        found = copy.run(sorted(found.failed))
    return f"{sorted(found.failed)} {found.trouble}" if found.failed or found.trouble else ""


def _noticed(free: SimpleQueue[Copy], one: Defence, say: Say) -> bool:
    began, copy = time.monotonic(), free.get()
    try:
        with copy.without(one.place):
            found = copy.run(one.row.tests)
    finally:
        free.put(copy)
    for test in one.row.tests:
        seen = "yes" if test in found.failed else "NO"
        say(f"| {one.name} | {test} | {seen} | {time.monotonic() - began:.1f} s |")
    if found.trouble:
        say(f"|  | {found.trouble} | |")
    return found.failed >= set(one.row.tests) and not found.trouble


def _matches(one: Defence, words: list[str]) -> bool:
    said = (one.name, one.place.file, *one.row.tests)
    return any(word in text for word in words for text in said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
