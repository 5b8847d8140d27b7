"""Handle ``manage list_folders``, and ``move_folder``: a folder gets another path, with all notes and other files in it.

What links must become is known before anything moves: links within the folder stay as they are written. Each note moves in a save
of its own, with the links to it and the cards that show it; other files follow when all notes are there. So a call that was cut
off goes on if it is repeated, and one ``undo`` takes all of it back. What the policy hides stays where it is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from mcp_notarium.domain.characters import path_key
from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import LONGEST_PATH, Note, with_digits
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import InvalidRequest, NoteLeft, NotPermitted, StoreError
from mcp_notarium.markup.obsidian_links import Link, rewrite_links, settled
from mcp_notarium.tools.answers import Folder, FoldersAnswer, ManageAnswer
from mcp_notarium.tools.bulk import (
    After,
    Plan,
    Words,
    carry_out,
    digest_of,
    make_plan,
    require_all_notes,
)
from mcp_notarium.tools.bulk_changes import change, clean_folder, no_folders_error
from mcp_notarium.tools.consent import quote
from mcp_notarium.tools.link_changes import LinkChanges, require_writable
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.save import Draft, make_draft
from mcp_notarium.tools.sync_notice import page_fields, wait_for_notes
from mcp_notarium.tools.tool import CallContext
from mcp_notarium.tools.tree_moves import find_place

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.stores.extensions import TreeReads

MOST_FOLDERS = 200
"""Rows of one page of ``list_folders``."""
MOST_FILES = 2000
"""Files that are no notes, of one move: an undo has to know them."""
_NAMED = 10
_STAYS = "It is no file that can be moved (in a hidden folder, a link, or not readable as a note), or it came meanwhile."
_WORDS = Words("Moving the folder", "moved")


async def list_folders(app: App, request: ManageRequest, _call: CallContext) -> FoldersAnswer:
    """Return one page of the folders in which visible notes outside the trash lie, by path; or of those that have ids.

    Raises ``InvalidRequest`` in a store without folders, and what ``wait_for_notes`` raises.
    """
    if not (app.library.traits.ids.paths or app.library.traits.tree):
        raise no_folders_error(app)
    status = await wait_for_notes(app)
    page, size = request.page or 1, app.usage_limits.limit_rows(MOST_FOLDERS)
    folders = await _list_parents(app) if app.library.traits.tree else _count_notes(app)
    return FoldersAnswer(
        folders=folders[(page - 1) * size : page * size],
        **page_fields(app, status, page=page, size=size, total=len(folders)),
    )


def _count_notes(app: App) -> list[Folder]:
    return [
        Folder(folder=folder or "/", notes=own, below=below)
        for folder, (own, below) in app.library.count_folders().items()
    ]


async def _list_parents(app: App) -> list[Folder]:
    found = await cast("TreeReads", app.library.native).list_parents()
    untold = app.config.policy.hides(Field.TEXT)
    return [
        Folder(
            folder=one.id,
            title=None if untold or not one.path else shorten(one.path, LONGEST_PATH),
            notes=one.notes,
            below=one.below,
        )
        for one in found
    ]


@dataclass(slots=True)
class FolderPaths:
    """Hold the path of a folder, and the one that it gets."""

    old: str
    new: str

    def holds(self, path: str) -> bool:
        """Tell whether something is in the old folder."""
        return path.startswith(f"{self.old}/")

    def place_of(self, path: str) -> str:
        """Return where something in the old folder is in the new one."""
        return f"{self.new}{path.removeprefix(self.old)}"


@dataclass(slots=True)
class _Move(FolderPaths):
    """Hold what moves where, and what links become: in notes by their ids, those to a note by the id of that."""

    inside: Sequence[str]
    files: dict[str, None] = field(default_factory=dict)
    own: dict[str, dict[Link, str | None]] = field(default_factory=lambda: defaultdict(dict))
    to: dict[str, dict[str, dict[Link, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    moved: set[str] = field(default_factory=set)
    """Former paths of notes that an earlier call has moved."""
    card_links: dict[str, dict[str, dict[Link, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Changes to links in texts of canvases, by the id of the note that they mean."""
    with_cards: bool = False

    def moved_path(self, path: str) -> str:
        return self.place_of(path) if path in self.files else path

    def add(self, source: str, links: Mapping[Link, tuple[str | None, str]]) -> None:
        """Add what links of a note become: those to notes change with these, others in a save of their own."""
        for link, (target, meant) in links.items():
            if self.holds(source) or meant in self.files or meant in self.moved:
                self.own[source][link] = target
            else:
                self.to[meant].setdefault(source, {})[link] = target


async def move_folder(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Move all that is in ``folder`` to ``new_folder``, after one question. Raises as ``bulk.carry_out``, and ``InvalidRequest``."""
    tree = app.library.traits.tree
    if tree is not None and tree.of_notes:
        return await _move_note(app, request, call)
    if tree is not None:
        raise InvalidRequest(
            f"Folders of {app.config.store.title} move only there.",
            subcategory="folder",
            resolution_hint="`change` with `folder` moves the notes in it; a folder itself the user can move.",
        )
    app.config.policy.require_edit(Field.TEXT)
    old, new = _folders(app, request)
    await require_all_notes(app, "a folder can be moved when all notes are here.")
    move = await _survey(app, old, new)
    if not (move.inside or move.files or app.library.find_change(digest_of(request, call))):
        raise InvalidRequest(
            f"No note lies in a folder {quote(old)}.",
            subcategory="folder",
            resolution_hint="`list_folders` has the folders, with their letter case.",
        )
    others = sorted(one for one in move.own if not move.holds(one))

    async def draft(note_id: str) -> Draft | None:
        note = app.library.get(note_id)
        if note is None or note.id == note_id:
            return None if note is None else await _draft(app, note, move)
        if move.holds(note_id) and note.id == move.place_of(note_id):
            return None
        raise NoteLeft("It has got another name meanwhile, which links lead to.")

    # A canvas that may only be read is in the way of the whole folder.
    scoped = move.with_cards = app.config.policy.writing.has_rules
    plan = await make_plan(app, [*move.inside, *others], draft)
    _require_whole(plan, [*move.inside, *(others if scoped else ())])
    if scoped:
        await _require_files(app, move)
    move.with_cards = True
    notes = sum(move.holds(one) for one in plan.todo)
    files = (
        f", {len(move.files)} other file{'' if len(move.files) == 1 else 's'}" if move.files else ""
    )
    plan.links |= dict.fromkeys((*others, *(source for to in move.to.values() for source in to)))
    moving = {*filter(move.holds, plan.todo), *move.files}
    plan.canvases |= dict.fromkeys(await app.library.paths.find_canvases(moving))
    plan.canvases |= {one: None for links in move.card_links.values() for one in links}
    said = (
        f"the folder {quote(old)} to {quote(new)}: {notes} note{'' if notes == 1 else 's'}{files}"
    )
    said += f", links in {plan.followed}" if plan.followed else ""

    async def move_files(change_id: str) -> dict[str, str]:
        left = await move_all(app, call, move.files, move, change_id)
        behind = await left_behind(app, old)
        return behind | left  # what a file was refused for says more

    return await carry_out(
        app,
        request,
        call,
        plan,
        draft,
        asks=f"Move {said}",
        words=_WORDS,
        after=After(move.files, move_files, move.moved_path, never=_STAYS),
        undoable=not app.config.policy.visibility.hides_beside_seen,
    )


async def _move_note(app: App, request: ManageRequest, call: CallContext) -> ManageAnswer:
    """Move the note that stands for a folder, with all below it, to stand below another one."""
    if request.folder is None or request.new_folder is None:
        raise _missing_error()
    place = await find_place(app, request.folder)
    if place is None or {*place.above} == {place.id}:
        raise _top_error()
    moving = {"new_folder": None, "ids": [place.id], "folder": request.new_folder}
    asked = request.model_copy(update=moving)
    return await change(app, asked, call, words=_WORDS)


def _folders(app: App, request: ManageRequest) -> tuple[str, str]:
    """Return the folder and its new path. Raises ``InvalidRequest``."""
    if request.folder is None or request.new_folder is None:
        raise _missing_error()
    old, new = (
        clean_folder(app, request.folder),
        clean_folder(app, request.new_folder, spelled=False),
    )
    if not old or not new or f"{path_key(new)}/".startswith(f"{path_key(old)}/"):
        raise _top_error()
    if app.config.policy.visibility.hides_beside_seen:
        # That a name is taken would betray a hidden note.
        new = with_digits(new, seed=old)
    return old, new


def _top_error() -> InvalidRequest:
    return InvalidRequest(
        "The top cannot move, and a folder neither to where it is nor into itself.",
        subcategory="folder",
        resolution_hint="Give another `new_folder`; `change` with `folder` moves single notes.",
    )


def _missing_error() -> InvalidRequest:
    return InvalidRequest(
        "`move_folder` needs `folder` and `new_folder`.",
        resolution_hint="Both are paths from the top; `list_folders` shows them, and `dry_run` what would move.",
    )


async def _survey(app: App, old: str, new: str) -> _Move:
    """Follow the links. Raises ``InvalidRequest`` if something is in the way."""
    found, files, steps = await app.library.paths.survey_move(old, new)
    for _ in steps:
        await asyncio.sleep(0)
    move = _Move(old, new, found.inside, moved=found.moved)
    shown = found.shown if app.config.policy.visibility.hides_beside_seen else None
    move.files = dict.fromkeys(
        one for one in files if move.holds(one) and (shown is None or one in shown)
    )
    if len(move.files) > MOST_FILES:
        raise InvalidRequest(
            f"There are {len(move.files)} files in the folder that are no notes; {MOST_FILES} can move in one call.",
            subcategory="too_many",
            resolution_hint="Move a folder below it first, or tell the user to move it in their file manager.",
        )
    for source, links in found.links.items():
        move.add(source, links)
    for canvas, links in found.canvases.items():
        for link, target in settled({one: target for one, (target, _) in links.items()}).items():
            move.card_links[links[link][1]].setdefault(canvas, {})[link] = target
    there = {*map(path_key, files)}
    parts = new.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    if taken := [one for one in above if path_key(one) in there]:
        raise _taken_error(taken)
    if taken := [one for one in move.files if path_key(move.place_of(one)) in there]:
        raise _taken_error(map(move.place_of, taken))
    return move


async def _draft(app: App, note: Note, move: _Move) -> Draft | None:
    """Return the draft of a note that moves, or that links to a file that moves."""
    own = move.own.get(note.id, {})
    content = replace(note.content, text=rewrite_links(note.text, own) if own else note.text)
    if not move.holds(note.id):
        return make_draft(app, note, content) if own else None
    place = move.place_of(note.id)
    content = replace(content, title=f"{place.rpartition('/')[0]}/{note.title or ''}")
    there = app.library.get(place)
    if there is not None and there.id == place:
        raise NoteLeft("There is a note of its name already.")
    if app.library.preview(note, content)[0] != place:
        raise NoteLeft("Its file cannot keep its name there.")
    counts = await app.library.paths.find_cards(note, content) if move.with_cards else {}
    # One that cannot be read now is changed later, if it is a canvas then.
    cards = {canvas: 1 if count is None else count for canvas, count in counts.items()}
    card_links = move.card_links.get(note.id, {}) if move.with_cards else {}
    for canvas, links in card_links.items():
        cards[canvas] = (cards.get(canvas) or 0) + len(links)
    draft = make_draft(app, note, content)
    relinked = move.to.get(note.id, {})
    require_writable(app, [*relinked, *cards])
    return replace(draft, elsewhere=LinkChanges(relinked, cards, card_links))


def _require_whole(plan: Plan, inside: Iterable[str]) -> None:
    """Raise ``InvalidRequest`` if a note of the folder cannot move: links would lead to where it is not."""
    if stay := [one for one in inside if one in plan.refused]:
        notes = f"{len(stay)} note{'' if len(stay) == 1 else 's'}"
        raise InvalidRequest(
            f"{notes} of the folder cannot move, so nothing was moved: {plan.refused[stay[0]]}",
            subcategory="folder",
            http_status_code=409,
            details=plan.reasons(stay),
            resolution_hint="Give another `new_folder`, or do first what the reasons in `details` ask for.",
        )


async def _require_files(app: App, move: _Move) -> None:
    """Raise ``NotPermitted`` if a file would move that may only be read, or to where that is so, or that such a canvas shows."""
    scope = app.config.policy.writing
    for one in move.files:
        shown = await app.library.paths.find_file_cards(one)
        if not all(map(scope.permits_path, (one, move.place_of(one), *shown))):
            raise scope.refusal(
                "A file of the folder, or a canvas that shows it, may only be read here, so nothing was moved."
            )


def _taken_error(paths: Iterable[str]) -> InvalidRequest:
    named = [*paths]
    return InvalidRequest(
        f"{len(named)} files are in the way, so nothing was moved.",
        subcategory="name_taken",
        http_status_code=409,
        details={"paths": named[:_NAMED]},
        resolution_hint="Give another `new_folder`.",
    )


async def move_all(
    app: App, call: CallContext, files: Iterable[str], paths: FolderPaths, change_id: str
) -> dict[str, str]:
    """Move files from one folder to another, each at its place; return those that stay, with why.

    What is to move is kept first, for the undo.
    """
    old, new = paths.old, paths.new
    below = [one.removeprefix(f"{old}/") for one in files]
    if not below:
        return {}
    if not call.act.begun:
        call.act.begin()  # defence: files-moved-after-record
    kept = app.library.paths.moved_files(change_id)
    earlier = kept[2] if kept is not None else []
    app.library.paths.keep_moved_files(change_id, old, new, [*dict.fromkeys((*earlier, *below))])
    left: dict[str, str] = {}
    for one in below:
        source = f"{old}/{one}"
        if app.usage_limits.writes_left == 0:
            left[source] = "No more changes are permitted now."
            continue
        try:
            with app.usage_limits.write():
                if not await app.library.paths.move_file(source, f"{new}/{one}"):
                    left[source] = "Something has its name there, or it is gone."
        except (StoreError, NotPermitted) as error:
            left[source] = error.message
    return left


async def left_behind(app: App, folder: str) -> dict[str, str]:
    """Remove a folder as far as it is empty; return what lies in it still, with why, unless rules may hide some of that."""
    left = await app.library.paths.remove_folders(folder)
    return {} if app.config.policy.visibility.has_rules else dict.fromkeys(left, _STAYS)
