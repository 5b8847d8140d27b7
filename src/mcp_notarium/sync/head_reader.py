"""Read what the store holds of a note, and compare it with a write: all that ``write_decisions`` decides by.

Nothing is changed here. A note that is not under its name may have been renamed if ids are names: a full listing tells.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import cast

from mcp_notarium.domain.conflict_copy import (
    contains_change,
    has_arrived_in_part,
    is_ours_rewritten,
    plan_repair,
)
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.domain.write_scope import WriteScope
from mcp_notarium.errors import (
    IdTaken,
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.markup.obsidian_links import rewrite_links
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Retry, Store, VersionedStore, Versions, WriteGuard
from mcp_notarium.stores.extensions import RevivingStore, find_inside, find_native, native_of
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_for_replay, get_newest, get_proven
from mcp_notarium.sync.write_decisions import (
    Asked,
    Attempt,
    Fact,
    Held,
    View,
    held_for_creation,
    held_for_deletion,
    held_for_update,
)

_MOST_SINCE = 8
"""Revisions between the base of a write and the head of its note that are read, at most."""


class PerhapsRenamed(OutcomeUnknown):
    """Report an entry that must wait until a full listing has been compared, or another one is finished."""

    def __init__(self, message: str, write: PendingWrite) -> None:
        super().__init__(message, details={"id": write.note_id, "write_id": write.write_id})


class HeadReader:
    """Read the heads of notes for writes."""

    def __init__(self, cache: Cache, store: Store, *, journal: Journal, scope: WriteScope) -> None:
        self._cache = cache
        self._scope = scope
        self.scoped = scope.has_rules
        """Callers may change some notes only."""
        self._store = store
        self._journal = journal
        traits = store.traits
        self._merges = traits.write_guard is WriteGuard.SERVER_MERGE
        self._merges &= traits.versions is Versions.BY_ETAG
        self._in_parts = traits.write_guard is WriteGuard.LAST_WRITER and not traits.ids.named

    async def look_first(self, view: View, asked: Asked) -> View:
        """Read the note before a first attempt; of a change that can be sent the entry says what to send.

        Raises what the store raises, and ``InvalidRequest`` if a note to be removed is not in the trash where it has to be.
        """
        if view.write.kind is WriteKind.CREATE:
            await self._require_result(view.write.note_id, view.write.body, new=True)
            return view
        view = replace(view, seen=self._cache.notes.etag(view.write.note_id))
        if view.write.kind is WriteKind.DELETE:
            return await self._look_before_removal(view, asked)
        return await self._look_at_note(view, asked)

    async def require_open(self, note: Note | None, content: Content | None) -> None:
        """See ``Library.require_open``."""
        base = self._cache.notes.base(note.id) if note is not None else None
        await self._require_change(base)
        if content is not None and (base is None) == (note is None):
            with suppress(StoreRejected):  # the save says that better
                body = self._journal.compose(base, content.cleaned())
                note_id = base.id if base is not None else ""
                await self._require_result(note_id, body, new=base is None)

    async def _require_change(self, head: Revision | None) -> None:
        if self.scoped and head is not None:
            tags, clear = head.content.tags, head.tags_understood
            inside = await find_inside(self._store, head.id, None, self._scope.tops)
            self._scope.require_change(head.id, tags, clear=clear, inside=inside)

    async def _require_result(self, note_id: str, body: bytes, *, new: bool) -> None:
        if self.scoped:
            made = self._store.revision_of(note_id, body)
            above = await find_inside(self._store, "" if new else note_id, body, self._scope.tops)
            self._scope.require_result(made.id, made.content.tags, new=new, inside=above)

    async def _look_at_note(self, view: View, asked: Asked) -> View:
        write, note = view.write, cast("Note", asked.note)
        head = await self._read_newest(view, asked)
        view = replace(view, head=head)
        if isinstance(head, Tombstone) or not self._journal.sees_revision(head):
            return view.holding(Held.NOTHING)  # hidden elsewhere: it is gone to the caller here
        await self._require_change(head)
        exact = Fact.EXACT in asked.facts
        shown = self._cache.shown(note.id) if exact else note
        # defence: undo-of-known-revision-only =False
        moved = not shown or (head.etag, shown.local_version) != (view.seen, note.local_version)
        unchanged = head.etag if head.content == note.content and not (exact and moved) else None
        held, wanted = held_for_update(
            head,
            base=note.content,
            base_etag=unchanged,
            sent=write.content,
            wanted=write.content,
            taken=self._journal.is_taken(head),
            repeated=asked.act is not None and asked.act.steps.repeats,
        )
        view = view.holding(held)
        if held not in (Held.BASE, Held.MERGEABLE):
            return view
        if held is Held.MERGEABLE and not self._journal.sees(write.note_id, wanted):
            return view.but(Fact.HIDDEN)
        if held is Held.MERGEABLE and exact:
            return view
        return await self._draft(view, head, wanted)

    async def _draft(self, view: View, head: Revision, wanted: Content) -> View:
        """Make what is to be sent over ``head``, and look what it meets outside the content."""
        write, body = view.write, self._journal.compose(head, wanted)
        await self._require_result(write.note_id, body, new=False)
        try:
            replaced = await find_native(self._store, write.note_id, body)
        except VersionConflict:
            return view.holding(Held.OVERTAKEN)
        if replaced == b"":
            return view.holding(Held.OURS)
        write = replace(write, base_etag=head.etag, content=wanted, body=body, replaced=replaced)
        return replace(view if self._is_name_free(write) else view.holding(Held.TAKEN), write=write)

    async def _look_before_removal(self, view: View, asked: Asked) -> View:
        """Compare a removal with the index; the store gets the revision that the caller saw."""
        write, note = view.write, cast("Note", asked.note)
        current = self._cache.shown(note.id)
        if current is None:
            return view
        if (current.id, current.local_version) != (note.id, note.local_version):
            return view.holding(Held.CLASHING)
        await self._require_change(self._cache.notes.base(note.id))
        if self._store.traits.trash and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        body = b""
        if self._store.traits.revives:  # the journal has what makes it again before it goes
            try:
                body = await cast("RevivingStore", self._store).full_copy(note.id)
            except NoteNotFound:
                return replace(view, head=Tombstone(note.id))
        write = replace(write, base_etag=view.seen, body=body)
        return replace(view.holding(Held.BASE), write=write)

    async def look_again(self, view: View, *, listed: bool) -> View:
        """Read the note before a repeated attempt; see ``WriteAttempt.repeated``."""
        write, head, other = await self._find(view.write, listed=listed)
        if not listed and self._may_be_renamed(write, head):
            raise PerhapsRenamed("a listing must tell whether the note was renamed", write)
        view = replace(view, write=write, head=head)
        if write.kind is WriteKind.DELETE:
            if other:
                return view.holding(Held.CLASHING)
            recognised = self._store.traits.retry is Retry.IDEMPOTENT
            return view.holding(held_for_deletion(head, write.base_etag, recognised=recognised))
        if write.kind is WriteKind.CREATE:
            view = await self._look_for_created(view, head)
        elif not other and isinstance(head, Revision):
            view = await self._look_for_changed(view, head)
        elif not self._has_text_to_keep(write):
            view = view.but(Fact.KEPT)
        doubtful = view.case.held in (Held.NOTHING, Held.CLASHING)
        return view.but(Fact.ARRIVED) if doubtful and self.has_answer(write) else self.judge(view)

    def judge(self, view: View) -> View:
        """Name that a push, or a conflict copy, would show a note that the policy hides by now."""
        copies = view.case.held in (Held.CLASHING, Held.NOTHING)
        made = self._journal.copy_of(view.write) if copies else view.write
        # defence: hidden-since-not-shown =False
        shown = view.head is not None and self._journal.shows(view.head, made, copies=copies)
        return view.but(Fact.HIDDEN) if shown else view

    def has_answer(self, write: PendingWrite) -> bool:
        """Tell whether the index has what an entry was to make, of which another process has stored the answer."""
        known = None if write.kind is WriteKind.DELETE else self._cache.notes.base(write.note_id)
        same = known is not None and known.content == self._journal.sent(write).content
        return same and self._base_of(write) is None

    async def _look_for_created(self, view: View, head: Revision | Tombstone) -> View:
        write, named = view.write, self._store.traits.ids.named
        sent = self._journal.sent(write, head)
        made = self._journal.make_id(write.content, seed=write.write_id, attempt=0)
        # An id that was not made for it is that of a note which was to be there again: the app can make it, too.
        unlike = isinstance(head, Revision) and not contains_change(
            base=Content(""), sent=sent.content, stored=head.content
        )
        others = named or (made != write.note_id and unlike)
        held = held_for_creation(head, sent.content, others=others, in_parts=self._in_parts)
        if held is Held.PART and isinstance(head, Revision):
            # A tag may have come since, or from a note above.
            tags = tuple(dict.fromkeys((*write.content.tags, *head.content.tags)))
            return await self.redraft(view.holding(held), head, replace(write.content, tags=tags))
        if named and held in (Held.NOTHING, Held.CLASHING):
            renamed = await self._find_renamed(write, sent)
            if renamed is not None:
                return replace(view, head=renamed).holding(Held.OURS)
        return view.holding(held)

    async def _look_for_changed(self, view: View, head: Revision) -> View:
        write = view.write
        sent, content = self._wanted(write, head)
        base, taken = None, self._journal.is_taken(head, hides=False)
        if head.etag != write.base_etag and head.content != sent:
            base = await self._read_base(write)
        held, wanted = held_for_update(
            head,
            base=base,
            base_etag=write.base_etag,
            sent=sent,
            wanted=content,
            taken=taken,
            repeated=True,
            repair=write.repair,
        )
        changed = self._in_parts and held in (Held.MERGEABLE, Held.CLASHING)
        in_part = changed and has_arrived_in_part(base=base, sent=sent, stored=head.content)
        held, wanted = (Held.MERGEABLE, content) if in_part else (held, wanted)
        if self._merges and not write.copied:
            arrived, lacking = await self._look_since(write, head, base)
            held = Held.OURS if arrived else held
            view = replace(view, lacking=lacking).but(Fact.LACKING) if lacking else view
        if held is not Held.CLASHING:
            held, wanted = self._lead_on(write, head, held, wanted)
        asks = self._store.traits.retry is Retry.ASK and not taken
        if base and asks and is_ours_rewritten(base=base, sent=sent, stored=head.content):
            held = Held.OURS
        view = view.holding(held)
        if not self._journal.sees_revision(head) and self._journal.sees(head.id, wanted):
            wanted = replace(wanted, tags=head.content.tags)  # the policy hides it now: keep it so
        shows = held is Held.BASE and wanted.tags != content.tags
        if write.replaced is not None and held in (Held.BASE, Held.OURS):
            return await self._look_beside(view, head)
        if held is not Held.MERGEABLE and not shows:
            return view
        if wanted == head.content:
            return view.holding(Held.OURS)
        return replace(await self.redraft(view, head, wanted), in_part=in_part)

    async def _look_since(
        self, write: PendingWrite, head: Revision, base: Content | None
    ) -> tuple[bool, Content | None]:
        """Tell whether a revision since its base is the write's, and what the note is to become if that lacks what lay between.

        The store has merged both, and the answer that told of it is lost. None: nothing is missing, or nobody can tell.
        """
        since = await self._read_since(write, head)
        sent = self._journal.sent(write)
        ours = [at for at, one in enumerate(since) if one.modified_at == sent.modified_at]
        if not ours or since[ours[-1]] is since[-1]:
            return bool(ours), None
        made, theirs = (one.content for one in since[ours[-1] : ours[-1] + 2])
        base = base or await self._read_base(write)
        # Who has edited it since has seen it without what hid it before.
        if base is None or (ours[-1] and not self._journal.sees_revision(since[ours[-1] + 1])):
            return False, None
        planned = plan_repair(base=base, sent=sent.content, theirs=theirs, stored=made)
        if planned is None or planned.copies:
            return planned is None and self._journal.sees_revision(since[ours[-1] + 1]), None
        wanted = merge_content(made, planned.content, head.content)
        return wanted is not None, None if wanted == head.content else wanted

    async def _read_since(self, write: PendingWrite, head: Revision) -> list[Revision]:
        """Read the revisions since the base of a write, the newest first; none if they are not all known, or too many."""
        store, since = cast("VersionedStore", self._store), [head]
        while len(since) <= _MOST_SINCE and since[-1].etag != write.base_etag:
            page = await store.list_versions(head.id, before=since[-1].etag, limit=1)
            if not page.revisions:
                break
            since += page.revisions
        return since[:-1] if since[-1].etag == write.base_etag else []

    def _lead_on(
        self, write: PendingWrite, head: Revision, held: Held, wanted: Content
    ) -> tuple[Held, Content]:
        """Let the links that an entry writes lead to where their note is by now, if it was renamed once more since."""
        text = wanted.text if held in (Held.BASE, Held.MERGEABLE) else head.content.text
        changes = self._journal.find_moved_links(write, head.id)
        led = rewrite_links(text, changes)
        if led == text:
            return held, wanted
        wanted = replace(head.content, text=led)
        return Held.OURS if wanted == head.content else Held.MERGEABLE, wanted

    async def _look_beside(self, view: View, head: Revision) -> View:
        """Ask whether a change has arrived that the content of the note does not show."""
        write = view.write
        try:
            replaced = await find_native(self._store, head.id, write.body)
        except VersionConflict:  # it takes back a change that another one has followed
            return view.holding(Held.OVERTAKEN)
        if not replaced or (head.etag != write.base_etag and not native_of(self._store, write)):
            return view.holding(Held.OURS)
        if head.etag != write.base_etag:  # the rest has arrived, or the old place is left
            return (await self.redraft(view, head, head.content)).holding(Held.BASE)
        write = replace(write, replaced=replaced)
        return replace(view, write=write, changed=True).holding(Held.BASE)

    async def redraft(self, view: View, head: Revision, wanted: Content) -> View:
        """Let the entry make ``wanted`` of ``head``; the journal does not say so yet."""
        body = b""
        if native := native_of(self._store, view.write):
            whole = self._journal.compose(head, replace(wanted, native=native))
            with suppress(VersionConflict):  # another one has followed
                await find_native(self._store, head.id, whole)
                body = whole
        # A note that does not move must keep the labels of its place, which a moved one does not say.
        body = body or self._journal.compose(head, wanted)
        replaced = await find_native(self._store, head.id, body)
        write = replace(
            view.write, base_etag=head.etag, content=wanted, body=body, replaced=replaced
        )
        return replace(view, write=write, changed=True)

    async def look_after_refusal(self, view: View, error: NotariumError) -> View:
        """Name what the store holds by why it has not taken a write, or raise ``error`` if that tells nothing."""
        write, kind, attempt = view.write, view.write.kind, view.case.attempt
        first, repeated = attempt is Attempt.FIRST, attempt is Attempt.REPEATED
        view = replace(view, error=error)
        met = VersionConflict | StoreRejected | NoteNotFound
        if kind is WriteKind.DELETE and isinstance(error, met):
            return await self._look_after_refused_removal(view)
        if isinstance(error, IdTaken) and (kind is WriteKind.CREATE or first or repeated):
            came = kind is WriteKind.CREATE and repeated and isinstance(view.head, Tombstone)
            return view.holding(Held.SINCE if came else Held.TAKEN)
        if isinstance(error, NoteNotFound) and kind is WriteKind.CREATE:
            if repeated:  # the store remembers the write
                gone = replace(view, head=Tombstone(write.note_id))
                return gone.holding(Held.NOTHING).but(Fact.ARRIVED)
            error = StoreProtocolError(
                "the note store confirmed the new note and then reported that it does not exist"
            )
        if isinstance(error, NoteNotFound) and kind is WriteKind.UPDATE and first:
            gone = replace(view, head=Tombstone(write.note_id), seen=write.base_etag)
            return gone.holding(Held.NOTHING)
        changed = isinstance(error, VersionConflict | NoteNotFound)
        if changed and (repeated or (first and kind is WriteKind.UPDATE)):
            return view.holding(Held.SINCE)
        if not first:
            raise error
        return replace(view, error=error).holding(Held.REFUSING)

    async def _look_after_refused_removal(self, view: View) -> View:
        """Read what is there instead of the revision that was to be removed."""
        write, refusing = view.write, isinstance(view.error, StoreRejected)
        if view.case.attempt is Attempt.REPEATED:
            head = await get_newest(self._store, write.note_id)
            unchanged = isinstance(head, Revision) and head.etag == write.base_etag
            return replace(view, head=head).holding(Held.REFUSING if unchanged else Held.SINCE)
        with suppress(NotariumError):
            if await self.refresh(write.note_id):
                return view.but(Fact.NAMED).holding(Held.NOTHING)
        if self._cache.shown(write.note_id) is None:
            return view.holding(Held.NOTHING)
        return view.holding(Held.REFUSING if refusing else Held.CLASHING)

    async def refresh(self, note_id: str) -> bool:
        """Let the index have the note as the store has it; True if it is not under its name: the next listing tells where."""
        seen = self._cache.notes.etag(note_id)
        newest = await get_proven(self._cache, self._store, note_id)
        gone = isinstance(newest, Tombstone) or not self._journal.sees_revision(newest)
        if not (gone and self._store.traits.ids.named):
            self._journal.adopt(newest, seen=seen)  # the caller's next ``get`` shows the conflict
            return False
        return True

    async def _find(
        self, write: PendingWrite, *, listed: bool
    ) -> tuple[PendingWrite, Revision | Tombstone, bool]:
        """Return entry, head, and whether that is another note, made under this id since."""
        head, other = await get_for_replay(self._cache, self._store, write.note_id)
        # defence: renaming-looked-for
        if isinstance(head, Tombstone) and (moved := await self._find_moved(write, listed=listed)):
            write, head, other = self._journal.rename(write, moved.id), moved, False
        began = write.from_id if write.kind is WriteKind.UPDATE else ""
        # defence: move-of-others-not-ours
        if began and self._store.revision_of(began, write.body).id != write.note_id:
            write = self._journal.begin_here(write)
        return write, head, other

    async def _find_moved(self, write: PendingWrite, *, listed: bool) -> Revision | None:
        """Find the note of a change that is not under its id; None: it is gone, or nobody can tell."""
        if write.kind is not WriteKind.UPDATE:
            return None
        sent = self._journal.sent(write)
        if sent.id == write.note_id:
            return await self._find_renamed(write, sent) if listed else None
        found, base = await get_newest(self._store, sent.id), self._cache.notes.base(write.note_id)
        if isinstance(found, Tombstone):
            return None
        made = (sent.content, base and replace(base.content, title=sent.content.title))
        ours = contains_change(base=Content(""), sent=sent.content, stored=found.content)
        same = base is not None and found.identity is not None and found.identity == base.identity
        return found if ours or same or found.content in made else None

    def _may_be_renamed(self, write: PendingWrite, head: Revision | Tombstone) -> bool:
        """Tell whether the note that the write has made or changed may have another name by now."""
        if isinstance(head, Tombstone) or not self._store.traits.ids.named:
            return self._store.traits.ids.named
        return write.kind is WriteKind.CREATE and head.content != self._journal.sent(write).content

    async def _find_renamed(self, write: PendingWrite, sent: Revision) -> Revision | None:
        """Find the note that an unanswered write has made, or written anew, and that has another name by now.

        It says exactly what was sent and is not older; a new one has its title, too: notes from one template have one text.
        """
        new = write.kind is WriteKind.CREATE or not self._store.traits.ids.paths
        for note_id in self._cache.notes.ids_with_text(sent.content.text):
            found = await get_newest(self._store, note_id)
            if isinstance(found, Revision) and found.modified_at >= int(write.created_at):
                title = sent.content.title if new else found.content.title
                if found.content == replace(sent.content, title=title):
                    return found
        return None

    def _has_text_to_keep(self, write: PendingWrite) -> bool:
        """Tell whether the write carries text that exists nowhere else."""
        base = self._base_of(write)
        if base is not None and self._store.traits.ids.paths:  # the title is where the note lies
            return base.text != write.content.text
        return base is None or base.wording != write.content.wording

    def _wanted(self, write: PendingWrite, head: Revision) -> tuple[Content, Content]:
        """Return what the store holds if the write has arrived, and what the note is to become."""
        stored, content = self._journal.sent(write, head), write.content
        sent = stored.content if stored.id == head.id else content
        if head.content.text == stored.content.text:
            # The text has arrived, and reads as the store writes it: nobody else has changed it.
            content = replace(content, text=stored.content.text)
        return sent, replace(content, title=sent.title)

    def _base_of(self, write: PendingWrite) -> Content | None:
        base = self._cache.notes.base(write.note_id)
        known = base and base.etag in (write.base_etag, write.first_etag)
        return base.content if base and known else None

    async def _read_base(self, write: PendingWrite) -> Content | None:
        """Return the base, from the store's history if the index has lost it; None if that has not kept it."""
        if (known := self._base_of(write)) is not None:
            return known
        if self._store.traits.versions is not Versions.BY_ETAG or write.base_etag is None:
            return None
        with suppress(NoteNotFound):
            return (await self._store.get(write.note_id, etag=write.base_etag)).content
        return None

    async def _read_newest(self, view: View, asked: Asked) -> Revision | Tombstone:
        """Return the newest revision: that of the index, if the store compares it before it writes."""
        note_id = view.write.note_id
        if asked.round == 0 and self._store.traits.compares:
            known = self._cache.notes.base(note_id)
            if known is not None and known.raw and known.content != view.write.content:
                return known
        return await get_proven(self._cache, self._store, note_id)

    def _is_name_free(self, write: PendingWrite) -> bool:
        """Tell whether the write gives the note no id that another one has, or that rules hide."""
        if not self._store.traits.ids.named:
            return True
        new_id = self._journal.sent(write).id
        if new_id == write.note_id:
            return True
        known = self._cache.standing(new_id) != (None, False)
        # defence: hidden-id-not-taken -sees
        return not known and self._journal.sees(new_id, write.content)
