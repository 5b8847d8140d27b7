"""Convert revisions to table rows and back, and split changes into batches. Pure.

The rows are those of ``notes``, ``note_base`` and ``note_tags``. A raw object repeats the text of its note. Cutting it out halves the database and the work of a
first load. It is cut only where putting it back gives the same characters again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from json.encoder import encode_basestring, encode_basestring_ascii

from mcp_notarium.domain.characters import replace_surrogates, tag_key
from mcp_notarium.domain.lines import preview
from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.search.folding import supplement

Value = str | int | float | None
Change = Revision | Tombstone

BULK_SIZE = 250
"""More notes than this at once are a load: stored in a worker thread, because so many would block the
event loop longer than the write lock, and merged into the full-text index afterwards."""
BATCH = 2000
"""Notes that are looked up and written together, in one transaction of some 0.4 s during a load; other
processes wait for it. Half as many load a sixth slower (20,000 notes); more cost memory and gain little."""

_AS_JSON = json.JSONEncoder(ensure_ascii=False).encode
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
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
    return replace(
        change,
        id=replace_surrogates(change.id),
        etag=replace_surrogates(change.etag),
        content=change.content.cleaned(),
    )


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
    return (
        revision.id,
        revision.server_version,
        _seconds(revision.created_at),
        _seconds(revision.modified_at),
        int(content.trash),
        int(revision.pinned),
        int(revision.markdown),
        _AS_JSON(content.tags),
        preview(content.text),
        supplement(content.text),
        content.text,
    )


def _base(revision: Revision) -> tuple[Value, ...]:
    stored = without_text(revision.raw, revision.content.text)
    return (
        revision.etag,
        _number(revision.created_at),
        _number(revision.modified_at),
        stored.text_at,
        int(stored.escaped),
        stored.rest,
    )


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else float(value)


def _seconds(value: float) -> int:
    return math.floor(min(max(_number(value), -_LATEST), _LATEST))


@dataclass(frozen=True, slots=True)
class StoredRaw:
    """Hold a raw object without the note's text, cut out at ``text_at`` (None: nothing was cut).

    ``escaped`` tells which of JSON's two spellings the text had: all-ASCII or unescaped.
    """

    rest: str
    text_at: int | None
    escaped: bool


def without_text(raw: str, text: str) -> StoredRaw:
    """Cut ``text`` out of ``raw`` if it has a spelling there that can be made again."""
    raw = _storable(raw)
    for escaped in (False, True):
        spelled = _spell(text, escaped=escaped)
        at = raw.find(spelled)
        if at >= 0:
            return StoredRaw(raw[:at] + raw[at + len(spelled) :], at, escaped)
    return StoredRaw(raw, None, escaped=False)


def with_text(stored: StoredRaw, text: str) -> str:
    """Return the raw object again; ``text`` is the text that was cut out."""
    at = stored.text_at
    if at is None:
        return stored.rest
    return stored.rest[:at] + _spell(text, escaped=stored.escaped) + stored.rest[at:]


def _spell(text: str, *, escaped: bool) -> str:
    return encode_basestring_ascii(text) if escaped else encode_basestring(text)


def _storable(raw: str) -> str:
    """Escape lone surrogates in JSON: they have no UTF-8 form and could not be stored."""
    try:
        raw.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", raw)
    return raw
