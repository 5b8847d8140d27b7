"""Give a new account its key: a random one in the keychain or in a private file, or a passphrase.

The key is kept before the account is remembered, and both before a database is made with it: whatever
interrupts the command, no database has a key that nobody has.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import cast

from mcp_notarium.account.slot_rotation import require_strong
from mcp_notarium.cli import command_setup, console, questions
from mcp_notarium.cli.questions import Choice
from mcp_notarium.cli.terminal import ask_secret
from mcp_notarium.config import Config, accounts
from mcp_notarium.config.accounts import KEY_FILE, Account, KeyPlace
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import InvalidRequest, LockedError, NotariumError
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import create_private
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret

_TRIES = 3
_TITLES = {
    "keychain": "make one, and keep it in the system's keychain",
    "file": "make one, and keep it in a file that only you can read",
    "passphrase": "a passphrase of mine",
}


def place_key(account: Account, args: argparse.Namespace) -> Account:
    """Return the account with the place of its key chosen, and remember it; a key file is made first."""
    folder = accounts.config_dir(os.environ)
    known = accounts.read_accounts(folder)
    if account.name in known and args.key in {None, account.key}:
        return _with_file(account) if account.key == "file" else account
    place = "file" if KEY_FILE in account.variables else args.key or _choose_place(yes=args.yes)
    return _remember(account, cast("KeyPlace", place))


def _remember(account: Account, place: KeyPlace) -> Account:
    folder = accounts.config_dir(os.environ)
    variables = {name: text for name, text in account.variables.items() if name != KEY_FILE}
    if place == "file":
        chosen = account.variables.get(KEY_FILE) or str(folder / f"{account.name}.key")
        variables[KEY_FILE] = chosen
    account = _with_file(Account(account.name, place, variables))
    try:
        accounts.write_accounts(folder, accounts.read_accounts(folder) | {account.name: account})
    except OSError as error:
        raise _cannot_write(folder / accounts.FILE, error) from None
    return account


def _with_file(account: Account) -> Account:
    """Make the account's key file if it has one to be made; an existing one may open a database."""
    if account.key == "file":
        path = Path(account.variables[KEY_FILE])
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                create_private(path, user_key.generate().reveal() + b"\n")
        except OSError as error:
            raise _cannot_write(path, error) from None
    return account


def make_key(account: Account, args: argparse.Namespace) -> tuple[Config, Account]:
    """Return the configuration of the account, with its key where it belongs, and the account as it is then."""
    config = command_setup.load(args, asks=False).config
    if account.key == "keychain":
        try:
            _store_in_keychain(config, config.db_key or user_key.generate())
        except LockedError as error:
            if args.key:
                raise
            console.warn(f"{error.message}. The key is kept in a file instead.")
            account = _remember(account, "file")
            config = command_setup.load(args, asks=False).config
    elif account.key == "passphrase":
        config, account = _take_passphrase(config, account, args)
    return config, account


def describe(account: Account) -> str:
    """Return where the key is, for the user."""
    match account.key:
        case "keychain":
            return "The key is in the system's keychain."
        case "file":
            path = display_path(Path(account.variables[KEY_FILE]))
            return f"The key is in {path}. Keep a copy of it in your password manager."
        case "passphrase":
            return "The passphrase is stored nowhere."


def _choose_place(*, yes: bool) -> str:
    usable = keychain.system_keychain().usable
    default = "keychain" if usable else "file"
    if yes:
        return default
    places = [place for place in _TITLES if usable or place != "keychain"]
    shown = [Choice(place, _TITLES[place]) for place in places]
    return questions.choose(
        "Which key encrypts the copy here?", shown, default=default, option="--key"
    )


def _store_in_keychain(config: Config, key: Secret) -> None:
    """Store the key; one that is there already may open a database. Raises ``LockedError``."""
    system = keychain.system_keychain()
    if system.get(keychain.KEY, config.owner_hash) is None:
        system.set(keychain.KEY, config.owner_hash, key)


def _take_passphrase(
    config: Config, account: Account, args: argparse.Namespace
) -> tuple[Config, Account]:
    """Ask for the passphrase, twice for a new database, and let the keychain keep it if there is one."""
    typed = _ask_passphrase(config, allow_weak=args.allow_weak)
    config = replace(config, db_key=typed, db_key_origin="what was typed", db_key_yields=False)
    if not config.keychain or not keychain.system_keychain().usable:
        return config, account
    try:
        _store_in_keychain(config, typed)
    except LockedError as error:
        console.warn(error.message)
        return config, account
    return config, _remember(account, "keychain")


def _ask_passphrase(config: Config, *, allow_weak: bool) -> Secret:
    if (config.account_dir / "notarium_keys.json").exists():
        return ask_secret("Passphrase: ")
    for _ in range(_TRIES):
        typed = ask_secret("New passphrase (15 characters or more): ")
        try:
            require_strong(typed, account=config.account.name, allow_weak=allow_weak)
        except NotariumError as error:
            console.warn(error.message)
            continue
        if ask_secret("The same once more: ") == typed:
            return typed
        console.warn("The two differ.")
    raise InvalidRequest(
        "no passphrase was given",
        resolution_hint="`--key file` makes a key that you need not type.",
    )


def _cannot_write(path: Path, error: OSError) -> InvalidRequest:
    return InvalidRequest(
        f"{display_path(path)} cannot be written: {os_errors.describe(error)}",
        resolution_hint="Make its folder writable for you alone.",
    )
