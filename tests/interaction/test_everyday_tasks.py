"""Do everyday tasks in every store that has them, and count what they cost.

Tokens are estimated from the bytes of requests and answers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.everyday_tasks import EVERY, run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow("fifteen tasks and more in one test for each store"),
]
MOST, MOST_OF_ALL = 12_000, 40_000
"""Tokens of one task, and of all in one store."""
BYTES_PER_TOKEN = 3.5
"""Fewer than English prose and JSON have, so that no count is too low."""


@pytest.mark.parametrize("store", EVERY)
async def test_everyday_tasks_are_done_within_their_tokens(store: str, tmp_path: Path) -> None:
    costs = {
        name: round(len("".join(agent.asked + agent.answered).encode()) / BYTES_PER_TOKEN)
        for name, agent in (await run(store, tmp_path)).items()
    }
    assert max(costs.values()) < MOST, costs
    assert sum(costs.values()) < MOST_OF_ALL, costs
