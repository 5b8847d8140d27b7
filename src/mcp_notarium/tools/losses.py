"""Ask the user before a change takes away what nothing can bring back.

``domain/way_back`` decides what that is. Every path that changes or removes a note asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.link_rewriting import rewrite_links
from mcp_notarium.tools.call_context import name_note

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.link_rewriting import Changes
    from mcp_notarium.domain.note import Content, Note
    from mcp_notarium.domain.way_back import Loss


async def find_loss(
    app: App, note: Note, content: Content | None, *, after: int = 0
) -> Loss | None:
    """Return what is lost for good if the note becomes ``content`` (None: is removed); None if nothing is.

    ``after``: the room of the versions that the same change needs before. Raises ``NotPermitted`` if the policy
    forbids that.
    """
    if content is None:
        loss = await app.library.find_removal_loss(note, now=app.clock())
    else:
        loss = await app.library.find_loss(note, content, now=app.clock(), after=after)
    if loss is not None:
        app.config.policy.require_irreversible()
    return loss


async def find_questions(
    app: App, note: Note, content: Content, *, links: Mapping[str, Changes]
) -> tuple[str, ...]:
    """Return what a person has to be asked before the note becomes ``content``, and links in other notes change.

    Raises ``NotPermitted`` if the policy forbids that.
    """
    asks = []
    if (loss := await find_loss(app, note, content)) is not None:
        name = name_note(app, note.title or note.text, note_id=note.id)
        gone = f"What this replaces ({', '.join(loss.parts)}) cannot be brought back: {loss.why}."
        asks.append(f"Change the {name}? {gone}")
    others, room = 0, app.library.version_size(note)
    for note_id, changes in links.items():
        if (other := app.library.get(note_id)) is not None:
            relinked = replace(other.content, text=rewrite_links(other.text, changes))
            others += await find_loss(app, other, relinked, after=room) is not None
            room += app.library.version_size(other)
    if others:
        notes = "1 other note" if others == 1 else f"{others} other notes"
        asks.append(f"Change links in {notes}? What they were cannot be brought back.")
    return tuple(asks)
