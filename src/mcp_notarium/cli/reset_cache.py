"""Run ``mcp-notarium reset-cache``: empty the index and fill it again from the store.

A sound database is emptied in place: its login and its unfinished writes stay. One that cannot be opened,
has a damaged page, or holds the notes of another account is moved to the quarantine as a whole, and a
new one is made.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from mcp_notarium.account import key_rotation, opener, purge
from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_setup, new_key, signals
from mcp_notarium.cli.terminal import ask_yes, talk
from mcp_notarium.config import Config
from mcp_notarium.errors import LockedError, LoginRequired, NotariumError, OtherAccount
from mcp_notarium.keys import credentials

_LONGEST_SYNC = 3600.0
_POLL_SECONDS = 0.5
_EMPTIED = (
    "The cache was emptied; what has arrived is kept, and the next server start continues loading."
)
_SET_ASIDE = "The old cache is in the quarantine; the next server start makes a new one or goes on."
_OTHER_KEYS = (
    "note: only the key that is given now opens a new cache. Other keys of the old one, a recovery key "
    "on paper too, do not; make them anew afterwards (`mcp-notarium keys recovery create`, `keys add`)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add consent for scripts, and whether the new database may have a weak key."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    new_key.add_allow_weak(parser)


def run(args: argparse.Namespace) -> int:
    """Reset after asking; exit code 0 when the first load is complete."""
    config = replace(command_setup.prepare(args), allow_weak=args.allow_weak)
    return asyncio.run(_reset(config, yes=args.yes))


async def _reset(config: Config, *, yes: bool) -> int:
    config = replace(
        config, on_unreadable="refuse"
    )  # nothing is set aside before the person agrees
    try:
        async with open_app(config, whole=True) as app:
            signals.watch_folder(config.account_dir)  # opening may have created the database
            if not _agreed("Empty the cache and load every note again?", yes=yes):
                return 1
            signals.note_change(_EMPTIED)
            with command_setup.record_command(app, "cli.reset-cache"):
                await app.driver.reset()
            return await _loaded(app)
    except LockedError as error:
        talk(f"The cache cannot be used: {_sentence(error)}")
    except OtherAccount as error:
        talk(f"The cache cannot be emptied in place: {_sentence(error)}")
    if config.db_encryption:
        _demand_strong(config)  # else nothing would replace what is set aside
        talk(_OTHER_KEYS)
    if not _agreed(
        "Move it to the quarantine (nothing is deleted) and start a new one? A write that was "
        "never confirmed would stay in the old files.",
        yes=yes,
    ):
        return 1
    unsent = purge.may_hold_unsent_text(config)
    signals.note_change(_SET_ASIDE)
    moved = opener.quarantine_account(config)
    talk(f"The old files are in {moved}." if moved else "There was nothing to set aside.")
    if moved and unsent:
        talk("WARNING: text that the note store has not confirmed may be inside. Keep them.")
    return await _filled(open_app(config))


def _demand_strong(config: Config) -> None:
    """Raise ``WeakPassphrase`` if a new database would get a key that can be guessed."""
    key = credentials.find_passphrase(config, config.owner_hash)
    if key is not None:
        key_rotation.demand_strong(key.passphrase, allow_weak=config.allow_weak)


def _sentence(error: NotariumError) -> str:
    """Return the message with one full stop; some are sentences already."""
    return f"{error.user_message.rstrip('.')}."


def _agreed(question: str, *, yes: bool) -> bool:
    if yes or ask_yes(question):
        return True
    talk("Nothing was changed. (In a script, say --yes.)")
    return False


async def _filled(opened: AbstractAsyncContextManager[App]) -> int:
    async with opened as app:
        try:
            return await _loaded(app)
        except LoginRequired as error:
            talk(f"The new cache is ready and empty: {_sentence(error)}")
            talk(f"→ {error.resolution_hint}")
            return 0


async def _loaded(app: App) -> int:
    """Wait for the first load and report progress. Raises ``LoginRequired`` if it cannot begin."""
    cycle = asyncio.create_task(app.driver.sync_now(_LONGEST_SYNC))
    while not cycle.done():
        await asyncio.wait({cycle}, timeout=_POLL_SECONDS)
        status = app.driver.status()
        if status.needs_login:
            cycle.cancel()
            raise LoginRequired("Simplenote does not accept the login, or there is none yet")
        talk(f"  {status.loaded} of {status.total if status.total is not None else '?'} notes")
    if not cycle.result():
        raise NotariumError(
            f"the load did not finish: {app.driver.status().last_error or 'no reason known'}",
            resolution_hint="Whatever has arrived is kept; the next server start goes on from it.",
        )
    talk("The cache is complete.")
    return 0
