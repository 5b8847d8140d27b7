"""Write to Simplenote: push and guarded delete of a note, what its answers mean, and its list of tags.

A refusal proves nothing while an earlier try of a write may have arrived: it becomes
``OutcomeUnknown``. So does an answer that cannot follow from the write: an old version number, another
note's date of making, or "nothing to change" over another text. This module merges nothing, and sends a write
again only after status 440.

A tag that is put on a note here also becomes an object: without one it would not show in Simplenote's own tag list.
This happens in the background, after the note itself is stored. It never raises and gives up on any failure.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote

from mcp_notarium import logs
from mcp_notarium.domain.note import PendingWrite, Revision
from mcp_notarium.errors import (
    SHORTEN,
    DateRefused,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus
from mcp_notarium.stores.http import Reply, Request
from mcp_notarium.stores.json_answers import parse_json, read_text, to_json
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.kind import LONGEST_ID, NOTES, Urls, is_possible_id
from mcp_notarium.stores.simplenote.session import AccountSession

_VERSION_HEADER = "x-simperium-version"
_NOT_FOUND = 404
_BAD_VERSION = 405
_REPEATED = 409
_EMPTY_CHANGE = 412
_TOO_LARGE = 413
_INVALID_DIFF = 440
_REJECTED = frozenset({400, _TOO_LARGE, 417, _INVALID_DIFF})
_BASE_UNKNOWN = frozenset({_NOT_FOUND, _BAD_VERSION})
_DATES = frozenset({"modificationDate", "creationDate"})
_NOT_DELETED = frozenset({_NOT_FOUND, _BAD_VERSION, _REPEATED, _EMPTY_CHANGE})


_LOG = logs.get("simplenote")
_BUCKET = "tag"
_PAGE = "1000"
_MOST_PAGES = 20
_MOST_WAITING = 32
_CLOSING_SECONDS = 0.5
_E_MAIL = re.compile(r"[^@\s]+@[^@\s]+")
_UNUSABLE = re.compile(r"[\s,]")


@dataclass(frozen=True, slots=True)
class NoteWrites:
    """Write notes for the store, stamped with ``client_id``."""

    account: AccountSession
    urls: Urls
    client_id: str
    get: Callable[[str], Awaitable[Revision]]

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        if not is_possible_id(write.note_id):
            raise StoreRejected(
                "this id is not valid at Simplenote", resolution_hint="Take the id from `list`."
            )
        base = None if write.base_etag is None else note_codec.version_of(write.base_etag)
        if write.base_etag is not None and base is None:
            await self._raise_conflict(write.note_id)
        request = self._push_request(write, base)
        reply = await self.account.send(request)
        if reply.status == _INVALID_DIFF:
            # The service sometimes fails on its own diff; the same whole object may pass.
            reply = await self.account.send(request)
        if reply.ok:
            return await self._read_stored(write, reply, base=base or 0)
        if reply.status == _REPEATED:
            # It may have arrived over an earlier base than the one it has now.
            first = note_codec.version_of(write.first_etag or "") or base or 0
            head = await self._head_after(write, least=first + 1)
            before = _met(write, head, base=first)
            return _acknowledgement(head, PushStatus.REPEATED, before, next_version=first + 1)
        if reply.status == _EMPTY_CHANGE:
            head = await self._head_after(write, least=base or 0)
            alone = head.server_version == base
            if alone and head.content != _sent(write).content:
                raise _contradiction_error()
            return Acknowledgement(head, PushStatus.UNCHANGED, alone=alone)
        if reply.status in _BASE_UNKNOWN and base is not None and not reply.in_doubt:
            await self._raise_conflict(write.note_id)
        raise _refusal_error(reply)

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """See ``Store.delete``. A note that is not in the trash gives ``StoreRejected``."""
        if not is_possible_id(note_id):
            return  # the service cannot have it
        version = note_codec.version_of(etag)
        if version is None:
            await self._accept_absence(note_id, etag)
            return
        query = {"clientid": self.client_id, "ccid": write_id}
        url = self.urls.item(NOTES, note_id, version=version, query=query)
        reply = await self.account.send(Request("DELETE", url, write=True, withdrawable=True))
        if reply.status in _NOT_DELETED:
            await self._accept_absence(note_id, etag)
        elif not reply.ok:
            raise _refusal_error(reply)
        elif reply.body.strip():
            # The service answers without a body; a page with text comes from a proxy in between.
            await self._accept_absence(note_id, etag)

    def _push_request(self, write: PendingWrite, base: int | None) -> Request:
        query = {"clientid": self.client_id, "ccid": write.write_id, "response": "1"}
        return Request(
            "POST",
            self.urls.item(NOTES, write.note_id, version=base, query=query),
            headers={"content-type": "application/json"},
            body=write.body,
            write=True,
            withdrawable=True,
        )

    async def _read_stored(
        self, write: PendingWrite, reply: Reply, *, base: int
    ) -> Acknowledgement:
        """Read the note from the answer to a stored write; fetch it if the answer is not what was sent.

        That answer and the fetched note must then agree, as far as they are of one version.
        """
        answer = _note_in(write.note_id, reply)
        version = answer.server_version if answer else None
        if answer is None or version is None or version <= base:
            head = await self._head_after(write, least=base + 1)
            numbered = (version_in(reply) or 0) > base
            # A page of a proxy has no number: then the write may not have arrived, and this be another's.
            if not numbered and head.content != _sent(write).content:
                raise _contradiction_error()
            before = _met(write, head, base=base)
            return _acknowledgement(head, PushStatus.STORED, before, next_version=base + 1)
        if answer.content != _sent(write).content:
            head = await self._head_after(write, least=version)
            if head.server_version == version and head.content != answer.content:
                raise _contradiction_error()
        # Every stored write makes the next number.
        before = note_codec.etag_of(version - 1) if version > 1 else None
        return _acknowledgement(answer, PushStatus.STORED, before, next_version=base + 1)

    async def _head_after(self, write: PendingWrite, *, least: int) -> Revision:
        """Fetch the newest revision after a write. Raises ``OutcomeUnknown`` if it cannot be that."""
        head = await self._head(write.note_id)
        other = abs(head.created_at - _sent(write).created_at) >= note_codec.SAME_SECOND
        if (head.server_version or 0) < least or other:
            raise _contradiction_error()
        return head

    async def _head(self, note_id: str) -> Revision:
        """Fetch the newest revision after a write was answered; without it the outcome is unknown."""
        try:
            return await self.get(note_id)
        except (StoreError, LoginRequired) as error:
            raise OutcomeUnknown(
                "Simplenote confirmed the write, but the note could not be read back"
            ) from error

    async def _raise_conflict(self, note_id: str) -> NoReturn:
        await self.get(note_id)
        raise _conflict_error(note_id)

    async def _accept_absence(self, note_id: str, etag: str) -> None:
        """Accept a refused delete if the note is gone; otherwise raise the reason."""
        try:
            head = await self._head(note_id)
        except NoteNotFound:
            return
        if head.etag == etag:
            raise StoreProtocolError("Simplenote refused to delete the note and gave no reason")
        raise _conflict_error(note_id)


def _acknowledgement(
    revision: Revision, status: PushStatus, before: str | None = None, *, next_version: int
) -> Acknowledgement:
    version = revision.server_version
    first = note_codec.etag_of(next_version) if version is None or version > next_version else None
    return Acknowledgement(revision, status, before, alone=version == next_version, first=first)


def _met(write: PendingWrite, head: Revision, *, base: int) -> str | None:
    """Return the etag of what a write has met whose answer does not say; None: its base, or nobody can tell.

    Our date tells that nobody has written since, so it is the number before.
    """
    made = (head.server_version or 0) if head.modified_at == _sent(write).modified_at else 0
    return note_codec.etag_of(made - 1) if made > base + 1 else None


def _note_in(note_id: str, reply: Reply) -> Revision | None:
    """Return the note in the answer to a write; None if there is none, or no number."""
    version = version_in(reply)
    try:
        fields = note_codec.fields_from(parse_json(reply.body))
    except StoreProtocolError:
        return None
    return note_codec.revision_from(note_id, fields, version=version)


def _sent(write: PendingWrite) -> Revision:
    return note_codec.revision_from(
        write.note_id, note_codec.fields_from(parse_json(write.body)), version=None
    )


def _contradiction_error() -> OutcomeUnknown:
    return OutcomeUnknown(
        "Simplenote confirmed the write, but what it shows is not what came of it"
    )


def _conflict_error(note_id: str) -> VersionConflict:
    return VersionConflict("the note has another revision at Simplenote", details={"id": note_id})


def _refusal_error(reply: Reply) -> NotariumError:
    if reply.in_doubt:
        return OutcomeUnknown("the write was sent and no answer came back")
    if reply.status == _TOO_LARGE:
        return StoreRejected(
            "Simplenote refuses the note: it is too large",
            subcategory="too_large",
            http_status_code=_TOO_LARGE,
            resolution_hint=SHORTEN,
        )
    if reply.status in _REJECTED and read_text(reply.body, "field") in _DATES:
        return DateRefused("Simplenote refuses the date of the change")
    if reply.status in _REJECTED:
        return StoreRejected("Simplenote refuses the note in this form")
    return StoreProtocolError(f"Simplenote answered a write with status {reply.status}")


def version_in(reply: Reply) -> int | None:
    """Return the version the answer names; None if it names none."""
    return note_codec.version_of(reply.headers.get(_VERSION_HEADER, "").strip())


def tag_id(name: str) -> str:
    """Derive the id of a tag's object: NFC, lower case, percent-encoded. Equal ids are equal tags."""
    return quote(unicodedata.normalize("NFC", name).lower(), safe="", errors="replace")


def is_listed(name: str) -> bool:
    """Tell whether a tag gets an object: e-mail addresses share a note and never do."""
    if not name or _E_MAIL.fullmatch(name) or _UNUSABLE.search(name):
        return False
    return len(tag_id(name)) <= LONGEST_ID


class TagList:
    """Create the tag objects of one account. One task runs at a time; ``close`` waits for it briefly."""

    def __init__(self, *, account: AccountSession, urls: Urls, client_id: str) -> None:
        self._account = account
        self._urls = urls
        self._client_id = client_id
        self._known: set[str] | None = None
        self._seen: set[str] = set()
        self._waiting: list[tuple[tuple[str, ...], Callable[[], Awaitable[Iterable[str]]]]] = []
        self._task: asyncio.Task[None] | None = None

    def list_tags(
        self, tags: Iterable[str], *, earlier: Callable[[], Awaitable[Iterable[str]]]
    ) -> None:
        """List the tags of a stored note; ``earlier`` fetches the tags it had before.

        Returns at once. Tags that the note had before are not ours to list.
        """
        unseen = tuple(tag for tag in tags if is_listed(tag) and tag_id(tag) not in self._seen)
        if not unseen or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting.append((unseen, earlier))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Wait a moment for the task, then cancel it."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=_CLOSING_SECONDS)
        finally:
            task.cancel()
        await asyncio.wait([task])

    async def _work(self) -> None:
        while self._waiting:
            tags, earlier = self._waiting.pop(0)
            try:
                await self._complete(tags, earlier)
            except NotariumError as error:
                _LOG.debug("simplenote.tag_not_made", error=type(error).__name__)

    async def _complete(
        self, tags: tuple[str, ...], earlier: Callable[[], Awaitable[Iterable[str]]]
    ) -> None:
        before = {tag_id(tag) for tag in await earlier()}
        self._seen |= before
        for tag in tags:
            if tag_id(tag) not in before and tag_id(tag) not in await self._listed_ids():
                await self._create(tag)
            self._seen.add(tag_id(tag))

    async def _create(self, tag: str) -> None:
        query = {"clientid": self._client_id, "ccid": uuid.uuid4().hex}
        request = Request(
            "POST",
            self._urls.item(_BUCKET, tag_id(tag), version=None, query=query),
            headers={"content-type": "application/json"},
            body=to_json({"name": tag}),
            write=True,
        )
        reply = await self._account.send(request)
        if reply.ok and self._known is not None:
            self._known.add(tag_id(tag))

    async def _listed_ids(self) -> set[str]:
        if self._known is None:
            self._known = await self._read_list()
        return self._known

    async def _read_list(self) -> set[str]:
        known: set[str] = set()
        mark = ""
        for _ in range(_MOST_PAGES):
            query = {"limit": _PAGE, "data": "1"} | ({"mark": mark} if mark else {})
            reply = await self._account.send(
                Request("GET", self._urls.bucket(_BUCKET, "index", query))
            )
            answer: Any = parse_json(reply.body) if reply.ok else {}
            known |= _names(answer)
            following = answer.get("mark") if isinstance(answer, dict) else None
            if not isinstance(following, str) or following in ("", mark):
                break
            mark = following
        return known


def _names(answer: Any) -> set[str]:
    """Return the ids derived from the names in a listing: its own ids follow several rules."""
    entries = answer.get("index") if isinstance(answer, dict) else None
    listed = entries if isinstance(entries, list) else ()
    objects = [item.get("d") for item in listed if isinstance(item, dict)]
    names = [found.get("name") for found in objects if isinstance(found, dict)]
    return {tag_id(name) for name in names if isinstance(name, str)}
