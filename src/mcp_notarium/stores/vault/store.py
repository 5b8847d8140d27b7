"""Serve the Markdown files of a folder as a note store.

A note's id is its path. Its title is the name of its file, so another title gives it another id. A note in the trash
lies below ``.trash`` at the same path and keeps its id; it is left out while another note has its place.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import CacheError, CursorLost, NoteNotFound, StoreRejected
from mcp_notarium.stores.context import ListingMemory
from mcp_notarium.stores.contract import (
    SEEDED,
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Days,
    Entry,
    ListingPage,
    Retry,
    Traits,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.extensions import (
    Attachment,
    Beside,
    DayPlace,
    KeptFile,
    NoteIndex,
    Restored,
    Room,
    TemplateSettings,
)
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.vault import app_settings, attachment_writer, attachments, note_codec
from mcp_notarium.stores.vault import canvases as canvas_files
from mcp_notarium.stores.vault.app_settings import PropertyTypes
from mcp_notarium.stores.vault.attachment_writer import move_other_file, remove_empty_folders
from mcp_notarium.stores.vault.file_table import FileTable, Found, Watch
from mcp_notarium.stores.vault.file_writer import NoteFile
from mcp_notarium.stores.vault.folder import Evicted, InUse, NotANote, VaultFolder, list_files
from mcp_notarium.stores.vault.kind import KIND
from mcp_notarium.stores.vault.listing import FullListing, Known, Listing
from mcp_notarium.stores.vault.native import NativeVault, NotePages
from mcp_notarium.stores.vault.note_codec import Body
from mcp_notarium.stores.vault.note_writer import NoteWriter
from mcp_notarium.stores.vault.paths import TRASH, Name, Place, is_in_trash
from mcp_notarium.threads import in_thread, run_in_thread

if TYPE_CHECKING:
    from mcp_notarium.markup.obsidian_links import Changes as LinkTargets

_MIB = 1024 * 1024
_ROUNDS = 10
"""Looks, at most, in one wait without news."""
_MANY = 100
"""Changed files after which what is known of all of them is saved; fewer are saved in the end."""
_PAUSES, _LONGEST_PAUSE = 200, 30.0
"""The pause after a look at all files: so many times as long as the look, and at most so many seconds."""
_TRIES = 3
_MOST_OWN = 10_000
_FEW = 100
"""Changed files that are told one by one, at most; more are listed."""


class VaultStore:
    """Reach the notes of one folder. Files are read and written in threads."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        Retry.ASK,
        **traits_of(KIND),
        probe=True,
        long_poll=True,
        whole_listings=True,
        tags_in_text=True,
        is_markdown=True,
        dates=False,
        days=Days.PLACED,
        templates=True,
        types_properties=True,
        exact=note_codec.EXACT,
        forms=note_codec.forms,
        max_note_bytes=_MIB,
    )
    codec_version = note_codec.VERSION
    largest_file = attachment_writer.LARGEST
    shortest_pause = 2.0
    """Seconds between two looks at all files of a wait, at least; in a large vault more. A listing, or a question
    whether anything has changed, believes events for so long."""

    def __init__(self, path: Path, memory: ListingMemory | None = None) -> None:
        self._folder = VaultFolder(path)
        self._memory = memory
        self._recalled = False
        self._table = FileTable()
        self._told: str | None = None
        """The cursor of the last listing, or of the changes that were told since."""
        self._listing = Listing()
        self._writer = NoteWriter(self._folder, self._listing)
        self._watch = Watch(path)
        self._looking = threading.Lock()
        self._own: deque[tuple[Name, bool]] = deque(maxlen=_MOST_OWN)
        """The files that writes of ours may have changed, and whether they are there now."""
        self._note_pages = NotePages(self._folder)
        self._types = PropertyTypes()
        self._shown_names = attachments.ShownNames()
        self._reading = threading.Lock()
        self._keeping = threading.Lock()
        self._file_names = attachments.FileNames()
        self._pages: dict[str, tuple[FullListing, int]] = {}
        """Mark -> the listing it belongs to, and its place there. One listing is kept."""

    def native(self, index: NoteIndex) -> NativeVault:
        """Return what the native tools read."""
        return NativeVault(self._note_pages, index)

    # Files next to the notes

    @in_thread
    def find_files(self, paths: Iterable[str]) -> set[str]:
        """See ``FolderStore.find_files``. Names are compared letter by letter, also where the system does not."""
        with self._folder.opened() as root:
            wanted = {*paths}
            folders = {path.rpartition("/")[0] for path in wanted}
            return {path for one in folders for path in list_files(root, one)} & wanted

    @in_thread
    def resolve_files(
        self, links: Sequence[tuple[str, str]], *, sees: Callable[[str], bool] | None = None
    ) -> Mapping[tuple[str, str], Attachment]:
        """See ``FolderStore.resolve_files``."""
        with self._folder.opened() as root:
            folders = partial(self._living_folders, root)
            return self._file_names.resolve(root, folders, links, sees)

    @in_thread
    def read_file_names(self, *, but_of: Mapping[str, str | None]) -> tuple[set[str], list[str]]:
        """See ``FolderStore.read_file_names``."""
        with self._folder.opened() as root:
            with self._looking:
                self._look(root, within=self.shortest_pause)
                found = [*self._table.files.values()]
            files = [one for one in found if not self._is_as_told(one, but_of)]
            with self._reading:
                return self._shown_names.read(root, files)

    @in_thread
    def read_file(self, path: str, *, largest: int) -> tuple[Attachment, bytes | None]:
        """See ``FolderStore.read_file``."""
        with self._folder.opened() as root:
            return attachments.read_file(root, path, largest=largest)

    @in_thread
    def place_files(self, note_id: str) -> str:
        """See ``FolderStore.place_files``."""
        with self._folder.opened() as root:
            return app_settings.read_attachment_settings(root, note_id).folder

    @in_thread
    def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:  # noqa: ARG002 - the name tells
        """See ``KeepingStore.keep_file``. One of two files at once looks for its name when the other has it."""
        if len(data) > self.largest_file:
            raise StoreRejected(
                f"a file of {len(data)} bytes is too large: a vault takes {self.largest_file}",
                subcategory="too_large",
                resolution_hint="Give a smaller file, or ask the user to put it into the vault.",
            )
        with self._folder.opened() as root:
            self._listing.find(root, revision.id)
            settings = app_settings.read_attachment_settings(root, revision.id)
            files = partial(self._all_files, root)
            with self._keeping:
                return attachment_writer.keep(
                    root, revision.id, name, data, settings=settings, files=files
                )

    async def find_room(self) -> Room:
        """See ``KeepingStore.find_room``: the disk's."""
        return Room()

    def _all_files(self, root: int) -> list[str]:
        return [path for one in self._living_folders(root) for path in list_files(root, one)]

    def marks_of(self, file_id: str) -> tuple[str, ...]:
        """See ``KeepingStore.marks_of``."""
        name = file_id.rpartition("/")[2]
        return name, quote(name)

    @in_thread
    def discard_file(self, file_id: str, digest: str) -> bool:
        """See ``KeepingStore.discard_file``."""
        with self._folder.opened() as root:
            return attachment_writer.discard(root, file_id, digest)

    @in_thread
    def restore_file(self, file_id: str, digest: str) -> Restored:
        """See ``KeepingStore.restore_file``."""
        with self._folder.opened() as root:
            return attachment_writer.restore(root, file_id, digest)

    def _living_folders(self, root: int) -> list[str]:
        with self._looking:
            self._look(root, within=self.shortest_pause)
            return [one for one in self._table.folders if not is_in_trash(one)]

    @in_thread
    def find_read_only(self, note_ids: Iterable[str]) -> set[str]:
        """See ``FolderStore.find_read_only``."""
        return self._writer.find_read_only(note_ids)

    @in_thread
    def list_beside(self) -> Beside:
        """See ``FolderStore.list_beside``."""
        with self._folder.opened() as root:
            files = self._all_files(root)
            read = canvas_files.read_links(root, files)
            shown = {canvas: files for canvas, (files, _) in read.items()}
            return Beside(files, shown, {canvas: links for canvas, (_, links) in read.items()})

    @in_thread
    def move_file(self, old: str, new: str) -> bool:
        """See ``FolderStore.move_file``."""
        with self._folder.opened() as root:
            return move_other_file(root, old, new)

    @in_thread
    def remove_folders(self, folder: str) -> list[str]:
        """See ``FolderStore.remove_folders``."""
        with self._folder.opened() as root:
            return sorted(remove_empty_folders(root, folder))

    @in_thread
    def find_cards(self, path: str) -> dict[str, int | None]:
        """See ``FolderStore.find_cards``."""
        with self._folder.opened() as root:
            with self._looking:
                self._look(root, within=self.shortest_pause)
                folders = self._table.folders
            return canvas_files.find_cards(root, folders, path)

    @in_thread
    def move_cards(
        self, canvases: Mapping[str, LinkTargets], *, old: str, new: str
    ) -> dict[str, bool | None]:
        """See ``FolderStore.move_cards``."""
        with self._folder.opened() as root:
            return {
                one: canvas_files.move_cards_in(root, one, old, new, links)
                for one, links in canvases.items()
            }

    # What the app's settings say

    @in_thread
    def place_day(self, day: datetime) -> DayPlace:
        """See ``DayPlacingStore.place_day``."""
        with self._folder.opened() as root:
            return app_settings.place_day(root, day)

    @in_thread
    def read_templates(self) -> TemplateSettings | None:
        """See ``TemplateStore.read_templates``."""
        with self._folder.opened() as root:
            return app_settings.read_templates(root)

    @in_thread
    def read_property_types(self) -> Mapping[str, str]:
        """See ``TypingStore.read_property_types``."""
        with self._folder.opened() as root:
            return self._types.read(root)

    # Reading

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. Later pages come from the listing of the first one."""
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
            whole, start = later or (self._list(root), 0)
            end = start + max(1, limit)
            left_out = whole.left_out if mark is None else 0
            for one in whole.files[start:end]:
                try:
                    entries.append((self._revision if with_content else self._entry)(root, one))
                except NotANote as error:
                    left_out += 1
                    if isinstance(error, Evicted):
                        entries += self._last_entry(one)
                except NoteNotFound:
                    continue
        more = random_id(f"{id(whole)}/{end}") if end < len(whole.files) else None
        self._pages = {} if more is None else {more: (whole, end)}
        return ListingPage(tuple(entries), whole.cursor, more, len(whole.files), left_out)

    def _list(self, root: int) -> FullListing:
        with self._looking:
            self._look(root, within=self.shortest_pause)
            whole = self._listing.list_all(root, self._table)
            self._tell(whole.cursor)
        return whole

    def _last_entry(self, one: Found) -> list[Entry]:
        """Return the note as it was last read, so that it stays in the index; nothing if it never was."""
        known = self._listing.files.last(one.place)
        if known is None or not known.digest:
            return []
        etag = note_codec.etag_of(known.digest, one.path, trash=one.trash)
        return [Entry(one.path, etag, identity=known.identity)]

    def _revision(self, root: int, one: Found) -> Revision:
        return note_codec.revision_of(one.place, self._read(root, one))

    def _read(self, root: int, one: Found) -> NoteFile:
        try:
            if one.evicted:
                raise Evicted
            return self._listing.read(root, one.place, exact=False)
        except NotANote as error:
            if isinstance(error, InUse):
                self._table.look_again(one)
            else:
                self._listing.remember_unreadable(one, evicted=isinstance(error, Evicted))
            raise

    def _is_as_told(self, one: Found, told: Mapping[str, str | None]) -> bool:
        etag = told.get(one.path, "")
        if not etag:
            return etag is None
        known = self._listing.known(one)
        # defence: changed-note-may-show-file =True
        return known is not None and etag == note_codec.etag_of(
            known.digest, one.path, trash=one.trash
        )

    def _entry(self, root: int, one: Found) -> Entry:
        known = self._listing.known(one)
        if known is not None and known.evicted:
            known = None
        if known is not None and not known.digest:
            raise NotANote
        if known is None:
            file = self._read(root, one)
            known = Known(one.state, file.digest, file.identity)
        etag = note_codec.etag_of(known.digest, one.path, trash=one.trash)
        return Entry(one.path, etag, identity=known.identity)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``. It looks at the files that events name, and now and then at all."""
        self._recall()
        longest = self._pause if wait else self.shortest_pause
        page = await run_in_thread(partial(self._probe, cursor, longest))
        for _ in range(_ROUNDS if wait else 0):
            if page.cursor != cursor:
                break
            due = self._table.scanned_at + self._pause - time.monotonic()
            await self._watch.wait(max(0.0, due if self._table.settled else self.shortest_pause))
            page = await run_in_thread(partial(self._probe, cursor, self._pause))
        return page

    @property
    def _pause(self) -> float:
        return min(max(self.shortest_pause, self._table.seconds * _PAUSES), _LONGEST_PAUSE)

    def _probe(self, cursor: str, within: float) -> ChangePage:
        with self._folder.opened() as root, self._looking:
            self._look(root, within=within)
            if cursor != self._told:
                if cursor != self._table.cursor():
                    raise CursorLost("something in the vault has changed")
                self._tell(cursor)
            if not self._table.changed and not self._table.other_folders:
                return ChangePage((), cursor)
            page = ChangePage(self._changed_entries(root), self._table.cursor())
            self._tell(page.cursor)
        return page

    def _changed_entries(self, root: int) -> tuple[Entry, ...]:
        """Return the notes whose files are new or have changed. Raises ``CursorLost`` if anything else has.

        A new file may have the inode of one that is gone. Its time of birth tells.
        """
        names = self._table.changed
        few = len(names) <= _FEW and not self._table.other_folders
        if not few or not all(map(self._is_plain_change, names)):
            raise CursorLost("files of the vault have gone or moved")
        sources = {name: self._table.find_source(name) for name in names}
        moved = {n: self._listing.identity(one) for n, one in sources.items() if one is not None}
        try:
            entries = {name: self._entry(root, self._table.files[name]) for name in names}
        except (NotANote, NoteNotFound):
            raise CursorLost("files of the vault have changed meanwhile") from None
        # defence: exchanged-files-no-news
        if any(one in (None, entries[name].identity) for name, one in moved.items()):
            raise CursorLost("files of the vault have moved")
        return tuple(entries.values())

    def _is_plain_change(self, name: Name) -> bool:
        """Tell whether a file is a note, as before, or a new note."""
        now, before = self._table.files.get(name), self._table.changed[name]
        if now is None or not now.is_note:
            return False
        if before is not None and (before.evicted or not before.is_note):
            return False  # one less is left out
        hides = now.trash or (f"{TRASH}/{name[0]}".rstrip("/"), name[1]) in self._table.files
        unread = self._listing.files.is_unreadable(now.place)
        return not hides and not unread and self._table.is_alone(name)

    def _look(self, root: int, *, within: float) -> None:
        """Look at the files that have changed; at all, if that cannot be told or was not done for so many seconds."""
        names, since = self._watch.take(), time.monotonic() - self._table.scanned_at
        if names is not None:  # defence: own-write-needs-no-event =False
            names |= self._take_own()
        # defence: events-believed-briefly -since
        if names is not None and since < within and self._table.look_at(root, names):
            return
        self._table.scan(root)
        for _ in range(_TRIES):
            if not self._watch.follow(self._table.folders):
                break
            self._table.scan(root)  # a folder was not watched meanwhile

    def _take_own(self) -> set[Name]:
        """Return the files that were written here since the last call: events of some systems come later."""
        taken = [self._own.popleft() for _ in range(len(self._own))]
        return {name for name, there in taken if there or name in self._table.files}

    def _tell(self, cursor: str) -> None:
        self._told = cursor
        self._table.mark_told()

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``. Raises ``NotANote``."""
        return await run_in_thread(partial(self._get, note_id))

    def _get(self, note_id: str) -> Revision:
        with self._folder.opened() as root:
            place, file = self._listing.find(root, note_id)
            return note_codec.revision_of(place, file)

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
        """See ``Store.push``."""
        return await run_in_thread(partial(self._push, write))

    def _push(self, write: PendingWrite) -> Acknowledgement:
        made = self._writer.push(write)
        place = made.revision.id, made.revision.content.trash
        self._own += [(_name_at(place), True)]
        self._own += [(one, False) for path in (write.note_id, place[0]) for one in _names_of(path)]
        return made

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``."""
        await run_in_thread(partial(self._writer.delete, note_id, etag))
        self._own += [(one, False) for one in _names_of(note_id)]

    @in_thread
    def describe(self) -> str:
        """Return how many files the vault has."""
        with self._folder.opened() as root:
            count = len(self._list(root).files)
        return f"a vault of {count} {'file' if count == 1 else 'files'}"

    async def close(self) -> None:
        """See ``Store.close``."""
        if self._listing.files.unsaved:
            self._save()
        self._pages = {}
        self._note_pages.forget()
        await run_in_thread(self._end_watching)

    def _end_watching(self) -> None:
        with self._looking:
            self._watch.close()


def _name_at(place: Place) -> Name:
    folder, _, name = place[0].rpartition("/")
    return (f"{TRASH}/{folder}".rstrip("/") if place[1] else folder), name


def _names_of(path: str) -> list[Name]:
    return [_name_at((path, trash)) for trash in (False, True)]
