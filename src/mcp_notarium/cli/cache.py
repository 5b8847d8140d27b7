"""Replace or destroy the local database: ``reset-cache``, ``repair``, ``purge`` (docs/keys.md).

``reset-cache`` empties the index of an undamaged database in place. Any other, and one with the notes of another
account, is moved to the quarantine as a whole, unless the notes are nowhere else.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from mcp_notarium.account import copies, purge, repair, startup_hints
from mcp_notarium.account.key_changes import require_strong
from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, console, install, notes, setup_key, signals
from mcp_notarium.cli.terminal import (
    ask_line,
    ask_yes,
    can_ask,
    forget_typed,
    say_unless_copied,
    talk,
)
from mcp_notarium.config import Config
from mcp_notarium.errors import (
    InvalidRequest,
    LockedError,
    LoginRequired,
    NotariumError,
    OtherAccount,
    Verdict,
)
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.keys import keychain, secret_places
from mcp_notarium.report.words import counted
from mcp_notarium.stores.kind import Truth

NOT_OVERWRITTEN = (
    "Nothing was overwritten: on the disk, in snapshots and in backups old bytes can survive. A key "
    "file found there still opens the database with its key, and an unencrypted cache can be read. "
    "Only disk encryption and the end of those copies help against that."
)
INDEX_AGAIN = "`mcp-notarium sync` fills the index again, as a server does when it starts; until then no note is found."
_INCOMPLETE = {
    False: "WARNING: not every unfinished write, setting and audit record could be read. What is missing may "
    "be only in the old files.",
    True: "WARNING: not every note, setting and audit record could be read. What is missing may be in the old "
    "files or in a copy: `mcp-notarium restore --list`.",
}
"""By whether the notes are in the database alone."""
_LOAD_ANEW = "Empty the cache and load every note again?"
_INDEX_ANEW = "Build the index of your notes again? The notes stay as they are."
_EMPTIED = (
    "The cache was emptied; what has arrived is kept, and the next server start continues loading."
)
_REPLACED = "The old cache is in the quarantine; the next server start makes a new one or goes on."
_OTHER_KEYS = (
    "note: only the key that is given now opens a new cache. Other keys of the old one, a recovery key "
    "on paper too, do not; make new ones afterwards (`mcp-notarium keys recovery create`, `keys add`)."
)


async def _reset(args: argparse.Namespace) -> int:
    """Reset the cache after asking; exit code 0 when the first load is complete."""
    yes, config = args.yes, command_context.prepare(args)
    # Nothing moves to the quarantine before the user agrees.
    config = replace(config, allow_weak=args.allow_weak, on_unreadable="refuse")
    try:
        async with open_app(config, whole=True) as app:
            signals.watch_folder(config.account_dir)  # opening may have created the database
            local = config.store.truth is Truth.LOCAL
            if not confirm(_INDEX_ANEW if local else _LOAD_ANEW, yes=yes):
                return 1
            signals.note_change(_EMPTIED)
            with command_context.record_command(app, "cli.reset-cache"):
                await app.scheduler.reset()
            return await _load(app)
    except LockedError as error:
        if config.store.truth is Truth.LOCAL:
            raise
        talk(f"The cache cannot be used: {_end_sentence(error)}")
    except OtherAccount as error:
        talk(f"The cache cannot be emptied in place: {_end_sentence(error)}")
    if config.db_encryption:
        _require_key(config)  # else nothing would replace what is moved
        talk(_OTHER_KEYS)
    if not confirm(
        "Move it to the quarantine (nothing is deleted) and start a new one? A write that was "
        "never confirmed would stay in the old files.",
        yes=yes,
    ):
        return 1
    unsent = purge.may_hold_unsent_text(config)
    signals.note_change(_REPLACED)
    moved = purge.reset_account(config)
    talk(f"The old files are in {moved}." if moved else "There was nothing to move.")
    if moved and unsent:
        talk("WARNING: text that the note store has not confirmed may be inside. Keep them.")
    return await _load_new(config)


def _require_key(config: Config) -> None:
    """Demand a key for a new database. Raises ``LockedError`` without one, ``WeakPassphrase``."""
    key = secret_places.find_passphrase(config)
    if key is None:
        raise LockedError(
            Verdict.KEY_MISSING,
            "there is no key for a new cache; nothing was changed",
            resolution_hint=startup_hints.MAKE_KEY,
        )
    require_strong(key.passphrase, account=config.account.name, allow_weak=config.allow_weak)


def _end_sentence(error: NotariumError) -> str:
    """Return the message with one full stop; some are sentences already."""
    return f"{error.message.rstrip('.')}."


def confirm(question: str, *, yes: bool) -> bool:
    """Ask before something is replaced; a refusal is told."""
    if yes or ask_yes(question):
        return True
    talk("Nothing was changed. (In a script, say --yes.)")
    return False


async def _load_new(config: Config) -> int:
    async with open_app(config) as app:
        try:
            return await _load(app)
        except LoginRequired as error:
            talk(f"The new cache is ready and empty: {_end_sentence(error)}")
            talk(f"→ {error.person_hint}")
            return 0


async def _load(app: App) -> int:
    """Wait for the first load and report progress. Raises ``LoginRequired`` if it cannot begin."""
    await notes.sync_all(app)
    talk("The cache is complete.")
    return 0


def _repair(args: argparse.Namespace) -> int:
    """Repair the cache; exit code 0 when an undamaged database is active, also if it was so before.

    Raises ``Unfinished`` if the new one is active and the old files are not all in the quarantine.
    """
    config = command_context.prepare(args)
    options = command_context.change_options(config, args)
    with console.progress("Repairing the cache") as report:
        done = repair.repair(config, options=options, on_progress=report)
    if done is None:
        talk("There is nothing to repair: every page is authentic, and the index fits the notes.")
        return 0
    if done.quarantine is None:
        talk("The cache is repaired: the search index alone was wrong, and was rebuilt.")
        return 0
    found = done.salvaged
    talk(
        f"The cache is repaired; {counted(found.writes, 'unfinished write was', 'unfinished writes were')} restored."
    )
    talk(INDEX_AGAIN)
    if not found.complete:
        talk(_INCOMPLETE[config.store.truth is Truth.LOCAL])
        for kept in copies.describe_kept(AccountFolder(config.account_dir)):
            talk(kept)
    talk("Every key that opened the cache opens it as before.")
    say_unless_copied(done.state.copied)
    done.state.require_finished(
        "the repaired cache is active, but the old files are not all in the quarantine",
        hint="Nothing is lost, and servers can be started. Run `mcp-notarium repair` again when the "
        f"disk works again: it moves the rest to a folder of its own beside {done.quarantine}.",
    )
    talk(f"The old files are in {done.quarantine}, as they were.")
    return 0


def _purge(args: argparse.Namespace) -> int:
    loaded = command_context.prepare_account(args)
    config = loaded.config
    if not args.yes:
        _require_consent(config)
    done = purge.purge_account(config, keychain.system_keychain() if config.keychain else None)
    if loaded.account is not None:
        setup_key.forget(loaded.account)
        talk(f"The account `{loaded.account.name}` is forgotten.")
        if install.is_installed(loaded.account):
            talk("Clients still start its server: `mcp-notarium uninstall` takes it out.")
    talk(
        f"{counted(done.files, 'file was', 'files were')} removed"
        + (", and the keychain's entries." if done.keychain_cleared else ".")
    )
    if config.account_dir.is_dir():
        talk(
            f"note: {display_path(config.account_dir)} is still there: another program has something in it open. Run "
            "`mcp-notarium purge` again when that is closed."
        )
    talk(f"Copies of the key file elsewhere still open copies of the database. {NOT_OVERWRITTEN}")
    if done.keychain_error is not None:
        raise done.keychain_error
    if done.keychain_hint:
        talk(f"note: no keychain runs in this session. {done.keychain_hint}")
    if not config.keychain:
        talk("note: NOTARIUM_KEYCHAIN=off, so the keychain was not asked; what is in it stays.")
    return 0


def _require_consent(config: Config) -> None:
    talk(f"Everything in {config.account_dir} will be destroyed, the quarantine too.")
    if config.store.truth is Truth.LOCAL:
        talk("Your notes are in there, and nowhere else.")
    else:
        talk("Your notes stay at the note store; the next start loads them again.")
    if config.store.truth is not Truth.LOCAL and purge.may_hold_unsent_text(config):
        talk("WARNING: there may be text inside that the note store has not confirmed.")
    if not can_ask():
        raise InvalidRequest(
            "there is no terminal to ask on; nothing was removed",
            resolution_hint="Run `mcp-notarium purge` in a terminal, or with `--yes`.",
        )
    name = config.account.shown
    forget_typed()
    if ask_line(f"Type the account's name ({name}) to go on: ") != name:
        raise InvalidRequest(
            f"the name typed is not {name}; nothing was removed",
            resolution_hint=f"Run `mcp-notarium purge` again and type {name}.",
        )


COMMANDS = {
    "reset-cache": (command_context.options("--yes", "--allow-weak"), _reset),
    "repair": (command_context.options("--ask-key"), _repair),
    "purge": (command_context.options("--yes"), _purge),
}
