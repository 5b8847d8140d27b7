"""Handle ``manage list_tags`` and ``manage rename_tag``, and spell a tag as notes have it.

A renaming saves one note after another, each through the journal as any other save. A note that has the
new tag already is left alone, so the same call goes on where an earlier one has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.search.query import And, Condition, Not, Or, Query, Tagged
from mcp_notarium.tools.answers import ManageAnswer, TagsAnswer
from mcp_notarium.tools.consent import find_loss, quote, require_consent
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.save_checks import check_tags, find_new_addresses
from mcp_notarium.tools.sync_notice import still_loading, sync_part, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.loss import Loss
    from mcp_notarium.storage.note_lookup import TaggedNote


def spell_tag(app: App, tag: str) -> str:
    """Return the tag without ``#`` before it, unless notes have it so."""
    bare = tag.strip().lstrip("#").strip()
    marked = bare and tag.strip().startswith("#")
    return bare if marked and not app.library.find_tagged(tag.strip()) else tag


def spell_tags(app: App, tags: Iterable[str]) -> tuple[str, ...]:
    """Return each of the tags so."""
    return tuple(spell_tag(app, tag) for tag in tags)


def spell_query(app: App, query: Query) -> Query:
    """Return the query with its tags spelled so."""
    return replace(
        query,
        tags=spell_tags(app, query.tags),
        excluded_tags=spell_tags(app, query.excluded_tags),
        terms=None if query.terms is None else _spell(app, query.terms),
    )


def _spell(app: App, condition: Condition) -> Condition:
    match condition:
        case And(conditions):
            return And(tuple(_spell(app, one) for one in conditions))
        case Or(conditions):
            return Or(tuple(_spell(app, one) for one in conditions))
        case Not(inner):
            return Not(_spell(app, inner))
        case Tagged(tag):
            return Tagged(spell_tag(app, tag))
        case _:
            return condition


MOST_TAGS = 300
_REPORTS = 100
"""Progress messages of one renaming, at most."""


async def count(app: App, request: ManageRequest, call: CallContext) -> TagsAnswer:
    """Return one page of the tags of visible notes outside the trash, most used first."""
    del call  # a read asks the user nothing
    return await read_page(app, request.page or 1)


async def read_page(app: App, page: int = 1) -> TagsAnswer:
    """Return this page of the tags. Raises ``NotPermitted`` if the policy hides tags, and ``StillLoading``."""
    app.config.policy.require_filter(Field.TAGS)
    status = await wait_for_notes(app)
    size = app.usage_limits.limit_rows(MOST_TAGS)
    found = app.library.count_tags(limit=size, offset=(page - 1) * size)
    return TagsAnswer(
        tags={one.tag: one.notes for one in found.tags},
        total=found.total,
        next_page=page + 1 if page < ceil(found.total / size) else None,
        sync=sync_part(status, now=app.clock()),
    )


async def rename(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Give all visible notes with one tag another in its place, after one question.

    Each note counts as one write; at a limit of the policy the rest is left for another call. Raises
    ``InvalidRequest``, ``NotPermitted``, ``ConfirmationRequired``, and what ends a save for more than its
    own note, with how many notes were done.
    """
    app.config.policy.require_edit(Field.TAGS)
    old, new = _names(app, request)
    if not (await wait_for_notes(app)).complete:
        raise still_loading(app, "a tag can be renamed when all are here.")
    todo = _find_notes(app, old, new)
    said = _describe(todo, old, new)
    if request.dry_run or not todo:
        status = "dry_run" if request.dry_run else "unchanged"
        return ManageAnswer(status=status, notes=len(todo), note=f"Nothing was written: {said}.")
    app.usage_limits.require_write()
    now = todo[: app.usage_limits.writes_left]
    ask = _question(app, said, new, now=len(now), all_of=len(todo))
    loss = await _find_loss(app, now[0].id, old, new)
    if loss is not None:
        ask += f" The old tags cannot be brought back: {loss.why}."
    await require_consent(call, ask)
    ids, left = [one.id for one in now], len(todo) - len(now)
    return await _save_all(app, ids, old, new, call, left=left, loses=loss is not None)


def _names(app: App, request: ManageRequest) -> tuple[str, str]:
    """Return the tag and what it becomes. Raises ``InvalidRequest``."""
    if request.tag is None or request.new_tag is None:
        raise InvalidRequest(
            "`rename_tag` needs `tag` and `new_tag`.",
            resolution_hint="`list_tags` shows the tags; `dry_run` counts the notes.",
        )
    return spell_tag(app, request.tag), check_tags([spell_tag(app, request.new_tag)])[0]


def _find_notes(app: App, old: str, new: str) -> list[TaggedNote]:
    """Return the notes that change. Raises ``NotPermitted`` if one of them may not become so."""
    found = [one for one in app.library.find_tagged(old) if renamed(one.tags, old, new) != one.tags]
    for one in found:
        before, after = Content("", one.tags), Content("", renamed(one.tags, old, new))
        app.config.policy.require_write(one.id, before, after)
    return found


def renamed(tags: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """Return the tags with ``new`` in the place of ``old``; the note's own spelling of ``new`` stays."""
    keys = list(map(tag_key, tags))
    if tag_key(old) not in keys:
        return tuple(tags)
    others = [tag for tag, key in zip(tags, keys, strict=True) if key != tag_key(old)]
    if tag_key(new) in map(tag_key, others):
        return tuple(others)
    at = keys.index(tag_key(old))
    return (*others[:at], new, *others[at:])


def _describe(todo: Sequence[TaggedNote], old: str, new: str) -> str:
    trashed = sum(one.trash for one in todo)
    merged = sum(tag_key(new) in map(tag_key, one.tags) for one in todo)
    merged = 0 if tag_key(old) == tag_key(new) else merged
    details = [f"{trashed} in the trash"] if trashed else []
    details += [f"{merged} with both tags"] if merged else []
    notes = f"{len(todo)} note{'' if len(todo) == 1 else 's'}"
    within = f" ({', '.join(details)})" if details else ""
    return f"the tag {quote(old)} to {quote(new)} in {notes}{within}"


def _question(app: App, said: str, new: str, *, now: int, all_of: int) -> str:
    asks = f"Rename {said}?"
    if now < all_of:
        asks += f" Only {now} of them now: no more writes are permitted."
    shares = app.library.traits.shares_by_tag
    if shares and find_new_addresses([new], present=()):
        asks += f" This shares them with {quote(new)} (an e-mail address as a tag)."
    return asks


async def _save_all(
    app: App,
    ids: Sequence[str],
    old: str,
    new: str,
    call: CallContext,
    *,
    left: int,
    loses: bool,
) -> ManageAnswer:
    done: list[str] = []
    kept: list[str] = []
    step = max(1, len(ids) // _REPORTS)
    for number, note_id in enumerate(ids):
        if number % step == 0:
            await call.progress(number, len(ids), "Renaming the tag")
        try:
            if await _save(app, note_id, old, new, call, loses=loses):
                done.append(note_id)
        except (VersionConflict, StoreRejected, InvalidRequest, NoteNotFound):
            kept.append(note_id)
        except NotariumError as error:
            raise _interrupted(error, done=len(done), of=len(ids) + left) from None
        await asyncio.sleep(0)  # the local store never waits, and others want to read
    left += len(kept)
    answer = ManageAnswer(
        status="renamed",
        notes=len(done),
        left=left or None,
        ids=kept[:10] or None,
        note="Repeat the call for the notes that are left." if left else None,
    )
    answer.record_changed(done)
    return answer


async def _find_loss(app: App, note_id: str, old: str, new: str) -> Loss | None:
    """Return what is lost for good if the tag of this note is renamed. Raises ``NotPermitted``."""
    note = app.library.get(note_id)
    if note is None:
        return None
    return await find_loss(app, note, replace(note.content, tags=renamed(note.tags, old, new)))


async def _save(
    app: App, note_id: str, old: str, new: str, call: CallContext, *, loses: bool
) -> bool:
    """Rename the tag of one note, as it is now; return whether it had to be saved.

    Raises ``InvalidRequest`` if that takes something away for good and the question did not say so (``loses``), and
    ``NoteNotFound`` for a note that has got another id.
    """
    async with app.library.writing(note_id):
        note = app.library.get(note_id)
        if note is None or renamed(note.tags, old, new) == note.tags:
            return False
        content = replace(note.content, tags=renamed(note.tags, old, new))
        app.config.policy.require_write(note.id, note.content, content)
        if not loses and await find_loss(app, note, content):
            raise InvalidRequest(
                "No version of the note could be kept any more; its tag was not renamed.",
                resolution_hint="Call `rename_tag` again: it asks the user about the rest.",
            )
        try:
            with app.usage_limits.write():
                await app.library.save(note=note, content=content, act=call.act, keeps=not loses)
        except NoteNotFound:
            if app.library.get(note_id) is not None:
                raise
            return False
    return True


def _interrupted(error: NotariumError, *, done: int, of: int) -> NotariumError:
    """Return the error with how far the renaming came: what is done is not to be taken back."""
    error.message = f"{done} of {of} notes were renamed, then: {error.message}"
    error.details = error.details | {"renamed": done, "left": of - done}
    hint = "Repeat the call for the rest."
    error.resolution_hint = " ".join(filter(None, (error.resolution_hint, hint)))
    return error
