"""Explore schedules from a terminal, play one again, or play every order of a small world.

The worlds take turns. Exit code 1 and a story in words if something does not hold; the others are played on, and each
kind of fault is told of three worlds at most.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from explorer.orders import Scope
from explorer.run import Outcome, every_order, replayed, shorten, tell
from explorer.shares import ALL_BREAKS, played_by_many, share
from explorer.world import SMALL, WORLDS

_MOST_OF_A_KIND = 3
"""Worlds of which a fault of one kind is told."""


def main() -> int:
    """Explore as the arguments say."""
    args = _arguments()
    if args.broken:
        ALL_BREAKS[args.broken].make(setattr)
    gc.freeze()
    if args.replay:
        given = json.loads(Path(args.replay).read_text())
        outcome = replayed(given["world"], given["schedule"])
        print(tell(outcome))
        return int(bool(outcome.fault))
    began, counts, told = time.perf_counter(), Counter[str](), Counter[str]()
    scopes = _scopes(args)
    with _outcomes(args, scopes) as outcomes:
        for outcome in outcomes:
            counts[outcome.world] += 1
            if outcome.fault:
                _tell_fault(outcome, told, args.save)
                if scopes:
                    break
            elif args.digests:
                print(outcome.digest)
    took = time.perf_counter() - began
    for line in (*_tell_worlds(counts, args), *itertools.starmap(_tell_scope, scopes.items())):
        print(line)
    count, least = counts.total(), min(counts.values(), default=0)
    ends = "something does not hold" if told else "everything holds"
    if args.exhaustive:
        ends = f"up to what differs in nothing, {ends}"
    print(
        f"{count} schedules in {took:.1f} s, {count / took:.0f} a second, "
        f"at least {least} in each of {len(counts)} worlds: {ends}"
    )
    return int(bool(told))


def _scopes(args: argparse.Namespace) -> dict[str, Scope]:
    small = [args.world] if args.world else [*SMALL]
    return {name: Scope(set(), args.share) for name in small} if args.exhaustive else {}


def _tell_worlds(counts: Mapping[str, int], args: argparse.Namespace) -> list[str]:
    return [f"{count:8d}  {world}" for world, count in counts.items()] if args.verbose else []


def _tell_scope(world: str, scope: Scope) -> str:
    left = "" if scope.whole else ", and there are more"
    played = f"{scope.orders} orders without an end, {scope.ends} with one"
    return f"{world}: {played}; these have {scope.known_ends} ends{left}"


@contextmanager
def _outcomes(args: argparse.Namespace, scopes: Mapping[str, Scope]) -> Iterator[Iterator[Outcome]]:
    if scopes:
        yield (
            outcome
            for name, scope in scopes.items()
            for outcome in itertools.islice(every_order(name, scope), args.most)
        )
    elif args.digests or args.jobs == 1:
        yield share(vars(args), 0, 1)
    else:
        with played_by_many(vars(args)) as outcomes:
            yield outcomes


def _tell_fault(outcome: Outcome, told: Counter[str], save: str | None) -> None:
    """Tell a fault unless its world, or worlds enough, have shown the same kind; keep the first schedule in ``save``."""
    known = (f"{outcome.kind} in {outcome.world}", outcome.kind)
    is_new, is_first = not told[known[0]] and told[known[1]] < _MOST_OF_A_KIND, not told
    told.update(known)
    if not is_new:
        return
    shortest = outcome if outcome.orders else shorten(outcome)
    print(tell(shortest))
    if "explorer/oracle.py" not in shortest.trace:
        print(shortest.trace)
    if save and is_first:
        facts = {"world": shortest.world, "schedule": shortest.schedule}
        Path(save).write_text(f"{json.dumps(facts, indent=1)}\n")
        print(f"Play it again: ./scripts/explore --replay {save}")
    sys.stdout.flush()


def _share(words: str) -> tuple[int, int]:
    part, _, parts = words.partition("/")
    return int(part) - 1, int(parts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./scripts/explore", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long (20)")
    parser.add_argument("--seed", default="0", help="other schedules under another seed")
    parser.add_argument(
        "--world",
        choices=[*WORLDS, *SMALL],
        metavar="NAME",
        help=f"only this one: {'; '.join(WORLDS)}; with --exhaustive: {'; '.join(SMALL)}",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (one a processor)"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first schedule")
    parser.add_argument("--most", type=int, default=1_000_000_000, help="schedules of each world")
    parser.add_argument("--exhaustive", action="store_true", help="every order of small worlds")
    parser.add_argument(
        "--share",
        type=_share,
        default=(0, 1),
        metavar="N/PARTS",
        help="with --exhaustive: of the ends of processes, only one of so many parts (from 1)",
    )
    parser.add_argument("--replay", metavar="FILE", help="play the schedule of this file")
    parser.add_argument("--save", metavar="FILE", help="write a schedule that fails here")
    parser.add_argument(
        "--break",
        dest="broken",
        choices=ALL_BREAKS,
        metavar="NAME",
        help=f"break the product on purpose first, in one of: {'; '.join(ALL_BREAKS)}",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="tell how many schedules each world has played"
    )
    parser.add_argument(
        "--digests", action="store_true", help="print what a run came to, as a hash"
    )
    args = parser.parse_args()
    if args.exhaustive and args.world and args.world not in SMALL:
        parser.error(f"with --exhaustive the world is one of: {'; '.join(SMALL)}")
    if args.exhaustive and args.save:
        parser.error("--save writes no order of --exhaustive, which plays the same again")
    return args


if __name__ == "__main__":
    sys.exit(main())
