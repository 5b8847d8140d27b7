"""Read all notes of a database for exports and imports, also hidden ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.writer import Writer

_PAGE = 500


class NoteTransfer:
    """Reach all notes of one account, also those that the policy hides from agents if they are in the database.

    ``store`` has them, and their files; ``writer`` makes notes under ids that are known before.
    """

    def __init__(self, cache: Cache, store: Store, writer: Writer) -> None:
        self._cache = cache
        self.store = store
        self.writer = writer

    @property
    def hides(self) -> bool:
        """Tell whether the policy may hide notes."""
        return self._cache.notes.visibility.rules.has_rules

    async def read_all(self) -> AsyncIterator[Revision]:
        """Yield every note that the database has: hidden ones too, if the notes are nowhere else."""
        if not self.store.traits.in_database:
            for note_id in self._cache.notes.etags():
                if (held := self._cache.notes.base(note_id)) is not None:
                    yield held
            return
        mark: str | None = None
        while True:
            page = await self.store.list_page(since=None, mark=mark, limit=_PAGE, with_content=True)
            for entry in page.entries:
                if isinstance(entry, Revision):
                    yield entry
            if (mark := page.next_mark) is None:
                return

    def discarded_files(self) -> frozenset[str]:
        """Return the ids of the files that an undo has taken; the store may still have them."""
        return self._cache.change_records.discarded_files()

    def is_linking(self, note_id: str) -> bool:
        """Tell whether an import has ended between the files of a note and its text."""
        return self._cache.change_records.is_linking(note_id)

    def set_linking(self, note_id: str, *, linking: bool) -> None:
        """Record that files of a note are kept which its text is about to link to."""
        self._cache.change_records.set_linking(note_id, linking=linking)

    async def change_text(
        self, note_id: str, change: Callable[[str], str], dates: tuple[float, float]
    ) -> None:
        """Change the text of a note, through the journal; it keeps the date where the store keeps dates. Raises as :meth:`Writer.save`."""
        note = self._cache.notes.get(note_id)
        if note is None:
            raise NoteNotFound("the note is gone, or hidden", details={"id": note_id})
        text = change(note.text)
        if text != note.text:
            content = replace(note.content, text=text, dates=dates)
            await self.writer.save(note=note, content=content, exact=True)

    def ids(self) -> Iterable[str]:
        """Return the ids of all notes that the index has."""
        return self._cache.notes.etags()

    async def find(self, note_id: str) -> Revision | None:
        """Return the note of this id. The store is asked too, if the policy may hide it."""
        held = self._cache.notes.base(note_id)
        if held is not None or not self.hides:
            return held
        try:
            return await self.store.get(note_id)
        except NoteNotFound:
            return None

    def preview(self, note_id: str, content: Content, *, now: float) -> Revision:
        """Return what the store would hold of a new note."""
        body = self.store.compose(None, content, now=now)
        return self.store.revision_of(note_id, body)
