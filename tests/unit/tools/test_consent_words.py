"""Who may agree to what cannot be taken back."""

import pytest

from mcp_notarium.errors import ConfirmationRequired
from mcp_notarium.tools.consent import ConsentMode, consent_error, consent_mode, require_consent


@pytest.mark.parametrize(
    ("setting", "can_elicit", "mode"),
    [
        ("ask", True, ConsentMode.ASK),
        ("ask", False, ConsentMode.ARGUMENT),
        ("elicit", True, ConsentMode.ASK),
        ("elicit", False, ConsentMode.REFUSE),
        ("deny", True, ConsentMode.REFUSE),
        ("deny", False, ConsentMode.REFUSE),
    ],
)
def test_consent_mode_follows_setting_and_client(setting, can_elicit, mode):
    assert consent_mode(setting, can_elicit=can_elicit) is mode


def test_refusal_names_the_argument_only_where_it_helps():
    assert "confirm: true" in (consent_error("ask", "Delete?").resolution_hint or "")
    for setting in ("elicit", "deny"):
        hint = consent_error(setting, "Delete?").resolution_hint or ""
        assert setting in hint
        assert "confirm: true" not in hint


@pytest.mark.anyio
async def test_declined_action_is_refused():
    class No:
        async def confirm(self, message):
            return False

    with pytest.raises(ConfirmationRequired) as caught:
        await require_consent(No(), "Delete?")
    assert caught.value.subcategory == "declined"
