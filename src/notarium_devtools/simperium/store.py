"""Store buckets of versioned JSON objects with a log of changes, without sockets.

A bucket merges, checks, counts versions and forgets old ones as the service does. It knows nothing
of accounts, HTTP or faults. Every public method may be called from any thread.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

from notarium_devtools.simperium.changes import Change, Value, rebase, same
from notarium_devtools.simperium.objects import (
    ANYTHING,
    Entity,
    Limits,
    Refused,
    Rules,
    Stored,
    check_id,
    json_size,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Page:
    """Hold a page of the index, most recently changed first, and the bucket's cv at that moment."""

    current: str
    entries: tuple[Entity, ...]
    mark: str | None


def _locked(
    method: Callable[Concatenate[Bucket, _P], _R],
) -> Callable[Concatenate[Bucket, _P], _R]:
    @functools.wraps(method)
    def guarded(self: Bucket, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self.lock:
            return method(self, *args, **kwargs)

    return guarded


class Bucket:
    """Hold the objects of one kind of one account."""

    def __init__(
        self,
        *,
        rules: Rules = ANYTHING,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lock = threading.RLock()
        self.listeners: list[Callable[[Change], None]] = []
        self._rules = rules
        self._limits = limits or Limits()
        self._clock = clock
        self._entities: dict[str, Entity] = {}
        self._order: list[tuple[int, str]] = []
        self._sequence = 0
        self._log: deque[Change] = deque()
        self._current = _new_cv()
        # Every cv that can still be resumed from, with the sequence number of its change.
        self._known: dict[str, int] = {self._current: 0}
        self._ccids: dict[str, None] = {}
        self._last_versions: dict[str, int] = {}

    @property
    def current(self) -> str:
        """Return the cv of the last change."""
        return self._current

    @_locked
    def read(self, object_id: str, version: int | None = None) -> Stored:
        """Return the newest or the named version. Raises ``Refused`` 404 (or 400 for a bad id)."""
        entity = self._find(object_id)
        wanted = entity.version if version is None else version
        if wanted not in entity.versions:
            raise Refused(404, "Not Found")
        return Stored(object_id, wanted, entity.versions[wanted])

    @_locked
    def all(self) -> dict[str, Stored]:
        """Return every object at its newest version."""
        return {key: Stored(key, e.version, e.head) for key, e in self._entities.items()}

    @_locked
    def __contains__(self, object_id: str) -> bool:
        return object_id in self._entities

    @_locked
    def __len__(self) -> int:
        return len(self._entities)

    @_locked
    def page(self, *, limit: int, mark: str | None = None, since: str | None = None) -> Page:
        """Return one page of the index. Raises ``Refused`` for an unknown ``since`` or a bad ``mark``."""
        floor = 0 if since is None else self._resume(since)
        below = self._sequence + 1 if mark is None else _sequence_of(mark)
        entities = self._newest_first(below=below, floor=floor, count=limit + 1)
        more = len(entities) > limit
        entities = entities[:limit]
        return Page(
            current=self._current,
            entries=tuple(entities),
            mark=_mark_of(entities[-1].sequence) if more else None,
        )

    @_locked
    def changes_since(self, cv: str | None) -> tuple[Change, ...]:
        """Return the changes after ``cv``, oldest first. Raises ``Refused`` 404 if it is not known."""
        start = self._resume(cv)
        skipped = start - (self._sequence - len(self._log))
        return tuple(self._log)[skipped:]

    @_locked
    def write(
        self,
        object_id: str,
        posted: Value,
        *,
        base: int | None = None,
        replace: bool = False,
        ccid: str = "",
        clientid: str = "",
    ) -> Stored:
        """Store ``posted`` over version ``base`` (None: the newest), merged as the service does.

        Raises ``Refused``: 400 schema, 404 unknown base, 409 repeated ccid, 412 nothing changed,
        413 too large.
        """
        entity = self._entities.get(object_id)
        if entity is None:
            check_id(object_id)
        if ccid and ccid in self._ccids:
            raise Refused(409, "Duplicate change")
        before = None if entity is None else entity.head
        after = self._composed(entity, posted, base=base, replace=replace)
        if before is not None and same(before, after):
            raise Refused(412, "Empty change")
        if json_size(after) > self._limits.max_object_bytes:
            raise Refused(413, "Request Entity Too Large")
        return self._commit(object_id, after, ccid=ccid, clientid=clientid)

    @_locked
    def remove(
        self, object_id: str, *, base: int | None = None, ccid: str = "", clientid: str = ""
    ) -> None:
        """Remove an object with all its versions.

        Raises ``Refused``: 404 absent, 400 not in the trash, 409 repeated ccid, and the limits'
        ``stale_delete_status`` if ``base`` is not the newest version.
        """
        entity = self._find(object_id)
        if ccid and ccid in self._ccids:
            raise Refused(409, "Duplicate change")
        if base is not None and base != entity.version:
            missing = base > entity.version or base < 1
            raise Refused(404 if missing else self._limits.stale_delete_status, "Bad version")
        self._rules.check_removal(entity.head)
        self.force_remove(object_id, ccid=ccid, clientid=clientid)

    @_locked
    def force_remove(self, object_id: str, *, ccid: str = "", clientid: str = "") -> None:
        """Remove an object without asking whether that is allowed. Raises ``Refused`` 404."""
        entity = self._find(object_id)
        del self._entities[object_id]
        self._last_versions[object_id] = entity.version
        self._record(
            object_id, entity.head, None, version=entity.version, ccid=ccid, clientid=clientid
        )

    @_locked
    def force_write(self, object_id: str, value: Value, *, clientid: str = "") -> Stored:
        """Store exactly ``value``, unchecked, as the next version."""
        return self._commit(object_id, value, ccid="", clientid=clientid)

    @_locked
    def load(self, objects: Mapping[str, Value]) -> None:
        """Take over many objects that were there from the beginning, in order of age.

        They are not in the change feed: every cv issued before becomes unknown.
        """
        for object_id, value in objects.items():
            self._sequence += 1
            self._place(object_id, value)
        self.forget_changes()

    @_locked
    def forget_changes(self) -> None:
        """Age out the whole change log: every cv issued before becomes unknown."""
        self._log.clear()
        self._current = _new_cv()
        self._known = {self._current: self._sequence}

    def _find(self, object_id: str) -> Entity:
        entity = self._entities.get(object_id)
        if entity is None:
            check_id(object_id)
            raise Refused(404, "Not Found")
        return entity

    def _resume(self, cv: str | None) -> int:
        sequence = None if cv is None else self._known.get(cv)
        if sequence is None:
            raise Refused(404, "unknown cv")
        return sequence

    def _newest_first(self, *, below: int, floor: int, count: int) -> list[Entity]:
        found: list[Entity] = []
        position = bisect_left(self._order, (below,))
        while position > 0 and len(found) < count:
            position -= 1
            sequence, object_id = self._order[position]
            if sequence <= floor:
                break
            entity = self._entities.get(object_id)
            if entity is not None and entity.sequence == sequence:
                found.append(entity)
        return found

    def _composed(
        self, entity: Entity | None, posted: Value, *, base: int | None, replace: bool
    ) -> Value:
        if entity is None:
            if base is not None:
                raise Refused(404, "Not Found")
            self._rules.check(None, posted, now=self._clock())
            return dict(posted)
        version = entity.version if base is None else base
        if version not in entity.versions:
            raise Refused(404, "unknown version")
        origin = entity.versions[version]
        self._rules.check(origin, posted, now=self._clock())
        whole = dict(posted) if replace else {**origin, **posted}
        return whole if version == entity.version else rebase(origin, whole, entity.head)

    def _commit(self, object_id: str, value: Value, *, ccid: str, clientid: str) -> Stored:
        entity = self._entities.get(object_id)
        before, version = (None, 0) if entity is None else (entity.head, entity.version)
        version = self._record(
            object_id, before, value, version=version, ccid=ccid, clientid=clientid
        )
        return Stored(object_id, version, value)

    def _place(self, object_id: str, value: Value) -> int:
        entity = self._entities.get(object_id)
        if entity is None:
            first = 1
            if not self._limits.restart_versions:
                first += self._last_versions.get(object_id, 0)
            entity = Entity(object_id, first, self._sequence, {first: value})
            self._entities[object_id] = entity
        else:
            entity.advance(value, sequence=self._sequence, limits=self._limits)
        self._order.append((self._sequence, object_id))
        self._drop_stale_places()
        return entity.version

    def _drop_stale_places(self) -> None:
        if len(self._order) > 2 * len(self._entities) + 1_000:
            self._order = sorted((e.sequence, e.id) for e in self._entities.values())

    def _record(
        self,
        object_id: str,
        before: Value | None,
        after: Value | None,
        *,
        version: int,
        ccid: str,
        clientid: str,
    ) -> int:
        self._sequence += 1
        end = version + 1 if after is None else self._place(object_id, after)
        self._current = _new_cv()
        change = Change(
            id=object_id,
            cv=self._current,
            before=before,
            after=after,
            start_version=version,
            end_version=end,
            ccids=(ccid,) if ccid else (),
            clientid=clientid,
        )
        self._remember(change)
        for listener in tuple(self.listeners):
            listener(change)
        return end

    def _remember(self, change: Change) -> None:
        self._log.append(change)
        self._known[change.cv] = self._sequence
        if change.ccids:
            self._ccids.update(dict.fromkeys(change.ccids))
            _shorten(self._ccids, self._limits.ccid_memory)
        if len(self._log) > self._limits.change_log:
            self._log.popleft()
            # The oldest cv still known is the one just before the oldest change still kept.
            _shorten(self._known, len(self._log) + 1)


def _new_cv() -> str:
    return secrets.token_hex(12)


def _shorten(mapping: dict[str, int] | dict[str, None], length: int) -> None:
    for key in list(islice(mapping, max(len(mapping) - length, 0))):
        del mapping[key]


def _mark_of(sequence: int) -> str:
    return f"{sequence * 2_654_435_761 % 2**32:08x}{sequence:x}"


def _sequence_of(mark: str) -> int:
    try:
        sequence = int(mark[8:], 16)
    except ValueError:
        sequence = -1
    if sequence < 0 or mark != _mark_of(sequence):
        raise Refused(400, "bad mark")
    return sequence
