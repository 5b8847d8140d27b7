"""Open the files of a vault, and nothing outside it, whatever another program does meanwhile.

Each part of a path is opened from the folder above it, by descriptor, and no symbolic link is followed. A
file is a note if it is a regular file with one name: a hard link may be a file outside. Devices and pipes
are not opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import NoteNotFound, NoteUnreadable, StorePlaceUnusable, StoreUnavailable
from mcp_notarium.files.os_errors import describe, display_path
from mcp_notarium.stores.vault.paths import (
    TRASH,
    folder_parts,
    is_note_name,
    placeholder_of,
    split_path,
)
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import FileState

SETTLED = 0.05
"""Seconds without a change after which a file counts as written to its end."""
LONGEST_WAIT = 1.0
"""Most seconds to wait for that."""
_BEHIND, _AHEAD = 60.0, 86400.0
"""Seconds by which the clock of a drive may be behind, if the file is empty, and ahead; a file of another date is old."""
_CHUNK = 1 << 20
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_BUSY = (errno.EBUSY, errno.EAGAIN)
_FAILED = (errno.EIO, errno.EINVAL, errno.ETIMEDOUT)
"""Errors of one file. C libraries of Windows say EINVAL for what they do not know, such as what OneDrive reports."""
_NOT_READABLE = (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)


Mark = tuple[int, str]
"""A file and its bytes: inode and hash."""


class OtherSpelling(FileNotFoundError):
    """Report that a folder has the name in other letters only, and the system takes both for one."""


class NotANote(NoteUnreadable):
    """Report a file that is not regular, not UTF-8, too large, unreadable, or has several names."""

    resolution_hint = (
        "Leave this file out. If it is needed, ask the user to make it a regular UTF-8 file with one name, "
        "of up to 8 MiB (64 MiB for `read_note`), that this server may read."
    )

    def __init__(
        self,
        message: str = "the file of this note cannot be read as one: it is a link, not UTF-8, too large or protected",
    ) -> None:
        super().__init__(message)


class Evicted(NotANote):
    """Report that the content of the file is at iCloud or OneDrive only, to save room on this computer."""

    subcategory = "not_downloaded"
    resolution_hint = (
        "Ask the user to open the note, or to choose Download Now in Finder or Always keep on this device in Explorer; "
        "then repeat the call."
    )

    def __init__(self) -> None:
        super().__init__(
            "the file of this note is at iCloud or OneDrive only, and has to be downloaded first"
        )


class InUse(Evicted):
    """Report that another program has the file open, and lets nobody read it (Windows)."""

    subcategory = "in_use"
    resolution_hint = "Ask the user to close the note in other programs; then repeat the call."

    def __init__(self) -> None:
        NotANote.__init__(
            self, "the file of this note cannot be read now: another program has it open"
        )


class ReadFailed(InUse):
    """Report that the system refuses the content of one file: not fetched, infected, or a bad sector."""

    subcategory = "read_failed"
    resolution_hint = "Ask the user to open the note in its own program, which says what is wrong; then repeat the call."

    def __init__(self) -> None:
        NotANote.__init__(
            self, "the file of this note cannot be read now: the system reports an error"
        )


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Hold the bytes of a file, and its state when all of them had been read."""

    data: bytes
    found: FileState


class VaultFolder:
    """Open files below one path, which must stay the same folder while this object lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the vault and give its descriptor. Raises ``StoreUnavailable`` for any ``OSError`` inside.

        Another folder in its place, such as the empty mount point of a drive, is an error. Raises
        ``StorePlaceUnusable`` for a folder that cannot be opened at all.
        """
        root = self._open()
        try:
            try:
                found = SYSTEM.look_at_open(root)
                self._identity = self._identity or (found.st_dev, found.st_ino)
                # defence: other-folder-is-no-vault
                if self._identity != (found.st_dev, found.st_ino):
                    raise OSError(errno.ESTALE, "another folder is in its place")
                yield root
            finally:
                os.close(root)
        except OSError as error:
            if error.errno in _BUSY:
                raise StoreUnavailable(
                    f"a file of the vault cannot be used now ({describe(error)}); nothing was changed",
                    resolution_hint="Repeat the call in a moment. If it fails again, ask the user to close the note in other "
                    "programs.",
                ) from None
            if not os.access(self.path, os.R_OK | os.X_OK):
                raise self._unusable(error) from None
            way = "check that the folder is there (a drive may not be mounted), and to restart this MCP client if it was made anew"
            if isinstance(error, PermissionError):
                way = "permit this program to read and write the files and folders in it"
            raise StoreUnavailable(
                f"the folder of the vault cannot be used: {display_path(self.path)} ({describe(error)})",
                resolution_hint=f"Ask the user to {way}.",
            ) from None

    def _open(self) -> int:
        try:
            return SYSTEM.open_top(self.path)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> StorePlaceUnusable:
        denied = error.errno in (errno.EACCES, errno.EPERM)
        way = "permit this program to read the folder" if denied else "mount the drive"
        return StorePlaceUnusable(
            f"VAULT_PATH names a folder that cannot be used: {display_path(self.path)} ({describe(error)})",
            resolution_hint=f"Ask the user to correct VAULT_PATH or {way}. Then restart this MCP client.",
        )


def open_note(root: int, path: str) -> tuple[int, FileState]:
    """Open a note's file for reading; the caller closes the descriptor.

    Raises ``NoteNotFound``, also for a path that no note can have or that differs in its letters, and ``NotANote``.
    """
    with open_parent(root, path) as (parent, name):
        return open_file(parent, name)


@contextmanager
def open_parent(
    root: int, path: str, *, trash: bool = False, exact: bool = True
) -> Iterator[tuple[int, str]]:
    """Open the folder of a note; give its descriptor and the name of the file. Raises ``NoteNotFound``."""
    parts = split_path(path)
    if parts is None:
        raise missing_error(path)
    *folders, name = (TRASH, *parts) if trash else parts
    with missing_as(path):
        parent = open_folder(root, folders, exact=exact)
    with closing_descriptor(parent), missing_as(path):
        yield parent, name


def open_folder(root: int, parts: Sequence[str], *, exact: bool = True) -> int:
    """Open a folder below another, part by part. Raises ``OSError``.

    ``exact``: require that each folder lists exactly this name.
    """
    here = os.dup(root)
    for part in parts:
        with closing_descriptor(here):
            if exact:
                _require_exact(here, part)
            below = SYSTEM.open_folder(here, part)
        here = below
    return here


def list_files(root: int, folder: str) -> list[str]:
    """Return the paths of the regular files of a folder that are no notes; none of one that can hold no notes."""
    parts = folder_parts(folder)
    if split_path("/".join((*parts, "any.md"))) is None:
        return []
    with suppress(OSError):
        with closing_descriptor(open_folder(root, parts)) as here, SYSTEM.scan(here) as entries:
            names = [one.name for one in entries if one.is_file(follow_symlinks=False)]
        return ["/".join((*parts, name)) for name in names if not is_note_name(name)]
    return []


def open_file(parent: int, name: str, *, exact: bool = True) -> tuple[int, FileState]:
    """Open a regular file of a folder. Raises ``OSError``, ``NotANote``.

    ``exact``: require that the folder lists exactly this name.
    """
    try:
        _require_note(SYSTEM.look(parent, name))
    except FileNotFoundError:
        if find_placeholder(parent, name) is not None:
            raise Evicted from None
        raise
    if exact:
        _require_exact(parent, name)
    try:
        file = SYSTEM.open_file(parent, name)
    except OSError as error:
        if error.errno in _NOT_READABLE:
            raise NotANote from None
        if error.errno in _BUSY:
            raise InUse from None
        if error.errno in _FAILED:
            raise ReadFailed from None
        raise
    try:
        found = SYSTEM.look_at_open(file)
        _require_note(found)
    except BaseException:
        os.close(file)
        raise
    return file, found


def find_placeholder(parent: int, name: str) -> FileState | None:
    """Return the state of the file that iCloud has put in the place of one with this name; None if there is none."""
    with suppress(OSError):
        found = SYSTEM.look(parent, placeholder_of(name))
        return found if stat.S_ISREG(found.st_mode) else None
    return None


def is_same(one: FileState, other: FileState) -> bool:
    """Tell whether both are states of one file or folder."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def digest_of(data: bytes) -> str:
    """Return the hash of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_settled(file: int, *, largest: int, own: Mark | None = None) -> FileBytes:
    """Read until the file has been left alone for a moment, an empty one for longer: programs empty a file before they write it.

    ``own``: the file and its bytes as they were whole. A reader that finds just these has no half of another write.
    A date may be by another clock than ours: one of later, or of an empty file, tells little.
    """
    began = since = time.monotonic()
    state: tuple[int, int] | None = None
    while True:
        found = SYSTEM.look_at_open(file)
        if found.st_size > largest:
            raise NotANote
        os.lseek(file, 0, os.SEEK_SET)
        data = _read(file, largest)
        now = SYSTEM.look_at_open(file)
        same = now.st_mtime_ns == found.st_mtime_ns and now.st_size == len(data)
        clock, before, state = time.monotonic(), state, (now.st_mtime_ns, now.st_size)
        since = since if before in (None, state) else clock
        # defence: emptied-file-waits data=True
        pause, old = (SETTLED, SETTLED) if data else (LONGEST_WAIT, _BEHIND)
        left_alone = clock - since >= pause or not -_AHEAD < time.time() - now.st_mtime <= old
        if now.st_size and SYSTEM.has_no_blocks(now) and not data.strip(b"\0"):
            raise Evicted
        if same and (left_alone or (own is not None and own == (now.st_ino, digest_of(data)))):
            return FileBytes(data, now)
        if clock - began > LONGEST_WAIT:
            if not data:
                raise InUse
            return FileBytes(data, now)
        time.sleep(SETTLED / 5)


def missing_error(path: str) -> NoteNotFound:
    """Return the error for a path at which there is no note."""
    return NoteNotFound("no such file in the vault", details={"id": path})


@contextmanager
def missing_as(path: str) -> Iterator[None]:
    """Turn an ``OSError`` that says that a file is not there into ``NoteNotFound``."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotANote from None
        if error.errno in _GONE:
            raise missing_error(path) from None
        raise


def _read(file: int, largest: int) -> bytes:
    chunks, size = [], 0
    while chunk := _read_chunk(file):
        chunks.append(chunk)
        size += len(chunk)
        if size > largest:  # it grows while we read
            raise NotANote
    return b"".join(chunks)


def _read_chunk(file: int) -> bytes:
    try:
        return os.read(file, _CHUNK)
    except OSError as error:
        if error.errno in _FAILED:
            raise ReadFailed from None
        raise


def _require_note(found: FileState) -> None:
    """Raise ``NotANote`` unless it is a regular file, here, that has no name but this one."""
    # defence: vault-file-has-one-name -st_nlink
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise NotANote
    if SYSTEM.is_elsewhere(found):
        raise Evicted


def _require_exact(parent: int, name: str) -> None:
    """Raise ``OtherSpelling`` if the folder has the file under another spelling only.

    A file system may take two spellings for one (letter case, composed letters). It is asked whether it does
    so before the folder is listed.
    """
    forms = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    if any(_is_same(parent, name, other) for other in {name.swapcase(), *forms} - {name}) and (
        name not in SYSTEM.list_names(parent)
    ):
        raise OtherSpelling(errno.ENOENT, "the name is spelled in another way")


def _is_same(parent: int, one: str, other: str) -> bool:
    with suppress(OSError):
        return is_same(*(SYSTEM.look(parent, name) for name in (one, other)))
    return False
