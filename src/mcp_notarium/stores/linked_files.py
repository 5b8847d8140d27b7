"""Define what a store of files offers beyond the contract if its trait ``folders`` is set: the files around its notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mcp_notarium.stores.contract import Store


class FolderStore(Store, Protocol):
    """Reach a store whose notes are files among others, which may name them."""

    async def find_files(self, paths: Iterable[str]) -> set[str]:
        """Return at which of these paths there are files that are no notes, such as images."""

    async def find_cards(self, path: str) -> dict[str, int | None]:
        """Return how many cards of each canvas show the note; None: it names the note, and is not readable."""

    async def move_cards(self, canvases: Iterable[str], *, old: str, new: str) -> set[str]:
        """Let these canvases show the note at its new path; return those that do."""
