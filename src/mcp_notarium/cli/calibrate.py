"""``mcp-notarium keys calibrate``: measures this machine and makes guessing as dear as is bearable."""

from __future__ import annotations

import argparse
import os
import time

from mcp_notarium.cli.terminal import ask_yes, talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import calibration, kdf, userkey
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys import rotate
from mcp_notarium.keys.changing import Given
from mcp_notarium.keys.unlock import find_passphrase
from mcp_notarium.secret import Secret

_SECONDS = 1.0
_ROUNDS = 3
_SHARE_OF_MEMORY = 8
_SOME_MEMORY_KIB = 256 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long a start may take, and whether to ask."""
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        help="how long stretching the passphrase may take at each start (default: %(default)s)",
    )
    parser.add_argument("--yes", action="store_true", help="apply what is found without asking")


def run(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    """Measure, propose, and apply on yes."""
    found = asked or getattr(find_passphrase(config, config.owner_hash), "passphrase", None)
    if found is None or userkey.read(found).kind != "passphrase":
        raise InvalidRequest(
            "only a passphrase is stretched; a random key needs none",
            resolution_hint="Nothing is to be done. With --ask-key another slot's passphrase can "
            "be given.",
        )
    limit = _memory_limit()
    talk(f"Measuring; at most {limit // 1024} MiB and {args.seconds:g} s ...")
    best = calibration.propose(seconds_of, target=args.seconds, most_memory_kib=limit)
    chosen = best.parameters
    talk(
        f"Argon2id with {chosen.memory_kib // 1024} MiB, {chosen.time_cost} passes and "
        f"{chosen.lanes} lanes takes {best.seconds:.2f} s here."
    )
    if not (args.yes or ask_yes("Stretch the passphrase so from now on?")):
        talk("Nothing is changed.")
        return 1
    done = rotate.rotate_passphrase(
        config, new=found, parameters=chosen, allow_weak=True, given=Given(old=asked)
    )
    talk(f"Done; the passphrase is the same (key file number {done.sequence}).")
    return 0


def seconds_of(parameters: kdf.Argon2id) -> float:
    """The median of a few derivations, in seconds."""
    taken = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        kdf.derive(Secret("calibration only"), salt=bytes(kdf.SALT_SIZE), parameters=parameters)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[_ROUNDS // 2]


def _memory_limit() -> int:
    """KiB: an eighth of the machine's memory; the cache is opened on smaller machines too."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _SOME_MEMORY_KIB
    return total // _SHARE_OF_MEMORY // 1024
