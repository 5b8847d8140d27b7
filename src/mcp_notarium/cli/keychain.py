"""``mcp-notarium keychain``: let the system's keychain open the cache, or no longer."""

from __future__ import annotations

import argparse

from mcp_notarium.account import keychain_slot
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import ask_secret, talk
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys.keychain import system_keychain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """On or off."""
    parser.add_argument("action", choices=("enable", "disable"), help="what to do")
    parser.add_argument(
        "--ask-key", action="store_true", help="ask for a key instead of taking the configured one"
    )


def run(args: argparse.Namespace) -> int:
    """Do it; exit code 0 when it is done and proven."""
    config = command_setup.prepare(args)
    if not config.keychain:
        raise InvalidRequest(
            "the keychain is switched off",
            resolution_hint="Remove NOTARIUM_KEYCHAIN=off from the configuration first.",
        )
    options = ChangeOptions(old=ask_secret("Key: ") if args.ask_key else None)
    if args.action == "enable":
        done = keychain_slot.enable(config, system_keychain(), options=options)
        talk(f"{done.backend} opens the cache from now on (slot {done.slot_id}).")
        talk("You may take DB_ENCRYPTION_KEY out of the clients' configurations. Keep it in a safe")
        talk("place all the same: if the keychain is ever lost, it is the way back in.")
        return 0
    changed = keychain_slot.disable(config, system_keychain(), options=options)
    talk("The keychain does not open the cache any more.")
    if changed is None:
        talk("note: its entry opened nothing; it is removed.")
    return 0
