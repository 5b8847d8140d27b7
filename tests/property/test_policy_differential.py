"""Test that no call of a tool distinguishes a hidden note from one that does not exist.

Thousands of random calls at two accounts, one with the hidden notes and one without them, answer the
same bytes, also while other devices hide notes, show them again, and race with the agent's writes.
"""

from __future__ import annotations

import asyncio

import pytest

from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from support.long import sample
from support.memory_client import LIKE_VAULT
from support.policy_twins import FAILURES, IDS, NAMES, Twins
from support.sync_rig import quick_folder

POLICIES = {
    "hidden tag": Visibility(hidden_tags=("private",)),
    "allowed tags": Visibility(allowed_tags=("work", "home"), untagged=False),
    "both, untagged shown": Visibility(
        hidden_tags=("private",), allowed_tags=("work",), untagged=True
    ),
    "hidden ids": Visibility(hidden_ids=IDS[::3]),
    "allowed ids and tags": Visibility(allowed_ids=IDS[:4], allowed_tags=("work",), untagged=False),
    "untagged hidden": Visibility(untagged=False),
    "hidden paths": Visibility(hidden_paths=(*IDS[::4], *NAMES[:3])),
    "allowed paths and tags": Visibility(
        allowed_paths=(*IDS[:6], *NAMES[:2]), allowed_tags=("work",), untagged=False
    ),
}
SEEDS = sample("twins", range(3), 1)
ROUNDS = 40


async def story(twins: Twins, *, rounds: int, calls: int, edits: int) -> None:
    for note_id in IDS:
        twins.edit(note_id, text=twins.some_text(), tags=twins.some_tags(2))
    await twins.sync()
    for _ in range(rounds):
        for _ in range(calls):
            await twins.agent_acts()
        for _ in range(twins.dice.randint(0, edits)):
            twins.device_acts()
        if twins.dice.random() < 0.6:
            await twins.sync()
    await twins.sync()
    await twins.sync()
    for note_id in IDS:
        await twins.call("get", id=note_id)
        await twins.call("manage", action="history", id=note_id)
        for version in range(1, twins.versions.get(note_id, 1)):
            await twins.call("get", id=note_id, version=version)
    await twins.call("list", limit=100, trash_status=2)


@pytest.mark.attack(38)
@pytest.mark.parametrize("name", sample("policies: all answers", list(POLICIES), 4))
@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_that_of_an_account_without_the_hidden_notes(name, seed):
    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=POLICIES[name]), seed=seed)
        asyncio.run(story(twins, rounds=ROUNDS, calls=5, edits=2))
        assert len(twins.calls) > ROUNDS * 5
        twins.close()


@pytest.mark.attack(38)
@pytest.mark.parametrize("name", sample("policies of many", list(POLICIES), 4))
@pytest.mark.parametrize("seed", SEEDS)
def test_no_change_of_many_notes_and_no_undo_of_one_tells_of_hidden_notes(name, seed):
    rules = POLICIES[name]

    async def changes() -> None:
        for note_id in IDS:
            twins.edit(note_id, text=twins.some_text(), tags=twins.some_tags(2))
        await twins.sync()
        for _ in range(ROUNDS * 3):
            await twins.call("manage", **twins.some_change_of_many())
            twins.device_acts()
            await twins.sync()  # between two acts the other account would forget its history
        await twins.call("list", limit=100, trash_status=2)
        twins.in_step()

    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=rules), seed=seed)
        asyncio.run(changes())
        assert sum('"changed"' in call or "undone" in call for call in twins.answers) > ROUNDS
        twins.close()


async def story_of_renames(twins: Twins, *, rounds: int) -> None:
    """Rename notes between two looks of the servers; let agents call them by new and old names, and reset."""
    for note_id in IDS:
        twins.edit(note_id, text=twins.some_text(), tags=twins.some_tags(2))
    await twins.sync()
    for _ in range(rounds):
        await twins.agent_acts()
        twins.device_acts()
        await twins.sync()
        if twins.dice.random() < 0.1:
            await twins.call("manage", action="reset_cache", confirm=True)
        twins.rename()
        await twins.sync()
        twins.in_step()
        for note_id in twins.dice.sample((*IDS, *NAMES), 4):
            await twins.call("get", id=note_id)
        await twins.call("list", limit=100)


@pytest.mark.attack(38)
@pytest.mark.parametrize("name", sample("policies: renames", list(POLICIES), 4))
def test_no_rename_shows_a_hidden_note_or_that_there_is_one(name):
    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=POLICIES[name]), seed=4, traits=LIKE_VAULT)
        asyncio.run(story_of_renames(twins, rounds=30))
        twins.close()


async def story_of_failures(twins: Twins, *, rounds: int) -> None:
    """Let hidden notes fail and heal; some are unresolved on the one side, none ever on the other."""
    unresolved = 0
    for note_id in IDS:
        twins.edit(note_id, text=twins.some_text(), tags=twins.some_tags(2))
    await twins.sync()
    for _ in range(rounds):
        if twins.dice.random() < 0.8:
            twins.fail_a_hidden_note()
        else:
            twins.healed()
        twins.device_acts()
        await twins.sync()
        unresolved += len(twins.one.app.cache.progress.unresolved())
        assert not twins.other.app.cache.progress.unresolved()
        await twins.call("manage", action="get_stats")
        await twins.call("list", limit=100)
        await twins.agent_acts()
    assert unresolved


@pytest.mark.parametrize("name", sample("policies: failures", list(POLICIES), 4))
def test_a_hidden_note_that_the_service_cannot_give_shows_in_no_answer(name):
    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=POLICIES[name]), seed=5)
        asyncio.run(story_of_failures(twins, rounds=15))
        twins.close()


@pytest.mark.parametrize("failure", FAILURES)
def test_before_all_is_loaded_a_hidden_note_that_fails_is_answered_like_a_missing_one(failure):
    rules = Visibility(hidden_tags=("private",), hidden_ids=("note02",))

    async def asking(twins: Twins) -> None:
        twins.edit("note01", text="one", tags=["private"])
        twins.edit("note02", text="two", tags=["work"])
        for note_id in ("note01", "note02"):
            twins.one.failing[note_id] = failure
            await twins.call("get", id=note_id)
            await twins.call("save", id=note_id, local_version=1, trash=True)
            await twins.call("manage", action="trash", id=note_id, local_version=1)

    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=rules), seed=1)
        asyncio.run(asking(twins))
        twins.close()


def test_without_the_gate_the_difference_shows(monkeypatch):
    monkeypatch.setattr(VisibilityFilter, "filter_changes", lambda _self, batch: dict(batch))
    with quick_folder() as folder:
        twins = Twins(folder, Policy(visibility=POLICIES["hidden tag"]), seed=1)
        with pytest.raises(AssertionError):
            asyncio.run(story(twins, rounds=3, calls=5, edits=2))
        twins.close()
