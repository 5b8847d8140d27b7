"""Give a note of Trilium another place in the tree, so that it never has none, and tell which notes everybody may read then.

The API has no request that moves. It makes a second place, and deletes the first; with its last one it would delete the note, and all
below it. So the new place is read back before the old one goes, each time that goes, by the id that the server gives it. A move that was
cut off between the two leaves the note at both places; what repeats it reads which there are, and goes on. Places below Trilium's own
notes (bookmarks, shared notes) do not count: the server deletes a note that has no others.

The server does not look whether a note comes to stand below itself. Then nothing leads to it from the root any more, and no search works.
So that is asked before a move, and again after it, for others move notes too.

Trilium publishes a note that its user shares, and all that stands below it, at once and whatever its labels say. So a place makes a
note public, and a label with a password alone limits who reads it. An edit of a note that is public already changes what is read, and
publishes no note.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any, NoReturn, TypedDict

from mcp_notarium.domain.note import Content, Published, Revision
from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.extensions import Replaced
from mcp_notarium.stores.http import Reply, Request, each
from mcp_notarium.stores.json_answers import read_text, to_json
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import (
    ROOT,
    SHARE,
    SHARE_LOGIN,
    NoteObject,
    is_possible_id,
)
from mcp_notarium.stores.trilium.note_reader import NoteReader
from mcp_notarium.stores.trilium.session import TriliumSession, refusal_of, value_of
from mcp_notarium.stores.trilium.urls import Urls

NAME = "place in the tree"
_JSON = {"content-type": "application/json"}
_BAD_REQUEST = 400
_GONE = "the note, or the one to move it below, does not exist any more"
_BELOW_ITSELF = "a note cannot stand below itself"
_DEEPEST = 200
"""Levels of notes above another that are followed."""


Branch = dict[str, Any]
"""A place of a note, as the server names what it has."""


class Move(TypedDict, total=False):
    """Hold what a body says of a move: ids of the notes above, and what the new place has."""

    old: str
    new: str
    others: list[str]
    """Places that stay."""
    inherited: list[list[str]]
    """The labels that the note gets there: name and value of each."""
    prefix: str | None
    position: int | None
    """None: the end."""
    public: bool
    """The note becomes public there, and the caller knows it."""


@dataclass(frozen=True, slots=True)
class Above:
    """Hold notes and all above them."""

    parents: Mapping[str, Sequence[str]]
    """The ids of those right above each."""
    shared: Collection[str]
    """Those that are shared themselves."""

    def reaches_root(self, notes: Iterable[str]) -> bool:
        """Tell whether a way leads up from one of these notes to the root."""
        return ROOT in self._find_all(notes)

    def is_public(self, *notes: str) -> bool:
        """Tell whether one of these notes is shared, or one above it: Trilium publishes all that stands below a shared note."""
        return not self._find_all(notes).isdisjoint(self.shared)

    def _find_all(self, notes: Iterable[str]) -> set[str]:
        seen, waiting = set[str](), [*notes]
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += self.parents.get(one, ())
        return seen


@dataclass(frozen=True, slots=True)
class Moves:
    """Move notes for the store."""

    session: TriliumSession
    urls: Urls
    reader: NoteReader

    async def find_replaced(self, note_id: str, body: bytes) -> Replaced | None:
        """Return the place that a body replaces now, as ``compose`` takes it; None if it moves nothing.

        Raises ``VersionConflict`` if the note has left the place that it is to be moved from.
        """
        move: Move | None = json.loads(body).get("move")
        if move is None:
            return None
        row = await self.reader.object(note_id, cached=False)
        note = note_codec.note_object(row)
        if has_arrived(note, move):
            return Replaced()
        branch = await self._read_branch(row, move["old"])
        back = Move(old=move["new"], new=move["old"])
        back["inherited"] = [list(one) for one in note.inherited]
        back["prefix"], back["position"] = branch.get("prefix"), branch.get("notePosition")
        return Replaced(to_json({"move": back}), (NAME,), to_json({"move": move}))

    async def find_above(self, *note_ids: str) -> Above:
        """Return notes and all above them that are not Trilium's own.

        Raises ``NoteNotFound``, and ``StoreProtocolError`` for too many levels.
        """
        above: dict[str, list[str]] = {ROOT: []}
        shared = set[str]()
        level = [one for one in {*note_ids} if one != ROOT]
        for _ in range(_DEEPEST):
            for note_id, parents in await each(level, self._read_parents):
                above[note_id] = [one for one in parents if not one.startswith("_")]
                shared |= {note_id} if SHARE in parents else set()
            level = [*{up for one in level for up in above[one] if up not in above}]
            if not level:
                return Above(above, shared)
        raise StoreProtocolError("there are too many notes above this one")

    async def _read_parents(self, note_id: str) -> tuple[str, list[str]]:
        row = await self.reader.object(note_id, cached=False)
        return note_id, [one for one in row.get("parentNoteIds") or () if isinstance(one, str)]

    async def is_public(self, note_id: str) -> bool:
        """Tell whether everybody may read a note."""
        return (await self.find_above(note_id)).is_public(note_id)

    async def find_inside(
        self, note_id: str, body: bytes | None, tops: Collection[str]
    ) -> set[str]:
        """See ``MovingStore.find_inside``. Each note above is read, for no answer of an earlier moment tells where it stands."""
        said = json.loads(body) if body is not None else {}
        move: Move | None = said.get("move")
        if not note_id or move is not None:
            below = move["new"] if move is not None else said["parent"]
            above = (await self.find_above(below, *([note_id] if note_id else ()))).parents
            others = [one for one in above.get(note_id, ()) if move and one != move["old"]]
            starts = [below, *others]
        else:
            above, starts = (await self.find_above(note_id)).parents, [note_id]
        return {top for top in tops if _is_inside(starts, top, above)}

    async def find_published(self, base: Revision | None, content: Content) -> Published | None:
        """See ``PublishingStore.find_published``."""
        said = json.loads(content.native) if content.native else {}
        if base is None:
            return Published(frozenset({""}), said["parent"]) if "public" in said else None
        move = said.get("move", {})
        if move.get("public"):
            below = await self._find_below(base.id)
            return Published(frozenset({base.id, *below}), move["new"])
        password = base.content.properties.get(SHARE_LOGIN)
        # defence: password-of-a-public-note =False
        if password is not None and content.properties.get(SHARE_LOGIN) != password:
            places = {base.id, move.get("new", base.id)}  # it may leave what is public
            if all([await self.is_public(one) for one in places]):
                return Published(frozenset({base.id}))
        return None

    async def _find_below(self, note_id: str) -> list[str]:
        if not (await self.reader.object(note_id, cached=False)).get("childNoteIds"):
            return []
        url = self.urls.search(f'note.ancestors.noteId = "{note_id}"', archived=True)
        return [one.id for one in self.reader.notes_of(await self.reader.found(url))]

    async def find_public_day(self, day: str) -> str:
        """See ``PublishingStore.find_public_day``: the calendar makes a note below the nearest of these that is there."""
        rows = await each([*_labels_above(day)], self._find_labelled)
        found = [note_id for ids in rows for note_id in ids]
        try:
            above = await self.find_above(*found)
        except NoteNotFound:  # one went at this moment
            return found[0]
        return next((one for one in found if above.is_public(one)), "")

    async def _find_labelled(self, label: tuple[str, str]) -> list[str]:
        name, value = label
        query = f'#{name} = "{value}"' if value else f"#{name}"
        rows = await self.reader.found(self.urls.search(query, archived=True))
        return [row["noteId"] for row in rows if _has(row, name, value)]

    async def carry_out(self, note: NoteObject, move: Move) -> NoteObject:
        """Move a note that was just read, unless it has arrived; return it as it is then.

        Raises ``StoreRejected`` and ``VersionConflict`` if the note is where it was, and ``OutcomeUnknown`` if a part of it was done.
        """
        begun = move["new"] in note.places
        try:
            if not begun:
                await self._add(note, move)
                begun = True
            old: Branch = {}
            if not has_arrived(note, move):
                note, old = await self._remove_old(note.id, move)
            await self._require_reachable(note, move, old)
        except _TakenBack as taken_back:
            raise taken_back.why from None
        except (StoreError, LoginRequired, NoteNotFound, VersionConflict) as error:
            if not begun or isinstance(error, OutcomeUnknown):
                raise
            raise OutcomeUnknown("a part of the move was carried out") from error
        return note

    async def _require_fit(self, note: NoteObject, move: Move) -> None:
        """Raise ``StoreRejected`` for a place that is no place, or below the note itself: the server looks at neither."""
        try:
            above = await self.find_above(move["new"])
        except NoteNotFound:
            raise _unfit_error(_GONE) from None
        # defence: no-note-below-itself
        if note.id in above.parents:
            raise _unfit_error(_BELOW_ITSELF)
        if not above.reaches_root([move["new"]]):
            raise _unfit_error("the note to move it below is one of Trilium's own")
        # defence: published-only-if-asked =False
        if above.is_public(move["new"]) and not (
            move.get("public") or await self.is_public(note.id)
        ):
            raise public_error()

    async def _add(self, note: NoteObject, move: Move) -> None:
        """Make the second place, if it is fit at this moment. The same request again changes nothing."""
        row = await self.reader.object(note.id, cached=False)
        old = await self._read_branch(row, move["old"])
        await self._require_fit(note, move)
        await self._place(note.id, move["new"], old | _kept(move))

    async def _place(self, note_id: str, parent: str, said: Branch) -> None:
        """Make a place with the prefix and the position that another one has, open in the tree if that is."""
        place: Branch = {"noteId": note_id, "parentNoteId": parent}
        for name in ("prefix", "notePosition", "isExpanded"):
            value = said.get(name)
            is_usual = value is None or value is False or value == ""  # a position may be 0
            place |= {} if is_usual else {name: value}
        request = Request(
            "POST",
            self.urls.api("branches"),
            headers=_JSON,
            body=to_json(place),
            write=True,
            withdrawable=True,
        )
        reply = await self.session.send(request)
        if not reply.ok:
            raise _unfit_error(_GONE) if reply.status == _BAD_REQUEST else refusal_of(reply)
        if "notePosition" in place:
            await self.session.send(
                Request("POST", self.urls.api("refresh-note-ordering", parent), headers=_JSON)
            )

    async def _remove_old(self, note_id: str, move: Move) -> tuple[NoteObject, Branch]:
        """Delete the old place of a note that is seen to have the new one; return the note, and what was deleted."""
        old = await self._require_both(note_id, move)
        if old:
            request = Request(
                "DELETE",
                self.urls.api("branches", old["branchId"]),
                write=True,
                before_again=partial(self._compare_again, note_id, move),
            )
            try:
                reply: Reply | None = await self.session.send(request)
            except _CarriedOut:
                reply = None
            if reply is not None and not reply.ok:
                raise refusal_of(reply)
        return await self._read_back(note_id, move), old

    async def _require_both(self, note_id: str, move: Move) -> Branch:
        """Return the old place, if the note has the new one too; an empty one: it is gone.

        Raises ``VersionConflict`` if the new one is not there. The new one goes if somebody else gives the note a place at this moment:
        of two that move it, each sees the other, or the later one sees the earlier.
        """
        row = await self.reader.object(note_id, cached=False)
        known = {move["old"], move["new"], *move.get("others", ())}
        # defence: two-moves-make-no-clone
        if not known.issuperset(note_codec.note_object(row).places):
            await self._take_back(note_id, move, _elsewhere_error(row))
        old: Branch = {}
        with suppress(VersionConflict):
            old = await self._read_branch(row, move["old"])
        # Last, for whatever takes it away after this is not seen before the old place goes.
        await self._read_branch(row, move["new"])  # defence: last-place-stays
        return old

    async def _read_branch(self, row: dict[str, Any], parent: str) -> Branch:
        """Return the branch from a note to one above it, by the id that the note names.

        Raises ``VersionConflict`` if the note does not stand there, and ``StoreProtocolError`` for another branch.
        """
        parents, branches = row.get("parentNoteIds"), row.get("parentBranchIds")
        if not (isinstance(parents, list) and isinstance(branches, list)):
            raise StoreProtocolError("Trilium names no places of the note")
        branch_id = dict(zip(parents, branches, strict=False)).get(parent)
        if not isinstance(branch_id, str):
            raise _elsewhere_error(row)
        reply = await self.session.send(Request("GET", self.urls.api("branches", branch_id)))
        if read_text(reply.body, "code") == "BRANCH_NOT_FOUND":
            raise _elsewhere_error(row)
        found = value_of(reply)
        keys = ("branchId", "noteId", "parentNoteId")
        wanted = (branch_id, row["noteId"], parent)
        if not isinstance(found, dict) or tuple(map(found.get, keys)) != wanted:
            raise StoreProtocolError("Trilium answered another place than the one asked for")
        return found

    async def _compare_again(self, note_id: str, move: Move, in_doubt: bool) -> None:  # noqa: FBT001
        """Raise what keeps the deletion of the old place from being sent again."""
        del in_doubt
        if not await self._require_both(note_id, move):
            raise _CarriedOut

    async def _read_back(self, note_id: str, move: Move) -> NoteObject:
        """Return the note after its move."""
        note = await self._read_here(note_id)
        if not has_arrived(note, move):
            raise OutcomeUnknown("the note was moved by somebody else at this moment")
        return note

    async def _read_here(self, note_id: str) -> NoteObject:
        """Return a note of which a place was deleted. One that is gone was taken from the other at this moment: it is brought back."""
        try:
            return note_codec.note_object(await self.reader.object(note_id, cached=False))
        except NoteNotFound:
            await self._bring_back(note_id)
            raise OutcomeUnknown(
                "somebody has taken the note from its other place at this moment"
            ) from None

    async def _require_reachable(self, note: NoteObject, move: Move, old: Branch) -> None:
        """Put a moved note back if the one above it was moved below it at this moment."""
        above = await self.find_above(*note.places)
        # defence: moved-note-is-reached
        if not above.reaches_root(note.places):
            await self._place(note.id, move["old"], old)
            await self._take_back(note.id, move, _unfit_error(_BELOW_ITSELF))

    async def _take_back(self, note_id: str, move: Move, why: NotariumError) -> NoReturn:
        """Delete the new place, if the note has another one. Raises ``_TakenBack``."""
        row = await self.reader.object(note_id, cached=False)
        added = await self._read_branch(row, move["new"])
        if len(note_codec.note_object(row).places) == 1:
            raise VersionConflict("the note has no other place any more")
        url = self.urls.api("branches", added["branchId"])
        reply = await self.session.send(Request("DELETE", url, write=True, tries=1))
        if not reply.ok:
            raise refusal_of(reply)
        await self._read_here(note_id)
        raise _TakenBack(why)

    async def _bring_back(self, note_id: str) -> None:
        """Ask for a note again that went with its last place; servers before 0.102 cannot."""
        url = self.urls.api("notes", note_id, "undelete")
        await self.session.send(Request("POST", url, headers=_JSON, write=True))


class _CarriedOut(Exception):
    """Report that an earlier try of the deletion was carried out."""


class _TakenBack(Exception):
    """Report that the new place was deleted again: the note is where it was, or where somebody else has moved it."""

    def __init__(self, why: NotariumError) -> None:
        super().__init__()
        self.why = why


def _is_inside(starts: Iterable[str], top: str, above: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether every way up from these notes leads through ``top``."""
    seen, waiting, found = set[str](), [*starts], False
    while waiting:
        one = waiting.pop()
        if one == top:
            found = True
        elif not above.get(one):  # the root, or a note that stands nowhere
            return False
        elif one not in seen:
            seen.add(one)
            waiting += above[one]
    return found


def _kept(move: Move) -> Branch:
    """Return what a place is to have that a note comes back to."""
    kept: Branch = {"prefix": move["prefix"]} if "prefix" in move else {}
    return kept | {"notePosition": move.get("position")}


def has_arrived(note: NoteObject, move: Move) -> bool:
    """Tell whether the note has left its old place for the new one."""
    return move["new"] in note.places and move["old"] not in note.places


def _elsewhere_error(row: Mapping[str, Any]) -> VersionConflict:
    return VersionConflict("the note has got another place", details={"id": row["noteId"]})


def public_error() -> NotariumError:
    """Return the error for a note that would become public, and nobody was asked."""
    return StoreRejected(
        "the note would be public there, for the note above was shared just now; nothing was saved",
        subcategory="public",
        resolution_hint="Repeat the call if the user wants that: then they are asked about it.",
    )


def _unfit_error(why: str) -> NotariumError:
    return StoreRejected(
        why,
        subcategory="folder",
        resolution_hint="`list_folders` shows the notes that have others below them.",
    )


def _has(row: Mapping[str, Any], name: str, value: str) -> bool:
    labels = [(one["name"], one["value"] if value else "") for one in row["attributes"]]
    return is_possible_id(row["noteId"]) and (name, value) in labels


def _labels_above(day: str) -> Iterator[tuple[str, str]]:
    """Yield the labels of the notes below which the calendar may make the note of a day: week, month, quarter, year, and its root."""
    at = date.fromisoformat(day)
    for days in (0, -7, 7):  # which day a week begins with is a setting of the server
        year, week, _ = (at + timedelta(days)).isocalendar()
        yield "weekNote", f"{year}-W{week:02}"
    yield "monthNote", day[:7]
    yield "quarterNote", f"{day[:4]}-Q{(at.month + 2) // 3}"
    yield "yearNote", day[:4]
    yield "workspaceCalendarRoot", ""
    yield "calendarRoot", ""
