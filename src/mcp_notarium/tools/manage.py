"""Handle ``manage``: trash, restore, pin or remove one note, find duplicates and problems, show statistics, reset the index.

``bulk_changes``, ``bulk_undo``, ``folders`` and ``tags`` handle what else concerns many notes.

Trashing can be undone and needs no confirmation. Permanent deletion works on trashed notes only; it and
``reset_cache`` need one. Success of a note action means that the store has carried it out. The statistics
hold no note text, path or secret.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium import __version__
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import LOOKING, Action, Field
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.markup.obsidian_links import find_links
from mcp_notarium.system import SYSTEM
from mcp_notarium.tools import bulk_changes, bulk_undo, folders, history, properties, tags
from mcp_notarium.tools.answers import (
    Duplicate,
    DuplicateNote,
    DuplicatesAnswer,
    FoldersAnswer,
    HistoryAnswer,
    ManageAnswer,
    Problem,
    ProblemsAnswer,
    PropertiesAnswer,
    Stats,
    StatsAnswer,
    TagsAnswer,
)
from mcp_notarium.tools.bulk_changes import is_many
from mcp_notarium.tools.consent import remove_note, require_consent
from mcp_notarium.tools.note_lookup import find_at_version, find_note
from mcp_notarium.tools.properties import with_marks
from mcp_notarium.tools.question import Ask
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.sync_notice import page_fields, sync_part, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App

MOST_GROUPS = 20
MOST_NOTES = 10
"""Notes of a group that are named; ``count`` has all of them."""


async def find_duplicates(app: App, request: ManageRequest, _call: CallContext) -> DuplicatesAnswer:
    """Return one page of groups, the largest first. Other calls are answered between two slices.

    Raises ``NotPermitted`` if texts are hidden: which are equal would reveal them.
    """
    app.config.policy.require_filter(Field.TEXT)
    status = await wait_for_notes(app)
    hashes: dict[bytes, list[int]] = {}
    for _ in app.library.collect_hashes(hashes):
        await asyncio.sleep(0)
    groups = sorted((keys for keys in hashes.values() if len(keys) > 1), key=_order)
    size, page = app.usage_limits.limit_rows(MOST_GROUPS), request.page or 1
    shown = groups[(page - 1) * size : page * size]
    return DuplicatesAnswer(
        duplicates=[made for keys in shown if (made := _group(app, keys)) is not None],
        **page_fields(app, status, page=page, size=size, total=len(groups)),
    )


def _order(keys: list[int]) -> tuple[int, int]:
    return -len(keys), keys[0]


def _group(app: App, keys: list[int]) -> Duplicate | None:
    """Return a group on the wire; None if its notes have gone meanwhile."""
    twins = app.library.read_twins(keys)
    if not twins:
        return None
    title = " ".join((twins[0].title or "").split())
    return Duplicate(
        title=shorten(title) if title else twins[0].head,
        count=len(twins),
        notes=[
            DuplicateNote(id=twin.id, local_version=twin.local_version)
            for twin in twins[:MOST_NOTES]
        ],
    )


_MB = 1_000_000
_OF_THE_WHOLE_ACCOUNT = (
    "memory_rss_mb",
    "db_file_size_mb",
    "db_last_sync_at",
    "db_sync_duration_ms",
    "backend_cursor",
    "sync_left_out",
)
"""Numbers that also change with hidden notes."""
_OF_A_PART = ("db_total_notes", "db_active_notes", "db_trashed_notes", "sync_loaded", "sync_total")
"""Numbers that would reveal, during the first load, how many notes are hidden."""


_WITHOUT_VERSION = {"pin", "unpin"}
"""Actions that replace nothing which the caller may not have seen."""

_WITH_DRY_RUN = {"change", "rename_tag", "move_folder", *LOOKING}
"""Actions that can do nothing but count, or never change anything."""

_OF_MANY = {"trash", "untrash", "undo"}
"""Actions of one note that many can have in one call."""

Answers = (
    ManageAnswer
    | HistoryAnswer
    | StatsAnswer
    | TagsAnswer
    | PropertiesAnswer
    | DuplicatesAnswer
    | FoldersAnswer
    | ProblemsAnswer
)


async def handle(app: App, request: ManageRequest, call: CallContext) -> Answers:
    """Carry out the action. Raises ``InvalidRequest`` and what the action raises."""
    may_count = request.action in _WITH_DRY_RUN or (request.action in _OF_MANY and is_many(request))
    if request.dry_run and not may_count:
        raise InvalidRequest(
            f"`{request.action}` has no dry run; nothing was done.",
            resolution_hint="Leave `dry_run` out if it shall be done.",
        )
    _check_names(request)
    return await _ACTIONS[request.action](app, request, call)


def _check_names(request: ManageRequest) -> None:
    """Raise ``InvalidRequest`` for an id of another kind than the action takes: it would be passed over."""
    is_undo = request.action == "undo"
    if request.change_id is not None and not is_undo:
        raise InvalidRequest(
            f"`{request.action}` takes no `change_id`; nothing was done.",
            resolution_hint="Action `undo` with `change_id` takes a change of many notes back. One note is named by `id`.",
        )
    if is_undo and request.version is not None:
        raise InvalidRequest(
            "`undo` takes no `version`: it takes the last change back. Nothing was done.",
            resolution_hint="Action `restore_version` brings a version back: give `id`, `local_version` and `version`.",
        )
    named = [request.id, request.change_id, request.ids, request.query]
    if is_undo and sum(one is not None for one in named) > 1:
        raise InvalidRequest(
            "`undo` takes `id` alone, or `change_id` alone; nothing was done.",
            resolution_hint="Give `id` to take back the last change of one note, `change_id` for a change of many.",
        )


async def _find_note(app: App, request: ManageRequest) -> Note:
    """Return the note of the action. Raises ``NotPermitted`` for one that may only be read, whatever state it is in."""
    note = await _find_meant(app, request)
    app.config.policy.writing.require_change(note.id, note.tags, inside=None)
    return note


async def _find_meant(app: App, request: ManageRequest) -> Note:
    needs_version = request.action not in _WITHOUT_VERSION
    if request.id is None:
        needed = "`id` and `local_version`" if needs_version else "`id`"
        raise InvalidRequest(
            f"`{request.action}` needs {needed}.", resolution_hint="Use `list` to find the note."
        )
    if request.local_version is None and not needs_version:
        return await find_note(app, request.id)
    try:
        return await find_at_version(app, request.id, request.local_version)
    except VersionConflict as error:
        error.resolution_hint = (
            f"Nothing was changed. Read the note again with `get`, and `{request.action}` it with "
            "its new `local_version` only if the user still wants that."
        )
        raise


async def _set_trash(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    if is_many(request):
        return await bulk_changes.change(app, request, call)
    trash = request.action == "trash"
    app.library.require_supported(Content("", trash=True))
    note, said = await _change(app, request, call, lambda held: replace(held, trash=trash))
    if note.trash != trash:
        raise _not_kept_error(note, "in the trash" if note.trash else "not in the trash")
    return _note_answer(note, "trashed" if trash else "untrashed", said=said)


async def _set_pin(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    pin = request.action == "pin"
    pinned = with_marks(Content("").properties, {"pinned": True})
    app.library.require_supported(Content("", properties=pinned))

    def wanted(held: Content) -> Content:
        return replace(held, properties=with_marks(held.properties, {"pinned": pin}))

    note, said = await _change(app, request, call, wanted)
    if ("pinned" in note.properties) != pin:
        raise _not_kept_error(note, "not pinned" if pin else "pinned")
    return _note_answer(note, "pinned" if pin else "unpinned", said=said)


async def _change(
    app: App, request: ManageRequest, call: CallContext, wanted: Callable[[Content], Content]
) -> tuple[Note, str | None]:
    """Change the note of the action; return it as it is now, and what to say if it was so already."""
    async with app.library.writing(request.id or ""):
        note = await _find_note(app, request)
        content = wanted(note.content)
        await app.library.require_open(note, content)
        if content == note.content:
            await app.library.require_writable(note)
            return note, "The note was in this state already; nothing was written."
        with app.usage_limits.write():
            return (await app.library.save(note=note, content=content, act=call.act)).note, None


def _not_kept_error(note: Note, state: str) -> VersionConflict:
    return VersionConflict(
        f"The note store did not keep the change: the note is {state}.",
        details={"id": note.id, "local_version": note.local_version},
        resolution_hint="Call `get` with this id and try again with its `local_version`.",
    )


def _note_answer(note: Note, status: str, *, said: str | None = None) -> ManageAnswer:
    return ManageAnswer(
        id=note.id,
        status=status,
        new_local_version=note.local_version,
        new_server_version=note.server_version,
        note=said,
    )


async def _remove(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    async def find() -> Note:
        note = await _find_note(app, request)
        _check_trashed(app, note)
        return note

    note = await remove_note(app, request.id or "", call, find, asks=True)
    return ManageAnswer(id=note.id, status="deleted")


def _check_trashed(app: App, note: Note) -> None:
    if app.library.traits.trash and not note.trash:  # defence: only-trash-deleted-for-good
        raise InvalidRequest(
            "Only a note in the trash can be deleted for good.",
            subcategory="not_trashed",
            http_status_code=409,
            resolution_hint="Use action `trash` first; then use the new `local_version`.",
        )


async def _reset(app: App, _request: ManageRequest, call: CallContext) -> ManageAnswer:
    if not app.config.store.persistent:
        raise InvalidRequest(
            "The notes are in the memory of this server; there is no cache to load again.",
            resolution_hint="Nothing needs to be done.",
        )
    # defence: emptying-cache-asks
    await require_consent(call, [Ask("Empty the local cache and load every note again?")])
    async with app.library.writing(""):
        await app.library.reset(act=call.act)
    return ManageAnswer(
        status="reset",
        note="All notes are being loaded again, newest first. Unconfirmed writes are kept.",
    )


async def _history(app: App, request: ManageRequest, _call: CallContext) -> HistoryAnswer:
    return await history.list_versions(app, request)


async def _undo(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    undo = bulk_undo.undo if request.change_id is not None else history.undo
    return await undo(app, request, call)


async def _stats(app: App, _request: ManageRequest, _call: CallContext) -> StatsAnswer:
    return StatsAnswer(stats=collect_stats(app))


def collect_stats(app: App) -> Stats:
    """Return all numbers from the database; asks the store nothing.

    Numbers that would reveal hidden notes are left out.
    """
    status, held = app.library.status(), app.library.statistics()
    metrics, kind = held.metrics, status.error_kind
    # On a full disk the leader cannot store how its cycles end.
    unstored_error = status.last_error not in (None, metrics.last_error)
    numbers: dict[str, object] = {
        "mcp_notarium_version": __version__,
        "runtime_version": f"{platform.python_implementation()} {platform.python_version()}",
        "memory_rss_mb": _rss_mb(),
        "backend": app.config.store.name,
        "notices": list(app.all_notices()),
        "db_encryption": "on" if held.encrypted else "off",
        "db_cipher_version": held.cipher_version,
        "db_file_size_mb": round(held.size_bytes / _MB, 3),
        "db_total_notes": held.counts.total,
        "db_active_notes": held.counts.active,
        "db_trashed_notes": held.counts.trashed,
        "db_schema_version": held.schema_version,
        "db_last_sync_at": status.last_sync_at and int(status.last_sync_at),
        "db_sync_duration_ms": metrics.duration_ms,
        "db_sync_status": str(status.state) if status.last_error else metrics.status,
        "db_sync_error_count": (metrics.error_count or 0) + unstored_error,
        "backend_cursor": held.cursor,
        "sync_state": str(status.state),
        "sync_loaded": status.loaded,
        "sync_total": status.total,
        "sync_complete": status.complete,
        "sync_last_error": status.last_error,
        "sync_error_subcategory": kind and kind.subcategory,
        "sync_error_retryable": kind and kind.retryable,
        "sync_error_hint": kind and (kind.agent_hint or kind.resolution_hint),
        "sync_leader": status.leader,
        "sync_feed": held.feed_usable,
        "sync_left_out": status.left_out,
        "needs_login": status.needs_login,
        "pending_writes": held.pending,
        "rejected_writes": held.rejected,
    }
    if app.config.policy.visibility.has_rules:
        numbers |= dict.fromkeys(_OF_THE_WHOLE_ACCOUNT)
        if not status.complete:
            numbers |= dict.fromkeys(_OF_A_PART)
    return Stats.model_validate(numbers, strict=False)


def _rss_mb() -> float | None:
    used = SYSTEM.memory_used()
    return None if used is None else round(used / _MB, 1)


MOST_PROBLEMS = 100
"""Rows of one page, of all kinds together."""
_KINDS = 4
_CANVAS_ENDINGS = (".canvas", ".base")
"""Files of the notes' app that stand for themselves: nothing needs to link to one."""


async def find_problems(app: App, request: ManageRequest, _call: CallContext) -> ProblemsAnswer:
    """Return one page of broken links, notes without links, without tags, and files that nothing links to.

    Other calls are answered meanwhile. A part that the policy hides is not looked at; raises ``NotPermitted`` if no other
    is left, and what ``wait_for_notes`` and the store raise.
    """
    policy, paths = app.config.policy, app.library.traits.ids.paths
    if policy.hides(Field.TAGS) and (policy.hides(Field.TEXT) or not paths):
        policy.require_filter(Field.TAGS)
    status = await wait_for_notes(app)
    size, page = max(1, app.usage_limits.limit_rows(MOST_PROBLEMS) // _KINDS), request.page or 1
    start, end = (page - 1) * size, page * size
    rows: list[Problem] = []
    totals: dict[str, int] = {}
    if paths and not policy.hides(Field.TEXT):
        found, steps = await app.library.paths.survey_links()
        for _ in steps:
            await asyncio.sleep(0)
        broken = [(one, target, False) for one, target in found.broken]
        # defence: canvas-links-untold =True
        if not policy.visibility.has_rules:  # no note shows what a canvas says
            broken += [(one, target, True) for one, target in dict.fromkeys(found.canvases)]
        rows += [
            Problem(kind="broken_link", file=one, link=target)
            if is_canvas
            else _broken(app, one, target)
            for one, target, is_canvas in broken[start:end]
        ]
        rows += [Problem(kind="no_links", id=one) for one in found.orphans[start:end]]
        totals = {"broken_link": len(broken), "no_links": len(found.orphans)}
        # defence: hidden-note-files-untold =True
        if not policy.visibility.hides_beside_seen:
            files = [one for one in found.unlinked if not one.lower().endswith(_CANVAS_ENDINGS)]
            rows += [Problem(kind="unlinked_file", file=one) for one in files[start:end]]
            totals["unlinked_file"] = len(files)
    if not policy.hides(Field.TAGS) and app.library.traits.tags:
        ids, totals["no_tags"] = app.library.find_untagged(limit=size, offset=start)
        rows += [Problem(kind="no_tags", id=one) for one in ids]
    return ProblemsAnswer(
        problems=rows,
        totals=totals,
        next_page=page + 1 if any(total > end for total in totals.values()) else None,
        sync=sync_part(status, now=app.clock()),
    )


def _broken(app: App, note_id: str, target: str) -> Problem:
    """Return a broken link with the line where it first stands, if the note has not changed meanwhile."""
    note = app.library.get(note_id)
    text = "" if note is None else note.text
    place = next((one.start for one in find_links(text) if one.target == target), None)
    line = None if place is None else text.count("\n", 0, place) + 1
    return Problem(kind="broken_link", id=note_id, link=target, line=line)


_ACTIONS: Mapping[Action, Callable[[App, ManageRequest, CallContext], Awaitable[Answers]]] = {
    "trash": _set_trash,
    "untrash": _set_trash,
    "delete_permanently": _remove,
    "pin": _set_pin,
    "unpin": _set_pin,
    "history": _history,
    "restore_version": history.restore_version,
    "undo": _undo,
    "change": bulk_changes.change,
    "list_tags": tags.count,
    "list_properties": properties.count,
    "rename_tag": bulk_changes.rename_tag,
    "find_duplicates": find_duplicates,
    "list_folders": folders.list_folders,
    "move_folder": folders.move_folder,
    "find_problems": find_problems,
    "get_stats": _stats,
    "reset_cache": _reset,
}
