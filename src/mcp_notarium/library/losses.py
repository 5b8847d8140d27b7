"""Find what a change takes from a note: what no history keeps, and what only the store's own form has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mcp_notarium.domain.loss import Keeping, find_loss, find_taken
from mcp_notarium.errors import NoteNotFound, StoreError, StoreRejected, VersionConflict
from mcp_notarium.storage.version_table import ROW_BYTES
from mcp_notarium.stores.extensions import Replaced, find_replaced, shown_form
from mcp_notarium.sync.write_errors import NOT_REMOVED, NOT_SAVED, add_outcome

if TYPE_CHECKING:
    from mcp_notarium.domain.loss import Loss
    from mcp_notarium.domain.note import Content, Note, Revision
    from mcp_notarium.storage.cache import Cache
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.extensions import RevivingStore


def _digest(native: bytes) -> str:
    # defence: dialogue-about-what-is-there =""
    return hashlib.sha256(native).hexdigest() if native else ""


class Losses:
    """Compare the notes of one account with what they are to become."""

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store

    async def find_loss(
        self, note: Note, content: Content, *, now: float, after: int = 0
    ) -> Loss | None:
        """Return what is lost for good if the note becomes ``content``. Raises what the store raises.

        ``after``: the room that versions take which the same change needs before.
        """
        native, found = 0, Replaced()
        beside: tuple[str, ...] = ()
        if self._store.traits.replaces:
            native, found, beside = await self._find_more(note, content, now=now)
        if not (beside or find_taken(note.content, content)):
            return None
        keeping = self._keeping(note, native + after, now=now)
        loss = find_loss(note.content, content, keeping, beside=beside)
        return loss and replace(loss, replaced=_digest(found.native))

    async def _find_more(
        self, note: Note, content: Content, *, now: float
    ) -> tuple[int, Replaced, tuple[str, ...]]:
        """Return the bytes and the parts that no content says of what a change replaces, and the names of what it takes from these."""
        base, found = self._cache.notes.base(note.id), Replaced()
        native = len(self._store.traits.own_form(base).encode()) if base is not None else 0
        made = await self._find_replaced(note, base, content, now=now)
        if made is None:
            return native, found, ()
        body, replaced = made
        found = replaced or found
        native = native if replaced is None else len(found.native)
        lost = () if base is None else self._store.traits.form_losses(base, body)
        return native, found, (*lost, *found.names)

    async def _find_replaced(
        self, note: Note, base: Revision | None, content: Content, *, now: float
    ) -> tuple[bytes, Replaced | None] | None:
        """Return the body that makes ``content`` of a note, and what that replaces now; None if the save refuses it."""
        try:
            with suppress(
                VersionConflict, NoteNotFound, StoreRejected
            ):  # the save says that better
                body = self._store.compose(base, content.cleaned(), now=now)
                return body, await find_replaced(self._store, note.id, body)
        except StoreError as error:
            raise add_outcome(error, NOT_SAVED) from None
        return None

    async def find_forms(
        self, note: Note | None, content: Content | None
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return what a change replaces in the store's own form, and by what. Raises what the store raises.

        ``note`` None: a new one; ``content`` None: it is removed.
        """
        if note is None:
            return {}, shown_form(self._store, content.native.encode()) if content else {}
        shown = partial(shown_form, self._store)
        if content is None:
            said = shown(await self._full_copy(note))
            return {name: value for name, value in said.items() if value}, {}
        base = self._cache.notes.base(note.id)
        made = await self._find_replaced(note, base, content, now=0.0)
        if base is None or made is None:
            return {}, {}
        body, found = made
        before, after = self._store.traits.forms(base, body)
        found = found or Replaced()
        return {**before, **shown(found.native)}, {**after, **shown(found.becomes)}

    def version_size(self, note: Note) -> int:
        """Return the room that a version of a note takes."""
        return ROW_BYTES + len(note.text.encode())

    async def find_removal_loss(self, note: Note, *, now: float) -> Loss | None:
        """Return what is lost for good if the note is removed. Raises what the store raises."""
        kept = await self._full_copy(note)
        loss = find_loss(note.content, None, self._keeping(note, len(kept), now=now))
        return loss and replace(loss, replaced=_digest(kept))

    async def _full_copy(self, note: Note) -> bytes:
        """Return all that the store holds of a note, if it can make it again; b'' if not, or if it is gone."""
        if not self._store.traits.revives:
            return b""
        try:
            return await cast("RevivingStore", self._store).full_copy(note.id)
        except NoteNotFound:
            return b""
        except StoreError as error:
            raise add_outcome(error, NOT_REMOVED) from None

    def _keeping(self, note: Note, native: int, *, now: float) -> Keeping:
        versions, size = self._cache.versions, len(note.text.encode()) + native
        return Keeping(
            days=versions.limits.days,
            fits=versions.has_room(size, now=now),
            revives=self._store.traits.revives,
        )
