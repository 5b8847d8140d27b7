"""Decide what becomes a version of a write: whether that has room before it, and what it has replaced after it.

docs/sync.md, "Versions", says which. ``VersionTable`` stores them, in the transaction of the write.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.domain.loss import find_taken
from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.obsidian_links import ENDING
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.version_table import CREATION, ROW_BYTES
from mcp_notarium.stores.contract import Store, Versions
from mcp_notarium.stores.extensions import name_parts


class KeptVersions:
    """Make versions of what writes replace. Every method runs inside the write's transaction."""

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store
        self._paths = store.traits.ids.paths
        self._keeps_lost = store.traits.versions is Versions.NONE
        self._in_store = store.traits.versions is Versions.BY_ETAG
        """The store itself keeps the newest revisions, under their etags: a save that only adds needs no text here."""

    def require_room(self, *writes: PendingWrite, base: Revision | None = None) -> None:
        """Raise ``InvalidRequest`` if what these take away has no room, and one of them ``keeps`` that.

        ``base``: what the first one replaces, if that is known. A write at the same moment, of any process, has its room
        or asks for it later.
        """
        if not any(write.keeps for write in writes):
            return
        bases = [base, *(None for _ in writes[1:])]
        sizes = [size for size in map(self._size_of_taken, writes, bases) if size is not None]
        size = sum(sizes) + ROW_BYTES * (len(sizes) - 1)
        # defence: last-room-counted-once
        if sizes and not self._cache.versions.has_room(size, now=self._cache.clock()):
            raise InvalidRequest(
                "another change has just taken the room for a version of the note; nothing was saved",
                details={"id": writes[0].note_id},
                resolution_hint="Try again: then the user is asked whether what this replaces may go for good.",
            )

    def _size_of_taken(self, write: PendingWrite, base: Revision | None) -> int | None:
        """Return the size of the version that this write leaves; None if it takes nothing away."""
        base = base or self._cache.notes.base(write.note_id)
        if base is None or write.kind is WriteKind.CREATE:
            return None
        size = len(base.content.text.encode())
        if write.kind is WriteKind.DELETE:
            return size + len(write.body) if write.body else None
        native = write.replaced or b""
        if not self._takes(base, write.content, write.body, native):
            return None
        return size + len(native or self._own_form(base))

    def keep_replaced(
        self, write: PendingWrite, stored: Revision | Tombstone, *, own: bool
    ) -> bool:
        """Keep the revision that this answer replaces in the index, or who made the note; True if it is kept now.

        ``own``: the answer is the very revision that this write made, whatever the store has made of its text; else
        somebody else's change may be in it.
        """
        versions, now = self._cache.versions, self._cache.clock()
        if write.kind is WriteKind.CREATE and write.client and own and isinstance(stored, Revision):
            versions.keep(
                stored, number=CREATION, at=now, by=write.client, made=stored.etag, in_store=True
            )
        if write.kind is not WriteKind.UPDATE:
            return False
        held = self._cache.notes.numbered_base(write.note_id)
        if held is None:
            return False
        number, base = held
        native = write.replaced or self._replaced_form(base, stored)
        stays, same, made = True, False, None
        if isinstance(stored, Revision):
            stays = self._takes(base, stored.content, write.body, native)
            same = (stored.id, stored.etag) == (base.id, base.etag)
            made = stored.etag if own and not write.repair else None
        if same and (not own or base.etag != write.base_etag):
            # Nothing was replaced, or another process that had the entry has kept that.
            return False
        kept = versions.keep(
            self._with_path(base, write, stored.id),
            number=number,
            at=now,
            by=write.client,
            made=made,
            # defence: dropped-text-kept -stays
            in_store=self._in_store and not stays,
            native=native,
            stays=stays,
            change_id=write.change_id,
        )
        if same:  # what the etag does not show has changed
            self._cache.notes.renumber(base.id)
        return kept

    def has_text_of(self, write: PendingWrite, stored: Revision | Tombstone) -> bool:
        """Tell whether a revision may say what a write has added: not if that was to leave the text, which others have changed."""
        if isinstance(stored, Tombstone) or stored.content.text == write.content.text:
            return True
        base = self._cache.notes.base(write.note_id)
        return base is None or base.content.text != write.content.text

    def apply_removal(self, write: PendingWrite, storing: Revision | Tombstone) -> bool:
        """Store the answer to a removal, or that a note to be written is gone elsewhere; False: it is neither.

        The full copy of a removal stays, and those of earlier notes of its id.
        """
        if write.kind is not WriteKind.DELETE:
            gone = isinstance(storing, Tombstone) and not storing.hidden
            if gone and storing.id == write.note_id:
                self._cache.adopt(storing, keeps_lost=self._keeps_lost)
            return gone and storing.id == write.note_id
        if not write.body:
            return False
        versions = self._cache.versions
        earlier = versions.full_copies(write.note_id)
        held = self._cache.notes.numbered_base(write.note_id)
        self._cache.notes.apply([storing])
        removed = self._cache.notes.etag(write.note_id) is None
        if removed and held is not None:
            versions.put_back(earlier)  # defence: kept-outlives-same-id
            versions.keep(
                held[1],
                number=held[0],
                at=self._cache.clock(),
                by=write.client,
                full_copy=write.body,
            )
        return True

    def _takes(self, base: Revision, content: Content, body: bytes, native: bytes) -> bool:
        """Tell whether a write has taken something away that this version has."""
        # defence: taken-text-not-pushed-out =False
        return bool(
            find_taken(base.content, content)
            or name_parts(self._store, native)
            or (base.raw and self._store.traits.form_losses(base, body))
        )

    def _replaced_form(self, base: Revision, stored: Revision | Tombstone) -> bytes:
        """Return the store's own form of what was replaced; b'' if that is the same now."""
        form = self._own_form(base)
        same = isinstance(stored, Revision) and form == self._own_form(stored)
        return b"" if same else form

    def _own_form(self, revision: Revision) -> bytes:
        """Return the store's own form of a revision; b'' of a base that a reload has left without it."""
        return self._store.traits.own_form(revision).encode() if revision.raw else b""

    def _with_path(self, base: Revision, write: PendingWrite, new_id: str) -> Revision:
        """Let the title of the version say where the write has found the note, so that an undo brings it back there.

        The index may have another title: of before somebody moved the note, or of after the write has.
        """
        old_id, title = write.from_id or write.note_id, base.content.title
        folder, _, name = old_id.rpartition("/")
        if title and (self._paths or base.id != old_id):
            title = ENDING.sub("", name)
        title = title if new_id == old_id else f"{folder}/{title}"
        return replace(base, content=replace(base.content, title=title))
