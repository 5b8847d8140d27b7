"""Find what names a note in a vault's canvases, and let it name the note by another path.

A canvas is JSON: in ``nodes``, a card of the type ``file`` names the path of its file from the top of the vault, and one
of the type ``text`` has Markdown with links. Only the characters of these paths and targets change.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.markup.obsidian_links import Changes, Link, find_edits, find_links
from mcp_notarium.stores.vault.file_writer import CANVAS, read_file, replacing
from mcp_notarium.stores.vault.folder import Evicted, InUse, NotANote, open_folder
from mcp_notarium.stores.vault.paths import folder_parts, is_in_trash
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor

_TRIES = 3
_VALUES = {
    key: re.compile(rf'"{key}"\s*:\s*("(?:[^"\\]|\\.)*+")', re.DOTALL) for key in ("file", "text")
}
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
"""One character of a string as JSON writes it."""


class NotACanvas(ValueError):
    """Report that the text is no JSON of a canvas."""


def find_cards(root: int, folders: Iterable[str], path: str) -> dict[str, int | None]:
    """Return how many cards show the note, by the path of their canvas; None: it names the note, and is no canvas, or cannot be read now.

    Raises ``OSError`` for a folder that the disk does not list.
    """
    found: dict[str, int | None] = {}
    for folder in folders:
        if is_in_trash(folder):
            continue
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            with closing_descriptor(open_folder(root, folder_parts(folder), exact=False)) as here:
                with SYSTEM.scan(here) as entries:
                    names = [one.name for one in entries if one.name.endswith(CANVAS)]
                counts = {name: _count(here, name, path) for name in names}
            found |= {
                f"{folder}/{name}".removeprefix("/"): count
                for name, count in counts.items()
                if count != 0
            }
    return found


def read_links(root: int, files: Iterable[str]) -> dict[str, tuple[list[str], list[Link]]]:
    """Return which files each of these that is a canvas shows, and the links of its texts; of an unreadable one nothing."""
    found: dict[str, tuple[list[str], list[Link]]] = {}
    for path in files:
        folder, name = os.path.split(path)
        if not name.endswith(CANVAS):
            continue
        with (
            suppress(OSError, NotANote, NotACanvas),
            closing_descriptor(open_folder(root, folder_parts(folder), exact=False)) as parent,
        ):
            text = read_file(parent, name, exact=False).text
            found[path] = _values(text, "file"), links_of(text)
    return found


def links_of(text: str) -> list[Link]:
    """Return the links in the texts of a canvas, each as often as it stands there. Raises ``NotACanvas``."""
    return [link.link for one in _values(text, "text") for link in find_links(one)]


def move_cards_in(
    root: int, canvas: str, old: str, new: str, links: Changes = MappingProxyType({})
) -> bool | None:
    """Let the cards of a canvas show the note at its new path; False: it is left as it is; None: another try may do it.

    ``links``: what links in its texts become. What another program writes meanwhile stays, and its cards follow if there is time.
    """
    folder, name = os.path.split(canvas)
    try:
        with closing_descriptor(open_folder(root, folder_parts(folder))) as parent:
            return any(_move_cards_at(parent, name, old, new, links) for _ in range(_TRIES)) or None
    except (FileNotFoundError, NotACanvas):
        return False
    except (OSError, OutcomeUnknown, Evicted):  # the disk refuses
        return None
    except NotANote:
        return False


def _move_cards_at(parent: int, name: str, old: str, new: str, links: Changes) -> bool:
    """Move cards, unless another program writes at the same moment: what it has written is put back."""
    held = read_file(parent, name)
    if SYSTEM.is_read_only(parent, name):
        raise NotACanvas
    data = move_cards(held.text, old, new, links).encode()
    if data == held.data:
        return True
    with (
        suppress(FileExistsError),
        replacing(parent, name, data, held=held, before=lambda: None) as replaced,
    ):
        if replaced.displaced.digest == held.digest:
            return True
        replaced.put_back()  # in nobody's hands but ours
    return False


def _count(folder: int, name: str, path: str) -> int | None:
    """Return how many cards of a canvas show the note; None: see :func:`find_cards`."""
    try:
        file = read_file(folder, name, exact=False)
    except InUse:
        return None
    except (OSError, NotANote):
        return 0
    try:
        return count_cards(file.text, path)
    except NotACanvas:
        return None if PurePosixPath(path).name in file.text else 0


def count_cards(text: str, path: str) -> int:
    """Return how many cards show the note at a path. Raises ``NotACanvas``."""
    return len(_find_places(text, "file", lambda said: _is_same(said, path)))


def move_cards(text: str, old: str, new: str, links: Changes = MappingProxyType({})) -> str:
    """Return the text with another path in these cards, and other targets in these links. Raises ``NotACanvas``."""
    put = json.dumps(new, ensure_ascii=text.isascii() and not old.isascii())
    places = _find_places(text, "file", lambda said: _is_same(said, old))
    edits = [(start, end, put) for start, end in places]
    if links:
        cards = _find_places(text, "text", lambda said: any(find_edits(said, links)))
        edits += [edit for start, end in cards for edit in _edit_links(text, start, end, links)]
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _edit_links(text: str, start: int, end: int, links: Changes) -> Iterator[tuple[int, int, str]]:
    """Yield what changes in the string of a card, which stands between its quotation marks as JSON writes it."""
    written = [*_CHARACTER.finditer(text, start + 1, end - 1)]
    at = [*(one.start() for one in written), end - 1]
    said = json.loads(text[start:end])
    for first, last, target in find_edits(said, links):
        ascii_only = text.isascii() and not said[first:last].isascii()
        yield at[first], at[last], json.dumps(target, ensure_ascii=ascii_only)[1:-1]


def _find_places(text: str, key: str, wanted: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return where the wanted values of cards of a type stand, with their quotation marks.

    What looks so elsewhere is told apart by a mark in the place of each: a card has it, or nothing that counts.
    """
    _nodes(text)
    found = (one.span(1) for one in _VALUES[key].finditer(text))
    places = [(start, end) for start, end in found if wanted(_read(text[start:end]))]
    if not places:
        return []
    parts, at = [], 0
    for number, (start, end) in enumerate(places):
        parts += [text[at:start], json.dumps(f"\0{number}")]
        at = end
    marked = set(_values("".join((*parts, text[at:])), key))
    return [place for number, place in enumerate(places) if f"\0{number}" in marked]


def _values(text: str, key: str) -> list[str]:
    """Return the paths of the cards that are files, or what those say that are texts: ``key`` is their type."""
    found = (one.get(key) for one in _nodes(text) if one.get("type") == key)
    return [one for one in found if isinstance(one, str)]


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


def _read(written: str) -> str:
    try:
        return str(json.loads(written))
    except ValueError:
        return ""


def _is_same(said: str, path: str) -> bool:
    return unicodedata.normalize("NFC", said) == unicodedata.normalize("NFC", path)
