"""Test what is remembered of the files of a vault."""

import pytest

from mcp_notarium.stores.vault.file_table import is_settled
from mcp_notarium.stores.vault.listing import Known, KnownFiles

SECOND = 10**9
PLACE = ("Note.md", False)


@pytest.mark.parametrize(
    ("newest", "settled"),
    [
        (100 * SECOND + 7, False),
        (99 * SECOND + 7, True),
        (101 * SECOND + 7, True),
        (99 * SECOND, False),
        (97 * SECOND, True),
    ],
)
def test_a_date_is_trusted_once_another_change_would_get_another_one(monkeypatch, newest, settled):
    """Where dates are whole seconds that takes longer."""
    monkeypatch.setattr("mcp_notarium.stores.vault.file_table.time.time", lambda: 100.0)
    assert is_settled(newest) is settled


def test_another_inode_size_or_date_is_another_state():
    files, state = KnownFiles(), (1, 2, 3, 4)
    files.remember(PLACE, Known(state, "digest", None))
    assert files.find(PLACE, state) is not None
    for number in range(4):
        other = tuple(one + (place == number) for place, one in enumerate(state))
        assert files.find(PLACE, other) is None
    assert files.find(("Note.md", True), state) is None


def test_what_is_known_comes_back_from_its_text():
    files, again = KnownFiles(), KnownFiles()
    files.remember(PLACE, Known((1, 2, 3, 4), "digest", "identity"))
    files.remember(("\u65e5\u672c.md", True), Known((2**64 - 1, 2, 3, 4), "", None))
    assert files.unsaved == 2
    again.load(files.to_text())
    assert files.unsaved == again.unsaved == 0
    assert again.find(PLACE, (1, 2, 3, 4)) == Known((1, 2, 3, 4), "digest", "identity")
    assert again.keep_only({PLACE}) == {
        ("\u65e5\u672c.md", True): Known((2**64 - 1, 2, 3, 4), "", None)
    }
    assert again.unsaved == 1


@pytest.mark.parametrize("text", ["", "no base64", "eA==", "eJwDAAAAAAE="])
def test_another_form_of_text_is_nothing_known(text):
    files = KnownFiles()
    files.load(text)
    assert files.digests() == []
