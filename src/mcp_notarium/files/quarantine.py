"""Move files into the quarantine, ``quarantine/<UTC time>/``, as they are.

Nothing is deleted here but the working copy of ``repair``. Nothing is moved while another process may
have it open: the caller holds both locks.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from mcp_notarium.errors import Unfinished
from mcp_notarium.files import os_errors
from mcp_notarium.files.account_folder import DATABASE, AccountFolder
from mcp_notarium.files.private_files import is_there, remove_tree, sync_folder
from mcp_notarium.system import SYSTEM

_STAMP = "%Y%m%dT%H%M%SZ"


def move(folder: AccountFolder, paths: Iterable[Path], *, now: float) -> Path | None:
    """Move what exists of ``paths``, in this order; return the folder they went to, if any did."""
    existing = [path for path in paths if is_there(path)]
    if not existing:
        return None
    target = create_folder(folder, now)
    for path in existing:
        SYSTEM.move(path, target / path.name)
    sync_folder(target)
    sync_folder(folder.path)
    return target


def move_all(folder: AccountFolder, *, now: float) -> Path | None:
    """Move the whole cache. Raises ``OSError`` with nothing moved, ``Unfinished`` with a part of it."""
    existing = [path for path in list_files(folder) if is_there(path)]
    try:
        return move(folder, existing, now=now)
    except OSError as error:
        if all(is_there(path) for path in existing):
            raise
        raise Unfinished(
            "the disk failed while the old cache was moved to the quarantine "
            f"({os_errors.describe_with_path(error)}): it is in `quarantine/`, in whole or in part",
            resolution_hint="Nothing is deleted. Run `mcp-notarium reset-cache` again when the disk "
            "works again: it moves the rest and goes on.",
        ) from error


def list_files(folder: AccountFolder, *, but: Iterable[Path] = ()) -> list[Path]:
    """List all files of an account's cache, in the order in which they are to be moved.

    Databases come first and what explains them last: after a crash in between, the next start knows
    no less than before about what is still there.
    """
    kept = set(but)
    databases = sorted(folder.path.glob("notarium_cache*"))
    keys = [folder.key_copy, folder.key_file, folder.prepared_key_file]
    rest = (folder.audit_anchor, folder.damage_marker)
    return [path for path in (*databases, *keys, *rest) if path not in kept]


def find_last_use(folder: AccountFolder) -> float | None:
    """Find when something was last moved to the quarantine, in epoch seconds."""
    return max(_times(folder), default=None)


def count_databases(folder: AccountFolder, *, since: float) -> int:
    """Count the encrypted databases that were moved to the quarantine since then, in epoch seconds.

    A folder that cannot be listed counts as one.
    """
    found = find_databases(folder)
    places = (*found.databases, *(one.folder for one in found.unlisted))
    times = map(_epoch, {path.relative_to(folder.quarantine).parts[0] for path in places})
    return sum(at is not None and at >= since for at in times)


def _times(folder: AccountFolder) -> list[float]:
    if not folder.quarantine.is_dir():
        return []
    times = (_epoch(path.name) for path in folder.quarantine.iterdir())
    return [at for at in times if at is not None]


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Name a folder that could not be listed: there may be a database in it."""

    folder: Path
    error: OSError

    def describe(self) -> tuple[str, str]:
        """Return which folder and why, and what to do."""
        why = os_errors.describe_with_path(self.error)
        return (
            f"a folder cannot be listed and may hold a database ({why})",
            "Move it to where you can look into it, or delete it if you need nothing in it.",
        )


@dataclass(frozen=True, slots=True)
class FoundDatabases:
    """Hold the folders of the quarantine with an encrypted database, and those that may have one: old keys may open it."""

    databases: tuple[Path, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()


def find_databases(folder: AccountFolder) -> FoundDatabases:
    """List the quarantine's folders that hold an encrypted database, or cannot be listed.

    Raises ``OSError`` if the quarantine itself cannot.
    """
    if not folder.quarantine.is_dir():
        return FoundDatabases()
    unlisted: list[Unlisted] = []

    def note(at: Path, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # defence: unlisted-quarantine-told
            unlisted.append(Unlisted(at, error))

    found = {
        path.parent
        for path, one in SYSTEM.walk(folder.quarantine, unseen=note)
        if DATABASE.fullmatch(path.name) and path.parent != folder.quarantine
        if not one.is_dir(follow_symlinks=False)
    }
    return FoundDatabases(tuple(sorted(found)), tuple(unlisted))


def _epoch(name: str) -> float | None:
    """Return when a folder of this name was made; None if it is none of ours."""
    try:
        return datetime.strptime(name.partition("-")[0], _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def work_folder(folder: AccountFolder) -> Path:
    """Return the folder in which ``repair`` keeps its copy of the damaged files while it works."""
    return folder.quarantine / "being-repaired"


def create_work_folder(folder: AccountFolder) -> Path:
    """Create the work folder, empty. Raises ``FileExistsError`` if it is there."""
    folder.quarantine.mkdir(mode=0o700, exist_ok=True)
    path = work_folder(folder)
    path.mkdir(mode=0o700)
    return path


def remove_work_folder(folder: AccountFolder) -> None:
    """Remove the work folder with its content, also what a killed ``repair`` has left."""
    remove_tree(work_folder(folder))


def create_folder(folder: AccountFolder, now: float) -> Path:
    """Create an empty folder in the quarantine, named after the time (epoch seconds)."""
    folder.quarantine.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.path)  # or what is moved there next could be lost with the folder's name
    stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
    for number in count(1):
        target = folder.quarantine / (stamp if number == 1 else f"{stamp}-{number}")
        with suppress(FileExistsError):
            target.mkdir(mode=0o700)
            break
    sync_folder(folder.quarantine)
    return target
