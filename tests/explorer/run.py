"""Play one schedule; explore many; make a failing one short; tell it in words."""

from __future__ import annotations

import gc
import hashlib
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from explorer.choices import Chooser, Schedule
from explorer.folders import Folders
from explorer.kept import Kept, near
from explorer.loop import EVENT_SECONDS, DeterministicLoop
from explorer.machine import Clock, simulated
from explorer.oracle import Broken
from explorer.orders import EveryOrder, Scope, Seen
from explorer.world import SMALL, WORLDS, World
from support.cache_room import new_file

RESTING = 10
"""One run of so many ends with ten quiet minutes."""
SERVING = 4
"""In one run of so many each server has to serve in the end, which takes as long as all that was done before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what came of a run. ``digest`` is the same for every run of the same schedule."""

    world: str
    schedule: Schedule
    fault: str
    """What does not hold, '' if all does."""
    story: tuple[str, ...]
    digest: str
    trace: str = ""
    orders: tuple[str, ...] = ()
    """What was decided, where every order is played."""
    ends: str = ""
    """What the store had in the end and what each had met, where every order is played."""

    @property
    def kind(self) -> str:
        """Return what tells one fault from another."""
        return self.fault.partition(":")[0]


def play(
    world: str, chooser: Chooser, *, seed: str = "", rests: bool = False, serves: bool = True
) -> Outcome:
    """Play one schedule to its end, in a folder of its own; ``serves``: each server has to serve then."""
    loaded = _loaded(world)
    database = loaded if isinstance(loaded, bytes) else None if loaded else new_file(None)
    digest = hashlib.sha256()
    fault = trace = ""
    with _opened(world, chooser, seed=seed, database=database) as playing:

        def on_step(label: str) -> None:
            if label:
                digest.update(f"{playing.loop.time():.6f} {label}\n".encode())
            playing.after_step(label)

        playing.loop.on_step = on_step
        try:
            playing.begin(loaded)
            playing.act()
            playing.heal()
            if serves:
                playing.serve()
            if rests:
                playing.rest()
            playing.require_no_errors()
        except Exception as error:  # noqa: BLE001 - it is the result
            fault = (
                str(error)
                if isinstance(error, Broken)
                else playing.named(f"{type(error).__name__}: {error}")
            )
            trace = traceback.format_exc()
        story = tuple(playing.story)
        ends = playing.ends() if isinstance(chooser, EveryOrder) else ""
    digest.update("\n".join([*story, fault]).encode())
    orders = tuple(chooser.words) if isinstance(chooser, EveryOrder) else ()
    return Outcome(world, chooser.made, fault, story, digest.hexdigest(), trace, orders, ends)


@cache
def _loaded(world: str) -> Any:
    with _opened(world, Chooser(schedule={}), seed="") as prepared:
        prepared.loop.on_step = prepared.after_step
        prepared.begin(None)
        return prepared.loaded()


def forget_loaded() -> None:
    """Load again: the product is another one now."""
    _loaded.cache_clear()
    _FOLDERS.drop()


_FOLDERS = Folders()


@contextmanager
def _opened(
    name: str, chooser: Chooser, *, seed: str, database: bytes | None = None
) -> Iterator[World]:
    """Open a world whose servers begin with a database, or with none."""
    orders, plan = isinstance(chooser, EveryOrder), (WORLDS | SMALL)[name]
    loop = DeterministicLoop(chooser, now=0.0, event_seconds=0.0 if orders else EVENT_SECONDS)
    clock = Clock(loop)
    with (
        _FOLDERS.empty() as folder,
        _without_collector(),
        simulated(
            loop,
            clock,
            seed=seed,
            connect=_FOLDERS.connect,
            chance_of_each=orders,
            real_files=plan.changes != "",
        ),
    ):

        def first(machine: str) -> Path | None:
            return None if database is None else _FOLDERS.begin(name, machine, database)

        world = (plan.world or World)(plan, folder, loop, clock, chooser, first=first)
        try:
            yield world
        finally:
            world.close()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Nothing of a run ends at a moment that memory decides."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seeded(world: str, seed: str, number: int) -> Outcome:
    """Play the schedule of a seed."""
    name = f"{seed}/{world}/{number}"
    return _play_one_of_many(world, Chooser(seed=name), number)


def neighbour(kept: Kept, seed: str, number: int) -> Outcome:
    """Play a schedule like one that is kept."""
    name = f"{seed}/near {kept.about}/{number}"
    schedule, added = near(kept, random.Random(name))
    chooser = Chooser(seed=name, schedule=schedule, added=added)
    return _play_one_of_many(kept.world, chooser, number)


def _play_one_of_many(world: str, chooser: Chooser, number: int) -> Outcome:
    rests, serves = number % RESTING == 0, number % SERVING == 0
    return play(world, chooser, rests=rests, serves=serves)


def replayed(world: str, schedule: Schedule, *, rests: bool = True, serves: bool = True) -> Outcome:
    """Play a schedule again."""
    return play(world, Chooser(schedule=schedule), rests=rests, serves=serves)


def every_order(world: str, scope: Scope | None = None) -> Iterator[Outcome]:
    """Play every order of the events of a small world, and each end of a process that it has.

    Of orders that differ in nothing one is played, unless the ``scope`` asks for all. It learns what was played.
    """
    scope = scope or Scope(set())
    prefix: list[int] | None = []
    while prefix is not None:
        chooser = EveryOrder(prefix, scope, kills=SMALL[world].kills)
        with suppress(Seen):
            outcome = play(world, chooser)
            if chooser.killed:
                scope.ends += 1
            else:
                scope.orders += 1
            yield outcome
        prefix = chooser.next_prefix()
    scope.whole = True


def shorten(outcome: Outcome, *, report: Callable[[int], None] = lambda _left: None) -> Outcome:
    """Return the shortest schedule found that fails in the same way: no single choice of it can be left out."""
    best = outcome
    size = max(1, len(best.schedule) // 2)
    while size:
        keys, at, shorter = list(best.schedule), 0, False
        while at < len(keys):
            left = {key: best.schedule[key] for key in keys[:at] + keys[at + size :]}
            tried = replayed(outcome.world, left)
            if tried.fault and tried.kind == outcome.kind:
                best, keys, shorter = tried, [key for key in tried.schedule if key in left], True
                report(len(keys))
            else:
                at += size
        size = size if shorter and size == 1 else size // 2
    return best


def tell(outcome: Outcome) -> str:
    """Return the story of a run in words."""
    made = outcome.orders or [f"{key} = {value}" for key, value in outcome.schedule.items()]
    choices = "\n".join(f"  {one}" for one in made)
    happened = "\n".join(f"  {line}" for line in outcome.story)
    return f"World: {outcome.world}\nChoices:\n{choices}\nWhat happened:\n{happened}\nBroken: {outcome.fault}"
