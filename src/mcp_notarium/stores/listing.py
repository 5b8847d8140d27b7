"""Define what a store offers beyond the contract if its trait ``versions`` is LISTED."""

from __future__ import annotations

from typing import Protocol

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.stores.contract import VersionedStore


class ListingStore(VersionedStore, Protocol):
    """Reach a store that lists older revisions under etags of their own."""

    async def find_version(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """Find the older revision of this title and text that was last changed ``at``; None if there is none.

        Where the text differs from the one that the note has ``now``, the newest of the same words will do.
        """
