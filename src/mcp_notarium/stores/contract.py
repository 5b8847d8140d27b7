"""Define what every note store must do: the ``Store`` protocol.

Words: a *cursor* is an opaque place in the store's stream of changes, compared for equality only;
a *mark* is an opaque place inside one listing; an *etag* names one revision of one note.

Obligations of every store (``tests/contract`` checks them):

* a missing note raises ``NoteNotFound``; no usable login raises ``LoginRequired``;
* ``push`` over a base that is not the newest revision does what ``traits.write_guard`` says;
* ``push`` repeated with the same ``write_id`` has no second effect if ``traits.retry`` is IDEMPOTENT;
* ``push`` of a new name raises ``IdTaken`` and stores nothing if ids are named and the id exists;
* ``push`` and ``delete`` raise ``OutcomeUnknown`` only if the request may have reached the store;
  ``StoreUnavailable`` promises that it did not;
* a page is complete or the call raises; a hostile or oversized answer raises
  ``StoreProtocolError``;
* text goes through byte for byte (CRLF, no final newline, emoji; lone surrogates become U+FFFD);
* no secret and no note text stands in any error;
* an ``identity`` never becomes that of another note, also when its own is gone, and every answer tells the same;
* being cancelled leaves no half write.

A request that got no answer, or met a failure that may pass, is retried in ``stores/http.py`` alone. A
store's package sends one again only with a renewed token, or after a failure that only its service has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum, Flag, StrEnum, auto
from typing import Any, Protocol, TypeVar

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.note import (
    LONGEST_ID,
    Content,
    PendingWrite,
    PropertyPlace,
    Revision,
    Tombstone,
)
from mcp_notarium.errors import (
    ConfigError,
    InvalidRequest,
    LoginRequired,
    NoteNotFound,
    NoteUnreadable,
    RateLimited,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.kind import Ids, KindTraits

SEEDED = 10
"""The attempt from which a made id contains part of the seed, so that nobody has taken it."""
BaseLookup = Callable[[str], Revision | None]
"""Return the acknowledged revision that the index holds of a note, or None."""
WITHDRAWN: ContextVar[Callable[[], bool]] = ContextVar("withdrawn", default=lambda: False)
"""Tell whether the caller has cancelled the write of this task, or its time is over. The starter of the task sets it.

A write goes on in a task of its own when its caller is cancelled. It can still be
dropped until its request leaves, but only the sender knows when that is: see :func:`check_not_withdrawn`.
"""

NOT_STORED = (
    StoreRejected,
    StoreUnavailable,
    LoginRequired,
    NoteNotFound,
    NoteUnreadable,
    RateLimited,
    VersionConflict,
)
"""Errors after which the store has certainly not taken the write. After any other it may have."""
_Result = TypeVar("_Result")


async def _at_once() -> None:
    pass


LET_CALLS_PASS: ContextVar[Callable[[], Awaitable[None]]] = ContextVar(
    "let_calls_pass", default=_at_once
)
"""Await what goes before an answer that is read in this task. The starter of the task sets it."""


class Changes(Flag):
    """Name how a store tells what changed. Every store can list all of its notes."""

    SNAPSHOT = 0
    """Only by listing everything again."""
    FEED = auto()
    """``changes`` reports everything since a cursor, removals included."""
    DELTA = auto()
    """``list_page(since=cursor)`` lists only what changed; removals do not show."""


class WriteGuard(Enum):
    """Name what protects somebody else's edit that reaches the store just before ours."""

    CAS = "a stale base is refused, and nothing is stored"
    SERVER_MERGE = "the store merges both edits, by rules of its own"
    LAST_WRITER = "the store overwrites what it holds, whatever that is"


class Retry(Enum):
    """Name what a write may meet that was sent before without an answer."""

    IDEMPOTENT = "the store knows its write_id, and stores it once"
    ASK = "the store would store it again: look first"


class Versions(Enum):
    """Name what a store keeps of the revisions that writes replace."""

    NONE = "nothing that could be asked for"
    LISTED = (
        "``list_versions`` finds them, under etags of their own, and ``get`` reads them by these"
    )
    BY_ETAG = "as LISTED, and each may be read by the etag that it had as the newest"


class Days(Enum):
    """Name how the note of a day is known, and who makes it. See ``DayPlacingStore`` and ``DayMakingStore``."""

    TITLED = "by its title, or first line, which is the date: any program may have made it"
    PLACED = "by its path, which the settings of the app give"
    MADE = "by what the service writes into it, which makes it when it is asked for the first time"


def _no_forms(_base: Revision, _body: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return {}, {}


@dataclass(frozen=True, slots=True)
class Traits(KindTraits):
    """Hold the facts about a store. The engine asks for these and never for a store's name."""

    changes: Changes
    write_guard: WriteGuard
    retry: Retry
    probe: bool = False
    """Tell cheaply, by ``changes`` of a SNAPSHOT store, that nothing has changed since a listing."""
    long_poll: bool = False
    """Block in ``changes(wait=True)`` until something happens."""
    whole_listings: bool = False
    """Prove that a full listing is complete and of the same place: all that it lacks is gone."""
    versions: Versions = Versions.NONE
    compares: bool = False
    """Compare the base in ``push`` of a LAST_WRITER store right before the write, and read the note back right after.
    ``push`` raises ``VersionConflict``, and ``NoteNotFound`` for a note that is gone. Stores with another guard need not."""
    tags: bool = True
    tags_in_text: bool = False
    """Find tags in the text, too, so that an edit of the text changes the tags."""
    spaced_tags: bool = False
    """Take tags of several words."""
    is_markdown: Callable[[Revision], bool] | bool = False
    """Tell whether the text of a note is Markdown whatever its properties are; else it is lines, each for itself."""
    names_are_tags: bool = False
    """Have the name of each property of ``Content.properties`` among the tags, too."""
    dates: bool = True
    """Take the date of a change from the write, and show it in an answer."""
    keeps_dates: bool = False
    """Give a note the dates of ``Content.dates``: both of them to a new one, the second to a changed one."""
    fixed_creation: bool = False
    """Keep the date of making: an answer with another one is about another note."""
    in_database: bool = False
    """Keep the notes in the database of the index. Writes join the caller's transaction, and no method ever waits. One
    transaction then holds a write and what the index has of it, without a journal entry."""
    revives: bool = False
    """Make a removed note again under its id, with all that the store held of it, and give a changed note back what its
    ``Content`` does not say."""
    shares_by_tag: bool = False
    """Share a note with the person whose e-mail address is a tag of it."""
    publishes: bool = False
    """Show a note to others by the place where it stands: see ``PublishingStore``."""
    days: Days = Days.TITLED
    """Say how the note of a day is known."""
    templates: bool = False
    """Tell where templates of notes lie: see ``TemplateStore``. Elsewhere a tag makes a note a template."""
    attachments: bool = False
    """Have notes with files of their own: see ``AttachmentStore``. In a store with paths they are files next to the notes."""
    asks_attachments: bool = False
    """Have files that only the service knows: see ``AskingStore``."""
    copies: bool = False
    """Make a note from a template as its app does: see ``CopyingStore``."""
    types_properties: bool = False
    """Tell which types the app gives to properties: see ``TypingStore``."""
    beside: Callable[[Revision], Mapping[str, Any]] = lambda _revision: {}
    """Return what the store's app shows of a note and no ``Content`` says, by its own names; pure."""
    exact: str = ""
    """Name the ``Content.native`` that brings back the same bytes under the same id, for a content that the note has had.
    '' in a store that never completes what an agent writes."""
    given: Callable[[str, Revision | None], Content] | None = None
    """Make the content of a text that may be in the store's own form; pure. The revision is what the note is now, None for
    a new one. None: a text has no other form here."""
    own_form: Callable[[Revision], str] = lambda _revision: ""
    """Return the ``Content.native`` by which ``compose`` stores the text of a revision as it was; '' if the text says all."""
    form_losses: Callable[[Revision, bytes], tuple[str, ...]] = lambda _base, _body: ()
    """Name what a composed body takes from words of a revision that stay, and no ``Content`` says; pure."""
    made_of: Callable[[Revision, bytes], bool] = lambda _revision, _body: False
    """Tell whether a revision has the text that the store itself makes of the one of a composed body; pure."""
    forms: Callable[[Revision, bytes], tuple[Mapping[str, Any], Mapping[str, Any]]] = _no_forms
    """Return what a composed body replaces in the store's own form, and by what, by its own names; pure."""
    max_note_bytes: int | None = None

    @property
    def replaces(self) -> bool:
        """Tell whether a body may replace what no ``Content`` says: see ``ReplacingStore``."""
        return self.revives or self.tree is not None

    @property
    def settable(self) -> list[str]:
        """Return the names of the properties that a write can set in every note, whatever its text."""
        return sorted({*self.properties, *(name for name, given in self.fields.items() if given)})


SUPPORTED = frozenset(
    {
        (Changes.FEED | Changes.DELTA, WriteGuard.SERVER_MERGE, Ids.RANDOM, Retry.IDEMPOTENT),
        (Changes.FEED, WriteGuard.CAS, Ids.RANDOM, Retry.IDEMPOTENT),
        (Changes.FEED, WriteGuard.LAST_WRITER, Ids.RANDOM, Retry.ASK),
        (Changes.SNAPSHOT, WriteGuard.CAS, Ids.RANDOM, Retry.ASK),
        (Changes.SNAPSHOT, WriteGuard.LAST_WRITER, Ids.RANDOM, Retry.ASK),
        (Changes.SNAPSHOT, WriteGuard.LAST_WRITER, Ids.NAMED, Retry.ASK),
        (Changes.SNAPSHOT, WriteGuard.LAST_WRITER, Ids.PATHS, Retry.ASK),
    }
)
"""The rows the engine is tested with: no other combination is supported."""


def require_supported_row(traits: Traits) -> None:
    """Raise ``ConfigError`` if the engine is not tested with a store of these traits."""
    if not is_supported(traits):
        row = (traits.changes, traits.write_guard, traits.ids, traits.retry)
        raise ConfigError(
            f"the store has traits that do not go together: {', '.join(str(one) for one in row)}",
            resolution_hint="Set another NOTARIUM_STORE. The store's author: see SUPPORTED in "
            "stores/contract.py.",
        )


def is_supported(traits: Traits) -> bool:
    """Tell whether the engine is tested with a store of these traits."""
    return (traits.changes, traits.write_guard, traits.ids, traits.retry) in SUPPORTED


def require_supported(traits: Traits, content: Content, replaced: Content | None) -> None:
    """Raise ``InvalidRequest`` if the store cannot hold ``content``; ``replaced`` None: a new note."""
    if content.trash and not traits.trash:
        raise InvalidRequest(
            "this store has no trash; nothing was saved",
            subcategory="no_trash",
            resolution_hint=_out_of_sight(traits)
            + "`delete_permanently` removes a note, if the user agrees.",
        )
    if not traits.titles and content.title is not None:
        raise InvalidRequest(
            "notes of this store have no title of their own; nothing was saved",
            subcategory="no_titles",
            resolution_hint="Write the title on the first line of `text`.",
        )
    beside = traits.other_properties is PropertyPlace.BESIDE
    held = traits.properties | traits.fields.keys()
    if not beside and (missing := sorted(content.properties.keys() - held)):
        known = ", ".join(traits.settable) or "none"
        if traits.other_properties is PropertyPlace.IN_TEXT:
            known = "any by `save` with `properties`, which stand at the top of the text"
        raise InvalidRequest(
            f"notes of this store have no property {', '.join(missing)}; nothing was saved",
            subcategory="no_property",
            resolution_hint=f"The properties that can be set here: {known}.",
        )
    if not traits.tags and content.tags != (replaced.tags if replaced else ()):
        raise InvalidRequest(
            "this store keeps no tags; nothing was saved",
            subcategory="no_tags",
            resolution_hint="Save without `tags`.",
        )


def _out_of_sight(traits: Traits) -> str:
    return "Set the property `archived`, or: " if "archived" in traits.properties else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold a line of a listing without content: this note exists, at this revision."""

    id: str
    etag: str
    server_version: int | None = None
    identity: str | None = None
    """See ``Revision``."""


@dataclass(frozen=True, slots=True)
class ListingPage:
    """Hold one page of a listing, newest change first."""

    entries: tuple[Revision | Entry, ...]
    cursor: str
    """Hold the store's place in its stream of changes when the page was made. Only that of the *first* page of a listing
    may ever be stored."""
    next_mark: str | None
    """None on the last page."""
    total: int | None = None
    """Count the notes of the whole listing, where the store tells it."""
    left_out: int = 0
    """Count entries without an id that the store could be asked for, or without text that can be read."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Hold what happened since a cursor, oldest first, each note at most once."""

    changes: tuple[Revision | Tombstone | Entry, ...]
    """An ``Entry`` stands for a note whose new content must be fetched with ``get``; its etag is '' where the feed
    only names the note."""
    cursor: str
    """The page may be a part: what comes after this is asked for next."""
    left_out: int = 0
    """See ``ListingPage``."""


class PushStatus(StrEnum):
    """Name the outcome of a push at the store."""

    STORED = "stored"
    REPEATED = "repeated"
    """It already knew this write_id; ``revision`` is the note as it is now."""
    UNCHANGED = "unchanged"
    """The write changed nothing there; ``revision`` is the note as it is now."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Hold the store's answer to a push."""

    revision: Revision
    """Hold what the store has now, which need not be what was sent."""
    status: PushStatus
    before: str | None = None
    """Name the revision that the write was stored on top of, which ``get`` knows. None: the store does not tell, or did
    not store anything just now."""
    alone: bool = False
    """Tell that this write made ``revision``, and nobody else wrote after our base. What differs from what was sent is then
    the store's own doing. Such a revision is credited to the client that asked for the write, and can be undone."""
    first: str | None = None
    """Name the first revision after our base, if ``get`` may know it and it is not ``revision``."""
    displaced: Revision | None = None
    """Hold what a change has overwritten, where a LAST_WRITER store can tell and it was not our base; None of a new note."""


@dataclass(frozen=True, slots=True)
class VersionPage:
    """Hold older revisions of a note, newest first."""

    revisions: tuple[Revision, ...]
    more: str | None
    """Name what the next page is before; None: there is no more."""


class Store(Protocol):
    """Reach one note store, for one account. Every method may raise the errors named above."""

    traits: Traits
    codec_version: int
    """Another number makes the engine load everything again: the same object reads differently now."""

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """List one page of all notes (``since`` None) or of those changed after ``since``.

        Trashed notes are listed, removed ones are not. Raises ``CursorLost`` if ``since`` is not
        known any more. May return fewer than ``limit`` entries when bodies are large. A SNAPSHOT store
        lists what it holds: every write that was answered before is in it.
        """

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """Return what happened after ``cursor``. Raises ``CursorLost``.

        With ``wait`` it blocks until something did, or, after a while, returns an empty page with
        the same cursor. A SNAPSHOT store with ``probe`` or ``long_poll`` gives the cursor of its listings a
        value that changes with the notes, and returns here

        * an empty page with the same cursor if certainly nothing has changed;
        * an ``Entry`` of each changed note if certainly none is gone or has another id;
        * ``CursorLost`` otherwise: then everything is listed.

        Nobody calls it for a SNAPSHOT store with neither.
        """

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """Fetch the newest revision, or the named one. Raises ``NoteNotFound``."""

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        """Compose the exact body that turns ``base`` into ``content`` (pure).

        Unknown fields stay as they are, the modification time is ``now`` (epoch seconds), the creation time is set only
        for a new note. A store that ``keeps_dates`` takes ``content.dates`` instead. Content equal to the base's gives the base's
        own body: nothing was edited, so nothing may look edited. Raises ``StoreRejected`` for an edit that the store
        cannot hold, never for a new note with the content of a revision.
        """

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """Read a composed body as a revision (etag ''); pure, for comparing answers.

        Its id is the one that the note will have: another one if the write renames it.

        Its content is what the store will hold: a write whose answer was lost is recognised by that. An
        earlier codec version may have composed the body.
        """

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """Make the id of a new note (pure). The same ``seed`` and ``attempt`` give the same id.

        ``attempt`` counts from 0 the ids of this note that were taken; from ``SEEDED`` on, another seed gives
        another id. RANDOM ids: :func:`random_id`.
        """

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """Store ``write.body`` over ``write.base_etag`` under ``write.write_id``.

        A LAST_WRITER store need not compare the base: the caller has just done that. A write that gives a note
        another id raises ``IdTaken`` and stores nothing if something has that; the answer has the new id.
        """

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """Remove the note for good, only if ``etag`` is still its newest revision.

        Raises ``VersionConflict`` if it is not; a note already gone is success. A LAST_WRITER store need
        not compare: the caller has just done that.
        """

    async def close(self) -> None:
        """Close connections. Idempotent."""


class VersionedStore(Store, Protocol):
    """Reach a store whose trait ``versions`` is not NONE."""

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """List about ``limit`` older revisions of a note, with content; ``get`` reads each by its etag.

        ``before``: the etag of the newest revision, or ``more`` of the page before. A page may be empty and
        not the last. A revision without the tags that the note had then has ``tags_understood`` False. One that
        cannot be read is left out. A note that is not there has none.
        """


class ListingStore(VersionedStore, Protocol):
    """Reach a store that lists older revisions under etags of their own."""

    async def find_version(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """Find the older revision of this title and text that was last changed ``at``; None if there is none.

        The newest of the same words will do if the text differs from that of ``now``.
        """


def sent_by(store: Store, write: PendingWrite, head: Revision | Tombstone | None) -> Revision:
    """Return the note as the body of a write makes it, with the text of ``head`` if the store itself makes that of it. Pure."""
    made = store.revision_of(write.note_id, write.body)
    if isinstance(head, Revision) and store.traits.made_of(head, write.body):
        made = replace(made, content=replace(made.content, text=head.content.text))
    return made


def random_id(seed: str) -> str:
    """Return the id of the note that the write ``seed`` makes: 32 hex digits."""
    return hashlib.sha256(f"mcp-notarium/note/{seed}".encode()).hexdigest()[:32]


def is_usable(note_id: str) -> bool:
    """Tell whether the index can hold a note of this id; another is left out, whatever store names it."""
    return 0 < len(note_id) <= LONGEST_ID and replace_surrogates(note_id) == note_id


def require_usable(note_id: str) -> None:
    """Raise ``StoreProtocolError`` for an id that :func:`is_usable` refuses: no call could name the note."""
    if not is_usable(note_id):
        raise StoreProtocolError("the note store gave a note an id that cannot be used")


def run_at_once(call: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that never waits. Raises ``RuntimeError`` if it does: a transaction must not wait."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _Result = done.value
        return result
    call.close()
    raise RuntimeError("a store in the database must not wait")


def check_not_withdrawn() -> None:
    """Raise ``StoreUnavailable`` if the write was withdrawn. Call it just before sending."""
    if WITHDRAWN.get()():
        raise StoreUnavailable(
            "the call was cancelled, or held up for too long, before its request was sent"
        )
