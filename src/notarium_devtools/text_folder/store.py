"""Serve a folder of plain text files as a note store.

A note is a ``.txt`` file in UTF-8, and its id is the file's name without the ending. The first line is its
title; a file keeps its name when the title changes. Hidden files and folders below are no notes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    CursorLost,
    IdTaken,
    NoteNotFound,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import (
    SEEDED,
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    WriteGuard,
    check_not_withdrawn,
)
from mcp_notarium.threads import run_in_thread
from notarium_devtools.text_folder.files import LARGEST, Folder, NotText, TextFile, Written
from notarium_devtools.text_folder.kind import KIND

ENDING = ".txt"
_LONGEST_NAME = 255
_LONGEST_TITLE = 100
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|]+')
_RECENT = 0.1
"""Seconds in which a file may change again without another date."""
_LOOKS = 30
"""Looks at the folder, at most, in one wait without news."""


class TextFolder:
    """Reach the notes of one folder. Files are read and written in threads."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        KIND.ids,
        Retry.ASK,
        probe=True,
        long_poll=True,
        tags=False,
        dates=False,
        max_note_bytes=LARGEST,
    )
    codec_version = 1
    pause = 2.0
    """Seconds between two looks of a wait."""

    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. A mark is date and name of the last file of the page before."""
        return await run_in_thread(partial(self._list_page, mark, limit, with_content))

    def _list_page(self, mark: str | None, limit: int, with_content: bool) -> ListingPage:  # noqa: FBT001
        entries: list[Revision | Entry] = []
        with self._opened() as folder:
            files, left_out, cursor = self._scan(folder)
            rest = [file for file in files if mark is None or file > _parse_mark(mark)]
            page = rest[: max(1, limit)]
            left_out = left_out if mark is None else 0
            for _, name in page:
                try:
                    file = self._folder.read(folder, name)
                except NotText:
                    left_out += 1
                except FileNotFoundError:
                    continue
                else:
                    note_id = name.removesuffix(ENDING)
                    entry = Entry(note_id, file.etag, identity=file.identity)
                    entries.append(_revision(note_id, file) if with_content else entry)
        more = "{}:{}".format(*page[-1]) if len(page) < len(rest) else None
        return ListingPage(tuple(entries), cursor, more, len(files), left_out)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``: it looks at inodes, dates and sizes, and reads no file."""
        page = await run_in_thread(partial(self._probe, cursor))
        for _ in range(_LOOKS if wait else 0):
            await asyncio.sleep(self.pause)
            page = await run_in_thread(partial(self._probe, cursor))
        return page

    def _probe(self, cursor: str) -> ChangePage:
        with self._opened() as folder:
            _files, _left_out, now = self._scan(folder)
        if now != cursor:
            raise CursorLost("something in the folder has changed")
        return ChangePage((), cursor)

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``. Raises ``StoreProtocolError`` for a file that is no text."""
        return await run_in_thread(partial(self._get, note_id))

    def _get(self, note_id: str) -> Revision:
        with self._opened() as folder, _missing(note_id):
            return _revision(note_id, self._folder.read(folder, _name_of(note_id)))

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:  # noqa: ARG002
        """See ``Store.compose``: the bytes of the file."""
        return content.cleaned().text.encode()

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return Revision(note_id, "", Content(body.decode()), 0.0, 0.0, b"")

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``: the title, with a number if that is taken, and with the seed in the end."""
        first = next(filter(str.strip, content.cleaned().text.lstrip("\ufeff").splitlines()), "")
        title = " ".join(unicodedata.normalize("NFC", _NOT_IN_NAMES.sub(" ", first)).split())
        title = title.strip(" .")
        title = title.encode()[:_LONGEST_TITLE].decode(errors="ignore").strip(" .") or "Untitled"
        if attempt == 0:
            return title
        return f"{title} {attempt + 1 if attempt < SEEDED else seed[:8] + str(attempt)}"

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. A new note never overwrites a file."""
        return await run_in_thread(partial(self._push, write))

    def _push(self, write: PendingWrite) -> Acknowledgement:
        if len(write.body) > LARGEST:
            raise StoreRejected("the note is too large for a file of this folder")
        with self._opened() as folder:
            if write.base_etag is None:
                return self._create(folder, write)
            with _missing(write.note_id):
                return self._replace(folder, write)

    def _create(self, folder: int, write: PendingWrite) -> Acknowledgement:
        try:
            name = _name_of(write.note_id)
            written = self._folder.create(folder, name, write.body, before=check_not_withdrawn)
        except (FileExistsError, NoteNotFound):
            raise IdTaken("a file of this name exists", details={"id": write.note_id}) from None
        _flush(folder)
        return Acknowledgement(_stored(write, written), PushStatus.STORED, alone=True)

    def _replace(self, folder: int, write: PendingWrite) -> Acknowledgement:
        name = _name_of(write.note_id)
        try:
            held = self._folder.read(folder, name)
            if held.data == write.body:
                _flush(folder)  # an earlier push of it may have failed there
                return Acknowledgement(_revision(write.note_id, held), PushStatus.UNCHANGED)
            if held.etag != write.base_etag:
                raise VersionConflict("the file has changed", details={"id": write.note_id})
            written, displaced, certain = self._folder.replace(
                folder, name, write.body, held=held, before=check_not_withdrawn
            )
        except NotText:
            raise VersionConflict(
                "the file is not text now", details={"id": write.note_id}
            ) from None
        _flush(folder)
        other = _revision(write.note_id, displaced) if displaced.etag != write.base_etag else None
        return Acknowledgement(
            _stored(write, written),
            PushStatus.STORED,
            alone=certain and other is None,
            displaced=other,
        )

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. An edit between the comparison and the removal is lost."""
        await run_in_thread(partial(self._delete, note_id, etag))

    def _delete(self, note_id: str, etag: str) -> None:
        with self._opened() as folder, suppress(NoteNotFound), _missing(note_id):
            try:
                held = self._folder.read(folder, _name_of(note_id))
            except NotText:
                held = None
            if held is None or held.etag != etag:
                raise VersionConflict("the note has changed", details={"id": note_id})
            check_not_withdrawn()
            os.unlink(_name_of(note_id), dir_fd=folder)
            _flush(folder)

    async def close(self) -> None:
        """See ``Store.close``: nothing stays open."""

    def _scan(self, folder: int) -> tuple[list[tuple[int, str]], int, str]:
        """Return the files, newest first, as (negative date, name), how many are none of ours, and the cursor.

        The cursor is another one after any change. After a change of this moment it never comes again: a
        further one may leave date and size as they are. What is recovered shows in the next scan.
        """
        files, left_out, seen, newest = [], 0, [], 0.0
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if not _is_name(entry.name):
                        self._folder.recover(folder, entry.name, found.st_ctime)
                        continue
                    seen.append((entry.name, found.st_ino, found.st_mtime_ns, found.st_size))
                    newest = max(newest, found.st_mtime, found.st_ctime)
                    if stat.S_ISREG(found.st_mode):
                        files.append((-found.st_mtime_ns, entry.name))
                    else:
                        left_out += 1
        once = os.urandom(8).hex() if abs(time.time() - newest) < _RECENT else ""
        cursor = hashlib.sha256(repr((sorted(seen), once)).encode()).hexdigest()
        return sorted(files), left_out, cursor

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder; turn what the system refuses into an error that promises: nothing was written."""
        try:
            with self._folder.opened() as folder:
                yield folder
        except OSError as error:
            raise StoreUnavailable(
                f"the folder of the notes cannot be used: {error.strerror}",
                resolution_hint="Ask the user to check that the folder exists and may be written, "
                "then to restart this MCP client.",
            ) from None


@contextmanager
def _missing(note_id: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NoteNotFound("no such file in the folder", details={"id": note_id}) from None


def _name_of(note_id: str) -> str:
    """Return the name of a note's file. Raises ``NoteNotFound`` for what cannot be one."""
    name = f"{note_id}{ENDING}"
    with suppress(UnicodeEncodeError):
        if len(name.encode()) <= _LONGEST_NAME and _is_name(name) and not {"/", "\0"} & {*name}:
            return name
    raise NoteNotFound("no such file in the folder", details={"id": note_id})


def _is_name(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".")


def _parse_mark(mark: str) -> tuple[int, str]:
    date, _, name = mark.partition(":")
    if not date.lstrip("-").isdecimal():
        raise CursorLost("the place in the listing is not known")
    return int(date), name


def _revision(note_id: str, file: TextFile) -> Revision:
    content, date = Content(file.text), file.modified
    return Revision(note_id, file.etag, content, date, date, raw=b"", identity=file.identity)


def _stored(write: PendingWrite, written: Written) -> Revision:
    """Return what we have written as a revision."""
    text = write.body.decode()
    file = TextFile(write.body, text, written.modified, 0, written.identity)
    return _revision(write.note_id, file)


def _flush(folder: int) -> None:
    """Flush the folder. Its names have changed already, so a failure leaves the write in doubt."""
    try:
        os.fsync(folder)
    except OSError as error:
        raise OutcomeUnknown("the folder of the notes could not be flushed") from error
