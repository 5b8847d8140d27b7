"""Define what some stores do beyond the contract: revive notes, reach the files around them, read for native tools.

Traits tell which (``revives``, ``tree``, ``replaces``). A store's package has native reads in its ``native`` module, made by
``StoreKind.native``. They ask the store itself, so what they read may be newer than the index. Each answer is judged by the
policy before anything of it is shown. The tools are in ``tools/toolsets``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp_notarium.domain.note import Content, Note, PendingWrite, Published, Revision
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.markup.templates import DATE_FORMAT, PAGE_TITLE_FORMAT, TIME_FORMAT, Filling
from mcp_notarium.stores.contract import Store

if TYPE_CHECKING:
    from mcp_notarium.markup.obsidian_links import Changes, Link


@dataclass(frozen=True, slots=True)
class Replaced:
    """Hold what a body replaces in a note."""

    native: bytes = b""
    """The state before, as ``compose`` takes it in ``Content.native``; b'' if the body changes nothing."""
    names: tuple[str, ...] = ()
    """Parts that the ``Content`` lacks and a person would miss, in the user's words."""
    becomes: bytes = b""
    """The state after the body, in the same form."""


async def find_replaced(store: Store, note_id: str, body: bytes) -> Replaced | None:
    """Return what a body of an update would replace now; None where the content says all. See ``ReplacingStore``."""
    if not store.traits.replaces:
        return None
    return await cast("ReplacingStore", store).find_replaced(note_id, body)  # its trait says so


async def find_native(store: Store, note_id: str, body: bytes) -> bytes | None:
    """Return the ``native`` of :func:`find_replaced`; None where the content says all."""
    found = await find_replaced(store, note_id, body)
    return None if found is None else found.native


def name_parts(store: Store, native: bytes) -> tuple[str, ...]:
    """Name what a ``native`` holds that no ``Content`` says; nothing where the content says all. Pure."""
    return cast("ReplacingStore", store).name_parts(native) if store.traits.replaces else ()


def shown_form(store: Store, native: bytes) -> Mapping[str, Any]:
    """Return what a person is shown of a ``native``, by the store's own names; nothing where the content says all. Pure."""
    return cast("ReplacingStore", store).shown_form(native) if store.traits.replaces else {}


def move_of(store: Store, body: bytes) -> str:
    """Return the ``Content.native`` by which another body of the same note says the same move; '' if it says none. Pure.

    ``body`` is a composed body or a ``native``.
    """
    return cast("MovingStore", store).move_of(body) if store.traits.tree else ""


def native_of(store: Store, write: PendingWrite) -> str:
    """Return the ``Content.native`` by which another body says the same move or pictures as this update; '' if it says none. Pure."""
    if not store.traits.adds_pictures:
        return move_of(store, write.body)
    return cast("PictureStore", store).pictures_of(write.body, write.replaced)


class PublishingStore(Store, Protocol):
    """Reach a store with the trait ``publishes``.

    A content whose place is public says so in its own form. ``push`` raises ``StoreRejected``, with nothing stored, for a body that
    does not say so and would publish a note by now: the user was not asked about that.
    """

    async def find_published(self, base: Revision | None, content: Content) -> Published | None:
        """Return what everybody may read if a note becomes ``content``; None: no more than now. It asks nothing of an ordinary edit.

        Raises ``NoteNotFound``.
        """

    async def find_public_day(self, day: str) -> str:
        """Return the public note below which ``make_day`` would make the note of a day; '' if it makes none, or none that is public."""


async def find_inside(
    store: Store, note_id: str, body: bytes | None, tops: Collection[str]
) -> Collection[str]:
    """Return those of these notes that a note is, or stands below at all of its places. See ``MovingStore.find_inside``."""
    if not (tops and store.traits.tree):
        return ()
    return await cast("MovingStore", store).find_inside(note_id, body, tops)


class ReplacingStore(Store, Protocol):
    """Reach a store with the trait ``replaces``: a body may replace what no ``Content`` says."""

    async def find_replaced(self, note_id: str, body: bytes) -> Replaced | None:
        """Read what a composed body of an update would replace now; None if the content says all that it does.

        Raises ``NoteNotFound``, and ``VersionConflict`` if another change has followed the one that the body goes by.
        """

    def name_parts(self, native: bytes) -> tuple[str, ...]:
        """Name what a ``native`` holds that no ``Content`` says, in the user's words. Pure."""

    def shown_form(self, native: bytes) -> Mapping[str, Any]:
        """Return what a person is shown of a ``native``, by the store's own names. Pure."""


class MovingStore(ReplacingStore, Protocol):
    """Reach a store with the trait ``tree``. A body that moves a note was composed of a ``Content.native`` that says so.

    It replaces the place of the note, and nothing if the note has arrived. ``find_replaced`` raises ``VersionConflict`` if the
    note has left its old place for another one.
    """

    def move_of(self, body: bytes) -> str:
        """See :func:`move_of`."""

    async def find_inside(
        self, note_id: str, body: bytes | None, tops: Collection[str]
    ) -> Collection[str]:
        """Ask the service below which of ``tops`` the note is now, or will be as ``body`` makes it; '' is a new note.

        One of ``tops`` is inside of itself, but for a body that moves it: it must stand below another one then. Raises
        ``NoteNotFound``.
        """


class RevivingStore(ReplacingStore, Protocol):
    """Reach a store with the trait ``revives``, whose every body may replace something.

    ``push`` of an update raises ``VersionConflict`` if it would replace something else than ``PendingWrite.replaced``, and
    ``find_replaced`` if the body takes back a change that another one has followed.
    """

    async def full_copy(self, note_id: str) -> bytes:
        """Return all that the store holds of a note, as ``compose`` takes it in ``Content.native`` of a new one.

        Raises ``NoteNotFound``.
        """

    def overlay(self, natives: Sequence[str]) -> str:
        """Combine what several writes have replaced, the newest first, into the state before the oldest. Pure."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Hold the files of a store that are no notes."""

    files: Sequence[str]
    """The paths of all."""
    shown: Mapping[str, Sequence[str]]
    """Files that each canvas shows."""
    links: Mapping[str, Sequence[Link]]
    """The links in the texts of each canvas."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold what is known of a file that a note shows or links to.

    The id says which note has it, in a store where notes have files: ``NOTE/FILE``.
    """

    id: str
    kind: str
    """Its media type."""
    size: int | None = None
    """In bytes."""
    modified_at: int | None = None
    """In epoch seconds."""
    name: str = ""
    """Its name in the note; '' if the id ends with its name, or it has none."""
    lines: tuple[int, ...] = ()
    """Lines of the note's text that show it or link to it, from 1, the first few; () if none does."""
    drawn: bool = False
    """The app has drawn it from the text of the note, which needs no link to it."""


ELSEWHERE = "elsewhere"


class AttachmentStore(Store, Protocol):
    """Reach a store with the trait ``attachments``: its notes have files of their own."""

    async def list_attachments(self, revision: Revision) -> Sequence[Attachment]:
        """Return the files that the note shows, also those that another note has. It asks no network."""

    async def read_attachment(
        self, attachment: Attachment, *, largest: int
    ) -> tuple[Attachment, bytes | None]:
        """Return the file with its bytes; None for more than ``largest``. Name and kind are the app's, not those of a link.

        Raises ``NoteNotFound``, also for a file of another note than its id says. Its subcategory is ``ELSEWHERE`` for an
        address of which the store has no bytes.
        """

    def id_of_link(self, note_id: str, target: str) -> str:
        """Return the id of the file to which a link in the text of a note leads; '' if it leads to none. Pure."""


class AskingStore(AttachmentStore, Protocol):
    """Reach a store with the trait ``asks_attachments``: no text shows some of its files, or how large one is."""

    async def ask_attachments(
        self, revision: Revision, *, seconds: float, tries: int = 1
    ) -> Sequence[Attachment]:
        """Ask the service for the files that a note shows or has, for at most so many seconds.

        Raises ``NoteNotFound``, and what a request raises.
        """

    def is_file(self, revision: Revision) -> bool:
        """Tell whether the note itself is a picture or another file, or is shown as one. Pure, and quick with a long text."""

    async def find_owners(self, base: Revision | None, content: Content) -> Collection[str]:
        """Ask whose the files are that a content newly names: ids of notes, '' for a file that is not there.

        The service gives the note copies of those of other notes. Raises what a request raises.
        """


@dataclass(frozen=True, slots=True)
class KeptFile:
    """Hold where a store has put a file."""

    id: str
    """Its id, as ``find_attachments`` names it."""
    link: str
    """The link of the note's text to it, in the app's own form; '' if the note shows it without a link."""
    made: bool
    """It was not there before, with these bytes."""
    before: str = ""
    """The beginning of a line for the link: in an outline, the mark of a block."""


class Restored(Enum):
    """Tell what a store has found when it was to bring a discarded file back."""

    BACK = "the file is back"
    THERE = "others have put the same bytes there"
    LOST = "neither"


@dataclass(frozen=True, slots=True)
class Room:
    """Hold for how many bytes of files there is room. None: no bound is known."""

    of_note: int | None = None
    """Room of one note."""
    left: int | None = None
    """Room of all notes together."""


class KeepingStore(Store, Protocol):
    """Reach a store with the trait ``keeps_files``: a note can get a file, which its app then shows."""

    largest_file: int
    """Bytes of a file that is kept, at most."""

    async def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:
        """Put a file where the app puts files of this note, under a free name, and read it back.

        ``name`` is one that :func:`~mcp_notarium.domain.file_names.clean_file_name` has made. It overwrites nothing. A repeated
        call makes no second file: one with the same bytes and this name, or this name with a number, is taken as it is. Raises ``NoteNotFound``, ``StoreRejected`` for what the store has no room for, and ``NoteReadOnly``.
        """

    async def find_room(self) -> Room:
        """Return how much more the store takes."""

    def marks_of(self, file_id: str) -> tuple[str, ...]:
        """Return texts of which every note that shows the file has one. Pure."""

    async def discard_file(self, file_id: str, digest: str) -> bool:
        """Remove a file as the app does, into its trash if it has one; False if its bytes have another SHA-256.

        The caller has made sure that no note shows it. Raises ``NoteNotFound`` if it is gone already.
        """

    async def restore_file(self, file_id: str, digest: str) -> Restored:
        """Bring a discarded file back under its id, overwriting nothing."""


class PictureStore(Store, Protocol):
    """Reach a store with the trait ``adds_pictures``: pictures are parts of a note, and no text says where they are."""

    largest_file: int
    """Bytes of a picture that is added, at most."""

    async def with_picture(self, note_id: str, kind: str, data: bytes) -> tuple[str, str]:
        """Return the ``Content.native`` that adds a picture, and the id of the picture; '' if the note has it.

        The write is a conflict if the pictures have changed since. Raises ``StoreRejected`` if they cannot be understood.
        """

    def pictures_of(self, body: bytes, replaced: bytes | None) -> str:
        """Return the ``Content.native`` by which another body of the same note gives it the same pictures; '' if it gives none. Pure.

        ``replaced``: what the body was to replace. A write of it is a conflict if the pictures have changed since.
        """


class FolderStore(Store, Protocol):
    """Reach a store whose notes are files among others, which may name them."""

    async def resolve_files(
        self, links: Sequence[tuple[str, str]], *, sees: Callable[[str], bool] | None = None
    ) -> Mapping[tuple[str, str], Attachment]:
        """Return the files other than notes to which links lead.

        ``links``: each target as written, with the path of its note; '' is the top. A file that ``sees`` refuses does not exist.
        """

    async def read_file_names(
        self, *, but_of: Mapping[str, str | None]
    ) -> tuple[set[str], list[str]]:
        """Return the names (``name_key``) of files that notes may show, and the notes that cannot be read.

        ``but_of``: the paths of notes that do not count, each with the etag that it must still have; None: any.
        """

    async def read_file(self, path: str, *, largest: int) -> tuple[Attachment, bytes | None]:
        """Return a file that is no note; None for the bytes of a larger one. Raises ``NoteNotFound``, ``NoteUnreadable``."""

    async def place_files(self, note_id: str) -> str:
        """Return the folder in which the app puts the files of a note; '' is the top. Raises ``StoreRejected`` if none is shown there."""

    async def find_files(self, paths: Iterable[str]) -> set[str]:
        """Return at which of these paths there are files that are no notes, such as images."""

    async def find_read_only(self, note_ids: Iterable[str]) -> set[str]:
        """Return those of these notes that the store marks as ones that may only be read: a write of them is refused."""

    async def list_beside(self) -> Beside:
        """Return the files next to the notes; not those in the trash."""

    async def move_file(self, old: str, new: str) -> bool:
        """Move a file that is no note, and make the folders above it; True if it is there afterwards, overwriting nothing."""

    async def remove_folders(self, folder: str) -> list[str]:
        """Remove a folder, and those below it, as far as they are empty; return the paths of the files in them that stay."""

    async def find_cards(self, path: str) -> dict[str, int | None]:
        """Return how many cards of each canvas show the note; None: it names the note, and is not readable."""

    async def move_cards(
        self, canvases: Mapping[str, Changes], *, old: str, new: str
    ) -> dict[str, bool | None]:
        """Let these canvases show the note at its new path, and change the links in their texts.

        Return whether each does; None: not now, and perhaps later.
        """


@dataclass(frozen=True, slots=True)
class DayPlace:
    """Hold where an app keeps the note of a day, and how it begins."""

    path: str
    title: str
    """As the template gets it; so is ``date_format``."""
    template: str = ""
    """The path of the note whose text it begins with, as the settings name it; '' if there is none."""
    date_format: str = DATE_FORMAT
    block: str = ""
    """The name of the template of Logseq that it begins with, which stands in some page."""
    title_format: str = PAGE_TITLE_FORMAT
    """Format of the titles of journals there."""


@dataclass(frozen=True, slots=True)
class TemplateSettings:
    """Hold in which folder the templates of notes lie, and how they write dates and times."""

    folder: str
    date_format: str = DATE_FORMAT
    time_format: str = TIME_FORMAT


class DayPlacingStore(Store, Protocol):
    """Reach a store with the trait ``Days.PLACED``."""

    async def place_day(self, day: datetime) -> DayPlace:
        """Return where the app keeps the note of this day, there or not.

        Raises ``InvalidRequest`` if its settings name no place that a note can have.
        """


class TemplateStore(Store, Protocol):
    """Reach a store with the trait ``templates``."""

    async def read_templates(self) -> TemplateSettings | None:
        """Return where the app keeps templates; None: it keeps none."""


class CopyingStore(Store, Protocol):
    """Reach a store with the trait ``copies``."""

    async def copy(self, template: Revision, filling: Filling) -> tuple[Content | None, str]:
        """Return the content of a new note from this template, and what to say of it; None: the template is no text.

        The store fills its own form, so nothing is lost that the text does not show.
        """


class TypingStore(Store, Protocol):
    """Reach a store with the trait ``types_properties``."""

    async def read_property_types(self) -> Mapping[str, str]:
        """Return the types (``FORMS`` of ``domain.properties``) that the app gives to properties, by the keys of their names."""


class DayMakingStore(Store, Protocol):
    """Reach a store with the trait ``Days.MADE``. Days are named like ``2026-11-28``."""

    day_tag: str
    """Name the tag that the note of each day has."""

    def day_of(self, revision: Revision) -> str:
        """Return the day that this is the note of; '' for any other note. Pure. The day stands in ``Revision.raw`` as it is."""

    async def find_day(self, day: str) -> str | None:
        """Ask the service for the note of this day, without making it. Return its id; None if there is none."""

    async def make_day(self, day: str) -> str:
        """Let the service make the note of this day, unless it is there. Return its id.

        However often and from wherever it is called, there is one note of the day.
        """


class NativeReads(Protocol):
    """Read from the store for its native tools. No method returns what the policy hides."""

    beyond_index: bool
    """Ids of one word may name notes that the index lacks."""


@dataclass(frozen=True, slots=True)
class ParentNote:
    """Hold a folder, or a note with others below it."""

    id: str
    path: str
    """The titles that lead to it; the one above all has none."""
    notes: int
    """Number of notes right below it."""
    below: int
    """Number of notes below it in all."""


@dataclass(frozen=True, slots=True)
class TreePlace:
    """Hold a folder or note below which a note may come to stand."""

    id: str
    above: Collection[str]
    """Its own id, and those above."""


class TreeReads(NativeReads, Protocol):
    """Read from a store with the trait ``tree``."""

    async def find_place(self, name: str) -> TreePlace:
        """Return the visible folder or note that has this id, or to which these titles lead. Raises ``InvalidRequest``."""

    async def moved(
        self, note: Note, content: Content, place: TreePlace, *, strict: bool
    ) -> Content | None:
        """Return ``content`` as it is below ``place``, with the move in its ``native``; None: the note stands there.

        ``strict``: rules go by what a note gets from those above it. Raises ``NoteLeft`` for a note that cannot move there, or
        if nobody can tell what the move would show or hide. Raises ``VersionConflict`` if the index knows another place.
        """

    async def moved_back(self, note: Note, content: Content, move: str, *, strict: bool) -> Content:
        """Return the content of a version at the place that it had. Raises as :meth:`moved`.

        ``move``: what :func:`move_of` returns for ``Replaced.native``.
        """

    async def list_parents(self) -> list[ParentNote]:
        """Return the folders, or notes with others below them, in the order of the tree.

        Nothing that the policy hides is shown or counted, nor is a folder without a visible note if there are rules.
        """


class NoteIndex(Protocol):
    """Judge what was read by the policy, and tell what the index has of a note."""

    @property
    def rules(self) -> Visibility:
        """Return the rules of the policy on notes."""

    def sees(
        self, note_id: str, content: Content, *, clear: bool, identity: str | None = None
    ) -> bool:
        """Tell whether a note of this content is shown; ``clear`` False: its tags were not understood.

        The index says which properties stand in a text that ``content`` lacks.
        """

    def hides_name(self, note_id: str) -> bool:
        """Tell whether this name is hidden, whatever the note says."""

    def current_id(self, old: str) -> str | None:
        """Return the id that the note of an old id has now; None if there is none, or more than one."""

    def get(self, note_id: str) -> Note | None:
        """Return the note as the index has it."""

    def base(self, note_id: str) -> Revision | None:
        """Return the last revision that the index knows of a note."""

    async def refresh(self, note_id: str) -> Note | None:
        """Return the note as the store has it now, also to the index; None if it is gone, or hidden.

        Raises what the store raises.
        """
