"""Read Memento's file for native tools: notes as the app itself shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.live_rows import LiveRow
from mcp_notarium.stores.memento import note_codec
from mcp_notarium.stores.memento.database_file import DatabaseFile
from mcp_notarium.stores.memento.note_table import NoteTable, read_in_portions
from mcp_notarium.threads import run_in_thread

_LISTS = ("checkItems", "labels", "images")
_FLAGS = (*note_codec.FLAGS.values(), "isReminderDone")
_DATES = ("createdAt", "updatedAt", "reminder")


class LiveMemento:
    """Read one file; see ``LiveRows``."""

    def __init__(self, file: DatabaseFile, user_id: str) -> None:
        self._file = file
        self._user_id = user_id

    async def find(self, text: str, *, archived: bool, arranged: bool) -> list[LiveRow]:
        """See ``LiveRows.find``. Each character of the text stands for itself."""
        return await run_in_thread(partial(self._find, text.casefold(), archived, arranged))

    def _find(self, part: str, archived: bool, arranged: bool) -> list[LiveRow]:  # noqa: FBT001
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

    async def read(self, note_ids: Sequence[str]) -> list[LiveRow]:
        """See ``LiveRows.read``."""
        return await run_in_thread(partial(self._read, note_ids))

    def _read(self, note_ids: Sequence[str]) -> list[LiveRow]:
        with self._file.reading() as opened:
            table = NoteTable(*opened, self._user_id)
            rows = [row for one in note_ids if (row := table.read(one, whole=True)) is not None]
        return _readable(rows, _values)

    def given(self, values: Mapping[str, Any], *, base: Revision | None) -> Content:
        """See ``LiveRows.given``."""
        return note_codec.made_of(values, base)

    def beside(self, base: Revision) -> Mapping[str, Any]:
        """See ``LiveRows.beside``."""
        return note_codec.beside(base)


def _readable(
    rows: Sequence[note_codec.Row], values: Callable[[note_codec.Row], Mapping[str, Any]]
) -> list[LiveRow]:
    """Return the rows that are notes."""
    found = []
    for row in rows:
        try:
            note_id, _ = note_codec.required(row)
        except StoreProtocolError:
            continue
        found.append(LiveRow(note_id, *note_codec.tags_of(row.get("labels")), values(row)))
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
