"""Test ``keys calibrate``: only a higher cost is applied without a question."""

import argparse
from dataclasses import replace

import pytest

from mcp_notarium.account import slot_management, slot_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli import calibrate
from mcp_notarium.crypto import kdf, slot_changes
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.secret import Secret
from support import cheap_stretching
from support.account import PASSPHRASE, made

DEAR = kdf.Argon2id(memory_kib=128 * 1024, time_cost=4, lanes=4)


@pytest.fixture(autouse=True)
def _cheap(monkeypatch):
    cheap_stretching.install(monkeypatch.setattr)


def stretched(tmp_path, parameters):
    config = made(tmp_path)
    bounds = replace(
        kdf.PRODUCTION,
        argon2_floor=kdf.TEST_BOUNDS.argon2_floor,
        pbkdf2_floor=kdf.TEST_BOUNDS.pbkdf2_floor,
    )
    options = ChangeOptions(bounds=bounds)
    slot_rotation.rotate_passphrase(
        config, new=Secret(PASSPHRASE), parameters=parameters, options=options
    )
    return config


def calibrated(config, *, seconds=0.01, yes=False, answer=False, found=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "ask_yes", lambda _question: answer)
        if found is not None:
            patch.setattr(
                calibrate.kdf,
                "propose",
                lambda _measure, **_limits: calibrate.kdf.Proposal(found, 0.1),
            )
        return calibrate.run(config, None, argparse.Namespace(seconds=seconds, yes=yes))


def read_key_file(config):
    return slot_management.list_slots(config, None).keyfile


@pytest.mark.parametrize("yes", [True, False])
def test_a_cheaper_proposal_is_called_one_and_never_applied_unasked(yes, tmp_path, capsys):
    config = stretched(tmp_path, DEAR)
    before = read_key_file(config)
    assert calibrated(config, yes=yes, found=kdf.Argon2id()) == (0 if yes else 1)
    stderr = capsys.readouterr().err
    assert "Today it is Argon2id 128 MiB, 4 passes, 4 lanes" in stderr
    assert "LESS than today" in stderr
    assert "Nothing is changed" in stderr
    assert read_key_file(config) == before


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(DEAR), "the same"),
        (replace(DEAR, memory_kib=64 * 1024, time_cost=10), "LESS"),
    ],
)
def test_what_is_not_dearer_changes_nothing(found, said, tmp_path, capsys):
    config = stretched(tmp_path, DEAR)
    before = read_key_file(config)
    assert calibrated(config, yes=True, found=found) == 0
    assert said in capsys.readouterr().err
    assert read_key_file(config) == before


def test_pbkdf2_stays_unless_it_is_asked_for(tmp_path):
    config = stretched(tmp_path, kdf.Pbkdf2Sha512(310_000))
    before = read_key_file(config)
    with pytest.raises(InvalidRequest) as error:
        calibrated(config, yes=True)
    assert "PBKDF2-SHA512, 310,000 rounds" in error.value.message
    assert "rotate-key --kdf argon2id --keep-key" in (error.value.resolution_hint or "")
    assert read_key_file(config) == before


def test_a_dearer_one_is_applied_and_the_age_of_the_key_stays(tmp_path):
    config = stretched(tmp_path, kdf.Argon2id())
    before, found = read_key_file(config), replace(kdf.Argon2id(), time_cost=4)
    assert calibrated(config, yes=True, found=found) == 0
    after = read_key_file(config)
    assert (after.slots[0].kdf, after.sequence) == (found, before.sequence + 1)
    assert after.rotated == before.rotated


def test_the_other_slots_that_open_are_made_room_for(tmp_path, monkeypatch):
    config = stretched(tmp_path, kdf.Argon2id())
    for number in (2, 3):
        slot_management.add(config, Secret(f"another passphrase, number {number}"))
    slot_management.change_slot(config, 4, slot_changes.disable)
    seen = []

    def proposing(_measure, **limits):
        seen.append(limits["beside"])
        return calibrate.kdf.Proposal(kdf.Argon2id(), 0.1)

    monkeypatch.setattr(calibrate.kdf, "propose", proposing)
    assert calibrated(config) == 0
    assert seen == [[kdf.Argon2id()]]
