"""Handle ``save``: create a note, or change text, tags or trash of the version the caller has read.

Success means that the store has stored it. Nothing is written if nothing would change, if the note is
at another version, or if nobody has agreed to sharing it or dropping most of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.patch import Operation, apply_patch
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.logs.redaction_rules import one_line
from mcp_notarium.tools.call_context import CallContext, name_note, require_consent
from mcp_notarium.tools.get import fields_of, text_fields
from mcp_notarium.tools.note_lookup import find_at_version, versions_of
from mcp_notarium.tools.save_checks import check_tags, check_title, drops_most, find_new_addresses
from mcp_notarium.tools.schemas import SavedAnswer, SaveRequest, TitledSaveRequest

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.writer import Saved

LARGEST_NOTE = 1_048_576
"""Bytes of UTF-8; stores accept about 1 MB."""

_SERVICE_CHANGED_IT = (
    "The note store changed that. The answer is what it holds; it would change it again."
)


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold the content to write, and the questions a person has to agree to first."""

    note: Note | None
    content: Content
    asks: tuple[str, ...]

    @property
    def changes_nothing(self) -> bool:
        """Return whether the note is like this already."""
        return self.note is not None and self.note.content == self.content


async def handle(app: App, request: SaveRequest, call: CallContext) -> SavedAnswer:
    """Save, and return the note as the store holds it now.

    Raises ``InvalidRequest``, ``PatchError``, ``NoteNotFound``, ``VersionConflict``,
    ``ConfirmationRequired``, and what the writer raises.
    """
    _check_shape(request)
    _check_hidden_fields(app.config.policy, request)
    note, saved = await carry_out(app, lambda: _draft(app, request), call)
    if saved is None:
        return _answer(app, note, unchanged=True)
    return _answer(app, note, merged=saved.merged, copy_id=saved.copy_id, differs=saved.differs)


async def carry_out(
    app: App, drafting: Callable[[], Awaitable[Draft]], call: CallContext, *, exact: bool = False
) -> tuple[Note, Saved | None]:
    """Save what ``drafting`` makes, if everybody agrees; return the note, and None if it was so already.

    ``exact``: it is merged with nothing; see :meth:`Writer.save`.
    """
    draft = await drafting()
    if draft.asks and not draft.changes_nothing:
        app.usage_limits.require_write()
        await require_consent(call, " ".join(draft.asks))
    async with app.library.writing():
        # Draft again: the note may have changed while the user was asked or another write ran.
        draft = await drafting()
        if draft.note is not None and draft.changes_nothing:
            return draft.note, None
        with app.usage_limits.write():
            saved = await app.library.save(
                note=draft.note, content=draft.content, act=call.act, exact=exact
            )
    return saved.note, saved


def _check_shape(request: SaveRequest) -> None:
    """Raise ``InvalidRequest`` for arguments that make no sense for any note."""
    if request.text is not None and request.text_patch is not None:
        raise InvalidRequest(
            "Give `text` or `text_patch`, not both.",
            resolution_hint="`text` replaces the whole note, `text_patch` changes lines of it.",
        )
    if request.id is not None:
        changes = (request.text, request.text_patch, request.tags, request.trash, _title(request))
        if changes == (None,) * 5 and not _properties(request):
            raise InvalidRequest(
                "Nothing to save.",
                resolution_hint="Give `text`, `text_patch`, `tags`, `trash` or `properties`.",
            )
        return
    if request.text_patch is not None:
        raise InvalidRequest("A new note has no lines to patch.", resolution_hint="Give `text`.")
    if request.local_version is not None or request.server_version is not None:
        raise InvalidRequest(
            "A version was given without `id`.",
            resolution_hint="Give `id` to change a note; leave the version out to create one.",
        )
    if request.text is None:
        raise InvalidRequest("A new note needs `text`.", resolution_hint="Or give `id`.")


def _check_hidden_fields(policy: Policy, request: SaveRequest) -> None:
    """Raise ``NotPermitted`` for overwriting what the agent cannot have read."""
    if request.id is None:
        return
    if (request.text, request.text_patch, _title(request)) != (None,) * 3:
        policy.require_edit(Field.TEXT)
    if request.tags is not None:
        policy.require_edit(Field.TAGS)


async def _draft(app: App, request: SaveRequest) -> Draft:
    """Return the content to write, checked against the note as it is now."""
    note = await _find_target(app, request)
    old, title = Content("") if note is None else note.content, _title(request)
    tags, spaced = old.tags, app.library.traits.spaced_tags
    if request.tags is not None:
        tags = check_tags(request.tags, present=old.tags, spaced=spaced)
    content = Content(
        text=_text(request, old.text),
        tags=tags,
        trash=old.trash if request.trash is None else request.trash,
        title=old.title if title is None else check_title(title),
        properties=with_properties(old.properties, _properties(request)),
    )
    return make_draft(app, note, content)


def with_properties(held: frozenset[str], changes: Mapping[str, bool]) -> frozenset[str]:
    """Return the properties of a note after these are set (True) or removed (False)."""
    wanted = {name for name, value in changes.items() if value}
    return (held - changes.keys()) | wanted


def make_draft(app: App, note: Note | None, content: Content) -> Draft:
    """Check what the note is to become; None: a new note. Raises ``InvalidRequest``, ``NotPermitted``."""
    old = Content("") if note is None else note.content
    if content.text != old.text:
        longest = max(content.text, content.native, key=len)
        _check_size(longest, app.library.traits.max_note_bytes)
        live = None if content.native else app.library.live
        given = live.given(note, content.text) if live is not None else None
        if given is not None:
            content = replace(content, text=given.text, native=given.native)
    if note is None or content != note.content:
        known_as = "" if note is None else note.id  # the agent may have given an older id
        app.config.policy.require_write(known_as, None if note is None else old, content)
    shares = app.library.traits.shares_by_tag
    name = (
        name_note(app, content.title or content.text, note_id=None)
        if note is None
        else name_note(app, old.title or old.text, note_id=note.id)
    )
    return Draft(note, content, _asks(old, content, name=name, shares=shares))


async def _find_target(app: App, request: SaveRequest) -> Note | None:
    """Return the note to change, or None to create one."""
    if request.id is None:
        return None
    note = await find_at_version(app, request.id, request.local_version)
    if request.server_version is not None and request.server_version != note.server_version:
        raise VersionConflict(
            f"The note is at server_version {note.server_version}, not {request.server_version}.",
            details=versions_of(note),
        )
    return note


def _title(request: SaveRequest) -> str | None:
    return request.title if isinstance(request, TitledSaveRequest) else None


def _properties(request: SaveRequest) -> dict[str, bool]:
    given = request.properties
    return {} if given is None else given.model_dump(exclude_none=True)


def _text(request: SaveRequest, old: str) -> str:
    if request.text is not None:
        return request.text
    if request.text_patch is None:
        return old
    return apply_patch(
        old,
        [
            Operation(kind=change.operation, line=change.line_number, value=change.value)
            for change in request.text_patch
        ],
    )


def _check_size(text: str, allowed: int | None) -> None:
    limit = min(LARGEST_NOTE, allowed or LARGEST_NOTE)
    size = len(text.encode("utf-8", "replace"))
    if size > limit:
        raise InvalidRequest(
            f"The text has {size} bytes; a note can hold {limit}.",
            subcategory="too_large",
            http_status_code=413,
            resolution_hint="Split it into several notes.",
        )


def _asks(old: Content, new: Content, *, name: str, shares: bool) -> tuple[str, ...]:
    """Return the questions for a person before ``new`` replaces ``old`` in the note called ``name``."""
    asks = []
    added = find_new_addresses(new.tags, present=old.tags) if shares else ()
    if added:
        people = ", ".join(map(one_line, added))
        asks.append(f"Share the {name} with {people} (an e-mail address as a tag)?")
    if drops_most(old.text, new.text):
        asks.append(
            f"Overwrite the {name} and drop most of its text "
            f"({len(old.text)} characters, {len(new.text)} after)?"
        )
    return tuple(asks)


def _answer(
    app: App,
    note: Note,
    *,
    merged: bool = False,
    unchanged: bool = False,
    copy_id: str | None = None,
    differs: str = "",
) -> SavedAnswer:
    fields = text_fields(app, note)
    if copy_id is not None:
        fields["note"] = (
            "Your change collided with one made elsewhere; the copy keeps your text too."
        )
    if differs:
        sentence = f"stored differently: {differs}. {_SERVICE_CHANGED_IT}"
        fields["note"] = " ".join(filter(None, (sentence, fields.get("note"))))
    return SavedAnswer(
        **fields_of(note, app.config.policy),
        **fields,
        merged=merged or None,
        unchanged=unchanged or None,
        conflict_copy_id=copy_id,
    )
