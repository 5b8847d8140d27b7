"""``mcp-notarium doctor``: examines configuration, libraries, folder, keys, cache and the way to the service.

Changes nothing but the mark by which the next start knows of damage; whether a first cache can be made
it tries with an empty folder, which goes again. Exit code: the verdict's (10-23) if the cache is
locked or a page of it is damaged, 1 if the configuration is wrong, else 0, also when the note service
cannot be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from mcp_notarium import __version__
from mcp_notarium.app import App, open_app
from mcp_notarium.cache import driver
from mcp_notarium.cli import keys, sbom, settings, status
from mcp_notarium.config import Config
from mcp_notarium.crypto.keyslots import KeyFile, SlotState
from mcp_notarium.errors import ConfigError, LockedError, NotariumError
from mcp_notarium.keys import opening, slots
from mcp_notarium.keys.folder import AccountFolder
from mcp_notarium.keys.holders import holders
from mcp_notarium.keys.keychain import system_keychain
from mcp_notarium.sync.leader import Leader

OK, WARN, BAD = "ok", "warn", "bad"
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: its name, ``ok``, ``warn`` or ``bad``, what was seen, what to do."""

    name: str
    state: str
    seen: str
    hint: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The form of the answer, and how far to look."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--deep", action="store_true", help="read every page of the database")
    parser.add_argument("--offline", action="store_true", help="do not ask the note service")
    parser.add_argument(
        "--sbom",
        action="store_true",
        help="only print what is installed and loaded here, native libraries included (CycloneDX)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings; the exit code says the worst."""
    if args.sbom:
        return sbom.run()
    try:
        config = settings.prepare(args)
    except ConfigError as error:
        found = [Finding("configuration", BAD, error.user_message, error.resolution_hint or "")]
        return _printed(found, 1, as_json=args.json)
    found = [Finding("configuration", OK, f"account folder {config.account_dir}")]
    found += [_libraries(), _keychain(config)]
    cache, code = _cache(replace(config, on_unreadable="refuse"), args)
    return _printed(found + cache, code, as_json=args.json)


def _cache(config: Config, args: argparse.Namespace) -> tuple[list[Finding], int]:
    """The findings about the cache, its verdict first, and the exit code."""
    facts, inside = status.collect(config), []
    if facts["exit_code"] == 0 and facts["cache"] == status.IN_ORDER:
        inside = keys_findings(config)
        try:
            inside += asyncio.run(_inside(config, deep=args.deep, offline=args.offline))
        except LockedError as error:
            facts = status.refused(error)
    if any(one.name == "pages" and one.state == BAD for one in inside):
        facts = status.refused(opening.damaged(config))
    return [_verdict(facts), *inside], facts["exit_code"]


def _libraries() -> Finding:
    try:
        seen = driver.facts()
    except LockedError as error:
        return Finding("libraries", BAD, error.user_message, error.resolution_hint or "")
    sqlite = ".".join(str(part) for part in seen.sqlite_version)
    return Finding(
        "libraries",
        OK,
        f"mcp-notarium {__version__}, {seen.distribution}: SQLCipher {seen.cipher_version}, "
        f"SQLite {sqlite}, {seen.provider}",
    )


def _keychain(config: Config) -> Finding:
    if not config.keychain:
        return Finding("keychain", OK, "switched off (NOTARIUM_KEYCHAIN=off)")
    system = system_keychain()
    try:
        if system.missing:
            return Finding("keychain", OK, "none here; a login is kept in the encrypted cache")
        return Finding("keychain", OK, system.name)
    except LockedError as error:
        return Finding("keychain", WARN, error.message, error.resolution_hint or "")


def _verdict(facts: dict[str, Any]) -> Finding:
    if facts["exit_code"]:
        return Finding(
            "cache", BAD, f"{facts['verdict']}: {facts['message']}", facts["resolution_hint"]
        )
    return Finding("cache", OK, facts["cache"])


def keys_findings(config: Config) -> list[Finding]:
    """The ways into an encrypted cache, who is in it, and databases that nothing opens."""
    if not config.db_encryption:
        return []
    found = slots.listing(config, None).keyfile
    folder = AccountFolder(config.account_dir)
    return [
        _slots(found),
        _strangers(folder, found.generation),
        _permissions(config),
        _users(folder),
    ]


def _slots(found: KeyFile) -> Finding:
    active = [s for s in found.slots if s.state is not SlotState.DISABLED]
    days = (int(time.time()) - (found.rotated or found.created)) // _DAY
    seen = f"{', '.join(s.type.value for s in active)}; last changed {max(days, 0)} days ago"
    known = any(s.state is SlotState.COMPROMISED for s in active)
    return Finding("keys", WARN if known else OK, seen, " ".join(keys.advice(found.slots)))


def _strangers(folder: AccountFolder, generation: str) -> Finding:
    strange = [folder.database(g).name for g in folder.generations() if g != generation]
    if not strange:
        return Finding("databases", OK, "one, and the key file names it")
    hint = f"Delete it in {folder.path}, or keep it with the key file that opens it."
    return Finding("databases", WARN, f"no key file here names {', '.join(strange)}", hint)


def _permissions(config: Config) -> Finding:
    """Start-up refuses what it opens itself if others may read it; this looks at the rest too."""
    if os.name != "posix":
        return Finding("permissions", OK, "left to the system's own rules for your folder")
    places = [config.account_dir, *config.account_dir.rglob("*")]
    places += [config.log_file] if config.log_file is not None else []
    seen = [path for path in places if path.exists() and path.lstat().st_mode & 0o077]
    if not seen:
        return Finding("permissions", OK, f"{len(places)} files and folders, for you alone")
    commands = "; ".join(f"chmod go= {shlex.quote(str(path))}" for path in seen[:3])
    return Finding("permissions", WARN, f"{len(seen)} can be read by others", f"Run {commands}")


def _users(folder: AccountFolder) -> Finding:
    named = "; ".join(str(one) for one in holders(folder.server_lock))
    return Finding("open by", OK, named or "nobody else that could be seen")


async def _inside(config: Config, *, deep: bool, offline: bool) -> list[Finding]:
    async with open_app(config, syncing=False) as app:
        found = [_sync(app), _writes(app), _quarantine(config)]
        if not offline:
            found.append(await _service(app))
        return [_pages(app, config, deep=deep), *found]  # last: a bad page closes the cache


def _pages(app: App, config: Config, *, deep: bool) -> Finding:
    """Checked only if no server is at work: the check moves the log, and one process may do that."""
    leader = Leader(config.account_dir / "sync.lock")
    if not leader.acquire():
        return Finding("pages", OK, "not checked: a server is at work on this cache")
    try:
        wrong = app.cache.database.check(deep=deep)
    finally:
        leader.release()
    if wrong:
        return Finding("pages", BAD, f"{len(wrong)} faults, first: {wrong[0]}")
    return Finding("pages", OK, "every page is authentic, search index and tables agree")


def _sync(app: App) -> Finding:
    facts = app.cache.sync_state.metrics()
    if facts.last_sync_at is None:
        return Finding(
            "sync", WARN, "has never completed", "Start a server, or `mcp-notarium login`."
        )
    if facts.last_error:
        return Finding("sync", WARN, facts.last_error)
    left_out = app.driver.status().left_out
    if left_out:
        hint = "See them in the note service's own app; copy their text into new notes to have it here."
        return Finding("sync", WARN, f"{left_out} notes have an id that cannot be asked for", hint)
    return Finding("sync", OK, f"last cycle: {facts.status}")


def _writes(app: App) -> Finding:
    writes = len(app.cache.pending.all())
    if not writes:
        return Finding("writes", OK, "none unfinished")
    hint = "They are finished, with their own ids, as soon as a server reaches the note service."
    return Finding("writes", WARN, f"{writes} unfinished", hint)


def _quarantine(config: Config) -> Finding:
    """What was set aside stays until the person removes it."""
    folder = config.account_dir / "quarantine"
    kept = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not kept:
        return Finding("quarantine", OK, "empty")
    hint = f"Delete {folder} when you are sure that nothing in it is needed."
    return Finding("quarantine", OK, f"{len(kept)} sets of old files, newest {kept[-1]}", hint)


async def _service(app: App) -> Finding:
    try:
        await app.backend.list_page(since=None, mark=None, limit=1, with_content=False)
    except NotariumError as error:
        return Finding("service", WARN, error.user_message, error.resolution_hint or "")
    finally:
        await app.backend.close()
    return Finding("service", OK, "reachable, and the login is accepted")


def _printed(found: list[Finding], code: int, *, as_json: bool) -> int:
    if as_json:
        body = {"exit_code": code, "findings": [asdict(one) for one in found]}
        sys.stdout.write(json.dumps(body, indent=2) + "\n")
        return code
    for one in found:
        sys.stdout.write(f"{one.state:<5} {one.name:<14} {one.seen}\n")
        if one.hint:
            sys.stdout.write(f"      {'':<14} → {one.hint}\n")
    return code
