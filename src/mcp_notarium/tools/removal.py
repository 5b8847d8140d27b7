"""Delete a note for good, once the user has agreed to what cannot be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcp_notarium.errors import VersionConflict
from mcp_notarium.tools.call_context import CallContext, name_note, require_consent
from mcp_notarium.tools.losses import find_loss

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Note

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
        await require_consent(call, f"Delete the {name} for good? {back}")
    for attempt in range(1, _ATTEMPTS + 1):
        async with app.library.writing(key):
            note = await find()
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
