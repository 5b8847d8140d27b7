"""Show one profile its part of an account: an index of its own, in memory, in step with the one that is stored.

It is filled through the same gate as any index (``hidden_notes.py``), under the rules of the policy and the profile. What they hide
is therefore not in it at all, and every answer made from it is that of an account without it: order, totals,
suggestions and numbers of versions too. Writes, sync, journal, versions and audit log work on what is stored.

A note's ``local_version`` is counted here as in an account of its own; ``profile_numbers`` keeps by how much that differs from the
stored one, so that a number never means another text after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone, by_identity
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.markup.obsidian_links import Links
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.hidden_notes import RULES_KEY
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.note_ids import CLEARED
from mcp_notarium.storage.sync_state import SyncState
from mcp_notarium.storage.version_table import Makers, NoteVersion, Removed, VersionTable, labelled


@dataclass(frozen=True, slots=True)
class Numbers:
    """Hold how the versions of a note are counted: from which stored number on is how much added, in this order.

    Versions below the first number are not shown.
    """

    parts: tuple[tuple[int, int], ...] = ((0, 0),)
    """Empty while the note is hidden."""

    @property
    def least(self) -> int:
        """Return the lowest stored number that is shown."""
        return self.parts[0][0] if self.parts else _HIGHEST

    def here(self, stored: int) -> int:
        """Return the number that is shown for a stored one."""
        return stored + next((by for first, by in reversed(self.parts) if first <= stored), 0)

    def stored(self, here: int) -> int:
        """Return the stored number for one that is shown."""
        return here - next((by for first, by in reversed(self.parts) if first + by <= here), 0)

    def going_on(self, first: int, shift: int) -> Numbers:
        """Return the same with another shift from this number on."""
        if self.parts and self.parts[-1][1] == shift:
            return self
        return Numbers((*self.parts, (first, shift)))


_HIGHEST = 1 << 62
USUAL = Numbers()
HIDDEN = Numbers(())


class ViewVersions(VersionTable):
    """Read the stored versions of the notes that are seen, counted as these are."""

    def __init__(self, view: ViewCache) -> None:
        stored = view.stored
        super().__init__(stored.database, stored.versions.limits, stored.versions.clock)
        self._view = view

    def of(self, note_id: str) -> list[NoteVersion]:
        """See :meth:`VersionTable.of`."""
        least, numbers = self._find_least(note_id), self._view.numbers_of(note_id)
        rows = [one for one in super().of(note_id) if one.local_version >= least]
        return [replace(one, local_version=numbers.here(one.local_version)) for one in rows]

    def makers(self, note_id: str) -> Makers:
        """See :meth:`VersionTable.makers`."""
        least, numbers = self._find_least(note_id), self._view.numbers_of(note_id)
        return Makers(
            [
                (number and numbers.here(number), made, by)
                for number, made, by in super().makers(note_id).writes
                if number >= least
            ]
        )

    def get(self, note_id: str, number: int) -> tuple[NoteVersion, Content | None] | None:
        """See :meth:`VersionTable.get`."""
        stored = self._view.numbers_of(note_id).stored(number)
        if stored < self._find_least(note_id):
            return None
        found = super().get(note_id, stored)
        return found and (replace(found[0], local_version=number), found[1])

    def native(self, note_id: str, number: int) -> str:
        """See :meth:`VersionTable.native`."""
        return super().native(note_id, self._view.numbers_of(note_id).stored(number))

    def natives_since(self, note_id: str, number: int) -> list[str]:
        """See :meth:`VersionTable.natives_since`."""
        return super().natives_since(note_id, self._view.numbers_of(note_id).stored(number))

    def removed(self, note_id: str) -> list[Removed]:
        """See :meth:`VersionTable.removed`; none while a note of the id is hidden here."""
        return super().removed(note_id) if self._view.stored.notes.etag(note_id) is None else []

    def _find_least(self, note_id: str) -> int:
        """Return the lowest stored number that is shown: it, and all above, were seen."""
        visibility, least = self._view.notes.visibility, self._view.numbers_of(note_id).least
        for number, clear, tags, properties, text in self._db.rows(_LABELS, (note_id, least)):
            content = labelled(tags, properties, text or "")
            if visibility.find_rule_of(note_id, content, clear=bool(clear)) is not None:
                return int(number) + 1
        return least


class ViewJournal(JournalTable):
    """List the unfinished writes of notes that are seen."""

    def __init__(self, view: ViewCache) -> None:
        super().__init__(view.stored.database)
        self._view = view

    def all(self) -> list[PendingWrite]:
        """See :meth:`JournalTable.all`."""
        sees = self._view.notes.visibility.sees
        return [one for one in super().all() if sees(one.note_id, one.content)]


_LABELS = """
SELECT number, tags_understood, tags, properties, text FROM note_versions
WHERE note_id = ? AND number >= ? AND number > 0 ORDER BY number DESC
"""


_FLOORS = ("local_version_floor", "local_version_highest")


class _Known(NamedTuple):
    """Hold what is known of a stored note, seen or not."""

    pk: int
    etag: str
    identity: str | None
    version: int


class ViewCache(Cache):
    """Hold what one profile shows of the ``stored`` cache, under ``rules``."""

    def __init__(self, stored: Cache, rules: Visibility, profile: str) -> None:
        database = database_opener.create_in_memory(meta={})
        super().__init__(database, rules, stored.versions.limits, stored.versions.clock)
        self.stored = self._stored = stored
        self._profile = profile
        self._known: dict[str, _Known] = {}
        self._numbers: dict[str, Numbers] = {}
        self._stamp: object = None
        self._changes = -1
        self._cleared: str | None = None
        self._aliases: set[tuple[str, ...]] = set()
        self._names: set[tuple[str, ...]] = set()
        self._state = SyncState(database)
        self.versions = ViewVersions(self)
        self.journal = ViewJournal(self)
        self.sync_state, self.change_records = stored.sync_state, stored.change_records
        self.progress = stored.progress
        self.follow = self._look
        with self.database.transaction():
            self._state.set(RULES_KEY, rules.digest or None)
        stored.seen, stored.shown = self, self._show

    async def flush(self) -> None:
        """See :meth:`Cache.flush`."""
        await self._stored.flush()

    def close(self) -> None:
        """Close both databases. Idempotent."""
        super().close()
        self._stored.close()

    def _show(self, note_id: str) -> Note | None:
        self._look()
        return self.notes.get(note_id)

    def numbers_of(self, note_id: str) -> Numbers:
        """Return how the versions of a note are counted."""
        return self._numbers.get(note_id, USUAL)

    def _look(self) -> None:
        """Bring it in step with what is stored. Raises ``PolicyChanged`` if that is under other rules by now.

        Nothing is read if nothing was written since.
        """
        database = self._stored.database
        self._stored.notes.visibility.require_match()
        if (stamp := database.stamp()) == self._stamp:
            return
        try:
            self._follow_changes()
        except BaseException:
            self._forget()
            raise
        self._stamp = stamp

    def _follow_changes(self) -> None:
        with self._stored.database.moment():
            if (changes := self._stored.notes.changes()) == self._changes:
                return
            first = self._changes < 0
            if first:
                self._load_numbers()
            with self.database.transaction():
                counted = self._catch_up(first=first)
        self._keep_numbers(counted)
        self._changes = changes
        while self.notes.index.tidy():
            pass

    def _forget(self) -> None:
        """Show nothing until all is taken over again: what was taken over in part proves nothing."""
        self._stamp, self._changes, self._cleared = None, -1, None
        self._known, self._numbers, self._aliases, self._names = {}, {}, set(), set()
        with self.database.transaction():
            self.notes.clear()

    def _catch_up(self, *, first: bool) -> set[str]:
        """Take over what has changed; return the notes whose numbers have. Inside a transaction."""
        cleared = self._stored.sync_state.get(CLEARED[0])
        if cleared != self._cleared and not first:
            self.notes.clear()
            self._known = {}
        self._cleared = cleared
        rows = self._stored.database.rows(_STORED)
        now = {row[0]: _Known(*row[1:]) for row in rows}
        self._follow_names(now, first=first)
        renamed = set[str]() if first else self._follow_renames(now)
        known, news, counted = self._known, self._find_news(now), {*renamed}
        again = {one for one in news if one in known and known[one].pk != now[one].pk}
        gone = [one for one in known if one not in now or one in again]
        changed = [
            one
            for one in news
            if one in again or one not in known or known[one].etag != now[one].etag
        ]
        before = self.notes.etags([*gone, *changed])
        hidden = {*self.notes.visibility.hidden_notes(changed)}
        self.notes.apply(self._read_changes(gone, changed))
        seen = self.notes.etags(changed)
        for one in before.keys() - seen.keys():
            if one in now:
                self._numbers[one] = HIDDEN
                counted.add(one)
        fresh = {one for one in seen if one not in before or one in again}
        for one in {*seen, *(renamed & self.notes.etags([*renamed]).keys())}:
            counted |= self._count(
                one,
                now[one].version,
                fresh=one in fresh,
                was_hidden=one in hidden,
                moved=one in renamed,
                first=first,
            )
        identities = {one: now[one].identity for one in news if one in known}
        moved = {one: it for one, it in identities.items() if it and it != known[one].identity}
        self.notes.names.set_identities(moved)
        before_pks = {was.pk for was in known.values()} if fresh else set[int]()
        self._follow_aliases(one for one in fresh if now[one].pk in before_pks)
        self._known = now
        return counted

    def _read_changes(
        self, gone: Iterable[str], changed: Iterable[str]
    ) -> Iterator[Revision | Tombstone]:
        yield from map(Tombstone, gone)
        for note_id in changed:
            base = self._stored.notes.base(note_id)
            if base is not None:
                yield replace(base, links=self._read_links(note_id))

    def _read_links(self, note_id: str) -> Links | None:
        database = self._stored.database
        if not database.row(_HAS_NAMES, (note_id,)):
            return None
        return Links(
            tuple(row[0] for row in database.rows(_TARGETS, (note_id,))),
            tuple(row[0] for row in database.rows(_ALIASES, (note_id,))),
        )

    def _follow_names(self, now: Mapping[str, _Known], *, first: bool) -> None:
        """Hide under each name what rules on ids hide; see ``note_ids``."""
        rules = self.notes.visibility.rules
        if rules.hidden_ids:
            wanted = json.dumps([*rules.hidden_ids])
            rows = {*self._stored.database.rows(_HIDDEN_NAMES, (wanted,))}
            if added := rows - self._names:
                self.database.run_many(
                    "INSERT OR IGNORE INTO hidden_names(kind, name, rule) VALUES (?, ?, ?)",
                    sorted(added),
                )
                self.notes.hide(self.notes.find_hidden(self.notes.etags()))
            self._names = rows
            seen = now if first else self._find_news(now)
            self.notes.follow([(one, now[one].identity) for one in seen])

    def _follow_renames(self, now: Mapping[str, _Known]) -> set[str]:
        """Rename what has another id by now; return the ids that notes have got.

        As a listing of what is seen would show it: a note has gone, and one with its identity, or its row, is where none was.
        """
        news = self._find_news(now)
        seen = self.notes.etags([*(one for one in self._known if one not in now), *news])
        visible = {one for one in news if self._sees(one)}
        lost = {one for one in seen if one not in now or (one in news and one not in visible)}
        if not lost:
            return set()
        identities = self.notes.names.identities()
        was = by_identity({one: identities[one] for one in lost if one in identities})
        new = {one: now[one] for one in visible if one not in seen}
        found = by_identity({one: it.identity for one, it in new.items() if it.identity})
        renamed = {was[it]: found[it] for it in sorted(was.keys() & found.keys())}
        rows = {it.pk: one for one, it in new.items()}
        for old in sorted(lost - renamed.keys()):
            pk = self._known[old].pk
            is_alias = self._stored.database.row(_IS_ALIAS, (old, pk)) is not None
            if pk in rows and is_alias and rows[pk] not in renamed.values():
                renamed[old] = rows[pk]
        for old, to in renamed.items():
            self.notes.rename(old, to)
            known, numbers = self._known.pop(old), self._numbers.pop(old, USUAL)
            # Else what is kept of versions is of the note that was there.
            same = known.pk == now[to].pk
            self._numbers[to] = numbers if same else HIDDEN
            self._known[to] = known._replace(pk=now[to].pk)
        return {*renamed.values()}

    def _find_news(self, now: Mapping[str, _Known]) -> list[str]:
        """Return the stored notes that are not as they are known, in the order of their rows."""
        known = self._known
        return [one for one, it in now.items() if known.get(one) != it]

    def _sees(self, note_id: str) -> bool:
        base = self._stored.notes.base(note_id)
        return base is not None and self.notes.visibility.find_rule(base) is None

    def _follow_aliases(self, shown: Iterable[str]) -> None:
        """Take over new old ids of notes; not those that a note of ``shown`` had before, while it was hidden."""
        rules, rows = self.notes.visibility.rules, {*self._stored.database.rows(_ALL_ALIASES)}
        again = {*shown}
        for alias, note_id in rows - self._aliases:
            if note_id not in again and not rules.closes(alias):
                self.notes.names.add_alias(alias, note_id)
        self._aliases = rows

    # How versions are counted.

    def _number(self, note_id: str) -> int:
        return self.database.number("SELECT local_version FROM notes WHERE id = ?", (note_id,))

    def _count(
        self, note_id: str, stored: int, *, fresh: bool, was_hidden: bool, moved: bool, first: bool
    ) -> set[str]:
        """Count a note that has changed; return it if its numbers are counted otherwise from now on."""
        kept = self._numbers.get(note_id)
        if moved or (fresh and not (first and kept is not None and kept.parts)):
            shift = self._number(note_id) - stored
            if kept is None and not was_hidden:
                kept = Numbers(((0, shift),))
            elif was_hidden or kept is None or not kept.parts:
                kept = Numbers(((stored, shift),))
            else:
                kept = kept.going_on(stored, shift)
            self._numbers[note_id] = kept
            return {note_id}
        number = (kept or USUAL).here(stored)
        self.database.run(_RENUMBER, (number, note_id))
        self.database.run(_RECORD_HIGHEST, (number, note_id))
        return set()

    def _load_numbers(self) -> None:
        for note_id, number, shift in self._stored.database.rows(_NUMBERS, (self._profile,)):
            parts = self._numbers.get(note_id, HIDDEN).parts
            is_part = number != _HIDDEN_SINCE
            self._numbers[note_id] = Numbers((*parts, (number, shift))) if is_part else HIDDEN
        with self.database.transaction():
            for key in _FLOORS:
                self._state.set(key, self._stored.sync_state.get(self._key(key)))
            stored = self._stored.notes.etags([*self._numbers])
            if (
                self._numbers.keys() - stored.keys()
            ):  # some went meanwhile, and took their numbers with them
                self.notes.raise_version_floor()

    def _keep_numbers(self, counted: Iterable[str]) -> None:
        """Record how versions are counted, before anybody is told a number."""
        stored = self._stored
        floors = {key: self._state.get(key) for key in _FLOORS}
        if stored.database.read_only:
            return
        counted = {*counted}
        news = counted or any(
            stored.sync_state.get(self._key(key)) != value for key, value in floors.items()
        )
        if not news:
            return
        rows = [
            (self._profile, one, *part)
            for one in counted
            if one in self._numbers
            for part in self._numbers[one].parts or ((_HIDDEN_SINCE, 0),)
        ]
        with stored.database.join_or_begin():
            stored.database.run(_FORGET_NUMBERS, (self._profile, json.dumps([*counted])))
            stored.database.run_many(
                "INSERT INTO profile_numbers(profile, note_id, first, shift) VALUES (?, ?, ?, ?)",
                rows,
            )
            for key, value in floors.items():
                stored.sync_state.set(self._key(key), value)

    def _key(self, key: str) -> str:
        return f"profile.{self._profile}.{key}"


_STORED = """
SELECT n.id, n.pk, b.etag, b.identity, n.local_version
FROM notes n JOIN note_base b ON b.pk = n.pk ORDER BY n.pk
"""
_HAS_NAMES = "SELECT 1 FROM note_names WHERE pk = (SELECT pk FROM notes WHERE id = ?)"
_TARGETS = """
SELECT target FROM note_links WHERE pk = (SELECT pk FROM notes WHERE id = ?) ORDER BY place
"""
_ALIASES = """
SELECT key FROM note_names WHERE kind = 'alias' AND pk = (SELECT pk FROM notes WHERE id = ?)
"""
_HIDDEN_NAMES = """
SELECT kind, name, rule FROM hidden_names WHERE rule IN (SELECT value FROM json_each(?))
"""
_IS_ALIAS = "SELECT 1 FROM note_aliases WHERE alias = ? AND pk = ?"
_ALL_ALIASES = "SELECT a.alias, n.id FROM note_aliases a JOIN notes n ON n.pk = a.pk"
_RENUMBER = "UPDATE notes SET local_version = ?1 WHERE id = ?2 AND local_version <> ?1"
_HIDDEN_SINCE = -1
"""Stands for the numbers of a note that is hidden, and was seen before."""
_RECORD_HIGHEST = """
INSERT INTO sync_metadata(key, value)
SELECT 'local_version_highest', CAST(?1 AS TEXT) FROM notes WHERE id = ?2 AND ?1 > coalesce(server_version, 0)
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(value AS INTEGER) < ?1
"""
_NUMBERS = (
    "SELECT note_id, first, shift FROM profile_numbers WHERE profile = ? ORDER BY note_id, first"
)
_FORGET_NUMBERS = """
DELETE FROM profile_numbers WHERE profile = ? AND note_id IN (SELECT value FROM json_each(?))
"""
