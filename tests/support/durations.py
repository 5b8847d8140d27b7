"""Measure a run of tests: its seconds by folder, beside the seconds of a loop of known work on this machine."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import pytest

LOOPS = 3_000_000
_ROUNDS = 3


def seconds_of_loop(loops: int = LOOPS) -> float:
    """Return the processor seconds of a fixed computation on one core: the best of three rounds."""
    return min(_round(loops) for _ in range(_ROUNDS))


def _round(loops: int) -> float:
    began = time.process_time()
    number = 1
    for _ in range(loops):
        number = (number * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    sha256(number.to_bytes(4, "big") * (loops * 4)).digest()
    return time.process_time() - began


@dataclass(slots=True)
class Folder:
    """The tests of one folder."""

    tests: int = 0
    seconds: float = 0.0


def by_folder(reports: Iterable[pytest.TestReport]) -> dict[str, Folder]:
    """Add up setup, call and teardown of the tests in each folder, the dearest folder first."""
    found: dict[str, Folder] = defaultdict(Folder)
    for report in reports:
        folder = found["/".join(report.nodeid.partition("::")[0].split("/")[:-1])]
        folder.tests += report.when == "call"
        folder.seconds += report.duration
    return dict(sorted(found.items(), key=lambda one: -one[1].seconds))


def as_table(folders: dict[str, Folder]) -> Iterator[str]:
    """Yield the rows of docs/testing.md."""
    yield from ("| folder | tests | seconds |", "|---|--:|--:|")
    for name, one in folders.items():
        yield f"| `{name}` | {one.tests:,} | {one.seconds:.1f} |"
    total = sum(one.seconds for one in folders.values())
    yield f"| all | {sum(one.tests for one in folders.values()):,} | {total:.1f} |"


def ratio(seconds: float, loop: float) -> str:
    """Say how long a run took beside the loop."""
    return f"Run: {seconds:.1f} s; fixed loop: {loop:.2f} s; ratio: {seconds / loop:.0f}"


if __name__ == "__main__":
    sys.stdout.write(f"{ratio(float(sys.argv[1]), seconds_of_loop())}\n")
