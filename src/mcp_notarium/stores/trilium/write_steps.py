"""Make the requests of a write. Pure.

A write consists of several requests: Trilium takes title, content and each label by itself.
"""

from __future__ import annotations

from typing import Any

from mcp_notarium.stores.contract import random_id
from mcp_notarium.stores.http import Request
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.note_codec import HTML, NoteObject, blob_id
from mcp_notarium.stores.trilium.rewriting import is_made_of
from mcp_notarium.stores.trilium.urls import Urls

_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8"}
"""The one type that every version stores as it is. Others, and none at all, make older servers replace the
note by ``[object Object]``."""
_BOM = "\ufeff"
_IMAGE = b"<img"
_IMAGE_SECONDS = 8.0
"""Some seconds after a text was written, the server looks for the note again, to show its images."""


def creation(urls: Urls, note_id: str, body: dict[str, Any], write_id: str) -> list[Request]:
    """Return the requests that make a note."""
    value = {
        "parentNoteId": body["parent"],
        "noteId": note_id,
        "title": body["title"],
        "type": body["type"],
        "mime": body["mime"],
        "content": body["content"] or "",
    }
    # Sent once: repeated, it would overwrite what somebody has made of the note meanwhile.
    create = _change("POST", urls.api("create-note"), to_json(value), _JSON, tries=1)
    labels = [
        _label(urls, note_id, name, number, write_id) for number, name in enumerate(body["labels"])
    ]
    return [create, *labels]


def changes(urls: Urls, note: NoteObject, body: dict[str, Any], write_id: str) -> list[Request]:
    """Return the requests that make the note what the body says, none if it is that already.

    The title comes last: its answer is the whole note.
    """
    steps = []
    url = urls.api("notes", note.id)
    content = body["content"].encode() if body["edited"] else None
    if content is not None and blob_id(content) != note.blob_id:
        # The server takes one mark off the beginning of what it is sent.
        sent = _BOM.encode() + content if body["content"].startswith(_BOM) else content
        steps.append(_change("PUT", f"{url}/content", sent, _TEXT))
    wanted = body["labels"]
    steps += [
        _change("DELETE", urls.api("attributes", label.id), None, {})
        for label in note.labels
        if label.name not in wanted
    ]
    held = {label.name for label in note.labels}
    last = max((label.position for label in note.labels), default=0) // 10
    missing = [name for name in wanted if name not in held]
    steps += [
        _label(urls, note.id, name, last + number, write_id) for number, name in enumerate(missing)
    ]
    if body["title"] != note.title:
        steps.append(_change("PATCH", url, to_json({"title": body["title"]}), _JSON))
    return steps


def overwrites(steps: list[Request]) -> bool:
    """Tell whether these requests replace the title or the content."""
    return any(step.method in ("PUT", "PATCH") for step in steps)


def creates(steps: list[Request]) -> bool:
    """Tell whether these requests make a note."""
    return steps[0].url.endswith("/create-note")


def revision(urls: Urls, note_id: str) -> Request:
    """Return the request that keeps what the note is: older servers do not by themselves.

    It changes nothing that anybody reads.
    """
    url = urls.api("notes", note_id, "revision")
    return Request("POST", url, headers=_JSON, withdrawable=True)


def deletion(urls: Urls, note_id: str) -> Request:
    """Return the request that deletes a note."""
    return _change("DELETE", urls.api("notes", note_id), None, {})


def pause_before_deletion(note: NoteObject, content: bytes, *, date: float | None) -> float:
    """Return the seconds until a note can be deleted: a server that looks for its images then, and finds no note, ends.

    ``date``: the server's time now; None: it does not say.
    """
    if date is None or note.kind != HTML or _IMAGE not in content.lower():
        return 0.0
    age = max(date - note.modified, 0.0)  # a date is of whole seconds
    return max(_IMAGE_SECONDS - age, 0.0)


def is_as_sent(body: dict[str, Any], note: NoteObject, stored: bytes | None, *, new: bool) -> bool:
    """Tell whether the note is what was sent, but for what the server itself has made of its content.

    ``new``: what a new note inherits is nobody's change.
    """
    labels = {label.name for label in note.labels}
    if note.title != body["title"] or labels != set(body["labels"]):
        return False
    if not new and set(note.inherited) != set(body["inherited"]):
        return False
    sent = body["content"]
    if sent is None or blob_id(sent.encode()) == note.blob_id:
        return True
    if body["type"] != HTML or stored is None:
        return False
    return is_made_of(stored.decode("utf-8", "replace"), sent, note_id=note.id)


def _label(urls: Urls, note_id: str, name: str, number: int, write_id: str) -> Request:
    value = {
        "attributeId": random_id(f"{write_id}/{name}"),  # a repetition makes no second label
        "noteId": note_id,
        "type": "label",
        "name": name,
        "value": "",
        "position": 10 * (number + 1),
    }
    return _change("POST", urls.api("attributes"), to_json(value), _JSON)


def _change(
    method: str, url: str, body: bytes | None, headers: dict[str, str], *, tries: int | None = None
) -> Request:
    return Request(
        method, url, headers=headers, body=body, write=True, withdrawable=True, tries=tries
    )
