"""Make names of files that every system and every link can hold. Pure."""

from __future__ import annotations

import re
import unicodedata

UNNAMED = "file"
_LONGEST = 100
_LONGEST_ENDING = 16
_NOT_IN_NAMES = re.compile(
    r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\](){}%`\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+'
)
"""What Windows refuses in a name, what ends a name inside a link, and what cannot be seen."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?=\.|$)", re.IGNORECASE)


def clean_file_name(path: str) -> str:
    """Return the last part of a path as a name that is no hidden file, no device, and can stand in a link."""
    part = re.split(r"[/\\]", path)[-1].encode("utf-8", "replace").decode()
    words = " ".join(unicodedata.normalize("NFC", _NOT_IN_NAMES.sub(" ", part)).split())
    stem, ending = split_ending(words.strip(" .~"))
    stem = _cut(stem, _LONGEST - len(ending.encode())) or UNNAMED
    return _RESERVED.sub(r"\1_", stem + ending, count=1)


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
