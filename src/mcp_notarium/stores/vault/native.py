"""Read the files of a vault for native tools in pages, as far as the policy shows them.

Each page is of one version, and a file is read once for all of its pages. A page is cut from a snapshot: the file as
it was read at one time. A snapshot is kept while more
of it follows, and used as long as the open file has the same device, inode, size and times. At most 64 files of
64 MiB together are kept, the last used ones.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial

from mcp_notarium.domain.lines import find_cut
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.extensions import NoteIndex
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault.folder import SETTLED, VaultFolder, open_note, read_settled
from mcp_notarium.stores.vault.note_codec import find_tags
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import FileState
from mcp_notarium.threads import run_in_thread

LARGEST = 64 * 1024 * 1024
"""Bytes of a note that is read in pages, at most."""
MOST_BYTES = LARGEST
"""Bytes of the files of all snapshots that are kept, at most."""
MOST_NOTES = 64
"""Snapshots that are kept, at most."""
_LONGEST_CLUSTER = 128
"""Characters that make one visible character, at most; less than the smallest page."""
_COARSE = 2.0
"""Seconds between two times of the same file on the coarsest file systems."""
_SECOND = 10**9

State = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Hold the text of a file, with U+FFFD for each byte that is no UTF-8."""

    state: State
    token: str
    mtime_ms: int
    text: str = field(repr=False)
    total_lines: int
    tags: tuple[str, ...]
    tags_understood: bool
    identity: str | None

    def cut(self, start: int, most: int) -> str:
        """Return at most ``most`` characters from ``start``, up to a place between two visible characters."""
        window = self.text[start : start + most + 1]
        return window[: find_cut(window, most, back=_LONGEST_CLUSTER)]


@dataclass(frozen=True, slots=True)
class Page:
    """Hold a part of a note, as the store has just read it, and what is known of the whole."""

    path: str
    token: str
    """Names these bytes of the note and no others."""
    mtime_ms: int
    text: str = field(repr=False)
    next_start: int | None
    """The character (from 0) that follows the part; None at the end."""
    total_chars: int
    total_lines: int
    whole: str = field(repr=False)
    """The text of all. The policy judges it with the next three, as those of a ``Revision``."""
    tags: tuple[str, ...]
    tags_understood: bool
    identity: str | None


class NotePages:
    """Read the notes of one vault in pages."""

    def __init__(self, folder: VaultFolder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()

    async def page(self, path: str, *, start: int, most: int, tags: bool) -> Page:
        """Read at most ``most`` characters from ``start``; none if that is past the end.

        The part ends between two visible characters. ``tags`` False: nobody asks for the tags. Raises
        ``NoteNotFound``, and ``StoreProtocolError`` for a file that is not read as a note.
        """
        call = partial(self._page, path, start=start, most=most, tags=tags)
        return await run_in_thread(call)

    def forget(self) -> None:
        """Forget all snapshots."""
        with self._lock:
            self._kept.clear()

    @property
    def kept_bytes(self) -> int:
        """Return the bytes of the files of all snapshots."""
        return sum(one.state[2] for one in self._kept.values())

    def _page(self, path: str, *, start: int, most: int, tags: bool) -> Page:
        with self._folder.opened() as root:
            file, found = open_note(root, path)
            with closing_descriptor(file):
                snapshot = self._find(path, _state_of(found)) or self._read(file, tags=tags)
        text = snapshot.cut(start, most)
        end = start + len(text)
        more = bool(text) and end < len(snapshot.text)
        self._keep(path, snapshot if more else None)
        return Page(
            path=path,
            token=snapshot.token,
            mtime_ms=snapshot.mtime_ms,
            text=text,
            next_start=end if more else None,
            total_chars=len(snapshot.text),
            total_lines=snapshot.total_lines,
            whole=snapshot.text,
            tags=snapshot.tags,
            tags_understood=snapshot.tags_understood,
            identity=snapshot.identity,
        )

    def _find(self, path: str, state: State) -> Snapshot | None:
        with self._lock:
            kept = self._kept.get(path)
        # defence: changed-file-read-again -state
        return kept if kept is not None and kept.state == state else None

    def _keep(self, path: str, snapshot: Snapshot | None) -> None:
        """Keep a snapshot of which more will be read; None: the note has been read to its end."""
        with self._lock:
            self._kept.pop(path, None)
            if snapshot is None or not _is_settled(snapshot.state):
                return
            self._kept[path] = snapshot
            while self.kept_bytes > MOST_BYTES or len(self._kept) > MOST_NOTES:
                self._kept.popitem(last=False)

    def _read(self, file: int, *, tags: bool) -> Snapshot:
        read = read_settled(file, largest=LARGEST)
        text = read.data.decode(errors="replace")
        whole = "\ufffd" not in text or _is_utf8(read.data)
        known = (
            len(read.data) <= file_writer.LARGEST
        )  # of a larger one it would take half a gigabyte
        found, understood = find_tags(text) if tags and known else ((), known)
        return Snapshot(
            state=_state_of(read.found),
            token=f"sha256:{hashlib.sha256(read.data).hexdigest()}",
            mtime_ms=read.found.st_mtime_ns // 1_000_000,
            text=text,
            total_lines=text.count("\n") + (bool(text) and not text.endswith("\n")),
            tags=found,
            tags_understood=understood and whole,
            identity=file_writer.identity_of(file, read.found),
        )


def _state_of(found: FileState) -> State:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _is_settled(state: State) -> bool:
    """Tell whether another write would change the times: the clock of a file system ticks now and then."""
    *_, mtime, ctime = state
    coarse = mtime % _SECOND == 0
    return time.time() - max(mtime, ctime) / _SECOND > (_COARSE if coarse else SETTLED)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_PATH_SHOWN = 80


class NativeVault:
    """Read the notes of one vault. Nothing is written."""

    beyond_index = False

    def __init__(self, pages: NotePages, index: NoteIndex) -> None:
        self._pages = pages
        self._index = index

    async def page(self, path: str, *, start: int, most: int) -> Page:
        """Read a part of a note, also by a path that it had before.

        Raises ``NoteNotFound``, in the same words for a hidden one.
        """
        try:
            return await self._page(path, start=start, most=most)
        except NoteNotFound:
            renamed = self._index.current_id(path)
            if renamed is None:
                raise
            return await self._page(renamed, start=start, most=most)

    async def _page(self, path: str, *, start: int, most: int) -> Page:
        rules = self._index.rules
        if self._index.hides_name(path):
            raise _missing_error(path)
        needed = rules.tags_matter or not rules.untagged
        try:
            page = await self._pages.page(path, start=start, most=most, tags=needed)
        except NoteNotFound:
            raise _missing_error(path) from None
        except StoreProtocolError:  # nobody can tell which tags it has
            if rules.has_rules:
                raise _missing_error(path) from None
            raise
        clear = page.tags_understood
        # defence: page-judged
        judged = Content(page.whole, page.tags)
        if not self._index.sees(page.path, judged, clear=clear, identity=page.identity):
            raise _missing_error(path)
        return page


def _missing_error(path: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note at this path.",
        details={"path": path[:_PATH_SHOWN]},
        resolution_hint="Write the path from the top of the notes, with `/` between folders and the ending "
        "of the file, spelled as it is there.",
    )
