"""Read bodies of requests and make answers, in the forms of the server's framework.

What a ``Content-Type`` that the body parser does not know makes of a note's content is the worst trap of this
API: with Express 4 the note then says "[object Object]".
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from datetime import datetime
from email.message import Message
from typing import Any
from urllib.parse import quote

from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium.records import (
    Attachment,
    Note,
    OldState,
    blob_id,
    local_date,
    utc_date,
)
from notarium_devtools.trilium.versions import Version

_JSON = "application/json; charset=utf-8"
_GZIP_FROM = 1024


class Failure(Exception):
    """End the request with an error in the server's form."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


class NoAnswer(Exception):
    """Leave a request without an answer, as the server does if its handler fails."""


class NoRoute(Exception):
    """Report that there is no such path."""


def parse_body(request: Request, version: Version) -> Any:
    """Return what the body parser makes of a body: text, bytes, a JSON value, or what it makes of no match."""
    given = Message()
    given["content-type"] = header(request, "content-type")
    kind = given.get_content_type() if given["content-type"] else ""
    match kind:
        case "text/plain":
            text = request.body.decode(given.get_content_charset("utf-8"), "replace")
            return text.removeprefix("\ufeff")
        case "application/octet-stream":
            return request.body
        case "application/json":
            try:
                return json.loads(request.body or b"{}")
            except ValueError:
                raise Failure(version.malformed, "", "Unexpected end of JSON input") from None
        case "application/x-www-form-urlencoded":
            return dict(pair.split("=", 1) for pair in request.body.decode().split("&"))
    return None if version.express5 or not request.body else {}


def check_properties(body: dict[str, Any], allowed: set[str] | frozenset[str]) -> None:
    """Raise ``Failure`` for a property that is not allowed, or null."""
    for name, value in body.items():
        if name not in allowed:
            raise Failure(
                400, "PROPERTY_NOT_ALLOWED", f"Property '{name}' is not allowed for this method."
            )
        if value is None:
            raise invalid(name, "cannot be null.")


def check_image(version: Version, kind: object, mime: str) -> None:
    """Raise ``Failure`` for an image note of another type, in versions that look."""
    if version.image_mimes and kind == "image" and mime and not mime.startswith("image/"):
        message = (
            f"MIME type '{mime}' is not allowed for image notes. MIME must start with 'image/'."
        )
        raise Failure(400, "INVALID_MIME_FOR_IMAGE", message)


def invalid(name: str, reason: str) -> Failure:
    """Return the failure of a property."""
    return Failure(
        400, "PROPERTY_VALIDATION_ERROR", f"Validation failed on property '{name}': {reason}"
    )


def flag(query: dict[str, str], name: str) -> bool:
    """Return a boolean parameter."""
    value = query.get(name, "false")
    if value not in ("true", "false"):
        message = (
            f"Cannot parse boolean '{name}' value '{value}, allowed values are 'true' and 'false'."
        )
        raise Failure(400, "SEARCH_PARAM_VALIDATION_ERROR", message)
    return value == "true"


def seconds_of(utc: str) -> float:
    """Return the epoch seconds of a date in UTC."""
    return datetime.fromisoformat(utc).timestamp()


def revision_object(note_id: str, old: OldState, version: Version) -> dict[str, Any]:
    """Return a revision as the API shows it."""
    labels = {"description": old.description, "source": old.source}
    return {
        "revisionId": old.id,
        "noteId": note_id,
        "type": old.type,
        "mime": old.mime,
        "isProtected": False,
        "title": old.title,
        **(labels if version.labelled_revisions else {}),
        "blobId": blob_id(old.content),
        "dateLastEdited": local_date(old.edited),
        "dateCreated": local_date(old.created),
        "utcDateLastEdited": utc_date(old.edited),
        "utcDateCreated": utc_date(old.created),
        "utcDateModified": utc_date(old.created),
    }


def content_answer(one: Note | Attachment | OldState) -> Response:
    """Answer with the bytes of a note, attachment or revision."""
    name = one.title
    if one.mime == "text/html" and not name.endswith(".html"):
        name += ".html"
    elif one.mime == "application/pdf":
        name += ".pdf"
    elif one.mime == "application/json" and isinstance(one, Note):
        name += ".json"
    shown = quote(name, safe="")
    headers = (
        ("Content-Disposition", f"file; filename=\"{shown}\"; filename*=UTF-8''{shown}"),
        ("Cache-Control", "no-cache, no-store, must-revalidate"),
    )
    mime = one.mime or "text/html"
    kind = f"{mime}; charset=utf-8" if mime.startswith("text/") else mime
    return Response(200, one.content, kind, headers)


def json_answer(status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Answer with JSON. An error without a code is that of the framework."""
    if isinstance(value, dict) and value.get("code") == "":
        value = {"message": value["message"]}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Response(status, text.encode("utf-8", "surrogatepass"), _JSON, headers)


def header(request: Request, name: str) -> str:
    """Return a header, '' if it is missing."""
    return request.headers.get(name, "")


def finish(request: Request, answer: Response) -> Response:
    """Add the weak ETag, answer 304 where it is known, compress, and leave out what HEAD does not get."""
    body, headers, status = answer.body, answer.headers, answer.status
    digest = base64.b64encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()[:27]
    tag = f'"{len(body):x}-{digest}"'
    headers = (*headers, ("ETag", f"W/{tag}"))
    known = {one.strip().removeprefix("W/") for one in header(request, "if-none-match").split(",")}
    if status == 200 and tag in known:  # noqa: PLR2004
        return Response(304, b"", answer.content_type, headers)
    if "gzip" in header(request, "accept-encoding") and len(body) > _GZIP_FROM:
        body, headers = gzip.compress(body, 1, mtime=0), (*headers, ("Content-Encoding", "gzip"))
    return Response(status, b"" if request.method == "HEAD" else body, answer.content_type, headers)
