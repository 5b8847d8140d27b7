"""Play again what the worlds over HTTP have found, repeat such a run to the byte, and find what is broken on purpose."""

from __future__ import annotations

import pytest

from explorer.breaks_http import BREAKS
from explorer.choices import Chooser, Schedule
from explorer.run import play, replayed, seeded
from explorer.world import WORLDS
from support.long import LONG

FOUND: dict[str, tuple[str, Schedule]] = {
    "a save that another server goes on from, and undoes that": (
        "simplenote over http",
        {
            "act 1 of another device #1": 13,
            "act 1 of another device comes after #1": 13,
            "act 1 of a #1": 8,
            "act 1 of b #1": 2,
            "note of a #1": 1,
            "note of b #1": 1,
            "a1: POST note1 at 1: no connection #1": 1,
            "act 2 of b #1": 5,
        },
    ),
    "a tag of a note that is removed before the answer comes": (
        "simplenote over http, apart",
        {
            "act 2 of another device #1": 7,
            "act 1 of a #1": 9,
            "act 1 of b #1": 8,
            "a begins to trash: turns #1": 5,
            "note of a #1": 1,
            "kill: a1 has committed #4": 2,
            "another device acts while m is dark #1": 12,
        },
    ),
    "a push that a proxy's page answered counted as stored": (
        "simplenote over http, apart",
        {"act 1 of a #1": 4, "act 1 of b #1": 2, "b1: POST note0 at 1: fails #1": 6},
    ),
    "a tag of another save was lost, as the store had a write already that was sent again": (
        "simplenote over http, apart",
        {
            "act 1 of a #1": 8,
            "act 1 of b #1": 8,
            "note of a #1": 1,
            "note of b #1": 1,
            "b1: POST note1 at 1: fails #1": 10,
        },
    ),
    "a write that was done, taken back elsewhere and given a newer base never ended": (
        "simplenote over http, apart",
        {
            "act 1 of a #1": 9,
            "kill: a1 has the answer: POST note0 at 1 #1": 1,
            "a starts again: late #1": 3,
            "b begins to untrash: late #1": 2,
            "act 1 of b #1": 10,
        },
    ),
    "a deletion that was sent again took an edit with it that had come meanwhile": (
        "trilium over http",
        {
            "act 1 of a #1": 7,
            "a1: DELETE note0 notes: fails #1": 3,
            "another device acts before a1 sends again: DELETE note0 notes #1": 2,
        },
    ),
    "a change that had arrived was added once more where another save had joined its line": (
        "trilium over http, apart",
        {
            "act 1 of a #1": 4,
            "act 1 of b #1": 4,
            "a1: GET note0 notes: fails #1": 4,
            "b1: GET note0 notes: fails #3": 6,
        },
    ),
    "a removed note stayed, as a cache still had it when it was asked for again": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 5,
            "act 1 of another device comes after #1": 22,
            "act 2 of another device #1": 8,
            "act 3 of another device #1": 9,
            "act 1 of a #1": 8,
            "note of a #1": 1,
            "note of another device #3": 1,
            "b1: GET note1: fails #2": 8,
        },
    ),
    "a note made again was removed, as the feed came in another order": (
        "simplenote over http, hidden",
        {
            "act 2 of another device #1": 11,
            "act 3 of another device #1": 6,
            "act 1 of a #1": 1,
            "what the feed does #1": 2,
            "kill: a1 flushes its log #1": 1,
        },
    ),
    "a cached answer replaced a newer version in the index": (
        "simplenote over http, hidden",
        {
            "act 1 of another device #1": 1,
            "act 2 of b #1": 2,
            "b1: POST note0 at 2: fails #1": 11,
            "act 3 of b #1": 5,
            "b1: GET note0 at 2: no connection #2": 1,
            "b1: POST note0 at 3: no connection #1": 1,
            "b1: POST note0 at 3: no connection #2": 1,
            "a1: GET note0: fails #1": 8,
        },
    ),
    "a change that had arrived was added once more beside an edit": (
        "trilium over http, apart",
        {
            "act 3 of another device #1": 2,
            "act 2 of a #1": 4,
            "act 1 of b #1": 3,
            "a1: GET content note0 notes: no connection #1": 1,
            "b1: GET note0 notes: fails #4": 6,
        },
    ),
    "an edit between comparison and revision was lost, as the write had no answer": (
        "trilium over http, apart",
        {
            "act 1 of a #1": 3,
            "act 1 of b #1": 2,
            "a1: POST revision note0 notes: no connection #1": 1,
            "kill: a1 has the answer: PUT content note0 notes #1": 1,
        },
    ),
    "a write that got no connection was sent again over an edit": (
        "trilium over http, apart",
        {
            "act 1 of a #1": 3,
            "act 1 of b #1": 4,
            "note of a #1": 1,
            "note of b #1": 1,
            "b1: PUT content note1 notes: no connection #1": 1,
        },
    ),
    "a tag that another device had renamed came back with a tag, which had no answer": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 5,
            "act 1 of a #1": 9,
            "act 1 of b #1": 2,
            "note of a #1": 1,
            "act 2 of b #1": 8,
            "b1: POST note1 at 1: no connection #1": 1,
            "act 2 of a #1": 13,
            "b1: GET note1 at 2: fails #1": 3,
            "kill: b1 has committed #6": 2,
        },
    ),
    "a write never ended whose note was made again, with numbers that begin at 1": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 1,
            "act 1 of b #1": 2,
            "kill: b1 sends: POST note0 at 2 #1": 2,
            "another device acts while n is dark #1": 12,
        },
    ),
    "an undo found nothing to take back, as two servers had kept what the save had replaced": (
        "trilium over http, parts",
        {
            "act 2 of another device #1": 4,
            "act 2 of another device comes after #1": 23,
            "act 3 of another device #1": 2,
            "act 1 of a #1": 10,
            "act 1 of b #1": 19,
            "a takes note #1": 1,
            "act 3 of a #1": 3,
        },
    ),
    "a removal that a proxy's page answered counted as done": (
        "trilium over http",
        {"act 2 of a #1": 7, "a1: DELETE note0 notes: fails #1": 6},
    ),
    "a label stayed beside the one that replaces it, as a proxy's page answered its removal": (
        "trilium over http, parts",
        {
            "act 2 of a #1": 13,
            "kill: a1 committed #2": 2,
            "act 3 of a #1": 20,
            "a2: DELETE a label: fails #1": 6,
            "a server ends for good #1": 1,
        },
    ),
    "a tag of a save was lost, as its repair met a list that was made without it": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 8,
            "act 1 of a #1": 8,
            "act 1 of b #1": 13,
            "act 1 of b is not awaited #1": 1,
            "act 2 of b #1": 8,
            "act 3 of b #1": 8,
            "act 2 of a #1": 8,
        },
    ),
    "a tag that was renamed came back beside two saves of others": (
        "simplenote over http, apart",
        {
            "act 2 of a #1": 8,
            "act 2 of a is not awaited #1": 1,
            "act 3 of a #1": 8,
            "act 1 of b #1": 13,
            "act 1 of b is not awaited #1": 1,
            "act 2 of b #1": 8,
            "a1: GET note0: is answered: turns #1": 7,
        },
    ),
    "a note that was made anew under its number stayed the old one, as listings had told the news": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 7,
            "act 2 of another device #1": 14,
            "act 1 of a #1": 4,
            "a1: the changes of notes: fails #2": 6,
            "act 2 of a #1": 3,
            "note of a #2": 1,
            "a1: POST note1 at 1: fails #1": 10,
            "a1: POST note1 at 1: no connection #2": 1,
            "a1: the changes of notes: fails #3": 5,
            "a1: log in: no connection #1": 1,
        },
    ),
    "a tag of another save was lost, as a proxy's page answered the save that had gone over it": (
        "simplenote over http, apart",
        {
            "act 1 of another device #1": 1,
            "act 2 of another device #1": 2,
            "act 1 of a #1": 8,
            "act 1 of b #1": 8,
            "note of another device #1": 1,
            "a1: POST note0 at 2: no connection #1": 1,
            "a1: POST note0 at 2: fails #1": 11,
        },
    ),
    "a note counted as gone after an answer from before it was made": (
        "trilium over http",
        {
            "act 1 of a #1": 2,
            "act 1 of b #1": 1,
            "act 2 of b #1": 7,
            "b1: GET 45224f44fe9bac174b59f24b7d0cea34 notes: fails #3": 8,
        },
    ),
    "a note made again counts as the one before, as the second of two answers is older": (
        "simplenote over http",
        {
            "act 3 of another device #1": 6,
            "act 1 of a #1": 13,
            "act 3 of b #1": 13,
            "a1: GET note0: fails #1": 4,
            "b1: POST note1 at 2: fails #1": 2,
            "a1: GET note0: no connection #2": 1,
            "b1: POST note1 at 2: fails #2": 7,
            "a1: GET note0: no connection #3": 1,
            "kill: a1 has committed, and another one has read that #1": 1,
            "a starts again: late #1": 3,
            "kill: b2 has committed, and another one has read that #1": 1,
            "another device acts while m is dark #2": 6,
            "b3: GET note1: fails #2": 2,
            "b3: GET note1: fails #3": 2,
            "b3: GET note1: fails #4": 8,
        },
    ),
    "a note that was deleted came back, as an older answer said so after the feed": (
        "simplenote over http",
        {
            "act 1 of another device #1": 8,
            "act 2 of another device #1": 4,
            "act 2 of a #1": 11,
            "act 1 of b #1": 7,
            "act 2 of b #1": 7,
            "b1: DELETE note0 at 4: is answered: turns #1": 3,
            "a1: GET note0: fails #1": 8,
        },
    ),
}
"""What was wrong, the world, and the shortest schedule that showed it."""
HTTP_WORLDS = [name for name in WORLDS if "over http" in name]
QUICK = ("a note is not compared before a write", "the feed's removals are passed over")
MOST = 5_000
"""Schedules in which a break has to be found."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name: str) -> None:
    world, schedule = FOUND[name]
    outcome = replayed(world, schedule)
    assert outcome.fault == ""
    assert outcome.schedule.keys() == schedule.keys()  # every choice of it comes up still


@pytest.mark.parametrize("world", HTTP_WORLDS)
def test_a_seed_gives_the_same_run_to_the_byte(world: str) -> None:
    for number in range(3):
        first, second = seeded(world, "same", number), seeded(world, "same", number)
        assert first.story == second.story
        assert first.digest == second.digest


@pytest.mark.parametrize("world", HTTP_WORLDS)
def test_without_a_choice_nothing_goes_wrong(world: str) -> None:
    calm = play(world, Chooser(schedule={}), rests=True)
    assert (calm.fault, calm.schedule) == ("", {})


@pytest.mark.parametrize("name", BREAKS if LONG else QUICK)
def test_what_is_broken_on_purpose_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BREAKS[name]
    broken.make(monkeypatch.setattr)
    outcomes = (seeded(broken.world, "break", number) for number in range(MOST))
    found = next((one for one in outcomes if one.fault), None)
    assert found is not None
    assert any(word in found.fault for word in broken.words), found.fault
