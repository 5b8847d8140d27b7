"""The ground truth behind the in-memory store: a small note service with every hazard that its traits allow.

``MemoryStore`` is the service, and lets "another device" write to it. Everything is deterministic: no
clock, no randomness. By default a push over an old base is merged silently by
diff-match-patch, as Simperium does; a store that refuses an old base or overwrites whatever it holds is a
knob. Hazards that are always on: lists are replaced whole, cursors have no order, old cursors and old versions may
be forgotten, a removed id continues its version count. It raises errors but plans no faults; that
is ``memory_client``.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from diff_match_patch import diff_match_patch

from mcp_notarium.domain.note import Content, PendingWrite, flags
from mcp_notarium.errors import CursorLost, NoteNotFound, VersionConflict
from mcp_notarium.stores.contract import PushStatus, Retry, WriteGuard

Fields = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """One note in the store: every version, the newest last."""

    versions: dict[int, Fields] = field(default_factory=dict)
    head: int = 0
    alive: bool = False
    changed: int = 0
    """Sequence number of its last change."""
    write_ids: set[str] = field(default_factory=set)
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Logged:
    note_id: str
    before: int
    after: int | None
    """None: removed for good."""


class MemoryStore:
    """The service itself: shared by clients, edited directly by tests.

    ``numbered``: revisions have numbers; otherwise an etag is made from the content alone, and text that
    comes back has its old etag again. ``rewrite`` is what it makes of every object that a client writes, ``afterwards`` the same in a
    second version of the note, before the client has its answer.
    """

    def __init__(self, name: str = "store") -> None:
        self.name = name
        self.guard = WriteGuard.SERVER_MERGE
        self.retry = Retry.IDEMPOTENT
        self.numbered = True
        self.rewrite: Callable[[Fields], Fields] = dict
        self.afterwards: Callable[[Fields], Fields] | None = None
        self._notes: dict[str, Kept] = {}
        self._log: list[Logged] = []
        self._oldest = 0
        self._waiting: list[asyncio.Event] = []
        self._identities = itertools.count(1)

    # For "another device", and for reading what the service holds.

    def put(
        self,
        note_id: str,
        text: str,
        *,
        tags: Iterable[str] = (),
        trash: bool = False,
        title: str | None = None,
        now: float = 1.0,
    ) -> int:
        """Create or overwrite a note from another device; gives the new version."""
        edited = {"text": text, "tags": list(tags), "trash": trash, "modified": now}
        edited |= {} if title is None else {"title": title}
        kept = self._notes.get(note_id)
        old = kept.versions[kept.head] if kept and kept.alive else {"created": now}
        return self._commit(note_id, old | edited)

    def edit(self, note_id: str, change: Callable[[str], str], *, now: float = 1.0) -> int:
        """Change a note's text from another device; gives the new version."""
        fields = self.fields(note_id)
        return self._commit(note_id, fields | {"text": change(fields["text"]), "modified": now})

    def remove(self, note_id: str) -> None:
        """Delete a note for good from another device (it shows as a tombstone in the feed)."""
        kept = self._notes[note_id]
        self._record(Logged(note_id, kept.head, None))
        kept.alive = False
        kept.changed = len(self._log)
        kept.versions.clear()

    def fields(self, note_id: str) -> Fields:
        """The newest object of a live note; ``KeyError`` if there is none."""
        kept = self._notes[note_id]
        if not kept.alive:
            raise KeyError(note_id)
        return dict(kept.versions[kept.head])

    def text(self, note_id: str) -> str:
        """The newest text of a live note."""
        return str(self.fields(note_id)["text"])

    def ids(self) -> set[str]:
        """All live notes, trashed ones included."""
        return {note_id for note_id, kept in self._notes.items() if kept.alive}

    def contents(self) -> dict[str, Content]:
        """The truth: every live note's content."""
        return {note_id: content_of(self.fields(note_id)) for note_id in self.ids()}

    def rename(self, old: str, new: str) -> None:
        """Give a note another id, for a service whose ids are names."""
        assert new not in self.ids()
        self.move_over(old, new)

    def exchange(self, one: str, other: str) -> None:
        """Let two notes change their ids."""
        self._notes[one], self._notes[other] = self._notes[other], self._notes[one]
        self._record_moved(one)

    def move_over(self, old: str, new: str) -> None:
        """Give a note the id of another one, which is gone."""
        self._notes[new] = self._notes.pop(old)
        self._record_moved(new)

    def write_anew(self, note_id: str) -> None:
        """Let another file take the place of a note's: its identity is another one."""
        self._notes[note_id] = replace(self._notes[note_id], identity=next(self._identities))
        self._record_moved(note_id)

    def _record_moved(self, note_id: str) -> None:
        head = self._notes[note_id].head
        self._record(Logged(note_id, head, head))

    def overwrite(self, note_id: str, fields: Fields) -> None:
        """Write this whole object from another device, whatever is there."""
        self._commit(note_id, fields)

    def forget_cursors(self) -> None:
        """Every cursor given out so far but the newest becomes unknown (aged out)."""
        self._oldest = len(self._log)

    def forget_versions(self, note_id: str) -> None:
        """Prune all versions but the newest: an older base is then unknown."""
        kept = self._notes[note_id]
        kept.versions = {kept.head: kept.versions[kept.head]}

    def forget_write_ids(self) -> None:
        """The store no longer recognises earlier writes."""
        for kept in self._notes.values():
            kept.write_ids.clear()

    # What a client reaches.

    def cursor(self, *, lag: bool = False) -> str:
        """The opaque name of the newest place in the log (with ``lag`` of the one before)."""
        return self.cursor_at(max(len(self._log) - lag, self._oldest))

    def cursor_at(self, sequence: int) -> str:
        """The opaque name of a place in the log."""
        return _cursor(self.name, sequence)

    def listed_version(self, kept: Kept, *, lag: bool) -> int | None:
        """The version a listing shows; with ``lag`` the newest change has not happened yet."""
        if not lag or kept.changed < len(self._log):
            return kept.head
        return kept.head - 1 if kept.head - 1 in kept.versions else None

    def sequence(self, cursor: str) -> int:
        """The place a cursor names. Raises ``CursorLost``."""
        for number in range(len(self._log), self._oldest - 1, -1):
            if self.cursor_at(number) == cursor:
                return number
        raise CursorLost("the store does not know this cursor")

    def kept(self, note_id: str) -> Kept:
        """A live note with its versions. Raises ``NoteNotFound``."""
        kept = self._notes.get(note_id)
        if kept is None or not kept.alive:
            raise NoteNotFound("no such note in the store", details={"id": note_id})
        return kept

    def newest_first(self) -> list[tuple[str, Kept]]:
        """All live notes, the last changed first."""
        alive = [(note_id, kept) for note_id, kept in self._notes.items() if kept.alive]
        return sorted(alive, key=lambda pair: -pair[1].changed)

    def logged_since(self, sequence: int) -> list[Logged]:
        """What happened after a place in the log, oldest first."""
        return self._log[sequence:]

    def etag(self, kept: Kept, version: int) -> str:
        """The name of a revision."""
        if self.numbered:
            return etag_of(version)
        said = json.dumps(kept.versions.get(version), sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def write(self, write: PendingWrite) -> PushStatus:
        """Take a push as a store of this kind does."""
        kept = self._notes.get(write.note_id, Kept())
        if self.retry is Retry.IDEMPOTENT and write.write_id in kept.write_ids:
            return PushStatus.REPEATED
        posted: Fields = json.loads(write.body)
        held = self.etag(kept, kept.head) if kept.alive else None
        if self.guard is WriteGuard.CAS and write.base_etag != held:
            if write.base_etag is not None:
                self.kept(write.note_id)
            raise VersionConflict("the store has another revision", details={"id": write.note_id})
        if self.guard is WriteGuard.LAST_WRITER:
            stored = posted
        elif write.base_etag is not None:
            stored = self._rebase(write, posted)
        else:
            stored = (kept.versions[kept.head] if kept.alive else {}) | posted
        stored = self.rewrite(stored)
        if kept.alive and stored == kept.versions[kept.head]:
            return PushStatus.UNCHANGED
        self._commit(write.note_id, stored)
        self._notes[write.note_id].write_ids.add(write.write_id)
        if self.afterwards is not None:
            self._commit(write.note_id, self.afterwards(stored))
        return PushStatus.STORED

    def _rebase(self, write: PendingWrite, posted: Fields) -> Fields:
        kept = self.kept(write.note_id)
        base = next(
            (o for n, o in kept.versions.items() if self.etag(kept, n) == write.base_etag), None
        )
        if base is None:
            raise VersionConflict("the store has another revision", details={"id": write.note_id})
        return _merged(base, base | posted, kept.versions[kept.head])

    def _commit(self, note_id: str, fields: Fields) -> int:
        kept = self._notes.setdefault(note_id, Kept())
        if not kept.alive:
            kept.identity = next(self._identities)
        self._record(Logged(note_id, kept.head if kept.alive else 0, kept.head + 1))
        kept.head += 1
        kept.versions[kept.head] = dict(fields)
        kept.alive = True
        kept.changed = len(self._log)
        return kept.head

    def _record(self, logged: Logged) -> None:
        self._log.append(logged)
        for event in self._waiting:
            event.set()

    async def wait(self, sequence: int, *, seconds: float) -> None:
        """Return when something happened after ``sequence``, or after ``seconds``."""
        event = asyncio.Event()
        self._waiting.append(event)
        try:
            if len(self._log) == sequence:
                await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._waiting.remove(event)


@lru_cache(1024)
def _cursor(name: str, sequence: int) -> str:
    return hashlib.sha256(f"{name}:{sequence}".encode()).hexdigest()[:24]


def etag_of(version: int) -> str:
    return f"r{version}"


def content_of(fields: Fields) -> Content:
    return Content(
        str(fields["text"]),
        tuple(fields["tags"]),
        bool(fields["trash"]),
        fields.get("title"),
        flags(*fields.get("properties", ())),
    )


def _merged(base: Fields, posted: Fields, head: Fields) -> Fields:
    """The store's own three-way merge, dangers included (changed-against-base keys win)."""
    changed = {key: value for key, value in posted.items() if base.get(key) != value}
    if "text" in changed:
        changed["text"] = _merged_text(str(base["text"]), str(posted["text"]), str(head["text"]))
    return head | changed


def _merged_text(base: str, posted: str, head: str) -> str:
    if head == base:
        return posted
    engine = diff_match_patch()
    engine.Diff_Timeout = 0  # by default it gives up by the wall clock, which no test could repeat
    merged, _applied = engine.patch_apply(engine.patch_make(base, posted), head)
    return str(merged)
