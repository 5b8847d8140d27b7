"""Test the findings of ``doctor`` on the age of keys."""

import pytest

from mcp_notarium.cli import doctor_checks
from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.secret import Secret
from support.account import BOUNDS, OWNER, PASSPHRASE

MADE = 1_700_000_000
DAY = 86_400


@pytest.mark.parametrize(("days", "state"), [(0, "ok"), (364, "ok"), (365, "warn"), (4000, "warn")])
def test_an_old_key_is_worth_a_reminder(days, state):
    found = key_slots.build(
        data_key=DataKey.generate(),
        passphrase=Secret(PASSPHRASE),
        parameters=kdf.CHEAPEST,
        owner_hash=OWNER,
        now=MADE,
        bounds=BOUNDS,
    )
    seen = doctor_checks.check_slots(found, now=MADE + days * DAY + 1.5)
    assert seen.state == state
    assert f"last changed {days} days ago" in seen.seen
    assert ("mcp-notarium rotate-key" in seen.hint) is (state == "warn")
