"""What a note is: frozen values shared by every room. Pure; knows no service and no database.

``Content`` is what a person changes, ``Revision`` is what the note service acknowledged (a *base*
once we hold it), ``Note`` is what the cache hands to a reader.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of a note a person can change. ``tags`` keep their order and case."""

    text: str
    tags: tuple[str, ...] = ()
    trash: bool = False

    def digest(self) -> str:
        """SHA-256 (hex) over text, tags and trash; equal contents have equal digests."""
        parts = [self.text, *self.tags]
        lengths = ",".join(str(len(part)) for part in parts)
        form = "".join((lengths, ":", str(int(self.trash)), *parts))
        return hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of one note as the note service acknowledged it.

    ``etag`` is opaque and compared for equality only. ``server_version`` is the service's own
    number where it has one. Times are Unix epoch seconds. ``raw`` is the service's whole object as
    JSON text, unknown fields included, so that a later write can preserve them.
    """

    id: str
    etag: str
    content: Content
    created_at: float
    modified_at: float
    raw: str
    server_version: int | None = None
    pinned: bool = False
    markdown: bool = False


def clear_tags(raw: str) -> bool:
    """Whether the tags in an acknowledged object are all understood: a list of strings, or none."""
    fields = json.loads(raw)
    tags = fields.get("tags", []) if isinstance(fields, dict) else []
    return isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The note service says this note is gone for good."""

    id: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note as the cache holds it. ``local_version`` grows with every change of the row."""

    id: str
    local_version: int
    server_version: int | None
    text: str
    tags: tuple[str, ...]
    trash: bool
    created_at: int
    modified_at: int
    pinned: bool = False
    markdown: bool = False

    @property
    def content(self) -> Content:
        """The changeable part, for comparing and patching."""
        return Content(text=self.text, tags=self.tags, trash=self.trash)
