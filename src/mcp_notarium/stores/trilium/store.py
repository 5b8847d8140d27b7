"""Serve the notes of a Trilium server as a note store.

The server overwrites whatever it is sent and knows no condition. So each write compares the note first, keeps
a revision there, and reads the note back. A write of an id that exists would replace that note without a
trace: a new note's id is random, and asked for before it is used. No calendar address is ever asked for:
reading one makes notes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import TokenStore
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    VersionPage,
    Versions,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.extensions import NoteIndex
from mcp_notarium.stores.http import MIB, HttpSession, Reply, Request, each
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium import note_codec, write_steps
from mcp_notarium.stores.trilium.change_probe import ChangeProbe
from mcp_notarium.stores.trilium.kind import KIND
from mcp_notarium.stores.trilium.native import NativeTrilium
from mcp_notarium.stores.trilium.note_codec import NoteObject, is_possible_id
from mcp_notarium.stores.trilium.note_reader import (
    LARGEST_CONTENT,
    NoteReader,
    read_content,
    require_note,
)
from mcp_notarium.stores.trilium.revisions import Revisions
from mcp_notarium.stores.trilium.session import (
    TriliumSession,
    date_of,
    protected_error,
    refusal_of,
    value_of,
)
from mcp_notarium.stores.trilium.urls import Urls


class _CarriedOut(Exception):
    """An earlier try of a request was carried out."""


class TriliumStore:
    """Reach the notes of one server. ``session`` and ``sleep`` are for tests."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        KIND.ids,
        Retry.ASK,
        probe=True,
        titles=KIND.titles,
        is_markdown=note_codec.is_markdown,
        dates=False,
        versions=Versions.LISTED,
        given=note_codec.given,
        own_form=note_codec.as_it_was,
        compares=True,
        max_note_bytes=MIB,
    )
    codec_version = note_codec.VERSION

    def __init__(
        self,
        *,
        urls: Urls,
        token: Secret | None,
        tokens: TokenStore,
        timeout: float,
        session: HttpSession | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        session = session or HttpSession(
            bases=[urls.base], timeout=timeout, plain_http=urls.plain_http
        )
        self.http: HttpSession = session
        self._session = TriliumSession(session, token=token, tokens=tokens)
        self._urls = urls
        self._reader = NoteReader(self._session, urls)
        self._probe = ChangeProbe(session, self._session, urls, self._reader)
        self._revisions = Revisions(self._session, urls, self._reader)
        self._listed: dict[str, tuple[tuple[NoteObject, ...], int]] = {}
        """Mark -> the listing it belongs to, and its place there. One listing is kept."""

    def native(self, index: NoteIndex) -> NativeTrilium:
        """Return what the native tools read."""
        return NativeTrilium(self._reader, self._urls, index)

    # Reading

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. One request lists all notes; its later pages come from memory."""
        left_out, cursor = 0, ""
        if mark is None:
            before = await self._probe.before_listing()
            notes, left_out = await self._reader.everything()
            place, newest = 0, notes[0].modified if notes else 0.0
            cursor = replace(before, newest=newest).cursor()
        elif mark in self._listed:
            notes, place = self._listed[mark]
        else:
            raise CursorLost("the place in the listing is not known")
        page = notes[place : place + max(1, limit)]
        end = place + len(page)
        self._listed = {} if end >= len(notes) else {random_id(f"{id(notes)}/{end}"): (notes, end)}
        entries = await self._entries(page, with_content=with_content)
        return ListingPage(entries, cursor, next(iter(self._listed), None), len(notes), left_out)

    async def _entries(
        self, notes: tuple[NoteObject, ...], *, with_content: bool
    ) -> tuple[Revision | Entry, ...]:
        if not with_content:
            return tuple(Entry(note.id, note.etag) for note in notes)

        async def read(note: NoteObject) -> Revision | Entry | None:
            try:
                return await self._reader.revision(note)
            except NoteNotFound:
                return None
            except StoreProtocolError:
                return Entry(note.id, note.etag)  # this note is asked for by itself, later

        return tuple(await each(notes, read))

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002 - there is nothing to wait for
        """See ``Store.changes``. What is not certain shows in the next listing: see ``change_probe``."""
        notes, moved = await self._probe.since(cursor, base_of)
        return ChangePage(tuple(Entry(note.id, note.etag) for note in notes), moved)

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``. A protected note is none here: what the index holds of it goes.

        An older revision has an id of its own as its etag.
        """
        if etag is not None:
            return await self._revisions.get(note_id, etag)
        return await self._reader.revision(await self._note_or_gone(note_id))

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        return await self._revisions.list_page(note_id, before=before, limit=limit)

    async def find_version(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """See ``ListingStore.find_version``."""
        return await self._revisions.find(note_id, content, at=at, now=now)

    # Composing

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:  # noqa: ARG002
        """See ``Store.compose``. Raises ``StoreRejected`` for an edit that would lose something."""
        return to_json(note_codec.compose(base, content.cleaned()))

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return Revision(note_id, "", note_codec.content_of(json.loads(body)), 0.0, 0.0, b"")

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``."""
        del content, attempt
        return random_id(seed)

    # Writing

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. Raises ``VersionConflict`` if the note is not the base any more."""
        body = json.loads(write.body)
        if not is_possible_id(write.note_id):
            raise StoreRejected("Trilium takes no note of this id")
        if write.base_etag is None:
            return await self._create(write, body)
        note = await self._read_base(write.note_id, write.base_etag)
        steps = write_steps.changes(self._urls, note, body, write.write_id)
        if not steps:
            held = await self._reader.revision(note, known=_sent_bytes(body))
            return Acknowledgement(held, PushStatus.UNCHANGED)
        if write_steps.overwrites(steps):
            await self._keep_revision(note.id)
            # Whoever writes from here on is overwritten: compared again, as late as can be.
            note = await self._read_base(note.id, write.base_etag)
        return await self._carry_out(note.id, body, steps, base=note)

    async def _keep_revision(self, note_id: str) -> None:
        """Have the server keep what the note is now."""
        reply = await self._session.send(write_steps.revision(self._urls, note_id))
        if not reply.ok:
            raise refusal_of(reply)

    async def _read_base(self, note_id: str, etag: str) -> NoteObject:
        """Read the note that an edit was made from. Raises ``VersionConflict`` if it is another by now.

        A comparison with a copy that a proxy has kept would overwrite what came since.
        """
        note = await self._reader.note(note_id, cached=False)
        if note.protected:
            raise protected_error()
        if note.etag != etag:  # defence: compared-right-before-write
            raise _changed_error(note)
        return note

    async def _create(self, write: PendingWrite, body: dict[str, Any]) -> Acknowledgement:
        """Create a note, unless it is there: then an earlier try has made it."""
        try:
            made = await self._reader.note(write.note_id)
        except NoteNotFound:
            steps = write_steps.creation(self._urls, write.note_id, body, write.write_id)
            return await self._carry_out(write.note_id, body, steps)
        return Acknowledgement(await self._reader.revision(made), PushStatus.REPEATED)

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
                if reply is not None and not reply.ok:
                    raise refusal_of(reply)
                begun = begun or step.write
            if reply is not None and steps[-1].method == "PATCH":
                note = note_codec.note_object(require_note(value_of(reply), note_id))
            else:
                note = await self._reader.note(note_id)
            if base is not None and note.etag == base.etag:  # defence: no-change-no-confirmation
                raise StoreProtocolError("the write was answered, and the note is as it was")
            note, content = await self._reader.content(note, known=sent)
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
            return await self._session.send(step)
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
            note = await self._reader.note(base.id, cached=False)
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

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. A note with others below it is refused: they would go with it.

        Trilium lists it under its recent changes for a week; this API shows no way back.
        """
        try:
            note = await self._note_or_gone(note_id, cached=False)
            if await self._wait_for_images(note):
                note = await self._reader.note(note_id, cached=False)
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
            replace(write_steps.deletion(self._urls, note_id), before_again=again)
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
            note = await self._note_or_gone(base.id, cached=False)
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

    async def _note_or_gone(self, note_id: str, *, cached: bool = True) -> NoteObject:
        """Read a note, twice before it counts as gone: the first answer may be a copy from before it was made."""
        with suppress(NoteNotFound):
            return await self._reader.note(note_id, cached=cached)
        return await self._reader.note(note_id, cached=cached)

    async def _require_absence(self, note_id: str) -> None:
        try:
            await self._note_or_gone(note_id)
        except NoteNotFound:
            return
        except (StoreError, LoginRequired) as error:
            raise OutcomeUnknown("a deletion was answered, and nobody can tell by whom") from error
        raise StoreProtocolError("what answered a deletion is not Trilium; the note is there")

    async def _wait_for_images(self, note: NoteObject) -> bool:
        """Wait until the server has looked after the images of a text that was written a moment ago."""
        url = self._urls.api("notes", note.id, "content")
        with suppress(StoreError):  # the deletion meets the same trouble, and says so
            reply = await self._session.send(Request("GET", url, largest=LARGEST_CONTENT))
            pause = write_steps.pause_before_deletion(note, reply.body, date=date_of(reply))
            if pause > 0:
                await self._sleep(pause)
                return True
        return False

    async def describe(self, *, now: float) -> str:
        """Return the version that the server says it has, and by how much its clock differs from ``now``."""
        reply = await self._session.send(Request("GET", self._urls.api("app-info")))
        facts = note_codec.server_facts(value_of(reply), date=date_of(reply), now=now)
        return f"Trilium {facts}"

    async def close(self) -> None:
        """See ``Store.close``."""
        self._listed = {}
        await self._session.close()


def _changed_error(note: NoteObject) -> VersionConflict:
    return VersionConflict("the note has changed at Trilium", details={"id": note.id})


def _sent_bytes(body: dict[str, Any]) -> bytes | None:
    """Return the content that the note has after the write, if it was read or is sent."""
    content = body["content"]
    return None if content is None else str(content).encode()
