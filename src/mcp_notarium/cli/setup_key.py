"""Give a new account its key: a random one in the keychain or in a private file, or a passphrase.

The key is kept before the account is remembered, and both before a database is made with it: whatever
interrupts the command, no database has a key that nobody has.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from mcp_notarium import config
from mcp_notarium.account import inspection
from mcp_notarium.account.startup_outcomes import Locked
from mcp_notarium.cli import command_context, console, signals
from mcp_notarium.cli.new_key import ask_new
from mcp_notarium.cli.terminal import ask_secret, require_terminal
from mcp_notarium.config import Config, accounts
from mcp_notarium.config.accounts import KEY_FILE, Account, KeyPlace
from mcp_notarium.config.common_variables import STORE
from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.errors import MalformedKey, WeakPassphrase
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.files import os_errors
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import create_private, replace_private
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret
from mcp_notarium.stores import registry
from mcp_notarium.system import SYSTEM

KEYCHAIN = "NOTARIUM_KEYCHAIN"
KEY = "DB_ENCRYPTION_KEY"
_TRIES = 3
_TITLES = {
    "keychain": "a new one, in the keychain",
    "file": "a new one, in a private file",
    "passphrase": "a passphrase of mine",
}


def place_key(account: Account, args: argparse.Namespace) -> Account:
    """Return the account with the place of its key chosen, and remember it; a key file is made first.

    Raises ``InvalidRequest`` for another place than that of a database's key.
    """
    known = accounts.read_accounts(accounts.config_dir(os.environ)).get(account.name)
    if known is not None and args.key in {None, known.key}:
        place = known.key
    elif KEY_FILE in account.variables and known is None:
        place = "file"
    else:
        place = cast("KeyPlace", args.key or _choose_place(account, yes=args.yes))
    if known is not None and place != known.key and _has_database(account):
        raise InvalidRequest(
            f"the account `{account.name}` has a key already",
            resolution_hint="`mcp-notarium rotate-key --keychain` or `rotate-key --new-key-file PATH` changes it.",
        )
    if known is None:
        _require_place(place, account)
    signals.note_change("What was done stays. `mcp-notarium setup` goes on where it stopped.")
    account = _keep_secrets(moved(account, place))
    _make_file(account)
    remember(account)
    # The account's own key counts from here on.
    os.environ.pop(KEY_FILE, None)
    if place == "file":
        os.environ.pop(KEY, None)
    return account


def _require_place(place: KeyPlace, account: Account) -> None:
    """Raise ``InvalidRequest`` if there is no keychain, or nobody to type a passphrase, before anything is kept."""
    if place == "keychain" and not _has_keychain(account):
        raise InvalidRequest(
            "no keychain can be used here",
            resolution_hint="`--key file` keeps the key in a private file.",
        )
    if place == "passphrase":
        require_terminal()


def _has_keychain(account: Account) -> bool:
    return account.variables.get(KEYCHAIN) != "off" and keychain.system_keychain().usable


def _keep_secrets(account: Account) -> Account:
    """Put passwords and tokens of the environment, which servers do not have, into files for them."""
    for variable in registry.kind(account.store).variables:
        given = os.environ.get(variable.name)
        if given and variable.secret and variable.has_file:
            path = accounts.config_dir(os.environ) / f"{account.name}.{variable.name.lower()}"
            with _writing(path):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_private(path, given.encode() + b"\n")
            del os.environ[variable.name]
            account = replace(
                account, variables={**account.variables, variable.file_name: str(path)}
            )
            console.done(f"{variable.name} is kept in {display_path(path)}, for servers.")
    return account


def moved(account: Account, place: KeyPlace, path: Path | None = None) -> Account:
    """Return the account with its key in another place; ``path``: of the file, if it is to be another one."""
    variables = {name: text for name, text in account.variables.items() if name != KEY_FILE}
    if place == "file":
        default = accounts.config_dir(os.environ) / f"{account.name}.key"
        variables[KEY_FILE] = str(path or account.variables.get(KEY_FILE) or default)
    return replace(account, key=place, variables=variables)


def replace_key(account: Account, old: Secret, new: Secret) -> Path | None:
    """Put a new key into the file that `setup` has made if the old one is in it; return the file. Raises ``OSError``."""
    path = Path(account.variables.get(KEY_FILE, ""))
    if path.parent != accounts.config_dir(os.environ):
        return None
    if path.read_bytes().rstrip(b"\r\n") != old.reveal():
        return None
    replace_private(path, new.reveal() + b"\n")
    return path


def remember(account: Account) -> None:
    """Write the account into ``accounts.toml``. Raises ``InvalidRequest``."""
    folder = accounts.config_dir(os.environ)
    with _writing(folder / accounts.FILE):
        accounts.remember(folder, account)


def forget(account: Account) -> None:
    """Take the account out of ``accounts.toml``, and remove the files of secrets that were made for it."""
    folder = accounts.config_dir(os.environ)
    files = [Path(text) for name, text in account.variables.items() if name.endswith("_FILE")]
    with _writing(folder / accounts.FILE):
        for path in files:
            if path.parent == folder:
                SYSTEM.remove(path)
        accounts.forget(folder, account)


def account_folder(account: Account) -> AccountFolder:
    """Return the folder of the account's database, which may be missing; the environment names no other."""
    naming = accounts.naming_names()
    around = {name: text for name, text in os.environ.items() if name not in naming}
    own = {name: text for name, text in account.variables.items() if not name.endswith("_FILE")}
    found = config.load({**around, **own, KEY_FILE: "", KEY: ""}, cwd=Path(os.path.sep))
    return AccountFolder(found.config.account_dir)


def _has_database(account: Account) -> bool:
    return account_folder(account).key_file.exists()


def _make_file(account: Account, key: Secret | None = None) -> None:
    """Make the account's key file if it has one to be made; an existing one may open a database."""
    if account.key != "file":
        return
    path = Path(account.variables[KEY_FILE])
    if path.exists():
        return
    if key is None and _has_database(account):
        raise InvalidRequest(
            f"{display_path(path)} is gone, and the notes of `{account.name}` are encrypted with the key in it",
            resolution_hint="Put the file back. With the recovery key `mcp-notarium rotate-key --ask-old "
            "--new-key-file PATH` sets another one.",
        )
    given = os.environ.get(KEY, "")
    key = key or (Secret(given) if given else user_key.generate())
    with _writing(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(path, key.reveal() + b"\n")


def make_key(account: Account, args: argparse.Namespace) -> tuple[Config, Account]:
    """Return the configuration of the account, with its key where it belongs, and the account as it is then."""
    found = command_context.load(args, asks=False).config
    if found.account_dir != account_folder(account).path:
        names = [STORE, *(one.name for one in found.store.variables if not one.secret)]
        given = ((name, os.environ.get(name)) for name in names)
        other = [name for name, text in given if text and text != account.variables.get(name)]
        raise InvalidRequest(
            f"the environment names other notes than the account `{account.name}`",
            resolution_hint=f"Unset {' and '.join(other)}, or make an account for those notes: "
            f"`mcp-notarium --account NAME setup --store {found.store.name}`.",
        )
    if account.key == "keychain":
        try:
            _store_in_keychain(found, found.db_key or user_key.generate())
        except LockedError as error:
            if args.key or _has_database(account):
                raise
            console.warn(f"{error.message}. The key is kept in a file instead.")
            return _into_file(account, found.db_key or user_key.generate(), args)
    if account.key == "passphrase":
        return _take_passphrase(found, account, args)
    return found, account


def _into_file(account: Account, key: Secret, args: argparse.Namespace) -> tuple[Config, Account]:
    account = moved(account, "file")
    _make_file(account, key)
    remember(account)
    return command_context.load(args, asks=False).config, account


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


def _choose_place(account: Account, *, yes: bool) -> str:
    usable = _has_keychain(account)
    default = "keychain" if usable else "file"
    if yes:
        return default
    places = [place for place in _TITLES if usable or place != "keychain"]
    shown = [(place, _TITLES[place]) for place in places]
    return console.choose("Encrypt with which key?", shown, default=default, option="--key")


def _store_in_keychain(found: Config, key: Secret) -> None:
    """Store the key; one that is there already may open a database. Raises ``LockedError``."""
    system = keychain.system_keychain()
    if system.get(keychain.KEY, found.owner_hash) is None:
        system.set(keychain.KEY, found.owner_hash, key)


def _take_passphrase(
    found: Config, account: Account, args: argparse.Namespace
) -> tuple[Config, Account]:
    """Ask for the passphrase, twice for a new database, and keep it where servers find it if the user agrees."""
    typed = _ask_passphrase(found, allow_weak=args.allow_weak)
    if found.keychain and keychain.system_keychain().usable:
        try:
            _store_in_keychain(found, typed)
        except LockedError as error:
            console.warn(error.message)
        else:
            account = moved(account, "keychain")
            remember(account)
    elif not args.yes and console.confirm(
        "Servers cannot ask for it. Keep it in a file that only you can read, for them?",
        default=True,
        option="--yes` (it is not kept then) or `--key file",
    ):
        return _into_file(account, typed, args)
    return command_context.with_typed(found, typed), account


def _ask_passphrase(found: Config, *, allow_weak: bool) -> Secret:
    if AccountFolder(found.account_dir).key_file.exists():
        return _ask_known(found)
    for _ in range(_TRIES):
        try:
            typed = ask_new(
                "New passphrase (15 characters or more): ",
                account=found.account.name,
                allow_weak=allow_weak,
            )
        except (WeakPassphrase, MalformedKey) as error:
            console.warn(error.message)
            continue
        if typed is not None:
            return typed
        console.warn("The two differ.")
    raise InvalidRequest(
        "no passphrase was given",
        resolution_hint="`--key file` makes a key that you need not type.",
    )


def _ask_known(found: Config) -> Secret:
    """Ask for the passphrase of a database. Raises ``LockedError``: a wrong one is kept nowhere."""
    for left in reversed(range(_TRIES)):
        typed = ask_secret("Passphrase: ")
        seen = inspection.verdict(command_context.with_typed(found, typed))
        if not isinstance(seen, Locked) or seen.verdict is not Verdict.WRONG_KEY:
            break
        if not left:
            raise seen.error()
        console.warn("This passphrase does not open the notes that are here.")
    return typed


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidRequest(
            f"{display_path(path)} cannot be written: {os_errors.describe(error)}",
            resolution_hint="Make its folder writable for you alone.",
        ) from None
