"""Give notes another place in a store that has notes below notes: for ``manage change``, ``move_folder`` and ``undo``.

What a note becomes there is asked of the store before anything is drafted, for labels may come with the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Content, Note
    from mcp_notarium.library.history import Version
    from mcp_notarium.stores.extensions import TreePlace, TreeReads


async def find_place(app: App, folder: str | None) -> TreePlace | None:
    """Return the note below which notes are to stand; None if none is named. Raises ``InvalidRequest``."""
    return None if folder is None else await _reads(app).find_place(folder)


async def moved(app: App, note: Note, content: Content, place: TreePlace) -> Content:
    """Return what a note becomes that comes to stand below another. Raises ``NoteLeft``, ``VersionConflict``."""
    return await _reads(app).moved(note, content, place, strict=_is_strict(app)) or content


async def moved_back(app: App, note: Note, content: Content, old: Version) -> Content:
    """Return what an undo makes of a note, where it stood before its last save. Raises as :func:`moved`, and ``InvalidRequest``."""
    move = app.library.history.find_move(note.id, old)
    if not move:
        return content
    return await _reads(app).moved_back(note, content, move, strict=_is_strict(app))


def _is_strict(app: App) -> bool:
    policy = app.config.policy
    return policy.visibility.has_rules or policy.writing.has_rules


def _reads(app: App) -> TreeReads:
    return cast("TreeReads", app.library.native)  # its trait says so
