"""Define what every note store must do: the ``Store`` protocol.

Words: a *cursor* is an opaque place in the store's stream of changes, compared for equality only;
a *mark* is an opaque place inside one listing; an *etag* names one revision of one note.

Obligations of every store (``tests/contract`` checks them):

* a missing note raises ``NoteNotFound``; no usable login raises ``LoginRequired``;
* ``push`` with a stale or unknown base raises ``VersionConflict`` and stores nothing, where
  ``capabilities.detects_stale_base`` says so; elsewhere the caller compares the answer with
  what it sent;
* ``push`` repeated with the same ``write_id`` has no second effect where
  ``capabilities.idempotent_push`` says so;
* ``push`` and ``delete`` raise ``OutcomeUnknown`` only if the request may have reached the store;
  ``StoreUnavailable`` promises that it did not;
* a page is complete or the call raises; a hostile or oversized answer raises
  ``StoreProtocolError``;
* text goes through byte for byte (CRLF, no final newline, emoji; lone surrogates become U+FFFD);
* no secret and no note text stands in any error;
* being cancelled leaves no half write.

Retries of single requests are made in ``stores/http.py`` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone
from mcp_notarium.errors import StoreUnavailable

BaseLookup = Callable[[str], Revision | None]
"""Gives the acknowledged revision the index holds of a note, or None."""
WITHDRAWN: ContextVar[Callable[[], bool]] = ContextVar("withdrawn", default=lambda: False)
"""Tells whether the caller has cancelled the write of this task. Set by whoever starts the task.

A write goes on in a task of its own when its caller is cancelled. Until its request leaves it can still
be dropped, but only the sender knows when that is: see :func:`check_not_withdrawn`.
"""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Hold facts about a store. The engine asks for these and never for a store's name."""

    change_feed: bool = False
    """``changes`` exists and reports removals."""
    long_poll: bool = False
    """``changes(wait=True)`` blocks until something happens."""
    delta_listing: bool = False
    """``list_page(since=cursor)`` lists only what changed (removals do not show)."""
    idempotent_push: bool = False
    detects_stale_base: bool = False
    has_versions: bool = False
    """``get(id, etag=older)`` may return an older revision."""
    trash_before_delete: bool = False
    """``delete`` needs a note that is in the trash."""
    shares_by_tag: bool = False
    """A tag that is an e-mail address shares the note with that person."""
    source_of_truth: bool = False
    """The database itself is the store; it can never be fetched again from elsewhere."""
    max_note_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold a line of a listing without content: this note exists, at this revision."""

    id: str
    etag: str
    server_version: int | None = None


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Hold one page of a listing, newest change first.

    ``cursor`` is the store's place in its stream of changes when the page was made. Only the
    cursor of the *first* page of a listing may ever be stored. ``next_mark`` is None on the last
    page. ``total`` is the number of notes in the whole listing where the store tells it.
    ``left_out`` entries have no id, or one that the store itself could never be asked for.
    """

    entries: tuple[Revision | Entry, ...]
    cursor: str
    next_mark: str | None
    total: int | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Hold what happened since a cursor, oldest first, each note at most once.

    An ``Entry`` stands for a note whose new content must be fetched with ``get``. ``left_out`` is
    that of a ``ListingPage``.
    """

    changes: tuple[Revision | Tombstone | Entry, ...]
    cursor: str
    left_out: int = 0


class PushStatus(StrEnum):
    """Name the outcome of a push at the store."""

    STORED = "stored"
    REPEATED = "repeated"
    """It already knew this write_id; ``revision`` is the note as it is now."""
    UNCHANGED = "unchanged"
    """The write changed nothing there; ``revision`` is the note as it is now."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Hold the store's answer to a push: what it now holds, which need not be what was sent.

    ``before``: the etag of the revision that the write was stored on top of, which ``get`` knows;
    None where the store does not tell, or did not store anything just now. ``alone``: nobody else wrote
    between our base and ``revision``, so whatever differs from what was sent is the store's own doing.
    ``first``: the etag of the first revision after our base, if ``get`` may know it and it is not
    ``revision``.
    """

    revision: Revision
    status: PushStatus
    before: str | None = None
    alone: bool = False
    first: str | None = None


class Store(Protocol):
    """Reach one note store, for one account. Every method may raise the errors named above."""

    capabilities: Capabilities

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """List one page of all notes (``since`` None) or of those changed after ``since``.

        Trashed notes are listed, removed ones are not. Raises ``CursorLost`` if ``since`` is not
        known any more. May return fewer than ``limit`` entries when bodies are large.
        """

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """Return what happened after ``cursor``. Raises ``CursorLost``.

        With ``wait`` it blocks until something did, or, after a while, returns an empty page with
        the same cursor.
        """

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """Fetch the newest revision, or the named one. Raises ``NoteNotFound``."""

    def compose(self, base: Revision | None, content: Content, *, now: float) -> str:
        """Compose the exact body that turns ``base`` into ``content`` (pure).

        Unknown fields stay as they are, the modification time is ``now`` (epoch seconds), the
        creation time is set only for a new note. Content equal to the base's gives the base's own
        body: nothing was edited, so nothing may look edited.
        """

    def revision_of(self, note_id: str, body: str) -> Revision:
        """Read a composed body as a revision (etag ''); pure, for comparing answers."""

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """Store ``write.body`` over ``write.base_etag`` under ``write.write_id``."""

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """Remove the note for good, only if ``etag`` is still its newest revision.

        Raises ``VersionConflict`` if it is not; a note already gone is success.
        """

    async def close(self) -> None:
        """Close connections. Idempotent."""


def check_not_withdrawn() -> None:
    """Raise ``StoreUnavailable`` if the write was withdrawn. Call it just before sending."""
    if WITHDRAWN.get()():
        raise StoreUnavailable("the call was cancelled before its request was sent")
