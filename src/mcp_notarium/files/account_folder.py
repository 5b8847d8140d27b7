"""Name the files of an account folder, and check that it may be trusted and used.

Nobody but the user may read it. Nobody but the user (or root) may rename anything above it; a group of the
user alone counts as the user, see ``system.linux``. No symbolic link leads out of it.
This module changes nothing except by :func:`create_folder`, and for a moment by :func:`find_obstacle`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import CacheError, LockedError, Verdict
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import ELSEWHERE, display_path, move_command
from mcp_notarium.files.private_files import disk_errors
from mcp_notarium.system import SYSTEM

DATABASE = re.compile(r"notarium_cache\.([0-9a-f]{16})\.sqlite\.encrypted")
"""The name of an encrypted database, with its generation."""
_OURS = re.compile(
    r"\.?(notarium_|damage_met|audit_anchor)|(keys|server|sync|policy|copies|files)\.lock$"
)

_SYNCED = re.compile(
    r"dropbox|onedrive|google ?drive|googledrive|mobile documents|icloud|nextcloud|owncloud"
    r"|pcloud|syncthing|seafile|my ?box files",
    re.IGNORECASE,
)
_OCTAL = re.compile(r"\\([0-7]{3})")
"""Escape of white space and backslashes in the kernel's names; other letters stand as they are."""
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "afs", "ceph", "9p", "davfs"}
_MOUNTS = Path("/proc/self/mountinfo")
_POINT, _AFTER_DASH = 4, 1
_LONGEST_BELOW = len(
    "/quarantine/20260101T000000Z-99/notarium_cache.0123456789abcdef.sqlite.encrypted-journal"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Hold why a path is unsafe, and the exact command that fixes it."""

    reason: str
    command: str


_Check = Callable[[Path, os.stat_result], Problem | None]


class AccountFolder:
    """Name the files of one account; ``path`` need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_file = path / "notarium_keys.json"
        self.key_copy = path / "notarium_keys.json.bak"
        self.prepared_key_file = path / "notarium_keys.json.new"
        """Comes into force when its database is complete."""
        self.plain_database = path / "notarium_cache.sqlite"
        """The database of the plain mode."""
        self.unfinished_plain_database = path / "notarium_cache.sqlite.new"
        """It becomes the database of the plain mode when it is complete."""
        self.damage_marker = path / "damage_met.json"
        """The marker "damage was met", see ``account/inspection``."""
        self.audit_anchor = path / "audit_anchor.json"
        """The audit chain's anchor, see ``account/audit_anchor``."""
        self.keys_lock = path / "keys.lock"
        """Held by a process that changes key files or creates or moves a cache."""
        self.server_lock = path / "server.lock"
        """Held shared by every process with the open database."""
        self.policy_lock = path / "policy.lock"
        """Held by a process that applies another policy, see ``account/opener``."""
        self.quarantine = path / "quarantine"
        """The folder for files that are moved out of the way."""
        self.copies_lock = path / "copies.lock"
        """Held by a process that copies the database."""
        self.files_lock = path / "files.lock"
        """Held by a process that keeps a file in the store for a note."""
        self.copies = path / "copies"
        """The folder for copies of a database whose notes are nowhere else."""
        self.drafts = path / "drafts"
        """The folder for texts that a person is typing, see ``cli/draft_files``."""

    def database(self, generation: str) -> Path:
        """Return the path of one generation's encrypted database; no other WAL can ever meet it."""
        return self.path / f"notarium_cache.{generation}.sqlite.encrypted"

    def encrypted_files(self) -> tuple[Path, ...]:
        """List every file of any generation, also where its database itself does not exist."""
        return tuple(sorted(self.path.glob("notarium_cache.*.sqlite.encrypted*")))

    def generations(self) -> tuple[str, ...]:
        """List the generations whose database files exist."""
        if not self.path.is_dir():
            return ()
        found = (DATABASE.fullmatch(entry.name) for entry in self.path.iterdir())
        return tuple(sorted(match[1] for match in found if match))


def create_folder(folder: AccountFolder) -> None:
    """Create the folder and what is missing above it, 0700 each; existing ones stay as they are."""
    missing = [folder.path, *folder.path.parents]
    for path in reversed([one for one in missing if not one.exists()]):
        with suppress(FileExistsError):
            SYSTEM.make_private_folder(path)


def check_folder(account_dir: Path) -> AccountFolder:
    """Return the folder by its real path. Raises ``LockedError`` (UNSAFE_PATH) with the command to run."""
    problem = find_problem(AccountFolder(account_dir))
    if problem is not None:
        raise LockedError(Verdict.UNSAFE_PATH, problem.reason, resolution_hint=problem.command)
    return AccountFolder(Path(os.path.realpath(account_dir)))


def find_problem(folder: AccountFolder) -> Problem | None:
    """Find why the folder may not be trusted, or None. Checks every parent and every file of ours."""
    if (problem := _check_length(folder.path.absolute())) is not None:
        return problem
    try:
        for path, check in _checks(folder):
            with suppress(FileNotFoundError):
                if (problem := check(path, path.lstat())) is not None:
                    return problem
    except OSError as error:
        return Problem(
            f"the cache folder cannot be looked at ({os_errors.describe(error)})",
            os_errors.suggest_fix(error),
        )
    return None


def find_obstacle(folder: AccountFolder) -> Problem | None:
    """Find why nothing can be created in the folder, or where it is to be; None if it can.

    Creates an empty folder and removes it again: only the system knows whether it permits that.
    """
    place = folder.path.absolute()
    try:
        place = next(one for one in (place, *place.parents) if one.is_dir())
        import tempfile  # noqa: PLC0415 - slow, rarely needed

        Path(tempfile.mkdtemp(prefix=".mcp-notarium-", dir=place)).rmdir()
    except OSError as error:
        return Problem(
            f"the cache folder cannot be made or changed ({os_errors.describe(error)})",
            os_errors.suggest_fix(error, place=place),
        )
    return None


@contextmanager
def folder_errors(folder: AccountFolder) -> Iterator[None]:
    """Turn OS errors on the account folder into errors that name the path.

    A database that the system does not let be opened counts as one, too. Raises ``CacheFull`` or
    ``LockedError`` (UNSAFE_PATH) for them; other errors pass.
    """
    with disk_errors("the cache folder cannot be used"):
        try:
            yield
        except CacheError as error:
            # SQLite says only that it cannot open; the folder shows the obstacle.
            obstacle = find_obstacle(folder) if type(error) is CacheError else None
            if obstacle is None:
                raise
            raise LockedError(
                Verdict.UNSAFE_PATH, obstacle.reason, resolution_hint=obstacle.command
            ) from error


def location_warnings(path: Path, *, mounts: Path = _MOUNTS) -> tuple[str, ...]:
    """List what is doubtful about keeping a database under this path; nothing is refused.

    Locks on network drives often do not hold, and a synchroniser may put an old file over a new one.
    """
    found = []
    if any(_SYNCED.search(part) for part in path.parts):
        found.append(
            "The cache lies in a folder that is synchronised with other machines; set "
            "NOTARIUM_DATA_DIR to a local one."
        )
    if file_system(path, mounts=mounts) in _NETWORK:
        found.append(
            "The cache lies on a network drive, where locks may not hold; set NOTARIUM_DATA_DIR "
            "to a local one."
        )
    return tuple(found)


def file_system(path: Path, *, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system the path lies on, or '' where that cannot be found out."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[_POINT]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[_AFTER_DASH - 1]
    return kind


def _checks(folder: AccountFolder) -> Iterator[tuple[Path, _Check]]:
    path = folder.path.absolute()
    yield from ((parent, _check_parent) for parent in reversed(path.parents))
    yield path, _check_folder
    # defence: inner-folders-checked
    for inner in (folder.quarantine, folder.copies, folder.drafts):
        yield inner, _check_folder
    if path.is_dir():
        ours = (entry for entry in sorted(path.iterdir()) if _OURS.match(entry.name))
        yield from ((entry, _check_file) for entry in ours)


def path_length(path: Path) -> int:
    """Count the characters of a path as Windows does: one of Unicode may be two."""
    return len(str(path).encode("utf-16-le", "surrogatepass")) // 2


def _check_length(path: Path) -> Problem | None:
    """Check that the longest path below the folder is one that the driver and all programs take."""
    if SYSTEM.longest_path is None:
        return None
    most, length = SYSTEM.longest_path - _LONGEST_BELOW, path_length(path)
    if length <= most:  # defence: too-long-folder-refused =True
        return None
    return Problem(
        f"the path of the cache folder has {length} characters; {most} leave room for the files in it",
        f"Set NOTARIUM_DATA_DIR to a folder with a shorter path, such as {SYSTEM.user_folder('data', os.environ)}.",
    )


def _check_parent(path: Path, found: os.stat_result) -> Problem | None:
    """Check a folder above: nobody but root and the user may replace it."""
    if SYSTEM.is_link(path, found):
        # defence: no-link-above-folder =True
        return None if _system_link(path, found) else _link(path)
    if not stat.S_ISDIR(found.st_mode):
        return Problem(
            f"`{path.name}`, above the cache, is not a folder",
            f"Set NOTARIUM_DATA_DIR to a folder, or move the file away: {move_command(path)}.",
        )
    access = SYSTEM.access(path, found)
    if access.owner == "other":
        return Problem(
            "a folder above the cache belongs to another user",
            f"It is {display_path(path)}. {ELSEWHERE}",
        )
    changeable = access.others_replace and not SYSTEM.is_group_private(path, found)
    if changeable:  # defence: folders-above-not-others
        command = SYSTEM.explain_privacy(path, display_path(path), folder=True, reading=False)
        return Problem(
            "a folder above the cache can be changed by others", f"Run `{command}`. Or: {ELSEWHERE}"
        )
    return None


def _check_folder(path: Path, found: os.stat_result) -> Problem | None:
    """Check the account folder or the quarantine: a folder, and the user's alone."""
    if SYSTEM.is_link(path, found):
        return _link(path)  # defence: own-folder-is-no-link =None
    if not stat.S_ISDIR(found.st_mode):
        return Problem("the cache folder is not a folder", f"Move it away: {move_command(path)}.")
    return _check_private(path, found, what="the cache folder")


def _check_file(path: Path, found: os.stat_result) -> Problem | None:
    """Check a file of ours: a plain one with one name, and the user's alone."""
    if SYSTEM.is_link(path, found):
        return _link(path)  # defence: own-file-is-no-link =None
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        return Problem(
            f"`{path.name}` is not a plain file with one name",
            f"Move it away: {move_command(path)}.",
        )
    return _check_private(path, found, what=f"`{path.name}`")


def _check_private(path: Path, found: os.stat_result, *, what: str) -> Problem | None:
    access = SYSTEM.access(path, found)
    if access.owner != "user":  # defence: owner-is-the-user
        command = SYSTEM.explain_ownership(path, display_path(path))
        return Problem(f"{what} belongs to another user", f"Run `{command}`.")
    if not access.is_private:  # defence: modes-private
        folder = stat.S_ISDIR(found.st_mode)
        command = SYSTEM.explain_privacy(path, display_path(path), folder=folder, reading=True)
        return Problem(f"{what} can be read or changed by others", f"Run `{command}`.")
    return None


def _link(path: Path) -> Problem:
    return Problem(
        f"`{path.name}` is a symbolic link",
        f"Set NOTARIUM_DATA_DIR to the real folder, or move the link away: {move_command(path)}.",
    )


def _system_link(path: Path, found: os.stat_result) -> bool:
    """Check for links that the system itself made, such as /tmp and /var on macOS."""
    owner = SYSTEM.access(path, found).owner
    return owner == "admin" or (owner == "user" and found.st_uid == 0 and path.parent == Path("/"))
