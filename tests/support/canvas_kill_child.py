"""A whole server that kills itself when it comes to a place of a renaming: ``python canvas_kill_child.py PLACE``.

At ``LEAVES`` it lives, and its vault is renamed away before the cards are moved.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_notarium.__main__ import main
from mcp_notarium.storage.sync_state import SyncState
from mcp_notarium.stores.vault import canvases, file_writer, note_writer, store
from mcp_notarium.sync.journal import Journal

PLACES: dict[str, tuple[Any, str, str, int]] = {
    "before it is recorded": (SyncState, "add_card_move", "before", 1),
    "recorded, without the note": (SyncState, "add_card_move", "after", 1),
    "journaled": (Journal, "record", "after", 1),
    "before the file has its name": (file_writer, "rename_file", "before", 1),
    "the file has its name": (file_writer, "rename_file", "after", 1),
    "before the index knows": (Journal, "finish", "before", 1),
    "the index knows": (Journal, "finish", "after", 1),
    "before the first canvas": (canvases, "move_cards_in", "before", 1),
    "before a canvas is replaced": (canvases, "replacing", "before", 1),
    "a canvas is replaced": (canvases, "_move_cards_at", "after", 1),
    "between two canvases": (canvases, "move_cards_in", "before", 2),
    "after the last canvas": (canvases, "move_cards_in", "after", 2),
    "before it is forgotten": (SyncState, "drop_card_move", "before", 1),
    "all is done": (SyncState, "drop_card_move", "after", 1),
}
"""A function of the server, and whether it dies before or after which call of it."""


def dying(function: Callable[..., Any], when: str, left: list[int]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if when == "before" and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*given, **named)
        if when == "after" and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


LEAVES = "the vault leaves"


def away_from(vault: Path) -> Path:
    """Where a vault is that cannot be reached."""
    return vault.with_name(f"{vault.name} away")


def leaving(function: Callable[..., Any]) -> Callable[..., Any]:
    left = [1]

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if left:
            left.pop()
            vault = Path(os.environ["VAULT_PATH"])
            vault.rename(away_from(vault))
        return function(*given, **named)

    return call


if __name__ == "__main__":
    assert store.canvas_files is canvases
    assert note_writer.file_writer is file_writer
    if (place := sys.argv.pop(1)) == LEAVES:
        store.VaultStore.move_cards = leaving(store.VaultStore.move_cards)
    else:
        owner, name, when, number = PLACES[place]
        setattr(owner, name, dying(getattr(owner, name), when, [number]))
    sys.exit(main())
