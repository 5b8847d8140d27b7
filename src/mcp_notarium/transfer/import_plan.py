"""Plan an import before anything is written, and carry it out.

A note is imported once. It keeps its id if the store can have it; else the store's id for it is made from the id
and the date in the export, or, where ids are names, from the title. A note under that id is left as it is. So an
import that was interrupted, or is repeated, makes no second copy. What the store cannot hold is counted first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mcp_notarium.domain.lines import first_line
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.domain.note_archive import ArchivedNote, format_date
from mcp_notarium.errors import NotariumError, OutcomeUnknown, StoreRejected, VersionConflict
from mcp_notarium.stores.contract import Ids, Traits, random_id
from mcp_notarium.stores.kind import StoreKind, Truth
from mcp_notarium.sync.note_transfer import NoteTransfer
from mcp_notarium.tools.save_checks import find_new_addresses
from mcp_notarium.transfer.formats import Report

_MOST_NAMES = 10
_MOST_TOGETHER = 250
_LARGEST_TOGETHER = 8_000_000
_AT_ONCE = 4
"""Notes on the way to a service at the same time: what each of them lets one client do without delay."""
_SAME_SECOND = 1.0

TITLE_TO_TEXT = "have a title, which becomes the first line of the text"
NO_TRASH = "are in the trash, which this store does not have: they are left out"
NO_PROPERTY = "lose a property that this store does not have: {}"
SHARED = "have an e-mail address as a tag, which would share them: it is left out"
TOO_LARGE = "are larger than this store takes: they are left out"
NO_DATES = "get today's date: this store keeps no other"
NO_TAGS = "lose their tags, which this store does not have"
OTHER_TAGS = "get other tags, as this store writes or reads them differently"
OTHER_TEXT = "are held in another form of text, title or trash"


@dataclass(slots=True)
class ImportPlan:
    """Hold what is to be written, and what is not. ``losses``: how many notes lose what."""

    new: list[tuple[str, Content]] = field(default_factory=list)
    there: int = 0
    differ: list[str] = field(default_factory=list)
    left_out: int = 0
    losses: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ImportResult:
    """Count what was written. ``refused``: id in the store, and why it does not take the note."""

    imported: int = 0
    there: int = 0
    hidden: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Return how many notes were dealt with."""
        return self.imported + self.there + self.hidden + len(self.refused)


async def plan(
    notes: Iterable[ArchivedNote], transfer: NoteTransfer, kind: StoreKind, *, now: float
) -> ImportPlan:
    """Plan the import of these notes; nothing is written."""
    planned = ImportPlan()
    taken: set[str] = set()
    for note in notes:
        content = adapt(note, transfer.traits, planned.losses)
        if content is None:
            planned.left_out += 1
            continue
        note_id, held = await _find_place(note, content, transfer, kind, taken, now=now)
        if note_id is not None:
            taken.add(note_id)
        if held is not None or note_id is None:
            planned.there += 1
            wanted = transfer.preview(note_id or note.id, content, now=now).content
            if held is not None and held.content != wanted:
                planned.differ.append(held.id)
            continue
        would = transfer.preview(note_id, content, now=now).content
        _count_losses(content, would, transfer.traits, planned.losses)
        planned.new.append((note_id, content))
    planned.losses = +planned.losses
    return planned


def adapt(note: ArchivedNote, traits: Traits, losses: Counter[str]) -> Content | None:
    """Return what the store can hold of a note, and count the rest; None if it can hold nothing of it."""
    content = replace(note.content, dates=(note.created_at, note.modified_at))
    if content.trash and not traits.trash:
        losses[NO_TRASH] += 1
        return None
    if content.title is not None and not traits.titles:
        losses[TITLE_TO_TEXT] += 1
        if first_line(content.text).lstrip("# ") != content.title:
            content = replace(content, text=f"{content.title}\n{content.text}")
        content = replace(content, title=None)
    for name in sorted(content.properties - traits.properties):
        losses[NO_PROPERTY.format(name)] += 1
    content = replace(content, properties=content.properties & traits.properties)
    addresses = find_new_addresses(content.tags, present=()) if traits.shares_by_tag else ()
    if addresses:
        losses[SHARED] += 1
        content = replace(content, tags=tuple(tag for tag in content.tags if tag not in addresses))
    if content.tags and not traits.tags:
        losses[NO_TAGS] += 1
        content = replace(content, tags=())
    if traits.max_note_bytes and len(content.text.encode()) > traits.max_note_bytes:
        losses[TOO_LARGE] += 1
        return None
    return content


async def _find_place(
    note: ArchivedNote,
    content: Content,
    transfer: NoteTransfer,
    kind: StoreKind,
    taken: set[str],
    *,
    now: float,
) -> tuple[str | None, Revision | None]:
    """Return the id for a note, and the note that is imported already; no id if there is none free."""
    seed = hashlib.sha256(f"{note.id}\n{format_date(note.created_at)}".encode()).hexdigest()
    if note.id not in taken and kind.takes_id(note.id):
        held = await transfer.find(note.id)
        if held is None or _is_same(note, held, transfer.traits):
            return note.id, held
    if transfer.traits.ids is not Ids.NAMED:
        made = random_id(seed)
        made = made if kind.takes_id(made) else transfer.make_id(content, seed=seed, attempt=0)
        return made, await transfer.find(made)
    for attempt in range(_MOST_NAMES):
        made = transfer.make_id(content, seed=seed, attempt=attempt)
        held = await transfer.find(made)
        if made in taken:
            continue
        if held is None or held.content == transfer.preview(made, content, now=now).content:
            return made, held
    return transfer.make_id(content, seed=seed, attempt=_MOST_NAMES), None


def _is_same(note: ArchivedNote, held: Revision, traits: Traits) -> bool:
    """Tell by its date whether the note with the id of an exported one is that one."""
    return not traits.keeps_dates or abs(held.created_at - note.created_at) < _SAME_SECOND


def _count_losses(content: Content, would: Content, traits: Traits, losses: Counter[str]) -> None:
    losses[NO_DATES] += not traits.keeps_dates
    losses[OTHER_TAGS] += would.tags != content.tags
    losses[OTHER_TEXT] += replace(would, tags=content.tags) != content


async def carry_out(
    planned: ImportPlan, transfer: NoteTransfer, kind: StoreKind, report: Report
) -> ImportResult:
    """Write the new notes. Raises what ends the import for more than one note; then repeat it."""
    done, total = ImportResult(), len(planned.new)
    async with transfer.writing():
        if transfer.traits.in_database:
            for portion in _portions(planned.new):
                for (note_id, _), error in zip(portion, transfer.create_all(portion), strict=True):
                    await _count(done, note_id, error, transfer)
                report(done.total, total)
            return done
        waiting = iter(planned.new)

        async def write_next() -> None:
            for note_id, content in waiting:
                await _count(done, note_id, await _create(note_id, content, transfer), transfer)
                report(done.total, total)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE if kind.truth is Truth.REMOTE else 1):
                    group.create_task(write_next())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
    return done


def _portions(notes: Iterable[tuple[str, Content]]) -> Iterator[list[tuple[str, Content]]]:
    """Yield what is written in one transaction. Servers on the same notes wait for each."""
    portion: list[tuple[str, Content]] = []
    size = 0
    for one in notes:
        portion.append(one)
        size += len(one[1].text)
        if len(portion) == _MOST_TOGETHER or size > _LARGEST_TOGETHER:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


async def _create(note_id: str, content: Content, transfer: NoteTransfer) -> NotariumError | None:
    try:
        await transfer.create(note_id, content)
    except NotariumError as error:
        return error
    return None


async def _count(
    done: ImportResult, note_id: str, error: NotariumError | None, transfer: NoteTransfer
) -> None:
    """Count what became of a note. Raises an error that is not about this note alone."""
    if error is None:
        done.imported += 1
    elif isinstance(error, VersionConflict):
        done.there += 1
    elif isinstance(error, StoreRejected):
        done.refused.append((note_id, error.message))
    elif isinstance(error, OutcomeUnknown) and transfer.hides and await transfer.find(note_id):
        done.hidden += 1
    else:
        raise error
