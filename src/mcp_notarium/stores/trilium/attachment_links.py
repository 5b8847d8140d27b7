"""Point the links of an older revision back to the note's own attachments. Pure.

A revision has copies of the note's attachments, and its HTML names these. Stored in the note as it is, that
would leave the note's own without a link, and Trilium erases such an attachment after 30 days.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_notarium.errors import StoreProtocolError

_NAMED = re.compile(r"\battachments/(\w+)|\battachmentId=(\w+)")
_DOWNLOAD = re.compile(r'(?<=href=")api/attachments/(\w+)/download(?=")')


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold what tells an attachment from others of its note."""

    id: str
    owner: str
    role: str
    title: str
    blob_id: str


def attachment(value: Any) -> Attachment:
    """Read an attachment object. Raises ``StoreProtocolError``."""
    names = ("attachmentId", "ownerId", "role", "title", "blobId")
    found = [value.get(name) if isinstance(value, dict) else None for name in names]
    if not all(isinstance(one, str) for one in found):
        raise StoreProtocolError("Trilium answered an attachment in an unknown form")
    return Attachment(*map(str, found))


def named_in(html: str) -> set[str]:
    """Return the ids of the attachments that the HTML names."""
    return {one or other for one, other in _NAMED.findall(html)}


def twin_of(copy: Attachment, own: Collection[Attachment]) -> str:
    """Return the id of the note's own attachment of the same content; that of the copy if there is none.

    The server makes an attachment of the note of that copy when it is stored.
    """
    same = [one for one in own if (one.role, one.blob_id) == (copy.role, copy.blob_id)]
    same.sort(key=lambda one: one.title != copy.title)
    return same[0].id if same else copy.id


def with_own(html: str, note_id: str, twins: Mapping[str, str]) -> str:
    """Return the HTML with the links that the note had: copies by the note's own, downloads as links to them.

    Trilium counts the latter form as a use of the attachment, and not the download address.
    """

    def own(found: re.Match[str]) -> str:
        copy = found[1] or found[2]
        return found[0].replace(copy, twins.get(copy, copy))

    def link(found: re.Match[str]) -> str:
        if found[1] not in twins:
            return found[0]
        target = twins[found[1]]
        return f"#root/{note_id}?viewMode=attachments&amp;attachmentId={target}"

    return _NAMED.sub(own, _DOWNLOAD.sub(link, html))
