"""Explore some schedules, repeat one to the byte, and see that what is broken on purpose is found and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from explorer.choices import Chooser
from explorer.folders import Folder
from explorer.kept import COVERING, KEPT
from explorer.place import MemoryPlace
from explorer.run import neighbour, play, replayed, seeded, tell
from explorer.shares import share
from explorer.world import WORLDS, Plan, World
from mcp_notarium.account import anchor_keeper
from support.cache_room import new_file
from support.long import LONG, SEED, sample
from support.memory_client import ROWS
from support.sync_rig import DATABASE

TESTS = Path(__file__).parents[1]
MOST_OF_A_WORLD = 3
FOREVER = {"seconds": 1e9, "digests": True}
MOST_LONG = 500_000
"""Schedules of all worlds together, with ``--all``: others every day."""


def explore(*arguments: str, hashes: str = "0") -> subprocess.CompletedProcess[str]:
    """The command, as ``./scripts/explore`` runs it."""
    env = os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "explorer", "--jobs", "1", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow("explores as long as it says")
@pytest.mark.parametrize("world", WORLDS)
def test_everything_holds_in_the_schedules_of_the_day(world: str) -> None:
    most = MOST_LONG // len(WORLDS) if LONG else MOST_OF_A_WORLD
    seed = SEED if LONG else "ordinary"
    chosen = {"world": world, "seed": seed, "first": 0, "most": most}
    faults = [tell(one) if one.fault else "" for one in share(chosen | FOREVER, 0, 1)]
    assert len(faults) >= most
    assert {*faults} == {""}


@pytest.mark.slow("imports everything in two processes")
@pytest.mark.parametrize("world", sample("again", list(WORLDS), 1))
def test_a_seed_gives_the_same_run_whatever_hashes_are_and_after_others(world: str) -> None:
    chosen = ("--world", world, "--seed", "again", "--seconds", "60", "--digests")
    many = explore(*chosen, "--most", "4")
    alone = explore(*chosen, "--first", "3", "--most", "1", hashes="1")
    assert many.returncode == alone.returncode == 0, many.stdout + many.stderr + alone.stderr
    assert alone.stdout.splitlines()[0] in many.stdout.splitlines()


READ = """
import sys, time, traceback
places, playing = [], []

def watched(read):
    def reads():
        if playing:
            places.append("".join(traceback.format_stack(limit=3)))
        return read()
    return reads

time.time, time.monotonic = watched(time.time), watched(time.monotonic)
from explorer.run import seeded

for world in sys.argv[1:]:
    playing.append(world)
    seeded(world, "ordinary", 0)
    playing.clear()
sys.exit("".join(places) or 0)
"""
"""Plays a schedule of each world, and fails with the places that read the real clock: also one that was a default of a function at its import."""


@pytest.mark.slow("imports everything in a process of its own")
def test_no_run_reads_the_clock_of_this_computer() -> None:
    worlds = ("memento files", "vault files, folders", "local files, key changes")
    env = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", READ, *worlds]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow("opens accounts twice")
def test_the_real_dates_of_a_database_change_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world, number = "local files, key changes", 4
    before = seeded(world, "ordinary", number)
    monkeypatch.setattr(anchor_keeper, "_written", lambda _found: (0, 0))
    assert seeded(world, "ordinary", number).digest == before.digest


@pytest.mark.slow("the first one loads a world")
@pytest.mark.parametrize(("option", "ahead"), [(1, -3600.0), (2, -2.0), (3, 2.0), (4, 3600.0)])
def test_a_wrong_clock_is_in_the_dates_that_the_servers_of_one_computer_write(
    option: int, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[MemoryPlace] = []

    def make_place(world: World) -> MemoryPlace:
        places.append(MemoryPlace(world, ROWS["simplenote"]))
        return places[-1]

    def dates_of(schedule: dict[str, int]) -> dict[str, float]:
        assert replayed("two computers", schedule, rests=False).fault == ""
        notes = [places[-1].store.fields(one) for one in places[-1].ids()]
        return {one["text"][0]: one["created"] for one in notes if one["text"][0] in "ab"}

    monkeypatch.setitem(WORLDS, "two computers", Plan(make_place, apart=True))
    each_makes_a_note = {"act 1 of a #1": 1, "act 1 of b #1": 1}
    right = dates_of(each_makes_a_note)
    chosen = {"seconds that the clock of n is ahead by #1": option}
    wrong = dates_of(each_makes_a_note | chosen)
    assert wrong == pytest.approx(right | {"b": right["b"] + ahead}, rel=0, abs=0.001)


def test_what_a_run_leaves_is_gone_in_the_next_one(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "m")
    place = folder.begin(new_file(None))
    assert _texts(folder, place) == []
    first = folder.connect(str(place / DATABASE), timeout=1.0, isolation_level=None)
    first.execute("BEGIN IMMEDIATE")
    first.execute("INSERT INTO sync_metadata VALUES ('left', 'of the first run')")
    first.execute("COMMIT")
    first.execute("BEGIN IMMEDIATE")
    first.execute("INSERT INTO sync_metadata VALUES ('never', 'committed')")
    first.close()
    (place / "sync.lock").touch()
    assert folder.begin(new_file(None)) == place
    assert _texts(folder, place) == []
    assert (place / DATABASE).read_bytes() == new_file(None)
    assert not (place / "sync.lock").exists()
    folder.drop()


def _texts(folder: Folder, place: Path) -> list[Any]:
    connection = folder.connect(str(place / DATABASE), timeout=1.0, isolation_level=None)
    found = connection.execute("SELECT * FROM sync_metadata WHERE key IN ('left', 'never')")
    rows = found.fetchall()
    connection.close()
    return rows


REAL = [one for one in WORLDS if "files" in one or "http" in one]


@pytest.mark.slow("some load an account first")
@pytest.mark.parametrize("world", sample("same", REAL, 12))
def test_a_real_store_makes_the_same_run_to_the_byte(world: str) -> None:
    first, second = (seeded(world, "same", 0) for _ in range(2))
    assert first.story == second.story
    assert first.digest == second.digest


def test_kept_schedules_come_first_and_then_seeds_with_neighbours() -> None:
    world = "simplenote over http, hidden"
    kept, rare = ([one for one in all_ if one.world == world] for all_ in (KEPT, COVERING))
    chosen = {"world": world, "seed": "turns", "first": 3, "most": 2} | FOREVER
    played = [one.digest for one in share(chosen | {"digests": False}, 0, 1)]
    first = [replayed(world, one.schedule, rests=False).digest for one in kept]
    seeds = [seeded(world, "turns", at).digest for at in (3, 4)]
    beside = replayed(world, rare[0].schedule, rests=False)
    assert played == [*first, *seeds, neighbour(kept[0], "turns", 3).digest, beside.digest]


def test_what_few_schedules_reach_is_played_before_its_neighbours() -> None:
    worlds = Counter(one.world for one in COVERING)
    world = min(worlds, key=lambda one: worlds[one])
    chosen = {"world": world, "seed": "turns", "first": 0, "most": 8} | FOREVER
    played = [one.digest for one in share(chosen | {"digests": False}, 0, 1)]
    rare = [one for one in COVERING if one.world == world][:4]
    assert 0 < len(rare) <= 4
    assert {replayed(world, one.schedule, rests=False).digest for one in rare} <= {*played}


@pytest.mark.slow("loads several worlds")
def test_a_neighbour_is_the_same_run_to_the_byte_and_replays() -> None:
    for kept in KEPT[::12]:
        first, second = (neighbour(kept, "same", 1) for _ in range(2))
        assert first.digest == second.digest
        again = replayed(kept.world, first.schedule, rests=False, serves=False)
        assert again.digest == first.digest


def test_a_story_tells_each_choice_that_is_not_calm_in_words() -> None:
    outcomes = [seeded("simplenote", "told", number) for number in range(12)]
    made = [(key, one.story) for one in outcomes for key in one.schedule]
    assert any("late #" in key for key, _ in made)
    assert any("turns #" in key for key, _ in made)
    untold = [key for key, story in made if not any(f" chosen: {key}" in line for line in story)]
    assert untold == []
    told = [line for one in outcomes for line in one.story if "turns #" in line or "late #" in line]
    assert all(line.endswith((" s", "goes first", "go first")) for line in told)


@pytest.mark.slow("plays every world")
def test_without_a_choice_nothing_goes_wrong() -> None:
    for world in WORLDS:
        calm = play(world, Chooser(schedule={}), rests=True)
        assert (calm.fault, calm.schedule) == ("", {})


@pytest.mark.slow("shortens a schedule")
def test_others_are_played_on_after_a_fault_and_its_kind_is_told_once(tmp_path: Path) -> None:
    saved = tmp_path / "first.json"
    broken = ("--break", "the outcome of an act is not recorded", "--world", "local")
    done = explore(*broken, "--seed", "b1", "--most", "20", "--save", str(saved))
    assert done.returncode == 1
    assert done.stdout.count("Broken: a call was answered") == 1
    assert "\n30 schedules in " in done.stdout  # of a seed, and what few reach
    assert json.loads(saved.read_text())["world"] == "local"


def test_a_schedule_that_fails_is_written_and_played_again(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"world": "simplenote", "schedule": {"act 1 of a #1": 1}}))
    done = explore("--replay", str(path))
    assert done.returncode == 0
    assert "a calls save" in done.stdout
