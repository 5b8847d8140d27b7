"""Run ``mcp-notarium purge``: destroy the local database permanently; the notes stay at the store."""

from __future__ import annotations

import argparse

from mcp_notarium.account import purge
from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import ask_line, talk
from mcp_notarium.config import Config
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys.keychain import system_keychain

NOT_OVERWRITTEN = (
    "Nothing was overwritten: on the disk, in snapshots and in backups old bytes can survive. A key "
    "file found there still opens the database with its key, and an unencrypted cache can be read. "
    "Only disk encryption and the end of those copies help against that."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add consent for scripts."""
    parser.add_argument(
        "--shred",
        action="store_true",
        help="the default: the keys are erased first, so that nothing can be read again",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Purge after asking; exit code 0 when nothing is left, 23 if the keychain could not be asked."""
    config = command_setup.prepare(args)
    if not args.yes:
        _demand_consent(config)
    done = purge.purge_account(config, system_keychain() if config.keychain else None)
    talk(
        f"{done.files} files were removed"
        + (", and the keychain's entries." if done.keychain_cleared else ".")
    )
    talk(f"Copies of the key file elsewhere still open copies of the database. {NOT_OVERWRITTEN}")
    if done.keychain_error is not None:
        raise done.keychain_error
    if done.keychain_hint:
        talk(f"note: no keychain runs in this session. {done.keychain_hint}")
    if not config.keychain:
        talk("note: NOTARIUM_KEYCHAIN=off, so the keychain was not asked; what is in it stays.")
    return 0


def _demand_consent(config: Config) -> None:
    talk(f"Everything in {config.account_dir} will be destroyed, the quarantine too.")
    talk("Your notes stay at the note store; the next start loads them again.")
    if purge.may_hold_unsent_text(config):
        talk("WARNING: there may be text inside that the note store has not confirmed.")
    if ask_line(f"Type the account's name ({config.username}) to go on: ") != config.username:
        raise InvalidRequest("nothing was destroyed", resolution_hint="The names differ.")
