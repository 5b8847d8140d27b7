"""Run ``mcp-notarium setup``: from nothing to an assistant that reads the notes.

Steps: account, key, login, first load, recovery key, clients. Each looks at what is there and does the
rest, so the command can be left and run again. Every question has an option that answers it.
"""

from __future__ import annotations

import argparse
import asyncio
import os

from mcp_notarium.account import key_changes
from mcp_notarium.app import open_app
from mcp_notarium.cli import console, install, keys, login, setup_account, setup_key
from mcp_notarium.cli.notes import sync_all
from mcp_notarium.cli.terminal import can_ask, can_show
from mcp_notarium.clients.known_clients import client_names
from mcp_notarium.config import Config
from mcp_notarium.config.accounts import Account
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.errors import ConfigError, InvalidRequest, LoginRequired, NotariumError
from mcp_notarium.report.words import counted
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import Truth

_AGAIN = (
    "The account `{name}` and its key are kept: `mcp-notarium --account {name} setup` goes on where it stopped, "
    "`--set NAME=VALUE` corrects a setting, `mcp-notarium --account {name} purge` removes both."
)
_NOTHING_KEPT = "Nothing was kept: run `setup` again with the right settings."
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
        "--secret-file",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a password or token of the store (such as ..._TOKEN), read from FILE, or with `-` from standard "
        "input; a private copy is kept for servers",
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
    names = client_names(os.environ)
    parser.add_argument(
        "--client",
        action="append",
        choices=[*names, install.NONE],
        metavar="CLIENT",
        help=f"a program that shall use the notes, of {', '.join(names)}; repeat it for several, or `none`",
    )
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME",
        help="a profile of the account's policy file for these clients (default: none, or the one they have)",
    )


def run(args: argparse.Namespace) -> int:
    """Run all steps; exit code 1 if a client could not be given the server."""
    if install.NONE not in (args.client or ()):
        install.require_lasting()
    if args.recovery and not can_show():
        raise ConfigError(
            "a recovery key is shown at a terminal, to be written down, and there is none; nothing was done",
            resolution_hint="Leave out `--recovery`, then run `mcp-notarium keys recovery create` in a terminal.",
        )
    console.heading("Account")
    chosen = setup_account.choose_account(args)
    try:
        return _run(chosen, args)
    except NotariumError as error:
        known = setup_account.is_known(chosen)
        then = _AGAIN.format(name=chosen.name) if known else _NOTHING_KEPT
        error.resolution_hint = f"{error.resolution_hint or ''} {then}".strip()
        raise


def _run(chosen: Account, args: argparse.Namespace) -> int:
    while True:
        try:
            if not setup_account.is_known(chosen):
                setup_account.require_reachable(chosen, args)
            config, account = _make(chosen, args)
            notes = _fetch(config, account, args)
            break
        except NotariumError as error:
            chosen = _correct(chosen, error, args)
    console.done(
        f"{counted(notes, 'note is', 'notes are')} here." if notes else "There are no notes yet."
    )
    if args.profile:
        install.require_profile(args.profile, account, args)
    _offer_recovery(config, args)
    console.heading("Assistants")
    failed = _install(account, args)
    _say_what_next(config, notes, given=install.is_installed(account))
    return failed


def _make(chosen: Account, args: argparse.Namespace) -> tuple[Config, Account]:
    account = setup_key.place_key(chosen, args)
    args.account = account.name
    config, account = setup_key.make_key(account, args)
    console.done(f"{config.store.title}, as the account `{account.name}`.")
    console.done(setup_key.describe(account))
    return config, account


def _fetch(config: Config, account: Account, args: argparse.Namespace) -> int:
    console.heading("Notes")
    _log_in(config, account, args)
    return asyncio.run(_load_notes(config))


def _correct(account: Account, error: NotariumError, args: argparse.Namespace) -> Account:
    """Ask again for what may have been mistyped, and return the account with that. Raises ``error``."""
    refused = setup_account.given_logins(account) if isinstance(error, LoginRequired) else []
    if refused:
        error.resolution_hint = f"Give {' or '.join(refused)} again (`--secret-file NAME=FILE`), or none: then `setup` asks for a login."
    needed = [one for one in registry.kind(account.store).variables if one.required]
    if not needed or args.yes or not can_ask() or isinstance(error, InvalidRequest):
        raise error
    console.warn(f"{error.message.rstrip('.')}. {error.person_hint}")
    if refused and console.confirm("Log in now instead?", default=True, option="--yes"):
        return setup_account.without_logins(account)
    if not console.confirm("Correct the account and try again?", default=True, option="--yes"):
        raise error
    console.heading("Account")
    return setup_account.ask_again(account, needed)


def _log_in(config: Config, account: Account, args: argparse.Namespace) -> None:
    kind = config.store.login
    if kind is None or setup_account.given_logins(account):
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
    slots = key_changes.list_slots(config, None).keyfile.slots
    if any(one.type is SlotType.RECOVERY for one in slots):
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
    if args.recovery or console.confirm(
        "Make a recovery key, to write on paper?",
        default=only_here,
        option="--recovery` or `--no-recovery",
    ):
        try:
            keys.make_recovery(config, None)
        except InvalidRequest as error:  # no reason to stop here
            console.warn(f"{error.message}. `mcp-notarium keys recovery create` makes one later.")


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
    # They have been named, or were chosen from a list: that was the one question.
    clients = install.pick_clients(args.client, yes=args.yes)
    return install.install(account, clients, yes=True, profile=args.profile)


def _say_what_next(config: Config, notes: int, *, given: bool) -> None:
    first = (
        "What are my newest notes about?"
        if notes
        else "Save a note: my first note. Then list my notes."
    )
    once = "" if given else ", once it has the server"
    console.heading(f"Ready. Say to your assistant{once}:")
    console.say(f"  {first}")
    console.say()
    console.say(
        f"`mcp-notarium status` and `mcp-notarium audit tail` show what is here and what was done with "
        f"{config.store.title}; `mcp-notarium uninstall` takes the server out of all clients again."
    )


COMMANDS = {"setup": (add_arguments, run)}
