"""Explore schedules from a terminal, play one again, or play every order of a small world.

Exit code 1 and a story in words if something does not hold.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from explorer.run import Outcome, every_order, replayed, seeded, shorten, tell
from explorer.world import SMALL, WORLDS

IN_A_ROW = 8
"""Schedules of a world before the next world: they share what they begin with."""


def main() -> int:
    """Explore as the arguments say."""
    args = _arguments()
    gc.freeze()
    if args.replay:
        given = json.loads(Path(args.replay).read_text())
        outcome = replayed(given["world"], given["schedule"])
        print(tell(outcome))
        return int(bool(outcome.fault))
    began, count = time.perf_counter(), 0
    for outcome in _outcomes(args):
        count += 1
        if outcome.fault:
            return _report(outcome, args.save)
        if args.digests:
            print(outcome.digest)
        if not args.exhaustive and time.perf_counter() - began > args.seconds:
            break
    took = time.perf_counter() - began
    if args.exhaustive:
        print(f"{count} schedules in {took:.1f} s, up to what differs in nothing: everything holds")
        return 0
    print(f"{count} schedules in {took:.1f} s, {count / took:.0f} a second: everything holds")
    return 0


def _outcomes(args: argparse.Namespace) -> Iterator[Outcome]:
    if args.exhaustive:
        for world in [args.world] if args.world else SMALL:
            yield from itertools.islice(every_order(world), args.most)
        return
    worlds = [args.world] if args.world else list(WORLDS)
    numbers = range(args.first, args.first + args.most)
    for at in range(0, len(numbers), IN_A_ROW):
        for world in worlds:
            for number in numbers[at : at + IN_A_ROW]:
                yield seeded(world, args.seed, number)


def _report(outcome: Outcome, save: str | None) -> int:
    shortest = outcome if outcome.orders else shorten(outcome)
    print(tell(shortest))
    if not shortest.fault.startswith("Broken"):
        print(shortest.trace)
    if save:
        facts = {"world": shortest.world, "schedule": shortest.schedule}
        Path(save).write_text(f"{json.dumps(facts, indent=1)}\n")
        print(f"Play it again: ./scripts/explore --replay {save}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./scripts/explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long (20)")
    parser.add_argument("--seed", default="0", help="other schedules under another seed")
    parser.add_argument("--world", choices=[*WORLDS, *SMALL], help="only this one")
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    parser.add_argument("--most", type=int, default=1_000_000_000, help="schedules of each world")
    parser.add_argument("--exhaustive", action="store_true", help="every order of small worlds")
    parser.add_argument("--replay", metavar="FILE", help="play the schedule of this file")
    parser.add_argument("--save", metavar="FILE", help="write a schedule that fails here")
    parser.add_argument(
        "--digests", action="store_true", help="print what a run came to, as a hash"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
