"""What ``doctor`` finds in the account's folder without opening the cache: keys, files, rights, locks.

Needs no key and changes nothing, so that it can be told of a locked cache, too.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from mcp_notarium.account import slot_management
from mcp_notarium.cli import keys
from mcp_notarium.config import Config
from mcp_notarium.crypto.key_slots import KeyFile, SlotState
from mcp_notarium.errors import LockedError
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, find_problem
from mcp_notarium.files.locks import find_holders

OK, WARN, BAD, NOT_CHECKED = "ok", "warn", "bad", "-"
OLD_DAYS = 365
"""A key that was not changed for so long is worth a reminder."""
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: its name, ``ok``, ``warn``, ``bad`` or ``-``, what was seen, what to do.

    ``-``: it was not looked at, and what was seen says why.
    """

    name: str
    state: str
    seen: str
    hint: str = ""


def outside(config: Config) -> list[Finding]:
    """Everything that can be said without opening the cache; no more than is safe is looked at."""
    folder = AccountFolder(config.account_dir)
    if not folder.path.is_dir():
        return []
    looks: list[Callable[[Config, AccountFolder], Iterator[Finding]]] = [_permissions, _locks]
    if find_problem(folder) is None:
        looks = [_keys, *looks, _quarantine]
    found: list[Finding] = []
    for look in looks:
        with suppress(OSError):  # the verdict tells of a folder that cannot be read
            found += look(config, folder)
    return found


def _keys(config: Config, folder: AccountFolder) -> Iterator[Finding]:
    """The ways in, and databases that nothing opens; a lost key file is the verdict's business."""
    if not config.db_encryption:
        return
    with suppress(LockedError):
        found = slot_management.list_slots(config, None).keyfile
        yield slot_finding(found, now=time.time())
        yield _strangers(folder, found.generation)


def slot_finding(found: KeyFile, *, now: float) -> Finding:
    """The ways in, how old they are, and whether one of them is known to others."""
    active = [s for s in found.slots if s.state is not SlotState.DISABLED]
    days = max((int(now) - (found.rotated or found.created)) // _DAY, 0)
    seen = f"{', '.join(s.type.value for s in active)}; last changed {days} days ago"
    known = any(s.state is SlotState.COMPROMISED for s in active)
    says = keys.advice(found.slots)
    if days >= OLD_DAYS:
        says.append("The key is old: `mcp-notarium rotate-key` puts a new one in its place.")
    return Finding("keys", WARN if known or days >= OLD_DAYS else OK, seen, " ".join(says))


def _strangers(folder: AccountFolder, generation: str) -> Finding:
    generations = folder.generations()
    strange = [folder.database(g).name for g in generations if g != generation]
    if strange:
        hint = f"Delete it in {folder.path}, or keep it with the key file that opens it."
        return Finding("databases", WARN, f"no key file here names {', '.join(strange)}", hint)
    if not generations:
        return Finding("databases", WARN, "the one that the key file names is missing")
    return Finding("databases", OK, "one, and the key file names it")


def _permissions(config: Config, _folder: AccountFolder) -> Iterator[Finding]:
    """Start-up refuses what it opens itself if others may read it; this looks at the rest too."""
    if os.name != "posix":
        yield Finding("permissions", OK, "left to the system's own rules for your folder")
        return
    places = [config.account_dir, *config.account_dir.rglob("*")]
    places += [config.log_file] if config.log_file is not None else []
    seen = [path for path in places if path.exists() and path.lstat().st_mode & 0o077]
    if not seen:
        yield Finding("permissions", OK, f"{len(places)} files and folders, for you alone")
        return
    commands = "; ".join(f"chmod go= {shlex.quote(str(path))}" for path in seen[:3])
    yield Finding("permissions", WARN, f"{len(seen)} can be read by others", f"Run {commands}")


def _locks(_config: Config, folder: AccountFolder) -> Iterator[Finding]:
    """Who has the cache open, and who is changing its keys or moving its files."""
    users = "; ".join(str(one) for one in find_holders(folder.server_lock))
    yield Finding("open by", OK, users or "nobody else that could be seen")
    changers = "; ".join(str(one) for one in find_holders(folder.keys_lock))
    yield Finding("changed by", OK, changers or "nobody that could be seen")


def _quarantine(_config: Config, folder: AccountFolder) -> Iterator[Finding]:
    """What was set aside stays until the person removes it."""
    place = folder.quarantine
    work = quarantine.work_folder(folder)
    if work.exists():
        hint = (
            "`mcp-notarium repair` removes it when it is run again; while one is at work, leave it."
        )
        yield Finding("repair", WARN, "the copy that a repair works on is there", hint)
    kept = sorted(one.name for one in place.iterdir() if one != work) if place.is_dir() else []
    if not kept:
        yield Finding("quarantine", OK, "empty")
        return
    seen = f"{len(kept)} sets of old files, newest {kept[-1]}"
    hint = f"Delete {place} when you are sure that nothing in it is needed."
    databases = [str(one.relative_to(place)) for one in quarantine.find_databases(folder)]
    if databases:
        seen += f"; encrypted databases in {', '.join(databases)}"
        hint += " Old keys, with old copies of the key file, may still open its databases."
    yield Finding("quarantine", OK, seen, hint)
