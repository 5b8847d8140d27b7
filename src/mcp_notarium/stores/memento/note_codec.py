"""Read rows of the table ``Note`` and their dates as revisions, and compose what a save changes in one. Pure.

A body names only the columns that change, so whatever else a row has stays as it is. Lists are JSON as
``JSON.stringify`` writes it. A checklist's items stand as lines below its content (``checklist``).

A file has integers (milliseconds) or texts. SQLite orders all integers before all texts, so a date of another
form stands in the wrong place for the app, and one without a zone makes its reads fail.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mcp_notarium.domain.characters import escape_surrogates, replace_surrogates
from mcp_notarium.domain.note import NONE, Content, Properties, Revision, flags
from mcp_notarium.domain.note import Value as PropertyValue
from mcp_notarium.errors import StoreProtocolError, StoreRejected
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.memento import checklist
from mcp_notarium.stores.memento.kind import COLOR, DEFAULT_COLOR, FIELDS

_TEXT = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(?:\.\d+)?(Z|\+00:00|)")
_LATEST = 10**16
"""Milliseconds. What is above is no date."""
INTEGER = ""
"""The form of a file without a date, as Prisma writes by itself."""
NUMBER = """CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'real' THEN CAST({0} AS INTEGER)
ELSE CAST(ROUND((julianday({0}) - 2440587.5) * 86400000) AS INTEGER) END"""
"""SQL: the milliseconds of a date of any form."""


def find_form(found: Iterable[object]) -> str:
    """Return the most frequent form among dates: ``INTEGER``, or a pattern of a text."""
    forms = Counter(_form(date) for date in found)
    return max(forms, key=forms.__getitem__, default=INTEGER)


def _form(date: object) -> str:
    match = _TEXT.fullmatch(date) if isinstance(date, str) else None
    if match is None:
        return INTEGER
    between, zone = match.groups()
    zone = zone or ("" if between == " " else "+00:00")
    return f"%Y-%m-%d{between}%H:%M:%S.{{ms:03}}{zone}"


def write(at: int, form: str) -> int | str:
    """Return a date in milliseconds in this form."""
    if form == INTEGER:
        return at
    whole, rest = divmod(at, 1000)
    return datetime.fromtimestamp(whole, UTC).strftime(form).format(ms=rest)


def milliseconds(date: object) -> int | None:
    """Return a date in milliseconds; None if it is none."""
    if isinstance(date, int | float):
        return int(date) if abs(date) < _LATEST else None
    if not isinstance(date, str):
        return None
    try:
        read = datetime.fromisoformat(date)
        read = read if read.tzinfo else read.replace(tzinfo=UTC)
        return round(read.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def seconds(date: object) -> float:
    """Return a date in seconds; 0.0 if it is none."""
    at = milliseconds(date)
    return 0.0 if at is None else at / 1000


def iso(date: object) -> str | None:
    """Return a date as JavaScript shows it; None if it is none."""
    at = milliseconds(date)
    try:
        return None if at is None else str(write(at, "%Y-%m-%dT%H:%M:%S.{ms:03}Z"))
    except (ValueError, OverflowError, OSError):
        return None


VERSION = 2
FLAGS = {"pinned": "isPinned", "archived": "isArchived", "markdown": "isMarkdown"}
HAS_IMAGES = "has images"
"""Stands for the images of a note, which are too large to be read with every note."""
SHOWN = (
    *("id", "title", "content", "type", "checkItems", "labels", *FLAGS.values()),
    *(*FIELDS, HAS_IMAGES),
)
"""The columns that a revision is made of; a file without one of them has only empty ones."""
_LONGEST_FIELD = 200
REQUIRED = frozenset({"id", "content", "createdAt", "updatedAt"})
CHECKLIST = "checklist"
Value = str | int | float | bytes | None
Row = Mapping[str, Value]
_MADE = ("type", "checkItems")
"""The columns that ``raw`` holds: text is made of them."""
_WORDED = (*_MADE, "id", "title", "content")
EMBEDDING = "embedding"
_SPOKEN = frozenset({"title", "content", "checkItems"})
"""Columns of which an embedding is made."""


@dataclass(frozen=True, slots=True)
class LinkedRow:
    """Hold a row of another table that goes with its note."""

    table: str
    values: Row


@dataclass(frozen=True, slots=True)
class Change:
    """Hold the columns that a write sets, the time of it in milliseconds, and rows of other tables to make again."""

    columns: dict[str, Value]
    at: int
    links: tuple[LinkedRow, ...] = ()

    @property
    def rewords(self) -> bool:
        """Tell whether the words of the note change."""
        return not _SPOKEN.isdisjoint(self.columns)

    @property
    def revives(self) -> bool:
        """Tell whether this is a note that was removed: only such a one brings its date."""
        return "createdAt" in self.columns


def revision(row: Row) -> Revision:
    """Read a row. Raises ``StoreProtocolError`` for one that is no note of ours."""
    note_id, content = required(row)
    kind, items, title = row.get("type"), row.get("checkItems"), row.get("title")
    tags, understood = tags_of(row.get("labels"))
    shown = {
        "type": kind if isinstance(kind, str) else "",
        "checkItems": items if isinstance(items, str) else None,
        "beside": _beside(row),
    }
    return Revision(
        note_id,
        etag(row),
        Content(
            checklist.render(content, _items(shown) or []),
            tags,
            title=title if isinstance(title, str) and title else None,
            properties=properties_of(row),
        ).cleaned(),
        seconds(row["createdAt"]),
        seconds(row["updatedAt"]),
        to_json(shown),
        tags_understood=understood,
    )


def required(row: Row) -> tuple[str, str]:
    """Return id and content. Raises ``StoreProtocolError`` for a row that is no note of ours."""
    note_id, content = row["id"], row["content"]
    if not isinstance(note_id, str) or not isinstance(content, str):
        raise StoreProtocolError("a row of Memento has no id or no text that can be read")
    return note_id, content


def etag(row: Row) -> str:
    """Return the hash of everything that a reader or the policy sees of a row."""
    seen = hashlib.sha256()
    for name in SHOWN[1:]:
        value = row.get(name)
        said = value if isinstance(value, bytes) else str(value).encode()
        seen.update(b"%d %s " % (len(said), type(value).__name__.encode()))
        seen.update(said)
    return seen.hexdigest()[:32]


def beside(base: Revision) -> dict[str, Any]:
    """Return what a revision has in addition to its content, by the app's own names, without '' and defaults."""
    found: dict[str, Any] = json.loads(base.raw).get("beside", {})
    return found


def compose(base: Revision | None, content: Content, *, now: float) -> bytes:
    """Compose the body of a write. Raises ``StoreRejected``."""
    tags = tuple(dict.fromkeys(filter(None, content.tags)))  # as they will be read
    content = replace(content, tags=tags, title=content.title or None)
    native = json.loads(content.native) if content.native else {}
    given = _unpack_all(native.get("columns", {}))
    held: dict[str, Any] = {"type": "text"} if base is None else json.loads(base.raw)
    then = held | given
    said = given.get("content")
    before = said if isinstance(said, str) else _body(base)
    same_words = content.text == checklist.render(before, _items(then) or [])
    if same_words:
        body, items = before, None
    else:
        body, items = _split(then, before, content.text, seed=f"{now}")
    if items is not None:
        then["checkItems"] = stringify(items)
    text = checklist.render(body, _items(then) or [])
    columns = {name: value for name, value in given.items() if name not in _WORDED}
    if not same_words or _title(then.get("title", content.title)) != content.title:
        columns.pop(EMBEDDING, None)  # made of other words
    for name in _MADE:
        if base is None or then.get(name) != held.get(name):
            columns[name] = then.get(name)
    if base is None or text != base.content.text or body != _body(base):
        columns["content"] = body
    if base is None or content.title != base.content.title:
        columns["title"] = content.title
    if "title" in given and _title(given["title"]) == content.title:
        columns["title"] = given["title"]
    columns.pop("labels", None)
    columns.pop(COLOR, None)
    content = replace(content, properties=_held(base, content, given))
    columns |= _labels(base, content, given) | _flags(base, content, given)
    columns |= _color(base, content, given)
    at = round(base.modified_at * 1000) if base is not None and not columns else int(now * 1000)
    return to_json(
        {
            "columns": pack_all(columns),
            "links": native.get("links", []),
            "made": native.get("made", {}),
            "text": text,
            "tags": content.tags,
            "title": content.title,
            "properties": content.properties.json,
            "at": at,
        }
    )


def properties_of(row: Row) -> Properties:
    """Return the marks that are set in a row, and the fields that say something."""
    marks = flags(*(name for name, column in FLAGS.items() if row.get(column) == 1))
    return marks.having(_fields(row))


def _fields(row: Row) -> dict[str, PropertyValue]:
    found: dict[str, PropertyValue] = {
        name: replace_surrogates(one[:_LONGEST_FIELD])
        for name in (COLOR, "reminderRecurrence", "reminderLocation")
        if isinstance(one := row.get(name), str) and one not in {"", DEFAULT_COLOR}
    }
    if reminder := iso(row.get("reminder")):
        found |= {"reminder": reminder, "isReminderDone": row.get("isReminderDone") == 1}
    return found


def made_of(values: Mapping[str, Any], base: Revision | None) -> Content:
    """Return the content of values by the names of their columns, lists as lists; what is missing stays."""
    stored: dict[str, Value] = {
        name: stringify(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name not in FLAGS.values() and name != "title"
    }
    old = Content("") if base is None else base.content
    text = old.text
    if base is None or not stored.keys().isdisjoint(_WORDED):
        held = {"type": "text"} if base is None else json.loads(base.raw)
        stored.setdefault("content", _body(base))
        text = checklist.render(str(stored["content"]), _items(held | stored) or [])
    added = {name for name, column in FLAGS.items() if values.get(column) is True}
    removed = {name for name, column in FLAGS.items() if values.get(column) is False}
    fields = _fields({name: stored[name] for name in FIELDS if name in stored})
    return Content(
        text,
        tags_of(stored["labels"])[0] if "labels" in stored else old.tags,
        title=(values["title"] or None) if "title" in values else old.title,
        properties=old.properties.having(
            {**flags(*added), **fields}, without={*removed, *(FIELDS & stored.keys())}
        ),
        native=to_json({"columns": stored}).decode() if stored else "",
    )


def read_change(body: bytes) -> Change:
    """Return what a body changes."""
    value = json.loads(body)
    links = (LinkedRow(table, _unpack_all(row)) for table, row in value["links"])
    return Change(_unpack_all(value["columns"]), value["at"], tuple(links))


def content_of(note_id: str, body: bytes) -> Revision:
    """Return how a composed body reads."""
    value = json.loads(body)
    content = Content(
        value["text"],
        tuple(value["tags"]),
        title=value["title"],
        properties=Properties.from_json(value["properties"]),
    )
    at = value["at"] / 1000
    return Revision(note_id, "", content, at, at, b"")


def full_copy(row: Row, links: Sequence[LinkedRow]) -> bytes:
    """Return a whole note in the form that ``compose`` takes as the ``native`` part of a content."""
    columns = {name: value for name, value in row.items() if name != "updatedAt"}
    linked = [(one.table, pack_all(one.values)) for one in links]
    return to_json({"columns": pack_all(columns), "links": linked})


def _title(value: Value) -> str | None:
    return replace_surrogates(value) if isinstance(value, str) and value else None


def stringify(value: Any) -> str:
    """Return JSON as ``JSON.stringify`` writes it."""
    text = json.dumps(_as_numbers(value), ensure_ascii=False, separators=(",", ":"))
    return escape_surrogates(text)


def parse_list(value: Value) -> Any:
    """Return the JSON value of a column; None if there is none, or the text is no JSON."""
    if not isinstance(value, str) or not value:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def pack(value: Value) -> Any:
    """Return a value of SQLite as JSON can hold it."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    finite = not isinstance(value, float) or abs(value) < float("inf")
    return value if finite else {"infinite": str(value)}


def unpack(value: Any) -> Value:
    """Return what was packed."""
    if isinstance(value, dict):
        packed = value.get("base64")
        return float(value["infinite"]) if packed is None else base64.b64decode(packed)
    found: Value = value
    return found


def pack_all(row: Row) -> dict[str, Any]:
    """Return the values of a row as JSON can hold them."""
    return {name: pack(value) for name, value in row.items()}


def _unpack_all(row: Mapping[str, Any]) -> dict[str, Value]:
    return {name: unpack(value) for name, value in row.items()}


def _labels(base: Revision | None, content: Content, given: Row) -> dict[str, Value]:
    """Return the column of the tags, if they change. Raises ``StoreRejected`` if some would be lost."""
    if "labels" in given and tags_of(given["labels"])[0] == content.tags:
        return {"labels": given["labels"]}
    if content.tags == (() if base is None else base.content.tags):
        return {}
    if base is not None and not base.tags_understood:
        raise StoreRejected(
            "the labels of this note are in a form that is not known here; its tags were not changed, and "
            "nothing was saved",
            subcategory="labels",
            resolution_hint="Save without `tags`; the user can change the labels in Memento.",
        )
    return {"labels": stringify(list(content.tags)) if content.tags else None}


def _flags(base: Revision | None, content: Content, given: Row) -> dict[str, Value]:
    had = NONE if base is None else base.content.properties
    return {
        column: given[column]
        if column in given and (given[column] == 1) == (name in content.properties)
        else int(name in content.properties)
        for name, column in FLAGS.items()
        if column in given or (name in content.properties) != (name in had)
    }


def _held(base: Revision | None, content: Content, given: Row) -> Properties:
    """Return the properties that the note will have: what only the app writes is as it was, or as a row that comes back has it."""
    own = {name for name, values in FIELDS.items() if not values}
    kept = {} if base is None else {**base.content.properties}
    kept = _fields(given) if "reminder" in given else kept
    wanted: Any = content.properties.get(COLOR)
    had = None if base is None else base.content.properties.get(COLOR)
    color = given[COLOR] if COLOR in given and wanted == had else wanted
    if color != wanted or wanted != had:  # what is no colour, as from elsewhere, is none
        own.add(COLOR)
        kept.pop(COLOR, None)
        kept |= _fields({COLOR: color})
    return content.properties.having({name: kept[name] for name in own & kept.keys()}, without=own)


def _color(base: Revision | None, content: Content, given: Row) -> dict[str, Value]:
    wanted = content.properties.get(COLOR)
    if COLOR in given and _fields({COLOR: given[COLOR]}).get(COLOR) == wanted:
        return {COLOR: given[COLOR]}
    had = None if base is None else base.content.properties.get(COLOR)
    return {} if wanted == had else {COLOR: DEFAULT_COLOR if wanted is None else str(wanted)}


def _beside(row: Row) -> dict[str, Any]:
    return {"images": True} if row.get(HAS_IMAGES) == 1 else {}


def _body(base: Revision | None) -> str:
    if base is None:
        return ""
    lines = checklist.render("", _items(json.loads(base.raw)) or [])
    return base.content.text.removesuffix(lines).removesuffix("\n") if lines else base.content.text


def _split(
    held: Mapping[str, Any], before: str, text: str, *, seed: str
) -> tuple[str, list[Any] | None]:
    """Return content and items of a text, whose content was ``before``; None: the items stay as they are."""
    items = _items(held)
    if items is None or not (items or held.get("type") == CHECKLIST):
        return text, None
    content, found = checklist.split(text, before, items, seed=seed)
    return content, None if found == items else found


def _items(held: Mapping[str, Any]) -> list[Any] | None:
    """Return the items of a note; None if what stands there is not understood."""
    value = held.get("checkItems")
    if value is None:
        return []
    found = parse_list(value)
    return found if checklist.is_checklist(found) else None


def tags_of(labels: Value) -> tuple[tuple[str, ...], bool]:
    """Return the tags of a column, and whether they are all."""
    if labels is None or labels == "":
        return (), True
    found = parse_list(labels)
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list):
        return (), False
    tags = [replace_surrogates(name) for name in names if isinstance(name, str) and name]
    return tuple(dict.fromkeys(tags)), len(tags) == len(names)


def _as_numbers(value: Any) -> Any:
    """Return the value with whole numbers as JavaScript writes them: without a point."""
    if isinstance(value, dict):
        return {name: _as_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
