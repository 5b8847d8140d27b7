"""Check for ``doctor`` what needs no open database: folder, keys, locks, policy, sandbox.

Needs no key and changes nothing, so that it works for a locked account, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.account import key_changes
from mcp_notarium.account.copies import describe_kept, list_copies
from mcp_notarium.cli import keys
from mcp_notarium.config import Config, Sandbox
from mcp_notarium.config.policy_file import READ_ONLY_VARIABLE, FoundPolicy
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import ConfigError, LockedError
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder, find_problem
from mcp_notarium.files.locks import find_holders
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.report.words import KEYS, Check, counted
from mcp_notarium.sandbox.confinement import describe_effect
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.app import App

OK, WARN, BAD, NOT_CHECKED = "ok", "warn", "bad", "-"
OLD_DAYS = 365
"""Days after which an unchanged key causes a reminder."""
CLOCK_SECONDS = 60.0
"""Seconds by which two clocks may differ without a warning."""
_DAY = 86_400


def check_folder(config: Config) -> list[Check]:
    """Return all findings of the folder that need no open database; reads no more than is safe."""
    folder = AccountFolder(config.account_dir)
    if not folder.path.is_dir():
        return []
    checks: list[Callable[[Config, AccountFolder], Iterator[Check]]] = [
        _check_permissions,
        _check_locks,
    ]
    if find_problem(folder) is None:
        checks = [_check_keys, *checks, _check_quarantine, _check_copies]
    found: list[Check] = []
    for check in checks:
        with suppress(OSError):  # the verdict reports an unreadable folder
            found += check(config, folder)
    return found


def _check_keys(config: Config, folder: AccountFolder) -> Iterator[Check]:
    """Check the key slots, and find databases that no key opens; the verdict reports a lost key file."""
    if not config.db_encryption:
        return
    with suppress(LockedError):
        found = key_changes.list_slots(config, None).keyfile
        yield check_slots(found, now=time.time())
        yield _check_databases(folder, found.generation)


def check_slots(found: KeyFile, *, now: float) -> Check:
    """Return which slots there are, and how old they are."""
    days = max((int(now) - (found.rotated or found.created)) // _DAY, 0)
    shown = ", ".join(KEYS[one.type] for one in found.slots)
    seen = f"{shown}; last changed {counted(days, 'day')} ago"
    says = keys.advise(found.slots)
    if days >= OLD_DAYS:
        says.append("The key is old: replace it with `mcp-notarium rotate-key`.")
    return Check("keys", WARN if days >= OLD_DAYS else OK, seen, " ".join(says))


def _check_databases(folder: AccountFolder, generation: str) -> Check:
    generations = folder.generations()
    unknown = [folder.database(g).name for g in generations if g != generation]
    if unknown:
        hint = f"Delete it in {folder.path}, or keep it with the key file that opens it."
        return Check("databases", WARN, f"no key file here names {', '.join(unknown)}", hint)
    if not generations:
        return Check("databases", WARN, "the one that the key file names is missing")
    return Check("databases", OK, "one, and the key file names it")


def _check_permissions(config: Config, _folder: AccountFolder) -> Iterator[Check]:
    """Check the rest of the files too: start-up only refuses what it opens itself."""
    unseen: dict[Path, OSError] = {}

    def note(folder: Path, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unseen.setdefault(folder, error)

    places = [config.account_dir]
    places += [
        path  # a link has no rights of its own
        for path, one in SYSTEM.walk(config.account_dir, unseen=note)
        if one.is_dir(follow_symlinks=False) or one.is_file(follow_symlinks=False)
    ]
    places += [config.log_file] if config.log_file is not None else []
    seen: list[Path] = []
    for path in places:
        try:
            if not SYSTEM.access(path, path.lstat()).is_private:
                seen.append(path)
        except OSError as error:  # its folder may be listed, and no more
            note(path.parent, error)
    for folder, why in unseen.items():
        said = f"what is in {display_path(folder)} cannot be checked ({os_errors.describe(why)})"
        yield Check("permissions", WARN, said, os_errors.suggest_fix(why, place=folder))
    if seen:
        commands = "; ".join(map(_private_command, seen[:3]))
        yield Check("permissions", WARN, f"{len(seen)} can be read by others", f"Run {commands}")
    elif not unseen:
        count = counted(len(places), "file or folder", "files and folders")
        yield Check("permissions", OK, f"{count}, for you alone")


def _private_command(path: Path) -> str:
    quoted, folder = SYSTEM.quote(str(path)), path.is_dir()
    return SYSTEM.explain_privacy(path, quoted, folder=folder, reading=True)


def _check_locks(_config: Config, folder: AccountFolder) -> Iterator[Check]:
    users = "; ".join(str(one) for one in find_holders(folder.server_lock))
    yield Check("open by", OK, users or "nobody else that could be seen")
    changers = "; ".join(str(one) for one in find_holders(folder.keys_lock))
    yield Check("changed by", OK, changers or "nobody that could be seen")


def _check_quarantine(_config: Config, folder: AccountFolder) -> Iterator[Check]:
    """Report the files in the quarantine; they stay until the user removes them."""
    place = folder.quarantine
    work = quarantine.work_folder(folder)
    if work.exists():
        hint = "Run `mcp-notarium repair` again to remove it. Leave it while a repair is running."
        yield Check("repair", WARN, "the work copy of a repair is still there", hint)
    kept = sorted(one.name for one in place.iterdir() if one != work) if place.is_dir() else []
    if not kept:
        yield Check("quarantine", OK, "empty")
        return
    seen = f"{counted(len(kept), 'set')} of old files, newest {kept[-1]}"
    hint = f"Delete {place} when you are sure that nothing in it is needed."
    found = quarantine.find_databases(folder)
    if databases := [str(one.relative_to(place)) for one in found.databases]:
        seen += f"; encrypted databases in {', '.join(databases)}"
        hint += " Old keys, with old copies of the key file, may still open its databases."
    yield Check("quarantine", OK, seen, hint)
    for one in found.unlisted:
        yield Check("quarantine", WARN, *one.describe())


def _check_copies(config: Config, folder: AccountFolder) -> Iterator[Check]:
    if config.store.tables is None:
        return
    found = list_copies(folder)
    for kept in describe_kept(folder):
        yield Check("kept copy", WARN, kept)
    if found:
        at = datetime.fromtimestamp(found[0].at, UTC)
        yield Check("copies", OK, f"{len(found)}, the newest of {at:%Y-%m-%d %H:%M} UTC")
    elif not config.db_encryption:
        yield Check("copies", WARN, "none: only an encrypted notebook is copied")
    else:
        seen = "none yet; one is made when a server stops after changes, as the only one that has it open"
        yield Check("copies", OK, seen)


def check_policy(found: FoundPolicy) -> Check:
    """Return the active policy file and the remaining tools; ``policy show`` prints its rules."""
    where = "no policy file" if found.path is None else display_path(found.path)
    if found.read_only:
        where += f", {READ_ONLY_VARIABLE}"
    tools = ", ".join(found.policy.tools) or "none"
    profiles = f"; profiles: {', '.join(found.profiles)}" if found.profiles else ""
    return Check("policy", OK, f"{where}; mode {found.policy.mode}; tools: {tools}{profiles}")


def check_meaning(config: Config, app: App | None = None) -> list[Check]:
    """Return whether the model for search by meaning loads; nothing without one. ``app``: also how many notes wait for it."""
    folder = config.meaning_model
    if folder is None:
        return []
    from mcp_notarium.meaning.embedder import Embedder  # noqa: PLC0415 - an extra
    from mcp_notarium.storage.vector_table import VectorTable  # noqa: PLC0415 - as above

    try:
        model = Embedder(folder).model
    except ConfigError as error:
        return [Check("meaning", WARN, error.message, error.person_hint)]
    if app is None:
        return [Check("meaning", OK, "the model can be used")]
    waiting = VectorTable(app.cache.database).count_missing(model)
    seen = f"{counted(waiting, 'note')} found by words only until a server has embedded them"
    return [Check("meaning", OK, seen if waiting else "every note is found by its meaning too")]


def check_clock(ahead: float | None) -> list[Check]:
    """Report that the clocks of the store and of this computer differ by ``ahead`` seconds, if that is much."""
    if ahead is None or abs(ahead) < CLOCK_SECONDS:
        return []
    size = counted(round(abs(ahead) / 60), "minute")
    seen = (
        f"the store's clock is {size} {'ahead of' if ahead > 0 else 'behind'} that of this computer"
    )
    hint = "Set the one that is wrong: the dates of notes are by both."
    return [Check("clock", WARN, seen, hint)]


def check_policy_digest(app: App) -> Check:
    """Return the keyed digest that a server started now leaves in the audit log for this policy."""
    digest = app.audit.digest("policy", app.config.policy.meaning)
    return Check("policy digest", OK, digest or "none without encryption")


def check_sandbox(mode: Sandbox) -> Check:
    """Return whether a server would confine itself, and to what, on this kernel."""
    try:
        effect = describe_effect(mode)
    except ConfigError as error:
        return Check("sandbox", BAD, error.message, error.person_hint)
    if effect is None:
        return Check("sandbox", WARN, "off: a server keeps all its rights (NOTARIUM_SANDBOX=off)")
    weak = "not confined" in effect and SYSTEM.can_confine
    return Check("sandbox", WARN if weak else OK, f"{mode}: {effect}")
