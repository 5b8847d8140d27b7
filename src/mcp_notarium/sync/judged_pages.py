"""Read long notes in pages from the store itself for native tools, and show only what the policy shows.

The index may be older than the file. So what has just been read is judged by itself, by its path, its
tags and its identity.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.live_pages import LivePage, LivePages

_PATH_SHOWN = 80


class JudgedPages:
    """Read the notes of one account; ``asked`` is what the store offers beyond the contract."""

    def __init__(self, cache: Cache, asked: LivePages) -> None:
        self._visibility = cache.notes.visibility
        self._names = cache.notes.names
        self._asked = asked

    async def page(self, path: str, *, start: int, most: int) -> LivePage:
        """Read a part of a note, also by a path that it had before.

        Raises ``NoteNotFound``, in the same words for a hidden one.
        """
        try:
            return await self._page(path, start=start, most=most)
        except NoteNotFound:
            renamed = self._names.current(path)
            if renamed is None:
                raise
            return await self._page(renamed, start=start, most=most)

    async def find_files(self, paths: Iterable[str]) -> set[str]:
        """Return at which of these paths there are files that are no notes, such as images."""
        rules = self._visibility.rules
        return await self._asked.find_files(path for path in paths if not rules.closes(path))

    async def find_cards(self, path: str) -> dict[str, int | None]:
        """Return how many cards of each canvas that no rule hides show the note; see ``LivePages.find_cards``."""
        rules, found = self._visibility.rules, await self._asked.find_cards(path)
        return {one: count for one, count in found.items() if rules.sees(one, ())}

    async def _page(self, path: str, *, start: int, most: int) -> LivePage:
        rules = self._visibility.rules
        hidden = rules.hidden_by_name(path) or self._visibility.names.find_rule(path, None)
        try:
            if hidden is not None:
                raise _no_note_error(path)
            needed = rules.tags_matter or not rules.untagged
            page = await self._asked.page(path, start=start, most=most, tags=needed)
        except NoteNotFound:
            raise _no_note_error(path) from None
        except StoreProtocolError:  # nobody can tell which tags it has
            if rules.has_rules:
                raise _no_note_error(path) from None
            raise
        if not self._sees(page):
            raise _no_note_error(path)
        return page

    def _sees(self, page: LivePage) -> bool:
        rule = self._visibility.find_rule_for(
            page.path, page.tags, clear=page.tags_understood, identity=page.identity
        )
        return rule is None


def _no_note_error(path: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note at this path.",
        details={"path": path[:_PATH_SHOWN]},
        resolution_hint="Write the path from the top of the notes, with `/` between folders and the ending "
        "of the file, spelled as it is there.",
    )
