"""Handle ``manage undo`` of a change of many notes: take all of it back that nothing has followed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.errors import InvalidRequest, NoteLeft
from mcp_notarium.tools import history
from mcp_notarium.tools.answers import ManageAnswer
from mcp_notarium.tools.bulk import After, Plan, Words, carry_out, make_plan, require_all_notes
from mcp_notarium.tools.consent import quote
from mcp_notarium.tools.folders import FolderPaths, left_behind, move_all
from mcp_notarium.tools.note_lookup import find_id
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.save import Draft
from mcp_notarium.tools.save_checks import drops_most
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App


async def undo(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Take a change of many notes back, after one question: of each note, if nothing has followed in it.

    An undo is such a change itself, with an id of its own, so a repeated call finds what it has done. Raises as
    ``bulk.carry_out``, and ``InvalidRequest`` if no version of such a change is kept.
    """
    change_id = request.change_id or ""
    await require_all_notes(app, "a change of many notes can be undone when all are here.")
    ids = app.library.history.find_changed(change_id)
    moved = app.library.paths.moved_files(change_id)
    if not ids and moved is None:
        raise _unknown_change_error(app, change_id)
    if app.config.policy.visibility.hides_beside_seen and (
        moved is not None or any(app.library.history.has_moved(one, change_id) for one in ids)
    ):
        raise _places_error()
    undo_id = hashlib.sha256(f"undo {change_id}".encode()).hexdigest()[:16]
    restored = {*ids}

    async def draft(note_id: str) -> Draft | None:
        note = app.library.get(
            note_id
        )  # by an earlier id as well: a sync may have renamed it since
        if note is None or app.library.history.is_changed_by(note.id, undo_id):
            return None
        old = await app.library.history.read_before(note.id, change_id)
        made = await history.draft_undone(app, note, old, call)
        if drops_most(note.text, made.content.text):
            raise NoteLeft("Most of its text would go: undo it alone, by its `id`.")
        # A note that comes back itself has its old links then, or has them already.
        links = {
            one: said
            for one, said in made.elsewhere.links.items()
            if one not in restored and not app.library.history.is_changed_by(one, undo_id)
        }
        return replace(made, elsewhere=replace(made.elsewhere, links=links))

    plan = await make_plan(app, ids, draft)
    restored &= {*plan.todo}
    after = await _files_back(app, call, moved, undo_id)
    if moved is not None and after.files and plan.refused:
        raise _folder_error(plan, moved[0], moved[1])
    return await carry_out(
        app,
        request,
        call,
        plan,
        draft,
        asks=f"Undo a change of many notes in {plan.counted}",
        words=Words("Undoing the change", "undone"),
        change_id=undo_id,
        exact=True,
        after=after,
    )


def _unknown_change_error(app: App, change_id: str) -> InvalidRequest:
    """Return the error for an id of which no change of many notes is kept; perhaps it is that of a note."""
    if app.library.get(find_id(app, change_id)) is not None:
        return InvalidRequest(
            "This `change_id` is the id of a note, not of a change of many; nothing was done.",
            subcategory="nothing_to_undo",
            resolution_hint="Give it as `id`, without `change_id`: that takes the last change of this note back.",
        )
    return InvalidRequest(
        "No change of many notes of this `change_id` can be undone: there was none, or it is kept no more.",
        subcategory="nothing_to_undo",
        resolution_hint="`undo` with the `id` of a note takes its last change back. A `version` goes to `restore_version`; "
        "`history` lists those of a note.",
    )


def _places_error() -> InvalidRequest:
    """Return the error for notes that would get another name, where a name that is taken would betray a hidden note."""
    return InvalidRequest(
        "Notes were moved by this change, and rules hide notes in open places: no move can be undone.",
        subcategory="nothing_to_undo",
        resolution_hint="Move them with `change` or `move_folder` if the user wants that: links follow to the new names.",
    )


def _folder_error(plan: Plan, old: str, new: str) -> InvalidRequest:
    """Return the error for a folder of which a note has to stay: links of that would not lead to the files that go."""
    return InvalidRequest(
        f"Nothing was undone, for notes have changed since the folder moved ({len(plan.refused)}): {next(iter(plan.refused.values()))}",
        subcategory="folder",
        http_status_code=409,
        details=plan.reasons(plan.refused),
        resolution_hint=f"`move_folder` from {quote(new)} to {quote(old)} brings all back as it is now, if the user wants that.",
    )


async def _files_back(
    app: App, call: CallContext, moved: tuple[str, str, list[str]] | None, undo_id: str
) -> After:
    """Return how the files go back that went with a folder, and how many are there."""
    if moved is None:
        return After()
    old, new, below = moved
    there = await app.library.files.list_files()
    files = [path for one in below if (path := f"{new}/{one}") in there]

    async def go_back(_change_id: str) -> dict[str, str]:
        left = await move_all(app, call, files, FolderPaths(new, old), undo_id)
        return left | await left_behind(app, new)

    return After(files, go_back, FolderPaths(new, old).place_of)
