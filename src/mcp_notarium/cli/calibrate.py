"""Run ``keys calibrate``: measure this machine and raise the cost of the KDF."""

from __future__ import annotations

import argparse
import math
import os
import time

from mcp_notarium.account import slot_management, slot_rotation
from mcp_notarium.account.key_changes import ChangeOptions, without_key_error
from mcp_notarium.cli.terminal import ask_yes, talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.errors import WrongKey
from mcp_notarium.crypto.key_file_codec import kdf_work
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys.credentials import find_passphrase
from mcp_notarium.secret import Secret

_SECONDS = 1.0
_SHORTEST, _LONGEST = 0.01, 30.0
_ROUNDS = 3
_SHARE_OF_MEMORY = 8
_SOME_MEMORY_KIB = 256 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the time a start may take, and whether to ask."""
    parser.add_argument(
        "--seconds",
        type=_parse_seconds,
        default=_SECONDS,
        help="how long the key derivation may take at each start, "
        f"{_SHORTEST:g} to {_LONGEST:g} (default: %(default)s)",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="apply the result without asking, unless it is less than today",
    )


def run(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    """Measure this machine, propose a cost and apply it on yes.

    The exit code is 0 also if --yes finds nothing more expensive. Raises ``InvalidRequest`` if the key is
    random, or derived by PBKDF2.
    """
    if not config.db_encryption:
        raise without_key_error()
    found = find_key(config, asked)
    if found is None or user_key.read(found).kind != "passphrase":
        raise InvalidRequest(
            "only a passphrase has a key derivation to calibrate; a random key needs none",
            resolution_hint="Nothing needs to be done. To calibrate another slot's passphrase, use --ask-key.",
        )
    current, beside = _find_current(config, found)
    if isinstance(current, kdf.Pbkdf2Sha512):
        raise InvalidRequest(
            f"the key derivation of the passphrase is {describe_cost(current)}, and only the cost of Argon2id "
            "is measured; nothing was changed",
            resolution_hint="`mcp-notarium rotate-key --kdf argon2id --keep-key` changes that; or set "
            "DB_ENCRYPTION_KDF_ITERATIONS and run `mcp-notarium rotate-key --kdf pbkdf2-sha512 "
            "--keep-key` for more rounds.",
        )
    limit = _memory_limit()
    talk(
        f"Measuring, with up to {_format_memory(limit)} of memory and about {args.seconds:g} s a time ..."
    )
    best = kdf.propose(measure_seconds, target=args.seconds, most_memory_kib=limit, beside=beside)
    chosen = best.parameters
    talk(
        f"{describe_cost(chosen)} takes {best.seconds:.2f} s here. Today it is {describe_cost(current)}."
    )
    if chosen == current:
        talk("That is the same. Nothing is changed.")
        return 0
    if _is_cheaper(chosen, current):
        talk("note: that is LESS than today: guessing the passphrase would become cheaper.")
        if args.yes:
            talk("Nothing is changed. (Without --yes the command asks.)")
            return 0
    if not (args.yes or ask_yes("Use this from now on?")):
        talk("Nothing is changed.")
        return 1
    done = slot_rotation.rotate_passphrase(
        config, new=found, parameters=chosen, allow_weak=True, options=ChangeOptions(old=asked)
    )
    talk(f"Done; the passphrase is the same (key file number {done.sequence}).")
    return 0


def find_key(config: Config, asked: Secret | None) -> Secret | None:
    """Return the key that was asked for, else the configured one; a cache without encryption has none."""
    found = find_passphrase(config) if asked is None and config.db_encryption else None
    return found.passphrase if found else asked


def _find_current(
    config: Config, key: Secret
) -> tuple[kdf.Argon2id | kdf.Pbkdf2Sha512, list[kdf.Parameters]]:
    """Return the passphrase's key derivation today, and the others beside it.

    Raises ``WrongKey`` if it opens nothing.
    """
    listed = slot_management.list_slots(config, key)
    for slot in listed.keyfile.slots:
        if slot.id == listed.opened_by and not isinstance(slot.kdf, kdf.HkdfSha256):
            return slot.kdf, kdf_work(one for one in listed.keyfile.slots if one != slot)
    raise WrongKey


def describe_cost(parameters: kdf.Parameters) -> str:
    """Describe the key derivation in a few words."""
    match parameters:
        case kdf.Argon2id(memory_kib, time_cost, lanes):
            return f"Argon2id {memory_kib // 1024} MiB, {time_cost} passes, {lanes} lanes"
        case kdf.Pbkdf2Sha512(iterations):
            return f"PBKDF2-SHA512, {iterations:,} rounds"
        case kdf.HkdfSha256():
            return "none needed (random key)"


def _is_cheaper(one: kdf.Argon2id, other: kdf.Argon2id) -> bool:
    """Return whether guessing needs less memory, or fills less of it in total."""
    return one.memory_kib < other.memory_kib or one.work < other.work


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not _SHORTEST <= seconds <= _LONGEST:  # nan is not, either
        raise argparse.ArgumentTypeError(
            f"give a number of seconds from {_SHORTEST:g} to {_LONGEST:g}; clients do not wait longer "
            "for a server to start"
        )
    return seconds


def measure_seconds(parameters: kdf.Argon2id) -> float:
    """Return the median of a few derivations, in seconds."""
    taken = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        kdf.derive(Secret("calibration only"), salt=bytes(kdf.SALT_SIZE), parameters=parameters)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[_ROUNDS // 2]


def _memory_limit() -> int:
    """Return the limit in KiB: an eighth of the machine's memory; smaller machines open the database too.

    It is a power of two, as the steps tried are, and within what a key file may demand.
    """
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _SOME_MEMORY_KIB
    affordable = 1 << (total // _SHARE_OF_MEMORY // 1024).bit_length() - 1
    floor, ceiling = kdf.PRODUCTION.argon2_floor, kdf.PRODUCTION.argon2_ceiling
    return max(floor.memory_kib, min(affordable, ceiling.memory_kib))


def _format_memory(kib: int) -> str:
    return f"{kib >> 20} GiB" if kib >= 1 << 20 else f"{kib >> 10} MiB"
