"""Write one note to Trilium: push and guarded delete.

The server overwrites whatever it is sent and knows no condition. So each write compares the note first, has the
server keep a revision, compares again, and reads the note back; it is compared once more before anything is sent
again. A write of an id that exists would replace that note without a trace: a new note's id is random, and asked
for before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp_notarium.domain.note import PendingWrite
from mcp_notarium.errors import (
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus
from mcp_notarium.stores.http import Reply, Request
from mcp_notarium.stores.json_answers import read_text
from mcp_notarium.stores.trilium import note_codec, write_steps
from mcp_notarium.stores.trilium.moves import Moves, public_error
from mcp_notarium.stores.trilium.note_codec import ROOT, NoteObject, is_possible_id
from mcp_notarium.stores.trilium.note_reader import (
    LARGEST_CONTENT,
    NoteReader,
    read_content,
    require_note,
)
from mcp_notarium.stores.trilium.session import (
    TriliumSession,
    date_of,
    protected_error,
    refusal_of,
    value_of,
)
from mcp_notarium.stores.trilium.urls import Urls

_MADE = "attributeId"


class _CarriedOut(Exception):
    """Report that an earlier try of a request was carried out."""


@dataclass(frozen=True, slots=True)
class NoteWrites:
    """Write notes for the store."""

    session: TriliumSession
    urls: Urls
    reader: NoteReader
    moves: Moves
    sleep: Callable[[float], Awaitable[None]]
    """For tests."""

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. Raises ``VersionConflict`` if the note is not the base any more."""
        body = json.loads(write.body)
        if not is_possible_id(write.note_id):
            raise StoreRejected("Trilium takes no note of this id")
        if write.base_etag is None:
            return await self._create(write, body)
        note = await self._read_base(write.note_id, write.base_etag)
        steps = write_steps.changes(self.urls, note, body, write.write_id)
        if "move" in body:
            return await self._move(note, body, steps)
        if not steps:
            held = await self.reader.revision(note, known=_sent_bytes(body))
            return Acknowledgement(held, PushStatus.UNCHANGED)
        if write_steps.overwrites(steps):
            await self._keep_revision(note.id)
            # A change from here on is overwritten: compared again, as late as can be.
            note = await self._read_base(note.id, write.base_etag)
        return await self._carry_out(note.id, body, steps, base=note)

    async def _move(
        self, note: NoteObject, body: dict[str, Any], steps: list[Request]
    ) -> Acknowledgement:
        """Change the labels of a note, and then its place. What labels that gives it is nobody's change."""
        if steps:
            changed = await self._carry_out(note.id, body, steps, base=note)
            try:
                note = await self._read_base(note.id, changed.revision.etag)
                note = await self.moves.carry_out(note, body["move"])
            except (StoreError, LoginRequired, NoteNotFound) as error:
                raise OutcomeUnknown("the note has its labels, and not yet its place") from error
        else:
            note = await self.moves.carry_out(note, body["move"])
        note, content = await self.reader.content(note, known=_sent_bytes(body))
        alone = write_steps.is_as_sent(body, note, content, new=True)
        return Acknowledgement(await read_content(note, content), PushStatus.STORED, alone=alone)

    async def make_day(self, day: str) -> str:
        """Let the server make the calendar's note of a day, with its month and year, unless it is there; return its id.

        The address answers with the note that the label names, so a repeated request makes nothing.
        """
        url = self.urls.api("calendar", "days", day)
        reply = await self.session.send(Request("GET", url))
        if not reply.ok:
            raise refusal_of(reply)
        note = note_codec.note_object(value_of(reply))
        # defence: day-made-is-that-day =False
        if not is_possible_id(note.id) or not note_codec.is_of_day(note, day):
            raise StoreProtocolError("Trilium answered another note than that of the day")
        if note.protected:
            raise protected_error()
        return note.id

    async def _keep_revision(self, note_id: str) -> None:
        """Have the server keep what the note is now."""
        reply = await self.session.send(write_steps.revision(self.urls, note_id))
        if not reply.ok:
            raise refusal_of(reply)
        if reply.body.strip():
            raise StoreProtocolError("what answered the request for a revision is not Trilium")

    async def _read_base(self, note_id: str, etag: str) -> NoteObject:
        """Read the note that an edit was made from. Raises ``VersionConflict`` if it is another by now.

        A comparison with a copy that a proxy has kept would overwrite what came since.
        """
        note = await self.reader.note(note_id, cached=False)
        if note.protected:
            raise protected_error()
        if note.etag != etag:  # defence: compared-right-before-write
            raise _changed_error(note)
        return note

    async def _create(self, write: PendingWrite, body: dict[str, Any]) -> Acknowledgement:
        """Create a note, unless it is there: then an earlier try has made it."""
        try:
            made = await self.reader.note(write.note_id)
        except NoteNotFound:
            await self._require_told(body)
            steps = write_steps.creation(self.urls, write.note_id, body, write.write_id)
            return await self._carry_out(write.note_id, body, steps)
        return Acknowledgement(await self.reader.revision(made), PushStatus.REPEATED)

    async def _require_told(self, body: dict[str, Any]) -> None:
        """Raise ``StoreRejected`` for a new note that would be public, and the body does not say so."""
        if "public" in body or body["parent"] == ROOT:
            return
        with suppress(NoteNotFound):  # the server says that better
            # defence: made-public-only-if-asked =False
            if await self.moves.is_public(body["parent"]):
                raise public_error()

    async def _carry_out(
        self,
        note_id: str,
        body: dict[str, Any],
        steps: list[Request],
        *,
        base: NoteObject | None = None,
    ) -> Acknowledgement:
        """Send the requests of a write one after the other, and read the note back.

        ``base``: the note before the write. From the first change on no error promises any more that nothing was
        written.
        """
        begun = False
        sent = _sent_bytes(body)
        try:
            for step in steps:
                again = None
                if base is not None and write_steps.overwrites([step]):
                    again = partial(self._compare_again, step, body, base, begun)
                reply = await self._send_once(
                    replace(step, withdrawable=not begun, before_again=again)
                )
                if reply is not None:
                    _require_answer(step, reply)
                begun = begun or step.write
            if reply is not None and steps[-1].method == "PATCH":
                note = note_codec.note_object(require_note(value_of(reply), note_id))
            else:
                note = await self.reader.note(note_id)
            if base is not None and note.etag == base.etag:  # defence: no-change-no-confirmation
                raise StoreProtocolError("the write was answered, and the note is as it was")
            note, content = await self.reader.content(note, known=sent)
            stored = await read_content(note, content)
        except (StoreError, LoginRequired, NoteNotFound) as error:
            if not begun or isinstance(error, OutcomeUnknown):
                raise
            raise OutcomeUnknown(
                "a part of the write was carried out, and then it failed"
            ) from error
        alone = write_steps.is_as_sent(body, note, content, new=write_steps.creates(steps))
        return Acknowledgement(stored, PushStatus.STORED, alone=alone)

    async def _send_once(self, step: Request) -> Reply | None:
        """Send a request; None: an earlier try of it was carried out, and its answer was lost."""
        try:
            return await self.session.send(step)
        except _CarriedOut:
            return None

    async def _compare_again(
        self,
        step: Request,
        body: dict[str, Any],
        base: NoteObject,
        begun: bool,  # noqa: FBT001
        in_doubt: bool,  # noqa: FBT001
    ) -> None:
        """Raise what keeps a request from being sent again: others may have written while no answer came."""
        try:
            note = await self.reader.note(base.id, cached=False)
        except (StoreError, LoginRequired, NoteNotFound) as error:
            if not in_doubt:
                raise
            raise OutcomeUnknown("a write had no answer, and the note cannot be read") from error
        if write_steps.finds_base(step, note, base):
            return
        if in_doubt and write_steps.finds_itself(step, note, body):
            raise _CarriedOut
        if in_doubt or begun:
            raise OutcomeUnknown("a write had no answer, and the note has changed since")
        raise _changed_error(note)

    async def delete(self, note_id: str, *, etag: str) -> None:
        """See ``Store.delete``. A note with others below it is refused: they would go with it.

        Trilium lists it under its recent changes for a week; this API shows no way back.
        """
        try:
            note = await self.reader.note_or_gone(note_id, cached=False)
            if await self._wait_for_images(note):
                note = await self.reader.note(note_id, cached=False)
        except NoteNotFound:
            return
        if note.children:
            raise StoreRejected(
                "the note has other notes below it, which Trilium would delete as well; nothing was deleted",
                subcategory="has_children",
                resolution_hint="Ask the user to move or delete them in Trilium first.",
            )
        if note.protected or note.etag != etag:
            raise VersionConflict("the note has changed at Trilium", details={"id": note_id})
        again = partial(self._compare_deletion, note)
        reply = await self._send_once(
            replace(write_steps.deletion(self.urls, note_id), before_again=again)
        )
        if reply is None:
            return
        if not reply.ok:
            raise refusal_of(reply)
        if reply.body.strip():
            # The server answers without a body; a page with text comes from a proxy in between.
            await self._require_absence(note_id)

    async def _compare_deletion(self, base: NoteObject, in_doubt: bool) -> None:  # noqa: FBT001
        """Raise what keeps a deletion from being sent again; see :meth:`_compare_again`."""
        try:
            note = await self.reader.note_or_gone(base.id, cached=False)
        except NoteNotFound:
            raise _CarriedOut from None
        except (StoreError, LoginRequired) as error:
            if not in_doubt:
                raise
            raise OutcomeUnknown("a deletion had no answer, and the note cannot be read") from error
        if note.etag != base.etag or note.children:
            if in_doubt:
                raise OutcomeUnknown("a deletion had no answer, and the note has changed since")
            raise _changed_error(note)

    async def _require_absence(self, note_id: str) -> None:
        try:
            await self.reader.note_or_gone(note_id)
        except NoteNotFound:
            return
        except (StoreError, LoginRequired) as error:
            raise OutcomeUnknown("a deletion was answered, and nobody can tell by whom") from error
        raise StoreProtocolError("what answered a deletion is not Trilium; the note is there")

    async def _wait_for_images(self, note: NoteObject) -> bool:
        """Wait until the server has looked after the images of a text that was written a moment ago."""
        url = self.urls.api("notes", note.id, "content")
        with suppress(StoreError):  # the deletion meets the same trouble, and says so
            reply = await self.session.send(Request("GET", url, largest=LARGEST_CONTENT))
            pause = write_steps.pause_before_deletion(note, reply.body, date=date_of(reply))
            if pause > 0:
                await self.sleep(pause)
                return True
        return False


def _require_answer(step: Request, reply: Reply) -> None:
    """Raise what keeps a write from going on after this answer."""
    if not reply.ok:
        raise refusal_of(reply)
    if step.method == "POST":  # the old value of a label goes next
        asked = read_text(step.body or b"", _MADE)
        other = read_text(reply.body, _MADE) != asked
    else:
        # The server answers these without a body; a page with text comes from a proxy in between.
        other = step.method in ("PUT", "DELETE") and bool(reply.body.strip())
    if other:
        raise OutcomeUnknown("what answered a write is not Trilium")


def _changed_error(note: NoteObject) -> VersionConflict:
    return VersionConflict("the note has changed at Trilium", details={"id": note.id})


def _sent_bytes(body: dict[str, Any]) -> bytes | None:
    """Return the content that the note has after the write, if it was read or is sent."""
    content = body["content"]
    return None if content is None else str(content).encode()
