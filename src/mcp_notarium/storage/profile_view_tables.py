"""Count and read the kept versions of the notes that a profile sees, and its unfinished writes, as ``profile_view`` shows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.note import Content, PendingWrite
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.version_table import Makers, NoteVersion, Removed, VersionTable, labelled

if TYPE_CHECKING:
    from mcp_notarium.storage.profile_view import ViewCache


@dataclass(frozen=True, slots=True)
class Numbers:
    """Hold how the versions of a note are counted: from which stored number on is how much added, in this order.

    Versions below the first number are not shown.
    """

    parts: tuple[tuple[int, int], ...] = ((0, 0),)
    """Empty while the note is hidden."""

    @property
    def least(self) -> int:
        """Return the lowest stored number that is shown."""
        return self.parts[0][0] if self.parts else _HIGHEST

    def here(self, stored: int) -> int:
        """Return the number that is shown for a stored one."""
        return stored + next((by for first, by in reversed(self.parts) if first <= stored), 0)

    def stored(self, here: int) -> int:
        """Return the stored number for one that is shown."""
        return here - next((by for first, by in reversed(self.parts) if first + by <= here), 0)

    def going_on(self, first: int, shift: int) -> Numbers:
        """Return the same with another shift from this number on."""
        if self.parts and self.parts[-1][1] == shift:
            return self
        return Numbers((*self.parts, (first, shift)))


_HIGHEST = 1 << 62
USUAL = Numbers()
HIDDEN = Numbers(())


class ViewVersions(VersionTable):
    """Read the stored versions of the notes that are seen, counted as these are."""

    def __init__(self, view: ViewCache) -> None:
        stored = view.stored
        super().__init__(stored.database, stored.versions.limits, stored.versions.clock)
        self._view = view

    def of(self, note_id: str) -> list[NoteVersion]:
        """See :meth:`VersionTable.of`."""
        least, numbers = self._find_least(note_id), self._view.numbers_of(note_id)
        rows = [one for one in super().of(note_id) if one.local_version >= least]
        return [replace(one, local_version=numbers.here(one.local_version)) for one in rows]

    def makers(self, note_id: str) -> Makers:
        """See :meth:`VersionTable.makers`."""
        least, numbers = self._find_least(note_id), self._view.numbers_of(note_id)
        return Makers(
            [
                (number and numbers.here(number), made, by)
                for number, made, by in super().makers(note_id).writes
                if number >= least
            ]
        )

    def get(self, note_id: str, number: int) -> tuple[NoteVersion, Content | None] | None:
        """See :meth:`VersionTable.get`."""
        stored = self._view.numbers_of(note_id).stored(number)
        if stored < self._find_least(note_id):
            return None
        found = super().get(note_id, stored)
        return found and (replace(found[0], local_version=number), found[1])

    def native(self, note_id: str, number: int) -> str:
        """See :meth:`VersionTable.native`."""
        return super().native(note_id, self._view.numbers_of(note_id).stored(number))

    def natives_since(self, note_id: str, number: int) -> list[str]:
        """See :meth:`VersionTable.natives_since`."""
        return super().natives_since(note_id, self._view.numbers_of(note_id).stored(number))

    def removed(self, note_id: str) -> list[Removed]:
        """See :meth:`VersionTable.removed`; none while a note of the id is hidden here."""
        return super().removed(note_id) if self._view.stored.notes.etag(note_id) is None else []

    def _find_least(self, note_id: str) -> int:
        """Return the lowest stored number that is shown: it, and all above, were seen."""
        visibility, least = self._view.notes.visibility, self._view.numbers_of(note_id).least
        for number, clear, tags, properties, text in self._db.rows(_LABELS, (note_id, least)):
            content = labelled(tags, properties, text or "")
            if visibility.find_rule_of(note_id, content, clear=bool(clear)) is not None:
                return int(number) + 1
        return least


class ViewJournal(JournalTable):
    """List the unfinished writes of notes that are seen."""

    def __init__(self, view: ViewCache) -> None:
        super().__init__(view.stored.database)
        self._view = view

    def all(self) -> list[PendingWrite]:
        """See :meth:`JournalTable.all`."""
        sees = self._view.notes.visibility.sees
        return [one for one in super().all() if sees(one.note_id, one.content)]


_LABELS = """
SELECT number, tags_understood, tags, properties, text FROM note_versions
WHERE note_id = ? AND number >= ? AND number > 0 ORDER BY number DESC
"""
