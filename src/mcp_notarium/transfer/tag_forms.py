"""Bring the tags of other programs into the rules of ours, and write a folder as a tag and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.tools.save_checks import LONGEST_TAG, MOST_TAGS

_FOLDER = "folder:"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")
_NOT_IN_FOLDERS = re.compile(r"[^\w./-]+")


def tidy(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags trimmed, without ``#`` before them, split at commas, each once, not too many nor too long."""
    kept: dict[str, str] = {}
    for part in (part for tag in tags for part in tag.split(",")):
        name = _BLANKS.sub(" ", part).lstrip("# ")[:LONGEST_TAG].strip()
        if name:
            kept.setdefault(tag_key(name), name)
    return tuple(kept.values())[:MOST_TAGS]


def folder_tag(folder: str) -> str:
    """Return the tag that keeps a folder: one word, which is no address. '' if it would be too long."""
    written = _NOT_IN_FOLDERS.sub(lambda found: quote(found[0], safe=""), folder)
    return f"{_FOLDER}{written}" if len(_FOLDER) + len(written) <= LONGEST_TAG else ""


def take_folder(tags: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the folder that a tag keeps, '' if none does, and the other tags."""
    found = [tag for tag in tags if tag.startswith(_FOLDER)]
    others = tuple(tag for tag in tags if tag not in found)
    return unquote(found[0].removeprefix(_FOLDER)) if found else "", others
