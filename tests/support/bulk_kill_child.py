"""A whole server that kills itself between the notes of a change of many: ``python bulk_kill_child.py PLACE``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.__main__ import main
from mcp_notarium.storage.change_records import ChangeRecords
from mcp_notarium.stores.vault import canvases, file_writer, note_writer, store
from mcp_notarium.sync.journal import Journal
from support.canvas_kill_child import dying

PLACES: dict[str, tuple[Any, str, str, int]] = {
    "before it is named": (ChangeRecords, "begin_change", "before", 1),
    "named": (ChangeRecords, "begin_change", "after", 1),
    "the second is recorded": (Journal, "record", "after", 2),
    "before the second file has its name": (file_writer, "rename_file", "before", 2),
    "the second file has its name": (file_writer, "rename_file", "after", 2),
    **{f"before answer {n} is stored": (Journal, "finish", "before", n) for n in range(1, 6)},
    "the last answer is stored": (Journal, "finish", "after", 5),
    "before it is ended": (ChangeRecords, "end_change", "before", 1),
    "ended": (ChangeRecords, "end_change", "after", 1),
}
"""A function of the server, and whether it dies before or after which call of it."""
PLACES_OF_FOLDERS: dict[str, tuple[Any, str, str, int]] = {
    "the second note has its name": (file_writer, "rename_file", "after", 2),
    **{f"before answer {n} is stored": (Journal, "finish", "before", n) for n in range(1, 5)},
    "before the files are named": (ChangeRecords, "keep_moved_files", "before", 1),
    "the files are named": (ChangeRecords, "keep_moved_files", "after", 1),
    "before the first file moves": (store, "move_other_file", "before", 1),
    "between two files": (store, "move_other_file", "after", 1),
    "all files are there": (store, "move_other_file", "after", 2),
    "before cards follow a file": (canvases, "move_cards_in", "before", 2),
    "before the folder goes": (store, "remove_empty_folders", "before", 1),
    "before it is ended": (ChangeRecords, "end_change", "before", 1),
}
"""The same for a folder that moves."""


if __name__ == "__main__":
    assert note_writer.file_writer is file_writer
    owner, name, when, count = (PLACES | PLACES_OF_FOLDERS)[sys.argv.pop(1)]
    setattr(owner, name, dying(getattr(owner, name), when, [count]))
    sys.exit(main())
