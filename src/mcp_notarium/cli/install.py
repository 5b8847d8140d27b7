"""Run ``mcp-notarium install`` and ``uninstall``: add the server to the MCP clients of this user, or take it out.

Each change of a client's file is shown before it is made, and the server is then started as the client
will start it. The file names an account and holds no secret. ``--print`` shows what to add by hand.

In PowerShell `--` must be quoted: the scripts that npm makes for a program would swallow a bare one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp_notarium import config
from mcp_notarium.cli import console, signals
from mcp_notarium.cli.server_check import check_server
from mcp_notarium.clients import client_files
from mcp_notarium.clients.client_files import ClientFile
from mcp_notarium.clients.known_clients import (
    Client,
    all_clients,
    client,
    client_names,
    platform_here,
)
from mcp_notarium.config import accounts
from mcp_notarium.config.accounts import Account
from mcp_notarium.errors import ConfigError, NotariumError
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.report.words import listed
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import quote_posix, quote_windows

NONE = "none"
_ONLY_PRINTED = ("cline", "goose", "other")
_GOOSE = ("~/.config/goose/config.yaml", r"%APPDATA%\Block\goose\config\config.yaml")
"""Path of Goose's file, and its path on Windows."""
_TEMPORARY = {"archive-v0", "environments-v2"}
"""Folders of ``uvx``, whose programs may be gone tomorrow."""
_CACHES = {".cache", "cache", "caches"}
"""Folders where ``pipx run`` keeps a program for some days."""

_TAKE_OUT_BY_HAND = (
    "It was left as it is. Mend the file and run `mcp-notarium uninstall` again, or take the entry with "
    "`mcp-notarium` out by hand."
)
_ADDED = "What was added so far stays; `mcp-notarium uninstall` takes it out."
_TAKEN_OUT = "What was taken out so far stays so; `mcp-notarium install` adds it again."


def _add_install_arguments(parser: argparse.ArgumentParser) -> None:
    _add_clients(parser)
    profile = parser.add_mutually_exclusive_group()
    profile.add_argument(
        "--profile",
        default="",
        metavar="NAME",
        help="a profile of the policy file that narrows what these clients' agents may see and do "
        "(default: the one that a client has already)",
    )
    profile.add_argument(
        "--no-profile", action="store_true", help="take the profile of these clients away"
    )
    parser.add_argument(
        "--print",
        choices=(printable := (*client_names(os.environ), *_ONLY_PRINTED)),
        dest="printed",
        metavar="CLIENT",
        help=f"print what to add by hand, and change nothing ({', '.join(printable)})",
    )


def _add_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--client",
        action="append",
        choices=(names := client_names(os.environ)),
        metavar="CLIENT",
        help=f"a client, of {', '.join(names)}; repeat it for several (default: those found here)",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _run_install(args: argparse.Namespace) -> int:
    account = chosen_account(args.account)
    profile = None if args.no_profile else args.profile
    if profile:
        require_profile(profile, account, args)
    if args.printed:
        print_entry(args.printed, account, profile or "")
        return 0
    clients = pick_clients(args.client, yes=args.yes)
    return install(account, clients, yes=args.yes, profile=profile)


def chosen_account(name: str) -> Account:
    """Return the account of that name, or the only one. Raises ``ConfigError``."""
    found = accounts.choose_account(name, accounts.config_dir(os.environ), ())
    if found is None:
        raise accounts.AccountError("there is no account yet")
    return found


def _found_clients() -> list[Client]:
    return [one for one in all_clients(os.environ) if one.is_here(os.environ)]


def _named(name: str) -> Client:
    if (found := client(name, os.environ)) is not None:
        return found
    raise ConfigError(
        f"the side of WSL that has `{name}` does not answer",
        resolution_hint="Start WSL once with `wsl`; in a distribution `[interop]` of /etc/wsl.conf must be on.",
    )


def pick_clients(names: Sequence[str] | None, *, yes: bool) -> list[Client]:
    """Return the named clients, or ask which of those that are found here."""
    if names:
        return [_named(one) for one in names]
    here = _found_clients()
    if yes or not here:
        return here
    shown = [(one.name, one.title) for one in here]
    chosen = console.choose_some(
        "Which programs shall use the notes?", shown, option="--yes` or `--client NAME"
    )
    return [one for one in here if one.name in chosen]


def require_profile(name: str, account: Account, args: argparse.Namespace) -> None:
    """Raise ``ConfigError`` for a profile that is not in the policy file, or not for this account: it would stop the server."""
    loaded = config.load_here(env_file=args.env_file, account=account.name, complete=False)
    loaded.policy.of_account(loaded.config.store, name)


def install(
    account: Account, clients: Sequence[Client], *, yes: bool, profile: str | None = ""
) -> int:
    """Add the server to each client, and start it as they will; return the exit code.

    ``profile``: the one that narrows it, '' for the one that the client has already, None for none.
    """
    if not clients:
        console.warn(
            "No MCP client was found. `mcp-notarium install --print other` shows what one needs."
        )
        return 0
    command = server_command(account)
    failed, entries = False, {}
    for one in clients:
        try:
            entry = _install_one(one, account, command, yes=yes, profile=profile)
        except NotariumError as error:
            failed = True
            console.warn(f"{one.title}: {error.message}. {error.person_hint}")
            continue
        if entry is not None:
            entries[one.title] = one.entry_from_here(entry)
    return int(_start(entries) or failed)


def _install_one(
    one: Client, account: Account, command: list[str], *, yes: bool, profile: str | None = ""
) -> Mapping[str, Any] | None:
    """Return the entry that the client's file has now; None if the user did not want it."""
    file = _read(one)
    name = client_files.name_for(file, account.name)
    before = client_files.ours(file, account=account.name).get(name, {})
    if profile == "":  # defence: profile-kept =False
        profile = client_files.profile_of(before)
    entry = one.entry(_with_profile(command, profile or ""))
    if client_files.servers_of(file).get(name) == entry:
        console.done(f"{one.title} has the server already ({display_path(file.path)}).")
        return entry
    after = client_files.with_server(file, name, entry)
    if not _agreed(file, after, f"Add the server `{name}` to {one.title}?", entry, yes=yes):
        return None
    client_files.keep_copy(file)
    client_files.write(file, after)
    signals.note_change(_ADDED)
    then = ". ".join(filter(None, (one.reload, one.trust)))
    console.done(f"{one.title}: {display_path(file.path)}. {then}.")
    written: Mapping[str, Any] = client_files.servers_of(_read(one))[name]
    return written


def _start(entries: Mapping[str, Mapping[str, Any]]) -> bool:
    """Start the server of each different entry, and say what the clients will see; True: something is wrong."""
    alike: dict[str, list[str]] = {}
    for title, entry in entries.items():
        start = {key: entry.get(key) or None for key in ("command", "args", "env")}
        alike.setdefault(json.dumps(start), []).append(title)
    wrong = False
    for started, titles in alike.items():
        seen = check_server(json.loads(started))
        if seen.problem:
            wrong = True
            console.warn(
                f"Started as {listed(titles)} will start it, the server says: {seen.problem}. "
                "`mcp-notarium doctor` says what to do."
            )
        else:
            tools = ", ".join(seen.tools)
            console.done(
                f"Started as {listed(titles)} will start it: {len(seen.tools)} tools ({tools}) after "
                f"{seen.seconds:.1f} s, and the notes can be read."
            )
    return wrong


def _run_uninstall(args: argparse.Namespace) -> int:
    failed = found = False
    for one in all_clients(os.environ, wake=True):
        if args.client and one.name not in args.client:
            continue
        try:
            found = _uninstall_one(one, args.account, yes=args.yes) or found
        except NotariumError as error:
            failed = True
            hint = _TAKE_OUT_BY_HAND if isinstance(error, ConfigError) else error.person_hint
            console.warn(f"{one.title}: {error.message}. {hint}")
    if not found and not failed:
        console.say("No client has the server.")
    elif found and accounts.read_accounts(accounts.config_dir(os.environ)):
        console.say(
            "Notes, keys and accounts stay. `mcp-notarium purge` destroys what is stored here, a local "
            "notebook too."
        )
    return int(failed)


def _uninstall_one(one: Client, account: str, *, yes: bool) -> bool:
    """Take every server of ours, or of the account, out; return whether there was one."""
    file = _read(one)
    names = list(client_files.ours(file, account=account))
    for name in names:
        file = _read(one)
        entry, after = client_files.ours(file)[name], client_files.without_server(file, name)
        if not _agreed(
            file, after, f"Take the server `{name}` out of {one.title}?", entry, yes=yes
        ):
            continue
        client_files.write(file, after)
        signals.note_change(_TAKEN_OUT)
        console.done(f"{one.title}: `{name}` is out of {display_path(file.path)}. {one.reload}.")
    if names and not client_files.ours(_read(one)):
        client_files.drop_copy(file)
    return bool(names)


def is_installed(account: Account) -> bool:
    """Tell whether a client has the server of the account, as far as its file can be read."""
    for one in all_clients(os.environ):
        with suppress(NotariumError):
            if client_files.ours(_read(one), account=account.name):
                return True
    return False


def _agreed(
    file: ClientFile, after: str | None, question: str, entry: Mapping[str, Any], *, yes: bool
) -> bool:
    ours = {entry["command"], *entry.get("args", ()), entry.get("type"), entry.get("source")}
    console.show_diff(file.text or "", after or "", name=display_path(file.path), ours=ours)
    return yes or console.confirm(question, default=True, option="--yes")


def _read(one: Client) -> ClientFile:
    return client_files.read_file(one, os.environ, accounts.config_dir(os.environ) / "clients")


def _place(one: Client) -> str:
    return display_path(one.path(os.environ))


def require_lasting() -> None:
    """Raise ``ConfigError`` for a program that stays for this one run only: clients could not start it."""
    parts = {part.lower() for part in Path(sys.executable).parts}
    of_pipx = "pipx" in parts and "venvs" not in parts and parts & _CACHES
    if of_pipx or parts & _TEMPORARY:
        raise ConfigError(
            "this copy of the program is a temporary one, and clients would look for it in vain",
            resolution_hint="Install it with `uv tool install` or `pipx install`, and run `mcp-notarium setup`.",
        )


def server_command(account: Account) -> list[str]:
    """Return how a client starts the server: by absolute paths, for it may have any working folder and PATH.

    Raises ``ConfigError`` as :func:`require_lasting` does.
    """
    require_lasting()
    script = Path(sys.executable).with_name("mcp-notarium" + SYSTEM.program_suffix)
    start = [str(script)] if script.exists() else [sys.executable, "-m", "mcp_notarium"]
    return [*start, "--account", account.name]


def _with_profile(command: list[str], profile: str) -> list[str]:
    return [*command, "--profile", profile] if profile else command


def print_entry(name: str, account: Account, profile: str = "") -> None:
    """Print on stdout what to add to a client by hand, and on stderr where."""
    command = _with_profile(server_command(account), profile)
    found = None if name in _ONLY_PRINTED else _named(name)
    if found is not None and found.name.endswith("claude-code"):
        entry = found.entry(command)
        there = found.side.platform if found.side else platform_here()
        console.say("Run this command" + (" in PowerShell or cmd:" if there == "win32" else ":"))
        line = ["claude", "mcp", "add", "--scope", "user", client_files.NAME, "--"]
        _print(command_line([*line, entry["command"], *entry["args"]], there))
    elif found is not None and found.format == "TOML":
        console.say(f"Add this to {_place(found)}:")
        _print(client_files.toml_table(found, client_files.NAME, found.entry(command)).strip())
    elif name == "goose":
        console.say(f"Add this to config.yaml of Goose ({_GOOSE[platform_here() == 'win32']}):")
        _print(_goose(command))
    else:
        shape = found or Client(name=name, title=name, paths=())
        cline = (
            "cline_mcp_settings.json (in Cline: MCP Servers > Configure > Configure MCP Servers)"
        )
        other = cline if name == "cline" else "the program's file of MCP servers"
        place = _place(found) if found else other
        console.say(f"Add this to {place}:")
        _print(json.dumps({shape.key: {client_files.NAME: shape.entry(command)}}, indent=2))


def _goose(command: list[str]) -> str:
    fields = {
        "name": client_files.NAME, "type": "stdio", "enabled": True, "cmd": command[0],
        "args": command[1:], "timeout": 300,
    }  # fmt: skip
    lines = [f"    {key}: {json.dumps(value)}" for key, value in fields.items()]
    return "\n".join(["extensions:", f"  {client_files.NAME}:", *lines])


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMANDS = {
    "install": (_add_install_arguments, _run_install),
    "uninstall": (_add_clients, _run_uninstall),
}


def command_line(words: list[str], platform: str) -> str:
    """Return the line for the shells of a system, which need not be this one."""
    return " ".join(map(quote_windows if platform == "win32" else quote_posix, words))
