"""Define the live reads that a store offers to native tools beyond the contract: they ask the store itself.

Nothing here is judged: ``library`` asks, and shows only what the policy shows. Words of the service's own
syntax stay inside its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp_notarium.domain.note import Content, Revision


@dataclass(frozen=True, slots=True)
class LiveNote:
    """Hold a note as the store has just answered it, without its text.

    ``tags``, ``tags_understood``: what the policy judges, as of a ``Revision``. ``passed_on``: the tags that a
    note gets which is made below it. ``attributes`` name their owner as ``noteId``, and as ``value`` a note
    if their ``type`` is ``relation``. ``properties``: the rest, by the service's own names; ``version``
    changes with the text.
    """

    id: str
    title: str
    kind: str
    version: str
    tags: tuple[str, ...]
    tags_understood: bool
    passed_on: tuple[str, ...]
    parents: tuple[str, ...]
    children: tuple[str, ...]
    attributes: tuple[Mapping[str, Any], ...] = field(repr=False)
    properties: Mapping[str, Any] = field(repr=False)


class LiveNotes(Protocol):
    """Read from the store. Every method raises what the store raises; nothing is written."""

    root: str
    """The id of the note above all others."""

    async def note(self, note_id: str) -> LiveNote:
        """Read a note, also the root. Raises ``NoteNotFound``."""

    async def text(self, note_id: str) -> tuple[LiveNote, str | None]:
        """Read a note with its text as the store has it; None if it has none that can be shown."""

    async def children(self, note: LiveNote) -> list[LiveNote]:
        """Read the notes right below another, in their order."""

    async def search(self, query: str, *, each_alone: bool) -> list[LiveNote]:
        """Search in the service's own syntax, best match first.

        ``each_alone``: raise ``InvalidRequest`` for a query that asks of a note what another one says.
        """

    async def everything(self) -> list[LiveNote]:
        """Read all notes."""

    def given(self, text: str, *, base: Revision | None) -> Content:
        """Make the content of a text in the service's own form, or in ours; pure. ``base`` None: a new note."""

    def as_it_was(self, revision: Revision) -> str:
        """Return the ``native`` that stores the text of an older revision as it was; '' if its text says all."""

    def given_below(self, parent: LiveNote, text: str, *, kind: str, title: str | None) -> Content:
        """Make the content of a new note below another. Raises ``InvalidRequest`` for an unknown kind."""
