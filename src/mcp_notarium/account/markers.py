"""Read and write the marker files of an account: no pending writes, damage found.

``nothing_pending.json`` says that no unfinished write is inside one generation. A database that cannot
be read cannot be asked whether somebody's text is still in it. The file is there only while it is
certain that nothing is pending; missing, unreadable or of another generation means "there may be".
Remove it inside the transaction that records a journal entry, before that commits; set it in a
transaction that has seen that none is left. Both take the database's write lock, so that no other
process can set it in between.

``damage_met.json`` says that the database turned out to be damaged while it was open. A start looks at
a few pages only; where this file lies it looks at all of them, so that the next process knows of damage
that one has met. Its content does not matter: the examination decides. The file goes when that finds
nothing wrong, or with the old files into the quarantine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from mcp_notarium.crypto import canonical_json
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.errors import CacheError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import disk_errors, read_private, replace_private, sync_folder
from mcp_notarium.keys.key_file_store import KeyFiles
from mcp_notarium.storage.database_opener import Database

_DAMAGED = canonical_json.encode({"format": "mcp-notarium-damage-met", "version": 1})
_FORMAT = "mcp-notarium-nothing-pending"
_MAX_BYTES = 512


@dataclass(frozen=True, slots=True)
class PendingMarker:
    """Hold the marker "nothing pending" of one generation ('' is the plain database)."""

    folder: AccountFolder
    generation: str

    def is_set(self) -> bool:
        """Check whether it is certain that no unfinished write is inside."""
        try:
            raw = read_private(self.folder.pending_marker, most=_MAX_BYTES)
        except OSError:
            return False
        return raw == self._content()

    def remove(self) -> None:
        """Remove the marker: there may be an unfinished write from now on. Durable when it returns.

        Raises ``CacheFull`` or ``LockedError``: then the entry must not be recorded either.
        """
        with disk_errors("the marker of pending writes cannot be removed"):
            try:
                self.folder.pending_marker.unlink()
            except FileNotFoundError:
                return
            sync_folder(self.folder.path)

    def set_if_empty(self, database: Database) -> None:
        """Set the marker if the database holds no journal entry.

        Never raises ``CacheError`` or ``OSError``: a missing marker does no harm. Opens a transaction
        of its own (``RuntimeError`` inside another).
        """
        if self.is_set():
            return
        with suppress(CacheError, OSError), database.transaction(durable=True):
            if not database.number("SELECT count(*) FROM pending_writes"):
                replace_private(self.folder.pending_marker, self._content())

    def _content(self) -> bytes:
        return canonical_json.encode(
            {"format": _FORMAT, "generation": self.generation, "version": 1}
        )


def nothing_pending(folder: AccountFolder, files: KeyFiles, *, plain: bool) -> bool:
    """Check whether no write is pending in anything that a rebuild would move; False if that is uncertain."""
    marked = marked_generation(folder)
    if marked is None:
        return False
    if plain:
        return marked == ""
    concerned = set(folder.generations())
    if files.prepared.keyfile is not None:
        concerned.discard(files.prepared.keyfile.generation)
    if files.valid is not None:
        concerned.add(files.valid.generation)
    return concerned <= {marked}


def marked_generation(folder: AccountFolder) -> str | None:
    """Return the generation that the marker speaks about, or None."""
    try:
        raw = read_private(folder.pending_marker, most=_MAX_BYTES)
        found = canonical_json.decode(raw or b"").get("generation")
    except (OSError, KeyFileDamaged):
        return None
    if not isinstance(found, str) or not PendingMarker(folder, found).is_set():
        return None
    return found


def is_damage_marked(folder: AccountFolder) -> bool:
    """Check whether damage was met since the whole cache was last checked."""
    return os.path.lexists(folder.damage_marker)


def mark_damage(folder: AccountFolder) -> None:
    """Write the damage marker; durable when it returns. Never raises for the disk's sake."""
    if not is_damage_marked(folder):
        with suppress(OSError):
            replace_private(folder.damage_marker, _DAMAGED)


def clear_damage_marker(folder: AccountFolder) -> None:
    """Remove the damage marker: the cache in force is undamaged.

    Never raises for the disk's sake: a marker that stays costs one examination.
    """
    if is_damage_marked(folder):
        with suppress(OSError):
            folder.damage_marker.unlink(missing_ok=True)
            sync_folder(folder.path)
