"""Say what a change of many notes takes away for good, of which notes: in one question, and bound to its answer.

``domain/loss`` decides what is lost. A question names so many groups of notes that lose the same, and of each so
many by name. The answer holds for all of them, and for what each had to lose when the question was asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from mcp_notarium.domain.loss import PROPERTIES, TAGS, TEXT, TITLE, Loss
from mcp_notarium.tools.consent import ask_about_links, find_losses, name_note
from mcp_notarium.tools.question import Ask

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Note
    from mcp_notarium.tools.save import Draft

_MOST_NAMED = 5
_MOST_GROUPS = 5


@dataclass(frozen=True, slots=True)
class BulkLoss:
    """Hold what is lost of one note."""

    parts: tuple[str, ...]
    why: str
    taken: str
    """A digest of what the lost parts say."""
    others: int
    """Number of notes that lose something because their links change."""

    def is_within(self, agreed: BulkLoss | None) -> bool:
        """Tell whether an answer about ``agreed`` holds for this."""
        if agreed is None or (self.others and not agreed.others):
            return False
        return not self.parts or (self.parts, self.taken) == (agreed.parts, agreed.taken)


async def find_bulk_loss(app: App, made: Draft, *, after: int = 0) -> tuple[BulkLoss | None, int]:
    """Return what is lost for good with this draft, None if nothing is, and the room that versions of it take.

    ``after``: the room of the versions that the same change needs before. Raises ``NotPermitted`` if the policy forbids it.
    """
    if made.note is None or made.changes_nothing:
        return None, 0
    links = made.elsewhere.links
    loss, others, room = await find_losses(app, made.note, made.content, links=links, after=after)
    if loss is None and not others:
        return None, room
    lost = loss or Loss((), "")
    return BulkLoss(lost.parts, lost.why, _digest(made.note, lost) if loss else "", others), room


def _digest(note: Note, loss: Loss) -> str:
    """Return a digest of what the note says in the parts that it loses; of others the store's own form tells, or its version."""
    says = {
        TITLE: note.title,
        TEXT: note.text,
        TAGS: note.tags,
        PROPERTIES: note.content.properties.json,
    }
    taken = [says.get(part, note.server_version) for part in loss.parts]
    said = repr((taken, loss.replaced)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()


def describe(loss: BulkLoss | None) -> str | None:
    """Return what a row says of a note; None if nothing of it is lost."""
    if loss is None:
        return None
    said = [f"it would lose for good: {', '.join(loss.parts)} ({loss.why})"] if loss.parts else []
    said += [f"links in other notes would change for good: {loss.others}"] if loss.others else []
    return "; ".join(said)


def ask_about(app: App, losses: Mapping[str, BulkLoss], *, of: int) -> tuple[Ask, ...]:
    """Return what a person is asked about all that is lost, of so many notes."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for note_id, loss in losses.items():
        if loss.parts:
            groups.setdefault((loss.parts, loss.why), []).append(note_id)
    links = ask_about_links(sum(one.others for one in losses.values()))
    if not groups:
        return links
    count = sum(map(len, groups.values()))
    told = [
        f"{', '.join(parts)} of {name_notes(app, ids)}: {why}."
        for (parts, why), ids in islice(groups.items(), _MOST_GROUPS)
    ]
    if (unnamed := sum(len(ids) for ids in islice(groups.values(), _MOST_GROUPS, None))) > 0:
        told.append(f"Other parts of {unnamed} more.")
    notes = f"{count} of these notes" if count < of else "this note" if of == 1 else f"all {of}"
    said = f"What this replaces in {notes} cannot be brought back. Change them? It takes {' '.join(told)}"
    return (Ask(said, irreversible=True), *links)


def name_notes(app: App, ids: list[str]) -> str:
    """Return the names of the first of these notes, and how many more there are."""
    found = [(one, app.library.get(one)) for one in ids[:_MOST_NAMED]]
    names = [
        name_note(app, note.title or note.text if note else "", note_id=note_id)
        for note_id, note in found
    ]
    more = len(ids) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
