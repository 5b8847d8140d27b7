"""Define what the native tools of a store stand on: reads of its own, each judged before anything of it is shown.

A store's package has them in its ``native`` module, made by ``StoreKind.native``. They ask the store itself, so what
they read may be newer than the index. The tools are in ``tools/toolsets``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcp_notarium.domain.note import Note, Revision
from mcp_notarium.domain.policy import Visibility


class NativeReads(Protocol):
    """Read from the store for its native tools. No method returns what the policy hides."""

    beyond_index: bool
    """Ids of one word may name notes that the index lacks."""


class NoteIndex(Protocol):
    """Judge what was read by the policy, and tell what the index has of a note."""

    @property
    def rules(self) -> Visibility:
        """Return the rules of the policy on notes."""

    def sees(
        self, note_id: str, tags: Sequence[str], *, clear: bool, identity: str | None = None
    ) -> bool:
        """Tell whether a note with these tags is shown; ``clear`` False: its tags were not understood."""

    def hides_name(self, note_id: str) -> bool:
        """Tell whether this name is hidden, whatever the note says."""

    def current_id(self, old: str) -> str | None:
        """Return the id that the note of an old id has now; None if there is none, or more than one."""

    def get(self, note_id: str) -> Note | None:
        """Return the note as the index has it."""

    def base(self, note_id: str) -> Revision | None:
        """Return the last revision that the index knows of a note."""

    async def refresh(self, note_id: str) -> Note | None:
        """Return the note as the store has it now, also to the index; None if it is gone, or hidden.

        Raises what the store raises.
        """
