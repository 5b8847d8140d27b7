"""Sort changes of notes into the inserts, updates and deletes of one batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.text_normalization import replace_surrogates

Change = Revision | Tombstone

BULK_SIZE = 250
"""More notes than this at once are a load: stored in a worker thread, because so many would block the
event loop longer than the write lock, and merged into the full-text index afterwards."""
BATCH = 2000
"""Notes that are looked up and written together, in one transaction of some 0.4 s during a load; other
processes wait for it. Half as many load a sixth slower (20,000 notes); more cost memory and gain little."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Count what :meth:`NoteTable.apply` did, in notes."""

    stored: int = 0
    removed: int = 0
    unchanged: int = 0

    def __add__(self, other: Applied) -> Applied:
        return Applied(
            self.stored + other.stored,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what the table has of a note already."""

    pk: int
    local_version: int
    etag: str


@dataclass(slots=True)
class Plan:
    """Hold what one batch does to the table, by kind. New notes get keys from ``first_pk`` on."""

    first_pk: int
    gone: list[int] = field(default_factory=list)
    changed: list[tuple[Known, Revision]] = field(default_factory=list)
    new: list[tuple[int, Revision]] = field(default_factory=list)

    def take(self, change: Change, known: Known | None) -> None:
        """Add one change; ``known`` is what the table has of its note."""
        match change, known:
            case Revision(), None:
                self.new.append((self.first_pk + len(self.new), change))
            case Revision(), Known() if change.etag != known.etag:
                self.changed.append((known, change))
            case Tombstone(), Known():
                self.gone.append(known.pk)

    @property
    def new_pks(self) -> list[int]:
        """Return the keys of the new notes."""
        return [pk for pk, _ in self.new]

    @property
    def replaced(self) -> list[int]:
        """Return the keys of rows that will be gone or different."""
        return [*self.gone, *(known.pk for known, _ in self.changed)]

    @property
    def written(self) -> list[int]:
        """Return the keys of rows that will be new or different."""
        return [*self.new_pks, *(known.pk for known, _ in self.changed)]

    def outcome(self, size: int) -> Applied:
        """Return what the batch of ``size`` changes did."""
        stored = len(self.new) + len(self.changed)
        return Applied(stored, len(self.gone), size - stored - len(self.gone))


def batches(changes: Iterable[Change]) -> Iterator[dict[str, Change]]:
    """Yield batches with each note at most once, so that each can be written as a whole."""
    batch: dict[str, Change] = {}
    for change in changes:
        clean = _clean(change)
        if clean.id in batch or len(batch) == BATCH:
            yield batch
            batch = {}
        batch[clean.id] = clean
    if batch:
        yield batch


def _clean(change: Change) -> Change:
    """Return the change without lone surrogates, which cannot be stored; mostly itself."""
    try:
        change.id.encode()
        if isinstance(change, Revision):
            change.content.text.encode()
            "".join((change.etag, *change.content.tags)).encode()
    except UnicodeEncodeError:
        return _cleaned(change)
    return change


def _cleaned(change: Change) -> Change:
    if isinstance(change, Tombstone):
        return Tombstone(replace_surrogates(change.id))
    content = Content(
        text=replace_surrogates(change.content.text),
        tags=tuple(map(replace_surrogates, change.content.tags)),
        trash=change.content.trash,
    )
    return replace(
        change,
        id=replace_surrogates(change.id),
        etag=replace_surrogates(change.etag),
        content=content,
    )
