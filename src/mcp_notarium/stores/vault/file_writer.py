"""Create, replace, move and remove files of a vault, which other programs write at any moment.

A file is replaced by exchanging it with a temporary one: what was displaced is in hand, and anybody may have written it. A
process that ends in the middle leaves the temporary file behind. Its name tells what we have written and read:
another content is somebody's edit that we have displaced, and becomes a note or a canvas again.
"""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.stores.vault.folder import (
    LONGEST_WAIT,
    SETTLED,
    FileBytes,
    InUse,
    Mark,
    NotANote,
    digest_of,
    is_same,
    open_file,
    open_folder,
    read_settled,
)
from mcp_notarium.stores.vault.paths import named_by
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import FileState

LARGEST = 8 * 1024 * 1024
"""Bytes of a file that is a note for the index."""
LEFT_BEHIND = 600.0
"""Seconds without a change after which nobody is working with a temporary file any more."""
RECOVERED = "Recovered {}{}"
"""The name of what was found in a temporary file."""
CANVAS = ".canvas"
_NO_NOTE = ".file"
"""Ends the temporary name of a file that is no note, before it is there: it is nobody's edit."""
_TEMPORARY = re.compile(
    r"\.notarium-(?P<ours>\w+)-(?P<read>\w*)-(?P<number>\w+)(?P<ending>\.canvas|\.file)?\.tmp"
)
_SPARE = re.compile(
    r"\.notarium-=(?P<ours>\w*)=(?P<read>\w*)=(?P<number>\w+)=(?P<name>.+)\.tmp", re.DOTALL
)
"""The name of what a system that exchanges two files in steps has taken out of the way: it tells what its name was."""
_SHORT = 16
_STUCK = 10.0
"""Seconds after which nobody is in the middle of an exchange any more, nor writes half of a text."""
_CREATED = "user.mcp-notarium.created"
"""The extended attribute with the date of making (epoch seconds) of a file that a save has rewritten."""
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class NoteFile:
    """Hold a file as it was read or written: its text, its state, and what names it beyond its path."""

    data: bytes
    text: str
    found: FileState
    identity: str | None
    noted: float | None = None
    """Time at which its note was made, if a save has rewritten the file since."""

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

    def is_moved_as(self, folder: int, name: str) -> bool:
        """Tell whether the file that has just got this name is this one. On FAT a move gives it another number; the bytes tell there."""
        if SYSTEM.look(folder, name).st_ino == self.found.st_ino:
            return True
        with suppress(NotANote):
            return read_file(folder, name, exact=False).digest == self.digest
        return False


def identity_of(file: int, found: FileState) -> str | None:
    """Return what names an open file beyond its path; None if the system does not tell.

    The next file may get the inode of one that is gone. Its time of birth makes it unique.
    """
    born = SYSTEM.birth(file, found)
    return None if born is None else f"{found.st_ino}:{born}"


def read_created(file: int) -> float | None:
    """Return when the note of an open file was made, as :func:`keep_created` has noted it."""
    value = SYSTEM.read_attribute(file, _CREATED)
    with suppress(ValueError):
        noted = math.nan if value is None else float(value)
        return noted if math.isfinite(noted) else None
    return None


def keep_created(file: int, created: float) -> None:
    """Keep the date of making of an open file's note: the file itself is newer. A drive without attributes keeps none."""
    with suppress(OSError):
        SYSTEM.write_attribute(file, _CREATED, f"{created:.6f}".encode())


def is_being_written(file: int) -> bool:
    """Tell whether another program has a file open for writing, as far as the system tells."""
    return SYSTEM.is_being_written(file)


def rename(old_folder: int, old: str, new_folder: int, new: str, *, exchange: bool) -> bool:
    """Exchange a temporary file with another, or move a file where no other is; False if the system or the disk cannot.

    Raises ``OutcomeUnknown`` if the first of two files has its new name, and the second one has none of both.
    """
    if not exchange:
        return SYSTEM.rename(old_folder, old, new_folder, new, exchange=False)
    found = _TEMPORARY.fullmatch(old)
    ours, read, number = found.group("ours", "read", "number") if found else ("", "", "0")
    spare = f".notarium-={ours[:_SHORT]}={read[:_SHORT]}={number}={new}.tmp"
    try:
        return SYSTEM.rename(old_folder, old, new_folder, new, exchange=True, spare=spare)
    except OSError as error:
        # defence: half-exchange-is-told =False
        if _is_there(new_folder, spare) and not _is_there(old_folder, old):
            raise OutcomeUnknown("the file was replaced, and cannot be compared yet") from error
        raise


def _is_there(folder: int, name: str) -> bool:
    with suppress(OSError):
        SYSTEM.look(folder, name)
        return True
    return False


def move(old_folder: int, old: str, new_folder: int, new: str) -> None:
    """Move a file. Raises ``FileExistsError``, whatever is there, and ``OutcomeUnknown`` if it has both names now."""
    if rename(old_folder, old, new_folder, new, exchange=False):
        return
    SYSTEM.link(old_folder, old, new_folder, new)
    try:
        SYSTEM.unlink(old_folder, old)
    except OSError as error:
        try:
            SYSTEM.unlink(new_folder, new)
        except OSError:
            raise OutcomeUnknown("the file has its old name and the new one") from error
        raise


def read_file(parent: int, name: str, *, exact: bool = True, own: Mark | None = None) -> NoteFile:
    """Read a file, when nobody seems to be writing it; see ``read_settled``. Raises ``OSError``, ``NotANote``."""
    file, _ = open_file(parent, name, exact=exact)
    try:
        read: FileBytes = read_settled(file, largest=LARGEST, own=own)
        identity = identity_of(file, read.found)
        noted = read_created(file)
        return NoteFile(read.data, read.data.decode(), read.found, identity, noted)
    except UnicodeDecodeError:
        raise NotANote from None
    finally:
        os.close(file)


def require_free_name(parent: int, name: str, *, own: str = "") -> None:
    """Raise ``FileExistsError`` if a name there differs in letter case only: other systems cannot hold both.

    The name of a file that is at iCloud only counts.

    ``own``: the present name of the file that is to have it.
    """
    with SYSTEM.scan(parent) as entries:
        names = (named_by(one.name) or one.name for one in entries if one.name != own)
        if any(tag_key(one) == tag_key(name) for one in names):
            raise FileExistsError(errno.EEXIST, "a file of this name exists")


def create_file(parent: int, name: str, data: bytes, *, before: Callable[[], None]) -> NoteFile:
    """Create a file. Raises ``FileExistsError``, whatever is there.

    ``before`` is called right before the file appears; what it raises keeps it from appearing.
    """
    temporary, written = _write_temporary(parent, data, like=None)
    _give_name(parent, temporary, name, before)
    return written


def create_other_file(parent: int, name: str, data: bytes, *, before: Callable[[], None]) -> None:
    """Create a file that is no note. See :func:`create_file`."""
    temporary = _temporary_name(digest_of(data), "", _NO_NOTE)
    with _temporary_file(parent, temporary, private=False) as file:
        file.write(data)
        SYSTEM.permit_as(parent, file.fileno(), is_folder=False)
        _flush(file)
    _give_name(parent, temporary, name, before)


def _give_name(parent: int, temporary: str, name: str, before: Callable[[], None]) -> None:
    try:
        before()
        move(parent, temporary, parent, name)
    finally:
        _remove(parent, temporary)


@dataclass(slots=True)
class Replaced:
    """Hold a file that was written in the place of another one."""

    written: NoteFile
    displaced: NoteFile
    certain: bool
    """The system has exchanged both files, so nothing else was displaced."""
    parent: int
    name: str
    temporary: str
    """The name of the displaced file, next to the written one."""
    left: bool
    """The displaced file is to go."""
    moved: bool
    """The file that was to be replaced has another name by now, and ours has another one's."""

    def put_back(self) -> None:
        """Let the displaced file have its name again, and ours go; if somebody has changed ours, that stays next to it.

        Raises ``OutcomeUnknown``; both files are there then.
        """
        self.left = False
        try:
            if rename(self.parent, self.temporary, self.parent, self.name, exchange=True):
                flush(self.parent)
                self.left = _is_still(self.parent, self.temporary, self.written)
        except OSError as error:
            raise OutcomeUnknown("the file was replaced, and cannot be put back") from error


def replace_file(
    parent: int,
    name: str,
    data: bytes,
    *,
    held: NoteFile,
    before: Callable[[], None],
    made_from: str = "",
) -> tuple[NoteFile, NoteFile, bool]:
    """Replace a file. Return the new one, what was displaced, and whether that is certain. See :func:`replacing`.

    Raises ``FileExistsError``, with nothing replaced, if another file has its name, and it has another one.
    """
    with replacing(parent, name, data, held=held, before=before, made_from=made_from) as done:
        if done.moved:  # defence: moved-note-takes-no-name =False
            done.put_back()
    if done.moved:
        raise FileExistsError(errno.EEXIST, "another file has the name")
    return done.written, done.displaced, done.certain


@contextmanager
def replacing(
    parent: int,
    name: str,
    data: bytes,
    *,
    held: NoteFile,
    before: Callable[[], None],
    made_from: str = "",
) -> Iterator[Replaced]:
    """Replace a file, and flush its folder. What was displaced lies next to it until the block ends, and for good if that fails.

    ``held`` was read before: all that is known of the displaced file where the system cannot exchange two. ``made_from``:
    the hash of the text that ``data`` was made from, if ``held`` has another one, which nobody has in hand. A program that goes on writing the displaced file is waited for; :func:`recover` has what it writes later. Raises
    ``FileNotFoundError``, ``FileExistsError`` (another file has the name) or ``NotANote``, with nothing replaced, or ``OutcomeUnknown``.
    """
    certain, left, moved = False, True, False
    source, found = open_file(parent, name, exact=False)
    with ExitStack() as opened:
        opened.callback(os.close, source)
        if not is_same(found, held.found):  # defence: other-file-stays =False
            raise FileExistsError(errno.EEXIST, "another file has the name")
        about = (name, held, source)
        temporary, written = _write_temporary(parent, data, like=about, made_from=made_from)
        # Nobody writes ours before it has a name: where it seems so, the drive does not tell.
        tells = not _is_being_written(parent, temporary)
        try:
            before()
            # defence: files-exchanged =False
            certain = rename(parent, temporary, parent, name, exchange=True)
            if certain:
                left = not tells or _wait_for_writers(parent, temporary)
                held = _take_displaced(parent, temporary, name, own=held.mark)
                found = SYSTEM.look_at_open(source)
                moved = found.st_nlink > 0 and not is_same(found, held.found)
            else:
                opened.close()  # Windows replaces no open file
                SYSTEM.replace(parent, temporary, name)
            # Before the displaced file goes: a caller without an answer does not get its text either.
            flush(parent)
        except BaseException as error:
            back = isinstance(error, NotANote)
            # defence: taken-back-edit-stays -_is_still
            if not certain or (back and _is_still(parent, temporary, written)):
                _remove(parent, temporary)
            raise  # otherwise the displaced file stays: its content is in nobody's hands
    done = Replaced(written, held, certain, parent, name, temporary, left, moved)
    yield done
    if done.left:
        _remove(parent, temporary)


def move_file(parent: int, name: str, target: int, new_name: str, *, free: bool = False) -> None:
    """Move a file. Raises ``FileExistsError``; ``free``: what is there gets another name instead."""
    while True:
        try:
            move(parent, name, target, new_name)
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
        move(parent, name, target, new_name)
    except FileExistsError:
        if not is_same(SYSTEM.look(target, new_name), SYSTEM.look(parent, name)):
            raise
        between = _temporary_name(digest_of(b""), "")
        move(parent, name, parent, between)
        try:
            move(parent, between, target, new_name)
        except OSError:
            put_back(parent, between, parent, name)
            raise


def remove_file(
    parent: int,
    name: str,
    *,
    digest: str,
    before: Callable[[], None],
    is_replaced: Callable[[], bool],
) -> bool:
    """Remove a file for good if it has this content and nothing has taken its place; else put it back, and return False.

    Raises ``OutcomeUnknown`` if it was set aside, and can be neither removed nor put back.
    """
    temporary = _temporary_name(digest_of(b""), digest)
    before()
    move(parent, name, parent, temporary)
    try:
        # defence: deleted-is-what-was-read =True
        same = read_file(parent, temporary, exact=False).digest == digest
        # defence: deleted-is-not-replaced =same
        if same and not is_replaced():
            SYSTEM.unlink(parent, temporary)
            return True
    except NotANote:
        pass
    except OSError:
        put_back(parent, temporary, parent, name)
        raise
    put_back(parent, temporary, parent, name)
    return False


def find_set_aside(parent: int) -> set[str]:
    """Return the hashes of what :func:`remove_file` is about to remove from a folder, in any process."""
    nothing = digest_of(b"")
    with SYSTEM.scan(parent) as entries:
        found = [_TEMPORARY.fullmatch(one.name) for one in entries]
    return {one["read"] for one in found if one and one["ours"] == nothing}


def put_back(folder: int, now: str, parent: int, name: str) -> None:
    """Give a file its name again, or another one if that is taken. Raises ``OutcomeUnknown``."""
    try:
        _move_to_first(folder, now, parent, [name, *_other_names(name)])
    except OSError as error:
        raise OutcomeUnknown("the note was set aside, and cannot be put back") from error


def make_folders(root: int, parts: Sequence[str]) -> int:
    """Open a folder below another; what is missing is made, as open to others as the one above. Raises ``OSError``."""
    here = os.dup(root)
    for part in parts:
        with closing_descriptor(here):
            with suppress(FileExistsError):
                SYSTEM.make_folder(here, part)
                with closing_descriptor(open_folder(here, [part])) as made:
                    SYSTEM.permit_as(here, made, is_folder=True)
                    SYSTEM.flush_names(here)
            below = open_folder(here, [part])
        here = below
    return here


def flush(folder: int) -> None:
    """Flush a folder. Its names have changed already, so a failure leaves the write in doubt."""
    try:
        SYSTEM.flush_names(folder)
    except OSError as error:
        raise OutcomeUnknown("the folder of the note could not be flushed") from error


def recover(folder: int, name: str, *, changed: float, unchanged: float) -> bool:
    """Make a note or a canvas of a temporary file that a process has left behind; True if a program still writes it.

    It is removed if it holds what we have written, which the journal has, or what that was made from. It stays
    where the system refuses: one file must not keep the others from being listed.

    ``changed``: when, by a clock that may be set since, or that of another machine: it decides on names alone. ``unchanged``: the seconds for which
    it was seen to stay as it is.
    """
    spare = _SPARE.fullmatch(name)
    found = spare or _TEMPORARY.fullmatch(name)
    age = max(time.time() - changed, unchanged)
    if spare is not None and age >= min(_STUCK, LEFT_BEHIND):
        with suppress(OSError, OutcomeUnknown):
            # defence: unfinished-exchange-undone
            move(folder, name, folder, spare["name"])
            return False
    # defence: half-a-file-stays -unchanged
    if found is None or age < LEFT_BEHIND or unchanged < min(_STUCK, LEFT_BEHIND):
        return False
    if found.groupdict().get("ending") == _NO_NOTE:  # defence: half-a-file-is-no-note =False
        return _remove_left(folder, name, unchanged)
    with suppress(OSError, OutcomeUnknown):
        with suppress(NotANote):
            digest = read_file(folder, name, exact=False).digest
            known = digest[:_SHORT] if spare else digest
            # defence: displaced-edit-recovered =True
            if known in (found["ours"], found["read"]) or digest == digest_of(b""):
                return _remove_left(folder, name, unchanged)
        ending = spare["name"][spare["name"].rfind(".") :] if spare else found["ending"]
        kept = RECOVERED.format(found["number"], ending or ".md")
        move_file(folder, name, folder, kept, free=True)
    return False


def _remove_left(folder: int, name: str, unchanged: float) -> bool:
    """Remove what nobody misses, unless a process may be in the middle of its write; True: a program has it open for writing."""
    if unchanged < LEFT_BEHIND:  # defence: set-clock-removes-nothing =False
        return False
    # defence: written-file-stays =False
    if _is_being_written(folder, name, unsure=True) and _tells_writers(folder):
        return True
    _remove(folder, name)
    return False


def _tells_writers(folder: int) -> bool:
    """Tell whether the drive of a folder tells who writes: not if a new file, which nobody knows, seems to be written."""
    probe = _temporary_name(digest_of(b""), "", _NO_NOTE)
    with suppress(OSError):
        with _temporary_file(folder, probe, private=True):
            pass
        tells = not _is_being_written(folder, probe)
        _remove(folder, probe)
        return tells
    return True


def _temporary_name(ours: str, read: str, ending: str = "") -> str:
    return f".notarium-{ours}-{read}-{secrets.token_hex(4)}{ending}.tmp"


def _move_away(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        _move_to_first(folder, name, folder, _other_names(name))


def _other_names(name: str) -> Iterator[str]:
    stem, dot, ending = name.rpartition(".")
    return (f"{stem} {number}{dot}{ending}" for number in range(2, _MOST_NAMES))


def _move_to_first(folder: int, name: str, target: int, names: Iterable[str]) -> None:
    """Give a file the first of these names that is free in the target. Raises ``FileExistsError`` if none is."""
    for one in names:
        with suppress(FileExistsError):
            return move(folder, name, target, one)
    raise FileExistsError(errno.EEXIST, "no other name is free")


def _wait_for_writers(parent: int, displaced: str) -> bool:
    """Wait until no program writes a file that we have displaced; False if one still does in the end."""
    deadline = time.monotonic() + LONGEST_WAIT
    while _is_being_written(parent, displaced, unsure=True):
        if time.monotonic() > deadline:
            return False
        time.sleep(SETTLED)
    return True


def _is_being_written(parent: int, name: str, *, unsure: bool = False) -> bool:
    """Tell whether another program has a file open for writing; ``unsure``: what to say if it cannot be opened just then."""
    try:
        file, _ = open_file(parent, name, exact=False)
        with closing_descriptor(file):
            return is_being_written(file)
    except InUse:
        return unsure
    except (OSError, NotANote):
        return False


def _is_still(parent: int, name: str, written: NoteFile) -> bool:
    """Tell whether a file of ours is as it was written: nobody has changed it while it had its name, or has it open for that."""
    with suppress(OSError, NotANote):
        closed = _wait_for_writers(parent, name)
        now = read_file(parent, name, exact=False, own=written.mark)
        return closed and now.digest == written.digest
    return False


def _take_displaced(parent: int, temporary: str, name: str, *, own: Mark) -> NoteFile:
    try:
        try:
            return read_file(parent, temporary, exact=False, own=own)
        except NotANote:
            rename(parent, temporary, parent, name, exchange=True)
            raise
    except OSError as error:
        raise OutcomeUnknown(
            "the file that was replaced can be neither read nor put back"
        ) from error


def _write_temporary(
    parent: int, data: bytes, *, like: tuple[str, NoteFile, int] | None, made_from: str = ""
) -> tuple[str, NoteFile]:
    """Write a file that no listing shows, down to the disk.

    ``like``: the file that it is to replace, with its name, and open. It gets its attributes and its date of making; None: the
    folder tells how open it is to others.
    """
    ending = CANVAS if like is not None and like[0].endswith(CANVAS) else ""
    # defence: unmerged-edit-recovered -made_from
    read = made_from or (like[1].digest if like else "")
    name = _temporary_name(digest_of(data), read, ending)
    with _temporary_file(parent, name, private=like is not None) as file:
        file.write(data)
        if like is None:
            SYSTEM.permit_as(parent, file.fileno(), is_folder=False)
        else:
            SYSTEM.copy_rights(like[2], SYSTEM.look_at_open(like[2]), file.fileno())
            keep_created(file.fileno(), like[1].created)
        _flush(file)
        made = SYSTEM.look_at_open(file.fileno())
        identity = identity_of(file.fileno(), made)
        noted = like[1].created if like else None
        return name, NoteFile(data, data.decode(), made, identity, noted)


@contextmanager
def _temporary_file(parent: int, name: str, *, private: bool) -> Iterator[BinaryIO]:
    """Create a file and give it; it is gone if the block fails."""
    with os.fdopen(SYSTEM.create_file(parent, name, private=private), "wb") as file:
        try:
            yield file
        except BaseException:
            _remove(parent, name)
            raise


def _flush(file: BinaryIO) -> None:
    file.flush()
    SYSTEM.flush(file.fileno())


def _remove(folder: int, name: str) -> None:
    """Remove a temporary file. One that stays says nothing of the write; :func:`recover` finds it later."""
    with suppress(OSError):
        SYSTEM.unlink(folder, name)
