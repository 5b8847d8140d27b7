"""A whole server that kills itself between the notes of a change of many: ``python bulk_kill_child.py PLACE``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.__main__ import main
from mcp_notarium.storage.sync_state import SyncState
from mcp_notarium.stores.vault import file_writer, note_writer
from mcp_notarium.sync.journal import Journal
from support.canvas_kill_child import dying

PLACES: dict[str, tuple[Any, str, str, int]] = {
    "before it is named": (SyncState, "begin_change", "before", 1),
    "named": (SyncState, "begin_change", "after", 1),
    "the second is recorded": (Journal, "record", "after", 2),
    "before the second file has its name": (file_writer, "rename_file", "before", 2),
    "the second file has its name": (file_writer, "rename_file", "after", 2),
    **{f"before answer {n} is stored": (Journal, "finish", "before", n) for n in range(1, 6)},
    "the last answer is stored": (Journal, "finish", "after", 5),
    "before it is ended": (SyncState, "end_change", "before", 1),
    "ended": (SyncState, "end_change", "after", 1),
}
"""A function of the server, and whether it dies before or after which call of it."""


if __name__ == "__main__":
    assert note_writer.file_writer is file_writer
    owner, name, when, count = PLACES[sys.argv.pop(1)]
    setattr(owner, name, dying(getattr(owner, name), when, [count]))
    sys.exit(main())
