"""Act as another device of the same account: it sees the true state, and its edits are remote.

It reads and writes the buckets directly, past HTTP and past all faults. Reads return copies.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from notarium_devtools.simperium.objects import Refused
from notarium_devtools.simperium.store import Bucket

NAME = "another-device"


def whole_note(fields: Mapping[str, Any], *, now: float) -> dict[str, Any]:
    """Return a note object with every field a client fills in; ``now`` in epoch seconds."""
    empty = {
        "content": "",
        "tags": [],
        "systemTags": [],
        "creationDate": now,
        "modificationDate": now,
        "deleted": False,
        "shareURL": "",
        "publishURL": "",
    }
    return {**empty, **fields}


class Device:
    """Read and edit the notes of one account as another device does."""

    def __init__(self, notes: Bucket, clock: Callable[[], float]) -> None:
        self._notes = notes
        self._now = clock

    def note(self, note_id: str) -> dict[str, Any]:
        """Return the newest object. Raises ``KeyError``."""
        try:
            stored = self._notes.read(note_id)
        except Refused:
            raise KeyError(note_id) from None
        return dict(copy.deepcopy(stored.value))

    def notes(self) -> dict[str, dict[str, Any]]:
        """Return every object by id, the trashed ones included."""
        return {key: dict(copy.deepcopy(s.value)) for key, s in self._notes.all().items()}

    def version(self, note_id: str) -> int:
        """Return the newest version number. Raises ``KeyError``."""
        try:
            return self._notes.read(note_id).version
        except Refused:
            raise KeyError(note_id) from None

    def put(self, note_id: str, whole: Mapping[str, Any] | None = None, /, **fields: Any) -> int:
        """Store ``whole`` exactly as it is, or set ``fields`` of a new or existing note.

        Nothing is checked. With fields the modification date becomes now, if it is not among
        them. Returns the version.
        """
        if whole is not None:
            return self._store(note_id, {**whole, **fields})
        now = self._now()
        dated = {"modificationDate": now, **fields}
        if note_id not in self._notes:
            return self._store(note_id, whole_note(dated, now=now))
        return self._store(note_id, {**self._notes.read(note_id).value, **dated})

    def edit(
        self,
        note_id: str,
        *,
        content: str | None = None,
        tags: list[str] | None = None,
        base: int | None = None,
        **fields: Any,
    ) -> int:
        """Edit as a client does: from version ``base`` (None: the newest), merged by the service.

        Returns the version; raises ``Refused`` as the service would.
        """
        posted = {"modificationDate": self._now(), **fields}
        if content is not None:
            posted["content"] = content
        if tags is not None:
            posted["tags"] = tags
        return self._notes.write(note_id, posted, base=base, clientid=NAME).version

    def trash(self, note_id: str) -> int:
        """Move to the trash. Return the version."""
        return self.edit(note_id, deleted=True)

    def delete(self, note_id: str) -> None:
        """Remove permanently, in the trash or not. Raises ``Refused`` 404."""
        self._notes.force_remove(note_id, clientid=NAME)

    def load(
        self, notes: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]
    ) -> list[str]:
        """Fill the account with notes that were always there; return their ids.

        Notes without ids get the same ones every time. The objects are taken over, not copied. The
        change feed does not carry them, and every cursor issued before becomes unknown.
        """
        if not isinstance(notes, Mapping):
            notes = {_nth_id(number): note for number, note in enumerate(notes)}
        ordered = sorted(notes.items(), key=lambda item: _date_of(item[1]))
        self._notes.load(dict(ordered))
        return list(notes)

    def _store(self, note_id: str, value: Mapping[str, Any]) -> int:
        own = copy.deepcopy(dict(value))
        return self._notes.force_write(note_id, own, clientid=NAME).version


def _nth_id(number: int) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"note {number}").hex


def _date_of(note: Mapping[str, Any]) -> float:
    date = note.get("modificationDate")
    return float(date) if isinstance(date, int | float) else 0.0
