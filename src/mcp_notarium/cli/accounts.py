"""List the accounts that ``setup`` has made (``accounts``), and choose the one that is used where none is named."""

from __future__ import annotations

import argparse
import os
from typing import Any

from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.terminal import print_data, talk
from mcp_notarium.config import accounts
from mcp_notarium.config.accounts import Account
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.files.private_files import output_errors
from mcp_notarium.stores import registry

_NOBODY = "no account is the default one"
_USE = "commands and servers that name no account use it."


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
    folder = accounts.config_dir(os.environ)
    known = accounts.read_accounts(folder)
    if args.action == "list":
        return _list(args, known)
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


def _list(args: argparse.Namespace, known: dict[str, Account]) -> int:
    facts: list[dict[str, Any]] = [
        {"name": one.name, "store": one.store, "default": one.default} for one in known.values()
    ]
    rows = [
        (one.name, registry.kind(one.store).title, "default" if one.default else "")
        for one in known.values()
    ]
    if not known and not args.json:
        talk("No account is remembered yet. Begin with `mcp-notarium setup`.")
        return 0
    print_data(facts, [console.table(("Account", "Store", ""), rows)], as_json=args.json)
    return 0


COMMANDS = {"accounts": (_add_arguments, _run)}
