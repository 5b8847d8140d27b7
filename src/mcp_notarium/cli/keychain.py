"""Run ``mcp-notarium keychain``: let the system's keychain open the account, or stop that."""

from __future__ import annotations

import argparse

from mcp_notarium.account import keychain_slot
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import ask_secret, talk
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys.keychain import system_keychain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and the source of the key."""
    parser.add_argument("action", choices=("enable", "disable"), help="what to do")
    parser.add_argument(
        "--ask-key", action="store_true", help="ask for a key instead of taking the configured one"
    )


def run(args: argparse.Namespace) -> int:
    """Enable or disable the keychain slot; exit code 0 when it is done and proven."""
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
        talk("You may remove DB_ENCRYPTION_KEY from the clients' configurations. Keep it in a safe")
        talk("place: if the keychain is ever lost, you need it to open the cache.")
        return 0
    changed = keychain_slot.disable(config, system_keychain(), options=options)
    talk("The keychain no longer opens the cache.")
    if changed is None:
        talk("note: its entry opened nothing and was removed.")
    return 0
