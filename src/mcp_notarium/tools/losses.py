"""Ask the user before a change takes away what nothing can bring back.

``domain/way_back`` decides what that is. Every path that changes or removes a note asks here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_notarium.tools.call_context import name_note

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Content, Note
    from mcp_notarium.domain.way_back import Loss


async def find_loss(app: App, note: Note, content: Content | None) -> Loss | None:
    """Return what is lost for good if the note becomes ``content`` (None: is removed); None if nothing is.

    Raises ``NotPermitted`` if the policy forbids that.
    """
    if content is None:
        loss = await app.library.find_removal_loss(note, now=app.clock())
    else:
        loss = await app.library.find_loss(note, content, now=app.clock())
    if loss is not None:
        app.config.policy.require_irreversible()
    return loss


def question(app: App, note: Note, loss: Loss) -> str:
    """Return the question before a change with a loss."""
    name = name_note(app, note.title or note.text, note_id=note.id)
    return f"Change the {name}? What this replaces ({', '.join(loss.parts)}) cannot be brought back: {loss.why}."
