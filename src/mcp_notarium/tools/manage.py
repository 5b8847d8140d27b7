"""Handle ``manage``: trash, restore or remove one note, show statistics, reset the index.

Trashing can be undone and needs no confirmation. Permanent deletion works on trashed notes only; it and
``reset_cache`` need one. Success of a note action means that the store has carried it out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.note import Note
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.tools.call_context import CallContext, require_consent
from mcp_notarium.tools.note_lookup import find_at_version
from mcp_notarium.tools.prompts import name_note
from mcp_notarium.tools.schemas import ManageAnswer, ManageRequest, StatsAnswer
from mcp_notarium.tools.stats import collect_stats

if TYPE_CHECKING:
    from mcp_notarium.app import App

_STATUS = {True: "trashed", False: "untrashed"}


async def handle(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer | StatsAnswer:
    """Carry out the action. Raises ``InvalidRequest`` and what the action raises."""
    match request.action:
        case "get_stats":
            return collect_stats(app)
        case "reset_cache":
            return await _reset(app, call)
        case "trash" | "untrash":
            return await _set_trash(app, request, trash=request.action == "trash")
        case "delete_permanently":
            return await _remove(app, request, call)


async def _find_note(app: App, request: ManageRequest) -> Note:
    """Return the note of the action."""
    if request.id is None:
        raise InvalidRequest(
            f"`{request.action}` needs `id` and `local_version`.",
            resolution_hint="Use `list` to find the note.",
        )
    try:
        return await find_at_version(app, request.id, request.local_version)
    except VersionConflict as error:
        error.resolution_hint = (
            f"Nothing was changed. Read the note again with `get`, and `{request.action}` it with "
            "its new `local_version` only if the user still wants that."
        )
        raise


async def _set_trash(app: App, request: ManageRequest, *, trash: bool) -> ManageAnswer:
    async with app.writer.call():
        note = await _find_note(app, request)
        if note.trash == trash:
            return _trash_answer(
                note, said="The note was in this state already; nothing was written."
            )
        with app.budget.write():
            saved = await app.writer.save(note=note, content=replace(note.content, trash=trash))
    if saved.note.trash != trash:
        where = "in the trash" if saved.note.trash else "not in the trash"
        raise VersionConflict(
            f"The note store did not keep the change: the note is {where}.",
            details={"id": note.id, "local_version": saved.note.local_version},
            resolution_hint="Call `get` with this id and try again with its `local_version`.",
        )
    return _trash_answer(saved.note)


def _trash_answer(note: Note, *, said: str | None = None) -> ManageAnswer:
    return ManageAnswer(
        id=note.id,
        status=_STATUS[note.trash],
        new_local_version=note.local_version,
        new_server_version=note.server_version,
        note=said,
    )


async def _remove(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    note = await _find_note(app, request)
    _check_trashed(note)
    app.budget.require_write()
    name = name_note(app, note.text, note_id=note.id)
    await require_consent(call, f"Delete the {name} for good? It cannot be brought back.")
    async with app.writer.call():
        note = await _find_note(app, request)
        _check_trashed(note)
        with app.budget.write():
            await app.writer.remove(note)
    return ManageAnswer(id=note.id, status="deleted")


def _check_trashed(note: Note) -> None:
    if not note.trash:
        raise InvalidRequest(
            "Only a note in the trash can be deleted for good.",
            subcategory="not_trashed",
            http_status_code=409,
            resolution_hint="Use action `trash` first; then use the new `local_version`.",
        )


async def _reset(app: App, call: CallContext) -> ManageAnswer:
    if app.store.capabilities.source_of_truth:
        raise InvalidRequest(
            "This store has no other copy; it cannot be reset.",
            resolution_hint="Nothing needs to be reset: what is here is the original.",
        )
    await require_consent(call, "Empty the local cache and load every note again?")
    async with app.writer.call():
        await app.driver.reset()
    return ManageAnswer(
        status="reset",
        note="All notes are being loaded again, newest first. Unconfirmed writes are kept.",
    )
