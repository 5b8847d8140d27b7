"""Explore some schedules, repeat one to the byte, and see that what is broken on purpose is found and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from explorer.breaks import BREAKS
from explorer.choices import Chooser
from explorer.folders import Folder
from explorer.run import forget_loaded, play, replayed, seeded, shorten, tell
from explorer.world import WORLDS
from mcp_notarium.account import anchor_keeper
from support.cache_room import new_file
from support.long import LONG, SEED, sample
from support.sync_rig import DATABASE

TESTS = Path(__file__).parents[1]
MOST_OF_A_WORLD = 3
MOST_LONG = 500_000
"""Schedules of all worlds together, with ``--all``: others every day."""
QUICK = (
    "hidden notes are shown",
    "the outcome of an act is not recorded",
    "what was removed stays",
)
MOST = 20_000
"""Schedules in which a break has to be found; most are found in the first hundred."""


def explore(*arguments: str, hashes: str = "0") -> subprocess.CompletedProcess[str]:
    """The command, as ``./scripts/explore`` runs it."""
    env = os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "explorer", "--jobs", "1", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow("explores as long as it says")
@pytest.mark.parametrize("world", WORLDS if LONG else [""])
def test_everything_holds_in_the_schedules_of_the_day(world: str) -> None:
    most = MOST_LONG // len(WORLDS) if LONG else MOST_OF_A_WORLD
    chosen = ["--world", world] if LONG else []
    seed = SEED if LONG else "ordinary"
    arguments = ("--seconds", "1000000", "--seed", seed, "--digests", *chosen)
    done = explore(*arguments, "--most", str(most))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything holds" in done.stdout
    others = explore(*arguments, "--most", "1", hashes="1").stdout.splitlines()[:-1]
    assert len(others) == len([world] if LONG else WORLDS)
    assert set(others) <= set(done.stdout.splitlines()), "hashes of strings make no difference"


@pytest.mark.parametrize(
    "world",
    sample("again", ["simplenote", "memento, apart", "vault, hidden", "local files"], 1),
)
def test_a_seed_gives_the_same_run_also_after_others(world: str) -> None:
    chosen = ("--world", world, "--seed", "again", "--seconds", "60", "--digests")
    many = explore(*chosen, "--most", "12")
    alone = explore(*chosen, "--first", "11", "--most", "1")
    assert many.returncode == alone.returncode == 0, many.stdout + many.stderr + alone.stderr
    assert len(many.stdout.splitlines()) == 13
    assert many.stdout.splitlines()[11] == alone.stdout.splitlines()[0]


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


@pytest.mark.parametrize("name", BREAKS if LONG else QUICK)
def test_what_is_broken_on_purpose_is_found_and_told_in_words(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = BREAKS[name]
    broken.make(monkeypatch.setattr)
    forget_loaded()
    outcomes = (seeded(broken.world, "breaks", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    shortest = shorten(found)
    assert any(word in shortest.fault for word in broken.words), shortest.fault
    assert len(shortest.schedule) <= len(found.schedule)
    story = tell(shortest)
    assert shortest.fault in story
    again = replayed(shortest.world, shortest.schedule)
    assert again.fault == shortest.fault
    assert again.digest == shortest.digest
    forget_loaded()


def test_without_a_choice_nothing_goes_wrong() -> None:
    for world in WORLDS:
        calm = play(world, Chooser(schedule={}), rests=True)
        assert (calm.fault, calm.schedule) == ("", {})


@pytest.mark.slow("shortens a schedule")
def test_others_are_played_on_after_a_fault_and_its_kind_is_told_once(tmp_path: Path) -> None:
    saved = tmp_path / "first.json"
    broken = ("--break", "the outcome of an act is not recorded", "--world", "simplenote")
    done = explore(*broken, "--seed", "breaks", "--most", "20", "--save", str(saved))
    assert done.returncode == 1
    assert done.stdout.count("Broken: a call was answered") == 1
    assert "\n20 schedules in " in done.stdout
    assert json.loads(saved.read_text())["world"] == "simplenote"


def test_a_schedule_that_fails_is_written_and_played_again(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"world": "simplenote", "schedule": {"act 1 of a #1": 1}}))
    done = explore("--replay", str(path))
    assert done.returncode == 0
    assert "a calls save" in done.stdout
