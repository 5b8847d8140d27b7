"""Find schedules that reach what a run of a seed seldom reaches, and keep them in ``covering.json``.

``PYTHONPATH=tests python -m explorer.covering --seconds N --seed S`` (Python 3.12 or later) plays the kept schedules, those in the
file, and then seeds of all worlds. Of these it takes what reaches a line of the product, or a row of the table of writes at a
store, that one of five hundred seeds reaches at most, so that each is reached twice. Each is made shorter while it still does that.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from explorer.choices import Schedule
from explorer.kept import COVERING, COVERING_FILE, KEPT
from explorer.run import Outcome, replayed, seeded
from explorer.world import WORLDS
from mcp_notarium.sync import write_attempt, write_commit, write_decisions

_SOURCES = "/mcp_notarium/"
_TIMES = 2
"""Schedules that are to reach a thing."""
_SELDOM = 0.002
"""The share of the seeds that reach a thing which few reach, at most."""
_LEAST_PART = 16
"""Choices are left out together, at last one of so many parts of a schedule."""

Reached = frozenset[str]


@dataclass
class Covering:
    """Hold a schedule, and what it is kept for."""

    world: str
    schedule: Schedule
    reaches: Reached


class Tracer:
    """Note the lines of the product that a run reaches, and the rows of its tables."""

    def __init__(self) -> None:
        self._reached: set[str] = set()
        self._world = ""
        self._monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - Python 3.11 has none
        tool = self._monitoring.COVERAGE_ID
        self._monitoring.use_tool_id(tool, "covering")
        line = self._monitoring.events.LINE
        self._monitoring.register_callback(tool, line, self._on_line)
        self._monitoring.set_events(tool, line)
        write_attempt.decide = write_commit.decide = self._decide

    def _on_line(self, code: CodeType, line: int) -> Any:
        _, found, file = code.co_filename.partition(_SOURCES)
        if found:
            self._reached.add(f"{file}:{line}")
        return self._monitoring.DISABLE

    def _decide(self, case: write_decisions.Case) -> write_decisions.Step:
        row = next(row for row in write_decisions.DECISIONS if row.covers(case))
        self._reached.add(
            f"{row.kind} {row.attempt} {row.held} {row.fact} at {self._world.split()[0]}"
        )
        return row.step

    def trace(self, world: str, play: Callable[[], Outcome]) -> tuple[Reached, Outcome]:
        """Return what a run in this world has reached, and how it ended."""
        self._reached.clear()
        self._world = world
        self._monitoring.restart_events()
        outcome = play()
        return frozenset(self._reached), outcome


def find(tracer: Tracer, *, seconds: float, seed: str) -> list[Covering]:
    """Return the schedules of the file that are needed and new ones, in the order of worlds."""
    played = [_played(tracer, one.world, one.schedule) for one in COVERING]
    seen, count, ends = Counter[str](), 0, time.monotonic() + seconds
    for number, world in ((number, world) for number in itertools.count() for world in WORLDS):
        if time.monotonic() > ends:
            break
        reached, outcome = tracer.trace(world, lambda: seeded(world, seed, number))  # noqa: B023
        count += 1
        seen.update(reached)
        if outcome.fault:
            print(f"{world}, seed {seed}, number {number}: {outcome.fault[:300]}", flush=True)
        else:
            rare = frozenset(one for one in reached if seen[one] <= max(_TIMES, _SELDOM * count))
            played.append(Covering(world, outcome.schedule, rare))
    met = Counter[str]()
    for one in KEPT:
        met.update(tracer.trace(one.world, lambda one=one: replayed(one.world, one.schedule))[0])
    needed = [one for one, times in seen.items() if times <= max(_TIMES, _SELDOM * count)]
    chosen = _choose(played, sorted(needed, key=lambda one: (seen[one], one)), met)
    print(
        f"{count} schedules, {len(needed)} things that few reach, {len(chosen)} chosen", flush=True
    )
    short = [_shorten(tracer, one) for one in chosen]
    return sorted(short, key=lambda one: [*WORLDS].index(one.world))


def _played(tracer: Tracer, world: str, schedule: Schedule) -> Covering:
    reached, _ = tracer.trace(world, lambda: replayed(world, schedule, rests=False))
    return Covering(world, schedule, reached)


def _choose(played: list[Covering], needed: Sequence[str], met: Counter[str]) -> list[Covering]:
    """Return schedules that reach each of these twice, those that are ``met`` counted, and what each is chosen for."""
    having: dict[str, list[int]] = {}
    for number, one in enumerate(played):
        for thing in one.reaches:
            having.setdefault(thing, []).append(number)
    left, chosen = {one for one in needed if met[one] < _TIMES}, dict[int, Reached]()
    for thing in needed:
        for number in having.get(thing, ()):
            if thing in left and number not in chosen:
                chosen[number] = played[number].reaches & left
                met.update(chosen[number])
                left -= {one for one in chosen[number] if met[one] >= _TIMES}
    return [replace(played[number], reaches=new) for number, new in chosen.items()]


def _shorten(tracer: Tracer, one: Covering) -> Covering:
    """Leave choices out while it holds and reaches what it is chosen for."""
    best, world, size = one.schedule, one.world, max(1, len(one.schedule) // 2)
    while size >= max(1, len(one.schedule) // _LEAST_PART):
        keys, at = list(best), 0
        while at < len(keys):
            left = {key: best[key] for key in keys[:at] + keys[at + size :]}
            reached, tried = tracer.trace(world, lambda: replayed(world, left, rests=False))  # noqa: B023
            if not tried.fault and one.reaches <= reached:
                best = tried.schedule
                keys = [key for key in best if key in left]
            else:
                at += size
        size //= 2
    return replace(one, schedule=best)


def main() -> int:
    """Write the file anew."""
    parser = argparse.ArgumentParser(prog="python -m explorer.covering", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long seeds are played")
    parser.add_argument("--seed", default="0", help="other schedules under another seed")
    args = parser.parse_args()
    gc.freeze()
    found = find(Tracer(), seconds=args.seconds, seed=args.seed)
    rows = [{"world": one.world, "schedule": one.schedule} for one in found]
    COVERING_FILE.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(f"{len(rows)} schedules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
