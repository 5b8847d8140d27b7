"""Serve the notes of a Memento file as a note store.

A write is one short transaction: it compares the note, changes only the columns that differ, and reads the
note back. Calls of SQLite run in threads.

A picture is base64, mostly as a ``data:`` address, in a list of the column ``images``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp_notarium.domain.file_names import UNKNOWN
from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    CursorLost,
    IdTaken,
    NoteNotFound,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.contract import (
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
    random_id,
)
from mcp_notarium.stores.extensions import ELSEWHERE, Attachment, NoteIndex, Replaced
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.memento import note_codec, note_table
from mcp_notarium.stores.memento.database_file import DatabaseFile
from mcp_notarium.stores.memento.kind import KIND
from mcp_notarium.stores.memento.native import NativeMemento
from mcp_notarium.stores.memento.note_codec import parse_list, stringify
from mcp_notarium.stores.memento.note_table import NoteTable, read_in_portions
from mcp_notarium.threads import in_thread, run_in_thread

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_DIGITS = 24
_LOOKS = 30
"""Looks at the file, at most, in one wait without news."""
_DATA = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_ADDRESS = re.compile(r"(?!data:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_MOST = 1000
_LARGEST_PICTURE = 750 * 1024
"""Bytes of a picture that is added: a note with all of its pictures may have a megabyte in base64."""


class MementoStore:
    """Reach the notes of one file; of one user and of nobody, if ``user_id`` is given."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.CAS,
        Retry.ASK,
        **traits_of(KIND),
        probe=True,
        long_poll=True,
        spaced_tags=True,
        revives=True,
        beside=note_codec.beside,
        attachments=True,
    )
    largest_file = _LARGEST_PICTURE
    codec_version = note_codec.VERSION
    pause = 2.0
    """Seconds between two looks of a wait."""

    def __init__(self, path: Path, *, user_id: str = "") -> None:
        self._file = DatabaseFile(path)
        self._user_id = user_id
        self._listed: dict[str, tuple[tuple[str, ...], int]] = {}
        """Mark -> the ids of the listing it belongs to, and its place there. One listing is kept."""
        self._kept_of: dict[str, note_codec.Value] = {}
        """Id -> the last change of the note when ``full_copy`` read it."""

    def native(self, index: NoteIndex) -> NativeMemento:
        """Return what the native tools read."""
        return NativeMemento(self._file, self._user_id, index)

    @in_thread
    def list_attachments(self, revision: Revision) -> Sequence[Attachment]:
        """See ``AttachmentStore.list_attachments``."""
        has_any = note_codec.beside(revision).get("images")
        return _list_pictures(revision.id, self._images(revision.id)) if has_any else []

    @in_thread
    def read_attachment(
        self, attachment: Attachment, *, largest: int
    ) -> tuple[Attachment, bytes | None]:
        """See ``AttachmentStore.read_attachment``."""
        note_id, _, number = attachment.id.partition("/")
        data = _read_picture(images := self._images(note_id), number)
        if data is None:
            raise NoteNotFound(
                "Memento itself holds no such picture; one at another address is not fetched",
                subcategory=ELSEWHERE if _is_elsewhere(images, number) else None,
                resolution_hint="It can be seen in Memento only; say so.",
            )
        return attachment, data if len(data) <= largest else None

    def id_of_link(self, note_id: str, target: str) -> str:  # noqa: ARG002 - no text shows a picture
        """See ``AttachmentStore.id_of_link``."""
        return ""

    @in_thread
    def with_picture(self, note_id: str, kind: str, data: bytes) -> tuple[str, str]:
        """See ``PictureStore.with_picture``."""
        images = self._images(note_id)
        number, added = _add_picture(images, kind, data)
        return note_table.native_of("images", images, added), f"{note_id}/{number}"

    def _images(self, note_id: str) -> note_codec.Value:
        with self._file.reading() as opened:
            row = NoteTable(*opened, self._user_id).read(note_id, whole=True)
        return row.get("images") if row is not None else None

    @in_thread
    def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. The first page finds all ids; each page reads its notes as they are then."""
        cursor = self._file.stamp()  # first: the listing may have more
        left_out, place = 0, 0
        if mark is None:
            ages, left_out = read_in_portions(self._file, self._user_id, NoteTable.read_ages)
            ids = tuple(one for _, one in sorted(ages))
        elif mark in self._listed:
            ids, place = self._listed[mark]
        else:
            raise CursorLost("the place in the listing is not known")
        with self._file.reading() as opened:
            found = NoteTable(*opened, self._user_id).read_all(ids[place : place + max(1, limit)])
        end = place + max(1, limit)
        more = random_id(f"{id(ids)}/{end}") if end < len(ids) else None
        self._listed = {} if more is None else {more: (ids, end)}
        entries: list[Revision | Entry] = []
        for one in found:
            try:
                note_id, _ = note_codec.required(one)
                whole = note_codec.revision(one) if with_content else None
                entries.append(whole or Entry(note_id, note_codec.etag(one)))
            except StoreProtocolError:
                left_out += 1
        return ListingPage(tuple(entries), cursor, more, len(ids), left_out)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``: SQLite tells whether anybody else has written, and never what."""
        await self._require_unchanged(cursor)
        for _ in range(_LOOKS if wait else 0):
            await asyncio.sleep(self.pause)
            await self._require_unchanged(cursor)
        return ChangePage((), cursor)

    async def _require_unchanged(self, cursor: str) -> None:
        if await run_in_thread(self._file.stamp) != cursor:
            raise CursorLost("something may have changed in Memento's file")

    @in_thread
    def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``. Raises ``StoreProtocolError`` for a row that cannot be read."""
        with self._file.reading() as opened:
            found = NoteTable(*opened, self._user_id).read(note_id)
        if found is None:
            raise _missing_error(note_id)
        return note_codec.revision(found)

    @in_thread
    def full_copy(self, note_id: str) -> bytes:
        """See ``RevivingStore.full_copy``: the whole row, and those of other tables that hang on it."""
        with self._file.reading() as opened:
            table = NoteTable(*opened, self._user_id)
            shown, found = table.read(note_id), table.full_copy(note_id)
        if shown is None or found is None:
            raise _missing_error(note_id)
        self._kept_of[note_id] = shown["updatedAt"]
        return found

    @in_thread
    def find_replaced(self, note_id: str, body: bytes) -> Replaced:
        """See ``ReplacingStore.find_replaced``."""
        with self._file.reading() as opened:
            found = NoteTable(*opened, self._user_id).find_replaced(note_id, body)
        if found is None:
            raise _missing_error(note_id)
        return found

    pictures_of = staticmethod(note_table.pictures_of)
    name_parts = staticmethod(note_table.name_parts)
    shown_form = staticmethod(note_table.shown_form)
    overlay = staticmethod(note_table.overlay)

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        """See ``Store.compose``: the columns that change."""
        return note_codec.compose(base, content.cleaned(), now=now)

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return note_codec.content_of(note_id, body)

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``: in the form of the app's own ids (cuid)."""
        del content, attempt
        number = int.from_bytes(hashlib.sha256(f"mcp-notarium/cuid/{seed}".encode()).digest())
        digits = []
        for _ in range(_ID_DIGITS):
            number, digit = divmod(number, len(_DIGITS))
            digits.append(_DIGITS[digit])
        return "c" + "".join(digits)

    @in_thread
    def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        change = note_codec.read_change(write.body)
        with self._file.writing() as opened:
            table = NoteTable(*opened, self._user_id)
            held = table.read(write.note_id)
            check_not_withdrawn()
            if write.base_etag is None:
                status = PushStatus.STORED if held is None else PushStatus.REPEATED
                if held is None:
                    table.insert(write.note_id, change)
                elif not _is_ours(held, write):  # defence: other-note-of-same-id
                    raise IdTaken("Memento has a note of this id", details={"id": write.note_id})
            else:
                self._require(held, write.note_id, write.base_etag)
                now = table.find_replaced(write.note_id, write.body) if change.columns else None
                # defence: kept-row-replaced-only
                if now and write.replaced not in (None, now.native):
                    raise _changed_error(write.note_id)
                status = PushStatus.STORED if change.columns else PushStatus.UNCHANGED
                if change.columns:
                    table.update(write.note_id, change)
            stored = table.read(write.note_id)
            if stored is None:
                raise StoreRejected("Memento's file does not keep the note; nothing was saved")
            revision = note_codec.revision(stored)
        return Acknowledgement(revision, status, alone=True)

    @in_thread
    def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``."""
        with self._file.writing() as opened:
            table = NoteTable(*opened, self._user_id)
            held = table.read(note_id)
            check_not_withdrawn()
            if held is not None:
                self._require(held, note_id, etag)
                # defence: deleted-as-kept
                if self._kept_of.pop(note_id, held["updatedAt"]) != held["updatedAt"]:
                    raise _changed_error(note_id)  # of its images the etag tells nothing
                table.delete(note_id)

    def _require(self, held: note_codec.Row | None, note_id: str, etag: str) -> None:
        if held is None:
            raise _missing_error(note_id)
        if note_codec.etag(held) != etag:  # defence: app-change-not-overwritten
            raise _changed_error(note_id)

    async def describe(self) -> str:
        """Return how many notes the file has, and to whom new ones belong."""
        return await run_in_thread(self._describe)

    def _describe(self) -> str:
        with self._file.reading() as opened:
            owner = NoteTable(*opened, self._user_id, counting=True).owner
        ages, _ = read_in_portions(self._file, self._user_id, NoteTable.read_ages)
        notes = "1 note" if len(ages) == 1 else f"{len(ages)} notes"
        return f"Memento's file ({notes}; new ones belong to {owner or 'nobody'})"

    async def close(self) -> None:
        """See ``Store.close``."""
        self._listed = {}
        await run_in_thread(self._file.close)


def _is_ours(held: note_codec.Row, write: PendingWrite) -> bool:
    made = note_codec.content_of(write.note_id, write.body).content
    return note_codec.revision(held).content == made


def _changed_error(note_id: str) -> VersionConflict:
    return VersionConflict("the note has changed in Memento", details={"id": note_id})


def _missing_error(note_id: str) -> NoteNotFound:
    return NoteNotFound("Memento has no such note", details={"id": note_id})


def _list_pictures(note_id: str, images: Any) -> list[Attachment]:
    """Return the pictures in a value of the column: their ids end with their number, from 1."""
    return [
        Attachment(f"{note_id}/{number}", kind, 3 * (len(data) - data[-2:].count("=")) // 4)
        for number, (kind, data) in enumerate(_pictures(images), 1)
    ]


def _read_picture(images: Any, number: str) -> bytes | None:
    """Return the bytes of the picture of this number; None if there is none, it lies elsewhere, or it is no base64."""
    for at, (_, data) in enumerate(_pictures(images), 1):
        if str(at) == number:
            try:
                return base64.b64decode(data, validate=True) or None
            except (binascii.Error, ValueError):
                return None
    return None


def _is_elsewhere(images: Any, number: str) -> bool:
    """Tell whether the picture of this number is an address: the note itself holds nothing of it."""
    listed = parse_list(images)
    said = dict(enumerate(map(str, listed), 1)) if isinstance(listed, list) else {}
    return any(str(at) == number and _ADDRESS.match(one) for at, one in said.items())


def _add_picture(images: Any, kind: str, data: bytes) -> tuple[int, str]:
    """Return the number of a picture, and the column with it: the last one, or as it was if it is there. Raises ``StoreRejected``."""
    encoded = base64.b64encode(data).decode()
    numbered = enumerate(_pictures(images), 1)
    if (held := next((at for at, (_, said) in numbered if said == encoded), None)) is not None:
        return held, images
    listed = parse_list(images)
    if images not in (None, "", "null") and not isinstance(listed, list):
        raise StoreRejected(
            "the pictures of this note are in a form that is not understood; nothing was saved",
            resolution_hint="The user can add the picture in Memento.",
        )
    return len(listed or ()) + 1, stringify([*(listed or ()), f"data:{kind};base64,{encoded}"])


def _pictures(images: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and base64 of each; what lies elsewhere counts as a picture without bytes."""
    try:
        listed = json.loads(images) if isinstance(images, str) else None
    except (ValueError, RecursionError):
        return
    for one in listed[:_MOST] if isinstance(listed, list) else ():
        said = one if isinstance(one, str) else ""
        if found := _DATA.match(said):
            yield found["kind"] or UNKNOWN, said[found.end() :]
        else:
            yield UNKNOWN, "" if ":" in said[:16] else said
