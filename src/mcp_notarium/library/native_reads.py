"""Judge what native tools read from a store, and bring single notes of the index up to what the store holds."""

from __future__ import annotations

from mcp_notarium.domain.note import Content, Note, Revision, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store, Versions


class NativeIndex:
    """Implement the ``NoteIndex`` of the native reads of one store."""

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store
        self._visibility = cache.notes.visibility

    @property
    def rules(self) -> Visibility:
        """See ``NoteIndex.rules``."""
        return self._visibility.rules

    def sees(
        self, note_id: str, content: Content, *, clear: bool, identity: str | None = None
    ) -> bool:
        """See ``NoteIndex.sees``."""
        filter_ = self._visibility
        rule = filter_.find_rule_of(note_id, content, clear=clear, identity=identity)
        if rule is None and self.rules.hidden_properties and not content.text:
            return not filter_.hidden_notes([note_id])
        return rule is None  # defence: native-read-judged =True

    def hides_name(self, note_id: str) -> bool:
        """See ``NoteIndex.hides_name``."""
        hidden = self.rules.hidden_by_name(note_id) or self._visibility.names.find_rule(
            note_id, None
        )
        return hidden is not None

    def current_id(self, old: str) -> str | None:
        """See ``NoteIndex.current_id``."""
        return self._cache.notes.names.current(old)

    def get(self, note_id: str) -> Note | None:
        """See ``NoteIndex.get``."""
        return self._cache.notes.get(note_id)

    def base(self, note_id: str) -> Revision | None:
        """See ``NoteIndex.base``."""
        return self._cache.notes.base(note_id)

    async def refresh(self, note_id: str) -> Note | None:
        """See ``NoteIndex.refresh``.

        That the store lacks a note that the index lacks is no news: what is left of one that was deleted from here stays.
        """
        cache = self._cache.stored
        seen = cache.notes.etag(note_id)
        try:
            newest: Revision | Tombstone = await self._store.get(note_id)
        except NoteNotFound:
            if seen is None:
                return None
            newest = Tombstone(note_id)
        is_news = isinstance(newest, Tombstone) or newest.etag != seen
        with cache.transaction(durable=is_news):
            unwritten = all(one.note_id != note_id for one in cache.journal.in_flight())
            if cache.notes.etag(note_id) == seen and unwritten:
                cache.adopt(newest, keeps_lost=self._store.traits.versions is Versions.NONE)
        return None if isinstance(newest, Tombstone) else cache.shown(note_id)
