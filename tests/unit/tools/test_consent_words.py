"""Who may agree to what cannot be taken back."""

import pytest

from mcp_notarium.errors import ConfirmationRequired
from mcp_notarium.tools.consent import (
    ConsentMode,
    approval_error,
    consent_error,
    consent_mode,
    require_consent,
)
from mcp_notarium.tools.question import Ask


@pytest.mark.parametrize(
    ("setting", "irreversible", "mode"),
    [
        ("ask", False, ConsentMode.ARGUMENT),
        ("ask", True, ConsentMode.APPROVAL),
        ("strict", False, ConsentMode.APPROVAL),
        ("strict", True, ConsentMode.APPROVAL),
        ("trust", False, ConsentMode.ARGUMENT),
        ("trust", True, ConsentMode.ARGUMENT),
        ("deny", False, ConsentMode.REFUSE),
        ("deny", True, ConsentMode.REFUSE),
    ],
)
def test_consent_mode_follows_setting_act_and_client(setting, irreversible, mode):
    assert consent_mode(setting, irreversible=irreversible, can_elicit=False) is mode
    dialogue = ConsentMode.REFUSE if setting == "deny" else ConsentMode.ASK
    assert consent_mode(setting, irreversible=irreversible, can_elicit=True) is dialogue


def test_refusal_names_the_argument_only_where_it_helps():
    assert "confirm: true" in (consent_error(ConsentMode.ARGUMENT, "Delete?").resolution_hint or "")
    denied = consent_error(ConsentMode.REFUSE, "Delete?")
    waits = approval_error(
        "Delete?", approval_id="0a1b2c3d", command="mcp-notarium approve 0a1b2c3d"
    )
    alone = consent_error(ConsentMode.REFUSE, "Delete?", has_app=False)
    assert "own app" in (denied.resolution_hint or "")
    assert "own app" not in (alone.resolution_hint or "")
    for error, said in (
        (denied, "deny"),
        (alone, "deny"),
        (waits, "`mcp-notarium approve 0a1b2c3d`"),
    ):
        assert said in (error.resolution_hint or "")
        assert "confirm: true" not in (error.resolution_hint or "")


@pytest.mark.anyio
async def test_declined_action_is_refused():
    class No:
        async def confirm(self, question):
            return False

    with pytest.raises(ConfirmationRequired) as caught:
        await require_consent(No(), [Ask("Delete?")])
    assert caught.value.subcategory == "declined"
