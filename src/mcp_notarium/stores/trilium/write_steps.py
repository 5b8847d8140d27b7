"""Make the requests of a write, and tell whether the server has made a text of the one that it was sent. Pure.

A write consists of several requests: Trilium takes title, content and each label by itself.

Within the write it makes attachments of embedded images and files, takes over attachments of another owner, and
shortens links to its own address. Everything else it stores as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from typing import Any

from mcp_notarium.domain.note import Revision
from mcp_notarium.stores.contract import random_id
from mcp_notarium.stores.http import Request
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.label_order import arrange
from mcp_notarium.stores.trilium.note_codec import HTML, NoteObject, blob_id
from mcp_notarium.stores.trilium.urls import Urls

_NEAR = tuple(
    (re.compile(pattern), near)
    for pattern, near in (
        (r'src="[^"]*/api/attachments/', 'src="api/attachments/'),
        (r'src="[^"]*/api/images/', 'src="api/images/'),
        (r'href="[^"]*#root', 'href="#root'),
    )
)
_PART = re.compile(
    r"""(?P<image><img[^<>]*?)\ssrc=["'](?:(?P<data>data:image/)|(?!api/))[^"'<>]+["']"""
    r"""|(?P<own>api/attachments/\w+/image)"""
    r"""|(?P<file><a[^<>]*?\shref=["']data:[^;"'<>]+;base64,[^"'<>]+["'][^<>]*>)"""
    r"""(?P<title>(?:[^<\n]|<(?!/?a\b))*)</a>"""
    r"""|(?P<link>href="[^"]+attachmentId=\w+[^"]*")""",
    re.IGNORECASE,
)
"""Parts of a text that the server may replace."""
_TAG = re.compile(r"<[^<>]*>")
_IMAGE_SOURCE = re.compile(r' src="api/attachments/\w+/image/[^"]*"')
_OWN = re.compile(r"api/attachments/\w+/image")
_LINK = re.compile(r'href="#root/(\w+)\?viewMode=attachments&(?:amp;)?attachmentId=\w+"')


def is_made_of(stored: str, sent: str, *, note_id: str) -> bool:
    """Tell whether a note has this text because it was sent that one."""
    stored, sent = _shortened(stored), _shortened(sent)
    here = done = 0
    for part in _PART.finditer(sent):
        same = sent[done : part.start()]
        if not stored.startswith(same, here):
            return False
        end = _end_of(part, stored, here + len(same), note_id)
        if end is None:
            return False
        here, done = end, part.end()
    return stored[here:] == sent[done:]


def is_made_of_body(revision: Revision, body: bytes) -> bool:
    """Tell whether a revision has its HTML because a composed body was sent."""
    html, sent = json.loads(revision.raw).get("html"), json.loads(body)["content"]
    return html is not None and sent is not None and is_made_of(html, sent, note_id=revision.id)


def _shortened(html: str) -> str:
    for pattern, near in _NEAR:
        html = pattern.sub(near, html)
    return html


def _end_of(part: re.Match[str], stored: str, here: int, note_id: str) -> int | None:
    """Return where a part ends in the stored text: as it was sent, or as the server writes it; None: neither."""
    if stored.startswith(part[0], here):
        return here + len(part[0])
    opening, made = "", _LINK
    if part["image"]:
        # Of an embedded image the server drops what stands before its source.
        opening, made = "<img" if part["data"] else part["image"].rstrip(), _IMAGE_SOURCE
    elif part["own"]:
        made = _OWN
    elif part["file"]:
        opening = '<a class="reference-link" '
    if not stored.startswith(opening, here):
        return None
    found = made.match(stored, here + len(opening))
    if found is None or (made is _LINK and found[1] != note_id):
        return None
    return found.end() if not part["file"] else _end_of_title(part["title"], stored, found.end())


def _end_of_title(title: str, stored: str, here: int) -> int | None:
    """Return where a link to a file ends: of its words the server keeps the bare text."""
    end = stored.find("</a>", here)
    if end < 0 or not stored.startswith(">", here):
        return None
    words = stored[here + 1 : end].split()
    return end + len("</a>") if words == unescape(_TAG.sub("", title)).split() else None


_OVERWRITE = ("PUT", "PATCH")
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
        _label(urls, note_id, one, number, write_id) for number, one in enumerate(body["labels"])
    ]
    return [create, *labels, *_link(urls, note_id, body, write_id)]


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
    wanted = [(name, value) for name, value in body["labels"]]
    stay, missing = arrange([(label.name, label.value) for label in note.labels], wanted)
    last = max((label.position for label in note.labels), default=0) // 10
    # A label with another value is made before the old one goes: in between it is there twice, never gone.
    steps += [
        _label(urls, note.id, one, last + number, write_id) for number, one in enumerate(missing)
    ]
    steps += [
        _change("DELETE", urls.api("attributes", label.id), None, {})
        for place, label in enumerate(note.labels)
        if place not in stay
    ]
    if body["title"] != note.title:
        steps.append(_change("PATCH", url, to_json({"title": body["title"]}), _JSON))
    return steps


def overwrites(steps: list[Request]) -> bool:
    """Tell whether these requests replace the title or the content."""
    return any(step.method in _OVERWRITE for step in steps)


def finds_base(step: Request, note: NoteObject, base: NoteObject) -> bool:
    """Tell whether what this request replaces is as it was."""
    return note.blob_id == base.blob_id if step.method == "PUT" else note.title == base.title


def finds_itself(step: Request, note: NoteObject, body: dict[str, Any]) -> bool:
    """Tell whether the note has what this request sends."""
    if step.method == "PUT":
        return note.blob_id == blob_id(body["content"].encode())
    return note.title == str(body["title"])


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
    labels = {(label.name, label.value) for label in note.labels}
    if note.title != body["title"] or labels != _as_set(body["labels"]):
        return False
    if not new and set(note.inherited) != _as_set(body["inherited"]):
        return False
    sent = body["content"]
    if sent is None or blob_id(sent.encode()) == note.blob_id:
        return True
    if body["type"] != HTML or stored is None:
        return False
    return is_made_of(stored.decode("utf-8", "replace"), sent, note_id=note.id)


def _as_set(labels: list[list[str]]) -> set[tuple[str, str]]:
    return {(name, value) for name, value in labels}


def _label(urls: Urls, note_id: str, label: Sequence[str], number: int, write_id: str) -> Request:
    name, value = label
    seed = f"{write_id}/{name}" + (f"={value}" if value else "")
    fields = {
        "attributeId": random_id(seed),  # a repetition makes no second label
        "noteId": note_id,
        "type": "label",
        "name": name,
        "value": value,
        "position": 10 * (number + 1),
    }
    return _change("POST", urls.api("attributes"), to_json(fields), _JSON)


def _link(urls: Urls, note_id: str, body: dict[str, Any], write_id: str) -> list[Request]:
    """Return the request that makes a note inherit from its template."""
    if "template" not in body:
        return []
    fields = {
        "attributeId": random_id(f"{write_id}/~template"),
        "noteId": note_id,
        "type": "relation",
        "name": "template",
        "value": body["template"],
    }
    return [_change("POST", urls.api("attributes"), to_json(fields), _JSON)]


def _change(
    method: str, url: str, body: bytes | None, headers: dict[str, str], *, tries: int | None = None
) -> Request:
    return Request(
        method, url, headers=headers, body=body, write=True, withdrawable=True, tries=tries
    )
