"""Show the accounts that ``setup`` has made: their list, the default among them, one line for each in ``status``.

An account that is locked or broken says so in its line. What is wrong with it stands below, as do the notices of each account (texts
that are not saved yet, for one), and the others are still shown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mcp_notarium import config, logs
from mcp_notarium.cli import command_context, console, draft_files, status
from mcp_notarium.cli.terminal import name_account, print_data, talk
from mcp_notarium.clients.client_files import ClientEntry, find_entries
from mcp_notarium.clients.known_clients import all_clients
from mcp_notarium.config import Config, accounts
from mcp_notarium.config.accounts import ONLY, Account
from mcp_notarium.errors import InvalidRequest, NotariumError, Verdict
from mcp_notarium.files.private_files import output_errors
from mcp_notarium.report.words import counted
from mcp_notarium.sandbox import confinement
from mcp_notarium.stores import registry

_NOBODY = "no account is the default one"
_USE = "commands and servers that name no account use it."


_WIDEST_NAME = 16
_WIDEST_STORE = 10


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    command_context.options("--json")(actions.add_parser("list", help="list the accounts"))
    default = actions.add_parser("default", help="show or choose the default account")
    default.add_argument(
        "account_name", nargs="?", metavar="NAME", help="the account to make the default one"
    )
    default.add_argument("--none", action="store_true", help="let no account be the default one")
    command_context.options("--json")(default)


def _run(args: argparse.Namespace) -> int:
    if args.action == "list":
        return show_list(as_json=args.json)
    folder = accounts.config_dir(os.environ)
    known = accounts.read_accounts(folder)
    if args.none and args.account_name:
        raise InvalidRequest(
            "a name and `--none` exclude each other", resolution_hint="Give one of them."
        )
    if args.none or args.account_name:
        if args.account_name:
            accounts.choose_account(
                args.account_name, folder, ()
            )  # says what is meant if there is none
        with output_errors(folder / accounts.FILE, accounts.FILE):
            accounts.set_default(folder, args.account_name)
        known = accounts.read_accounts(folder)
    default = accounts.default_account(known)
    name = None if default is None else default.name
    if default is None:
        said = f"{_NOBODY[:1].upper()}{_NOBODY[1:]}." + (
            f" `{known and next(iter(known))}` is the only one, and commands use it."
            if len(known) == 1
            else ""
        )
    else:
        said = f"{name} is the default account: {_USE}"
    print_data({"default": name}, said, as_json=args.json)
    return 0


def show_list(*, as_json: bool = False) -> int:
    """Print the name and the store of each account, and what to do next. Opens nothing."""
    known = accounts.read_accounts(accounts.config_dir(os.environ))
    facts: list[dict[str, Any]] = [
        {"name": one.name, "store": one.store, "default": one.default} for one in known.values()
    ]
    rows = [
        (one.name, registry.kind(one.store).title, "default" if one.default else "")
        for one in known.values()
    ]
    if not known and not as_json:
        talk("No account is remembered yet. Begin with `mcp-notarium setup`.")
        return 0
    print_data(facts, [console.table(("Account", "Store", ""), rows)], as_json=as_json)
    if not as_json:
        talk("`mcp-notarium status` tells more; `mcp-notarium search WORDS` finds notes.")
    return 0


COMMANDS = {"accounts": (_add_arguments, _run)}


def are_meant(args: argparse.Namespace) -> bool:
    """Tell whether all accounts are asked for: there are several, and neither options nor settings name one."""
    if args.account != ONLY or args.env_file or args.deep or accounts.naming_variable(os.environ):
        return False
    return len(accounts.read_accounts(accounts.config_dir(os.environ))) > 1


def show(args: argparse.Namespace) -> int:
    """Print the lines; the exit code is that of the first account that is not in order."""
    logs.protect(*config.secrets_here())  # an error may quote a value from a wrong variable
    folder = accounts.config_dir(os.environ)
    known = accounts.read_accounts(folder)
    loaded = {name: _load(name) for name in known}
    folders = {name: config.account_dir_here(account=name) for name in known}
    confinement.wipe_environment(*config.secret_names())
    logs.configure("error", None)
    entries = find_entries(os.environ, folder / "clients", all_clients(os.environ))
    facts = [
        _collect(one, loaded[one.name], folders[one.name])
        | {"clients": _clients_of(one, known, entries)}
        for one in known.values()
    ]
    print_data({"accounts": facts}, _shown(facts), as_json=args.json)
    return next((one["exit_code"] for one in facts if one["exit_code"]), 0)


def _load(name: str) -> Config | NotariumError:
    try:
        return config.load_here(account=name).config
    except NotariumError as error:
        return error


def _collect(
    account: Account, found: Config | NotariumError, account_dir: Path | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": account.name,
        "store": account.store,
        "default": account.default,
    }
    if isinstance(found, NotariumError):
        unsaved = draft_files.describe_kept(account_dir) if account_dir is not None else []
        return facts | status.describe_failure(found) | {"notices": unsaved}
    logs.protect_config(found)
    try:
        return status.collect(found, whole=False) | facts
    except NotariumError as error:
        return facts | status.describe_failure(error)
    except OSError as error:
        said = f"its folder cannot be read: {error.strerror}"
        return facts | status.describe_failure(NotariumError(said))


def _clients_of(
    account: Account, known: Mapping[str, Account], entries: list[ClientEntry]
) -> list[str]:
    """Return the clients whose server uses the account."""
    default = accounts.default_account(known)
    unnamed = default.name if default else None
    return [
        one.shown
        for one in entries
        if (one.account or (None if accounts.naming_variable(one.variables) else unnamed))
        == account.name
    ]


def _shown(facts: list[dict[str, Any]]) -> list[RenderableType]:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    made.add_column("Account", no_wrap=True, max_width=_WIDEST_NAME)
    made.add_column("Store", no_wrap=True, max_width=_WIDEST_STORE)
    made.add_column("State", no_wrap=True, min_width=12)
    made.add_column("Clients", no_wrap=True)
    for one in facts:
        name = f"{one['name']}{' *' if one['default'] else ''}"
        made.add_row(name, one["store"], _state(one), ", ".join(one["clients"]) or "none")
    shown: list[RenderableType] = [made]
    for one in facts:
        if one["exit_code"]:
            shown += ["", Text(f"{one['name']}: {one['message']}", overflow="fold")]
            shown.append(console.hint(one["resolution_hint"]))
        for notice in one.get("notices", ()):
            said = name_account(f"{one['name']}: {notice}", one["name"])
            shown += ["", Text(said, overflow="fold")]
    first = facts[0]["name"]
    told = "* is the default account. " if any(one["default"] for one in facts) else ""
    return [
        *shown,
        "",
        Text(f"{told}`mcp-notarium --account {first} status` tells more of one.", style="dim"),
    ]


def _state(one: Mapping[str, Any]) -> Text:
    if one["exit_code"]:
        locked = one["exit_code"] in set(Verdict)
        return Text(f"{'LOCKED' if locked else 'NOT USABLE'}: {one['verdict']}", style="bold red")
    if "notes" not in one:
        return Text("not loaded yet")
    pending = one["pending_writes"] + one["rejected_writes"]
    waiting = f", {counted(pending, 'write')} unfinished" if pending else ""
    return Text(f"{counted(one['notes'], 'note')}{waiting}")
