"""Serve the Markdown files of a folder as a note store.

A note's id is its path. Its title is the name of its file, so another title gives it another id. A note in the trash lies below ``.trash`` at the same
path and keeps its id; it is left out while another note has its place.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    SHORTEN,
    TRASH_FIRST,
    CacheError,
    CursorLost,
    IdTaken,
    NoteNotFound,
    OutcomeUnknown,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.context import ListingMemory
from mcp_notarium.stores.contract import (
    SEEDED,
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    Ids,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    WriteGuard,
    check_not_withdrawn,
    random_id,
)
from mcp_notarium.stores.vault import file_identity, note_codec, writing
from mcp_notarium.stores.vault.folder import NotANote, VaultFolder, open_parent
from mcp_notarium.stores.vault.known_files import Known, Place
from mcp_notarium.stores.vault.listing import Found, Listing, Scan
from mcp_notarium.stores.vault.note_codec import Body
from mcp_notarium.stores.vault.pages import NotePages
from mcp_notarium.stores.vault.paths import TRASH, split_path
from mcp_notarium.stores.vault.watch import Watch
from mcp_notarium.stores.vault.writing import NoteFile
from mcp_notarium.threads import run_in_thread

_MIB = 1024 * 1024
_ROUNDS = 10
"""Looks at the folder, at most, in one wait without news."""
_MANY = 100
"""Changed files after which what is known of all of them is saved; fewer are saved in the end."""
_PAUSES, _LONGEST_PAUSE = 200, 30.0
"""How many times as long as a look a pause is, and at most how many seconds. Events end it at once."""


class VaultStore:
    """Reach the notes of one folder. Files are read and written in threads."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        Ids.NAMED,
        Retry.ASK,
        probe=True,
        long_poll=True,
        whole_listings=True,
        trash=True,
        tags_in_text=True,
        titles=True,
        folders=True,
        dates=False,
        max_note_bytes=_MIB,
    )
    codec_version = note_codec.VERSION
    shortest_pause = 2.0
    """Seconds between two looks of a wait, at least; in a large vault more."""

    def __init__(self, path: Path, memory: ListingMemory | None = None) -> None:
        self._folder = VaultFolder(path)
        self._memory = memory
        self._recalled = False
        self._listing = Listing()
        self._watch = Watch(path)
        self._scanning = threading.Lock()
        self.pages = NotePages(
            self._folder, read_tags=note_codec.find_tags, name=file_identity.identity_of
        )
        self._pages: dict[str, tuple[Scan, int]] = {}
        """Mark -> the scan it belongs to, and its place there. One scan is kept."""

    # Reading

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. Later pages come from the scan of the first one."""
        self._recall()
        page = await run_in_thread(partial(self._list_page, mark, limit, with_content))
        if page.next_mark is None and self._listing.files.unsaved >= _MANY:
            self._save()
        return page

    def _recall(self) -> None:
        """Know what an earlier process has read of the files, or read them all."""
        if self._memory is not None and not self._recalled:
            self._recalled = True
            self._listing.files.load(self._memory.load() or "")

    def _save(self) -> None:
        if self._memory is not None and self._recalled:
            with suppress(CacheError):
                self._memory.store(self._listing.files.to_text())

    def _list_page(self, mark: str | None, limit: int, with_content: bool) -> ListingPage:  # noqa: FBT001
        later = None if mark is None else self._pages.get(mark)
        if mark is not None and later is None:
            raise CursorLost("the place in the listing is not known")
        entries: list[Revision | Entry] = []
        with self._folder.opened() as root:
            scan, start = later or (self._scan(root), 0)
            end = start + max(1, limit)
            left_out = scan.left_out if mark is None else 0
            for one in scan.files[start:end]:
                try:
                    entries.append(self._entry(root, one, with_content=with_content))
                except NotANote:
                    left_out += 1
                except NoteNotFound:
                    continue
        more = random_id(f"{id(scan)}/{end}") if end < len(scan.files) else None
        self._pages = {} if more is None else {more: (scan, end)}
        return ListingPage(tuple(entries), scan.cursor, more, len(scan.files), left_out)

    def _entry(self, root: int, one: Found, *, with_content: bool) -> Revision | Entry:
        known = None if with_content else self._listing.known(one)
        if known is not None and not known.digest:
            raise NotANote
        if known is None:
            try:
                file = self._listing.read(root, one.place, exact=False)
            except NotANote:
                self._listing.remember_unreadable(one)
                raise
            if with_content:
                return _revision(one.place, file)
            known = Known(one.state, file.digest, file.identity)
        etag = note_codec.etag_of(known.digest, one.path, trash=one.trash)
        return Entry(one.path, etag, identity=known.identity)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``: it looks at inodes, dates and sizes, and reads no file."""
        page = await run_in_thread(partial(self._probe, cursor))
        for _ in range(_ROUNDS if wait else 0):
            pause = self._listing.seconds * _PAUSES
            await self._watch.wait(min(max(self.shortest_pause, pause), _LONGEST_PAUSE))
            page = await run_in_thread(partial(self._probe, cursor))
        return page

    def _probe(self, cursor: str) -> ChangePage:
        with self._folder.opened() as root:
            if self._scan(root).cursor != cursor:
                raise CursorLost("something in the vault has changed")
        return ChangePage((), cursor)

    def _scan(self, root: int) -> Scan:
        """Look at every file, once more if a folder was not watched meanwhile."""
        with self._scanning:
            scan = self._listing.scan(root)
            return self._listing.scan(root) if self._watch.follow(scan.folders) else scan

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``. Raises ``StoreProtocolError`` for a file that is no text."""
        return await run_in_thread(partial(self._get, note_id))

    def _get(self, note_id: str) -> Revision:
        with self._folder.opened() as root:
            place, file = self._find(root, note_id)
            return _revision(place, file)

    def _find(self, root: int, path: str) -> tuple[Place, NoteFile]:
        """Read a note where it lies. Raises ``NoteNotFound``, ``NotANote``."""
        with suppress(NoteNotFound):
            return (path, False), self._listing.read(root, (path, False))
        return (path, True), self._listing.read(root, (path, True))

    # Composing

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:  # noqa: ARG002
        """See ``Store.compose``. Raises ``StoreRejected``."""
        return note_codec.compose(base, content).to_bytes()

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        sent = Body.from_bytes(body)
        path = sent.path or note_id
        content, understood = note_codec.content_of(path, sent.text, trash=sent.trash)
        return Revision(path, "", content, 0.0, 0.0, b"", tags_understood=understood)

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``: the title, with a number if that is taken, and with the seed in the end."""
        name = note_codec.name_for(content.cleaned())
        if attempt == 0:
            return f"{name}.md"
        return f"{name} {attempt + 1 if attempt < SEEDED else seed[:8] + str(attempt)}.md"

    # Writing

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. A new note never overwrites a file, also none in the trash."""
        return await run_in_thread(partial(self._push, write))

    def _push(self, write: PendingWrite) -> Acknowledgement:
        body = Body.from_bytes(write.body)
        if len(body.text.encode()) > writing.LARGEST:
            raise StoreRejected(
                "the note is too large for a file of this vault", resolution_hint=SHORTEN
            )
        with self._folder.opened() as root:
            if write.base_etag is None:
                return self._create(root, write.note_id, body)
            return self._change(root, write, body)

    def _create(self, root: int, path: str, body: Body) -> Acknowledgement:
        parts = split_path(path)
        if parts is None:
            raise StoreRejected(
                "no note of this vault can have this name or folder",
                resolution_hint="Give the note another first line.",
            )
        with suppress(NoteNotFound, NotANote):
            self._find(root, path)
            raise IdTaken("a note of this name exists", details={"id": path})
        *folders, name = (TRASH, *parts) if body.trash else parts
        try:
            parent = writing.make_folders(root, folders)
        except (FileExistsError, NotADirectoryError):
            raise IdTaken("a file has the name of the folder", details={"id": path}) from None
        try:
            writing.require_free_name(parent, name)
            data = body.text.encode()
            file = writing.create_file(parent, name, data, before=check_not_withdrawn)
            writing.flush(parent)
        except FileExistsError:
            raise IdTaken("a file of this name exists", details={"id": path}) from None
        finally:
            os.close(parent)
        revision = _revision((path, body.trash), self._listing.remember((path, body.trash), file))
        return Acknowledgement(revision, PushStatus.STORED, alone=True)

    def _change(self, root: int, write: PendingWrite, body: Body) -> Acknowledgement:
        """Write the text, then move the file. A repeated write goes on where it has stopped."""
        try:
            place, held = self._find(root, write.note_id)
        except NotANote:
            raise _changed_error(write.note_id) from None
        if body.path not in (None, write.note_id):
            return self._rename(root, write, body, place, held)
        data, stays = body.text.encode(), place[1] == body.trash
        answer = Acknowledgement(_revision(place, held), PushStatus.UNCHANGED)
        if held.data != data:
            if answer.revision.etag != write.base_etag:
                raise _changed_error(write.note_id)
            answer = self._replace(root, place, data, held=held, base_etag=write.base_etag)
        elif stays:
            self._flush(root, place)  # an earlier push of it may have failed there
        if stays:
            return answer
        return self._move(root, place, answer, changed=held.data != data)

    def _rename(
        self, root: int, write: PendingWrite, body: Body, place: Place, held: NoteFile
    ) -> Acknowledgement:
        """Give a file its new name, and then its new text. Raises ``IdTaken``, with nothing changed.

        From the moment when it has the name nothing takes that back.
        """
        if _revision(place, held).etag != write.base_etag:
            raise _changed_error(write.note_id)
        target, data = (body.path or place[0], body.trash), body.text.encode()
        self._move_to(root, place, target)
        try:
            moved = self._listing.read(root, target)
            if moved.found.st_ino != held.found.st_ino:  # another file had the old name by then
                self._move_to(root, target, place)
        except (OSError, NoteNotFound, NotANote, VersionConflict) as error:
            raise OutcomeUnknown("the note was renamed, and cannot be read") from error
        if moved.found.st_ino != held.found.st_ino:
            raise _changed_error(write.note_id)
        if data in (held.data, moved.data):
            alone = moved.digest == held.digest
            return Acknowledgement(_revision(target, moved), PushStatus.STORED, alone=alone)
        base = note_codec.etag_of(held.digest, target[0], trash=target[1])
        try:
            return self._replace(root, target, data, held=moved, base_etag=base, begun=True)
        except (OSError, NoteNotFound, VersionConflict) as error:
            raise OutcomeUnknown("the note was renamed, and lacks its new text") from error

    def _move_to(self, root: int, place: Place, target: Place) -> None:
        """Move a file to another name. Raises ``IdTaken``, ``VersionConflict``, with nothing moved."""
        (path, trash), (new, to_trash) = place, target
        *folders, name = split_path(new) or ()
        taken = IdTaken("a file of this name exists", details={"id": new})
        with suppress(NoteNotFound, NotANote):
            self._find(root, new)
            raise taken
        try:
            folder = writing.make_folders(root, (TRASH, *folders) if to_trash else folders)
        except (FileExistsError, NotADirectoryError):
            raise taken from None
        try:
            with open_parent(root, path, trash=trash) as (parent, old):
                own = old if os.path.sameopenfile(parent, folder) else ""
                writing.require_free_name(folder, name, own=own)
                check_not_withdrawn()
                writing.rename_file(parent, old, folder, name)
                self._listing.follow(place, target)
                writing.flush(folder)
                writing.flush(parent)
        except FileExistsError:
            raise taken from None
        except (FileNotFoundError, NoteNotFound):
            raise _changed_error(path) from None
        finally:
            os.close(folder)

    def _replace(
        self,
        root: int,
        place: Place,
        data: bytes,
        *,
        held: NoteFile,
        base_etag: str | None,
        begun: bool = False,
    ) -> Acknowledgement:
        """Write a text over a file. ``begun``: the write has changed something, and cannot be withdrawn any more."""
        path, trash = place
        with open_parent(root, path, trash=trash) as (parent, name):
            try:
                written, displaced, certain = writing.replace_file(
                    parent, name, data, held=held, before=_go_on if begun else check_not_withdrawn
                )
            except NotANote:
                raise _changed_error(path) from None
            writing.flush(parent)
        other: Revision | None = _revision(place, displaced)
        if other is not None and other.etag == base_etag:
            other = None
        stored = _revision(place, self._listing.remember(place, written))
        alone = certain and other is None
        return Acknowledgement(stored, PushStatus.STORED, alone=alone, displaced=other)

    def _move(
        self, root: int, place: Place, answer: Acknowledgement, *, changed: bool
    ) -> Acknowledgement:
        """Move a file to the trash or back. ``changed``: its text was written just before."""
        path, trash = place
        *folders, name = split_path(path) or ()
        if not changed:
            check_not_withdrawn()
        try:
            target = writing.make_folders(root, folders if trash else (TRASH, *folders))
            try:
                with open_parent(root, path, trash=trash) as (parent, _):
                    writing.move_file(parent, name, target, name, free=not trash)
                    writing.flush(parent)
                writing.flush(target)
            finally:
                os.close(target)
            moved = (path, not trash)
            stored = _revision(moved, self._listing.read(root, moved))
        except (OSError, NoteNotFound, NotANote) as error:
            if changed:
                raise OutcomeUnknown("the note was written, and could not be moved") from error
            if isinstance(error, FileExistsError | NoteNotFound):
                raise _changed_error(path) from None
            raise
        same = stored.content.text == answer.revision.content.text
        return replace(
            answer, revision=stored, status=PushStatus.STORED, alone=same and answer.alone
        )

    def _flush(self, root: int, place: Place) -> None:
        with open_parent(root, place[0], trash=place[1]) as (parent, _):
            writing.flush(parent)

    async def find_created(self, write: PendingWrite) -> Revision | None:  # noqa: ARG002
        """See ``Store.find_created``: never asked, for we make the ids."""
        raise OutcomeUnknown("a vault makes no ids")

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. The file is set aside, compared, and only then removed."""
        await run_in_thread(partial(self._delete, note_id, etag))

    def _delete(self, path: str, etag: str) -> None:
        with self._folder.opened() as root, suppress(NoteNotFound):
            try:
                place, held = self._find(root, path)
            except NotANote:
                raise _changed_error(path) from None
            if not place[1]:
                raise StoreRejected(
                    "the note is not in the trash; nothing was deleted", resolution_hint=TRASH_FIRST
                )
            if _revision(place, held).etag != etag:
                raise _changed_error(path)
            with open_parent(root, path, trash=True) as (parent, name):
                if not writing.remove_file(
                    parent, name, digest=held.digest, before=check_not_withdrawn
                ):
                    raise _changed_error(path)
                writing.flush(parent)

    async def describe(self) -> str:
        """Return how many files the vault has, and how their changes are noticed."""
        return await run_in_thread(self._describe)

    def _describe(self) -> str:
        with self._folder.opened() as root:
            count = len(self._listing.scan(root).files)
        return f"a vault of {count} files"

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._listing.files.unsaved:
            self._save()
        self._pages = {}
        self.pages.forget()
        with self._scanning:
            self._watch.close()


def _revision(place: Place, file: NoteFile) -> Revision:
    """Return the revision of a file."""
    path, trash = place
    content, understood = note_codec.content_of(path, file.text, trash=trash)
    return Revision(
        path,
        note_codec.etag_of(file.digest, path, trash=trash),
        content,
        min(file.born, file.found.st_mtime),
        file.found.st_mtime,
        raw=b"",
        tags_understood=understood,
        identity=file.identity,
        links=note_codec.find_links(file.text),
    )


def _go_on() -> None: ...


def _changed_error(path: str) -> VersionConflict:
    return VersionConflict("the file has changed", details={"id": path})
