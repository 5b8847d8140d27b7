"""Run ``mcp-notarium doctor``: check configuration, libraries, folder, keys, database and network.

It writes nothing but the mark that tells the next start about damage; it tries whether a database can be created, and
undoes that. Exit code: the verdict's (10-23); 1 if the configuration is wrong, the store
cannot work as it is set up, a required sandbox is not available, or the disk is full; else 0, also if the store
cannot be reached now.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group
from rich.text import Text

from mcp_notarium import __version__
from mcp_notarium.account import audit_anchor, copies, opener
from mcp_notarium.account.inspection import mark_damage
from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, console, doctor_checks, status
from mcp_notarium.cli.doctor_checks import BAD, NOT_CHECKED, OK, WARN, check_clock, check_folder
from mcp_notarium.cli.terminal import name_account, print_data
from mcp_notarium.config import Config, Loaded
from mcp_notarium.crypto import user_key
from mcp_notarium.domain.note import WriteState
from mcp_notarium.errors import CacheError, ConfigError, LockedError, NotariumError, to_person
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import find_holders
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.keys.keychain import system_keychain
from mcp_notarium.keys.secret_places import find_passphrase
from mcp_notarium.report.words import Check, counted
from mcp_notarium.storage import driver
from mcp_notarium.storage.database_opener import Database

_COLOURS = {OK: "green", WARN: "yellow", NOT_CHECKED: "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the output format and the depth of the checks."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--deep",
        action="store_true",
        help="compare every index with its table, even while a server runs",
    )
    parser.add_argument("--offline", action="store_true", help="do not ask the note store")


def run(args: argparse.Namespace) -> int:
    """Print the findings; the exit code is that of the worst."""
    try:
        loaded = command_context.load(args)
    except ConfigError as error:
        found = [Check("configuration", BAD, error.message, error.person_hint)]
        return _print(found, 1, as_json=args.json)
    found, code = examine(loaded, deep=args.deep, offline=args.offline)
    return _print(found, code, as_json=args.json)


def examine(
    loaded: Loaded, *, deep: bool = False, offline: bool = False, pages: bool = True
) -> tuple[list[Check], int]:
    """Return all findings, and the exit code of the worst.

    ``offline``: the store is not asked. ``pages`` False: neither pages nor indexes are read through.
    """
    config = loaded.config
    stored = config.store.persistent
    where = (
        f"account folder {display_path(config.account_dir)}"
        if stored
        else f"{config.store.title}, no folder"
    )
    found = [Check("configuration", OK, where)]
    found += [_check_libraries(), _check_keychain(config)]
    found += [
        doctor_checks.check_policy(loaded.policy),
        doctor_checks.check_sandbox(config.sandbox),
    ]
    if not stored:
        return [*found, *doctor_checks.check_meaning(config)], _exit_code(found)
    cache, code = _check_cache(config, deep=deep, offline=offline, pages=pages)
    if not any(one.name == "meaning" for one in cache):  # no database was opened
        cache += doctor_checks.check_meaning(config)
    return found + cache, code or _exit_code(found + cache)


def _exit_code(found: list[Check]) -> int:
    return int(any(one.name in ("sandbox", "service") and one.state == BAD for one in found))


def _check_cache(
    config: Config, *, deep: bool, offline: bool, pages: bool
) -> tuple[list[Check], int]:
    facts, inside = status.collect(config, whole=pages), check_folder(config)
    config = replace(config, on_unreadable="refuse")
    if facts.get("cache") == status.IN_ORDER:
        try:
            inside += asyncio.run(
                _check_open_cache(config, deep=deep, offline=offline, pages=pages)
            )
        except (LockedError, CacheError) as error:
            facts = status.describe_failure(error)
        inside += _check_passphrase(config)
    elif facts["exit_code"] == 0 and not offline:
        inside += asyncio.run(_check_without_cache(config))
    if any(one.name == "pages" and one.state == BAD for one in inside):
        facts = status.describe_failure(opener.damage_error(config))
    return [_verdict_finding(facts), *inside], facts["exit_code"]


def _check_passphrase(config: Config) -> list[Check]:
    key = find_passphrase(config) if config.db_encryption else None
    if key is None:
        return []
    reason = user_key.weakness(key.passphrase, account=config.account.name)
    if reason is None:
        return []
    hint = "Replace it with `mcp-notarium rotate-key`."
    return [Check("passphrase", WARN, f"the one in {key.origin} can be guessed: {reason}", hint)]


def _check_libraries() -> Check:
    try:
        seen = driver.facts()
    except LockedError as error:
        return Check("libraries", BAD, error.message, error.person_hint)
    sqlite = ".".join(str(part) for part in seen.sqlite_version)
    return Check(
        "libraries",
        OK,
        f"mcp-notarium {__version__}, {seen.distribution}: SQLCipher {seen.cipher_version}, "
        f"SQLite {sqlite}, {seen.provider}",
    )


def _check_keychain(config: Config) -> Check:
    if not config.keychain:
        return Check("keychain", OK, "switched off (NOTARIUM_KEYCHAIN=off)")
    system = system_keychain()
    try:
        if system.missing:
            return Check("keychain", OK, "none here; a login is kept in the encrypted cache")
        return Check("keychain", OK, system.name)
    except LockedError as error:
        return Check("keychain", WARN, error.message, error.person_hint)


def _verdict_finding(facts: dict[str, Any]) -> Check:
    if facts["exit_code"]:
        return Check(
            "cache", BAD, f"{facts['verdict']}: {facts['message']}", facts["resolution_hint"]
        )
    return Check("cache", OK, facts["cache"])


async def _check_open_cache(
    config: Config, *, deep: bool, offline: bool, pages: bool
) -> list[Check]:
    async with open_app(config, syncing=False, read_only=True) as app:
        found = [
            _check_sync(app),
            *_check_writes(app),
            *_check_differences(app),
            *_check_copy_age(app),
            *_check_place(app),
            *_check_files(app),
            *doctor_checks.check_meaning(config, app),
            doctor_checks.check_policy_digest(app),
            _check_chain(app),
        ]
        if not offline:
            found += await _check_service(app)
    return [_check_pages(config, app.cache.database, deep=deep), *found] if pages else found


async def _check_without_cache(config: Config) -> list[Check]:
    """Check what the store needs before there is a cache. Makes none."""
    async with open_app(config, syncing=False, read_only=True, in_memory=True) as app:
        return [*_check_place(app), *await _check_service(app)]


def _check_pages(config: Config, database: Database, *, deep: bool) -> Check:
    """Check the pages; only if asked for while a server runs, which this would slow down."""
    folder = AccountFolder(config.account_dir)
    if not deep and find_holders(folder.server_lock):
        seen = "not checked: a server is using this cache (add --deep to check)"
        return Check("pages", NOT_CHECKED, seen)
    wrong, compared = status.check_pages(config, database)
    if wrong:
        mark_damage(folder)
        return Check("pages", BAD, f"{counted(len(wrong), 'fault')}, first: {wrong[0]}")
    agree = "search index and tables agree" if compared else f"every index{status.WITHOUT_SEARCH}"
    return Check("pages", OK, f"every page is authentic, {agree}")


def _check_sync(app: App) -> Check:
    facts = app.cache.sync_state.metrics()
    if facts.last_error:
        way = to_person(facts.error_kind.resolution_hint) if facts.error_kind else ""
        return Check("sync", WARN, facts.last_error, way)
    if facts.last_sync_at is None:
        other_way = ", or `mcp-notarium login`" if app.config.store.login else ""
        return Check("sync", WARN, "has never completed", f"Start a server{other_way}.")
    left_out = app.scheduler.status().left_out
    if left_out:
        hint = f"Open them in {app.config.store.title}, and copy their text into new notes to have it here."
        return Check(
            "sync",
            WARN,
            f"{counted(left_out, 'note has', 'notes have')} no usable id or readable text",
            hint,
        )
    return Check("sync", OK, f"last cycle: {facts.status}")


def _check_writes(app: App) -> list[Check]:
    writes = app.cache.journal.all()
    refused = sum(one.state is WriteState.REJECTED for one in writes)
    found = []
    if left := len(writes) - refused:
        hint = "A server finishes them, with their own ids, as soon as it reaches the note store."
        found.append(Check("writes", WARN, f"{left} unfinished", hint))
    if refused:
        seen = f"{refused} refused for good: {'; '.join(status.find_reasons(writes))}"
        hint = "Nothing sends them again. `mcp-notarium refused` shows their texts."
        found.append(Check("writes", WARN, seen, hint))
    return found or [Check("writes", OK, "none unfinished")]


def _check_differences(app: App) -> list[Check]:
    seen = app.describe_differences()
    hint = f"Compare such a note in {app.config.store.title}; look for a proxy on the way."
    return [Check("texts", WARN, seen, hint)] if seen else []


def _check_files(app: App) -> list[Check]:
    facts = status.file_facts(app)
    return [Check("files", OK, status.describe_files(facts))] if facts.get("files") else []


def _check_place(app: App) -> list[Check]:
    notices = app.config.store.notices(app.config.store_settings)
    return [Check("notes", WARN, notice) for notice in notices]


def _check_copy_age(app: App) -> list[Check]:
    notice = copies.find_age_notice(app.notices)
    return [Check("age of copies", WARN, notice)] if notice else []


def _check_chain(app: App) -> Check:
    """Check the end of the audit chain, as every start does; ``audit verify`` checks all of it."""
    notice = audit_anchor.find_chain_notice(app.notices)
    if notice is None:
        seen = "its end matches the anchor; `mcp-notarium audit verify` checks all of it"
        return Check("audit chain", OK, seen)
    hint = (
        f"{audit_anchor.LOOK} If you know why (you put back an older copy of the folder, say), "
        "`mcp-notarium audit accept` records that."
    )
    return Check("audit chain", WARN, notice.removesuffix(audit_anchor.LOOK).rstrip(), hint)


async def _check_service(app: App) -> list[Check]:
    found = await _ask_service(app)
    clock = app.config.store.clock
    return [found, *check_clock(clock(app.store) if clock else None)]


async def _ask_service(app: App) -> Check:
    try:
        await app.store.list_page(since=None, mark=None, limit=1, with_content=False)
        describe = app.config.store.describe
        seen = f"{await describe(app.store)} is reachable" if describe else "reachable"
    except NotariumError as error:
        state = WARN if error.retryable else BAD
        return Check("service", state, error.message, error.person_hint)
    finally:
        await app.store.close()
    if app.store.traits.in_database:
        return Check("service", OK, "none: the notes are in this database")
    accepted = ", and the login is accepted" if app.config.store.login else ""
    return Check("service", OK, f"{seen}{accepted}")


def _print(found: list[Check], code: int, *, as_json: bool) -> int:
    rows = [
        (
            Text(one.state, style=_COLOURS.get(one.state, "bold red")),
            one.name,
            Group(name_account(one.seen), *([console.hint(one.hint)] if one.hint else [])),
        )
        for one in found
    ]
    facts = {"exit_code": code, "findings": [asdict(one) for one in found]}
    print_data(facts, [console.table(("", "", ""), rows, least=4)], as_json=as_json)
    return code


COMMANDS = {"doctor": (add_arguments, run)}
