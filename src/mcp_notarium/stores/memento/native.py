"""Read Memento's file for native tools: notes as the app itself shows them, as far as the policy shows them.

The index may be older than the file. So each row that was just read is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.extensions import NoteIndex
from mcp_notarium.stores.memento import note_codec
from mcp_notarium.stores.memento.database_file import DatabaseFile
from mcp_notarium.stores.memento.note_table import NoteTable, read_in_portions
from mcp_notarium.threads import run_in_thread

_ID_SHOWN = 80
_LISTS = ("checkItems", "labels", "images")
_FLAGS = (*note_codec.FLAGS.values(), "isReminderDone")
_DATES = ("createdAt", "updatedAt", "reminder")


@dataclass(frozen=True, slots=True)
class NoteCard:
    """Hold a note as the app shows it."""

    id: str
    content: Content = field(repr=False)
    """Content that the policy judges, as of a ``Revision``; so is the next."""
    tags_understood: bool
    values: Mapping[str, Any] = field(repr=False)
    """JSON values by the app's own names; empty if only the order was asked for."""


class NativeMemento:
    """Read the notes of one file. Every method raises what the store raises; nothing is written."""

    beyond_index = False

    def __init__(self, file: DatabaseFile, user_id: str, index: NoteIndex) -> None:
        self._file = file
        self._user_id = user_id
        self._index = index

    async def find(self, text: str, *, archived: bool, arranged: bool = False) -> list[NoteCard]:
        """Find the notes with this text in title or content, in any case; pinned ones first, then the newest.

        '' finds all; each character stands for itself. ``archived``: also those that are archived; ``arranged``: in
        the user's own order.
        """
        found = await run_in_thread(partial(self._find, text.casefold(), archived, arranged))
        return self._seen(found)

    def _find(self, part: str, archived: bool, arranged: bool) -> list[NoteCard]:  # noqa: FBT001
        rows, _ = read_in_portions(self._file, self._user_id, NoteTable.read_order)
        found = []
        for row in rows:
            words = [one for one in (row.get("title"), row["content"]) if isinstance(one, str)]
            if (archived or row.get("isArchived") != 1) and any(
                part in one.casefold() for one in words
            ):
                found.append(row)
        found.sort(key=_arranged if arranged else _newest)
        return _readable(found, lambda _: {})

    async def read(self, note_ids: Sequence[str]) -> list[NoteCard]:
        """Read these notes with all values, in this order; some may have gone."""
        return self._seen(await run_in_thread(partial(self._read, note_ids)))

    def _read(self, note_ids: Sequence[str]) -> list[NoteCard]:
        with self._file.reading() as opened:
            table = NoteTable(*opened, self._user_id)
            rows = [row for one in note_ids if (row := table.read(one, whole=True)) is not None]
        return _readable(rows, _values)

    async def find_one(self, note_id: str) -> NoteCard:
        """Read one note. Raises ``NoteNotFound``, in the same words for a hidden one."""
        found = await self.read([note_id])
        if not found:
            raise missing_error(note_id)
        return found[0]

    async def refresh(self, note_id: str) -> Note:
        """Return a note as the store has it now. Raises ``NoteNotFound``."""
        note = await self._index.refresh(note_id)
        if note is None:
            raise missing_error(note_id)
        return note

    def given(self, note: Note | None, values: Mapping[str, Any]) -> Content:
        """Make the content of these values by the app's own names; what is not given stays. ``note`` None: a new one."""
        base = None if note is None else self._index.base(note.id)
        if note is not None and base is None:
            raise missing_error(note.id)
        return note_codec.made_of(values, base)

    def _seen(self, cards: Sequence[NoteCard]) -> list[NoteCard]:
        return [  # defence: hidden-rows-not-shown -sees
            one for one in cards if self._index.sees(one.id, one.content, clear=one.tags_understood)
        ]


def missing_error(note_id: str) -> NoteNotFound:
    """Make the error for a note that is not there, or hidden."""
    return NoteNotFound(
        "Note not found",
        details={"id": note_id[:_ID_SHOWN]},
        resolution_hint="List or search the notes; each has its id.",
    )


def _readable(
    rows: Sequence[note_codec.Row], values: Callable[[note_codec.Row], Mapping[str, Any]]
) -> list[NoteCard]:
    found = []
    for row in rows:
        try:
            note_id, text = note_codec.required(row)
        except StoreProtocolError:
            continue
        tags, understood = note_codec.tags_of(row.get("labels"))
        content = Content(text, tags, properties=note_codec.properties_of(row))
        found.append(NoteCard(note_id, content, understood, values(row)))
    return found


def _values(row: note_codec.Row) -> dict[str, Any]:
    """Return the values of a row as ``JSON.stringify`` shows them."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in _LISTS:
            values[name] = note_codec.parse_list(value)
        elif name in _FLAGS:
            values[name] = value == 1
        elif name in _DATES:
            values[name] = note_codec.iso(value)
        else:
            values[name] = None if isinstance(value, bytes) else value
    return values


def _newest(row: note_codec.Row) -> tuple[bool, float]:
    return row.get("isPinned") != 1, -note_codec.seconds(row["updatedAt"])


def _arranged(row: note_codec.Row) -> tuple[bool, float, float]:
    order = row.get("order")
    pinned, newest = _newest(row)
    return pinned, order if isinstance(order, int | float) else 0, newest
