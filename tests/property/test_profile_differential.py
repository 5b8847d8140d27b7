"""Test that no call under a profile distinguishes what it hides from what does not exist.

The account of the profile has one index, with every note. Its answers are those of an account that lacks the hidden notes and has
no profile, byte for byte, while somebody else works on what is hidden.
"""

from __future__ import annotations

import asyncio

import pytest

from mcp_notarium.domain.policy import EVERYTHING, Policy, Visibility
from property.test_policy_differential import POLICIES, story, story_of_failures, story_of_renames
from support.memory_client import LIKE_SIMPERIUM, LIKE_VAULT
from support.policy_twins import Twins
from support.sync_rig import quick_folder


def run(rules, telling, *, seed, traits=LIKE_SIMPERIUM):
    profile = Policy(visibility=EVERYTHING.narrowed(rules), profile="guest")
    with quick_folder() as folder:
        twins = Twins(folder, profile, seed=seed, traits=traits, without=Policy(visibility=rules))
        asyncio.run(telling(twins))
        twins.close()


@pytest.mark.parametrize("rules", POLICIES.values(), ids=POLICIES)
def test_a(rules):
    run(rules, lambda twins: story(twins, rounds=40, calls=5, edits=2), seed=1)


@pytest.mark.parametrize("rules", POLICIES.values(), ids=POLICIES)
def test_b(rules):
    run(rules, lambda twins: story_of_renames(twins, rounds=30), seed=4, traits=LIKE_VAULT)

@pytest.mark.parametrize("rules", POLICIES.values(), ids=POLICIES)
def test_c(rules):
    run(rules, lambda twins: story_of_failures(twins, rounds=15), seed=5)
