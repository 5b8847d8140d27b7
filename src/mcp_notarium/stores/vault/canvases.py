"""Find the cards of a vault's canvases that show a note, and let them show it under another path.

A canvas is JSON: in ``nodes``, a card of the type ``file`` names the path of its file from the top of the vault. Only
the characters of these paths change.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.markup.obsidian_links import find_targets
from mcp_notarium.stores.vault.file_writer import CANVAS, read_file, replacing
from mcp_notarium.stores.vault.folder import NotANote, open_folder
from mcp_notarium.stores.vault.paths import is_in_trash

_TRIES = 3
_FILE = re.compile(r'"file"\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL)


class NotACanvas(ValueError):
    """The text is no JSON of a canvas."""


def find_cards(root: int, folders: Iterable[str], path: str) -> dict[str, int | None]:
    """Return how many cards show the note, by the path of their canvas; None: it is not readable, and names the note."""
    found: dict[str, int | None] = {}
    for folder in folders:
        if is_in_trash(folder):
            continue
        with suppress(OSError):
            here = open_folder(root, folder.split("/") if folder else [], exact=False)
            try:
                with os.scandir(here) as entries:
                    names = [one.name for one in entries if one.name.endswith(CANVAS)]
                counts = {name: _count(here, name, path) for name in names}
            finally:
                os.close(here)
            found |= {
                f"{folder}/{name}".removeprefix("/"): count
                for name, count in counts.items()
                if count != 0
            }
    return found


def read_targets(root: int, files: Iterable[str]) -> dict[str, list[str]]:
    """Return what each of these files that is a canvas shows, and what its texts link to; of an unreadable one nothing."""
    found: dict[str, list[str]] = {}
    for path in files:
        folder, name = os.path.split(path)
        if not name.endswith(CANVAS):
            continue
        with suppress(OSError, NotANote, NotACanvas):
            parent = open_folder(root, folder.split("/") if folder else [], exact=False)
            try:
                found[path] = targets_of(read_file(parent, name, exact=False).text)
            finally:
                os.close(parent)
    return found


def targets_of(text: str) -> list[str]:
    """Return the targets of a canvas: the paths of its files, from the top, and the links of its texts. Raises ``NotACanvas``."""
    nodes = _nodes(text)
    texts = (one.get("text") for one in nodes if one.get("type") == "text")
    shown = [f"/{path}" for path in _cards(text)]
    return [*shown, *(link for one in texts if isinstance(one, str) for link in find_targets(one))]


def move_cards_in(root: int, canvas: str, old: str, new: str) -> bool | None:
    """Let the cards of a canvas show the note at its new path; False: it is left as it is; None: another try may do it.

    What another program writes meanwhile stays, and its cards follow if there is time.
    """
    folder, name = os.path.split(canvas)
    try:
        parent = open_folder(root, folder.split("/") if folder else [])
        try:
            return any(_move_cards_at(parent, name, old, new) for _ in range(_TRIES)) or None
        finally:
            os.close(parent)
    except (FileNotFoundError, NotANote, NotACanvas):
        return False
    except (OSError, OutcomeUnknown):  # the disk refuses
        return None


def _move_cards_at(parent: int, name: str, old: str, new: str) -> bool:
    """Move cards, unless another program writes at the same moment: what it has written is put back."""
    held = read_file(parent, name)
    data = move_cards(held.text, old, new).encode()
    if data == held.data:
        return True
    with replacing(parent, name, data, held=held, before=lambda: None) as replaced:
        if replaced.displaced.digest == held.digest:
            return True
        replaced.put_back()  # in nobody's hands but ours
    return False


def _count(folder: int, name: str, path: str) -> int | None:
    """Return how many cards of a canvas show the note; None: it cannot be read, and names the note."""
    try:
        file = read_file(folder, name, exact=False)
    except (OSError, NotANote):
        return 0
    try:
        return count_cards(file.text, path)
    except NotACanvas:
        return None if PurePosixPath(path).name in file.text else 0


def count_cards(text: str, path: str) -> int:
    """Return how many cards show the note at a path. Raises ``NotACanvas``."""
    return len(_find_places(text, path))


def move_cards(text: str, old: str, new: str) -> str:
    """Return the text with another path in these cards. Raises ``NotACanvas``."""
    put = json.dumps(new, ensure_ascii=text.isascii() and not old.isascii())
    for start, end in reversed(_find_places(text, old)):
        text = text[:start] + put + text[end:]
    return text


def _find_places(text: str, path: str) -> list[tuple[int, int]]:
    """Return where the paths of these cards stand, with their quotation marks.

    What looks so elsewhere is told apart by a mark in the place of each: a card has it, or nothing that counts.
    """
    _cards(text)
    places = [one.span(1) for one in _FILE.finditer(text) if _is_same(one[1], path)]
    if not places:
        return []
    parts, at = [], 0
    for number, (start, end) in enumerate(places):
        parts += [text[at:start], json.dumps(f"\0{number}")]
        at = end
    marked = set(_cards("".join((*parts, text[at:]))))
    return [place for number, place in enumerate(places) if f"\0{number}" in marked]


def _cards(text: str) -> list[str]:
    files = (one.get("file") for one in _nodes(text) if one.get("type") == "file")
    return [one for one in files if isinstance(one, str)]


def _nodes(text: str) -> list[dict[str, Any]]:
    if not text.strip("\ufeff \t\r\n"):
        return []  # as Obsidian makes a new one
    try:
        canvas = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        raise NotACanvas from None
    nodes = canvas.get("nodes", []) if isinstance(canvas, dict) else None
    if not isinstance(nodes, list):
        raise NotACanvas
    return [one for one in nodes if isinstance(one, dict)]


def _is_same(written: str, path: str) -> bool:
    try:
        said = str(json.loads(written))
    except ValueError:
        return False
    return unicodedata.normalize("NFC", said) == unicodedata.normalize("NFC", path)
