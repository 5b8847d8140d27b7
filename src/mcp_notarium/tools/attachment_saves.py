"""Handle ``save`` with a ``file``: keep that where the app keeps files, and link it at the end of the note or of a section.

The file comes first: a call that is cut off leaves one that no note shows, and the same call again takes that and makes no second one. The
link is an ordinary change of the note. A save that is refused takes its file back.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mcp_notarium.config.closed_places import find_closed_places
from mcp_notarium.domain.file_names import (
    HEAD,
    PICTURES,
    UNNAMED,
    any_ending_of,
    clean_file_name,
    ending_of,
    kind_of,
    kind_of_name,
    split_ending,
)
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, NotariumError, OutcomeUnknown
from mcp_notarium.files.import_folders import find_folders, read_file
from mcp_notarium.threads import run_in_thread
from mcp_notarium.tools import save
from mcp_notarium.tools.answers import FileRow, SavedAnswer
from mcp_notarium.tools.attachments import make_row
from mcp_notarium.tools.day_notes import find_missing_day
from mcp_notarium.tools.note_lookup import find_note
from mcp_notarium.tools.requests import SaveRequest
from mcp_notarium.tools.save import Draft
from mcp_notarium.tools.save_answer import make_answer
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Note

LARGEST_SENT = 256 * 1024
"""Bytes of a file that a call brings along."""
_DATA = re.compile(
    r"data:(?P<kind>[\w.+-]{1,100}/[\w.+-]{1,100})?(?P<more>(?:;[^;,]{0,300}){0,9}),", re.IGNORECASE
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_ALONE = ("text", "text_patch", "append", "prepend", "find", "heading", "task", "title")
"""Changes of a note with which no file is added."""
_PLACEHOLDER = f"![]({'x' * 200})"
"""Stands for the link while nothing is kept yet."""
_HOW = (
    "Give the whole path of a file, or `data:image/png;name=plan.png;base64,…` with up to 256 KiB."
)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    kind: str
    data: bytes


async def save_with_file(
    app: App, request: SaveRequest, given: str, call: CallContext
) -> SavedAnswer:
    """Save a note with a file; see :func:`save.handle`. Raises also what keeps the file from being read or kept."""
    traits = app.library.traits
    if not traits.keeps_files and not traits.adds_pictures:
        raise InvalidRequest(
            "This store keeps no files.",
            subcategory="no_files",
            resolution_hint="Save without `file`.",
        )
    others = [name for name, value in request if name in _ALONE and value is not None]
    if request.id is not None and others:
        raise InvalidRequest(
            f"`{others[0]}` and `file` came in one call; the file is added at the end.",
            resolution_hint="Make two calls.",
        )
    app.config.policy.require_edit(Field.TEXT)
    async with app.library.files.keeping():
        app.usage_limits.require_write()
        return await _save(app, request.model_copy(update={"file": None}), given, call)


async def _save(app: App, rest: SaveRequest, given: str, call: CallContext) -> SavedAnswer:
    file = await _read(app, given)
    _require_kept(app, rest, file)
    begins_day = find_missing_day(app, rest) is not None
    if rest.id is not None and not begins_day:
        return await _add(app, rest, file, call)
    # The note of a day begins as with any addition, here an empty one.
    begun = rest.model_copy(update={"append": "", "section": None}) if begins_day else rest
    made = await save.handle(app, begun, call)
    linking = type(rest)(id=made.id, section=rest.section, return_text=rest.return_text)
    try:
        added = await _add(app, linking, file, call)
    except NotariumError as error:
        error.details.update({"id": made.id, "local_version": made.local_version})
        error.message = f"The note was made, and its file was not added: {error.message}"
        raise
    return made.model_copy(
        update={
            "local_version": added.local_version,
            "server_version": added.server_version,
            "modified_at": added.modified_at,
            "text": added.text,
            "text_total_lines": added.text_total_lines,
            "files": added.files,
            "unchanged": None,
        }
    )


def _require_kept(app: App, request: SaveRequest, file: _File) -> None:
    """Raise ``InvalidRequest`` for a file, or a place, that notes of this store do not have."""
    beside = file.kind not in PICTURES or request.section is not None
    if app.library.traits.adds_pictures and beside:
        raise InvalidRequest(
            "Notes of this store have pictures only, above their text.",
            subcategory="no_files",
            resolution_hint="Give a PNG, JPEG, WebP or GIF, and no `section`.",
        )


async def _add(app: App, request: SaveRequest, file: _File, call: CallContext) -> SavedAnswer:
    """Keep a file for a note that is there, and link it."""
    if app.library.traits.adds_pictures:
        return await _add_picture(app, request, file, call)
    note = await find_note(app, request.id or "")
    await app.library.require_writable(note)
    # Whatever refuses the change does so before anything is kept.
    trial = request.model_copy(update={"id": note.id, "append": _PLACEHOLDER})
    draft = await save.with_questions(app, await save.draft_of(app, trial), call)
    # Each refused question would leave a file in the trash, and a yes would hold for whatever bytes the path has by then.
    _require_no_question(draft)
    try:
        return await _keep_and_link(app, request, note, file, call)
    except asyncio.CancelledError:
        # The file is there or comes, and nobody may link it: the same call again takes it.
        with suppress(NotariumError), app.usage_limits.write():  # defence: cancelled-file-counted
            pass
        raise


def _require_no_question(draft: Draft) -> None:
    if draft.asks:  # defence: no-question-about-files
        raise InvalidRequest(
            "A change that the user must be asked about came with `file`; nothing was saved.",
            resolution_hint="Make two calls: the change without `file`, then `file` alone. If that is refused as well, the user can add the "
            "file in their app.",
        )


async def _add_picture(
    app: App, request: SaveRequest, file: _File, call: CallContext
) -> SavedAnswer:
    """Add a picture to a note that holds its pictures itself: one change, with whatever else the request changes."""

    async def draft() -> Draft:
        note = await find_note(app, request.id or "")
        same = {"id": note.id, "text": note.text, "local_version": note.local_version}
        drafted = await save.draft_of(app, request.model_copy(update=same))
        native, file_id = await app.library.files.with_picture(note, file.kind, file.data)
        if len(native) > save.LARGEST_NOTE:  # defence: pictures-of-a-note-bounded =False
            raise InvalidRequest(
                f"The note would have more than {save.LARGEST_NOTE // 1024} KiB with its pictures.",
                subcategory="too_large",
                http_status_code=413,
                resolution_hint="Give a smaller picture, or ask the user to add it in their app.",
            )
        row = FileRow(id=file_id, kind=file.kind, size=len(file.data))
        content = replace(drafted.content, native=native)
        return replace(drafted, content=content, on_newest=True, goal=row)

    _require_no_question(await save.with_questions(app, await draft(), call))
    if call.act is not None:
        call.act.files = (hashlib.sha256(file.data).hexdigest(),)
    drafted, note, saved = await save.carry_out(app, draft, call)
    answer = make_answer(app, drafted, note, saved, whole=bool(request.return_text), said="")
    return answer.model_copy(update={"files": [drafted.goal]})


async def _keep_and_link(
    app: App, request: SaveRequest, note: Note, file: _File, call: CallContext
) -> SavedAnswer:
    kept = await app.library.files.keep_file(note, file.name, file.kind, file.data, act=call.act)
    note = app.library.get(note.id) or note
    change: dict[str, Any] = {"id": note.id, "append": kept.before + kept.link}
    if (
        not kept.link or kept.link in note.text
    ):  # a repeated call, or the note shows it without a link
        same = {"section": None, "text": note.text, "local_version": note.local_version}
        change |= same | {"append": None}
    try:
        if change["append"] is None and kept.made:
            with app.usage_limits.write():  # defence: unlinked-file-counted
                pass
        answer = await save.handle(app, request.model_copy(update=change), call)
    except NotariumError as error:
        if not isinstance(error, OutcomeUnknown):  # defence: refused-save-keeps-no-file =False
            await app.library.files.drop_file(kept, hashlib.sha256(file.data).hexdigest())
        raise
    row = FileRow(id=kept.id, kind=file.kind, size=len(file.data))
    if (note_now := app.library.get(answer.id)) is not None:
        shown, _ = await app.library.files.find_attachments(note_now)
        facts = next((one for one in shown if one.id == kept.id), None)
        row = row if facts is None else make_row(replace(facts, kind=row.kind, size=row.size))
    return answer.model_copy(update={"files": [row]})


async def _read(app: App, given: str) -> _File:
    """Return the file that a call names or brings. Raises ``InvalidRequest``, ``NotPermitted``."""
    if given[:5].lower() == "data:":
        name, promised, data = _decode(given)
    else:
        name, promised, data = (
            Path(given).name,
            "",
            await run_in_thread(lambda: _read_path(app, given)),
        )
    if not data:
        raise InvalidRequest("The file is empty.", resolution_hint=_HOW)
    kind = kind_of(data[:HEAD], promised or kind_of_name(name))
    name = clean_file_name(name or UNNAMED)
    stem, given_ending = split_ending(name)
    if not given_ending:
        name += any_ending_of(kind)
    elif (ending := ending_of(kind)) and kind_of_name(name) != kind:
        name = stem + ending
    return _File(name, kind, data)


def _read_path(app: App, given: str) -> bytes:
    _require_whole_path(given)
    folders = find_folders(app.config.policy.import_paths)
    return read_file(
        given,
        folders,
        closed=find_closed_places(app.config),
        largest=app.library.files.largest_file,
    )


def _require_whole_path(given: str) -> None:
    if _ADDRESS.match(given):
        raise InvalidRequest(
            "An address is no path, and nothing is fetched from one.",
            resolution_hint="Give the path of the file without `file://`, such as /home/me/plan.png; of a file elsewhere, one that the user has "
            "saved.",
        )
    with suppress(RuntimeError):  # the home folder of nobody
        if not Path(given).expanduser().is_absolute():
            raise InvalidRequest("The path of the file is not a whole one.", resolution_hint=_HOW)


def _decode(given: str) -> tuple[str, str, bytes]:
    """Return name, promised kind and bytes of a ``data:`` URI."""
    found = _DATA.match(given)
    more = found["more"].split(";")[1:] if found else []
    if found is None or "base64" not in (one.strip().lower() for one in more):
        raise InvalidRequest("This is no `data:` URI with base64.", resolution_hint=_HOW)
    sent = "".join(given[found.end() :].split())
    if len(sent) > 4 * (LARGEST_SENT // 3 + 1):  # defence: sent-file-is-small =False
        raise InvalidRequest(
            f"A file in a call may have {LARGEST_SENT // 1024} KiB.",
            subcategory="too_large",
            http_status_code=413,
            resolution_hint="Give the path of the file, in a folder that the user's policy file names in `import_paths`.",
        )
    try:
        data = base64.b64decode(sent + "=" * (-len(sent) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("The base64 of the file is not valid.", resolution_hint=_HOW) from None
    names = (one.strip()[5:] for one in more if one.strip()[:5].lower() == "name=")
    return unquote(next(names, "")), (found["kind"] or "").lower(), data
