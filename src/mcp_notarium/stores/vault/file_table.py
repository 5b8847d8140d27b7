"""Remember what the files of a vault look like, and learn which of them have changed since that was last told.

A scan looks at every file. Between two scans only those files are looked at that the system names in its events. Events
are missing on network drives, where the system's limit on watches is reached, and for a few kinds of changes, as of mapped
memory: so a scan is made now and then. What this remembers is never read from a file:
``listing`` does that.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mcp_notarium.stores.vault.file_writer import recover
from mcp_notarium.stores.vault.folder import find_placeholder, open_folder
from mcp_notarium.stores.vault.paths import (
    TRASH,
    Name,
    Place,
    folder_parts,
    is_ignored_folder,
    is_note_name,
    is_whole_path,
    named_by,
)
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import Entry, FileState

State = tuple[int, int, int, int]
"""Inode, size, and times of the last change of content and of anything, in nanoseconds.

Not the device: some systems give it another number at each start.
"""
_SECOND = 10**9
_RECENT, _COARSE = 0.1, 2.0
"""Seconds in which a file may change again without another date; the second where dates are whole seconds."""
_DEEPEST = 64
_TEMPORARY = ".notarium-"


class Found(NamedTuple):
    """Hold what a look at a file has shown."""

    path: str
    trash: bool
    state: State
    """Another one after any change of it."""
    is_note: bool
    """It is a regular file with one name, and its path can be an id."""
    evicted: bool
    """Its content is at iCloud only, and ``state`` may be that of the file in its place."""
    weight: int
    """Its part of the cursor."""

    @property
    def place(self) -> Place:
        """Return where it is."""
        return self.path, self.trash


class FileTable:
    """Remember all files with the name of a note. Not for two threads at once.

    ``changed``: what each file was that has changed since :meth:`mark_told`; None: it was not there.
    """

    def __init__(self) -> None:
        self.files: dict[Name, Found] = {}
        self.changed: dict[Name, Found | None] = {}
        self.folders: tuple[str, ...] = ()
        """The paths of all folders that the last scan has looked into."""
        self.seconds = 0.0
        """Duration of the last scan."""
        self.scanned_at = float("-inf")
        """Beginning of the last scan, on the clock of ``time.monotonic``, if all is known since."""
        self._inodes: dict[int, Name] = {}
        self._unsettled: set[Name] = set()
        self._left: dict[Name, tuple[State, float]] = {}
        """State of each temporary file in the last scan, and when it was first seen so, on the clock of ``time.monotonic``."""
        self._sum = self._folders_weight = 0
        self.other_folders = False
        """Folders have come or gone since :meth:`mark_told`."""

    @property
    def settled(self) -> bool:
        """Tell whether each file would get another state by another change."""
        return not self._unsettled

    def cursor(self) -> str:
        """Return a text that is another one after any change; of files that are not settled it never comes twice."""
        once = "" if self.settled else os.urandom(8).hex()
        return f"{self._sum + self._folders_weight:x}{once and '-'}{once}"

    def mark_told(self) -> None:
        """Record that all changes so far have been told."""
        self.changed, self.other_folders = {}, False

    def scan(self, root: int) -> None:
        """Look at every file. Raises ``OSError`` for a folder that cannot be listed for once."""
        began, self.scanned_at = time.monotonic(), float("-inf")
        folders: list[str] = []
        gone = self.files.copy()
        left, self._left = self._left, {}
        for name, found, evicted in _walk(root, folders, partial(self._recover, left)):
            self._put(name, found, evicted=evicted)
            gone.pop(name, None)
        for name in gone:
            self._put(name, None)
        self.other_folders = self.other_folders or {*folders} != {*self.folders}
        self.folders, self._folders_weight = tuple(folders), _weigh(sorted(folders))
        self.scanned_at, self.seconds = began, time.monotonic() - began

    def _recover(
        self, left: Mapping[Name, tuple[State, float]], folder: int, name: Name, found: FileState
    ) -> None:
        """Recover a temporary file that nobody works with any more. ``left``: those of the scan before."""
        state, now = state_of(found), time.monotonic()
        was, since = left.get(name, (state, now))
        since = since if was == state else now
        written = recover(folder, name[1], changed=found.st_ctime, unchanged=now - since)
        self._left[name] = state, (now if written else since)

    def look_at(self, root: int, names: Iterable[Name]) -> bool:
        """Look at these files, and at those that were not settled. False: only a scan can tell what has changed.

        A name that is not known may be another spelling of one that is: the file system may take both for one.
        """
        scanned_at, self.scanned_at = self.scanned_at, float("-inf")
        wanted = {*names, *self._unsettled}
        for above, name in sorted(wanted, key=lambda one: (one not in self.files, one)):
            found: FileState | None = None
            evicted = False
            with suppress(FileNotFoundError):
                try:
                    folder = open_folder(root, folder_parts(above), exact=False)
                except OSError:
                    return False
                with closing_descriptor(folder):
                    found, evicted = _stat(folder, name)
            held = self.files.get((above, name))
            if held is None and found is None:  # it came and went, and may be in the index
                self.changed.setdefault((above, name), None)
                continue
            if held is None and found is not None and found.st_ino in self._inodes:
                return False
            self._put((above, name), found, evicted=evicted)
        self.scanned_at = scanned_at
        return True

    def look_again(self, one: Found) -> None:
        """Let a file that could not be read for the moment count as changed the next time."""
        folder, _, name = one.path.rpartition("/")
        self._unsettled.add(("/".join(filter(None, (TRASH if one.trash else "", folder))), name))

    def is_alone(self, name: Name) -> bool:
        """Tell whether no other name has the file that this one has."""
        return self._inodes.get(self.files[name].state[0]) == name

    def find_source(self, name: Name) -> Found | None:
        """Return what was at another name and had this file's inode when the changes were last told."""
        inode = self.files[name].state[0]
        was = {old.state[0]: (one, old) for one, old in self.changed.items() if old is not None}
        source, old = was.get(inode, (name, None))
        return None if source == name else old

    def _put(self, name: Name, found: FileState | None, *, evicted: bool = False) -> None:
        """Remember a file; None: it is gone. One that was not settled counts as changed once more when it is."""
        held, state = self.files.get(name), None if found is None else state_of(found)
        settled = state is None or is_settled(max(state[-2:]))
        same = (held and held.state) == state and (held is None or held.evicted == evicted)
        if same and (name not in self._unsettled or not settled):
            return
        self.changed.setdefault(name, held)
        (self._unsettled.discard if settled else self._unsettled.add)(name)
        if held is not None:
            self._sum -= held.weight
            if self._inodes.get(held.state[0]) == name:
                del self._inodes[held.state[0]]
        if found is None:
            self.files.pop(name, None)
            return
        now = _made(name, found, evicted=evicted)
        self._sum += now.weight
        self._inodes[found.st_ino] = name
        self.files[name] = now


def is_settled(newest: int) -> bool:
    """Tell whether what last changed at this time (nanoseconds) would get another date from the next change."""
    recent = _RECENT if newest % _SECOND else _COARSE
    return abs(time.time() - newest / _SECOND) > recent


def state_of(found: FileState) -> State:
    """Return the state of a file."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _stat(folder: int, name: str) -> tuple[FileState | None, bool]:
    """Return the state of a file, or of what iCloud has put in its place, and whether its content is not here."""
    try:
        found = SYSTEM.look(folder, name)
    except FileNotFoundError:
        instead = find_placeholder(folder, name)
        return instead, instead is not None
    return found, SYSTEM.is_elsewhere(found)


def _made(name: Name, found: FileState, *, evicted: bool) -> Found:
    path = "/".join(filter(None, name))
    trash = path.startswith(f"{TRASH}/")
    path = path.removeprefix(f"{TRASH}/") if trash else path
    state = state_of(found)
    is_note = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and is_whole_path(path)
    about = (path, trash, state, is_note, evicted)
    return Found(*about, _weigh(about))


def _weigh(about: object) -> int:
    digest = hashlib.blake2b(repr(about).encode("utf-8", "replace"), digest_size=32).digest()
    return int.from_bytes(digest, "big")


def _walk(
    root: int, folders: list[str], recover_left: Callable[[int, Name, FileState], None]
) -> Iterator[tuple[Name, FileState, bool]]:
    """Yield all entries with the name of a note, and whether the content is at iCloud only; append to ``folders`` what is looked into.

    ``recover_left`` gets each temporary file, with its open folder.
    A folder that vanishes or must not be read has no notes. Of the ignored folders the trash is looked into.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            here = open_folder(root, folder_parts(above), exact=False)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        with closing_descriptor(here):
            folders.append(above)
            for entry in _list(here, above, recover_left):
                if entry.is_dir(follow_symlinks=False):
                    if _is_looked_into(above, entry.name):
                        waiting.append(f"{above}/{entry.name}" if above else entry.name)
                    continue
                with suppress(FileNotFoundError):
                    if is_note_name(entry.name):
                        own = entry.stat(follow_symlinks=False)
                        yield (above, entry.name), own, SYSTEM.is_elsewhere(own)
                    elif (name := named_by(entry.name)) is not None:
                        found, evicted = _stat(here, name)
                        if found is not None and evicted and not SYSTEM.is_elsewhere(found):
                            yield (above, name), found, evicted


def _list(
    here: int, above: str, recover_left: Callable[[int, Name, FileState], None]
) -> list[Entry]:
    """Return what a folder holds when its temporary files have been recovered, of which each may have become a note."""
    with SYSTEM.scan(here) as entries:
        listed = [*entries]
    left = [one for one in listed if one.name.startswith(_TEMPORARY)]
    for one in left:
        with suppress(FileNotFoundError):
            recover_left(here, (above, one.name), one.stat(follow_symlinks=False))
    if left:
        with SYSTEM.scan(here) as entries:
            return [*entries]
    return listed


def _is_looked_into(above: str, name: str) -> bool:
    if not above and name == TRASH:
        return True
    parents = above.split("/") if above else [""]
    return len(parents) < _DEEPEST and not is_ignored_folder(parents[-1], name)


_CALM = 0.1
"""Seconds without an event after which a burst of them is over."""
_LONGEST_BURST = 1.0


class Watch:
    """Learn from the system's events which notes may have changed; see ``FolderEvents`` of the port."""

    def __init__(self, root: Path) -> None:
        self._events = SYSTEM.folder_events(root)

    def follow(self, folders: Iterable[str]) -> bool:
        """Watch these folders below the root, and no others; return whether any of them is new."""
        return self._events is not None and self._events.follow(folders)

    def take(self) -> set[Name] | None:
        """Return the files that have changed since the last call; None: anything may have."""
        changed = None if self._events is None else self._events.take()
        if changed is None:
            return None
        notes = ((folder, named_by(name) or name) for folder, name in changed)
        return {(folder, name) for folder, name in notes if is_note_name(name)}

    async def wait(self, seconds: float) -> None:
        """Return when something has changed and a burst of changes is over, or after that time."""
        if self._events is None:
            await asyncio.sleep(seconds)
        elif await self._events.wait(seconds):
            end = asyncio.get_running_loop().time() + _LONGEST_BURST
            while asyncio.get_running_loop().time() < end and await self._events.wait(_CALM):
                pass

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self._events is not None:
            self._events.close()
