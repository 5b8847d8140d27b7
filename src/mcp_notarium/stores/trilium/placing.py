"""Tell what a note becomes at another place of the tree, before it moves: which labels it gets there, and whether it may.

Labels that are inheritable come with the place, and rules of the policy go by labels. So a note whose place changes is judged as it
will be. What stands below it gets them too, and perhaps is hidden: where rules hold, a note with others below it moves only if nothing
changes for these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from mcp_notarium.domain.note import Content, Properties, Revision
from mcp_notarium.errors import NoteLeft, NoteNotFound, StoreRejected
from mcp_notarium.stores.extensions import TreePlace
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.moves import Move, Moves
from mcp_notarium.stores.trilium.note_codec import TreeNote
from mcp_notarium.stores.trilium.note_reader import NoteReader

_RELATIONS = ("template", "inherit")
"""Relations by which a note gets the attributes of another one."""
_LABEL = "label"
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Place(TreePlace):
    """Hold a note below which another may come to stand, and what it gets there."""

    passes_on: Collection[Key]
    """Attributes that such a note gets from it."""
    clear: bool
    """All of its own attributes are understood."""
    public: bool
    """Everybody may read what stands below it."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Read the places of one server."""

    reader: NoteReader
    moves: Moves
    sees: Callable[[TreeNote], bool]
    """Tell whether the policy shows a note."""

    async def place(self, note: TreeNote) -> Place:
        """Return a note as a place for others."""
        above = await self.moves.find_above(note.id)
        public = above.is_public(note.id)
        return Place(
            note.id, above.parents, _passed_on(note), clear=note.tags_understood, public=public
        )

    async def find_move(self, note: TreeNote, place: Place, *, strict: bool) -> Move | None:
        """Return what takes a note to a place; None: it stands there. ``note``: as the server has just answered it. See ``TreeReads.moved``."""
        if note.id in place.above:
            raise NoteLeft("It cannot stand below itself.")
        if place.id in note.parents:
            return None
        parents = [await self._read(one) for one in note.parents]
        people = [one for one in parents if one.id in of_people(note.parents)]
        # A place that is hidden is none for the caller, and stays: the note looks as if it stood at the others alone.
        old = [one for one in people if self.sees(one) or one.id == note_codec.ROOT] or people
        if len(old) != 1:
            raise NoteLeft(
                "It stands at several places, and which one to leave cannot be said here: ask the user to move it."
            )
        stays = {*place.passes_on}.union(*(_passed_on(one) for one in parents if one is not old[0]))
        now = [key for key in _keys(note) if key[0] != note.id]
        after = [key for key in now if key in stays or key not in _passed_on(old[0])]
        after += sorted(stays.difference(after))
        if strict:
            _require_clear(note, {*now} ^ {*after}, place)
        labels = [(name, value) for _, kind, name, value in after if kind == _LABEL]
        inherited = [list(one) for one in note_codec.shown_labels(labels)]
        others = [one.id for one in people if one is not old[0]]
        move = Move(old=old[0].id, new=place.id, others=others, inherited=inherited)
        if place.public and not await self._is_as_public(note, parents, now, after):
            move["public"] = True
        return move

    async def _is_as_public(
        self, note: TreeNote, parents: list[TreeNote], now: list[Key], after: list[Key]
    ) -> bool:
        """Tell whether everybody may read a note already who could at its new place, as far as places tell that are not hidden."""
        seen = [one.id for one in parents if self.sees(one)]
        if note_codec.SHARE not in note.parents:
            above = await self.moves.find_above(*seen)
            if not above.is_public(*seen):
                return False
        return _passwords(now) in ([], _passwords(after))

    async def _read(self, note_id: str) -> TreeNote:
        try:
            return note_codec.tree_note(await self.reader.object(note_id))
        except NoteNotFound:
            raise NoteLeft("The note that it stands below is gone.") from None


def read_move(native: str) -> Move:
    """Return what ``Content.native`` says of a move."""
    move: Move = json.loads(native)["move"]
    return move


def moved_content(base: Revision, content: Content, move: Move) -> Content:
    """Return what a note becomes that is changed and also moved. Raises ``NoteLeft``."""
    try:
        note_codec.compose(
            base, content
        )  # what is inherited where it stands is not changed here either
        return _with(note_codec.moved_content(base, content, move), move)
    except StoreRejected as error:
        raise NoteLeft(error.message) from None


def content_back(base: Revision, content: Content, kept: Move, there: Move) -> Content:
    """Return what a version has said, of which ``kept`` was written when it was replaced, with the labels of its place as they are now."""
    above = {name for name, _ in kept.get("inherited", [])}
    properties = {name: value for name, value in content.properties.items() if name not in above}
    own = replace(
        content,
        tags=tuple(one for one in content.tags if one not in above),
        properties=Properties(properties),
    )
    move = there | Move(prefix=kept.get("prefix"), position=kept.get("position"))
    return _with(note_codec.moved_content(base, own, move), move)


def _with(content: Content, move: Move) -> Content:
    return replace(content, native=to_json({"move": move}).decode())


def of_people(parents: Iterable[str]) -> list[str]:
    """Return the ids of those among the notes above another that are not Trilium's own."""
    return [one for one in parents if not one.startswith("_")]


def _require_clear(note: TreeNote, changes: set[Key], place: Place) -> None:
    """Raise ``NoteLeft`` if a move changes what rules of the policy go by, and nobody can tell before how."""
    if not place.clear or any(kind != _LABEL for _, kind, _, _ in changes):
        raise NoteLeft(
            "Which labels it would have there cannot be told before, and rules go by these."
        )
    # defence: rules-hold-below-a-moved-note
    if note.children and changes:
        raise NoteLeft(
            "Notes stand below it that would get other labels, and rules go by these: ask the user to move it."
        )


def _passwords(keys: list[Key]) -> list[str]:
    return sorted(value for _, _, name, value in keys if name == note_codec.SHARE_LOGIN)


def _keys(note: TreeNote) -> list[Key]:
    return [(one["noteId"], one["type"], one["name"], one["value"]) for one in note.attributes]


def _passed_on(note: TreeNote) -> set[Key]:
    """Return what a note below this one gets from it: owner, type, name and value."""
    keys = zip(_keys(note), note.attributes, strict=True)
    return {
        key
        for key, one in keys
        if one["isInheritable"] is True and (one["type"] == _LABEL or one["name"] in _RELATIONS)
    }
