"""Name files so that every system and every link can hold them, and tell their kind as an Internet media type. Pure."""

from __future__ import annotations

import mimetypes
import re
import unicodedata

UNNAMED = "file"
_LONGEST = 100
_LONGEST_ENDING = 16
_NOT_IN_NAMES = re.compile(
    r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\](){}%`\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+'
)
"""Characters that Windows refuses in a name, that end a name inside a link, or that cannot be seen."""
DEVICES = r"con(?:(?:in|out)\$)?|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]"
"""Names that Windows keeps for devices, with any ending; as a pattern, in any letter case."""
_RESERVED = re.compile(rf"({DEVICES})(?= *(?:\.|$))", re.IGNORECASE)


PDF = "application/pdf"
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
_OFFICE = "application/vnd.openxmlformats-officedocument"
_MORE = {
    ".md": "text/markdown",
    ".canvas": "application/json",
    ".base": "application/yaml",
    ".excalidraw": "application/json",
    ".org": "text/org",
    ".heic": "image/heic",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".epub": "application/epub+zip",
    ".rtf": "application/rtf",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".ics": "text/calendar",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".mkv": "video/matroska",
}
"""Types that this table lacks, or has in newer versions of Python only."""


_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    PDF: ".pdf",
}


def clean_file_name(path: str) -> str:
    """Return the last part of a path as a name that is no hidden file, no device, and can stand in a link."""
    part = re.split(r"[/\\]", path)[-1].encode("utf-8", "replace").decode()
    words = " ".join(unicodedata.normalize("NFC", _NOT_IN_NAMES.sub(" ", part)).split())
    stem, ending = split_ending(words.strip(" .~"))
    stem = _cut(stem, _LONGEST - len(ending.encode())) or UNNAMED
    return avoid_device(stem + ending)


def avoid_device(name: str) -> str:
    """Return a name of a file with `_` behind what would be a device's."""
    found = _RESERVED.match(name)
    return f"{found[0]}_{name[found.end() :]}" if found else name


def numbered(name: str, number: int) -> str:
    """Return the name with a number before its ending; the first one is as it is."""
    stem, ending = split_ending(name)
    return name if number < 2 else f"{stem} {number}{ending}"  # noqa: PLR2004 - the second one


def split_ending(name: str) -> tuple[str, str]:
    """Return a name without its ending, and the ending with its dot; '' if it has none."""
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem or not 0 < len(ending) <= _LONGEST_ENDING or " " in ending:
        return name, ""
    return stem, f".{ending}"


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore").strip(" .")


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
    more = (ending for ending, said in _MORE.items() if said == kind)
    return ending_of(kind) or _TABLE.guess_extension(kind) or next(more, ".bin")
