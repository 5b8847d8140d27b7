"""Handle what ``manage`` changes in many notes at once: tags, folder, trash, and a tag's name.

``bulk`` does it. A ``query`` is one of ``list``, but a note must have all of its words, as they are spelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.domain.policy import Field
from mcp_notarium.domain.properties import shown_value
from mcp_notarium.errors import (
    InvalidRequest,
    NoteLeft,
    NoteNotFound,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.search import parser
from mcp_notarium.search.query import with_all_words
from mcp_notarium.tools.answers import ManageAnswer
from mcp_notarium.tools.bulk import Words, carry_out, make_plan, require_all_notes
from mcp_notarium.tools.consent import quote
from mcp_notarium.tools.link_changes import with_links
from mcp_notarium.tools.list import check_query
from mcp_notarium.tools.note_lookup import find_id, find_note
from mcp_notarium.tools.properties import Changes, read_changes, with_properties, with_types
from mcp_notarium.tools.requests import ManageRequest, PropertyChanges
from mcp_notarium.tools.save import Draft, make_draft
from mcp_notarium.tools.save_checks import check_tags
from mcp_notarium.tools.tags import renamed, spell_query, spell_tag, spell_tags
from mcp_notarium.tools.tasks import day_of
from mcp_notarium.tools.tool import CallContext
from mcp_notarium.tools.tree_moves import find_place, moved

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.storage.note_lookup import TaggedNote
    from mcp_notarium.stores.extensions import TreePlace

_NAME_SHOWN = 80
MOST = 500
"""Notes of one change."""


def is_many(request: ManageRequest) -> bool:
    """Tell whether the action is meant for many notes."""
    many = request.ids is not None or request.query is not None or request.change_id is not None
    return many or request.action == "change"


@dataclass(frozen=True, slots=True)
class Change:
    """Hold what is asked of each note; None and () leave that as it is."""

    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    folder: str | None = None
    """'' is the top."""
    trash: bool | None = None
    properties: Changes = field(default_factory=dict)

    def content_for(self, app: App, note: Note) -> Content:
        """Make what the note is to be. Raises ``InvalidRequest``, ``StoreRejected``."""
        spaced = app.library.traits.spaced_tags
        gone = set(map(tag_key, self.remove_tags))
        kept = tuple(tag for tag in note.tags if tag_key(tag) not in gone)
        tags = check_tags((*kept, *self.add_tags), present=note.tags, spaced=spaced)
        content = replace(note.content, tags=tags if {*tags} != {*note.tags} else note.tags)
        if self.trash is not None:
            content = replace(content, trash=self.trash)
        paths = app.library.traits.ids.paths
        if self.folder is not None and paths and note.id.rpartition("/")[0] != self.folder:
            content = replace(content, title=f"{self.folder}/{note.title or ''}")
        return with_properties(app, content, self.properties) if self.properties else content

    def describe(self) -> str:
        """Return what is done, for a question."""
        said = [f"add {_tags(self.add_tags)}"] if self.add_tags else []
        said += [f"remove {_tags(self.remove_tags)}"] if self.remove_tags else []
        said += [
            f"set {quote(shorten(name, _NAME_SHOWN))} to {quote(shorten(shown_value(value), _NAME_SHOWN))}"
            for name, value in self.properties.items()
            if value is not None
        ]
        gone = [name for name, value in self.properties.items() if value is None]
        said += [f"remove {_properties(gone)}"] if gone else []
        if self.folder is not None:
            said.append(
                f"move to the folder {quote(self.folder)}" if self.folder else "move to the top"
            )
        if self.trash is not None:
            said.append(f"{'move to' if self.trash else 'take out of'} the trash")
        return ", ".join(said)


def _tags(tags: Sequence[str]) -> str:
    return f"the tag{'' if len(tags) == 1 else 's'} {', '.join(map(quote, tags))}"


def _properties(names: Sequence[str]) -> str:
    shown = (quote(shorten(name, _NAME_SHOWN)) for name in names)
    return f"the propert{'y' if len(names) == 1 else 'ies'} {', '.join(shown)}"


async def change(
    app: App, request: ManageRequest, call: CallContext, *, words: Words | None = None
) -> ManageAnswer:
    """Change all notes of ``ids`` or ``query``, after one question. Raises as ``bulk.carry_out``."""
    asked = _asked_change(app, request)
    place = await find_place(app, request.folder) if app.library.traits.tree else None
    asked = replace(asked, properties=await with_types(app, asked.properties))
    await require_all_notes(app, "notes can be changed together when all are here.")
    ids, unknown = await _find_targets(app, request)

    moves = _find_moves(app, asked, ids, named=request.ids or ())

    async def draft(note_id: str) -> Draft | None:
        note = await find_note(app, note_id)
        try:
            return await _draft(app, asked, note, moves, place)
        except VersionConflict:  # it was moved since the last sync, which is known now
            return await _draft(app, asked, await find_note(app, note_id), moves, place)

    plan = await make_plan(app, ids, draft)
    if stay := moves.keys() & plan.refused.keys():  # links to these break
        for one in stay:
            del moves[one]
        plan = await make_plan(app, ids, draft)
    plan.unknown = unknown
    said = "nothing is to be done"
    if request.query is not None and not ids:
        said = "no note is found; `list` with the same `query` says why"

    return await carry_out(
        app,
        request,
        call,
        plan,
        draft,
        asks=f"Change {plan.counted}: {asked.describe()}",
        more=f" Links to them change in {plan.followed}." if plan.followed else "",
        words=words or Words(),
        said=said,
        undoable=app.library.traits.tree is not None
        or asked.folder is None
        or not app.config.policy.visibility.hides_beside_seen,
    )


def _asked_change(app: App, request: ManageRequest) -> Change:
    """Return what is asked. Raises ``InvalidRequest``, and ``NotPermitted`` for a part that is hidden."""
    trash = {"trash": True, "untrash": False}.get(request.action)
    add, remove = tuple(request.add_tags or ()), tuple(request.remove_tags or ())
    traits, policy = app.library.traits, app.config.policy
    given = request.properties
    values = (
        {} if given is None else read_changes(PropertyChanges(**given), marks=traits.properties)
    )
    if trash is not None and (add or remove or values or request.folder is not None):
        raise InvalidRequest(
            f"`{request.action}` changes nothing else; nothing was done.",
            resolution_hint="Use action `change` for tags, properties and folders, in a call of its own.",
        )
    if trash is None and not add and not remove and not values and request.folder is None:
        traits = app.library.traits
        folder = ", `folder`" if traits.ids.paths or traits.tree else ""
        raise InvalidRequest(
            "`change` does not say what to change.",
            resolution_hint=f"Give `add_tags`, `remove_tags`, `properties`{folder}; or use `trash` or `untrash` with the same notes.",
        )
    if add or remove or (values and traits.names_are_tags):
        policy.require_edit(Field.TAGS)
    if not values.keys() <= traits.properties:
        policy.require_edit(Field.TEXT)
    added = check_tags(spell_tags(app, add), spaced=traits.spaced_tags)
    removed = spell_tags(app, remove)
    if both := set(map(tag_key, added)) & set(map(tag_key, removed)):
        raise InvalidRequest(
            f"{len(both)} tag is both added and removed; nothing was done.",
            resolution_hint="Name each tag once.",
        )
    app.library.require_supported(Content("", tags=added, trash=trash is not None))
    if request.folder is None:
        return Change(added, removed, trash=trash, properties=values)
    policy.require_edit(Field.TEXT)
    return Change(added, removed, clean_folder(app, request.folder), properties=values)


def clean_folder(app: App, folder: str, *, spelled: bool = True) -> str:
    """Return the folder as notes have it, '' for the top. Raises ``InvalidRequest`` if the store has none, or nothing can be called so."""
    if app.library.traits.tree:
        return folder.strip()
    if not app.library.traits.ids.paths:
        raise no_folders_error(app)
    cleaned = folder.strip().strip("/")
    parts = cleaned.split("/") if cleaned else []
    if any(part.strip() != part or part.startswith(".") or not part for part in parts):
        raise _folder_error(folder)
    return app.library.spell_folder(cleaned) if spelled else cleaned


def no_folders_error(app: App) -> InvalidRequest:
    """Return the error for a folder where there are none."""
    return InvalidRequest(
        f"{app.config.store.title} has no folders.",
        subcategory="no_folders",
        resolution_hint="Group notes by tags: `change` with `add_tags`, then `list` with `tag:`.",
    )


def _folder_error(folder: str) -> InvalidRequest:
    return InvalidRequest(
        f"No folder can be called {quote(folder)}.",
        subcategory="folder",
        resolution_hint="Write the path from the top, as in Work/Plans; `/` is the top itself.",
    )


def _find_moves(
    app: App, asked: Change, ids: Sequence[str], *, named: Sequence[str]
) -> dict[str, str]:
    """Return the paths of the notes that go to another folder, and those that they get.

    ``named``: what the notes were called by, perhaps by the paths that they had before a call that was cut off. Notes
    that would get the same path, or cannot move, are left out.
    """
    if asked.folder is None or not app.library.traits.ids.paths:
        return {}
    there = {*ids}
    paths = {*ids, *(one for one in named if one not in there and _last(one))}
    moves: dict[str, str] = {}
    for path in sorted(paths):
        note = app.library.get(path)
        if note is None or note.trash:
            continue
        try:
            content = Change(folder=asked.folder).content_for(app, note)
            new = app.library.preview(note, app.library.with_free_title(note, content))[0]
        except (InvalidRequest, StoreRejected):  # its draft says why
            continue
        if path != new and note.id in (path, new):
            moves[path] = new
    places = Counter(map(path_key, moves.values()))
    return {path: new for path, new in moves.items() if places[path_key(new)] == 1}


def _last(path: str) -> str:
    return path.rpartition("/")[2]


async def _draft(
    app: App, asked: Change, note: Note, moves: Mapping[str, str], place: TreePlace | None
) -> Draft:
    """Return the checked draft of one note. Raises why it may not become so."""
    content = asked.content_for(app, note)
    if place is not None:
        return make_draft(app, note, await moved(app, note, content, place))
    if content.title == note.title:
        return make_draft(app, note, content)
    return await _draft_moved(app, note, content, moves, folder=asked.folder or "")


async def _draft_moved(
    app: App, note: Note, content: Content, moves: Mapping[str, str], *, folder: str
) -> Draft:
    """Return the checked draft of a note whose title names another folder."""
    if note.trash:
        raise NoteLeft("A note in the trash stays in its folder.")
    content = app.library.with_free_title(note, content)
    if app.library.preview(note, content)[0].rpartition("/")[0] != folder:
        raise _folder_error(folder)
    content, elsewhere = await with_links(app, note, content, wanted=True, moves=moves)
    return replace(make_draft(app, note, content), elsewhere=elsewhere)


async def _find_targets(app: App, request: ManageRequest) -> tuple[list[str], dict[str, str]]:
    """Return the ids of the notes that are meant, and of unknown ones why. Raises ``InvalidRequest``, ``QueryError``."""
    named = [*(request.ids or ()), *([request.id] if request.id is not None else ())]
    if bool(named) == (request.query is not None):
        raise InvalidRequest(
            "Give either `ids` or `query`."
            if named
            else f"`{request.action}` needs `ids` or `query`.",
            resolution_hint=f"`ids` names at most {MOST} notes; `query` is one of `list`.",
        )
    if request.query is not None:
        return await _find_by_query(app, request, request.query), {}
    if len(named) > MOST:
        raise _too_many_error(len(named))
    found, refused = dict[str, None](), dict[str, str]()
    for name in named:
        try:
            found.setdefault((await find_note(app, find_id(app, name))).id)
        except NoteNotFound as error:
            refused[name[:_NAME_SHOWN]] = error.message
    return [*found], refused


async def _find_by_query(app: App, request: ManageRequest, text: str) -> list[str]:
    trash = 1 if request.action == "untrash" else None
    query = with_all_words(
        parser.parse(
            text,
            trash=trash,
            is_property=await app.library.property_names(text),
            today=day_of(app.clock()),
        )
    )
    query = replace(query, in_tags=not app.config.policy.hides(Field.TAGS))
    check_query(app, query)
    ids, total = app.library.find_ids(spell_query(app, query), most=MOST)
    if total > MOST:
        raise _too_many_error(total)
    return ids


def _too_many_error(count: int) -> InvalidRequest:
    return InvalidRequest(
        f"These are {count} notes; {MOST} can be changed in one call. Nothing was done.",
        subcategory="too_many",
        details={"notes": count, "most": MOST},
        resolution_hint="Narrow the `query`, by dates or a folder for example, or name a part by `ids`.",
    )


async def rename_tag(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Give all visible notes with one tag another in its place, after one question.

    Each note counts as one write; at a limit of the policy the rest is left for another call. Raises
    ``InvalidRequest``, ``NotPermitted``, and as ``bulk.carry_out``.
    """
    app.config.policy.require_edit(Field.TAGS)
    old, new = _names(app, request)
    await require_all_notes(app, "a tag can be renamed when all are here.")
    found = _find_tagged(app, old, new)

    async def draft(note_id: str) -> Draft | None:
        note = app.library.get(note_id)
        if note is None or renamed(note.tags, old, new) == note.tags:
            return None
        return make_draft(app, note, replace(note.content, tags=renamed(note.tags, old, new)))

    plan = await make_plan(app, [one.id for one in found], draft)
    words = Words("Renaming the tag", "renamed")
    todo = {*plan.todo}
    described = _describe_renaming([one for one in found if one.id in todo], old, new)
    asks = f"Rename {described}"
    said = (
        "each note with the tag is refused" if plan.refused else f"no note has the tag {quote(old)}"
    )
    return await carry_out(app, request, call, plan, draft, asks=asks, words=words, said=said)


def _names(app: App, request: ManageRequest) -> tuple[str, str]:
    """Return the tag and what it becomes. Raises ``InvalidRequest``."""
    if request.tag is None or request.new_tag is None:
        raise InvalidRequest(
            "`rename_tag` needs `tag` and `new_tag`.",
            resolution_hint="`list_tags` shows the tags; `dry_run` counts the notes.",
        )
    return spell_tag(app, request.tag), check_tags([spell_tag(app, request.new_tag)])[0]


def _find_tagged(app: App, old: str, new: str) -> list[TaggedNote]:
    """Return the notes that change. Raises ``NotPermitted`` if one of them may not become so."""
    found = [one for one in app.library.find_tagged(old) if renamed(one.tags, old, new) != one.tags]
    for one in found:
        before, after = Content("", one.tags), Content("", renamed(one.tags, old, new))
        app.config.policy.require_write(one.id, before, after)
    return found


def _describe_renaming(todo: Sequence[TaggedNote], old: str, new: str) -> str:
    trashed = sum(one.trash for one in todo)
    merged = sum(tag_key(new) in map(tag_key, one.tags) for one in todo)
    merged = 0 if tag_key(old) == tag_key(new) else merged
    details = [f"{trashed} in the trash"] if trashed else []
    details += [f"{merged} with both tags"] if merged else []
    notes = f"{len(todo)} note{'' if len(todo) == 1 else 's'}"
    within = f" ({', '.join(details)})" if details else ""
    return f"the tag {quote(old)} to {quote(new)} in {notes}{within}"
