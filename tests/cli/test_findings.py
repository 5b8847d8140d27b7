"""Test the findings of ``doctor`` on the age of keys, and on copies."""

import pytest

from mcp_notarium import config
from mcp_notarium.cli import doctor_checks
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.secret import Secret
from support.account import OWNER, PASSPHRASE
from support.cheap_costs import CHEAPEST

MADE = 1_700_000_000
DAY = 86_400


@pytest.mark.parametrize(("days", "state"), [(0, "ok"), (364, "ok"), (365, "warn"), (4000, "warn")])
def test_an_old_key_is_worth_a_reminder(days, state):
    found = key_slots.build(
        data_key=DataKey.generate(),
        passphrase=Secret(PASSPHRASE),
        parameters=CHEAPEST,
        owner_hash=OWNER,
        now=MADE,
    )
    seen = doctor_checks.check_slots(found, now=MADE + days * DAY + 1.5)
    assert seen.state == state
    assert f"last changed {days:,} days ago" in seen.seen
    assert ("mcp-notarium rotate-key" in seen.hint) is (state == "warn")


def test_a_new_notebook_has_no_copy_yet_and_nothing_to_worry_about(tmp_path):
    given = {"NOTARIUM_STORE": "local", "NOTARIUM_DATA_DIR": str(tmp_path)}
    settings = config.load(given | {"DB_ENCRYPTION_KEY": PASSPHRASE}, cwd=tmp_path).config
    settings.account_dir.mkdir(mode=0o700)
    (copies,) = (one for one in doctor_checks.check_folder(settings) if one.name == "copies")
    assert (copies.state, copies.seen[:8], copies.hint) == ("ok", "none yet", "")
