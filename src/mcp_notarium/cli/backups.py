"""Run ``backup`` and ``restore``: write an encrypted backup of the account, restore one, its key file, or a copy."""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import closing
from dataclasses import replace

from mcp_notarium.account import backup, copies, key_changes, opener, repair
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.app import open_app
from mcp_notarium.cli import command_context, console, signals
from mcp_notarium.cli.cache import INDEX_AGAIN, confirm
from mcp_notarium.cli.keys import find_key
from mcp_notarium.cli.terminal import ask_secret, print_data, say_unless_copied, talk, typed_path
from mcp_notarium.config import Config
from mcp_notarium.errors import NotariumError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.keys import keychain, secret_places
from mcp_notarium.system import SYSTEM

_LONGEST_COPY = 3600.0
_NEW_KEY = "Servers have no key yet: `mcp-notarium keys --ask-key add` adds one that they use."


def _run_restore(args: argparse.Namespace) -> int:
    """List the copies, or restore one after asking; exit code 0 when it is active.

    Raises ``Unfinished`` if it is active and the old files are not all in the quarantine.
    """
    config = command_context.prepare(args)
    if args.make:
        asyncio.run(_open_and_close(config))
    if args.list or args.make:
        folder = AccountFolder(config.account_dir)
        found = copies.list_copies(folder)
        lines = [f"{one.path.name}  {one.path.stat().st_size / 1e6:,.1f} MB" for one in found]
        facts = {"folder": str(folder.copies), "copies": [one.path.name for one in found]}
        print_data(facts, "\n".join(lines) or "There are no copies.", as_json=args.json)
        return 0
    if args.key_file is not False:
        return _restore_key_file(config, args)
    which = f"the copy {args.copy}" if args.copy else f"the backup {args.backup}"
    which = which if args.copy or args.backup else "the newest copy"
    if not confirm(
        f"Restore {which}? What was changed here since goes to the quarantine.", yes=args.yes
    ):
        return 1
    options = command_context.change_options(config, args)
    with console.progress("Restoring the account") as report:
        if args.backup:
            key = find_key(config, options.old)
            done = backup.restore(
                config, args.backup, options=replace(options, old=key), on_progress=report
            )
        else:
            done = repair.restore(config, name=args.copy, options=options, on_progress=report)
    for copy in done.unsound:
        talk(f"WARNING: {copy.path.name} cannot be read; it was passed over.")
    active = "The backup" if args.backup else done.copy.path.name
    talk(f"{active} is active. {INDEX_AGAIN}")
    say_unless_copied(done.result.state.copied)
    done.result.state.require_finished(
        "the copy is active, but the old files are not all in the quarantine",
        hint="Nothing is lost, and servers can be started. Run `mcp-notarium repair` when the disk is "
        f"well: it moves the rest to a folder of its own beside {done.result.quarantine}.",
    )
    talk(f"The old files are in {done.result.quarantine}, as they were.")
    if args.json:
        restored = args.backup.absolute() if args.backup else done.copy.path
        facts = {"restored": str(restored), "quarantine": str(done.result.quarantine)}
        print_data(facts, "", as_json=True)
    if args.backup and options.old is not None:
        _add_own_key(config, options)
    return 0


def _restore_key_file(config: Config, args: argparse.Namespace) -> int:
    asked = ask_secret("Key: ") if args.ask_key else None
    key = find_key(config, asked) or ask_secret("Key: ")
    done = backup.restore_key_file(config, args.key_file, key)
    talk(f"Key file number {done.keyfile.sequence} is active again; it opens the database.")
    say_unless_copied(done.copied)
    if done.quarantine is not None:
        talk(f"What was there before is kept in {done.quarantine}.")
    if args.json:
        kept = str(done.quarantine) if done.quarantine else None
        print_data({"sequence": done.keyfile.sequence, "quarantine": kept}, "", as_json=True)
    return 0


def _add_own_key(config: Config, options: ChangeOptions) -> None:
    try:
        own = secret_places.find_passphrase(config)
        if own is None:
            talk(_NEW_KEY)
        elif key_changes.list_slots(config, own.passphrase).opened_by is None:
            key_changes.add(config, own.passphrase, options=options)
            talk(f"The key in {own.origin} opens it from now on, and every key of the backup does.")
    except NotariumError as error:
        talk(f"The configured key could not be added: {error.message}. {_NEW_KEY}")


async def _open_and_close(config: Config) -> None:
    """Stop as a server does, without its limit of time: a changed notebook is copied then."""
    async with open_app(config, syncing=False, time_to_close=lambda: _LONGEST_COPY):
        signals.watch_folder(config.account_dir)


def _run_backup(args: argparse.Namespace) -> int:
    config = replace(command_context.prepare(args), on_unreadable="refuse")
    system = keychain.system_keychain() if config.keychain else None
    with closing(opener.open_cache(config, read_only=True, system=system)) as opened:
        to = args.path.absolute()
        with console.progress("Copying the database") as report:
            keyfile = backup.back_up(
                opened, config.store.tables, to, now=time.time(), on_progress=report
            )
    size, recovers = to.stat().st_size, backup.has_recovery_key(keyfile)
    signals.note_change(f"The backup is complete: {to}")
    talk(f"The backup is {to}, {size / 1e6:,.1f} MB, encrypted.")
    talk("Every key that opens the account today opens it, also after you change them.")
    if not recovers:
        talk(
            "WARNING: no recovery key does. Make one on paper (`mcp-notarium keys recovery create`), then "
            "back up again: without a key nobody can read the backup."
        )
    talk(f"To restore it: mcp-notarium restore --backup {SYSTEM.quote(str(to))} --ask-key")
    named = f"--account {SYSTEM.quote(args.account)} " if args.account else ""
    talk(f"On another machine run this before: mcp-notarium {named}setup {_options_of(config)}")
    if args.json:
        print_data({"path": str(to), "bytes": size, "recovery_key": recovers}, "", as_json=True)
    return 0


def _options_of(config: Config) -> str:
    """Return the options of ``setup`` that make this account; no secret. The keys come with the backup."""
    own = {one.name: config.store_settings.text(one.name) for one in config.store.variables}
    usual = {one.name: one.default for one in config.store.variables}
    given = [f"{name}={text}" for name, text in own.items() if text and text != usual[name]]
    named = (f"--set {SYSTEM.quote(one)}" for one in given)
    return " ".join((f"--store {config.store.name}", *named, "--no-recovery"))


def _add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=typed_path, metavar="PATH", help="the new file")
    command_context.options("--json")(parser)


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--backup", type=typed_path, metavar="PATH", help="restore a file that `backup` has written"
    )
    source.add_argument(
        "--key-file",
        type=typed_path,
        nargs="?",
        default=False,
        metavar="PATH",
        help="restore the key file alone: of a backup or a copy of `notarium_keys.json`; the copy beside it if "
        "PATH is missing",
    )
    parser.add_argument(
        "copy",
        metavar="COPY",
        nargs="?",
        help="file name of a copy; the newest undamaged one if missing",
    )
    parser.add_argument("--list", action="store_true", help="list the copies and change nothing")
    parser.add_argument(
        "--make", action="store_true", help="make a copy of what has changed, then list"
    )
    command_context.options("--yes", "--ask-key", "--json")(parser)


COMMANDS = {
    "backup": (_add_backup_arguments, _run_backup),
    "restore": (_add_restore_arguments, _run_restore),
}
