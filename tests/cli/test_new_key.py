"""Test that a generated key is shown only when it is proven and not yet active."""

import pytest

from mcp_notarium.account import user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli.new_key import NewKey
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import NotariumError
from support.account import made
from support.cheap_costs import CHEAPEST
from support.keyfiles import REWRAP


def rotated(config, new, at):
    with new.in_change():
        options = ChangeOptions(at=at)
        user_key_rotation.rotate_passphrase(
            config, new=new.secret, parameters=CHEAPEST, options=options
        )


def test_it_is_shown_between_the_proof_and_the_switch(tmp_path, capfd):
    new, shown = NewKey(user_key.generate(), generated=True), {}

    def at(step):
        new.at(step)
        shown[step] = capfd.readouterr().out

    rotated(made(tmp_path), new, at)
    assert list(shown) == [row.step for row in REWRAP]
    assert {step: out for step, out in shown.items() if out} == {
        "verify": new.secret.reveal_text() + "\n"
    }


@pytest.mark.parametrize("row", REWRAP, ids=lambda row: row.step)
def test_after_a_failure_it_is_said_whether_it_counts(tmp_path, capfd, row):
    new = NewKey(user_key.generate(), generated=True)

    class Stopped(BaseException):
        pass

    def at(step):
        new.at(step)
        if step == row.step:
            raise Stopped

    with pytest.raises(Stopped):
        rotated(made(tmp_path), new, at)
    out, err = capfd.readouterr()
    shown = row.step == "verify" or row.opens == "new"
    assert out == (new.secret.reveal_text() + "\n" if shown else "")
    assert ("active anyway" in err) is (row.opens == "new")
    assert ("is not valid" in err) is (row.step == "verify")


def test_a_key_that_was_typed_is_never_shown(tmp_path, capfd):
    new = NewKey(user_key.generate())
    rotated(made(tmp_path), new, new.at)
    assert capfd.readouterr() == ("", "")


def test_where_it_cannot_be_shown_nothing_is_changed(tmp_path, monkeypatch):
    new, config = NewKey(user_key.generate(), generated=True), made(tmp_path)
    before = (config.account_dir / "notarium_keys.json").read_bytes()

    def full(_descriptor, _content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(NotariumError):
        rotated(config, new, new.at)
    assert (config.account_dir / "notarium_keys.json").read_bytes() == before
