"""Define the arguments of the note cards tools, and word their answers: the fields of the contract, as many notes as fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AfterValidator, StrictBool
from pydantic import Field as Described

from mcp_notarium.domain.characters import escape_surrogates
from mcp_notarium.domain.policy import Field
from mcp_notarium.tools.answers import PlainAnswer
from mcp_notarium.tools.get import TEXT_HIDDEN
from mcp_notarium.tools.requests import EMPTY, NULL, QUIET, Wire, read_flag

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.stores.memento.native import NativeMemento, NoteCard


LARGEST = 200_000
"""Bytes of an answer that lists notes."""
LARGEST_ALONE = 1_000_000
"""Bytes of an answer with one note. Images that do not fit are left out."""
_READ_AT_ONCE = 50
_ROOM_FOR_MARK = 500
_HEAVY = ("images", "embedding")
_WORDS = ("title", "checkItems", "images", "embedding", "reminderLocation")
CHANGED = (
    "id", "title", "content", "color", "type", "checkItems", "labels", "images", "isPinned", "isArchived",
    "createdAt", "updatedAt",
)  # fmt: skip
SEARCHED = (
    "id", "title", "content", "color", "isPinned", "isArchived", "type", "checkItems", "labels", "images",
    "createdAt", "updatedAt",
)  # fmt: skip
LISTED = (*SEARCHED[:10], "order", *SEARCHED[10:])
WHOLE = (
    *SEARCHED[:10], "reminder", "isReminderDone", "reminderRecurrence", "reminderLocation", "isMarkdown",
    "size", "embedding", "userId", "order", "createdAt", "updatedAt",
)  # fmt: skip


def cards(app: App) -> NativeMemento:
    """Return the notes of the app's file, as far as the policy shows them."""
    return cast("NativeMemento", app.library.native)  # the kind of the store says so


async def one(app: App, note_id: str, fields: Sequence[str]) -> PlainAnswer:
    """Show a note. Raises ``NoteNotFound``."""
    row = await cards(app).find_one(note_id)
    room = min(LARGEST_ALONE, app.usage_limits.bytes_left or LARGEST_ALONE) - _ROOM_FOR_MARK
    text, light = _fitting(app, row, fields, room)
    return PlainAnswer(
        text=text, notes=(note_id,), from_notes=True, remark=_remark(0, 0, 1 if light else 0)
    )


async def many(app: App, found: Sequence[NoteCard], fields: Sequence[str]) -> PlainAnswer:
    """Show as many of the notes as an answer can hold, and say how many more there are."""
    shown = found[: app.usage_limits.limit_rows(len(found))]
    room = min(LARGEST, app.usage_limits.bytes_left or LARGEST) - _ROOM_FOR_MARK
    texts: list[str] = []
    ids: list[str] = []
    light, gone = 0, 0
    for at in range(0, len(shown), _READ_AT_ONCE):
        part = [row.id for row in shown[at : at + _READ_AT_ONCE]]
        read = await cards(app).read(part)
        gone += len(part) - len(read)
        for row in read:
            text, lighter = _fitting(app, row, fields, LARGEST // 10)
            room -= len(text.encode("utf-8", "replace")) + 1
            if room < 0:
                break
            light += lighter
            texts.append(text)
            ids.append(row.id)
        if room < 0:
            break
        await asyncio.sleep(0)
    return PlainAnswer(
        text=f"[{','.join(texts)}]",
        notes=tuple(ids),
        from_notes=bool(ids),
        remark=_remark(len(ids), len(found) - gone, light),
    )


def _fitting(app: App, row: NoteCard, fields: Sequence[str], room: int) -> tuple[str, bool]:
    """Return a note as JSON, and whether its images are left out because it would not fit."""
    shown = _shown(app, row, fields)
    text = encode(shown)
    if len(text) <= room or not any(shown.get(name) for name in _HEAVY):
        return text, False
    return encode({name: None if name in _HEAVY else one for name, one in shown.items()}), True


def _shown(app: App, row: NoteCard, fields: Sequence[str]) -> dict[str, Any]:
    shown = {name: row.values.get(name) for name in fields}
    if app.config.policy.hides(Field.TEXT):
        shown |= {name: None for name in _WORDS if name in shown} | {"content": TEXT_HIDDEN}
    if app.config.policy.hides(Field.TAGS):
        shown["labels"] = None
    return shown


def _remark(shown: int, found: int, light: int) -> str:
    said = []
    if shown < found:
        said.append(f"The first {shown} of {found}; `search_notes` finds others.")
    if light:
        said.append(f"Images and embedding of {light} are left out here for their size.")
    return " ".join(said)


def encode(value: object) -> str:
    """Return compact JSON."""
    return escape_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _read_checks(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take ``"false"`` for the flag: the app would show such an item as done."""
    return [
        item | {"checked": read_flag(item["checked"])} if "checked" in item else item
        for item in items
    ]


_Items = Annotated[list[dict[str, Any]], NULL, AfterValidator(_read_checks)]


class Card(Wire):
    """Hold the fields of a note that can be set. ``null`` empties a title or a list."""

    title: Annotated[str, NULL] | None = Described(default=None, description="Note title")
    color: str | None = Described(
        default=None,
        max_length=100,
        description="default, red, orange, yellow, green, teal, blue, purple, pink or gray",
    )
    checkItems: _Items | None = Described(  # noqa: N815 - the contract's names
        default=None, description="Items of a checklist: {id, text, checked}"
    )
    labels: Annotated[list[str], NULL] | None = Described(default=None, description="Labels (tags)")
    isPinned: StrictBool | None = None  # noqa: N815
    isArchived: StrictBool | None = None  # noqa: N815
    images: Annotated[list[str], NULL] | None = Described(
        default=None, description="Images, base64 encoded"
    )


class CreateNoteRequest(Card):
    """Hold the arguments of ``create_note``."""

    content: str = Described(description="Note content")
    type: str = Described(default="text", max_length=100, description="text or checklist")


class UpdateNoteRequest(Card):
    """Hold the arguments of ``update_note``. ``confirm``: see ``save``; a refusal names it."""

    id: str = Described(description="Note ID")
    content: Annotated[str, EMPTY] | None = Described(default=None, description="Note content")
    confirm: StrictBool | None = Described(default=None, json_schema_extra=QUIET)


class NoteIdRequest(Wire):
    """Hold the argument of the tools for one note."""

    id: str = Described(description="Note ID")


class DeleteNoteRequest(NoteIdRequest):
    """Hold the arguments of ``delete_note``. ``confirm``: see ``save``; a refusal names it."""

    confirm: StrictBool | None = Described(default=None, json_schema_extra=QUIET)


class GetNotesRequest(Wire):
    """Hold the arguments of ``get_notes``. ``null`` is the default."""

    includeArchived: StrictBool | None = Described(default=False, description="Also archived notes")  # noqa: N815
    search: str | None = Described(default="", description="Only notes with this text, in any case")


class SearchNotesRequest(Wire):
    """Hold the argument of ``search_notes``."""

    query: str = Described(description="The text to find")


class GetLabelsRequest(Wire):
    """Hold the arguments of ``get_labels``: none."""
