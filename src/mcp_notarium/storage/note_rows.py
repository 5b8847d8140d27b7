"""Convert revisions to table rows and back, and split changes into batches. Pure.

The rows are those of ``notes``, ``note_base`` and ``note_tags``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from mcp_notarium.domain.characters import replace_surrogates, tag_key
from mcp_notarium.domain.lines import first_line, preview
from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.markup.front_matter import shown_part
from mcp_notarium.search.folding import supplement, tag_words, title_key

Value = str | bytes | int | float | None
Change = Revision | Tombstone

BULK_SIZE = 250
"""More notes than this at once are a load: stored in a worker thread, because so many would block the
event loop longer than the write lock, and merged into the full-text index afterwards."""
BATCH = 1000
"""Notes that are looked up and written together, in one transaction of some 0.1 s during a load; other
processes wait for it. More cost memory and gain nothing."""

_AS_JSON = lru_cache(1024)(json.JSONEncoder(ensure_ascii=False).encode)  # few tags, many notes
_LATEST = 253_402_300_799  # the end of the year 9999: what a calendar date can still show


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
    """Return the change without lone surrogates, which cannot be stored."""
    if isinstance(change, Tombstone):
        return Tombstone(replace_surrogates(change.id))
    before = change.id, change.etag, change.content, change.links
    note_id, etag = replace_surrogates(change.id), replace_surrogates(change.etag)
    links = None if change.links is None else change.links.cleaned()
    clean = note_id, etag, change.content.cleaned(), links
    if clean == before:  # as of nearly every note: a copy takes ten times as long
        return change
    return replace(change, id=note_id, etag=etag, content=clean[2], links=links)


@dataclass(frozen=True, slots=True)
class Rows:
    """Hold the rows of one revision, without what only the table knows.

    ``note``: the columns of ``notes`` without key and version, ``base``: those of ``note_base``
    without the key, ``tags``: tag and key of each; all in the order of the statements there.
    """

    revision: Revision
    note: tuple[Value, ...]
    base: tuple[Value, ...]
    tags: tuple[tuple[str, str], ...]


def rows_of(revision: Revision) -> Rows:
    """Return the rows of a revision."""
    tags = tuple((tag, tag_key(tag)) for tag in revision.content.tags)
    return Rows(revision, _note(revision), _base(revision), tags)


def _note(revision: Revision) -> tuple[Value, ...]:
    content = revision.content
    heading = content.title or first_line(content.text)
    return (
        revision.id,
        revision.server_version,
        _seconds(revision.created_at),
        _seconds(revision.modified_at),
        int(content.trash),
        _AS_JSON(tuple(sorted(content.properties))),
        _AS_JSON(content.tags),
        content.title,
        preview(shown_part(content.text)),
        title_key(heading),
        heading,
        tag_words(content.tags),
        supplement(f"{content.title}\n{content.text}" if content.title else content.text),
        content.text,
    )


def _base(revision: Revision) -> tuple[Value, ...]:
    return (
        revision.etag,
        _number(revision.created_at),
        _number(revision.modified_at),
        int(revision.tags_understood),
        revision.identity,
        revision.raw,
    )


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else float(value)


def _seconds(value: float) -> int:
    return math.floor(min(max(_number(value), -_LATEST), _LATEST))
