"""Keep the journal of writes: an entry is on the disk before anything is sent.

``Journal`` records, claims and finishes entries together with their notes, each in one transaction. It sends nothing and
decides nothing about content. An entry is leased to the process that works on it (``note_locks``).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace

from mcp_notarium.domain.conflict_copy import copy_content, copy_write_id
from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import CacheError
from mcp_notarium.markup.obsidian_links import Link, find_targets
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.storage.kept_versions import KeptVersions
from mcp_notarium.stores.contract import SEEDED, Store, Versions, sent_by
from mcp_notarium.sync.write_decisions import View
from mcp_notarium.sync.write_errors import HIDDEN_SINCE

# defence: profile-judges-writes False=True
REPLAYING: ContextVar[bool] = ContextVar("replaying", default=False)
"""True while an entry of any client is finished later: the rules of the index judge it, not those of this process's profile."""
LONGEST_LEASE = 3600.0
"""Seconds, longer than any lease. One that ends later began before the clock was set back."""


class Journal:
    """Read and write the pending writes of one database, as one process."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        owner: str,
        lease: float,
        owner_ended: Callable[[str], bool],
    ) -> None:
        self._cache = cache
        self._store = store
        self.owner = owner
        self._lease = lease
        self._owner_ended = owner_ended
        self.versions = KeptVersions(cache, store)
        self._traits = traits = store.traits
        self._keeps_ours = traits.versions is not Versions.BY_ETAG and not traits.in_database
        """The store keeps none, or not each: what is written from here becomes a version when another program replaces it."""
        self._ends_flushed: set[str] = set()
        """Ids of the entries whose end is flushed with its commit: no outcome of a call is recorded right after it."""
        self._in_task: set[str] = set()
        """Ids of the entries that the task sends which has recorded them with another one."""

    def make(
        self,
        *,
        note_id: str,
        kind: WriteKind,
        content: Content,
        over: Revision | None = None,
        write_id: str | None = None,
        copied: bool = False,
        repair: bool = False,
        after: str = "",
        change_id: str = "",
        keeps: bool = False,
    ) -> PendingWrite:
        """Make an entry leased to this process from now on; it is not recorded yet.

        ``over`` None: a first attempt gets its body when the head of the note is known. ``write_id`` None: a new one.
        """
        now = self._cache.clock()
        composed = over is not None or kind is WriteKind.CREATE
        return PendingWrite(
            write_id=write_id or uuid.uuid4().hex,
            note_id=note_id,
            kind=kind,
            base_etag=over.etag if over else None,
            content=content,
            body=self.compose(over, content) if composed else b"",
            created_at=now,
            owner=self.owner,
            lease_until=now + self._lease,
            copied=copied,
            repair=repair,
            after=after,
            change_id=change_id,
            keeps=keeps,
        )

    def compose(self, base: Revision | None, content: Content) -> bytes:
        """Return what is pushed now to make ``content`` of a revision, or of nothing."""
        return self._store.compose(base, content, now=self._cache.clock())

    def sent(self, write: PendingWrite, head: Revision | Tombstone | None = None) -> Revision:
        """Return the note as the body of an entry makes it; see ``sent_by``."""
        return sent_by(self._store, write, head)

    def make_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """Make the id of a new note: a free one where rules hide notes, which a taken one would betray."""
        hides = self._judge.rules.has_rules
        return self._store.new_id(content, seed=seed, attempt=attempt + (SEEDED if hides else 0))

    def copy_of(self, write: PendingWrite, *, of: Revision | None = None) -> PendingWrite:
        """Make the entry of a conflict copy: of the write's own text, or of what it has overwritten; a rejected one where only the note is hidden."""
        # As the note would have it: a draft may have lines above the front matter of the note.
        ours = replace(write.content, text=self.sent(write).content.text)
        content = copy_content(
            of.content if of else ours,
            shares_by_tag=self._traits.shares_by_tag,
            folder=write.note_id.rpartition("/")[0] if self._traits.ids.paths else None,
        )
        write_id = copy_write_id(write.write_id, **({"of": of.etag} if of else {}))
        copy = self.make(
            write_id=write_id,
            note_id=self.make_id(content, seed=write_id, attempt=0),
            kind=WriteKind.CREATE,
            content=content,
            copied=True,
        )
        return copy.rejected(HIDDEN_SINCE) if of and self.shows(of, copy) else copy

    def shows(
        self, head: Revision | Tombstone, write: PendingWrite, *, copies: bool = True
    ) -> bool:
        """Tell whether a write shows a note that the policy hides: of its id, or a conflict copy."""
        rule = self.find_rule(head)
        follows = copies and (rule or "").startswith("hidden_ids")  # it hides the copy, too
        return rule is not None and not follows and self.sees_revision(self.sent(write))

    def record(
        self, view: View, act: Act | None, following: Sequence[PendingWrite]
    ) -> PendingWrite | None:
        """Record the entry of a first attempt, with the revision it was made from and those ``following`` it; flush it next.

        The audit record of ``act`` is in the same transaction. Raises ``NotRecorded`` with neither stored, and ``InvalidRequest``:
        see :meth:`KeptVersions.require_room`.
        Return it, leased from now on; None, and nothing is recorded, if the note has another entry by now, or the index another revision.
        """
        base, seen, now = view.base, view.seen, self._cache.clock()
        write = replace(view.write, created_at=now, lease_until=now + self._lease)
        # Another revision gets a version with it, which must not be used again after a loss of power.
        is_news = base is not None and seen != base.etag
        begun = (
            self._cache.transaction(durable=is_news)
            if act is None  # defence: write-recorded-first =True
            else act.transaction(durable=is_news)
        )
        with begun:
            held, busy = self._cache.standing(write.note_id)
            if busy or held not in (seen, base.etag if base else seen):
                return None
            if base is not None and held != base.etag:
                self._cache.notes.apply([base])
            self.versions.require_room(write, *following, base=base)
            for entry in (write, *following):
                made = replace(entry, client=act.client) if act else entry
                self._cache.journal.add(made, flushed_next=True)
        if following:
            self._ends_flushed.add(write.write_id)
        self._leave_to_task(following)
        return write

    def rename(self, write: PendingWrite, note_id: str) -> PendingWrite:
        """Let the entry and its note follow to the new id of the note at the store."""
        with self._cache.transaction(durable=True):  # it has another version then, which is shown
            self._rename(write.note_id, note_id)
            self._cache.journal.rename(write.write_id, note_id)
        return replace(write, note_id=note_id, from_id=write.from_id or write.note_id)

    def begin_here(self, write: PendingWrite) -> PendingWrite:
        """Let the entry begin with the id that the note has now: somebody else has moved it, which no undo of the entry takes back."""
        with self._cache.transaction(durable=True):
            self._cache.journal.begin_here(write.write_id)
        return replace(write, from_id="")

    def _rename(self, old: str, new: str) -> None:
        """Give a note the id that it got by a write; a note that the index has there is gone, or is this note."""
        if self._cache.notes.base(old) is not None:
            self._cache.notes.apply([Tombstone(new)])
            self._cache.notes.rename(old, new)

    def add_copy(self, copy: PendingWrite) -> bool:
        """Put a conflict copy on the disk by itself; False if it is there already."""
        with self._cache.transaction(durable=True):
            if self._cache.journal.get(copy.write_id) is not None:
                return False
            self._cache.journal.add(copy)
        return True

    def adopt(self, head: Revision | Tombstone, *, seen: str | None) -> None:
        """Store the store's revision of a note, unless the note has changed here or is being saved."""
        with self._cache.transaction(durable=True):
            held, busy = self._cache.standing(head.id)
            etag = head.etag if isinstance(head, Revision) else seen
            if held in (seen, etag) and not busy:
                self._cache.adopt(head, keeps_lost=self._traits.versions is Versions.NONE)

    def rebase(
        self, write: PendingWrite, *, base: Revision | None, in_part: bool = False
    ) -> PendingWrite | None:
        """Record the entry again as ``write`` says it, over ``base`` (None: a new note), under the same write_id.

        ``in_part``: what ``base`` has of its own is ours, so what the index has is what the write replaces. None, and nothing is recorded, if another process has finished it or taken it over.
        """
        with self._cache.transaction(durable=True):
            entry = self._cache.journal.get(write.write_id)
            if entry is None or entry.owner != self.owner:
                self._ends_flushed.discard(write.write_id)
                return None
            self._cache.journal.drop(write.write_id)
            if base is not None and not in_part:
                self._cache.notes.apply([base])
            rebased = replace(
                write,
                base_etag=base.etag if base else None,
                client=entry.client,
                lease_until=self._cache.clock() + self._lease,
                first_etag=entry.first_etag or entry.base_etag,
            )
            self._cache.journal.add(rebased)
        return rebased

    def finish(
        self,
        write: PendingWrite,
        *,
        storing: Revision | Tombstone | None = None,
        follow_ups: Sequence[PendingWrite] = (),
        differs: bool = False,
        stored: bool = True,
        own: bool = False,
        others: bool = False,
    ) -> bool:
        """Store the answer (None: nothing was sent), drop the entry and record its follow-ups, in one transaction.

        The revision that the answer replaces is kept as a version, unless the store has not taken the write (``stored`` False). ``own``:
        see :meth:`KeptVersions.keep_replaced`. The audit record of a call's outcome flushes the answer to it, unless links are written
        in between or no call waits for it. ``differs``: the store holds something else than was sent, which is counted for the user.
        ``others``: another program has written the answer, over ours. False if another process has taken the entry over or finished
        it. The answer is stored all the same while that process works on it, so that nobody sees the old note.
        """
        # A version that is shown must not be used again after a loss of power. The outcome of a call that writes
        # links comes after the last of them: others read the note and the first ones long before.
        # Without a lease another process may have it, and answers.
        alone = write.write_id in self._ends_flushed or not self.is_leased(write)
        self._ends_flushed.discard(write.write_id)
        with self._cache.transaction(
            durable=bool(follow_ups or write.after) or storing is None or alone
        ):
            entry = self._cache.journal.get(write.write_id)
            if entry is None:
                return False
            ours = entry.owner == self.owner
            if storing is not None and (ours or self._is_behind(write, storing)):
                kept = stored and self.versions.keep_replaced(entry, storing, own=own)
                here = stored and not others and (own or self.versions.has_text_of(entry, storing))
                self._apply_answer(entry, storing, kept=kept, here=here and self._keeps_ours)
            if ours:
                self._cache.journal.drop(write.write_id)
                if not (stored and isinstance(storing, Revision)):
                    self._cache.journal.drop_following(write.write_id)
                if differs:
                    self._cache.sync_state.record_difference(at=self._cache.clock())
                for follow_up in follow_ups:
                    self._cache.journal.add(replace(follow_up, client=entry.client))
        if alone and ours:
            self._ends_flushed.update(one.write_id for one in follow_ups if not one.after)
        self._leave_to_task(follow_ups)
        return ours

    def _leave_to_task(self, entries: Sequence[PendingWrite]) -> None:
        """Let no other task of this process claim what the present one records and sends: it has not locked these notes."""
        if entries and (task := asyncio.current_task()):
            ids = {one.write_id for one in entries}
            self._in_task |= ids
            task.add_done_callback(lambda _: self._in_task.difference_update(ids))

    def _is_behind(self, write: PendingWrite, storing: Revision | Tombstone) -> bool:
        """Tell whether the index still has the base of a write, and not its answer: a move may leave the etag."""
        notes = self._cache.notes
        return notes.etag(write.note_id) == write.base_etag and notes.base(storing.id) != storing

    def _apply_answer(
        self, entry: PendingWrite, storing: Revision | Tombstone, *, kept: bool, here: bool
    ) -> None:
        """Store the answer, made ``here`` or not; the id of the entry, which a caller may hold, goes on to mean the note."""
        if self.versions.apply_removal(entry, storing):
            return
        renamed = storing.id != entry.note_id
        if renamed and entry.kind is WriteKind.UPDATE:
            self._rename(entry.note_id, storing.id)
        done = self._cache.notes.apply([storing], written_here=here, kept=kept)
        if here and done.unchanged:
            self._cache.notes.mark_written(storing.id)  # it came as somebody else's meanwhile
        if renamed and entry.kind is WriteKind.CREATE:
            self._cache.notes.names.add_alias(entry.note_id, storing.id)

    def reject(self, write: PendingWrite, reason: str) -> None:
        """Keep the entry as text that the store will never take."""
        self._ends_flushed.discard(write.write_id)
        with self._cache.transaction(durable=True):
            self._cache.journal.drop_following(write.write_id)
            self._cache.journal.reject(write.write_id, reason)

    def waits(self, write: PendingWrite) -> bool:
        """Tell whether another entry must be finished before this one: links follow a renaming, and wait for any that is on its way."""
        first = self._cache.journal.get(write.after) if write.after else None
        return first is not None or (bool(write.after) and self._is_renaming())

    def find_moved_links(self, write: PendingWrite, note_id: str) -> dict[Link, str | None]:
        """Return what links must become that an entry writes into a note, and whose note was renamed once more since."""
        if not write.after:
            return {}
        base = self._cache.notes.base(write.note_id)
        ours = {*find_targets(write.content.text)}
        ours = ours - {*find_targets(base.content.text if base else "")} or ours
        return self._cache.notes.links.find_moved(note_id, ours)

    def lags(self, write: PendingWrite, note_id: str) -> bool:
        """Tell whether the links that an entry has written into a note are to follow another renaming."""
        return bool(write.after) and (
            self._is_renaming() or bool(self.find_moved_links(write, note_id))
        )

    def _is_renaming(self) -> bool:
        """Tell whether the renaming of any note is on its way."""
        writes = (one for one in self._cache.journal.in_flight() if one.kind is WriteKind.UPDATE)
        bases = ((write, self._cache.notes.base(write.note_id)) for write in writes)
        return any(base and base.content.title != write.content.title for write, base in bases)

    def release(self, write: PendingWrite) -> None:
        """End the lease, so that any process may finish the entry; at its time if that fails."""
        self._ends_flushed.discard(write.write_id)
        with suppress(CacheError):
            self._cache.journal.renew(write.write_id, owner=self.owner, lease_until=0.0)

    def leave(self, write: PendingWrite) -> None:
        """Let the end of an entry be flushed with its commit, as its caller has left."""
        with suppress(CacheError):
            if self._cache.journal.get(write.write_id) is not None:
                self._ends_flushed.add(write.write_id)  # defence: end-without-caller-flushed

    def claim(self, write: PendingWrite) -> PendingWrite | None:
        """Lease the entry to this process; None if another process, or another task, is working on it."""
        now = self._cache.clock()
        claimed = write.write_id not in self._in_task and self._cache.journal.claim(
            write.write_id,
            owner=self.owner,
            now=now,
            lease_until=now + self._lease,
            latest=now + LONGEST_LEASE,
            gone_owner=write.owner if self._owner_ended(write.owner) else None,
        )
        if not claimed:
            return None
        self._ends_flushed.add(write.write_id)
        return self._cache.journal.get(write.write_id)

    def can_claim(self, write: PendingWrite) -> bool:
        """Tell whether :meth:`claim` would succeed now."""
        free = not self.is_leased(write) or self.may_take_from(write.owner)
        return free and write.write_id not in self._in_task

    def is_in_doubt(self, write: PendingWrite) -> bool:
        """Tell whether no other process makes the first attempt of an entry now: none has it, or one repeats it."""
        return self.can_claim(write) or write.lease_until != write.created_at + self._lease

    def may_take_from(self, owner: str) -> bool:
        """Tell whether what a process has begun may be finished here: it is this one, has ended, or '' for nobody."""
        return owner in ("", self.owner) or self._owner_ended(owner)

    def is_leased(self, write: PendingWrite) -> bool:
        """Tell whether others leave the entry alone now."""
        now = self._cache.clock()
        return now < write.lease_until <= now + LONGEST_LEASE

    @property
    def _judge(self) -> VisibilityFilter:
        """Return what judges by the rules of the caller, whose profile may narrow those of the index."""
        seen = self._cache if REPLAYING.get() else self._cache.seen
        return seen.notes.visibility

    def sees(self, note_id: str, content: Content) -> bool:
        """Tell whether the policy would show the note with this content."""
        return self._judge.sees(note_id, content)

    def sees_revision(self, revision: Revision) -> bool:
        """Tell whether the policy shows the note as the store has it."""
        return self.find_rule(revision) is None

    def find_rule(self, revision: Revision | Tombstone) -> str | None:
        """Return the rule of the policy that hides the note as the store has it, or had it at last; None: it is shown."""
        if isinstance(revision, Tombstone):
            known = self._judge.hidden_notes([revision.id])
            return known[revision.id].rule if known else None
        return self._judge.find_rule(revision)

    def is_taken(self, head: Revision, *, hides: bool = True) -> bool:
        """Tell whether the store has another note under the id of the one that the index holds; ``hides``: or one of a hidden id."""
        notes = self._cache.notes
        hidden = hides and self._judge.names.find_rule(head.id, head.identity) is not None
        taken = notes.names.is_taken(head.id, head.identity)
        held = notes.base(head.id) if taken else None
        return hidden or (taken and (held is None or held.identity != head.identity))

    def follow(self, revision: Revision, *others: str) -> None:
        """Let rules on ids follow a note to the id where it was met, and to these others."""
        with self._cache.transaction(durable=True):
            self._cache.notes.follow([(one, revision.identity) for one in (revision.id, *others)])

    def hide_copies(self, note_id: str, copies: Iterable[str]) -> None:
        """Let a rule that hides a note by its id hide these as well, which will have its text."""
        # defence: copy-of-hidden-note-hidden =False
        rules = self._cache.notes.visibility.rules
        if rules.hidden_ids or rules.followed_ids:
            with self._cache.transaction(durable=True):
                same = f"copies of {note_id}"  # stands for what tells that two ids are of one note
                self._cache.notes.follow([(one, same) for one in (note_id, *copies)])

    def in_flight(self, note_id: str) -> PendingWrite | None:
        """Return the note's unfinished entry."""
        return next(
            (one for one in self._cache.journal.in_flight() if one.note_id == note_id), None
        )
