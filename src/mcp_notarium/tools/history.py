"""Handle ``manage history``, ``restore_version`` and ``undo``: what a note was, and bringing that back.

A restore saves title and text of a version, and an undo all that the last change has replaced. Both are
saves: the same policy and limits hold, and what they replace is kept as a version. Both need the user's
consent, so that a note cannot have an agent take back what the user wanted. Neither merges: if the note has
changed elsewhere, nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.diff import ChangeSummary, summarize_change
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteLeft,
    NoteNotFound,
    OutcomeUnknown,
    VersionConflict,
)
from mcp_notarium.tools.answers import HistoryAnswer, ManageAnswer, VersionRow
from mcp_notarium.tools.consent import changes_of, name_note, quote_whole, require_consent
from mcp_notarium.tools.link_changes import with_links
from mcp_notarium.tools.note_lookup import find_at_version, find_note
from mcp_notarium.tools.question import Ask
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.save import Draft, carry_out, make_draft
from mcp_notarium.tools.save_checks import find_new_addresses
from mcp_notarium.tools.tool import CallContext
from mcp_notarium.tools.tree_moves import moved_back

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.library import FilesSettled
    from mcp_notarium.library.history import Version
    from mcp_notarium.storage.change_records import KeptFileRow

ROWS = 10
"""Versions of one answer. Each costs a request where the store keeps them."""
FIRST = "the first that is kept"
PARTLY = " in part"
"""Behind a status, if something could not be brought back."""
MOVED = "moved to another folder"
REMOVED = "the note as it was when it was deleted"
LOST = "the note as it was saved here last, before another program removed it"
_ALL = "with all of its own that the note store has a place for"
_TEXT = "with the title, text and tags that were saved here last"
_AS_TEXT = (
    " The server lists no revision of that: the text comes back as Markdown, without images and formatting that only "
    "its HTML has."
)
_WHOLE = (
    " A note of this `id` was deleted then, and more of it is kept than its text. To have all of it back, delete the "
    "present note, which is kept as well; then restore this version."
)


@dataclass(slots=True)
class _Goal:
    """Hold what a note is to be again."""

    content: Content = field(default_factory=lambda: Content(""))
    said: str = ""
    """A sentence about what is known not to come back."""
    beside: tuple[str, ...] = ()
    """Changes that no content shows."""
    whole: str = ""
    """A sentence about what more there is of a version."""


async def list_versions(app: App, request: ManageRequest) -> HistoryAnswer:
    """Return one page of the versions of a note, newest first, the present state too."""
    if removed := _find_removed(app, request):
        return _list_removed(request.id or "", removed)
    note = await _find(app, request)
    most = app.usage_limits.limit_rows(ROWS)
    found: list[Version] = []
    async with aclosing(app.library.history.walk(note.id, after=request.version)) as walk:
        async for version in walk:
            found.append(version)
            if len(found) > most:
                break
    if app.library.get(note.id) is None:  # it went while the store was asked
        raise NoteNotFound("There is no note with this id.", details={"id": note.id})
    rows = list(_rows(app, note.id, found))[:most]
    return HistoryAnswer(
        id=note.id,
        new_local_version=note.local_version,
        history=rows,
        next_version=rows[-1].version if len(found) > most else None,
    )


async def restore_version(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Save title and text of a version again; tags, trash and properties stay, but for fields of the app. Raises as a save.

    What the store has of the version beyond these comes back, too, and the question names it. A note that was removed
    comes back with everything.
    """
    if removed := _find_removed(app, request):
        return await _revive(app, request, call, removed)
    goal = _Goal()

    async def draft() -> Draft:
        if request.id is None or request.version is None:
            raise InvalidRequest(
                "`restore_version` needs `id`, `local_version` and `version`.",
                resolution_hint="Action `history` lists the versions of a note.",
            )
        note = await find_at_version(app, request.id, request.local_version)
        old = await app.library.history.read(note.id, request.version)
        goal.whole = _WHOLE if old.removed else ""
        traits = app.library.traits  # where the title is the place of the note, it stays there
        title = old.content.title if traits.titles and not traits.ids.paths else note.title
        fields = {name for name, given in traits.fields.items() if given and not old.removed}
        properties = note.properties.having(
            {name: old.content.properties[name] for name in fields & old.content.properties.keys()},
            without=fields,
        )
        content = replace(note.content, text=old.content.text, title=title, properties=properties)
        goal.content = (
            content if not traits.tags_in_text else replace(content, tags=old.content.tags)
        )
        content = await _as_it_was(app, note, content, old, goal)
        return _asking(await _draft(app, note, content, old, call, goal=goal), goal)

    try:
        return await _save(app, draft, call, "restored")
    except VersionConflict as error:
        error.resolution_hint = (
            "Nothing was changed. Read the note again with `get`, and restore the version with the "
            "note's new `local_version` only if the user still wants that."
        )
        raise


async def undo(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Save what the last change of this client to a note has replaced.

    Raises ``VersionConflict`` that says what came after that change.
    """
    client = call.client
    goal = _Goal()
    before, history = call.steps.find_earlier(0), app.library.history
    over = before.draft.note if before and before.draft else None
    if over and history.has_saved_since(over.id, over.local_version, client=client):
        call.steps.earlier = None  # the same call means another change by now

    async def draft() -> Draft:
        note = await _find(app, request)
        if request.local_version is not None:
            await find_at_version(app, note.id, request.local_version)
        old = await app.library.history.read_replaced(note.id, client=client)
        return await _draft_undone(app, note, old, call, goal)

    try:
        return await _save(app, draft, call, "undone")
    except VersionConflict as error:
        note_id = error.details.get("id")
        if isinstance(note_id, str):
            error.details["came_after"] = await _came_after(app, note_id, client)
        raise


async def draft_undone(app: App, note: Note, old: Version, call: CallContext) -> Draft:
    """Return the checked draft of a note that is to be again what several changes have replaced.

    Raises ``InvalidRequest`` if not all of that can come back.
    """
    goal = _Goal()
    draft = await _draft_undone(app, note, old, call, goal)
    if goal.said:
        raise NoteLeft(
            "Not all of it can come back: undo it alone, by its `id`.", details={"id": note.id}
        )
    return draft


async def _draft_undone(
    app: App, note: Note, old: Version, call: CallContext, goal: _Goal
) -> Draft:
    goal.content = old.content
    content = await _as_it_was(app, note, old.content, old, goal, last=True)
    return _asking(await _draft(app, note, content, old, call, goal=goal, undoes=True), goal)


async def _as_it_was(
    app: App, note: Note, content: Content, old: Version, goal: _Goal, *, last: bool = False
) -> Content:
    """Add what the store has of an older version beyond its content; if nobody has it, ``goal`` says so.

    A store that keeps the version itself is asked first: it may have more than was kept here, such as attachments.
    """
    has_form, own = app.library.traits.given is not None, None
    if has_form:
        own = await app.library.history.find_own_form(note, old)
    native = app.library.history.native_of(note.id, old, last=last) if own is None else own
    lost = has_form and own is None and not native and content.text != note.text
    lost = lost and app.library.form_of(note) is not Form.LINES  # lines have no other form
    goal.said = _AS_TEXT if lost else ""
    if last and (there := await moved_back(app, note, content, old)) != content:
        return there
    if native or has_form or content.wording == (note.title, note.text):
        return replace(content, native=native)
    return replace(content, native=app.library.traits.exact)


def _asking(draft: Draft, goal: _Goal) -> Draft:
    """Return the draft whose first question, if it asks one, says what does not come back."""
    if not draft.asks:
        return draft
    first, *others = draft.asks
    return replace(draft, asks=(replace(first, text=first.text + goal.said), *others))


async def _find(app: App, request: ManageRequest) -> Note:
    if request.id is None:
        raise InvalidRequest(
            f"`{request.action}` needs `id`"
            + (", or the `change_id` of many." if request.action == "undo" else "."),
            resolution_hint="Use `list` to find the note.",
        )
    return await find_note(app, request.id)


def _find_removed(app: App, request: ManageRequest) -> list[Version]:
    return app.library.history.read_removed(request.id) if request.id is not None else []


def _list_removed(note_id: str, versions: list[Version]) -> HistoryAnswer:
    rows = [
        VersionRow(
            version=one.name,
            at=_time(one.modified_at),
            changed=REMOVED if one.content.native else LOST,
        )
        for one in versions
    ]
    return HistoryAnswer(id=note_id, new_local_version=int(versions[0].name), history=rows)


async def _revive(
    app: App, request: ManageRequest, call: CallContext, removed: list[Version]
) -> ManageAnswer:
    """Make a note again that was removed from here."""
    note_id, last = request.id or "", removed[0].name
    old = next((one for one in removed if one.name == request.version), None)
    if old is None or request.local_version not in (None, int(last)):
        raise NoteNotFound(
            "The note was removed, and this version of it is not kept.",
            details={"id": note_id, "version": last, "local_version": int(last)},
            subcategory="version",
            resolution_hint="Restore the `version` that `details` names, if the user wants the note back.",
        )
    app.config.policy.require_write(note_id, None, old.content)
    app.usage_limits.require_write()
    if call.client is not None:
        name = name_note(app, old.content.title or old.content.text, note_id=note_id)
        people = (
            find_new_addresses(old.content.tags, present=())
            if app.library.traits.shares_by_tag
            else ()
        )
        shared = f" This shares it with {', '.join(map(quote_whole, people))}." if people else ""
        ask = Ask(
            f"Bring back the {name}, which was deleted?{shared}",
            irreversible=bool(people),
        )
        await require_consent(call, [ask], note_id=note_id, changes=changes_of(None, old.content))
    async with app.library.writing(note_id):
        with app.usage_limits.write():
            saved = await app.library.revive(note_id, old.content, act=call.act)
    return ManageAnswer(
        id=saved.note.id,
        status="restored",
        new_local_version=saved.note.local_version,
        note=f"The note was made again under `id`, {_ALL if old.content.native else _TEXT}.",
    )


async def _draft(
    app: App,
    note: Note,
    content: Content,
    old: Version,
    call: CallContext,
    *,
    goal: _Goal,
    undoes: bool = False,
) -> Draft:
    """Return the checked draft, with a question unless the user calls at a terminal.

    ``content``: what comes back of ``old``. Raises ``NotPermitted`` for parts that are hidden.
    """
    if content.wording != note.content.wording:
        app.config.policy.require_edit(Field.TEXT)
    if content.tags != note.tags:
        app.config.policy.require_edit(Field.TAGS)
    content = app.library.with_free_title(note, content)
    # Its own links were right at that place.
    _, elsewhere = await with_links(app, note, content, wanted=True)
    draft = replace(make_draft(app, note, content), elsewhere=elsewhere, goal=goal)
    history = app.library.history
    goal.beside = await history.find_parts_beside(note, draft.content, now=app.clock())
    if call.client is None:  # defence: undo-needs-a-client =True
        return draft
    name = name_note(app, note.title or note.text, note_id=note.id)
    what = f"Undo the last change to the {name}" if undoes else f"Restore the text of the {name}"
    changes = _summary(note.content, content, app.config.policy, beside=goal.beside).facts
    ask = (
        f"{what}, back to what it was at {_time(old.modified_at) or 'an unknown time'} ({changes})?"
    )
    return replace(draft, asks=(Ask(ask), *draft.asks))


async def _save(
    app: App,
    draft: Callable[[], Awaitable[Draft]],
    call: CallContext,
    status: str,
) -> ManageAnswer:
    """Save what ``draft`` makes. Say what of its goal the note is not."""
    undone = status == "undone"
    leaving: list[KeptFileRow] = []

    def announce(made: Draft) -> None:
        old, new = made.note.text if made.note else "", made.content.text
        files = [*app.library.files.find_following(old, new, undone=undone)]
        leaving[:] = [one for one, shown in files if not shown]
        app.library.files.announce_leaving(leaving, leaving=True)
        if call.act is not None:
            call.act.files = tuple(one.digest for one, _ in files)

    try:
        made, note, saved = await carry_out(app, draft, call, exact=True, before=announce)
    except NotariumError as error:
        if not isinstance(error, OutcomeUnknown):
            app.library.files.announce_leaving(leaving, leaving=False)
        raise
    goal = cast("_Goal", made.goal)
    told = "The note says this already; nothing was written."
    if saved is not None and made.note is not None:
        policy, beside = app.config.policy, goal.beside
        facts = _summary(made.note.content, note.content, policy, beside=beside).facts
        told = f"Changed: {MOVED if _has_moved(made.note, note) else facts}."
        if saved.differs:
            told += f" Stored differently: {saved.differs}."
        files = await app.library.files.settle_files(
            made.note.text, note, undone=undone, act=call.act
        )
        told = " ".join(
            filter(None, (told, *made.elsewhere.describe(saved), *_describe_files(files)))
        )
    told += goal.said
    if (lacking := _named_as(note, goal.content)) != note.content:
        facts = _summary(note.content, lacking, app.config.policy).facts
        told += f" Not brought back, and different still: {facts}."
    if goal.said or lacking != note.content:
        status += PARTLY
    return ManageAnswer(
        id=note.id,
        status=status,
        new_local_version=note.local_version,
        new_server_version=note.server_version,
        note=told + goal.whole,
    )


def _describe_files(files: FilesSettled) -> Iterator[str]:
    """Say what became of files, without their names."""
    if files.gone:
        shown = _name_files(files.gone, "is", "are") + " shown here no more."
        yield shown if files.unsure else f"{_name_files(files.gone)} went, too."
    if files.stays:
        yield f"{_name_files(files.stays, 'stays', 'stay')}: changed, or perhaps used elsewhere."
    if files.missing:
        yield f"{_name_files(files.missing, 'was', 'were')} gone already."
    if files.back:
        yield f"{_name_files(files.back, 'is', 'are')} back."
    if files.lost:
        yield f"Files that it shows are gone or changed, and cannot be brought back: {files.lost}."


def _name_files(count: int, one: str = "", many: str = "") -> str:
    return f"Its file {one}".rstrip() if count == 1 else f"Its {count} files {many}".rstrip()


def _has_moved(old: Note, new: Note) -> bool:
    return old.id != new.id and old.content == new.content


def _named_as(note: Note, wanted: Content) -> Content:
    """Return what was wanted in the note's own form: a title may be wanted as the path of the note."""
    title, path = wanted.title, note.id.rpartition(".")[0]
    is_place = (
        title is not None
        and note.title is not None
        and f"/{path}".endswith(f"/{title.removeprefix('/')}")
    )
    tags = (
        note.tags if {*wanted.tags} == {*note.tags} else wanted.tags
    )  # not every store keeps their order
    return replace(wanted, tags=tags, title=note.title if is_place else title, native="")


async def _came_after(app: App, note_id: str, client: str | None) -> list[dict[str, str]]:
    """Return the versions after the client's last change, without any words of the note."""
    found = await app.library.history.since(note_id, client=client, most=ROWS)
    return [
        {"version": one.name, "at": _time(one.modified_at), "by": one.made_by or "made elsewhere"}
        for one in found
    ]


def _rows(app: App, note_id: str, found: list[Version]) -> Iterator[VersionRow]:
    for new, old in pairwise([*found, None]):
        if new is None:
            return
        if new.removed:
            changed = REMOVED
        elif old is not None and old.moved and old.content == new.content:
            changed = MOVED
        else:
            changed = FIRST if old is None else _changed(app, note_id, old, new)
        yield VersionRow(
            version=new.name, at=_time(new.modified_at), by=new.made_by or None, changed=changed
        )


def _changed(app: App, note_id: str, old: Version, new: Version) -> str:
    beside = app.library.history.parts_beside(note_id, old, new.content)
    tags = new.tags_known and old.tags_known
    return str(_summary(old.content, new.content, app.config.policy, tags=tags, beside=beside))


def _summary(
    old: Content,
    new: Content,
    policy: Policy,
    *,
    tags: bool = True,
    beside: Collection[str] = (),
) -> ChangeSummary:
    return summarize_change(
        old,
        new,
        beside=() if policy.hides(Field.TEXT) else beside,
        text=not policy.hides(Field.TEXT),
        tags=tags and not policy.hides(Field.TAGS),
    )


def _time(epoch: float) -> str:
    """Return the time in ISO 8601; '' for one that no calendar has, as other programs store it."""
    try:
        return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
