"""Test that no call under a profile distinguishes what it hides from what does not exist.

The account of the profile has one index, with every note. Its answers are those of an account that lacks the hidden notes and has
no profile, byte for byte, while other devices hide notes, show them again, rename them and race with the agent's writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mcp_notarium.domain.policy import EVERYTHING, Policy, Visibility
from property.test_policy_differential import POLICIES, story, story_of_failures, story_of_renames
from support.memory_client import LIKE_SIMPERIUM, LIKE_VAULT
from support.policy_twins import Twins
from support.sync_rig import quick_folder

BASES = {"no rules": EVERYTHING, "rules of the base": Visibility(hidden_tags=("other",))}


def tell(
    base: Visibility,
    rules: Visibility,
    telling: Callable[[Twins], Awaitable[None]],
    *,
    seed: int,
    named: bool = False,
) -> int:
    narrowed = base.narrowed(rules)
    with quick_folder() as folder:
        twins = Twins(
            folder,
            Policy(visibility=narrowed, profile="guest"),
            seed=seed,
            traits=LIKE_VAULT if named else LIKE_SIMPERIUM,
            without=Policy(visibility=rules if base is EVERYTHING else narrowed),
        )
        asyncio.run(telling(twins))
        twins.close()
        return len(twins.calls)


@pytest.mark.attack(38)
@pytest.mark.parametrize("name", ["hidden tag", "allowed ids and tags", "hidden paths"])
def test_every_answer_under_a_profile_is_that_of_an_account_without_the_hidden_notes(name):
    def telling(twins: Twins) -> Awaitable[None]:
        return story(twins, rounds=15, calls=5, edits=2)

    assert tell(EVERYTHING, POLICIES[name], telling, seed=0) > 75


@pytest.mark.attack(38)
@pytest.mark.parametrize("name", ["hidden tag", "hidden ids"])
def test_no_rename_and_no_failure_shows_what_a_profile_hides(name):
    base, rules = BASES["rules of the base"], POLICIES[name]
    tell(base, rules, lambda twins: story_of_renames(twins, rounds=12), seed=4, named=True)
    tell(base, rules, lambda twins: story_of_failures(twins, rounds=8), seed=5)
