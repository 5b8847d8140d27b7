"""Take the files that notes show into an export, and bring those of an export into a store.

One file is in memory for each note that is written at the moment; an export from a service holds a few small ones. A note is written before its files, with the links that the
export has; then its files are kept and its links lead to them. So a repeated import knows a note whose files it has to bring.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mcp_notarium.domain.exported_note import ExportedNote, NoteFile
from mcp_notarium.domain.file_names import clean_file_name, split_ending
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import (
    NoteNotFound,
    NoteUnreadable,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.markup.file_links import (
    FileLink,
    find_unchanged,
    find_whole_links,
    link_key,
    read_link,
    relink,
    says_the_same,
)
from mcp_notarium.markup.obsidian_links import Link
from mcp_notarium.stores.contract import Traits
from mcp_notarium.stores.extensions import ELSEWHERE, KeptFile, Room
from mcp_notarium.stores.http import MOST_CONNECTIONS, each
from mcp_notarium.transfer.formats import LARGEST_FILE, Export, FoundExport, Report, UnfitFile
from mcp_notarium.transfer.store_attachments import MOST_FAILURES, SILENT, ShownFile, StoreFiles

NO_FILES = "this store keeps no files"
FILE_TOO_LARGE = "larger than this store keeps"
FILE_MISSING = "not in the export"
NOTE_IS_FULL = "more than this store keeps of one note"
STORE_IS_FULL = "more than this store has room for"
NOTE_DIFFERS = "of notes that are there already and differ"
_NUMBER = re.compile(r" \d+$")
_LARGEST_TOGETHER = 4 << 20
"""Bytes of a file that is read at the same time as others."""


@dataclass(frozen=True, slots=True)
class NewNote:
    """Hold a note that is to be written under this id, and what it is in the export."""

    id: str
    content: Content
    source: ExportedNote
    files: Sequence[NoteFile] = ()
    """Those that the store keeps."""
    links: Mapping[Link, NoteFile] = field(default_factory=dict)
    """The one of them that each link of the content means."""
    written: bool = False
    """The note is there already, and lacks files."""


@dataclass(slots=True)
class TakenFiles:
    """Count the files that an export has."""

    sizes: dict[str, int] = field(default_factory=dict)
    """Their bytes, by path: equal ones of one name are there once."""
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """Note, file and reason of each that it has not."""
    unread: bool = False
    """Some of these could not be read, though the store has them."""

    @property
    def files(self) -> int:
        """Return how many there are."""
        return len(self.sizes)

    @property
    def size(self) -> int:
        """Return the bytes of all of them."""
        return sum(self.sizes.values())


def leave_out(shown: Mapping[str, Sequence[ShownFile]], why: str) -> TakenFiles:
    """Return that an export has none of these files."""
    left_out = [(note_id, one.facts.id, why) for note_id, of in shown.items() for one in of]
    return TakenFiles(left_out=left_out)


_Read = tuple[str, bytes] | str
"""The name and the bytes of a file, or why there are none."""


class _Reader:
    """Read files for an export: from a service as many at a time as there are connections, small ones alone."""

    def __init__(self, transfer: NoteTransfer) -> None:
        self._files = StoreFiles(transfer)
        self._asks = transfer.store.traits.asks_attachments
        self._failed = 0
        """Number of files in a row that the store did not answer."""
        self.unread = False
        """Some could not be read, though the store has them."""

    async def read(self, files: Sequence[ShownFile]) -> AsyncIterator[_Read]:
        """Yield the name and the bytes of each file, in order, or why it cannot be read."""
        step = MOST_CONNECTIONS if self._asks else 1
        largest = _LARGEST_TOGETHER if self._asks else LARGEST_FILE
        for at in range(0, len(files), step):
            some = files[at : at + step]
            made: list[_Read] = await each(some, partial(self._read, largest=largest))
            for file, found in zip(some, made, strict=True):
                yield found or await self._read(file, largest=LARGEST_FILE)

    async def _read(self, file: ShownFile, *, largest: int) -> _Read:
        """Read a file; '' if it has more bytes than ``largest``, and may have them."""
        if self._failed == MOST_FAILURES:
            return SILENT
        try:
            found = await self._files.read_file(file, largest=largest)
        except (NoteNotFound, NoteUnreadable, StoreProtocolError, StoreRejected) as error:
            self.unread |= error.subcategory != ELSEWHERE
            return error.message
        except StoreUnavailable as error:
            self._failed, self.unread = min(self._failed + 1, MOST_FAILURES), True
            return error.message
        self._failed = 0
        if found is not None or largest < LARGEST_FILE:
            return found or ""
        self.unread = True
        return f"it has more than {LARGEST_FILE >> 20} MB"


async def take_out(
    notes: Sequence[ExportedNote],
    shown: Mapping[str, Sequence[ShownFile]],
    transfer: NoteTransfer,
    export: Export,
    report: Report,
) -> tuple[list[ExportedNote], TakenFiles]:
    """Write the files that notes show; return the notes with them. A file that cannot be read is named and left out."""
    taken, reader = TakenFiles(), _Reader(transfer)
    first: dict[str, tuple[ShownFile, float]] = {}
    for note in notes:
        for file in shown.get(note.id, ()):
            first.setdefault(file.facts.id, (file, note.modified_at))
    put: dict[str, NoteFile | str] = {}
    waiting = iter(first.items())
    async for found in reader.read([file for file, _ in first.values()]):
        file_id, (file, modified_at) = next(waiting)
        if isinstance(found, str):
            put[file_id] = found
        else:
            put[file_id] = one = export.put_file(*found, file.facts.modified_at or modified_at)
            taken.sizes[one.path] = len(found[1])
        report(len(put), len(first))
    taken.unread = reader.unread
    exported: list[ExportedNote] = []
    for note in notes:
        files: list[NoteFile] = []
        for file in shown.get(note.id, ()):
            if isinstance(there := put[file.facts.id], str):
                taken.left_out.append((note.id, file.facts.id, there))
            elif not file.facts.drawn:
                files.append(replace(there, links=file.links))
        exported.append(replace(note, files=tuple(files)) if files else note)
    return exported, taken


def draft(note: ExportedNote, content: Content, traits: Traits) -> NewNote:
    """Return what becomes of a note, without an id and files: its links to files are such that the store keeps them as they are."""
    links = {link: one for one in note.files for link in one.links}
    if traits.keeps_files and links and not traits.ids.paths:
        plain = {link: FileLink(one.path, wiki=False) for link, one in links.items()}
        content = replace(content, text=relink(content.text, plain))
        links = {(one.path, True): one for one in links.values()}
    return NewNote("", content, note, links=links)


def is_same(new: NewNote, held: Content, would: Content) -> bool:
    """Tell whether a note is what an import makes of ``new``, which the store reads as ``would``; links to files may be the store's own."""
    if held == would:
        return True
    leads, more = new.links.__contains__, len(new.source.files)
    return replace(held, text=would.text) == would and says_the_same(
        held.text, would.text, leads=leads, more=more
    )


class FileSorter:
    """Tell files that a store keeps from others, which are added to ``left_out`` by the reason. ``room``: what it had before."""

    def __init__(
        self, largest: int, room: Room, left_out: dict[str, list[tuple[ExportedNote, NoteFile]]]
    ) -> None:
        self._largest = largest
        self._room = room
        self._left_out = left_out
        self._brought: set[str] = set()
        """The paths in the export of files that come along: each is stored once."""
        self._size = 0

    def sort(self, note: ExportedNote) -> list[NoteFile]:
        """Return the files of a note that the store keeps."""
        kept: list[NoteFile] = []
        of_note = 0
        for one in note.files:
            if reason := self._find_reason(one) or self._find_bound(one, of_note):
                self.leave_out(note, one, reason)
            else:
                kept.append(one)
                of_note += one.size or 0
                self._size += self._more(one)
                self._brought.add(one.path)
        return kept

    def leave_out(self, note: ExportedNote, file: NoteFile, reason: str) -> None:
        """Record that the store does not get a file."""
        self._left_out.setdefault(reason, []).append((note, file))

    def _find_reason(self, file: NoteFile) -> str:
        if file.size is None:
            return FILE_MISSING
        if not self._largest:
            return NO_FILES
        return FILE_TOO_LARGE if file.size > min(self._largest, LARGEST_FILE) else ""

    def _find_bound(self, file: NoteFile, of_note: int) -> str:
        size = file.size or 0
        if self._room.of_note is not None and of_note + size > self._room.of_note:
            return NOTE_IS_FULL
        left = self._room.left
        return STORE_IS_FULL if left is not None and self._size + self._more(file) > left else ""

    def _more(self, file: NoteFile) -> int:
        return 0 if file.path in self._brought else file.size or 0


def lacks_files(new: NewNote, held: Revision, would: Content, shown: Sequence[ShownFile]) -> bool:
    """Tell whether a note that is there and shows these files lacks some: a link of the export leads nowhere, or one without a link is not there."""
    files, links = new.files, new.links
    leads = {(link, one.facts.size) for one in shown for link in one.links}
    unchanged = find_unchanged(held.content.text, would.text)
    written = {link_key(one.link) for one in unchanged}
    for link, one in links.items():
        if one in files and link in written and not leads & {(link, one.size), (link, None)}:
            return True
    linked = {one.path for one in links.values()}
    wanted = sorted(files, key=lambda one: one.path not in linked)
    return any(one.path not in linked for one in find_lacking(wanted, shown))


def find_lacking(files: Sequence[NoteFile], shown: Sequence[ShownFile]) -> list[NoteFile]:
    """Return those files for which a note that shows these has none of the same name and size.

    Numbers and endings of names do not count, for an export and a store may change these; nor does a size that the service does not say.
    """
    there = Counter((_stem(one.facts.name or one.facts.id), one.facts.size) for one in shown)
    wanted = [*{one.path: one for one in files}.values()]
    for is_known in (True, False):
        wanted = [
            one
            for one in wanted
            if not _take(there, _stem(one.path), one.size if is_known else None)
        ]
    return wanted


def _take(there: Counter[tuple[str, int | None]], stem: str, size: int | None) -> bool:
    there[stem, size] -= 1
    return there[stem, size] >= 0


def _stem(path: str) -> str:
    return _NUMBER.sub("", split_ending(clean_file_name(path))[0]).casefold()


async def bring_in(
    new: NewNote, transfer: NoteTransfer, export: FoundExport
) -> list[tuple[NoteFile, str]]:
    """Keep the files of a note that is written, and let its links lead to them. Return those that were refused, and why."""
    refused: list[tuple[NoteFile, str]] = []
    wanted: dict[Link, FileLink] = {}
    added: list[KeptFile] = []
    # A store may hold a picture that it does not serve as a link.
    links = find_whole_links(new.content.text)
    embedded = {link_key(one.link) for one in links if one.embeds}
    links_more = not {one.path for one in new.files} <= {to.path for to in new.links.values()}
    if links_more:
        transfer.set_linking(new.id, linking=True)
    for one in new.files:
        name = one.path.rpartition("/")[2]
        try:
            kept = await StoreFiles(transfer).keep_file(new.id, name, export.read_file(one))
        except (UnfitFile, StoreRejected, NoteNotFound) as error:
            refused.append((one, error.message))
            continue
        leading = [link for link, to in new.links.items() if to.path == one.path]
        if (link := read_link(kept.link)) is not None:
            wanted |= {
                key: replace(link, embeds=link.embeds and key in embedded) for key in leading
            }
        if kept.link and not leading:
            added.append(kept)

    given = transfer.preview(new.id, new.content, now=0.0).content.text

    def change(text: str) -> str:
        text = relink(text, wanted, original=given)
        more = [one.before + one.link for one in added if one.link not in text]
        return "\n\n".join(filter(None, (text.rstrip("\n"), *more))) + "\n" if more else text

    dates = new.source.created_at, new.source.modified_at
    try:
        await transfer.change_text(new.id, change, dates)
    except (NoteNotFound, VersionConflict, StoreRejected) as error:
        refused += [(one, error.message) for one in new.files if one not in dict(refused)]
    else:
        if links_more:
            transfer.set_linking(new.id, linking=False)
    return refused
