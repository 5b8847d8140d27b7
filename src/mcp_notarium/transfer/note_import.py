"""Plan an import before anything is written, then carry it out.

The plan has ids, dates, tags in our rules, and what the store cannot hold. A note is imported once. It keeps its
id if the store can have it; else its new id is made from the id and the date in the export, or, where ids are
names, from folder and title. A note under that id is left as it is, so an interrupted or repeated import makes
no second copy.

A store whose notes are in the database takes many of them in one flushed transaction. Every other store is sent
them one by one, through the journal. A repeated import finds what is written and takes up the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar
from urllib.parse import quote, unquote

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.exported_note import TIDY_TAGS, ExportedNote, NoteFile, format_date
from mcp_notarium.domain.lines import first_line
from mcp_notarium.domain.note import Content, PropertyPlace, Revision
from mcp_notarium.errors import (
    NotariumError,
    OutcomeUnknown,
    RateLimited,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.stores import registry
from mcp_notarium.stores.contract import SEEDED, Traits, random_id
from mcp_notarium.stores.kind import StoreKind, Truth
from mcp_notarium.tools.save_checks import LONGEST_TAG, MOST_TAGS, find_new_addresses
from mcp_notarium.transfer import attachments
from mcp_notarium.transfer.attachments import NewNote
from mcp_notarium.transfer.formats import FoundExport, Report
from mcp_notarium.transfer.store_attachments import StoreFiles

_T = TypeVar("_T")
_FOLDER = "folder:"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")
_NOT_IN_FOLDERS = re.compile(r"[^\w./-]+")


def tidy(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags trimmed, without ``#`` before them, split at commas, each once, not too many nor too long."""
    kept: dict[str, str] = {}
    for part in (part for tag in tags for part in tag.split(",")):
        name = _BLANKS.sub(" ", part).lstrip("# ")[:LONGEST_TAG].strip()
        if name:
            kept.setdefault(tag_key(name), name)
    return tuple(kept.values())[:MOST_TAGS]


def folder_tag(folder: str) -> str:
    """Return the tag that keeps a folder: one word, which is no address. '' if it would be too long."""
    written = _NOT_IN_FOLDERS.sub(lambda found: quote(found[0], safe=""), folder)
    return f"{_FOLDER}{written}" if len(_FOLDER) + len(written) <= LONGEST_TAG else ""


def take_folder(tags: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the folder that a tag keeps, '' if none does, and the other tags."""
    found = [tag for tag in tags if tag.startswith(_FOLDER)]
    others = tuple(tag for tag in tags if tag not in found)
    return unquote(found[0].removeprefix(_FOLDER)) if found else "", others


_SAME_SECOND = 1.0

TITLE_TO_TEXT = "the title becomes the first line of the text"
NO_TRASH = "in the trash, which this store does not have: left out"
NO_FOLDER = "the folder is lost, which this store does not have"
FOLDER_TO_TAG = "the folder becomes a tag, `folder:...`, by which a vault finds it again"
FOLDER_FROM_TAG = "the tag `folder:...` becomes the folder"
NO_PROPERTY = "a property is lost that this store does not have: {}"
SHARED = "an e-mail address as a tag would share the note: that tag is lost"
TOO_LARGE = "larger than this store takes: left out"
REFUSED = "left out: {}"
UNDATED = "no date in the export: the date of its file"
NO_DATES = "today's date: this store keeps no other"
OTHER_DATES = "another date: this store has none that early or late"
NO_TAGS = "the tags are lost, which this store does not have"
OTHER_TAGS = "other tags, or fewer: this store writes or reads them differently"
OTHER_TITLE = "another title: this store writes or shortens it differently"
OTHER_TEXT = "another form of text"
HIDDEN = "your policy hides the note; without that rule, the same command brings its files"
_NOT_IN_WORDS = re.compile(r"\W+")


@dataclass(slots=True)
class ImportPlan:
    """Hold what is to be written, and what is not."""

    new: list[NewNote] = field(default_factory=list)
    """Notes that lack files only are among them."""
    there: int = 0
    differ: list[str] = field(default_factory=list)
    left_out: int = 0
    losses: defaultdict[str, list[ExportedNote]] = field(default_factory=lambda: defaultdict(list))
    """Losses and changes, each with its notes."""
    titles: list[str] = field(default_factory=list)
    """Those that the notes of the loss ``OTHER_TITLE`` get, in its order."""
    lost_files: dict[str, list[tuple[ExportedNote, NoteFile]]] = field(default_factory=dict)
    """Files that the store does not get, by the reason."""

    @property
    def fresh(self) -> list[NewNote]:
        """Return the notes that are not there yet."""
        return [one for one in self.new if not one.written]

    @property
    def files(self) -> dict[str, int]:
        """Return the files that are to be brought, by their path in the export, with their sizes."""
        return {file.path: file.size or 0 for one in self.new for file in one.files}


class _Names:
    """Know which ids are taken. Those that are names differ in more than letter case and composed letters."""

    def __init__(self, transfer: NoteTransfer, *, now: float) -> None:
        self._transfer = transfer
        self._now = now
        self._named = transfer.store.traits.ids.named
        self._held = {*map(self._fold, transfer.ids())}
        self._given: set[str] = set()
        self._seeds: Counter[str] = Counter()

    def give(self, note_id: str) -> None:
        """Take an id for a note of the export."""
        self._given.add(self._fold(note_id))

    def count(self, seed: str) -> str:
        """Return what tells notes of the same seed apart: '' for the first one."""
        self._seeds[seed] += 1
        return f"/{self._seeds[seed]}" if self._seeds[seed] > 1 else ""

    def is_given(self, note_id: str) -> bool:
        """Tell whether a note of the export has the id."""
        return self._fold(note_id) in self._given

    def is_free(self, note_id: str) -> bool:
        """Tell whether no note here has the id either."""
        return not self.is_given(note_id) and self._fold(note_id) not in self._held

    def preview(self, note_id: str, content: Content) -> Revision:
        """Return what the store would hold of a new note."""
        return self._transfer.preview(note_id, content, now=self._now)

    def _fold(self, note_id: str) -> str:
        # defence: import-case-alone-one-name =False
        return unicodedata.normalize("NFC", note_id).casefold() if self._named else note_id


async def plan(
    notes: Sequence[ExportedNote],
    transfer: NoteTransfer,
    kind: StoreKind,
    *,
    now: float,
    report: Report = lambda _done, _total: None,
) -> ImportPlan:
    """Plan the import of these notes; nothing is written."""
    planned, store = ImportPlan(), StoreFiles(transfer)
    sorter = attachments.FileSorter(store.largest_file, await store.find_room(), planned.lost_files)
    names = _Names(transfer, now=now)
    compared: list[tuple[NewNote, Revision, Content, bool]] = []
    for number, note in enumerate(notes, 1):
        report(number, len(notes))
        lost = list(note.changed)
        wanted = adapt(note, transfer.store.traits, lost)
        wanted = wanted and _keep_folder(note, wanted, transfer, lost, now=now)
        draft = None if wanted is None else attachments.draft(note, wanted, transfer.store.traits)
        content = None
        if draft is not None:
            content = _fit(note, draft.content, transfer, lost, now=now)
        if draft is None or content is None:
            planned.left_out += 1
        else:
            files = sorter.sort(note)
            new = replace(draft, content=content, files=files)
            note_id, held = await _find_place(new, transfer, kind, names)
            names.give(note_id)
            would = transfer.preview(note_id, content, now=now)
            new = replace(new, id=note_id, written=held is not None)
            if held is not None:
                planned.there += 1
                same = attachments.is_same(new, held.content, would.content)
                planned.differ += [] if same else [held.id]
                if files:
                    compared.append((new, held, would.content, same))
                    planned.new.append(new)
                continue
            lost += _find_losses(note, draft.content, would, transfer.store.traits)
            planned.titles += [would.content.title or ""] if OTHER_TITLE in lost else []
            planned.new.append(new)
        for loss in lost:
            planned.losses[loss].append(note)
    await _compare_files(planned, compared, sorter, transfer)
    return planned


async def _compare_files(
    planned: ImportPlan,
    compared: Sequence[tuple[NewNote, Revision, Content, bool]],
    sorter: attachments.FileSorter,
    transfer: NoteTransfer,
) -> None:
    """Keep those planned that lack files; of one that differs name them. Each is there, would have this content, and has the same or not."""
    held_ones = [held for _, held, _, _ in compared]
    shown = await StoreFiles(transfer).find_files(held_ones, whole=True)
    complete: set[str] = set()
    for new, held, would, same in compared:
        files = shown.get(held.id, ())
        if not same:
            for one in attachments.find_lacking(new.files, files):
                sorter.leave_out(new.source, one, attachments.NOTE_DIFFERS)
        unfinished = transfer.is_linking(new.id) or attachments.lacks_files(new, held, would, files)
        if not (same and unfinished):
            complete.add(new.id)
    planned.new = [one for one in planned.new if one.id not in complete]


def adapt(note: ExportedNote, traits: Traits, lost: list[str]) -> Content | None:
    """Return what a store of these traits can hold of a note, None if it can hold nothing; add what is ``lost``."""
    content = replace(note.content, dates=(note.created_at, note.modified_at))
    if content.trash and not traits.trash:
        lost.append(NO_TRASH)
        return None
    if content.title is not None and not traits.titles:
        lost.append(TITLE_TO_TEXT)
        if first_line(content.text).lstrip("# ") != content.title:
            content = replace(content, text=f"{content.title}\n{content.text}")
        content = replace(content, title=None)
    tags = tidy(content.tags)
    if tags != content.tags and TIDY_TAGS not in lost:
        lost.append(TIDY_TAGS)
    if traits.ids.paths and take_folder(tags)[0]:
        lost.append(FOLDER_FROM_TAG)
        tags = take_folder(tags)[1]
    content = replace(content, tags=tags)
    held = content.properties
    without = {name for name in traits.properties & held.keys() if held[name] is not True}
    if traits.other_properties is not PropertyPlace.BESIDE:
        without |= held.keys() - {*traits.settable}
    lost += map(NO_PROPERTY.format, sorted(without))
    content = replace(content, properties=held.having({}, without=without))
    # defence: import-shares-nothing =False
    addresses = find_new_addresses(content.tags, present=()) if traits.shares_by_tag else ()
    if addresses:
        lost.append(SHARED)
        content = replace(content, tags=tuple(tag for tag in content.tags if tag not in addresses))
    if content.tags and not traits.tags:
        lost.append(NO_TAGS)
        content = replace(content, tags=())
    if traits.max_note_bytes and len(content.text.encode()) > traits.max_note_bytes:
        lost.append(TOO_LARGE)
        return None
    return content


def _folder_of(note: ExportedNote, traits: Traits) -> str:
    """Return the folder of a note: the one it was in, or, for a store with folders, the one that a tag keeps."""
    if note.folder:
        return note.folder
    if "/" in note.id and any(one.ids.paths and one.takes_id(note.id) for one in registry.kinds()):
        return note.id.rpartition("/")[0]
    return take_folder(note.content.tags)[0] if traits.ids.paths else ""


def _keep_folder(
    note: ExportedNote, content: Content, transfer: NoteTransfer, lost: list[str], *, now: float
) -> Content:
    """Return the content with a tag for the folder, where the store has no folders and takes such a tag."""
    folder = _folder_of(note, transfer.store.traits)
    if not folder or transfer.store.traits.ids.paths:
        return content
    tag = folder_tag(folder)
    if tag and transfer.store.traits.tags:
        with suppress(StoreRejected):
            would = transfer.preview(note.id, Content("", (tag,)), now=now)
            if would.content.tags == (tag,):
                lost.append(FOLDER_TO_TAG)
                return replace(content, tags=(tag, *content.tags))  # the first are kept
    lost.append(NO_FOLDER)
    return content


def _fit(
    note: ExportedNote, content: Content, transfer: NoteTransfer, lost: list[str], *, now: float
) -> Content | None:
    """Return a content that the store does not refuse: tags are written as words, or left out; None if it refuses any."""
    if content.title is not None and transfer.store.traits.ids.paths:
        content = replace(content, title=content.title.replace("/", " "))

    def refusal(tags: Iterable[str]) -> StoreRejected | None:
        try:
            transfer.preview(note.id, replace(content, tags=tuple(tags)), now=now)
        except StoreRejected as error:
            return error
        return None

    if refusal(content.tags) is None:
        return content
    if (error := refusal(())) is not None:
        lost.append(REFUSED.format(error.message))
        return None
    tags: list[str] = []
    for tag in content.tags:
        forms = (tag, _NOT_IN_WORDS.sub("_", tag).strip("_"))
        tags += [form for form in forms if form and refusal((*tags, form)) is None][:1]
    return replace(content, tags=tuple(dict.fromkeys(tags)))


async def _find_place(
    new: NewNote, transfer: NoteTransfer, kind: StoreKind, names: _Names
) -> tuple[str, Revision | None]:
    """Return the id for a note, and the note that is imported already."""
    note, content = new.source, new.content
    words = (note.id,) if note.id else (content.title or "", content.text)
    said = "\n".join((*words, format_date(note.created_at) if note.dated else ""))
    seed = hashlib.sha256(said.encode()).hexdigest()
    if kind.takes_id(note.id) and not names.is_given(note.id):
        held = await transfer.find(note.id)
        would = names.preview(note.id, content)
        if (
            names.is_free(note.id)
            if held is None
            else _is_same(note, would, held, transfer.store.traits)
        ):
            return note.id, held
    if transfer.store.traits.ids.named:
        return await _find_name(new, seed, transfer, names)
    seed += names.count(seed)  # defence: import-same-id-two-notes
    made = random_id(seed)
    made = made if kind.takes_id(made) else transfer.store.new_id(content, seed=seed, attempt=0)
    return made, await transfer.find(made)


async def _find_name(
    new: NewNote, seed: str, transfer: NoteTransfer, names: _Names
) -> tuple[str, Revision | None]:
    content, folder = new.content, _folder_of(new.source, transfer.store.traits)
    named = replace(content, title=f"{folder}/{content.title or ''}") if folder else content
    for attempt in range(SEEDED):
        made = transfer.store.new_id(named, seed=seed, attempt=attempt)
        if names.is_given(made):
            continue
        held = await transfer.find(made)
        if held is None and names.is_free(made):
            return made, None
        if held is not None and attachments.is_same(
            new, held.content, names.preview(made, content).content
        ):
            return made, held
    made = transfer.store.new_id(named, seed=seed, attempt=SEEDED)
    return made, await transfer.find(made)


def _is_same(note: ExportedNote, would: Revision, held: Revision, traits: Traits) -> bool:
    """Tell by its date, if it has one, whether the note with the id of an exported one is that one."""
    return (
        not (traits.keeps_dates and note.dated)
        or abs(held.created_at - would.created_at) < _SAME_SECOND
    )


def _find_losses(
    note: ExportedNote, wanted: Content, would: Revision, traits: Traits
) -> Iterator[str]:
    """Yield what a new note loses that is held as ``would``."""
    moved = max(abs(would.created_at - note.created_at), abs(would.modified_at - note.modified_at))
    lost = {
        UNDATED: traits.keeps_dates and not note.dated,
        NO_DATES: not traits.keeps_dates,
        OTHER_DATES: traits.keeps_dates and moved > _SAME_SECOND,
        OTHER_TAGS: would.content.tags != wanted.tags,
        OTHER_TITLE: wanted.title not in (None, would.content.title),
        OTHER_TEXT: would.content.text != wanted.text,
    }
    yield from filter(lost.get, lost)


_MOST_TOGETHER = 250
_LARGEST_TOGETHER = 8_000_000
_AT_ONCE = 4
"""Notes on the way to a service at the same time."""
_PAUSES = (5.0, 15.0, 60.0, 60.0)
"""Seconds to wait for a service that is asked too much, if it does not say how long."""
_LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class ImportResult:
    """Count what was written."""

    imported: int = 0
    there: int = 0
    hidden: int = 0
    brought: set[str] = field(default_factory=set)
    """The paths in the export of the files that notes got."""
    done: int = 0
    """Number of notes dealt with."""
    refused: list[tuple[ExportedNote, str]] = field(default_factory=list)
    """Notes that the store does not take, and why."""
    refused_files: list[tuple[ExportedNote, NoteFile, str]] = field(default_factory=list)
    """The same of files."""

    @property
    def files(self) -> int:
        """Return how many files came along: as ``ImportPlan.files``, each once, however many notes show it."""
        return len(self.brought)


async def carry_out(
    planned: ImportPlan,
    transfer: NoteTransfer,
    kind: StoreKind,
    report: Report,
    export: FoundExport | None = None,
    *,
    keeping: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> ImportResult:
    """Write the new notes, and their files, which are in the ``export``. Raises what ends the import for more than one note; then repeat it.

    The files of a note are kept while ``keeping`` lasts: see ``Library.keeping``.
    """
    done, total = ImportResult(), len(planned.new)

    async def finish(one: NewNote, error: NotariumError | None) -> None:
        written = one.written or await _count(done, one, error, transfer)
        if written and one.files and export is not None:
            async with keeping():
                await _bring_files(done, one, transfer, export)
        done.done += 1
        report(done.done, total)

    if transfer.store.traits.in_database:
        for portion in _portions(planned.new):
            fresh = [one for one in portion if not one.written]
            made = transfer.writer.create_all([(one.id, one.content) for one in fresh])
            errors = dict(zip((one.id for one in fresh), made, strict=True))
            for one in portion:
                await finish(one, errors.get(one.id))
        return done
    waiting = iter(planned.new)

    async def write_next() -> None:
        for one in waiting:
            await finish(one, None if one.written else await _create(one, transfer))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE if kind.truth is Truth.REMOTE else 1):
                group.create_task(write_next())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return done


async def _bring_files(
    done: ImportResult, note: NewNote, transfer: NoteTransfer, export: FoundExport
) -> None:
    refused = await _patiently(partial(attachments.bring_in, note, transfer, export))
    done.brought.update(one.path for one in note.files if one not in dict(refused))
    done.refused_files += [(note.source, *one) for one in refused]


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
    """Create a note. Return why it was not created."""
    try:
        await _patiently(partial(transfer.writer.revive, note.id, note.content))
    except NotariumError as error:
        return error
    return None


async def _patiently(work: Callable[[], Awaitable[_T]]) -> _T:
    """Do something with the store, and wait where it asks for it. Raises what that raises."""
    for pause in _PAUSES:
        try:
            return await work()
        except RateLimited as error:
            await asyncio.sleep(min(error.retry_after or pause, _LONGEST_PAUSE))
    return await work()


async def _count(
    done: ImportResult, note: NewNote, error: NotariumError | None, transfer: NoteTransfer
) -> bool:
    """Count what became of a note; return whether it is made and can be changed. Raises an error that is not about this note alone."""
    if error is None:
        done.imported += 1
    elif isinstance(error, VersionConflict):
        done.there += 1
    elif isinstance(error, StoreRejected):
        done.refused.append((note.source, error.message))
    elif isinstance(error, OutcomeUnknown) and transfer.hides and await transfer.find(note.id):
        done.hidden += 1
        done.refused_files += [(note.source, one, HIDDEN) for one in note.files]
    else:
        raise error
    return error is None
