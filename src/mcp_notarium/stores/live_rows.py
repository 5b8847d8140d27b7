"""Define the live reads of a store whose notes are rows of an app's table, which it offers to native tools.

As in ``live_notes`` nothing here is judged: ``library`` asks, and shows only what the policy shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp_notarium.domain.note import Content, Revision


@dataclass(frozen=True, slots=True)
class LiveRow:
    """Hold a note as the app shows it. ``tags``, ``tags_understood``: what the policy judges, as of a ``Revision``.

    ``values`` are JSON values by the app's own names; empty where only the order was asked for.
    """

    id: str
    tags: tuple[str, ...]
    tags_understood: bool
    values: Mapping[str, Any] = field(repr=False)


class LiveRows(Protocol):
    """Read from the store. Every method raises what the store raises; nothing is written."""

    async def find(self, text: str, *, archived: bool, arranged: bool) -> list[LiveRow]:
        """Find the notes with this text in title or content, in any case; pinned ones first, then the newest.

        '' finds all. ``archived``: also those that are archived; ``arranged``: in the user's own order.
        """

    async def read(self, note_ids: Sequence[str]) -> list[LiveRow]:
        """Read these notes with all values, in this order; some may have gone."""

    def given(self, values: Mapping[str, Any], *, base: Revision | None) -> Content:
        """Make the content of these values by the app's own names; what is not given stays. Pure.

        ``base`` None: a new note.
        """

    def beside(self, base: Revision) -> Mapping[str, Any]:
        """Return what the app shows beside the content of a note, by its own names. Pure."""
