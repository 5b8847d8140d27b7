"""Read Jotter's notes as revisions, and compose what a write sends. Pure.

A body holds the note as it will be, the names of the fields that are sent, and the move to another notebook if it is one.
Jotter leaves all other fields as they are, so one that is not known here never leaves the service.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_notarium.domain.note import Content, Properties, Revision
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.json_answers import parse_json, to_json
from notarium_devtools.jotter.kind import DONE, FIELDS, TODO

CODEC_VERSION = 1
_ID = re.compile("[0-9A-Za-z_-]{1,64}")
_TEXTS = ("title", "body")
_NUMBERS = ("is_todo", "todo_completed", "deleted_time", "user_created_time", "user_updated_time")
_LARGEST = 10**15
_NO_TODO = FIELDS[TODO][0]
_NOTEBOOK = "notebook"
"""The member of ``raw`` that is no field of Jotter: the titles of the notebooks that the note lies in."""


def is_id(note_id: object) -> bool:
    """Tell whether Jotter can have a note or notebook of this id."""
    return isinstance(note_id, str) and _ID.fullmatch(note_id) is not None


def decode(note: Any, notebooks: Mapping[str, str]) -> Revision:
    """Read a note of an answer; ``notebooks``: id to path. Raises ``StoreProtocolError`` for what is no note.

    Jotter has no number or hash of a revision, and two edits may have the same date: the etag is a hash of all fields.
    """
    if not isinstance(note, dict) or not is_id(note.get("id")):
        raise StoreProtocolError("Jotter answered something that is no note")
    path = notebooks.get(str(note.get("parent_id")), "")
    known = dict(sorted(note.items())) | {_NOTEBOOK: path}
    etag = hashlib.sha256(to_json(known)).hexdigest()[:32]
    return _revision(note["id"], known, etag)


def compose(base: Revision | None, content: Content, *, now: float) -> bytes:
    """Compose the body that turns ``base`` into ``content``; see ``Store.compose``."""
    content = content.cleaned()
    before = {} if base is None else _note_of(base)
    if base is not None and content == base.content:
        return to_json({"note": before, "sent": [], "move": None})
    created, modified = content.dates or (now, now)
    move = read_move(content.native.encode())
    todo = content.properties.get(TODO, _NO_TODO)
    after = {"user_created_time": _milliseconds(created)} | before
    after |= {
        "is_todo": int(todo != _NO_TODO),
        "todo_completed": (before.get("todo_completed") or _milliseconds(now))
        if todo == DONE
        else 0,
        "title": content.title or "",
        "body": content.text,
        "deleted_time": (before.get("deleted_time") or _milliseconds(now)) if content.trash else 0,
        "user_updated_time": _milliseconds(modified),
    }
    if move is not None:
        after["parent_id"] = move["new"]
    changed = {name for name, value in after.items() if before.get(name, ...) != value}
    return to_json({"note": after, "sent": sorted(changed | {"user_updated_time"}), "move": move})


def revision_of(note_id: str, body: bytes) -> Revision:
    """Read a composed body as a revision; see ``Store.revision_of``."""
    return _revision(note_id, parse_json(body)["note"], "")


def fields_to_send(body: bytes) -> dict[str, Any]:
    """Return the fields that a composed body sends; none if it changes nothing."""
    value = parse_json(body)
    return {name: value["note"][name] for name in value["sent"]}


def move_to(old: str, new: str) -> bytes:
    """Return the ``Content.native`` that takes a note from a notebook to another one."""
    return to_json({"move": {"old": old, "new": new}})


def read_move(said: bytes) -> dict[str, str] | None:
    """Return the move that a ``Content.native`` or a composed body says; None if it says none."""
    move: dict[str, str] | None = parse_json(said).get("move") if said else None
    return move


def notebook_of(revision: Revision) -> str:
    """Return the id of the notebook that a note lies in."""
    return str(parse_json(revision.raw).get("parent_id"))


def describe(revision: Revision) -> dict[str, str]:
    """Return what Jotter shows beside the text of a note; see ``Traits.beside``."""
    path = parse_json(revision.raw).get(_NOTEBOOK)
    return {_NOTEBOOK: path} if path else {}


def notebooks_above(notebooks: Sequence[Any]) -> dict[str, dict[str, str]]:
    """Return the titles of each notebook and of those above it, by their ids, the notebook itself first."""
    known = {one["id"]: one for one in notebooks if isinstance(one, dict) and is_id(one.get("id"))}
    found: dict[str, dict[str, str]] = {}
    for notebook_id in known:
        above = found[notebook_id] = {}
        one = known.get(notebook_id)
        while one is not None and one["id"] not in above:
            above[one["id"]] = str(one.get("title", ""))
            one = known.get(str(one.get("parent_id")))
    return found


def notebook_paths(notebooks: Sequence[Any]) -> dict[str, str]:
    """Return the path of each notebook by its id: titles from the top, with ``/`` between them."""
    return {
        one: "/".join(reversed(above.values())) for one, above in notebooks_above(notebooks).items()
    }


def _revision(note_id: str, note: Mapping[str, Any], etag: str) -> Revision:
    texts = all(isinstance(note.get(name), str) for name in _TEXTS)
    numbers = all(type(n := note.get(name)) is int and abs(n) < _LARGEST for name in _NUMBERS)
    if not (texts and numbers):
        raise StoreProtocolError("a note of Jotter cannot be read")
    trash = note["deleted_time"] > 0
    todo = DONE if note["todo_completed"] else "open"
    shown = Properties({TODO: todo} if note["is_todo"] else {})
    return Revision(
        id=note_id,
        etag=etag,
        content=Content(note["body"], (), trash, note["title"] or None, shown).cleaned(),
        created_at=note["user_created_time"] / 1000,
        modified_at=note["user_updated_time"] / 1000,
        raw=to_json({name: value for name, value in note.items() if name not in _TEXTS}),
    )


def _note_of(base: Revision) -> dict[str, Any]:
    note: dict[str, Any] = parse_json(base.raw)
    return note | {"title": base.content.title or "", "body": base.content.text}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
