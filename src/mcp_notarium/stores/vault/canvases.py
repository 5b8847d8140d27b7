"""Read and change the canvases of a vault: files of cards, some of which show notes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from mcp_notarium.domain.canvas_cards import NotACanvas, count_cards, move_cards
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.stores.vault.folder import NotANote, open_folder
from mcp_notarium.stores.vault.paths import TRASH
from mcp_notarium.stores.vault.writing import flush, read_file, replace_file

_ENDING = ".canvas"
_TRIES = 3


def find_cards(root: int, folders: Iterable[str], path: str) -> dict[str, int | None]:
    """Return how many cards show the note, by the path of their canvas; None: it is not readable, and names the note."""
    found: dict[str, int | None] = {}
    for folder in folders:
        if folder == TRASH or folder.startswith(f"{TRASH}/"):
            continue
        with suppress(OSError):
            here = open_folder(root, folder.split("/") if folder else [], exact=False)
            try:
                with os.scandir(here) as entries:
                    names = [one.name for one in entries if one.name.endswith(_ENDING)]
                counts = {name: _count(here, name, path) for name in names}
            finally:
                os.close(here)
            found |= {
                f"{folder}/{name}".removeprefix("/"): count
                for name, count in counts.items()
                if count != 0
            }
    return found


def move_cards_in(root: int, canvas: str, old: str, new: str) -> bool:
    """Let the cards of a canvas show the note at its new path; False: it is left as it is.

    What another program writes meanwhile is kept, with its cards changed.
    """
    folder, name = os.path.split(canvas)
    with suppress(OSError, NotANote, NotACanvas, OutcomeUnknown):
        parent = open_folder(root, folder.split("/") if folder else [])
        try:
            held = read_file(parent, name)
            text = held.text
            for _ in range(_TRIES):
                data = move_cards(text, old, new).encode()
                if data == held.data:
                    return True
                written, displaced, _ = replace_file(
                    parent, name, data, held=held, before=lambda: None
                )
                if displaced.digest == held.digest:
                    flush(parent)
                    return True
                held, text = written, displaced.text
        finally:
            os.close(parent)
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
