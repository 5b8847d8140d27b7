"""Finding one note by its id: in the cache, and during the first sync at the note service itself.

Never by anything else: an id that is not known is an error, not a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_notarium.errors import (
    BackendTimeout,
    BackendUnavailable,
    InvalidRequest,
    NoteNotFound,
    VersionConflict,
)
from mcp_notarium.notes.note import Note

if TYPE_CHECKING:
    from mcp_notarium.app import App

_ID_SHOWN = 80


async def find_note(app: App, note_id: str) -> Note:
    """The note with this id. Raises ``NoteNotFound``, or what the note service answers."""
    note = app.cache.notes.get(note_id)
    if note is None and not app.driver.status().complete:
        note = await _fetch(app, note_id)
    if note is None:
        raise NoteNotFound("There is no note with this id.", details={"id": note_id[:_ID_SHOWN]})
    return note


async def _fetch(app: App, note_id: str) -> Note | None:
    """Bring a note the first sync has not reached yet into the cache."""
    try:
        revision = await app.backend.get(note_id)
    except NoteNotFound:
        return None  # told in the same words as of one that may not be seen
    except (BackendUnavailable, BackendTimeout) as error:
        error.resolution_hint = (
            "The first sync has not brought this note yet. Read notes that `list` shows, or try "
            "again when the note service can be reached."
        )
        raise
    if app.cache.notes.get(note_id) is None:  # the sync may have stored a newer one meanwhile
        with app.cache.database.transaction():
            app.cache.notes.apply([revision])
    return app.cache.notes.get(note_id)


async def find_at_version(app: App, note_id: str, version: int | None) -> Note:
    """The note a change is meant for. Raises ``VersionConflict`` if it is at another version."""
    if version is None:
        raise InvalidRequest(
            "`local_version` is required with `id`.",
            resolution_hint="Call `get` with this id and use the `local_version` it returns.",
        )
    note = await find_note(app, note_id)
    if note.local_version != version:
        raise VersionConflict(
            f"The note is at local_version {note.local_version}, not {version}.",
            details=versions_of(note),
        )
    return note


def versions_of(note: Note) -> dict[str, str | int | None]:
    """What an error tells about a note's versions."""
    return {
        "id": note.id,
        "current_local_version": note.local_version,
        "current_server_version": note.server_version,
    }
