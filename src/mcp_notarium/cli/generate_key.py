"""``mcp-notarium generate-key``: a random key, for a password manager or a file of mode 0600."""

from __future__ import annotations

import argparse
import sys

from mcp_notarium.cli import settings
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import userkey
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys import hardening, keychain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the key goes."""
    parser.add_argument(
        "--keychain",
        action="store_true",
        help="keep it in the system's keychain for SIMPLENOTE_USERNAME instead of printing it",
    )
    parser.epilog = (
        "The key goes to stdout, everything else to stderr: "
        "(umask 077; mcp-notarium generate-key > notarium.key), then "
        "DB_ENCRYPTION_KEY_FILE=/path/to/notarium.key"
    )


def run(args: argparse.Namespace) -> int:
    """Print one key, or keep it in the keychain if none is there yet."""
    if args.keychain:
        return _keep(settings.prepare(args))
    hardening.harden_process()
    sys.stdout.write(userkey.generate().reveal_text() + "\n")
    sys.stdout.flush()
    talk(
        "Set this as DB_ENCRYPTION_KEY and keep a copy in a safe place: "
        "without it the cache cannot be opened (your notes stay at the note service)."
    )
    return 0


def _keep(config: Config) -> int:
    """Never over a key that is there: it may be the only one that opens a cache."""
    system = keychain.system_keychain()
    if system.get(keychain.KEY, config.owner_hash) is not None:
        raise InvalidRequest(
            "the keychain already has a key for this account; nothing was changed",
            resolution_hint="To replace it, run `mcp-notarium rotate-key --keychain`.",
        )
    system.set(keychain.KEY, config.owner_hash, userkey.generate())
    talk(
        "The key is in the system's keychain; leave DB_ENCRYPTION_KEY unset. If the keychain is "
        "lost, so is the cache (your notes stay at the note service)."
    )
    return 0
