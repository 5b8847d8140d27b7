"""Share schedules among the worlds and the processors: worlds and kept schedules take turns, and each processor plays its part."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import Empty
from typing import Any

from explorer.breaks import BREAKS, Break
from explorer.breaks_account import BREAKS as BREAKS_ACCOUNT
from explorer.breaks_acts import BREAKS as BREAKS_ACTS
from explorer.breaks_consent import BREAKS as BREAKS_CONSENT
from explorer.breaks_disk import BREAKS as BREAKS_DISK
from explorer.breaks_files import BREAKS as BREAKS_FILES
from explorer.breaks_http import BREAKS as BREAKS_HTTP
from explorer.breaks_index import BREAKS as BREAKS_INDEX
from explorer.breaks_kept import BREAKS as BREAKS_KEPT
from explorer.breaks_once import BREAKS as BREAKS_ONCE
from explorer.breaks_parts import BREAKS as BREAKS_PARTS
from explorer.breaks_service import BREAKS as BREAKS_SERVICE
from explorer.breaks_stores import BREAKS as BREAKS_STORES
from explorer.breaks_subtle import BREAKS as BREAKS_SUBTLE
from explorer.breaks_taken_back import BREAKS as BREAKS_TAKEN_BACK
from explorer.kept import COVERING, KEPT
from explorer.run import Outcome, neighbour, replayed, seeded
from explorer.world import WORLDS

BREAKS_OF_ACTS = BREAKS_ACTS | BREAKS_ACCOUNT | BREAKS_PARTS
ALL_BREAKS = BREAKS | BREAKS_FILES | BREAKS_HTTP | BREAKS_ONCE | BREAKS_SUBTLE
ALL_BREAKS |= BREAKS_TAKEN_BACK | BREAKS_KEPT | BREAKS_DISK | BREAKS_SERVICE | BREAKS_CONSENT
ALL_BREAKS |= BREAKS_STORES | BREAKS_INDEX
ALL_BREAKS |= {name: Break(*one) for name, one in BREAKS_OF_ACTS.items()}
_END_SECONDS = 60
"""How long a process may take to end the schedule that it plays."""


def share(args: dict[str, Any], first: int, step: int) -> Iterator[Outcome]:
    """Play every so many-th turn."""
    ends = time.perf_counter() + args["seconds"]
    for turn in itertools.islice(_turns(args), first, None, step):
        for play in turn:
            yield play()
        if time.perf_counter() > ends:
            return


def _turns(args: dict[str, Any]) -> Iterator[Sequence[Callable[[], Outcome]]]:
    """Yield the kept schedules, then by turns two of a seed, a neighbour of a kept one, and one that reaches what few do.

    Worlds and kept ones take turns. After those that reach what few do come their neighbours.
    """
    worlds = [args["world"]] if args["world"] else list(WORLDS)
    kept = [one for one in KEPT if one.world in worlds]
    for one in kept if not args["digests"] else ():
        yield [partial(replayed, one.world, one.schedule, rests=False)]
    seed, first, most = args["seed"], args["first"], args["most"]
    numbers = range(first, first + most)
    seeds = (partial(seeded, world, seed, number) for number in numbers for world in worlds)
    near = (partial(neighbour, one, seed, at) for at in (numbers if kept else ()) for one in kept)
    covering = [one for one in COVERING if one.world in worlds]
    rare = itertools.chain(
        (partial(replayed, one.world, one.schedule, rests=False) for one in covering),
        (
            partial(neighbour, one, seed, at)
            for at in (numbers if covering else ())
            for one in covering
        ),
    )
    while pair := list(itertools.islice(seeds, 2)):
        yield [*pair, *itertools.islice(near, 1), *itertools.islice(rare, 1)]


@contextmanager
def played_by_many(args: dict[str, Any]) -> Iterator[Iterator[Outcome]]:
    """Let each processor play its share."""
    spawning = multiprocessing.get_context("spawn")
    results: Any = spawning.Queue()
    players = [
        spawning.Process(target=_play, args=(args, at, results), daemon=True)
        for at in range(args["jobs"])
    ]
    for player in players:
        player.start()

    def collect() -> Iterator[Outcome]:
        playing, waited = args["jobs"], 0
        while playing:
            try:
                outcome = results.get(timeout=1.0)
            except Empty:
                waited += 1
                if waited > _END_SECONDS and not all(one.is_alive() for one in players):
                    raise RuntimeError("a process has ended before its time") from None
                continue
            waited = 0
            if outcome is None:
                playing -= 1
            else:
                yield outcome

    try:
        yield collect()
    finally:
        for player in players:
            player.terminate()
            player.join()


def _play(args: dict[str, Any], at: int, results: Any) -> None:
    if args["broken"]:
        ALL_BREAKS[args["broken"]].make(setattr)
    for outcome in share(args, at, args["jobs"]):
        results.put(outcome)
    results.put(None)
