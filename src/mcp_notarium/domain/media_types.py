"""Tell the kind of a file, as an Internet media type: by its first bytes, else by its name. Pure."""

from __future__ import annotations

import mimetypes

PDF = "application/pdf"
TEXT = "text/plain"
UNKNOWN = "application/octet-stream"
PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
"""Kinds that are shown -> their names in Pillow."""
HEAD = 1024
"""Bytes that tell the kind."""
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_TABLE = mimetypes.MimeTypes()
"""Python's own table: what a system adds to it would make an answer another one."""
_MORE = {
    ".md": "text/markdown",
    ".canvas": "application/json",
    ".base": "application/yaml",
    ".excalidraw": "application/json",
    ".org": "text/org",
    ".heic": "image/heic",
    ".webp": "image/webp",
    ".avif": "image/avif",
}


_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    PDF: ".pdf",
}


def kind_of_name(name: str) -> str:
    """Return the kind that a file of this name has if its content keeps to it."""
    dot = name.rfind(".")
    ending = name[dot:].lower() if dot > 0 else ""
    return _MORE.get(ending) or _TABLE.types_map[True].get(ending, UNKNOWN)


def kind_of(head: bytes, promised: str) -> str:
    """Return the kind of a file from its first ``HEAD`` bytes, else the promised one; of what is decoded only the bytes count."""
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if b"%PDF-" in head:
        return PDF
    return UNKNOWN if promised in PICTURES or promised == PDF else promised


def ending_of(kind: str) -> str:
    """Return the usual ending of names of a kind that the first bytes tell; '' for any other."""
    return _ENDINGS.get(kind, "")


def any_ending_of(kind: str) -> str:
    """Return an ending for a name without one: a link to such a name means a note."""
    return ending_of(kind) or _TABLE.guess_extension(kind) or ".bin"
