"""Tell which notes of Trilium everybody may read after a write, and could not before.

Trilium publishes a note that its user shares, and all that stands below it, at once and whatever its labels say. So a place makes a
note public, and a label with a password alone limits who reads it. An edit of a note that is public already changes what is read, and
publishes no note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from mcp_notarium.domain.note import Content, Published, Revision
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.stores.http import each
from mcp_notarium.stores.trilium.moves import Moves
from mcp_notarium.stores.trilium.note_codec import SHARE_LOGIN, is_possible_id
from mcp_notarium.stores.trilium.note_reader import NoteReader
from mcp_notarium.stores.trilium.urls import Urls

_NEW = Published(frozenset({""}))


@dataclass(frozen=True, slots=True)
class Sharing:
    """Read what is shared on one server."""

    reader: NoteReader
    urls: Urls
    moves: Moves

    async def find_published(self, base: Revision | None, content: Content) -> Published | None:
        """See ``PublishingStore.find_published``."""
        said = json.loads(content.native) if content.native else {}
        if base is None:
            return Published(_NEW.ids, said["parent"]) if "public" in said else None
        move = said.get("move", {})
        if move.get("public"):
            below = await self._find_below(base.id)
            return Published(frozenset({base.id, *below}), move["new"])
        password = base.content.properties.get(SHARE_LOGIN)
        # defence: password-of-a-public-note =False
        if password is not None and content.properties.get(SHARE_LOGIN) != password:
            places = {base.id, move.get("new", base.id)}  # it may leave what is public
            if all([await self.moves.is_public(one) for one in places]):
                return Published(frozenset({base.id}))
        return None

    async def _find_below(self, note_id: str) -> list[str]:
        if not (await self.reader.object(note_id, cached=False)).get("childNoteIds"):
            return []
        url = self.urls.search(f'note.ancestors.noteId = "{note_id}"', archived=True)
        return [one.id for one in self.reader.notes_of(await self.reader.found(url))]

    async def find_public_day(self, day: str) -> str:
        """See ``PublishingStore.find_public_day``: the calendar makes a note below the nearest of these that is there."""
        rows = await each([*_labels_above(day)], self._find_labelled)
        found = [note_id for ids in rows for note_id in ids]
        try:
            above = await self.moves.find_above(*found)
        except NoteNotFound:  # one went at this moment
            return found[0]
        return next((one for one in found if above.is_public(one)), "")

    async def _find_labelled(self, label: tuple[str, str]) -> list[str]:
        name, value = label
        query = f'#{name} = "{value}"' if value else f"#{name}"
        rows = await self.reader.found(self.urls.search(query, archived=True))
        return [row["noteId"] for row in rows if _has(row, name, value)]


def _has(row: Mapping[str, Any], name: str, value: str) -> bool:
    labels = [(one["name"], one["value"] if value else "") for one in row["attributes"]]
    return is_possible_id(row["noteId"]) and (name, value) in labels


def _labels_above(day: str) -> Iterator[tuple[str, str]]:
    """Yield the labels of the notes below which the calendar may make the note of a day: week, month, quarter, year, and its root."""
    at = date.fromisoformat(day)
    for days in (0, -7, 7):  # which day a week begins with is a setting of the server
        year, week, _ = (at + timedelta(days)).isocalendar()
        yield "weekNote", f"{year}-W{week:02}"
    yield "monthNote", day[:7]
    yield "quarterNote", f"{day[:4]}-Q{(at.month + 2) // 3}"
    yield "yearNote", day[:4]
    yield "workspaceCalendarRoot", ""
    yield "calendarRoot", ""
