"""Keep the files of the notebook's notes in tables of the account's database.

A file is named by its note and its name there, ``1a2b3c4d/plan.png``, and a link in a text has that as its target. The bytes of each digest
are stored once. A file goes with its note when that is deleted for good.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from urllib.parse import quote

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.file_names import PICTURES, numbered
from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NoteNotFound, NoteUnreadable, StoreRejected
from mcp_notarium.markup.obsidian_links import find_targets
from mcp_notarium.stores.context import LentDatabase
from mcp_notarium.stores.extensions import Attachment, KeptFile, Restored, Room

LARGEST = 20 * 1024 * 1024
LARGEST_NOTE = 100 * 1024 * 1024
"""Bytes of all files of one note."""
LARGEST_NOTEBOOK = 1024 * 1024 * 1024
"""Bytes of all files, each digest once."""
PART = 64 * 1024
_MOST_NAMES = 1000
_KEPT_DISCARDED = 90 * 86_400.0
"""Seconds for which a file that an undo has taken can come back, unless its room is needed."""


class NoteFiles:
    """Hold the files of one notebook. Every method joins the caller's transaction."""

    def __init__(self, database: LentDatabase) -> None:
        self._db = database

    def list_shown(self, revision: Revision) -> list[Attachment]:
        """Return the files to which the text of a note links, also those of other notes."""
        found: dict[str, Attachment] = {}
        for target in find_targets(revision.content.text):
            note_id, _, name = target.partition("/")
            row = self._db.row(_FACTS, (note_id, name)) if name and target not in found else None
            if row is not None:
                found[target] = Attachment(target, row[0], row[1], int(row[2]))
        return [*found.values()]

    def read(self, file_id: str, *, largest: int) -> bytes | None:
        """Return the bytes; None if there are more. Raises ``NoteNotFound``, and ``NoteUnreadable`` for damaged ones."""
        note_id, _, name = file_id.partition("/")
        row = self._db.row(_STORED, (note_id, name))
        if row is None or row[2] is not None:
            raise NoteNotFound("no such file in the notebook", details={"id": file_id})
        if row[1] > largest:
            return None
        data = b"".join(one for (one,) in self._db.rows(_PARTS, (row[0],)))
        if hashlib.sha256(data).hexdigest() != row[0]:  # defence: damaged-file-not-shown =False
            raise NoteUnreadable("this file is damaged in the notebook")
        return data

    def keep(
        self, revision: Revision, name: str, kind: str, data: bytes, *, largest: int
    ) -> KeptFile:
        """See ``KeepingStore.keep_file``."""
        if len(data) > largest:
            raise _too_large("a file", largest)
        digest, now = hashlib.sha256(data).hexdigest(), time.time()
        self._drop_discarded(before=now - _KEPT_DISCARDED)
        free, held = self._find_name(revision.id, name, digest)
        made = held is None or held[2] is not None
        if made:
            self._require_room(revision.id, digest, len(data))
            self._db.run(_PUT_FILE, (revision.id, free, kind, digest, len(data), now))
            self._put_bytes(digest, data)
        file_id = f"{revision.id}/{free}"
        embeds = "!" if kind in PICTURES or kind.startswith("image/") else ""
        return KeptFile(file_id, f"{embeds}[{free}]({quote(file_id)})", made)

    def _find_name(
        self, note_id: str, name: str, digest: str
    ) -> tuple[str, Sequence[object] | None]:
        """Return a name of the note that is free in any letter case, or that a file of these bytes has."""
        rows = {str(one): row for one, *row in self._db.rows(_NAMED, (note_id,))}
        alike: dict[str, list[str]] = {}
        for one in rows:
            alike.setdefault(tag_key(one), []).append(one)
        for number in range(1, _MOST_NAMES):
            free = numbered(name, number)
            taken = alike.get(tag_key(free), ())  # defence: case-alone-same-file tag_key()
            if not taken:
                return free, None
            if (same := next((one for one in taken if rows[one][0] == digest), None)) is not None:
                return same, rows[same]
        raise StoreRejected("the note has too many files of this name", resolution_hint=_RENAME)

    def find_room(self) -> Room:
        """See ``KeepingStore.find_room``."""
        return Room(LARGEST_NOTE, LARGEST_NOTEBOOK - self._db.number(_SIZE_KEPT))

    def _require_room(self, note_id: str, digest: str, size: int) -> None:
        """Raise ``StoreRejected`` if the note or the notebook would have too much. Files that an undo has taken make room."""
        if self._db.number(_SIZE_OF_NOTE, (note_id,)) + size > LARGEST_NOTE:
            raise _too_large("the files of a note", LARGEST_NOTE)
        if self._db.row("SELECT 1 FROM notebook_file_parts WHERE digest = ?", (digest,)):
            return
        if self._db.number(_SIZE) + size > LARGEST_NOTEBOOK:
            self._drop_discarded(before=time.time() + 1)
        if self._db.number(_SIZE) + size > LARGEST_NOTEBOOK:
            raise _too_large("the files of a notebook", LARGEST_NOTEBOOK)

    def _put_bytes(self, digest: str, data: bytes) -> None:
        for part, at in enumerate(range(0, len(data), PART)):
            self._db.run(_PUT_PART, (digest, part, data[at : at + PART]))

    def discard(self, file_id: str, digest: str) -> bool:
        """See ``KeepingStore.discard_file``. The bytes stay for a while."""
        note_id, _, name = file_id.partition("/")
        held = self._db.row(_STORED, (note_id, name))
        if held is None or held[2] is not None:
            raise NoteNotFound("no such file in the notebook", details={"id": file_id})
        return bool(self._db.run(_DISCARD, (time.time(), note_id, name, digest)))

    def restore(self, file_id: str, digest: str) -> Restored:
        """See ``KeepingStore.restore_file``."""
        note_id, _, name = file_id.partition("/")
        if self._db.run(_RESTORE, (note_id, name, digest)):
            return Restored.BACK
        held = self._db.row(_STORED, (note_id, name))
        return Restored.THERE if held is not None and held[0] == digest else Restored.LOST

    def drop_note(self, note_id: str) -> None:
        """Remove the files of a note that is deleted for good."""
        self._db.run("DELETE FROM notebook_files WHERE note_id = ?", (note_id,))
        self._drop_unused()

    def _drop_discarded(self, *, before: float) -> None:
        if self._db.run("DELETE FROM notebook_files WHERE discarded_at < ?", (before,)):
            self._drop_unused()

    def _drop_unused(self) -> None:
        self._db.run(_DROP_UNUSED)


def _too_large(what: str, most: int) -> StoreRejected:
    return StoreRejected(
        f"{what} in the notebook may have {most // 1024 // 1024} MiB; nothing was kept",
        subcategory="too_large",
        resolution_hint="Give a smaller file, or ask the user to delete notes with large files for good.",
    )


_RENAME = "Give the file another name."
_FACTS = "SELECT kind, size, kept_at FROM notebook_files WHERE note_id = ? AND name = ? AND discarded_at IS NULL"
_STORED = "SELECT digest, size, discarded_at FROM notebook_files WHERE note_id = ? AND name = ?"
_NAMED = "SELECT name, digest, size, discarded_at FROM notebook_files WHERE note_id = ?"
_PARTS = "SELECT data FROM notebook_file_parts WHERE digest = ? ORDER BY part"
_PUT_FILE = "INSERT OR REPLACE INTO notebook_files VALUES (?, ?, ?, ?, ?, ?, NULL)"
_PUT_PART = "INSERT OR REPLACE INTO notebook_file_parts VALUES (?, ?, ?)"
_SIZE_OF_NOTE = (
    "SELECT coalesce(sum(size), 0) FROM notebook_files WHERE note_id = ? AND discarded_at IS NULL"
)
_SIZE = "SELECT coalesce(sum(size), 0) FROM (SELECT size FROM notebook_files GROUP BY digest)"
_SIZE_KEPT = "SELECT coalesce(sum(size), 0) FROM (SELECT size FROM notebook_files GROUP BY digest HAVING max(discarded_at IS NULL))"
_DISCARD = """
UPDATE notebook_files SET discarded_at = ? WHERE note_id = ? AND name = ? AND digest = ? AND discarded_at IS NULL
"""
_RESTORE = "UPDATE notebook_files SET discarded_at = NULL WHERE note_id = ? AND name = ? AND digest = ? AND discarded_at IS NOT NULL"
_DROP_UNUSED = (
    "DELETE FROM notebook_file_parts WHERE digest NOT IN (SELECT digest FROM notebook_files)"
)
