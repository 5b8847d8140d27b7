"""Read and write private files: no link is followed, and a crash leaves the old file or the new one.

Every file is created 0600 under a name nobody can guess, flushed, read back and only then renamed.
This module knows no file's meaning.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcp_notarium.errors import CacheFull, ConfigError, LockedError, Verdict
from mcp_notarium.files import os_errors
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import DEEPEST, closing_descriptor

StepHook = Callable[[str], None]
"""Called with the name of each step once it is done; tests crash in it."""

_TRIES = 3
_CHUNK = 1 << 20

open_regular = SYSTEM.open_regular
flush_file = SYSTEM.flush_file
sync_folder = SYSTEM.flush_folder


def ignore_step(_step: str) -> None:
    """Do nothing after a step; the ``StepHook`` of production."""


def read_private(path: Path, *, most: int) -> bytes | None:
    """Read at most ``most`` + 1 bytes of a regular file; None if it is missing.

    Raises ``OSError`` for a symbolic link, a folder or anything else that is not a regular file.
    """
    try:
        with open_regular(path) as file:
            return file.read(most + 1)
    except FileNotFoundError:
        return None


def replace_private(path: Path, content: bytes, *, at: StepHook = ignore_step) -> None:
    """Replace the file at ``path`` by ``content``, whole or not at all; flushed when it returns.

    Raises ``OSError``, with the old file as it was, also if the new one reads back differently.
    Steps reported to ``at``: write, sync, verify, switch, sync_folder.
    """
    _write_and_rename(path, content, at)
    _sync_rename(path, at)


def _write_and_rename(path: Path, content: bytes, at: StepHook) -> None:
    temporary = _write_temporary(path, content, at)
    try:
        _compare(temporary, content)  # defence: key-change-read-back
        at("verify")
        SYSTEM.move(temporary, path)
    except BaseException:
        SYSTEM.remove(temporary)
        raise


def _sync_rename(path: Path, at: StepHook) -> None:
    at("switch")
    sync_folder(path.parent)
    at("sync_folder")


def _compare(path: Path, content: bytes) -> None:
    if read_private(path, most=len(content)) != content:
        raise OSError(errno.EIO, "it reads back differently from the disk")


def create_private(path: Path, content: bytes, *, at: StepHook = ignore_step) -> None:
    """Create a new file at ``path``, whole and flushed, or nothing, also when the process is killed.

    The next call removes what a killed one has left under its temporary name. Raises ``OSError``, and
    ``FileExistsError`` if something is there already.
    """
    if is_there(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    remove_unfinished(path)
    _write_and_rename(path, content, at)
    try:
        _sync_rename(path, at)
    except BaseException:
        SYSTEM.remove(path)  # its name may not be on the disk
        raise


def remove_unfinished(path: Path) -> None:
    """Remove the files and folders that killed processes have left under temporary names for ``path``."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.tmp")
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        found = SYSTEM.walk(path.parent, enters=lambda _folder: False)
        for orphan in [one for one, _ in found if ours.fullmatch(one.name)]:
            remove_tree(orphan)


def is_there(path: Path) -> bool:
    """Tell whether anything has this name, a broken link too. Raises ``OSError`` if that cannot be seen."""
    try:
        SYSTEM.look_at(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise  # defence: unseen-is-not-missing =False
    return True


def remove_tree(place: Path) -> None:
    """Remove a file or a link, or a folder with all that is in it. Raises ``OSError``.

    Each folder is opened below the open one above: what was put in its place meanwhile is not followed.
    """
    if not is_there(place):
        return
    with closing_descriptor(SYSTEM.open_top(place.parent)) as above:
        _remove_entry(above, place, DEEPEST)


def _remove_entry(above: int, place: Path, deeper: int) -> None:
    try:
        is_folder = stat.S_ISDIR(SYSTEM.look(above, place.name).st_mode)
    except FileNotFoundError:
        return
    if not is_folder:
        SYSTEM.unlink(above, place.name)
        return
    if not deeper:
        raise OSError(errno.ENAMETOOLONG, "too many folders in another", str(place))
    with closing_descriptor(SYSTEM.open_folder(above, place.name)) as folder:
        for name in SYSTEM.list_names(folder):
            _remove_entry(folder, place / name, deeper - 1)
    SYSTEM.remove_empty(place)


def copy_private(path: Path, to: Path) -> None:
    """Copy a file to a new one, and flush that. Raises ``OSError``, and ``FileExistsError`` if something is there."""
    import shutil  # noqa: PLC0415 - brings three libraries that compress, and a start needs none

    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    with (
        open_regular(path) as source,
        os.fdopen(SYSTEM.open_private(to, flags), "wb") as target,
    ):
        shutil.copyfileobj(source, target, _CHUNK)
        target.flush()
        SYSTEM.flush(target.fileno())


def name_unfinished(path: Path) -> Path:
    """Return a new temporary name for ``path``, beside it."""
    return path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")


def temporary_pattern(name: str) -> str:
    """Return the glob of the temporary files made for a file of this name."""
    return f".{name}.*.tmp"


@contextmanager
def output_errors(path: Path, what: str) -> Iterator[None]:
    """Turn ``OSError`` about a file that a person has named into ``ConfigError``: nothing was written."""
    try:
        yield
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already; nothing was written",
            resolution_hint="Give a path where nothing is.",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be written: {os_errors.describe(error)}; nothing was written",
            resolution_hint="Give a path in a folder you can write to, on a disk with free space.",
        ) from error


def require_free(folder: Path, needed: int, undone: str) -> None:
    """Check for so many free bytes. Raises ``CacheFull``; ``undone`` ends the sentence."""
    import shutil  # noqa: PLC0415 - as above

    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CacheFull(
            f"{undone}; it needs {needed:,} bytes, and {free:,} are free",
            details={"needed": needed, "free": free},
        )


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn ``OSError`` into ``CacheFull`` or a refusal; ``what`` ends the sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in os_errors.FULL:
            raise CacheFull(what) from None
        held = error.errno in os_errors.HELD  # defence: held-file-is-busy =False
        said = os_errors.describe_with_path(error) if held else os_errors.describe(error)
        raise LockedError(
            Verdict.BUSY if held else Verdict.UNSAFE_PATH,
            f"{what} ({said})",
            resolution_hint=os_errors.suggest_fix(error),
        ) from None


def _write_temporary(path: Path, content: bytes, at: StepHook) -> Path:
    descriptor, temporary = _create_temporary(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            at("write")
            SYSTEM.flush(file.fileno())  # defence: files-flushed
            at("sync")
    except BaseException:
        SYSTEM.remove(temporary)
        raise
    return temporary


def _create_temporary(path: Path) -> tuple[int, Path]:
    # defence: temporary-file-is-new -O_EXCL
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    for _ in range(_TRIES):
        temporary = name_unfinished(path)
        with suppress(FileExistsError):
            return SYSTEM.open_private(temporary, flags), temporary
    raise FileExistsError(errno.EEXIST, "no free temporary name")
