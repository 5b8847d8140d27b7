"""Define what a simulated Trilium document consists of, and how the API shows that."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_TEXT_TYPES = frozenset(
    {"text", "code", "mermaid", "canvas", "mindMap", "relationMap", "search", "book"}
)


@dataclass(slots=True)
class Branch:
    """Hold the place of a note below a parent."""

    note_id: str
    parent_id: str
    position: int
    changed: float
    prefix: str | None = None
    expanded: bool = False

    @property
    def id(self) -> str:
        """Return the id: parent and note."""
        return f"{self.parent_id}_{self.note_id}"


@dataclass(slots=True)
class Attribute:
    """Hold a label or relation that a note owns."""

    id: str
    note_id: str
    type: str
    name: str
    value: str
    position: int
    inheritable: bool
    changed: float


@dataclass(slots=True)
class Attachment:
    """Hold a file or image that belongs to a note."""

    id: str
    owner_id: str
    role: str
    mime: str
    title: str
    position: int
    content: bytes
    changed: float
    unused_since: float | None = None


@dataclass(frozen=True, slots=True)
class OldState:
    """Hold a revision: what a note was."""

    id: str
    title: str
    type: str
    mime: str
    content: bytes
    edited: float
    created: float
    description: str = ""
    source: str = "auto"


@dataclass(slots=True)
class Note:
    """Hold a note. ``stamp``: the local dates if a client sent its own."""

    id: str
    title: str
    type: str
    mime: str
    content: bytes
    created: float
    changed: float
    protected: bool = False
    local_created: str = ""
    local_changed: str = ""
    revisions: list[OldState] = field(default_factory=list)

    @property
    def is_text(self) -> bool:
        """Tell whether its content is kept as text."""
        return self.type in _TEXT_TYPES or self.mime.startswith("text/")


@dataclass(frozen=True, slots=True)
class Deleted:
    """Hold a deleted note and what went with it; ``below``: the places of notes below it."""

    note: Note
    branches: list[Branch]
    attributes: list[Attribute]
    attachments: list[Attachment]
    below: list[Branch]


def attribute_object(one: Attribute) -> dict[str, Any]:
    """Return an attribute as the API shows it."""
    return {
        "attributeId": one.id,
        "noteId": one.note_id,
        "type": one.type,
        "name": one.name,
        "value": one.value,
        "position": one.position,
        "isInheritable": one.inheritable,
        "utcDateModified": utc_date(one.changed),
    }


def branch_object(branch: Branch) -> dict[str, Any]:
    """Return a branch as the API shows it."""
    return {
        "branchId": branch.id,
        "noteId": branch.note_id,
        "parentNoteId": branch.parent_id,
        "prefix": branch.prefix,
        "notePosition": branch.position,
        "isExpanded": branch.expanded,
        "utcDateModified": utc_date(branch.changed),
    }


def blob_id(content: bytes, *, salt: bool = False) -> str:
    """Return the id of a content, which Trilium makes from its hash."""
    digest = hashlib.sha512((b"salt" if salt else b"") + content).digest()
    return base64.b64encode(digest).decode().replace("+", "X").replace("/", "Y")[:20]


def utc_date(seconds: float) -> str:
    """Return a date as Trilium writes it in UTC."""
    return f"{_date(seconds)}Z"


def local_date(seconds: float) -> str:
    """Return a date as Trilium writes it on a server whose clock is UTC."""
    return f"{_date(seconds)}+0000"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
