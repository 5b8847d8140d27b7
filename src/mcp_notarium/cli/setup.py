"""Run ``mcp-notarium setup``: from nothing to an assistant that reads the notes.

Steps: account, key, login, first load, recovery key, clients. Each looks at what is there and does the
rest, so the command can be left and run again. Every question has an option that answers it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from mcp_notarium.account import slot_management
from mcp_notarium.app import open_app
from mcp_notarium.cli import (
    console,
    install,
    keys,
    login,
    questions,
    setup_key,
    signals,
)
from mcp_notarium.cli.notes import sync_all
from mcp_notarium.cli.questions import Choice
from mcp_notarium.cli.terminal import can_ask
from mcp_notarium.config import Config, accounts
from mcp_notarium.config.accounts import ONLY, Account
from mcp_notarium.config.clients import CLIENTS
from mcp_notarium.config.common_variables import STORE, known_variables
from mcp_notarium.config.value_parser import parse_value
from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.crypto.key_file_codec import SlotState, SlotType
from mcp_notarium.errors import ConfigError, InvalidRequest, NotariumError
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import StoreKind, Truth

_DATA_DIR = "NOTARIUM_DATA_DIR"
_ANOTHER = ""
_AGAIN = "Then run `mcp-notarium {named}setup` again: it goes on where it stopped; `--set NAME=VALUE` corrects a setting."
_NAMES = tuple(one.name for one in registry.kinds() if one.persistent)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an option for each question."""
    parser.add_argument("--yes", action="store_true", help="ask nothing that has a usual answer")
    parser.add_argument("--store", choices=_NAMES, help="where the notes live")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the store, such as LOCAL_NOTEBOOK=diary; no secret",
    )
    parser.add_argument(
        "--key",
        choices=("keychain", "file", "passphrase"),
        help="a new key in the system's keychain or in a file that only you can read, or a passphrase of yours",
    )
    login.add_login_arguments(parser)
    recovery = parser.add_mutually_exclusive_group()
    recovery.add_argument(
        "--recovery", action="store_true", default=None, help="make a recovery key for your papers"
    )
    recovery.add_argument("--no-recovery", dest="recovery", action="store_false", help="make none")
    names = [one.name for one in CLIENTS]
    parser.add_argument(
        "--client",
        action="append",
        choices=[*names, install.NONE],
        metavar="CLIENT",
        help=f"a program that shall use the notes, of {', '.join(names)}; repeat it for several, or `none`",
    )


def run(args: argparse.Namespace) -> int:
    """Run all steps; exit code 1 if a client could not be given the server."""
    if install.NONE not in (args.client or ()):
        install.require_lasting()
    console.heading("Account")
    chosen = _choose_account(args)
    signals.note_change("What was done stays. `mcp-notarium setup` goes on where it stopped.")
    try:
        return _run(chosen, args)
    except NotariumError as error:
        named = "" if args.account == ONLY else f"--account {args.account} "
        again = _AGAIN.format(named=named)
        error.resolution_hint = f"{error.resolution_hint or ''} {again}".strip()
        raise


def _run(chosen: Account, args: argparse.Namespace) -> int:
    while True:
        config, account = _make(chosen, args)
        try:
            notes = _fetch(config, account, args)
            break
        except NotariumError as error:
            chosen = _correct(account, error, args)
    console.done(
        {0: "There are no notes yet.", 1: "1 note is here."}.get(
            notes, f"{notes:,} notes are here."
        )
    )
    _offer_recovery(config, args)
    console.heading("Assistants")
    failed = _install(account, args)
    _say_what_next(config, notes)
    return failed


def _make(chosen: Account, args: argparse.Namespace) -> tuple[Config, Account]:
    """Remember the account and give it its key; return its configuration."""
    account = setup_key.place_key(chosen, args)
    args.account = account.name
    config, account = setup_key.make_key(account, args)
    console.done(f"{config.store.title}, as the account `{account.name}`.")
    console.done(setup_key.describe(account))
    return config, account


def _fetch(config: Config, account: Account, args: argparse.Namespace) -> int:
    """Log in and load the notes; return how many there are."""
    console.heading("Notes")
    _log_in(config, account, args)
    return asyncio.run(_load_notes(config))


def _correct(account: Account, error: NotariumError, args: argparse.Namespace) -> Account:
    """Ask again for what may have been mistyped, and return the account with that. Raises ``error``."""
    needed = [one for one in registry.kind(account.store).variables if one.required]
    if not needed or args.yes or not can_ask():
        raise error
    console.warn(f"{error.message.rstrip('.')}. {error.person_hint}")
    if not questions.confirm("Correct the account and try again?", default=True, option="--yes"):
        raise error
    console.heading("Account")
    return _with_settings(
        account, {one.name: _ask(one, account.variables.get(one.name, "")) for one in needed}
    )


def _choose_account(args: argparse.Namespace) -> Account:
    """Return the account to go on with, or a new one that stands in no file yet."""
    known = accounts.read_accounts(accounts.config_dir(os.environ))
    given = _parse_set(args.set)
    name = args.account
    if known and name == ONLY and not args.store:
        name = _choose_known(known, yes=args.yes)
    if name in known:
        _require_known(registry.kind(known[name].store), given)
        return _with_settings(known[name], given)
    kind = registry.kind(args.store or _choose_store(yes=args.yes))
    _require_known(kind, given)
    variables = {STORE: kind.name} | _settings(kind, given)
    new = Account(args.account or _free_name(kind.name, known), "keychain", variables)
    return _same_account(known, new) or new


def _choose_known(known: Mapping[str, Account], *, yes: bool) -> str:
    if yes and len(known) == 1:
        return next(iter(known))
    shown = [Choice(name, f"{name}  ({one.store})") for name, one in known.items()]
    return questions.choose(
        "Which account?", [*shown, Choice(_ANOTHER, "another one")],
        default=shown[0].value, option="--account NAME",
    )  # fmt: skip


def _choose_store(*, yes: bool) -> str:
    default = os.environ.get(STORE, "") or registry.WITHOUT_ACCOUNT
    if yes or os.environ.get(STORE):
        return default
    kinds = [one for one in registry.kinds() if one.persistent]
    shown = [Choice(one.name, one.place) for one in kinds]
    return questions.choose("Where do the notes live?", shown, default=default, option="--store")


def _same_account(known: Mapping[str, Account], new: Account) -> Account | None:
    """Return the account that an earlier run has left for the same notes, with the new settings."""
    place = setup_key.account_folder(new).path
    for one in known.values():
        if one.store == new.store and setup_key.account_folder(one).path == place:
            return _with_settings(one, new.variables)
    return None


def _with_settings(account: Account, given: Mapping[str, str]) -> Account:
    settings = {name: _canonical(name, text) for name, text in given.items()}
    return replace(account, variables={**account.variables, **settings})


def _free_name(store: str, known: Mapping[str, Account]) -> str:
    names = [store, *(f"{store}-{number}" for number in range(2, len(known) + 2))]
    return next(name for name in names if name not in known)


def _parse_set(given: list[str]) -> dict[str, str]:
    """Return the settings of ``--set``. Raises ``InvalidRequest``."""
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, _, value in pairs if not value]:
        raise InvalidRequest(f"`--set` needs NAME=VALUE: {wrong[0]} has no value")
    return {name: value for name, _, value in pairs}


def _require_known(kind: StoreKind, given: Mapping[str, str]) -> None:
    """Raise ``InvalidRequest`` if a setting is a secret, or none of this store."""
    if wrong := sorted(given.keys() - accounts.storable_names(kind)):
        raise InvalidRequest(
            f"`--set` takes no secrets and only settings of {kind.title}; `{wrong[0]}` is not for it",
            resolution_hint=f"`{STORE}={kind.name} mcp-notarium --print-config-vars` lists them. Secrets are read from "
            "the environment once, or from a file: NAME_FILE=PATH.",
        )


def _settings(kind: StoreKind, given: Mapping[str, str]) -> dict[str, str]:
    """Return what the account remembers: what is given or set for the store, and what had to be asked."""
    own = {one.name: one for one in kind.variables if not one.secret}
    files = {one.file_name for one in kind.variables if one.has_file}
    names = {*own, *files, _DATA_DIR, setup_key.KEYCHAIN, accounts.KEY_FILE}
    values = {name: text for name in sorted(names) if (text := os.environ.get(name))} | dict(given)
    for name, variable in own.items():
        if variable.required and name not in values:
            values[name] = _ask(variable, "")
        elif variable.required and (wrong := _problem(variable, values[name])):
            raise InvalidRequest(f"{name} cannot be used: {wrong}", resolution_hint="Correct it.")
    return {name: _canonical(name, text) for name, text in values.items()}


def _ask(variable: Variable, default: str) -> str:
    return questions.ask_text(
        f"{variable.purpose.removesuffix('.')}:", default=default, option=f"--set {variable.name}=VALUE",
        problem=partial(_problem, variable),
    )  # fmt: skip


def _problem(variable: Variable, typed: str) -> str | None:
    """Return what is wrong with a typed value; None if nothing."""
    if not typed.strip():
        return "It is needed."
    if variable.kind is Kind.PATH and not Path(typed.strip()).expanduser().exists():
        return "There is no such file or folder."
    try:
        parse_value(variable, typed, [])
    except ConfigError as error:
        return f"{error.message}. {error.person_hint}"
    return None


def _canonical(name: str, text: str) -> str:
    """Return the value as it is kept: a path as a full one, for servers have another working folder."""
    variable = next((one for one in known_variables() if one.name == name), None)
    if variable is None or variable.kind is Kind.PATH:
        return str(Path(text).expanduser().absolute())
    return parse_value(variable, text, [])


def _log_in(config: Config, account: Account, args: argparse.Namespace) -> None:
    """Log in if the store has a login, and none is stored or read from a file."""
    kind = config.store.login
    if kind is None or any(f"{name}_FILE" in account.variables for name in kind.variables):
        return
    if asyncio.run(_is_logged_in(config)):
        console.done("Logged in already.")
        return
    login.log_in(config, args)


async def _is_logged_in(config: Config) -> bool:
    async with open_app(config, syncing=False) as app:
        return app.tokens.load() is not None


async def _load_notes(config: Config) -> int:
    """Load all notes if some are missing, and return how many there are. Raises like :func:`sync_all`."""
    async with open_app(config) as app:
        if not app.scheduler.status().complete:
            await sync_all(app)
        return app.cache.notes.counts().active


def _offer_recovery(config: Config, args: argparse.Namespace) -> None:
    """Make a recovery key if there is none and the user wants one."""
    if not config.db_encryption or args.recovery is False:
        return
    slots = slot_management.list_slots(config, None).keyfile.slots
    if any(one.type is SlotType.RECOVERY and one.state is SlotState.ACTIVE for one in slots):
        return
    only_here = config.store.truth is Truth.LOCAL
    lost = (
        "Without a recovery key the notes are lost if the key is."
        if only_here
        else "If the key is lost, the notes are loaded again; a recovery key spares you that."
    )
    if args.recovery is None and args.yes:
        if only_here:
            console.warn(f"{lost} `mcp-notarium keys recovery create` makes one.")
        return
    if args.recovery is None:
        console.say(lost)
    if args.recovery or questions.confirm(
        "Make a recovery key, to write on paper?",
        default=only_here,
        option="--recovery` or `--no-recovery",
    ):
        keys.make_recovery(config, None)


def _install(account: Account, args: argparse.Namespace) -> int:
    if args.client and install.NONE in args.client:
        console.say("No client was asked for. `mcp-notarium install` adds the server to one.")
        return 0
    if account.key == "passphrase":
        console.warn(
            "A server cannot ask for your passphrase, so it was added to no client. `mcp-notarium rotate-key "
            "--new-key-file PATH` sets a key that servers find; then run `mcp-notarium install`."
        )
        return 0
    return install.install(account, install.pick_clients(args.client, yes=args.yes), yes=args.yes)


def _say_what_next(config: Config, notes: int) -> None:
    first = (
        "What are my newest notes about?"
        if notes
        else "Save a note: my first note. Then list my notes."
    )
    console.heading("Ready. Say to your assistant:")
    console.say(f"  {first}")
    console.say()
    console.say(
        f"`mcp-notarium status` and `mcp-notarium audit tail` show what is here and what was done with "
        f"{config.store.title}; `mcp-notarium uninstall` takes the server out of all clients again."
    )


COMMANDS = {"setup": (add_arguments, run)}
