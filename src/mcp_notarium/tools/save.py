"""Handle ``save``: create a note, or change text, tags or trash of one.

What replaces something is a change of the version that the caller has read: if the note is at another one by
now, the two are merged, or nothing is written. Lines for the end or the top, a text that is found once, another heading of a
section, and tags that come or go need no version: they are put into the newest text. A section that is named by its number or line
does, for these are of a text that was read. Success means that the store has stored it. Nothing is written
if nothing would change, or if nobody has agreed to sharing the note or dropping most of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.note import Content, Note, PropertyPlace
from mcp_notarium.domain.patch import Operation, append, apply_patch, prepend, replace_once
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, PatchError, VersionConflict
from mcp_notarium.markup.front_block import STARTS
from mcp_notarium.markup.section_edit import change_section
from mcp_notarium.markup.section_names import is_by_place
from mcp_notarium.tools.answers import SavedAnswer
from mcp_notarium.tools.consent import (
    ask_before_publishing,
    ask_before_save,
    changes_of,
    find_questions,
    name_note,
    relinked,
    require_consent,
)
from mcp_notarium.tools.day_notes import begin, with_made_day
from mcp_notarium.tools.link_changes import NO_CHANGES, LinkChanges, with_heading_links, with_links
from mcp_notarium.tools.note_lookup import (
    find_as_read,
    find_note,
    missing_version_error,
    versions_of,
)
from mcp_notarium.tools.properties import (
    Changes,
    read_changes,
    title_lost_to_block,
    with_properties,
    with_types,
)
from mcp_notarium.tools.question import Ask
from mcp_notarium.tools.requests import PathSaveRequest, SaveRequest, TitledSaveRequest, is_day
from mcp_notarium.tools.save_answer import add_overlaps, make_answer
from mcp_notarium.tools.save_checks import (
    changed_tags,
    check_front_matter,
    check_section,
    check_tag_changes,
    check_tags,
    check_title,
    compare_titles,
    require_meant,
    section_change,
    section_number,
)
from mcp_notarium.tools.tags import spell_tags
from mcp_notarium.tools.tasks import COMES_AGAIN, comes_again, is_line, with_task
from mcp_notarium.tools.templates import Begun
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Published
    from mcp_notarium.storage.audit_log import Step
    from mcp_notarium.sync.writer import Saved

LARGEST_NOTE = 1_048_576
"""Bytes of UTF-8; stores accept about 1 MB."""

_TWO = 2
_ATTEMPTS = 3
"""Limit how often a change that needs no version is made, each time from the newest text."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold the content to write, and the questions a person has to agree to first."""

    note: Note | None
    """The note as the caller has read it; None: a new one."""
    content: Content
    asks: tuple[Ask, ...]
    on_newest: bool = False
    """Tell that it is made from the newest text, whatever that is."""
    begun: Begun | None = None
    """Hold what a new note begins with, if that is a template or the note of a day."""
    elsewhere: LinkChanges = NO_CHANGES
    """Say what a new name changes elsewhere."""
    loses: bool = False
    """Tell that it takes away for good what it replaces."""
    published: Published | None = None
    """Say what everybody may read after it, and cannot before."""
    goal: object = field(default=None, compare=False)
    """Hold what its maker tells of it afterwards."""

    @property
    def key(self) -> str:
        """Return what the calls have in common that would make or change the same note."""
        if self.note is not None:
            return self.note.id
        return (self.begun.key if self.begun else "") or self.content.text

    @property
    def path(self) -> str:
        """Return the only id that a new note may get; '' for any."""
        return self.begun.path if self.begun else ""

    @property
    def may_follow(self) -> bool:
        """Tell whether it can be made once more, from what somebody has written just now."""
        # A note at its only path was made by somebody else just now, who has not been asked about that.
        return not self.loses and (self.on_newest if self.note else bool(self.path))

    @property
    def changes_nothing(self) -> bool:
        """Return whether the note is like this already."""
        return self.note is not None and self.note.content == self.content

    def is_stale(self, app: App) -> bool:
        """Tell whether the note has changed since it was read, so that what leads to it may have been looked up where it was meanwhile."""
        if self.note is None or self.elsewhere is NO_CHANGES:
            return False
        now = app.library.get(self.note.id)
        return now is None or now.local_version != self.note.local_version


async def handle(app: App, request: SaveRequest, call: CallContext) -> SavedAnswer:
    """Save a note; return what has changed in it as the store holds it now.

    Raises ``InvalidRequest``, ``PatchError``, ``NoteNotFound``, ``VersionConflict``,
    ``ConfirmationRequired``, and what the writer raises.
    """
    if request.file is not None:
        from mcp_notarium.tools import attachment_saves  # noqa: PLC0415 - seldom needed, and it saves by this

        return await attachment_saves.save_with_file(app, request, request.file, call)
    _check_shape(app, request)
    _check_permitted(app, request)
    request = await _meant(app, request)
    if _is_day(request):
        request = await with_made_day(app, request, call)
    draft, note, saved = await carry_out(app, lambda: _draft(app, request), call)
    asked = _title(request) if app.library.traits.ids.paths else None
    digits = app.config.policy.visibility.hides_beside_seen
    said = [compare_titles(asked, note.title, digits=digits)] if asked else []
    said += [draft.begun.said] if draft.begun else []
    if saved and request.task is not None and request.done is not False and draft.note:
        said += [COMES_AGAIN] if comes_again(draft.note.text, request.task) else []
    if saved and request.properties and not app.library.traits.titles:
        said += title_lost_to_block(draft.note.text if draft.note else "", draft.content.text)
    if saved and draft.elsewhere is not NO_CHANGES:
        said += draft.elsewhere.describe(saved)
    return make_answer(
        app,
        draft,
        note,
        saved,
        whole=bool(request.return_text),
        said=" ".join(filter(None, said)),
    )


async def draft_of(app: App, request: SaveRequest) -> Draft:
    """Return what a request would save, or raise why it cannot; nothing is written."""
    _check_shape(app, request)
    _check_permitted(app, request)
    return await _draft(app, request)


async def carry_out(
    app: App,
    drafting: Callable[[], Awaitable[Draft]],
    call: CallContext,
    *,
    exact: bool = False,
    before: Callable[[Draft], None] = lambda _: None,
) -> tuple[Draft, Note, Saved | None]:
    """Save what ``drafting`` makes, if everybody agrees; return the note, and None if it was so already.

    ``exact``: it is merged with nothing; see :meth:`Writer.save`. ``before`` is called right before the write.
    What the same call was about to save before it was taken back is saved over what it was made from, so that it stands once:
    what was stored then is merged with nothing.
    """
    step = call.steps.next()
    if (done := _find_saved(app, step)) is not None:
        return done
    begun = drafting if step.draft is None else partial(_draft_as_before, app, step.draft)
    stamp = app.library.stamp()
    agreed = await with_questions(app, await begun(), call)
    await app.library.require_open(agreed.note, agreed.content)
    agreed = await _ask(app, drafting, call, agreed, exact=exact, again=begun is not drafting)
    async with app.library.writing(agreed.key) as waited:
        if (done := _find_saved(app, step)) is not None:
            return done
        # Draft again if another write ran, the index has changed while the user was asked, what a version would
        # have kept may have, or the note has while links to it were looked up. What else has changed is found before the write.
        looks = waited or agreed.loses or agreed.published is not None
        looks = looks or (bool(agreed.asks) and app.library.stamp() != stamp)
        looks = looks or agreed.is_stale(app)
        draft = await _draft_in_step(app, begun, call) if looks else agreed
        for attempt in range(1, _ATTEMPTS + 1):
            if draft.note is not None and draft.changes_nothing:
                await app.library.require_writable(draft.note)
                return draft, app.library.get(draft.note.id) or draft.note, None
            await _require_as_agreed(app, draft, agreed, exact=exact)
            try:
                saved = await _save(app, draft, call, step, exact=exact, before=before)
            except VersionConflict as error:
                # What was begun before has perhaps arrived, and was changed since: the caller decides.
                ends = attempt == _ATTEMPTS or exact or begun is not drafting
                if ends or not draft.may_follow:
                    raise _with_overlaps(app, error, draft, exact=exact) from None
                draft = await _draft_in_step(app, drafting, call)
            else:
                return draft, saved.note, saved
    raise AssertionError("the last attempt returns or raises")


async def _ask(
    app: App,
    drafting: Callable[[], Awaitable[Draft]],
    call: CallContext,
    draft: Draft,
    *,
    exact: bool,
    again: bool,
) -> Draft:
    """Ask a person about a draft with questions; return what they have agreed to.

    Where a person is asked, the store is looked at first, so that they are not asked in vain, unless the same call is made ``again``. Raises what a save raises.
    """
    if not draft.asks or draft.changes_nothing:
        return draft
    app.usage_limits.require_write()
    if draft.note is not None and not again and not _is_answered(draft, call):
        try:
            await app.library.foresee(draft.note, draft.content)
        except VersionConflict as error:
            if exact or not draft.may_follow:
                raise _with_overlaps(app, error, draft, exact=exact) from None
            draft = await _draft_in_step(app, drafting, call)
            if not draft.asks or draft.changes_nothing:
                return draft
    note, links = draft.note, draft.elsewhere.links
    await require_consent(
        call,
        draft.asks,
        note_id=note.id if note else "",
        changes=changes_of(note, draft.content, lambda: relinked(app, links)),
    )
    return draft


def _is_answered(draft: Draft, call: CallContext) -> bool:
    return call.is_answered(irreversible=any(ask.irreversible for ask in draft.asks))


async def _require_as_agreed(app: App, draft: Draft, agreed: Draft, *, exact: bool) -> None:
    """Raise if the draft is not what the user has agreed to, or would show what is hidden."""
    if draft.asks and draft != agreed:  # defence: consent-to-one-change
        since = "since the user was asked" if agreed.asks else "so that the user must be asked"
        raise VersionConflict(f"The note has changed {since}; nothing was saved.")
    # What comes back was the note's own.
    if app.library.traits.asks_attachments and not exact:
        await app.library.files.require_no_hidden(draft.note, draft.content)


async def _save(
    app: App,
    draft: Draft,
    call: CallContext,
    step: Step,
    *,
    exact: bool,
    before: Callable[[Draft], None],
) -> Saved:
    with app.usage_limits.write():
        before(draft)
        step.draft = draft
        saved = await app.library.save(
            note=draft.note,
            path=draft.path,
            content=draft.content,
            act=call.act,
            # defence: agreed-is-not-merged -asks
            # defence: done-is-not-merged-again -step
            exact=exact or draft.loses or bool(draft.asks) or step.result is not None,
            keeps=not draft.loses and call.client is not None,
            links=draft.elsewhere.links,
            canvases=draft.elsewhere.canvases,
        )
    count_others(app, saved)
    return saved


def _find_saved(app: App, step: Step) -> tuple[Draft, Note, Saved] | None:
    """Return what the same call has saved before it was taken back, if that stands."""
    saved = None if step.draft is None else app.library.find_saved(step)
    return None if saved is None else (step.draft, saved.note, saved)


async def _draft_as_before(app: App, made: Draft) -> Draft:
    """Return a draft that was made before, of its note by the id that it has now."""
    if made.note is None:
        return made
    note = await find_note(app, made.note.id)
    if note.content != made.note.content:
        note = replace(made.note, id=note.id)
    return replace(made, note=note)


async def _draft_in_step(
    app: App, drafting: Callable[[], Awaitable[Draft]], call: CallContext
) -> Draft:
    """Draft until the index has not changed meanwhile, a few times: drafting may wait for renamings on their way."""
    for _ in range(_ATTEMPTS):
        stamp = app.library.stamp()
        draft = await with_questions(app, await drafting(), call)
        if app.library.stamp() == stamp:
            break
    return draft


def _with_overlaps(
    app: App, error: VersionConflict, draft: Draft, *, exact: bool
) -> VersionConflict:
    """Add the lines that both changed to a conflict, where the caller can still decide about them."""
    if draft.note is None or exact or draft.loses:
        return error
    return add_overlaps(app, error, base=draft.note, mine=draft.content)


def count_others(app: App, saved: Saved) -> None:
    """Count what else was changed: other notes, and canvases."""
    for _ in (*saved.relinked, *saved.canvases):
        with app.usage_limits.write():
            pass


async def with_questions(app: App, draft: Draft, call: CallContext) -> Draft:
    """Add the questions for what the draft would publish and take away for good, unless the user calls at a terminal.

    Raises ``NotPermitted`` if the policy forbids that.
    """
    if draft.changes_nothing or call.client is None:
        return draft
    # defence: publishing-asks =None
    published = await app.library.find_published(draft.note, draft.content)
    if published is not None:
        note = draft.note
        old = draft.content if note is None else note.content
        what = name_note(app, old.title or old.text, note_id=note.id if note else None)
        asks = ask_before_publishing(app, what, 1, published)
        draft = replace(draft, asks=_each_once(*draft.asks, *asks), published=published)
    if draft.note is None:
        return draft
    asks = await find_questions(app, draft.note, draft.content, links=draft.elsewhere.links)
    # defence: unrecoverable-asks =False
    return replace(draft, asks=_each_once(*draft.asks, *asks), loses=True) if asks else draft


def _each_once(*asks: Ask) -> tuple[Ask, ...]:
    return tuple(dict.fromkeys(asks))  # a draft of before has them already


def _check_shape(app: App, request: SaveRequest) -> None:
    """Raise ``InvalidRequest`` for arguments that make no sense for any note."""
    given = _text_arguments(request)
    if len(given) > 1:
        raise InvalidRequest(
            f"Give only one of {' and '.join(f'`{name}`' for name in given)}.",
            resolution_hint="`text` replaces the whole note, `text_patch` changes lines of it, `append` and "
            "`prepend` add lines, `find` with `replace` changes one place, `task` ticks one. Several changes are several calls.",
        )
    if (request.section, request.heading, request.done) != (None, None, None):
        check_section(request, given)
    if _tag_changes(request):
        check_tag_changes(request)
    if (request.find is None) != (request.replace is None):
        raise InvalidRequest(
            "`find` and `replace` belong together.",
            resolution_hint='Give both; `replace`: "" removes what is found.',
        )
    if request.id is not None:
        others = (*_replaced_fields(request), *_tag_changes(request), request.heading)
        if not given and not any(others) and not _property_changes(app, request):
            traits = app.library.traits
            has_any = traits.properties or traits.other_properties is not PropertyPlace.NOWHERE
            more = {"title": traits.titles, "trash": traits.trash, "properties": has_any}
            named = "".join(f", `{name}`" for name, there in more.items() if there)
            raise InvalidRequest(
                "Nothing to save.",
                resolution_hint="Give one of `text`, `text_patch`, `append`, `prepend`, `find` with `replace`, "
                f"`section` with `heading`, `task`, `add_tags`, `remove_tags`, `tags`{named}.",
            )
        return
    if given and given != ["text"]:
        raise InvalidRequest(
            f"A new note has no text for `{given[0]}`.",
            resolution_hint="Give `id` to change a note, or `text` for a new one.",
        )
    if request.local_version is not None or request.server_version is not None:
        raise InvalidRequest(
            "A version was given without `id`.",
            resolution_hint="Give `id` to change a note; leave the version out to create one.",
        )
    if request.text is None and not request.template:
        raise InvalidRequest(
            "A new note needs `text`; it may be empty.",
            resolution_hint="Give `id` to change a note.",
        )


async def _meant(app: App, request: SaveRequest) -> SaveRequest:
    """Return the request without empty values next to another change. Raises ``InvalidRequest`` if one would remove something."""
    sent = {"text": request.text, "title": _title(request), "tags": request.tags}
    emptied = [name for name, value in sent.items() if value in ("", [])]
    others = [name for name in _text_arguments(request) if name not in emptied]
    others += [name for name in ("title", "tags") if sent[name]]
    others += _tag_changes(request)
    others += [] if request.heading is None else ["heading"]
    others += [
        name
        for name, given in (("trash", request.trash), ("properties", request.properties))
        if given
    ]
    if request.id is None or _is_day(request) or not emptied or len(emptied) + len(others) < _TWO:
        return request
    note = await find_note(app, request.id)
    # In folders the title is the name of the file, which an empty one does not change.
    held = {
        "text": note.text,
        "title": None if app.library.traits.ids.paths else note.title,
        "tags": note.tags,
    }
    require_meant([name for name in emptied if held[name]])
    return request.model_copy(update=dict.fromkeys(emptied))


def _text_arguments(request: SaveRequest) -> list[str]:
    """Return the names of those arguments that change the text."""
    given = {
        "text": request.text,
        "text_patch": request.text_patch,
        "append": request.append,
        "prepend": request.prepend,
        "find": request.find,
        "task": request.task,
    }
    return [name for name, value in given.items() if value is not None]


def _replaced_fields(request: SaveRequest) -> list[str]:
    """Return the names of what else is replaced as a whole."""
    given = {"tags": request.tags, "trash": request.trash, "title": _title(request)}
    return [name for name, value in given.items() if value is not None]


def _is_on_newest(request: SaveRequest) -> bool:
    """Return whether the request means the newest text, whichever version the caller has read."""
    by_line = request.task is not None and is_line(request.task)
    replaces_text = request.text is not None or request.text_patch is not None or by_line
    return not replaces_text and not _replaced_fields(request) and not _counts(request)


def _counts(request: SaveRequest) -> bool:
    """Tell whether the section is named by what only the text says that was read."""
    return request.section is not None and is_by_place(request.section)


def _tag_changes(request: SaveRequest) -> list[str]:
    """Return the names of the arguments by which single tags come and go."""
    given = {"add_tags": request.add_tags, "remove_tags": request.remove_tags}
    return [name for name, value in given.items() if value]


def _check_permitted(app: App, request: SaveRequest) -> None:
    """Raise ``NotPermitted`` for overwriting or looking for what the agent cannot have read."""
    if request.id is None:
        return
    policy = app.config.policy
    if _title(request) is not None or _text_arguments(request) or request.section is not None:
        policy.require_edit(Field.TEXT)
    if not _property_changes(app, request).keys() <= app.library.traits.properties:
        policy.require_edit(Field.TEXT)
        if app.library.traits.names_are_tags:
            policy.require_edit(Field.TAGS)
    if request.tags is not None or _tag_changes(request):
        policy.require_edit(Field.TAGS)
    if request.find is not None or request.section is not None:
        app.usage_limits.require_read()  # defence: replacing-counts-as-reading


async def _draft(app: App, request: SaveRequest) -> Draft:
    """Return the content to write, checked against the note as the caller has read it, or as it is now."""
    begun = None
    if _is_day(request) or request.template:
        request, begun = await begin(app, request)
    note = None if begun else await _find_target(app, request)
    first = begun.content if begun else Content("")
    old, title = first if note is None else note.content, _title(request)
    tags, spaced = old.tags, app.library.traits.spaced_tags
    if request.tags is not None:
        tags = check_tags(spell_tags(app, request.tags), present=old.tags, spaced=spaced)
    elif _tag_changes(request):
        wanted = changed_tags(app, request, old.tags)
        tags = check_tags(wanted, present=old.tags, spaced=spaced)
    try:
        text = _changed_text(
            app,
            request,
            old.text,
            titles=app.library.traits.titles,
            form=_form(app, note, begun),
        )
    except PatchError as error:
        if note is not None and error.details.get("found") == 0:
            await _require_unchanged(app, request, note)
        raise
    content = Content(
        text=text,
        tags=tags,
        trash=old.trash if request.trash is None else request.trash,
        title=old.title if title is None else check_title(title),
        properties=old.properties,
        native=begun.content.native if begun else "",
    )
    if changes := _property_changes(app, request):
        content = with_properties(app, content, await with_types(app, changes))
    elsewhere = NO_CHANGES
    if note is not None and content.title != note.title:
        content = app.library.with_free_title(note, content)
        content, elsewhere = await with_links(app, note, content, wanted=_rewrites_links(request))
    elif note is not None and app.library.traits.ids.paths and request.heading is not None:
        number = section_number(request, old.text)
        content, elsewhere = with_heading_links(
            app, note, content, number, wanted=_rewrites_links(request)
        )
    draft = make_draft(app, note, content, begun)
    return replace(draft, on_newest=_is_on_newest(request), elsewhere=elsewhere)


async def _require_unchanged(app: App, request: SaveRequest, note: Note) -> None:
    """Raise ``VersionConflict`` with the lines of now if the note said lately what is to be found."""
    named = "section" if request.find is None else "find"
    for then in await app.library.history.recall(note.id):
        try:
            mine = replace(
                then, text=_changed_text(app, request, then.text, titles=True, form=Form.LINES)
            )
        except PatchError:
            continue
        read = replace(note, text=then.text, title=then.title)
        error = VersionConflict(
            f"What `{named}` looks for has changed since; nothing was saved.",
            details=versions_of(note),
        )
        raise add_overlaps(app, error, base=read, mine=mine)


def _form(app: App, note: Note | None, begun: Begun | None) -> Form:
    if note is not None:
        return app.library.form_of(note)
    return begun.form if begun else Form.LINES


def make_draft(app: App, note: Note | None, content: Content, begun: Begun | None = None) -> Draft:
    """Check what the note is to become; None: a new note. Raises ``InvalidRequest``, ``NotPermitted``."""
    old = Content("") if note is None else note.content
    if content.text != old.text:
        native = "" if app.library.traits.revives else content.native
        longest = max(content.text, native, key=len)
        _check_size(longest, app.library.traits.max_note_bytes, held=old.text)
        given = None if content.native else app.library.given(note, content.text)
        if given is not None:
            content = replace(content, text=given.text, native=given.native)
    has_block = content.text.startswith(STARTS) and not content.native
    has_block = has_block and not (begun and begun.content.text.startswith(STARTS))
    if note is None and app.library.traits.ids.paths and has_block:
        check_front_matter(content.text)
    scope = app.config.policy.writing
    if scope.has_rules and note is not None:
        scope.require_change(note.id, note.tags, inside=None)
    if note is None or content != note.content:
        # A new note has no id yet, but a place; a note that is renamed gets another one.
        known_as, judged = app.library.preview(note, content, path=begun.path if begun else "")
        app.config.policy.require_write(known_as, None if note is None else old, judged)
        if scope.has_rules:
            scope.require_result(known_as, judged.tags, new=note is None, inside=None)
    shares = app.library.traits.shares_by_tag

    def name() -> str:
        if note is None:
            return name_note(app, content.title or content.text, note_id=None)
        return name_note(app, old.title or old.text, note_id=note.id)

    if note is None and not shares:
        return Draft(note, content, (), begun=begun)
    return Draft(
        note, content, ask_before_save(old, content, name=name, shares=shares), begun=begun
    )


async def _find_target(app: App, request: SaveRequest) -> Note | None:
    """Return the note to change, or None to create one."""
    if request.id is None:
        return None
    if _is_on_newest(request):
        return await find_note(app, request.id)
    if request.local_version is None:
        texts = [name for name in _text_arguments(request) if name in ("text", "text_patch")]
        given = [f"`{name}`" for name in (*texts, *_replaced_fields(request))]
        given += ["`task` by line"] if request.task is not None and is_line(request.task) else []
        given += ["`section` by number or line"] if _counts(request) else []
        named = " and ".join(given)
        raise missing_version_error(
            f"{named} cannot be saved without `local_version`.",
            way_out=" Leave out what shall stay.",
        )
    return await find_as_read(
        app, request.id, request.local_version, server_version=request.server_version
    )


def _title(request: SaveRequest) -> str | None:
    return request.title if isinstance(request, TitledSaveRequest) else None


def _property_changes(app: App, request: SaveRequest) -> Changes:
    given = request.properties
    return {} if given is None else read_changes(given, marks=app.library.traits.properties)


def _is_day(request: SaveRequest) -> bool:
    return request.id is not None and is_day(request.id)


def _rewrites_links(request: SaveRequest) -> bool | None:
    return request.rewrite_links if isinstance(request, PathSaveRequest) else None


def _changed_text(app: App, request: SaveRequest, old: str, *, titles: bool, form: Form) -> str:
    """Return the new text; ``titles``: the store keeps the title apart, ``form``: what the text is."""
    if request.task is not None:
        return with_task(old, request.task, done=request.done is not False, now=app.clock())
    if request.section is None:
        return _text(request, old, titles=titles, form=form)
    change = section_change(request, request.section)
    return change_section(old, change, form=form, titles=titles)


def _text(request: SaveRequest, old: str, *, titles: bool, form: Form) -> str:
    """Return the new text of the whole note."""
    if request.text is not None:
        return request.text
    if request.append is not None:
        return append(old, request.append, form=form) if request.append else old
    if request.prepend is not None:
        return prepend(old, request.prepend, below_title=not titles, form=form)
    if request.find is not None and request.replace is not None:
        return replace_once(old, request.find, request.replace)
    if request.text_patch is None:
        return old
    return apply_patch(
        old,
        [
            Operation(kind=change.operation, line=change.line_number, value=change.value)
            for change in request.text_patch
        ],
        form=form,
    )


def _check_size(text: str, allowed: int | None, *, held: str) -> None:
    """Raise ``InvalidRequest`` for a text that is too large, and larger than the one that the note has."""
    limit = min(LARGEST_NOTE, allowed or LARGEST_NOTE)
    size = len(text.encode("utf-8", "replace"))
    if size > limit and size > len(held.encode("utf-8", "replace")):
        raise InvalidRequest(
            f"The text has {size} bytes; a note can hold {limit}.",
            subcategory="too_large",
            http_status_code=413,
            resolution_hint="Split it into several notes.",
        )
