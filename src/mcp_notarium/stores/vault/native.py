"""Read the files of a vault for native tools in pages, as far as the policy shows them."""

from __future__ import annotations

from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.extensions import NoteIndex
from mcp_notarium.stores.vault.file_parts import NotePages, Page

_PATH_SHOWN = 80


class NativeVault:
    """Read the notes of one vault. Nothing is written."""

    beyond_index = False

    def __init__(self, pages: NotePages, index: NoteIndex) -> None:
        self._pages = pages
        self._index = index

    async def page(self, path: str, *, start: int, most: int) -> Page:
        """Read a part of a note, also by a path that it had before.

        Raises ``NoteNotFound``, in the same words for a hidden one.
        """
        try:
            return await self._page(path, start=start, most=most)
        except NoteNotFound:
            renamed = self._index.current_id(path)
            if renamed is None:
                raise
            return await self._page(renamed, start=start, most=most)

    async def _page(self, path: str, *, start: int, most: int) -> Page:
        rules = self._index.rules
        if self._index.hides_name(path):
            raise _missing_error(path)
        needed = rules.tags_matter or not rules.untagged
        try:
            page = await self._pages.page(path, start=start, most=most, tags=needed)
        except NoteNotFound:
            raise _missing_error(path) from None
        except StoreProtocolError:  # nobody can tell which tags it has
            if rules.has_rules:
                raise _missing_error(path) from None
            raise
        clear = page.tags_understood
        # defence: page-judged
        if not self._index.sees(page.path, page.tags, clear=clear, identity=page.identity):
            raise _missing_error(path)
        return page


def _missing_error(path: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note at this path.",
        details={"path": path[:_PATH_SHOWN]},
        resolution_hint="Write the path from the top of the notes, with `/` between folders and the ending "
        "of the file, spelled as it is there.",
    )
