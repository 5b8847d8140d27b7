"""Show all notes to the native reads of a store, as a policy without rules does."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_notarium.domain.note import Note, Revision
from mcp_notarium.domain.policy import Visibility


class OpenIndex:
    """Be an index that has no note yet, and hides none."""

    rules = Visibility()

    def sees(
        self,
        note_id: str,
        tags: Sequence[str],
        *,
        clear: bool,
        identity: str | None = None,
    ) -> bool:
        return True

    def hides_name(self, note_id: str) -> bool:
        return False

    def current_id(self, old: str) -> str | None:
        return None

    def get(self, note_id: str) -> Note | None:
        return None

    def base(self, note_id: str) -> Revision | None:
        return None

    async def refresh(self, note_id: str) -> Note | None:
        return None
