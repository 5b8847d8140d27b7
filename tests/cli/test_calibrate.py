"""``keys calibrate`` beside what is in force: a cheaper proposal is called one."""

import argparse
from dataclasses import replace

import pytest

from mcp_notarium.cli import calibrate
from mcp_notarium.crypto import kdf
from mcp_notarium.keys import rotate, slots
from mcp_notarium.keys.changing import Given
from mcp_notarium.secret import Secret
from support.account import PASSPHRASE, made

DEAR = kdf.Argon2id(memory_kib=128 * 1024, time_cost=4, lanes=4)


def stretched(tmp_path, parameters):
    config = made(tmp_path)
    bounds = replace(
        kdf.PRODUCTION,
        argon2_floor=kdf.TEST_BOUNDS.argon2_floor,
        pbkdf2_floor=kdf.TEST_BOUNDS.pbkdf2_floor,
    )
    given = Given(bounds=bounds)
    rotate.rotate_passphrase(config, new=Secret(PASSPHRASE), parameters=parameters, given=given)
    return config


@pytest.mark.parametrize(
    ("now", "said", "less"),
    [
        (DEAR, "Today it is Argon2id with 128 MiB, 4 passes and 4 lanes", True),
        (kdf.Pbkdf2Sha512(310_000), "Today it is PBKDF2 with 310,000 rounds", False),
    ],
)
def test_a_cheaper_proposal_is_called_one(now, said, less, tmp_path, capsys):
    config = stretched(tmp_path, now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "ask_yes", lambda _question: False)
        assert calibrate.run(config, None, argparse.Namespace(seconds=0.01, yes=False)) == 1
    told = capsys.readouterr().err
    assert said in told
    assert ("LESS than today" in told) is less
    assert slots.listing(config, None).keyfile.slots[0].kdf == now
