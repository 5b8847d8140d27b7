"""List the notes of a vault, and remember what each file was when it was read, also for the next start.

A file is read again only if its inode, size or dates have changed.
"""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from mcp_notarium.errors import NoteNotFound
from mcp_notarium.stores.vault.file_table import FileTable, Found, State, is_settled, state_of
from mcp_notarium.stores.vault.file_writer import NoteFile, read_file
from mcp_notarium.stores.vault.folder import Mark, NotANote, open_parent
from mcp_notarium.stores.vault.paths import Place

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class FullListing:
    """Hold the notes of a vault, newest first."""

    files: tuple[Found, ...]
    left_out: int
    """Number of files that are no notes for us."""
    cursor: str
    """It is another one after any change."""


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what was read of a file in one state; ``digest`` "": it is no note."""

    state: State
    digest: str
    identity: str | None
    evicted: bool = False
    """Its content was at iCloud only by then, and what was read of it is older."""


class KnownFiles:
    """Hold the last known state of each file. ``unsaved``: how many have changed since the last text of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Place, Known] = {}
        self.unsaved = 0

    def find(self, place: Place, state: State) -> Known | None:
        """Return what was read of a file, if it has not changed since."""
        with self._lock:
            held = self._files.get(place)
        # defence: other-state-read-again =True
        return held if held is not None and held.state == state else None

    def last(self, place: Place) -> Known | None:
        """Return what was read of a file, whatever has become of it since."""
        with self._lock:
            return self._files.get(place)

    def is_unreadable(self, place: Place) -> bool:
        """Tell whether the file was no note when it was last read, or could not be read."""
        with self._lock:
            held = self._files.get(place)
        return held is not None and (not held.digest or held.evicted)

    def remember(self, place: Place, known: Known) -> None:
        """Remember a file, unless it may change again without another date."""
        if is_settled(max(known.state[-2:])):
            with self._lock:
                self._files[place] = known
                self.unsaved += 1

    def forget(self, place: Place) -> None:
        """Forget a file."""
        with self._lock:
            self._files.pop(place, None)
            self.unsaved += 1

    def keep_only(self, places: Collection[Place]) -> dict[Place, Known]:
        """Forget all other files; return them."""
        with self._lock:
            gone = {place: one for place, one in self._files.items() if place not in places}
            self._files = {place: one for place, one in self._files.items() if place in places}
            self.unsaved += len(gone)
        return gone

    def digests(self) -> list[str]:
        """Return the hashes of all known files."""
        with self._lock:
            return [one.digest for one in self._files.values()]

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        """Return those places of which nothing is known."""
        with self._lock:
            return [place for place in places if place not in self._files]

    def to_text(self) -> str:
        """Return all that is known, for :meth:`load`."""
        with self._lock:
            rows = [
                (*place, *one.state, one.digest, one.identity, one.evicted)
                for place, one in self._files.items()
            ]
            self.unsaved = 0
        return base64.b64encode(zlib.compress(json.dumps(rows).encode(), 1)).decode()

    def load(self, text: str) -> None:
        """Load what another process knew. A text of another form is ignored: the files are read again."""
        try:
            rows = json.loads(zlib.decompress(base64.b64decode(text)))
            found = {
                (path, trash): Known((inode, size, modified, changed), digest, identity, evicted)
                for path, trash, inode, size, modified, changed, digest, identity, evicted in rows
            }
        except (ValueError, TypeError, zlib.error):
            return
        with self._lock:
            self._files = found | self._files


class Listing:
    """Remember what was read of each file. For any thread."""

    def __init__(self) -> None:
        self.files = KnownFiles()
        self._inherited: dict[Place, tuple[str | None, str]] = {}
        """Place of a rewritten file -> its own identity, and that of the note it goes on with."""
        self._written: Mark | None = None

    def list_all(self, root: int, table: FileTable) -> FullListing:
        """Return all notes of the files that were found."""
        files = [one for one in table.files.values() if one.is_note]
        alive = {one.path for one in files if not one.trash}
        shown = [one for one in files if not one.trash or one.path not in alive]
        shown.sort(key=lambda one: (-one.state[2], one.path))
        self._follow_copies(root, shown)
        return FullListing(tuple(shown), len(table.files) - len(shown), table.cursor())

    def known(self, one: Found) -> Known | None:
        """Return what was read of the file, if it has not changed since."""
        return self.files.find(one.place, one.state)

    def identity(self, one: Found) -> str | None:
        """Return the identity of the file itself as it was found; None if it is not known."""
        known = self.known(one)
        own = known.identity if known is not None else None
        return own if own is not None and own.startswith(f"{one.state[0]}:") else None

    def read(self, root: int, place: Place, *, exact: bool = True) -> NoteFile:
        """Read a file and remember what it is. Raises ``NoteNotFound``, ``NotANote``, ``OSError``."""
        path, trash = place
        with open_parent(root, path, trash=trash, exact=exact) as (parent, name):
            file = read_file(parent, name, exact=exact, own=self._written)
        return self.remember(place, file)

    def find(self, root: int, path: str) -> tuple[Place, NoteFile]:
        """Read a note where it lies. Raises ``NoteNotFound``, ``NotANote``."""
        with suppress(NoteNotFound):
            return (path, False), self.read(root, (path, False))
        return (path, True), self.read(root, (path, True))

    def remember(self, place: Place, file: NoteFile) -> NoteFile:
        """Remember a file as it was read; return it with the identity that its note has."""
        own, inherited = self._inherited.get(place, (None, ""))
        if inherited and own == file.identity:
            file = replace(file, identity=inherited)
        self.files.remember(place, Known(state_of(file.found), file.digest, file.identity))
        return file

    def remember_written(self, place: Place, file: NoteFile) -> NoteFile:
        """Remember a file that was written here; see :meth:`remember`."""
        self._written = file.mark
        return self.remember(place, file)

    def follow(self, place: Place, target: Place) -> None:
        """Let a file that was renamed from here keep the identity of its note."""
        if (inherited := self._inherited.pop(place, None)) is not None:
            self._inherited[target] = inherited

    def remember_unreadable(self, one: Found, *, evicted: bool) -> None:
        """Remember that the file is no note, or that it is evicted, until it changes."""
        last = self.files.last(one.place) if evicted else None
        digest, identity = (last.digest, last.identity) if last else ("", None)
        self.files.remember(one.place, Known(one.state, digest, identity, evicted))

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
    listed = [*pairs]
    often = Counter(key for key, _ in listed)
    return {key: value for key, value in listed if often[key] == 1}
