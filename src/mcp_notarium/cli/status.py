"""Show the state of the account (``status``).

It changes no file but the mark of damage that it finds, and moves nothing to the quarantine, whatever DB_ON_UNREADABLE says.
Exit code: 0, the verdict's (10-23), or 1 if the disk is full.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from mcp_notarium import __version__
from mcp_notarium.account import inspection, key_changes, opener, startup_hints
from mcp_notarium.account.copies import describe_kept, read_file_cost
from mcp_notarium.account.inspection import mark_damage
from mcp_notarium.account.startup_outcomes import Create, Decision, Locked, Open, Rebuild
from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, console, draft_files, terminal
from mcp_notarium.cli.terminal import name_account, print_data
from mcp_notarium.config import Config, Loaded, account_dir_here, accounts
from mcp_notarium.domain.note import PendingWrite, WriteState
from mcp_notarium.errors import (
    CacheBusy,
    CacheError,
    CacheFull,
    ConfigError,
    LockedError,
    NotariumError,
    Verdict,
)
from mcp_notarium.files.account_folder import AccountFolder, find_obstacle
from mcp_notarium.files.locks import ServerLock, find_holders
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import disk_errors
from mcp_notarium.keys import secret_places
from mcp_notarium.report.words import KEYS, counted
from mcp_notarium.storage import integrity
from mcp_notarium.storage.database_opener import Database, has_log

IN_ORDER = "in order"
WITHOUT_SEARCH = (
    " but that for searching (the next start of a server takes up the log that is left)"
)
_OTHER_RULES = (
    "The cache is kept under other rules of what agents may see until a server is restarted."
)
_FREE_BYTES = 64 * 1024
"""Free bytes that SQLite needs besides a database to open it, with a margin."""
_AGAIN = (
    f"Try again. If it stays like this: {startup_hints.BEGIN_ANEW}{startup_hints.RESET_IF_FETCHED}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the output format and the depth of the checks."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--deep", action="store_true", help="also compare every index with its table"
    )


def run(args: argparse.Namespace) -> int:
    """Print the state, or a line for each of several accounts; the exit code says it too."""
    from mcp_notarium.cli import accounts  # noqa: PLC0415 - it imports this module

    if accounts.are_meant(args):
        return accounts.show(args)
    try:
        loaded = command_context.prepare_account(args)
    except ConfigError:
        folder = account_dir_here(env_file=args.env_file, account=args.account)
        for unsaved in draft_files.describe_kept(folder) if folder is not None else ():
            terminal.talk(name_account(unsaved))
        raise
    facts = collect(loaded.config, deep=args.deep) | {"key_from": _describe_origin(loaded)}
    print_data(facts, format_facts(facts), as_json=args.json)
    return int(facts["exit_code"])


def collect(config: Config, *, deep: bool = False, whole: bool = True) -> dict[str, Any]:
    """Return the facts as plain JSON values; a locked account is a fact, not an error.

    ``deep`` also compares every index with its table; ``whole`` False reads a few pages only.
    """
    cautious = replace(config, on_unreadable="refuse")
    facts: dict[str, Any] = {
        "version": __version__,
        "account": config.account.shown,
        "folder": str(config.account_dir),
        "encryption": "on" if config.db_encryption else "off",
        "backend": config.store.name,
        "clients": [
            str(one) for one in find_holders(AccountFolder(config.account_dir).server_lock)
        ],
    }
    try:
        # Asked with the settings as they are, because a refusal says why no rebuild is possible.
        facts |= _decision_facts(cautious, inspection.verdict(config), deep=deep, whole=whole)
    except (LockedError, CacheError) as error:
        facts |= describe_failure(error)
    unsaved = draft_files.describe_kept(config.account_dir)  # whether the account opens or not
    return facts | {"notices": [*facts.get("notices", ()), *unsaved]}


def _decision_facts(
    config: Config, decision: Decision, *, deep: bool, whole: bool
) -> dict[str, Any]:
    """Return what start-up would do; only a database that is in order is opened."""
    match decision:
        case Locked():
            raise decision.error()
        case Create():
            obstacle = find_obstacle(AccountFolder(config.account_dir))
            if obstacle is not None:
                raise LockedError(
                    Verdict.UNSAFE_PATH, obstacle.reason, resolution_hint=obstacle.command
                )
            return _ok_facts("not made yet")
        case Rebuild():
            return _decision_facts(config, inspection.verdict(config), deep=deep, whole=whole)
        case Open():
            facts = asyncio.run(_open_facts(config, deep=deep, whole=whole)) | _key_facts(config)
            _require_space(config)
            return facts


def _require_space(config: Config) -> None:
    """Raise ``CacheFull`` or ``LockedError`` if a server could not even begin. Tries it with a file without a name."""
    with disk_errors("a server cannot open the cache"):
        try:
            with tempfile.TemporaryFile(dir=config.account_dir, buffering=0) as file:
                file.write(bytes(_FREE_BYTES))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(config.account_dir)) from error


def _ok_facts(cache: str) -> dict[str, Any]:
    return {"verdict": "ok", "exit_code": 0, "cache": cache}


def describe_failure(error: NotariumError) -> dict[str, Any]:
    """Return the facts about an account that may not or cannot be opened."""
    verdict = Verdict.BUSY if isinstance(error, CacheBusy) else getattr(error, "verdict", None)
    return {
        "verdict": verdict.name.lower() if verdict else error.subcategory or "unusable",
        "exit_code": int(verdict or error.exit_code),
        "message": error.message,
        "resolution_hint": error.person_hint or _AGAIN,
    }


def _key_facts(config: Config) -> dict[str, Any]:
    if not config.db_encryption:
        return {}
    keyfile = key_changes.list_slots(config, None).keyfile
    return {
        "keys": ", ".join(KEYS[slot.type] for slot in keyfile.slots),
        "key_changed_at": _format_time(keyfile.rotated or keyfile.created),
    }


def _describe_origin(loaded: Loaded) -> str | None:
    """Return where servers find the key: a file, a variable, the keychain; None if there is none."""
    config = loaded.config
    if not config.db_encryption:
        return None
    if config.db_key_origin == accounts.KEY_FILE:
        path = next(one.value for one in loaded.settings if one.name == accounts.KEY_FILE)
        return display_path(Path(path))
    return config.db_key_origin or secret_places.KEYCHAIN


async def _open_facts(config: Config, *, deep: bool, whole: bool) -> dict[str, Any]:
    async with open_app(config, syncing=False, whole=whole, read_only=True) as app:
        checked = "every page" if whole else "a few pages"
        facts = _ok_facts(IN_ORDER) | _cache_facts(app) | {"checked": checked}
        if app.rollback is not None:
            facts |= describe_failure(app.rollback.locked())
    if not deep:
        return facts
    wrong, compared = check_pages(config, app.cache.database)
    if wrong:
        mark_damage(AccountFolder(config.account_dir))
        raise opener.damage_error(config)
    return facts | {"checked": f"every page, every index{'' if compared else WITHOUT_SEARCH}"}


def check_pages(config: Config, database: Database) -> tuple[tuple[str, ...], bool]:
    """Return the faults in every page and index, and whether the search index was compared with the notes.

    ``database`` is closed. SQLite compares through a connection that may write, and closing the last one
    moves the log into the file. So nothing is compared if a killed process has left a log, nor on a
    read-only disk. Raises ``LockedError`` (BUSY).
    """
    folder = AccountFolder(config.account_dir)
    orphaned = has_log(database.path) and not find_holders(folder.server_lock)
    server_lock = ServerLock(folder).share()
    try:
        if not orphaned and os.access(database.path, os.W_OK):
            with (
                suppress(CacheBusy, CacheFull),
                closing(database.reopen(read_only=False)) as whole,
            ):
                return integrity.walk(whole, deep=True), True
        with closing(database.reopen(read_only=True)) as read:
            return integrity.walk(read, deep=True), False
    finally:
        server_lock.release()


def _cache_facts(app: App) -> dict[str, Any]:
    counts, metrics = app.cache.notes.counts(), app.cache.sync_state.metrics()
    writes = app.cache.journal.all()
    return {
        "login": _describe_login(app),
        "notes": counts.active,
        "notes_in_trash": counts.trashed,
        **file_facts(app),
        "complete": app.scheduler.status().complete,
        "size_bytes": app.cache.database.size_bytes(),
        "schema_version": app.cache.database.user_version(),
        "last_sync_at": _format_time(metrics.last_sync_at),
        "last_sync_status": metrics.status or None,
        "last_error": metrics.last_error,
        "pending_writes": sum(write.state is WriteState.IN_FLIGHT for write in writes),
        "rejected_writes": sum(write.state is WriteState.REJECTED for write in writes),
        "rejected_because": find_reasons(writes),
        "notices": [
            *app.all_notices(),
            *describe_kept(AccountFolder(app.config.account_dir)),
            *([] if app.cache.notes.visibility.matches_index else [_OTHER_RULES]),
        ],
    }


def find_reasons(writes: Iterable[PendingWrite]) -> list[str]:
    """Return why writes were refused for good, each reason once."""
    return sorted({one.reason for one in writes if one.state is WriteState.REJECTED})


def file_facts(app: App) -> dict[str, int]:
    """Return how many files the notes have in the database, and what they cost; nothing where they have none there."""
    tables = app.config.store.tables
    cost = read_file_cost(app.cache.database, tables) if tables else None
    return {} if cost is None else {"files": cost[0], "files_bytes": cost[1]}


def describe_files(facts: dict[str, Any]) -> str:
    """Say the same."""
    return f"{facts['files']:,}, {facts['files_bytes'] / 1e6:,.1f} MB"


def _describe_login(app: App) -> str:
    login = app.config.store.login
    if login is None:
        return "not needed"
    given = [name for name in login.variables if app.config.store_settings.secrets.get(name)]
    stored = app.tokens.load() is not None
    if not stored and not given:
        return "no; `mcp-notarium login` logs in"
    if app.scheduler.status().needs_login:
        return "refused at the last sync; `mcp-notarium login` logs in again"
    return "logged in" if stored else f"a server logs in with {' and '.join(given)}"


def format_facts(facts: dict[str, Any]) -> list[RenderableType]:
    """Return the facts as a table, notices below it, and what is wrong at the end."""
    shown: list[RenderableType] = [console.pairs(_rows(facts))]
    shown += [name_account(f"note: {notice}") for notice in facts.get("notices", ())]
    if facts["exit_code"]:
        state = "LOCKED" if facts["exit_code"] in set(Verdict) else "NOT USABLE"
        if "notes" in facts:
            state = "NOTHING CAN BE SAVED"
        about = f"{state} ({facts['verdict']}, exit code {facts['exit_code']})"
        shown += [
            "",
            Text.assemble((about, "bold red"), f": {facts['message']}"),
            console.hint(facts["resolution_hint"]),
        ]
    return shown


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Account", f"{facts['account']} ({facts['backend']})"
    yield "Folder", display_path(Path(facts["folder"]))
    if "login" in facts:
        yield "Login", facts["login"]
    if "notes" in facts:
        yield (
            "Notes",
            f"{facts['notes']:,}" + ("" if facts["complete"] else ", not all of them yet"),
        )
        yield "In the trash", f"{facts['notes_in_trash']:,}"
        if "files" in facts:
            yield "Files", describe_files(facts)
        yield "Last sync", _describe_sync(facts)
        yield (
            "Unfinished",
            f"{counted(facts['pending_writes'], 'write')}, {facts['rejected_writes']} refused",
        )
        if facts["rejected_because"]:
            why = "; ".join(facts["rejected_because"])
            yield "Refused because", f"{why}. `mcp-notarium refused` shows the texts"
    if "clients" in facts:
        yield "Clients", "; ".join(facts["clients"]) or "none connected"
    if "keys" in facts:
        yield "Keys", f"{facts['keys']}; changed {_local(facts['key_changed_at'])}"
    if facts.get("key_from"):
        yield "Key from", facts["key_from"]
    if "cache" in facts:
        checked = f" ({facts['checked']})" if "checked" in facts else ""
        size = f", {facts['size_bytes'] / 1e6:,.1f} MB" if "size_bytes" in facts else ""
        yield "Cache", f"{facts['cache']}{checked}{size}"
    yield "Encryption", facts["encryption"]


def _describe_sync(facts: dict[str, Any]) -> str:
    done = "never" if facts["last_sync_at"] is None else _local(facts["last_sync_at"])
    failed = f"; the last try failed: {facts['last_error']}" if facts["last_error"] else ""
    return f"{done}{failed}"


def _local(utc: str) -> str:
    return console.local_time(datetime.fromisoformat(utc).timestamp())


def _format_time(epoch: float | None) -> str | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC).isoformat(" ", "seconds")


COMMANDS = {"status": (add_arguments, run)}
