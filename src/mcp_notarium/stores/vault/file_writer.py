"""Create, replace, move and remove files of a vault, which other programs write at any moment.

A file is replaced by exchanging it with a temporary one: what was displaced is in hand, whoever wrote it. A
process that ends in the middle leaves the temporary file behind. Its name tells what we have written and read:
another content is somebody's edit that we have displaced, and becomes a note or a canvas again.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.stores.vault import system_calls
from mcp_notarium.stores.vault.folder import (
    LONGEST_WAIT,
    SETTLED,
    FileBytes,
    Mark,
    NotANote,
    digest_of,
    open_file,
    open_folder,
    read_settled,
)
from mcp_notarium.stores.vault.paths import named_by
from mcp_notarium.system import SYSTEM

LARGEST = 8 * 1024 * 1024
"""Bytes of a file that is a note for the index."""
LEFT_BEHIND = 600.0
"""Seconds after which nobody is working with a temporary file any more."""
RECOVERED = "Recovered {}{}"
"""The name of what was found in a temporary file."""
CANVAS = ".canvas"
_ANYBODY_WRITES = 0o222
_TEMPORARY = re.compile(
    r"\.notarium-(?P<ours>\w+)-(?P<read>\w*)-(?P<number>\w+)(?P<ending>\.canvas)?\.tmp"
)
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class NoteFile:
    """Hold a file as it was read or written: its text, its state, and what names it beyond its path.

    ``noted``: when its note was made, if a save has written the file anew since.
    """

    data: bytes
    text: str
    found: os.stat_result
    identity: str | None
    noted: float | None = None

    @property
    def created(self) -> float:
        """Return when the note was made (epoch seconds), as far as that is known."""
        dates = [self.found.st_mtime]
        dates += [float(self.identity.partition(":")[2])] if self.identity else []
        dates += [self.noted] if self.noted is not None else []
        return min(dates)

    @cached_property
    def digest(self) -> str:
        """Return the hash of its bytes, which a save needs ten times."""
        return digest_of(self.data)

    @property
    def mark(self) -> Mark:
        """Return what tells these bytes of this file from others."""
        return self.found.st_ino, self.digest


def read_file(parent: int, name: str, *, exact: bool = True, own: Mark | None = None) -> NoteFile:
    """Read a file, when nobody seems to be writing it; see ``read_settled``. Raises ``OSError``, ``NotANote``."""
    file, _ = open_file(parent, name, exact=exact)
    try:
        read: FileBytes = read_settled(file, largest=LARGEST, own=own)
        identity = system_calls.identity_of(file, read.found)
        noted = system_calls.read_created(file)
        return NoteFile(read.data, read.data.decode(), read.found, identity, noted)
    except UnicodeDecodeError:
        raise NotANote from None
    finally:
        os.close(file)


def is_read_only(parent: int, name: str) -> bool:
    """Tell whether a file may only be read, or its folder. Replacing or moving it would pass over that mark.

    A file system that takes no change at all has not marked this file.
    """
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not found.st_mode & _ANYBODY_WRITES or is_folder_read_only(parent):
        return True
    return not os.access(name, os.W_OK, dir_fd=parent) and os.access(".", os.W_OK, dir_fd=parent)


def is_folder_read_only(folder: int) -> bool:
    """Tell whether a folder is marked as one that may only be read."""
    return not os.fstat(folder).st_mode & _ANYBODY_WRITES


def require_free_name(parent: int, name: str, *, own: str = "") -> None:
    """Raise ``FileExistsError`` if a name there differs in letter case only: other systems cannot hold both.

    The name of a file that is at iCloud only counts.

    ``own``: the present name of the file that is to have it.
    """
    with os.scandir(parent) as entries:
        names = (named_by(one.name) or one.name for one in entries if one.name != own)
        if any(tag_key(one) == tag_key(name) for one in names):
            raise FileExistsError(errno.EEXIST, "a file of this name exists")


def create_file(parent: int, name: str, data: bytes, *, before: Callable[[], None]) -> NoteFile:
    """Create a file. Raises ``FileExistsError``, whatever is there.

    ``before`` is called right before the file appears; what it raises keeps it from appearing.
    """
    temporary, written = _write_temporary(parent, data, like=None)
    try:
        before()
        system_calls.move(parent, temporary, parent, name)
    finally:
        _remove(parent, temporary)
    return written


@dataclass(slots=True)
class Replaced:
    """Hold a file that was ``written`` in the place of the ``displaced`` one, and whether that is ``certain``.

    The displaced file lies beside it as ``temporary``; ``left``: it is to go.
    """

    written: NoteFile
    displaced: NoteFile
    certain: bool
    parent: int
    name: str
    temporary: str
    left: bool

    def put_back(self) -> None:
        """Let the displaced file have its name again, and ours go; if somebody has changed ours, that stays beside it.

        Raises ``OSError``, ``NotANote`` or ``OutcomeUnknown``; both files are there then.
        """
        self.left = False
        if system_calls.rename(self.parent, self.temporary, self.parent, self.name, exchange=True):
            back = read_file(self.parent, self.temporary, exact=False, own=self.written.mark)
            flush(self.parent)
            self.left = back.digest == self.written.digest


def replace_file(
    parent: int, name: str, data: bytes, *, held: NoteFile, before: Callable[[], None]
) -> tuple[NoteFile, NoteFile, bool]:
    """Replace a file. Return the new one, what was displaced, and whether that is certain. See :func:`replacing`."""
    with replacing(parent, name, data, held=held, before=before) as done:
        return done.written, done.displaced, done.certain


@contextmanager
def replacing(
    parent: int, name: str, data: bytes, *, held: NoteFile, before: Callable[[], None]
) -> Iterator[Replaced]:
    """Replace a file, and flush its folder. What was displaced lies beside it until the block ends, and for good if that fails.

    ``held`` was read before: all that is known of the displaced file where the system cannot exchange two. A program
    that goes on writing the displaced file is waited for; :func:`recover` has what it writes later. Raises
    ``FileNotFoundError`` or ``NotANote``, with nothing replaced, or ``OutcomeUnknown``.
    """
    temporary, written = _write_temporary(parent, data, like=(name, held))
    certain, left = False, True
    try:
        before()
        # defence: files-exchanged =False
        certain = system_calls.rename(parent, temporary, parent, name, exchange=True)
        if certain:
            left = _wait_for_writers(parent, temporary, name)
            held = _take_displaced(parent, temporary, name, own=held.mark)
        else:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        # Before the displaced file goes: whoever gets no answer does not get its text either.
        flush(parent)
    except BaseException as error:
        if not certain or isinstance(error, NotANote):
            _remove(parent, temporary)
        raise  # otherwise the displaced file stays: its content is in nobody's hands
    done = Replaced(written, held, certain, parent, name, temporary, left)
    yield done
    if done.left:
        _remove(parent, temporary)


def move_file(parent: int, name: str, target: int, new_name: str, *, free: bool = False) -> None:
    """Move a file. Raises ``FileExistsError``; ``free``: what is there gets another name instead."""
    while True:
        try:
            system_calls.move(parent, name, target, new_name)
        except FileExistsError:
            if not free:
                raise
            _move_away(target, new_name)
        else:
            return


def rename_file(parent: int, name: str, target: int, new_name: str) -> None:
    """Give a file another name. Raises ``FileExistsError`` if another file has that.

    A file system may take both names for one, because only the spelling differs. The system then may do nothing, so
    the file gets a third name in between.
    """
    try:
        system_calls.move(parent, name, target, new_name)
    except FileExistsError:
        there = os.stat(new_name, dir_fd=target, follow_symlinks=False)
        if not os.path.samestat(there, os.stat(name, dir_fd=parent, follow_symlinks=False)):
            raise
        between = _temporary_name(digest_of(b""), "")
        system_calls.move(parent, name, parent, between)
        try:
            system_calls.move(parent, between, target, new_name)
        except OSError:
            _put_back(parent, between, name)
            raise


def remove_file(parent: int, name: str, *, digest: str, before: Callable[[], None]) -> bool:
    """Remove a file for good if it has this content; else leave it, or put it back, and return False.

    Raises ``OutcomeUnknown`` if it was set aside, and can be neither removed nor put back.
    """
    temporary = _temporary_name(digest_of(b""), digest)
    before()
    system_calls.move(parent, name, parent, temporary)
    try:
        same = read_file(parent, temporary, exact=False).digest == digest
        if same:
            os.unlink(temporary, dir_fd=parent)
    except NotANote:
        same = False
    except OSError:
        _put_back(parent, temporary, name)
        raise
    if not same:  # defence: deleted-is-what-was-read
        _put_back(parent, temporary, name)
    return same


def _put_back(parent: int, temporary: str, name: str) -> None:
    try:
        system_calls.move(parent, temporary, parent, name)
    except OSError as error:
        raise OutcomeUnknown("the note was set aside, and cannot be put back") from error


def make_folders(root: int, parts: Sequence[str]) -> int:
    """Open a folder below another; what is missing is made, as open to others as the one above. Raises ``OSError``."""
    here = os.dup(root)
    for part in parts:
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
                made = open_folder(here, [part])
                try:
                    _permit(made, os.fstat(here).st_mode & 0o777)
                    os.fsync(here)
                finally:
                    os.close(made)
            below = open_folder(here, [part])
        finally:
            os.close(here)
        here = below
    return here


def flush(folder: int) -> None:
    """Flush a folder. Its names have changed already, so a failure leaves the write in doubt."""
    try:
        os.fsync(folder)
    except OSError as error:
        raise OutcomeUnknown("the folder of the note could not be flushed") from error


def recover(folder: int, name: str, changed: float) -> None:
    """Make a note or a canvas of a temporary file (changed at epoch seconds) that a process has left behind.

    It is removed if it holds what we have written, which the journal has, or what that was made from. It stays
    where the system refuses: one file must not keep the others from being listed.
    """
    found = _TEMPORARY.fullmatch(name)
    if found is None or time.time() - changed < LEFT_BEHIND:
        return
    with suppress(OSError, OutcomeUnknown):
        with suppress(NotANote):
            digest = read_file(folder, name, exact=False).digest
            # defence: displaced-edit-recovered =True
            if digest in (found["ours"], found["read"], digest_of(b"")):
                _remove(folder, name)
                return
        kept = RECOVERED.format(found["number"], found["ending"] or ".md")
        move_file(folder, name, folder, kept, free=True)


def _temporary_name(ours: str, read: str, ending: str = "") -> str:
    return f".notarium-{ours}-{read}-{secrets.token_hex(4)}{ending}.tmp"


def _move_away(folder: int, name: str) -> None:
    stem, ending = name[: name.rfind(".")], name[name.rfind(".") :]
    for number in range(2, _MOST_NAMES):
        with suppress(FileExistsError):
            with suppress(FileNotFoundError):
                system_calls.move(folder, name, folder, f"{stem} {number}{ending}")
            return


def _wait_for_writers(parent: int, displaced: str, ours: str) -> bool:
    """Wait until no program writes a file that we have displaced by ours; False if one still does in the end."""
    deadline = time.monotonic() + LONGEST_WAIT
    while _is_being_written(parent, displaced):
        # Nobody writes ours yet: where it seems so, the drive does not tell.
        if _is_being_written(parent, ours):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(SETTLED)
    return True


def _is_being_written(parent: int, name: str) -> bool:
    with suppress(OSError, NotANote):
        file, _ = open_file(parent, name, exact=False)
        try:
            return system_calls.is_being_written(file)
        finally:
            os.close(file)
    return False


def _take_displaced(parent: int, temporary: str, name: str, *, own: Mark) -> NoteFile:
    try:
        try:
            return read_file(parent, temporary, exact=False, own=own)
        except NotANote:
            system_calls.rename(parent, temporary, parent, name, exchange=True)
            raise
    except OSError as error:
        raise OutcomeUnknown(
            "the file that was replaced can be neither read nor put back"
        ) from error


def _write_temporary(
    parent: int, data: bytes, *, like: tuple[str, NoteFile] | None
) -> tuple[str, NoteFile]:
    """Write a file that no listing shows, down to the disk.

    ``like``: the file that it is to replace, with its name. It gets its attributes and its date of making; None: the
    folder tells how open it is to others.
    """
    ending = CANVAS if like is not None and like[0].endswith(CANVAS) else ""
    name = _temporary_name(digest_of(data), like[1].digest if like else "", ending)
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, how, 0o600, dir_fd=parent), "wb") as file:
        try:
            file.write(data)
            if like is None:
                _permit(file.fileno(), os.fstat(parent).st_mode & 0o666)
            else:
                _copy_attributes(parent, like[0], file.fileno())
                system_calls.keep_created(file.fileno(), like[1].created)
            file.flush()
            os.fsync(file.fileno())
            made = os.fstat(file.fileno())
            identity = system_calls.identity_of(file.fileno(), made)
            noted = like[1].created if like else None
            return name, NoteFile(data, data.decode(), made, identity, noted)
        except BaseException:
            _remove(parent, name)
            raise


def _copy_attributes(parent: int, name: str, to: int) -> None:
    """Give an open file the owner, group, mode and extended attributes of another, as far as the system permits."""
    source, found = open_file(parent, name, exact=False)
    try:
        for owner, group in ((-1, found.st_gid), (found.st_uid, -1)):
            with suppress(OSError):
                os.fchown(to, owner, group)
        _permit(to, stat.S_IMODE(found.st_mode))
        SYSTEM.copy_attributes(source, to)
    finally:
        os.close(source)


def _permit(file: int, mode: int) -> None:
    with suppress(PermissionError):  # a file system without modes
        os.fchmod(file, mode)


def _remove(folder: int, name: str) -> None:
    """Remove a temporary file. One that stays says nothing of the write; :func:`recover` finds it later."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)
