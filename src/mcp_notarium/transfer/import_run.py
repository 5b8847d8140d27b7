"""Carry out a planned import.

Where the notes are in the database, so many of them are one flushed transaction. Every other store is sent them
one by one, through the journal. A repeated import finds what is written and takes up the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mcp_notarium.domain.note_archive import ArchivedNote
from mcp_notarium.errors import (
    NotariumError,
    OutcomeUnknown,
    RateLimited,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.kind import StoreKind, Truth
from mcp_notarium.sync.note_transfer import NoteTransfer
from mcp_notarium.transfer.formats import Report
from mcp_notarium.transfer.import_plan import ImportPlan, NewNote

_MOST_TOGETHER = 250
_LARGEST_TOGETHER = 8_000_000
_AT_ONCE = 4
"""Notes on the way to a service at the same time."""
_PAUSES = (5.0, 15.0, 60.0, 60.0)
"""Seconds to wait for a service that is asked too much, if it does not say how long."""
_LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class ImportResult:
    """Count what was written. ``refused``: notes that the store does not take, and why."""

    imported: int = 0
    there: int = 0
    hidden: int = 0
    refused: list[tuple[ArchivedNote, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Return how many notes were dealt with."""
        return self.imported + self.there + self.hidden + len(self.refused)


async def carry_out(
    planned: ImportPlan, transfer: NoteTransfer, kind: StoreKind, report: Report
) -> ImportResult:
    """Write the new notes. Raises what ends the import for more than one note; then repeat it."""
    done, total = ImportResult(), len(planned.new)
    if transfer.traits.in_database:
        for portion in _portions(planned.new):
            errors = transfer.create_all([(one.id, one.content) for one in portion])
            for one, error in zip(portion, errors, strict=True):
                await _count(done, one, error, transfer)
            report(done.total, total)
        return done
    waiting = iter(planned.new)

    async def write_next() -> None:
        for one in waiting:
            await _count(done, one, await _create(one, transfer), transfer)
            report(done.total, total)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE if kind.truth is Truth.REMOTE else 1):
                group.create_task(write_next())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return done


def _portions(notes: Iterable[NewNote]) -> Iterator[list[NewNote]]:
    """Yield what is written in one transaction. Servers on the same notes wait for each."""
    portion: list[NewNote] = []
    size = 0
    for one in notes:
        portion.append(one)
        size += len(one.content.text)
        if len(portion) == _MOST_TOGETHER or size > _LARGEST_TOGETHER:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


async def _create(note: NewNote, transfer: NoteTransfer) -> NotariumError | None:
    """Create a note, and wait where the service asks for it. Return why it was not created."""
    for pause in (*_PAUSES, None):
        try:
            await transfer.create(note.id, note.content)
        except RateLimited as error:
            if pause is None:
                return error
            await asyncio.sleep(min(error.retry_after or pause, _LONGEST_PAUSE))
        except NotariumError as error:
            return error
        else:
            return None
    return None


async def _count(
    done: ImportResult, note: NewNote, error: NotariumError | None, transfer: NoteTransfer
) -> None:
    """Count what became of a note. Raises an error that is not about this note alone."""
    if error is None:
        done.imported += 1
    elif isinstance(error, VersionConflict):
        done.there += 1
    elif isinstance(error, StoreRejected):
        done.refused.append((note.source, error.message))
    elif isinstance(error, OutcomeUnknown) and transfer.hides and await transfer.find(note.id):
        done.hidden += 1
    else:
        raise error
