"""A client of the in-memory note store, with faults on order: fast, deterministic, no HTTP.

``MemoryStore`` is the service; any number of ``MemoryClient`` clients share one. Each client has
its own :class:`Faults`, taken in order by the calls they are meant for. No sleeping except in
``changes(wait=True)``, which returns as soon as the store changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone
from mcp_notarium.errors import (
    CursorLost,
    DateRefused,
    IdTaken,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreRejected,
    StoreTimeout,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import (
    SEEDED,
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
from mcp_notarium.stores.kind import Ids
from support.memory_store import Fields, Kept, Logged, MemoryStore, content_of, etag_of

LIKE_SIMPERIUM = Traits(
    Changes.FEED | Changes.DELTA,
    WriteGuard.SERVER_MERGE,
    Retry.IDEMPOTENT,
    long_poll=True,
    versions=Versions.BY_ETAG,
    trash=True,
    properties=frozenset({"pinned", "markdown"}),
    shares_by_tag=True,
)
LIKE_LOCAL = Traits(
    Changes.FEED,
    WriteGuard.CAS,
    Retry.IDEMPOTENT,
    trash=True,
    titles=True,
    properties=frozenset({"pinned"}),
)
LIKE_VAULT = Traits(
    Changes.SNAPSHOT,
    WriteGuard.LAST_WRITER,
    Retry.ASK,
    ids=Ids.NAMED,
    probe=True,
    long_poll=True,
    whole_listings=True,
    dates=False,
)
LIKE_TRILIUM = Traits(
    Changes.SNAPSHOT,
    WriteGuard.LAST_WRITER,
    Retry.ASK,
    probe=True,
    versions=Versions.LISTED,
)
LIKE_MEMENTO = Traits(Changes.SNAPSHOT, WriteGuard.CAS, Retry.ASK, probe=True, spaced_tags=True)
LIKE_EXAMPLE = Traits(Changes.SNAPSHOT, WriteGuard.LAST_WRITER, Retry.ASK)
LIKE_EVENTS = Traits(Changes.FEED, WriteGuard.LAST_WRITER, Retry.ASK)
ROWS = {
    "simplenote": LIKE_SIMPERIUM,
    "local": LIKE_LOCAL,
    "vault": LIKE_VAULT,
    "trilium": LIKE_TRILIUM,
    "memento": LIKE_MEMENTO,
    "example": LIKE_EXAMPLE,
    "events": LIKE_EVENTS,
}
"""The supported rows, by the store that each is made for."""
LARGEST_PAGE = 1000
NAMES_PAGE = 3


class Fault(StrEnum):
    """What can go wrong with one call; planned with :meth:`Faults.plan`."""

    UNAVAILABLE = "unavailable"
    """Nothing was sent: ``StoreUnavailable``."""
    TIMEOUT = "timeout"
    """Cut *before* the store acted: ``OutcomeUnknown`` for writes, else ``StoreTimeout``."""
    LOST_ANSWER = "lost_answer"
    """Cut *after* the store acted: ``OutcomeUnknown`` for writes, else ``StoreTimeout``."""
    RATE_LIMITED = "rate_limited"
    REJECTED = "rejected"
    DATE = "date"
    LOGIN = "login"
    NONSENSE = "nonsense"
    CURSOR_LOST = "cursor_lost"
    STALE = "stale"
    """A read answers as if the newest change had not happened yet."""
    RACE = "race"
    """Another device changes the note after the caller looked and before the push arrives."""
    OVERWRITE = "overwrite"
    """Another device looked before the push and writes after it, over whatever is there."""
    VANISHED = "vanished"
    """A listing is empty, ``get`` finds nothing; no tombstone is written."""
    WITHOUT_CONTENT = "without_content"
    """Listings and changes carry ``Entry`` only."""
    HANG_BEFORE = "hang_before"
    """Blocks before the store acted, until cancelled."""
    HANG_AFTER = "hang_after"
    """Blocks after the store acted, until cancelled."""


_REFUSALS: dict[Fault, type[NotariumError]] = {
    Fault.UNAVAILABLE: StoreUnavailable,
    Fault.RATE_LIMITED: RateLimited,
    Fault.REJECTED: StoreRejected,
    Fault.DATE: DateRefused,
    Fault.LOGIN: LoginRequired,
    Fault.NONSENSE: StoreProtocolError,
    Fault.CURSOR_LOST: CursorLost,
}


@dataclass(slots=True)
class _Planned:
    kind: Fault
    on: str | None
    times: int
    edit: Callable[[str], str] | None


@dataclass(slots=True)
class Faults:
    """The faults ordered for one client, taken in order by the calls they are meant for."""

    planned: list[_Planned] = field(default_factory=list)

    def plan(
        self,
        kind: Fault,
        *,
        on: str | None = None,
        times: int = 1,
        edit: Callable[[str], str] | None = None,
    ) -> None:
        """Let the next ``times`` calls of method ``on`` (None: any) meet ``kind``.

        ``edit`` is what the other device does to the text in a ``RACE``; default: append a line.
        """
        self.planned.append(_Planned(kind, on, times, edit))

    def clear(self) -> None:
        """Let everything work again."""
        self.planned.clear()

    def take(self, method: str) -> _Planned | None:
        """The fault this call meets, if any."""
        for planned in self.planned:
            if planned.on in (None, method):
                planned.times -= 1
                if planned.times <= 0:
                    self.planned.remove(planned)
                return planned
        return None


class MemoryClient:
    """One client of a :class:`MemoryStore`, which behaves as its ``traits`` say. ``calls`` lists every call, for negative proofs."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        faults: Faults | None = None,
        traits: Traits = LIKE_SIMPERIUM,
        poll_seconds: float = 30.0,
        returns_displaced: bool = True,
    ) -> None:
        self.store = store
        store.guard, store.retry = traits.write_guard, traits.retry
        by_etag = traits.versions is Versions.BY_ETAG
        feed = Changes.FEED in traits.changes
        self.names_only = feed and traits.write_guard is WriteGuard.LAST_WRITER
        """Its feed names the notes that changed, a few at a time, and nothing more."""
        store.numbered = by_etag or (feed and not self.names_only)
        self.returns_displaced = returns_displaced
        self.faults = faults or Faults()
        self.traits = traits
        self.codec_version = 1
        self.poll_seconds = poll_seconds
        self.calls: list[str] = []

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """See ``Store.list_page``."""
        fault = await self._begin("list_page")
        start = self.store.sequence(since) if since is not None else -1
        below = int(mark, 16) if mark is not None else None
        lag = fault is Fault.STALE
        cursor = self.store.cursor(lag=lag)
        found = [
            (note_id, kept, version)
            for note_id, kept in self.store.newest_first()
            if kept.changed > start and (below is None or kept.changed < below)
            if (version := self.store.listed_version(kept, lag=lag)) is not None
        ]
        if fault is Fault.VANISHED:
            found = []
        size = max(1, min(limit, LARGEST_PAGE))
        bare = not with_content or fault is Fault.WITHOUT_CONTENT
        entries = [
            self._line(note_id, kept, version, bare=bare) for note_id, kept, version in found[:size]
        ]
        more = f"{found[size - 1][1].changed:x}" if len(found) > size else None
        page = ListingPage(tuple(entries), cursor, more, len(self.store.ids()))
        await self._end(fault, write=False)
        return page

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """See ``Store.changes``. Own changes are included."""
        fault = await self._begin("changes")
        if self.traits.changes is Changes.SNAPSHOT:
            return await self._probe(cursor, wait=wait, lies=fault is Fault.STALE)
        sequence = self.store.sequence(cursor)
        if wait and fault is not Fault.STALE:
            await self.store.wait(sequence, seconds=self.poll_seconds)
        if fault is Fault.STALE:
            return ChangePage((), cursor)
        news = self.store.logged_since(sequence)
        if self.names_only:
            page = self._named(news[:NAMES_PAGE], sequence)
            await self._end(fault, write=False)
            return page
        first = {logged.note_id: logged for logged in reversed(news)}
        last = {logged.note_id: logged for logged in news}
        oldest_first = [logged for logged in news if logged is last[logged.note_id]]
        bare = fault is Fault.WITHOUT_CONTENT
        changes = [
            self._change(first[logged.note_id], logged, base_of, bare=bare)
            for logged in oldest_first
        ]
        page = ChangePage(tuple(changes), self.store.cursor())
        await self._end(fault, write=False)
        return page

    def _named(self, news: list[Logged], sequence: int) -> ChangePage:
        last = {logged.note_id: logged for logged in news}
        changes = [
            Entry(note_id, "") if logged.after is not None else Tombstone(note_id)
            for note_id, logged in last.items()
        ]
        return ChangePage(tuple(changes), self.store.cursor_at(sequence + len(news)))

    async def _probe(self, cursor: str, *, wait: bool, lies: bool) -> ChangePage:
        assert self.traits.probe or self.traits.long_poll, "nobody asks such a store"
        if wait and not lies:
            await self.store.wait(self.store.sequence(cursor), seconds=self.poll_seconds)
        if cursor != self.store.cursor() and not lies:
            raise CursorLost("something has changed")
        return ChangePage((), cursor)

    def _change(
        self, first: Logged, last: Logged, base_of: BaseLookup, *, bare: bool
    ) -> Revision | Tombstone | Entry:
        if last.after is None:
            return Tombstone(last.note_id)
        base = base_of(last.note_id)
        kept = self.store.kept(last.note_id)
        known = first.before == (base.server_version if base else 0)
        bare = bare or not known or last.after not in kept.versions
        return self._line(last.note_id, kept, last.after, bare=bare)

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``."""
        fault = await self._begin("get")
        kept = self.store.kept(note_id)
        wanted = _seen(kept, fault)
        if etag is not None:
            named = (n for n in kept.versions if self._version_etag(kept, n) == etag)
            wanted = next(named, 0)
        if fault is Fault.VANISHED or wanted not in kept.versions:
            raise NoteNotFound("no such note in the store", details={"id": note_id})
        revision = self._revision_at(note_id, kept, wanted)
        await self._end(fault, write=False)
        return revision if etag is None else self._version_of(kept, wanted, revision)

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        fault = await self._begin("list_versions")
        if note_id not in self.store.ids():
            return VersionPage((), None)
        kept = self.store.kept(note_id)
        older = [n for n in sorted(kept.versions, reverse=True) if n != kept.head]
        if before in (names := [self._version_etag(kept, n) for n in older]):
            older = older[names.index(before) + 1 :]
        page = [self._version_of(kept, n, self._revision_at(note_id, kept, n)) for n in older]
        more = page[limit - 1].etag if len(page) > limit else None
        await self._end(fault, write=False)
        return VersionPage(tuple(page[:limit]), more)

    async def find_version(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """See ``ListingStore.find_version``."""
        listed = await self.list_versions(note_id, before="", limit=LARGEST_PAGE)
        alike = [one for one in listed.revisions if one.content.wording == content.wording]
        dated = [one for one in alike if one.modified_at == at]
        return next(iter(dated or (alike if content.text != now.text else ())), None)

    def _version_etag(self, kept: Kept, version: int) -> str:
        by_etag = self.traits.versions is Versions.BY_ETAG
        return self.store.etag(kept, version) if by_etag else f"old-{version}"

    def _version_of(self, kept: Kept, version: int, revision: Revision) -> Revision:
        """An older revision; a store that has others names for them keeps no tags in them."""
        if self.traits.versions is Versions.BY_ETAG:
            return revision
        content = replace(revision.content, tags=())
        etag = self._version_etag(kept, version)
        return replace(revision, etag=etag, content=content, tags_understood=False)

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        """See ``Store.compose``. Content equal to the base's gives the base's own body."""
        fields: Fields = json.loads(base.raw) if base else {"created": now}
        wanted = content.cleaned()
        if base is None or wanted != base.content:
            fields |= {"text": wanted.text, "tags": list(wanted.tags), "trash": wanted.trash}
            if self.traits.titles:
                fields["title"] = wanted.title
            others = set(fields.get("properties", ())) - self.traits.properties
            if wanted.properties or "properties" in fields:
                fields["properties"] = sorted(others | wanted.properties.keys())
            fields["modified"] = now
        return json.dumps(fields).encode()

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return self._read(note_id, "", json.loads(body), None)

    def _read(self, note_id: str, etag: str, fields: Fields, version: int | None) -> Revision:
        revision = _revision(note_id, etag, fields, version)
        held = revision.content.properties
        known = held.having({}, without=held.keys() - self.traits.properties)
        return replace(revision, content=replace(revision.content, properties=known))

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        planned = await self._begin_planned("push")
        fault = planned.kind if planned else None
        if fault is Fault.RACE and write.note_id in self.store.ids():
            other = planned.edit if planned and planned.edit else _append_line
            self.store.edit(write.note_id, other)
        largest = self.traits.max_note_bytes
        if largest is not None and len(write.body) > largest:
            raise StoreRejected("the note is too large", details={"id": write.note_id})
        if self.traits.ids.named and write.base_etag is None and write.note_id in self.store.ids():
            raise IdTaken("a note of this name exists", details={"id": write.note_id})
        displaced = self._about_to_be_overwritten(write)
        before = self.store.fields(write.note_id) if write.note_id in self.store.ids() else None
        answer = self.store.write(write)
        kept = self.store.kept(write.note_id)
        revision = self._revision_at(write.note_id, kept, kept.head)
        if fault is Fault.OVERWRITE and before is not None:
            other = planned.edit if planned and planned.edit else _append_line
            self.store.overwrite(write.note_id, before | {"text": other(before["text"])})
        await self._end(fault, write=True)
        if self.traits.write_guard is not WriteGuard.SERVER_MERGE:
            return Acknowledgement(revision, answer, alone=True, displaced=displaced)
        by_etag = self.traits.versions is Versions.BY_ETAG
        stored = answer is PushStatus.STORED and kept.head > 1 and by_etag
        ours = kept.head - (answer is not PushStatus.UNCHANGED)
        alone = (write.base_etag or etag_of(0)) == etag_of(ours)
        before = etag_of(kept.head - 1) if stored else None
        number = int((write.base_etag or etag_of(0))[1:]) + 1
        first = etag_of(number) if by_etag and kept.head > number else None
        return Acknowledgement(revision, answer, before, alone=alone, first=first)

    def _about_to_be_overwritten(self, write: PendingWrite) -> Revision | None:
        last_writer = self.traits.write_guard is WriteGuard.LAST_WRITER
        if not (last_writer and self.returns_displaced and write.note_id in self.store.ids()):
            return None
        kept = self.store.kept(write.note_id)
        held = self._revision_at(write.note_id, kept, kept.head)
        return None if held.etag == write.base_etag else held

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``."""
        if not self.traits.ids.named:
            return random_id(seed)
        title = "".join(c if c.isalnum() else "-" for c in content.text.split("\n")[0][:40])
        number = f"{seed[:8]}{attempt}" if attempt >= SEEDED else attempt + 1
        return f"{title or 'note'}{f' {number}' if attempt else ''}.md"

    def _revision_at(self, note_id: str, kept: Kept, version: int) -> Revision:
        number = version if self.store.numbered else None
        etag = self.store.etag(kept, version)
        revision = self._read(note_id, etag, kept.versions[version], number)
        named = self.traits.ids.named
        return replace(revision, identity=f"i{kept.identity}") if named else revision

    def _line(self, note_id: str, kept: Kept, version: int, *, bare: bool) -> Revision | Entry:
        revision = self._revision_at(note_id, kept, version)
        if bare:
            return Entry(note_id, revision.etag, revision.server_version, revision.identity)
        return revision

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """See ``Store.delete``."""
        planned = await self._begin_planned("delete")
        fault = planned.kind if planned else None
        if fault is Fault.RACE and note_id in self.store.ids():
            self.store.edit(note_id, _append_line)
        if note_id in self.store.ids():
            kept = self.store.kept(note_id)
            guarded = self.traits.write_guard is not WriteGuard.LAST_WRITER
            if guarded and self.store.etag(kept, kept.head) != etag:
                raise VersionConflict("the note has changed", details={"id": note_id})
            if self.traits.trash and not kept.versions[kept.head]["trash"]:
                raise StoreRejected("the note is not in the trash", details={"id": note_id})
            self.store.remove(note_id)
        await self._end(fault, write=True)

    async def close(self) -> None:
        """See ``Store.close``."""
        self.calls.append("close")

    async def _begin(self, method: str) -> Fault | None:
        planned = await self._begin_planned(method)
        return planned.kind if planned else None

    async def _begin_planned(self, method: str) -> _Planned | None:
        self.calls.append(method)
        planned = self.faults.take(method)
        await asyncio.sleep(0)  # a real call lets others run, so this one does as well
        if planned and planned.kind in _REFUSALS:
            raise _REFUSALS[planned.kind]("a fault on order")
        if planned and planned.kind is Fault.TIMEOUT:
            raise _no_answer(write=method in ("push", "delete"))
        if planned and planned.kind is Fault.HANG_BEFORE:
            await asyncio.Event().wait()
        return planned

    async def _end(self, fault: Fault | None, *, write: bool) -> None:
        await asyncio.sleep(0)
        if fault is Fault.HANG_AFTER:
            await asyncio.Event().wait()
        if fault is Fault.LOST_ANSWER:
            raise _no_answer(write=write)


def _no_answer(*, write: bool) -> Exception:
    return OutcomeUnknown("no answer came") if write else StoreTimeout("no answer came")


def _append_line(text: str) -> str:
    return text + ("" if not text or text.endswith("\n") else "\n") + "from elsewhere\n"


def _revision(note_id: str, etag: str, fields: Fields, version: int | None) -> Revision:
    return Revision(
        id=note_id,
        etag=etag,
        content=content_of(fields),
        created_at=fields["created"],
        modified_at=fields["modified"],
        raw=json.dumps(fields).encode(),
        server_version=version,
    )


def _seen(kept: Kept, fault: Fault | None) -> int:
    older = kept.head - 1
    return older if fault is Fault.STALE and older in kept.versions else kept.head
