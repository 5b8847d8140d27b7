"""Make the errors that tell a caller what became of a write.

Each says whether anything was saved or deleted. None tells a note that the policy hides from a removed one.
"""

from __future__ import annotations

from mcp_notarium.domain.note import Note, PendingWrite
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    OutOfSight,
    StoreError,
    StoreRejected,
    VersionConflict,
)

NOT_SAVED = "nothing was saved"
NOT_REMOVED = "nothing was deleted"
HIDDEN_SINCE = "it would show a note that a rule of the policy hides by now"
_LOOK_AGAIN = "Look again with `get`; delete it by its new `local_version` if it is still to go."


def add_outcome(error: NotariumError, what: str) -> NotariumError:
    """Add to an error's message that nothing was done; ``what`` says it."""
    if what not in error.message:
        error.message = f"{error.message.removesuffix('.')}; {what}"
    return error


def unknown_outcome(
    message: str, write: PendingWrite, *, resolution_hint: str | None = None
) -> OutcomeUnknown:
    """Return the error for a write that stays in the journal."""
    about = {"id": write.note_id, "write_id": write.write_id}
    return OutcomeUnknown(message, details=about, resolution_hint=resolution_hint)


def names_taken_error() -> StoreRejected:
    """Return the error for a new note whose every id is another note's."""
    return StoreRejected(
        "every name for the new note is taken", resolution_hint="Give the note another first line."
    )


def name_taken_error(note_id: str) -> InvalidRequest:
    """Return the error for a new name of a note that cannot be given, because something has it."""
    return InvalidRequest(
        f"something else has that name already; {NOT_SAVED}",
        subcategory="name_taken",
        http_status_code=409,
        details={"id": note_id},
        resolution_hint="Choose another title. A note in the trash keeps its name, and letter case makes no other one.",
    )


def changed_error(note_id: str, note: Note | None, *, removing: bool = False) -> VersionConflict:
    """Return the error for a note that is not as the caller read it; ``note``: as it is now."""
    now = {"current_local_version": note.local_version} if note else {}
    return VersionConflict(
        f"the note was changed elsewhere in the meantime; {NOT_REMOVED if removing else NOT_SAVED}",
        details={"id": note_id} | now,
        resolution_hint=_LOOK_AGAIN if removing else None,
    )


def removed_error(note_id: str, *, renamed: bool = False) -> NoteNotFound:
    """Return the error for a note that is gone, or hidden by now; ``renamed``: or has another name."""
    if renamed:
        return NoteNotFound(
            f"the note is not under its name at the note store, and perhaps under another one; {NOT_SAVED}",
            details={"id": note_id},
            resolution_hint="Look with `get` after the next sync: a renamed note answers to this id, too.",
        )
    return NoteNotFound(
        "the note was removed elsewhere in the meantime; nothing was saved",
        details={"id": note_id},
        resolution_hint="If the text is still wanted, `save` it as a new note: `text` without `id`.",
    )


def out_of_sight_error(note_id: str, *, stored: bool | None) -> OutcomeUnknown:
    """Return the error for a note that went out of sight while it was saved.

    ``stored``: a new note that the store has taken; None: it has taken nothing. Of a change it is not told whether the store has it:
    that would tell a note that the policy hides from a removed one.
    """
    if stored:
        message = (
            "the note was stored, and is not visible here now: "
            "a rule of the policy hides it, or it was removed at once"
        )
    else:
        message = (
            "the note was removed elsewhere while it was saved, or a rule of the policy hides it now; "
            "your change may be stored"
        )
    return (OutOfSight if stored is None else OutcomeUnknown)(
        message,
        details={"id": note_id},
        resolution_hint="Do not save it again by yourself: tell the user, who can look at the note store.",
    )


def gone_error(note_id: str) -> NoteNotFound:
    """Return the error for a note that is not under its id, and perhaps under another one."""
    return NoteNotFound("the note is gone at the note store", details={"id": note_id})


def collision_error(note_id: str, *, refused: bool) -> StoreError:
    """Return the error for a text that the store does not hold; ``refused``: it never will."""
    about = {"id": note_id}
    if refused:
        return StoreRejected(
            "the note was changed elsewhere at the same moment, and the note store refuses what would keep "
            "your text beside that; it is kept here as a rejected write",
            resolution_hint="Tell the user: `mcp-notarium refused` shows the text.",
            details=about,
        )
    return OutcomeUnknown(
        "the note was changed elsewhere at the same moment, and your text is not stored beside that yet",
        details=about,
    )
