"""List the notes of a vault. A file is read again only if its inode, size or dates have changed.

A listing looks at every file, whatever the system has told of events: those can be missed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from mcp_notarium.errors import NoteNotFound
from mcp_notarium.stores.vault.folder import NotANote, open_folder, open_parent
from mcp_notarium.stores.vault.known_files import (
    Known,
    KnownFiles,
    Place,
    State,
    is_settled,
    state_of,
)
from mcp_notarium.stores.vault.paths import TRASH, is_ignored_folder, is_note_name, is_whole_path
from mcp_notarium.stores.vault.writing import NoteFile, read_file, recover

_DEEPEST = 64
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Found:
    """Hold a file that a scan has seen. ``state`` is another one after any change of it."""

    path: str
    trash: bool
    state: State
    modified_ns: int

    @property
    def place(self) -> Place:
        """Return where it is."""
        return self.path, self.trash


@dataclass(frozen=True, slots=True)
class Scan:
    """Hold the files of a vault, newest first; ``cursor`` is another one after any change.

    ``folders``: the paths of all folders that were looked into. ``left_out`` files are no notes for us.
    """

    files: tuple[Found, ...]
    left_out: int
    cursor: str
    folders: tuple[str, ...]


class Listing:
    """Remember what was read of each file. For any thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """How long the last scan took."""
        self.files = KnownFiles()
        self._inherited: dict[Place, tuple[str | None, str]] = {}
        """Where a file has been written anew -> its own identity, and that of the note it goes on with."""

    def scan(self, root: int) -> Scan:
        """Look at every file. Raises ``OSError`` for a folder that cannot be listed for once."""
        began = time.monotonic()
        files: list[Found] = []
        seen: list[tuple[str, str, int, int, int, int]] = []
        folders: list[str] = []
        left_out, newest = 0, 0
        for above, entry, found in _walk(root, folders):
            seen.append(
                (
                    above,
                    entry.name,
                    found.st_ino,
                    found.st_mtime_ns,
                    found.st_ctime_ns,
                    found.st_size,
                )
            )
            newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
            path = f"{above}/{entry.name}" if above else entry.name
            trash = path.startswith(f"{TRASH}/")
            path = path.removeprefix(f"{TRASH}/") if trash else path
            if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and is_whole_path(path):
                files.append(Found(path, trash, state_of(found), found.st_mtime_ns))
            else:
                left_out += 1
        alive = {one.path for one in files if not one.trash}
        shown = [one for one in files if not one.trash or one.path not in alive]
        left_out += len(files) - len(shown)
        once = "" if is_settled(newest) else os.urandom(8).hex()
        seen.sort()
        cursor = hashlib.sha256(
            repr((seen, sorted(folders), once)).encode("utf-8", "replace")
        ).hexdigest()
        shown.sort(key=lambda one: (-one.modified_ns, one.path))
        self.seconds = time.monotonic() - began
        self._follow_copies(root, shown)
        return Scan(tuple(shown), left_out, cursor, tuple(folders))

    def known(self, one: Found) -> Known | None:
        """Return what was read of the file, if it has not changed since."""
        return self.files.find(one.place, one.state)

    def read(self, root: int, place: Place, *, exact: bool = True) -> NoteFile:
        """Read a file and remember what it is. Raises ``NoteNotFound``, ``NotANote``, ``OSError``."""
        path, trash = place
        with open_parent(root, path, trash=trash, exact=exact) as (parent, name):
            file = read_file(parent, name, exact=exact)
        return self.remember(place, file)

    def find(self, root: int, path: str) -> tuple[Place, NoteFile]:
        """Read a note where it lies. Raises ``NoteNotFound``, ``NotANote``."""
        with suppress(NoteNotFound):
            return (path, False), self.read(root, (path, False))
        return (path, True), self.read(root, (path, True))

    def remember(self, place: Place, file: NoteFile) -> NoteFile:
        """Remember a file as it was read or written; return it with the identity that its note has."""
        own, inherited = self._inherited.get(place, (None, ""))
        if inherited and own == file.identity:
            file = replace(file, identity=inherited)
        self.files.remember(place, Known(state_of(file.found), file.digest, file.identity))
        return file

    def follow(self, place: Place, target: Place) -> None:
        """Let a file that was renamed from here keep the identity of its note."""
        if (inherited := self._inherited.pop(place, None)) is not None:
            self._inherited[target] = inherited

    def remember_unreadable(self, one: Found) -> None:
        """Remember that the file is no note, until it changes."""
        self.files.remember(one.place, Known(one.state, "", None))

    def _follow_copies(self, root: int, files: list[Found]) -> None:
        """Forget the files that are gone, but for the identity of those that stand elsewhere with the same bytes.

        Git and sync tools move a note by writing a new file and removing the old one. A content that two files
        have, or had, tells nothing.
        """
        gone = self.files.keep_only({one.place for one in files})
        new = self.files.unknown(one.place for one in files) if gone else []
        if not new:
            return
        held = self.files.digests()
        lost = _once((one.digest, one.identity) for one in gone.values() if one.digest)
        found: list[tuple[str, tuple[Place, str | None]]] = []
        for place in new:
            with suppress(NoteNotFound, NotANote, FileNotFoundError):
                file = self.read(root, place, exact=False)
                found.append((file.digest, (place, file.identity)))
        for digest, (place, own) in _once(found).items():
            if (identity := lost.get(digest)) and digest not in held:
                self._inherited[place] = own, identity
                self.files.forget(place)


def _once(pairs: Iterable[tuple[str, _Value]]) -> dict[str, _Value]:
    """Return those pairs whose key stands once."""
    listed = [*pairs]
    often = Counter(key for key, _ in listed)
    return {key: value for key, value in listed if often[key] == 1}


def _walk(root: int, folders: list[str]) -> Iterator[tuple[str, os.DirEntry[str], os.stat_result]]:
    """Yield all entries with the name of a note; append to ``folders`` what is looked into.

    A folder that vanishes or must not be read has no notes. Of the ignored folders the trash is looked into.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            here = open_folder(root, above.split("/") if above else [], exact=False)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        try:
            folders.append(above)
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if _is_looked_into(above, entry.name):
                            waiting.append(f"{above}/{entry.name}" if above else entry.name)
                        continue
                    with suppress(FileNotFoundError):
                        if is_note_name(entry.name):
                            yield above, entry, entry.stat(follow_symlinks=False)
                        elif entry.name.startswith(".notarium-"):
                            recover(here, entry.name, entry.stat(follow_symlinks=False).st_ctime)
        finally:
            os.close(here)


def _is_looked_into(above: str, name: str) -> bool:
    if not above and name == TRASH:
        return True
    parents = above.split("/") if above else [""]
    return len(parents) < _DEEPEST and not is_ignored_folder(parents[-1], name)
