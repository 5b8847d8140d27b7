"""Define what a store of files offers beside its notes: pages of a long note for native tools, and which files there are.

As in ``live_notes`` nothing here is judged: ``library`` asks, and shows only what the policy shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LivePage:
    """Hold a part of a note, as the store has just read it, and what is known of the whole.

    ``token`` names these bytes of the note and no others. ``next_start``: the character (from 0) that follows
    the part; None at the end. ``tags``, ``tags_understood``, ``identity``: what the policy judges, as of a
    ``Revision``.
    """

    path: str
    token: str
    mtime_ms: int
    text: str = field(repr=False)
    next_start: int | None
    total_chars: int
    total_lines: int
    tags: tuple[str, ...]
    tags_understood: bool
    identity: str | None


class LivePages(Protocol):
    """Read from the store. Raises what the store raises; nothing is written but by ``move_cards``."""

    async def page(self, path: str, *, start: int, most: int, tags: bool) -> LivePage:
        """Read at most ``most`` characters from ``start``; none if that is past the end.

        The part ends between two visible characters. ``tags`` False: nobody asks for the tags. Raises
        ``NoteNotFound``, and ``StoreProtocolError`` for a file that is not read as a note.
        """

    async def find_files(self, paths: Iterable[str]) -> set[str]:
        """Return at which of these paths there are files that are no notes, such as images."""

    async def find_cards(self, path: str) -> dict[str, int | None]:
        """Return how many cards of each canvas show the note; None: it names the note, and is not readable."""

    async def move_cards(self, canvases: Iterable[str], *, old: str, new: str) -> set[str]:
        """Let these canvases show the note at its new path; return those that do."""
