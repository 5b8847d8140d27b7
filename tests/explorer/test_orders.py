"""Play every order of small worlds, and see that what is left out differs in nothing from what is played."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

import pytest

from explorer.__main__ import main
from explorer.breaks import BREAKS
from explorer.choices import KILL
from explorer.orders import EveryOrder, Scope
from explorer.run import every_order, forget_loaded, play, tell
from explorer.world import SMALL, Plan, memory
from support.long import LONG, SEED, sample
from support.memory_client import ROWS

MOST_LONG = 500
"""Schedules of a small world with ``--all``; ``./scripts/explore --exhaustive --world NAME`` plays them all."""
PARTS = 20
"""Parts of the ends that there are in a small world with another device: ``--all`` plays another one every day."""


def tiny(acts: dict[str, tuple[str, ...]], *, kills: int) -> Plan:
    return Plan(memory(ROWS["trilium"]), kills=kills, syncing=False, acts=1, script=acts)


ANY = 200
"""Orders by chance of two servers that write."""
TINY = {
    "a server, another device": tiny(
        {"a": ("append",), "another device": ("edit the end",)}, kills=0
    ),
    "two servers, one looks": tiny({"a": ("append",), "b": ("look",)}, kills=1),
    "two servers, one looks, another device": tiny(
        {"a": ("append",), "b": ("look",), "another device": ("edit the end",)}, kills=0
    ),
}


@pytest.mark.slow("plays orders one by one")
@pytest.mark.parametrize("world", sample("small worlds", list(SMALL), 14))
def test_every_order_of_a_small_world_holds(world: str) -> None:
    most = MOST_LONG if LONG else 10
    part = random.Random(SEED).randrange(PARTS)
    parted = LONG and SMALL[world].kills and "alone" not in world
    scope = Scope(set(), (part, PARTS) if parted else (0, 1))
    for number, outcome in enumerate(every_order(world, scope), 1):
        assert outcome.fault == "", tell(outcome)
        if number == most:
            break
    small = "alone" in world or "nobody else" in world
    assert scope.whole or not (LONG and small), "it is small enough"


@pytest.mark.slow("plays orders one by one")
@pytest.mark.parametrize("world", TINY if LONG else ["two servers, one looks, another device"])
def test_orders_that_are_left_out_differ_in_nothing(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SMALL, world, TINY[world])
    every = list(every_order(world, Scope(None)))
    some = list(every_order(world))
    assert {one.fault for one in every} == {""}
    assert len(some) < len(every)
    assert {one.ends for one in some} == {one.ends for one in every}
    forget_loaded()


def test_each_end_is_in_one_part() -> None:
    scopes = [Scope(None, (at, 3)) for at in range(3)]
    choosers = [EveryOrder([], scope) for scope in scopes]
    for at in range(60):
        for chooser in choosers:
            assert chooser.choose(f"{KILL}a1 comes to place {at}", 3, rate=1.0) == 0
    parts = [len(chooser.taken) for chooser in choosers]
    assert min(parts) > 0
    assert sum(parts) == 60
    assert {scope.known_ends for scope in scopes} == {120}


class AnyOrder(EveryOrder):
    """Decides by chance; seldom who is next, so that one gets ahead of the others."""

    def __init__(self, number: int) -> None:
        super().__init__([], Scope(None), kills=0)
        self._draws = random.Random(number)

    def _decide(self, label: str, options: int, names: Sequence[str] = ()) -> int:
        del label, names
        return self._draws.randrange(options) if self._draws.random() < 0.3 else 0


@pytest.mark.slow("plays orders one by one")
@pytest.mark.skipif(not LONG, reason="the short form plays what is smaller")
def test_any_order_of_two_writers_comes_to_what_one_that_is_played_comes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SMALL, "two", tiny({"a": ("append",), "b": ("append",)}, kills=0))
    played = [one.ends for one in every_order("two")]
    by_chance = {play("two", AnyOrder(number)).ends for number in range(ANY)}
    assert by_chance <= {*played}
    assert len(by_chance) > 2
    assert len(played) < ANY
    forget_loaded()


@pytest.mark.parametrize("world", TINY if LONG else ["a server, another device"])
@pytest.mark.parametrize(
    "broken", ["an act is not recorded before it", "the outcome of an act is not recorded"]
)
def test_a_break_that_all_orders_show_is_shown_by_those_that_are_played(
    broken: str, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SMALL, world, TINY[world])
    BREAKS[broken].make(monkeypatch.setattr)
    forget_loaded()
    every = {one.kind for one in every_order(world, Scope(None))}
    some = {one.kind for one in every_order(world)}
    assert some == every != {""}
    forget_loaded()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--world", "simplenote"), "simplenote, edit the end, killed"),
        (("--save", "schedule.json"), "writes no order"),
    ],
)
def test_what_cannot_be_asked_of_every_order_is_refused_in_words(
    more: tuple[str, str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["explore", "--exhaustive", *more])
    with pytest.raises(SystemExit):
        main()
    assert told in " ".join(capsys.readouterr().err.split())
