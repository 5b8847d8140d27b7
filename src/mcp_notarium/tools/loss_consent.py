"""Ask the user before a change takes away what nothing can bring back, and delete a note for good.

``domain/loss`` decides what that is. Every path that changes or removes a note asks here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.errors import VersionConflict
from mcp_notarium.markup.obsidian_links import rewrite_links
from mcp_notarium.tools.call_context import CallContext, name_note, require_consent

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.loss import Loss
    from mcp_notarium.domain.note import Content, Note
    from mcp_notarium.markup.obsidian_links import Changes


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
        app.config.policy.require_irreversible()  # defence: write-mode-no-deletion
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


_ATTEMPTS = 3


async def remove_note(
    app: App, key: str, call: CallContext, find: Callable[[], Awaitable[Note]], *, asks: bool
) -> Note:
    """Delete the note that ``find`` returns each time, and return it.

    ``key``: as for ``Library.writing``. ``asks``: the user is asked also about a note that can be brought back. Raises
    ``VersionConflict`` if the answer was about another state of the note, or it cannot be brought back any more.
    """
    agreed = await find()
    loss = await find_loss(app, agreed, None)
    if asks or loss is not None:
        app.usage_limits.require_write()
        name = name_note(app, agreed.title or agreed.text, note_id=agreed.id)
        kept = f"For {app.config.version_days} days `restore_version` can bring it back."
        back = kept if loss is None else f"It cannot be brought back: {loss.why}."
        # defence: delete-for-good-asks
        await require_consent(call, f"Delete the {name} for good? {back}")
    for attempt in range(1, _ATTEMPTS + 1):
        async with app.library.writing(key):
            note = await find()
            # defence: delete-what-was-agreed
            if loss is None and await find_loss(app, note, None) is not None:
                raise VersionConflict(
                    "The note cannot be brought back any more; nothing was deleted.",
                    details={"id": note.id},
                    resolution_hint="Delete it again if it is still to go: then the user is asked about that.",
                )
            if loss is not None and note != agreed:
                raise VersionConflict(
                    "The note has changed just now; nothing was deleted.",
                    details={"id": note.id},
                    resolution_hint="Read it again, and delete it if the user still wants that.",
                )
            try:
                with app.usage_limits.write():
                    await app.library.remove(note, act=call.act, keeps=loss is None)
            except VersionConflict:  # another program has changed it at this moment
                if attempt == _ATTEMPTS:
                    raise
            else:
                return note
    raise AssertionError("the last attempt returns or raises")
