"""Record what a change from here leaves for later: for its repetition, its undo, or its end after a kill.

These are rows of ``sync_metadata``, such as the ids of changes of many notes, and the files that calls have kept.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_notarium.storage.database import Database
from mcp_notarium.storage.sync_state import SyncState

_CHANGES = "changes_of_many"
_MOVED_FILES = "moved_files"
_KEPT_FILE = "kept_file."
_LINKING = "linking_files."
_MOST_CHANGES = 8
_Change = tuple[str, str, float, bool]
"""The digest of the request, the id of the change, when, and whether nothing of it is left to do."""
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class KeptFileRow:
    """Hold a file that a call from here has made: its SHA-256, and when it was kept."""

    id: str
    digest: str
    at: float
    discarded: bool = False
    """An undo has taken it."""
    foreign: bool = False
    """Others have put the same bytes there since."""
    leaving: bool = False
    """An undo is about to take it, or has ended before it could."""


class ChangeRecords:
    """Store these rows of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._rows = SyncState(database)

    def begin_change(self, asked: str, *, at: float) -> str:
        """Return the id of a change of many notes; see ``Library.begin_change``. The last few are known."""
        with self._db.transaction():
            known = self._find_change(asked, at)
            change_id = known[1] if known and not known[3] else uuid.uuid4().hex[:16]
            self._put_change((asked, change_id, at, False))
        return change_id

    def end_change(self, asked: str, *, at: float) -> None:
        """Record that a change has nothing left to do."""
        with self._db.transaction():
            if known := self._find_change(asked, at):
                self._put_change((asked, known[1], at, True))

    def find_change(self, asked: str, *, at: float) -> str | None:
        """Return the id of the last change of this kind, done or not, of this day."""
        known = self._find_change(asked, at)
        return known and known[1]

    def keep_moved_files(self, change_id: str, old: str, new: str, files: Sequence[str]) -> None:
        """Keep for the undo which files other than notes go with a folder. The last few changes are kept."""
        with self._db.transaction():
            moves = [one for one in self._moved_files() if one[0] != change_id]
            said = [change_id, old, new, [*files]]
            self._rows.set(_MOVED_FILES, json.dumps([said, *moves][:_MOST_CHANGES]))

    def moved_files(self, change_id: str) -> tuple[str, str, list[str]] | None:
        """Return the folder that a change has moved, its new path, and the files below it; None: it has moved none."""
        found = (one for one in self._moved_files() if one[0] == change_id)
        return next(((one[1], one[2], one[3]) for one in found), None)

    def add_kept_file(self, one: KeptFileRow, *, since: float) -> None:
        """Remember a file that a call from here has made; forget those from before ``since``."""
        said = [one.digest, one.at, one.discarded, one.foreign, one.leaving]
        with self._db.join_or_begin():
            self._db.run(_DROP_OLD_FILES, (since,))
            self._rows.set(f"{_KEPT_FILE}{one.id}", json.dumps(said))

    def kept_files(self) -> list[KeptFileRow]:
        """Return the files that calls from here have made lately."""
        rows = self._db.rows(_ALL_FILES)
        return [KeptFileRow(key.removeprefix(_KEPT_FILE), *json.loads(one)) for key, one in rows]

    def discarded_files(self) -> frozenset[str]:
        """Return the ids of the files that an undo has taken; the store may still have them."""
        return frozenset(one.id for one in self.kept_files() if one.discarded)

    def forget_kept_file(self, file_id: str) -> None:
        """Forget a file: it is not from here any more."""
        self._rows.set(f"{_KEPT_FILE}{file_id}", None)

    def rename_kept_file(self, old: str, new: str) -> None:
        """Remember a file under the id that it has now."""
        if (value := self._rows.get(f"{_KEPT_FILE}{old}")) is not None:
            with self._db.join_or_begin():
                self._rows.set(f"{_KEPT_FILE}{new}", value)
                self._rows.set(f"{_KEPT_FILE}{old}", None)

    def is_linking(self, note_id: str) -> bool:
        """Tell whether an import keeps files of a note, or has, to which its text does not link yet."""
        return self._rows.get(f"{_LINKING}{note_id}") is not None

    def set_linking(self, note_id: str, *, linking: bool) -> None:
        """Record that an import begins or ends to keep files of a note."""
        self._rows.set(f"{_LINKING}{note_id}", "" if linking else None)

    def _find_change(self, asked: str, at: float) -> _Change | None:
        known = (one for one in self._changes() if one[0] == asked and abs(at - one[2]) < _DAY)
        return next(known, None)

    def _put_change(self, change: _Change) -> None:
        others = [one for one in self._changes() if one[0] != change[0]]
        self._rows.set(_CHANGES, json.dumps([change, *others][:_MOST_CHANGES]))

    def _changes(self) -> list[_Change]:
        return [
            (one[0], one[1], one[2], one[3]) for one in json.loads(self._rows.get(_CHANGES) or "[]")
        ]

    def _moved_files(self) -> list[list[Any]]:
        moves: list[list[Any]] = json.loads(self._rows.get(_MOVED_FILES) or "[]")
        return moves


# As in ``sync_state``, no pattern is bound.
_ALL_FILES = "SELECT key, value FROM sync_metadata WHERE key GLOB 'kept_file.*' ORDER BY key"
_DROP_OLD_FILES = (
    "DELETE FROM sync_metadata WHERE key GLOB 'kept_file.*' AND json_extract(value, '$[1]') < ?"
)
