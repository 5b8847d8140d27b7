"""Find, read and change the notes of one account: all that tools see of it.

Reads come from the index and never wait. Changes happen inside :meth:`Library.writing` and return when
the store has answered.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from unicodedata import normalize

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.domain.file_names import split_ending
from mcp_notarium.domain.loss import Keeping, find_loss, find_taken
from mcp_notarium.domain.note import Content, Note, WriteState, with_digits
from mcp_notarium.errors import (
    CacheBusy,
    NoteNotFound,
    NoteReadOnly,
    NotPermitted,
    StoreError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.files.locks import wait_for_lock
from mcp_notarium.library.day_notes import DayNotes
from mcp_notarium.library.history import History
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.markup.obsidian_links import count_links, find_links, name_key, settled
from mcp_notarium.search.query import HasTask, Query
from mcp_notarium.storage import driver, note_links, note_lookup, note_rows, property_table
from mcp_notarium.storage.note_search import Found, Summary
from mcp_notarium.storage.property_table import FoundTask, PropertyUse
from mcp_notarium.storage.sync_state import KeptFileRow
from mcp_notarium.storage.version_table import DAY, ROW_BYTES
from mcp_notarium.stores.contract import SEEDED, require_supported
from mcp_notarium.stores.extensions import Replaced, Restored, find_replaced, shown_form
from mcp_notarium.sync.write_errors import NOT_REMOVED, NOT_SAVED, add_outcome
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_notarium.attachments.decoding import Decoded
    from mcp_notarium.domain.loss import Loss
    from mcp_notarium.domain.note import Revision
    from mcp_notarium.domain.published import Published
    from mcp_notarium.markup.obsidian_links import Changes, Link
    from mcp_notarium.storage.audit_log import Act
    from mcp_notarium.storage.cache import Cache
    from mcp_notarium.storage.database import Database
    from mcp_notarium.storage.note_links import LinkedNotes
    from mcp_notarium.storage.note_lookup import Hashes, TaggedNote, TagPage, Twin
    from mcp_notarium.storage.note_rows import Key, Matches, ScannedNote
    from mcp_notarium.storage.note_table import Counts
    from mcp_notarium.storage.sync_state import Metrics
    from mcp_notarium.stores.contract import Store, Traits
    from mcp_notarium.stores.extensions import (
        Attachment,
        AttachmentStore,
        FolderStore,
        KeepingStore,
        KeptFile,
        NativeReads,
        PictureStore,
        PublishingStore,
        RevivingStore,
        TypingStore,
    )
    from mcp_notarium.sync.scheduler import Scheduler
    from mcp_notarium.sync.status import SyncStatus
    from mcp_notarium.sync.writer import Saved, Writer

_ANY_SEED = "0" * 32
_KEEPING_SECONDS = 60.0
"""How long a call waits for another process that keeps a file."""
_MOST_LINES = 5
"""Lines that are named of those which link to a file."""
_SHOWING = "SELECT 1 FROM notes WHERE instr(text, ?) > 0"


def _digest(native: bytes) -> str:
    # defence: dialogue-about-what-is-there =""
    return hashlib.sha256(native).hexdigest() if native else ""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Hold numbers about one account. ``pending`` writes are unanswered, ``rejected`` ones refused."""

    counts: Counts
    metrics: Metrics
    cursor: str | None
    pending: int
    rejected: int
    feed_usable: bool
    encrypted: bool
    cipher_version: str | None
    size_bytes: int
    schema_version: int


def _with_lines(
    found: Sequence[Attachment], text: str, id_of: Callable[[str], str]
) -> Iterator[Attachment]:
    """Yield the files with the lines of a text that link to them; ``id_of`` tells to which file a target leads, '' to none."""
    lines: dict[str, list[int]] = {one.id: [] for one in found}
    line, at = 1, 0
    for link in find_links(text, within=True) if found else ():
        line, at = line + text.count("\n", at, link.start), link.start
        said = lines.get(id_of(link.target or f"#{link.part}"), [])
        if len(said) < _MOST_LINES and line not in said[-1:]:
            said.append(line)
    for one in found:
        yield replace(one, lines=tuple(lines[one.id]))


def _has_any(text: str, marks: Sequence[str]) -> bool:
    return any(mark in text for mark in marks)


@dataclass(frozen=True, slots=True)
class FilesSettled:
    """Count the files that have followed a text: ``gone`` with it and ``back``, or not: ``stays`` and ``lost``; ``missing``: gone before.

    ``unsure``: a file that is gone may be shown by what nobody may tell of.
    """

    gone: int = 0
    stays: int = 0
    back: int = 0
    lost: int = 0
    missing: int = 0
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Hold a file that a note shows. ``digest``: the SHA-256 of its bytes; '', with nothing decoded: it is larger than what is read."""

    facts: Attachment
    digest: str
    decoded: Decoded | None


class Library:
    """Hold the notes of one account, in ``history`` their versions, in ``transfer`` what export and import need.

    ``days`` finds the notes of days.

    ``native`` is what the native tools of its store read; None if it has none. ``files_lock``: see :meth:`keeping`; None: no
    other process has the notes.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        scheduler: Scheduler,
        *,
        native: NativeReads | None = None,
        files_lock: Path | None = None,
    ) -> None:
        self._cache = cache
        self._store = store
        self._writer = writer
        self._scheduler = scheduler
        self.history = History(cache, store)
        self.transfer = NoteTransfer(cache, store, writer)
        self.native = native
        self.days = DayNotes(cache, store)
        self._keeping_files = asyncio.Lock()
        self._files_lock = files_lock
        self._decoding = asyncio.Semaphore(2)
        """Files that are read and decoded at once: each may take a gigabyte."""
        self._decoded: tuple[tuple[str, str], Decoded | None] = (("", ""), None)
        """The last file that was decoded, by path and hash: a long one is read in parts."""

    @property
    def traits(self) -> Traits:
        """Return what the store can do."""
        return self._store.traits

    def require_supported(self, content: Content) -> None:
        """Raise ``InvalidRequest`` if notes of this store cannot have these parts."""
        require_supported(self.traits, content, None)

    async def find(
        self,
        query: Query,
        *,
        limit: int,
        offset: int = 0,
        short_page: int | None = None,
        preview_lines: int,
        corrects: bool = True,
    ) -> Found:
        """Return one page of the notes that match, with where; ``corrects``: also by what misspelt words mean."""
        return await self._cache.search.find(
            query,
            limit=limit,
            offset=offset,
            short_page=short_page,
            preview_lines=preview_lines,
            explain=True,
            corrects=corrects,
        )

    def find_last_changed(self, most: int) -> list[Summary]:
        """Return the ``most`` notes outside the trash that were changed last, newest first."""
        return self._cache.search.find_words(Query(), limit=most).notes

    def find_ids(self, query: Query, *, most: int) -> tuple[list[str], int]:
        """Return the ids of the notes that match, at most so many, and how many there are."""
        found = self._cache.search.find_words(query, limit=most)
        return [note.id for note in found.notes], found.total

    def spell_folder(self, folder: str) -> str:
        """Return a folder as notes have it, whose letter case may be another one; as it is if none lies there."""
        return note_lookup.spell_folder(self._cache.database, folder)

    def count_folders(self) -> dict[str, tuple[int, int]]:
        """Return the folders of notes outside the trash; see :func:`link_survey.count_folders`."""
        return note_links.count_folders(self._cache.database)

    def find_untagged(self, *, limit: int, offset: int) -> tuple[list[str], int]:
        """Return the ids of notes outside the trash without tags, and how many there are."""
        return note_links.find_untagged(self._cache.database, limit=limit, offset=offset)

    async def survey_links(self) -> tuple[note_links.Survey, Iterator[None]]:
        """Return where all links of a store with paths will have led, and what finds that, a slice at each step.

        Raises what the store raises.
        """
        found = note_links.Survey()
        rules, sees = self._cache.notes.visibility.rules, await self._find_sight()
        beside = await self._folders.list_beside()
        files = [one for one in beside.files if sees(one)]
        canvases = {
            one: [*(f"/{path}" for path in shown), *(link[0] for link in beside.links[one])]
            for one, shown in beside.shown.items()
            if not rules.closes(one)
        }
        return found, note_links.survey(self._cache.database, found, files=files, canvases=canvases)

    @property
    def shows_files(self) -> bool:
        """Tell whether notes of the store can show files."""
        return self.traits.attachments or self.traits.ids.paths

    async def find_attachments(self, note: Note) -> Sequence[Attachment]:
        """Return the files that a note shows or links to, with their lines, but for those in closed places. Asks no network."""
        base = self._cache.notes.base(note.id)
        if self.traits.attachments and base is not None:
            found = await self._attaching.list_attachments(base)
            seen = [one for one in found if self.get(one.id.partition("/")[0]) is not None]
            id_of = partial(self._attaching.id_of_link, note.id)
            return [*_with_lines(seen, note.text, id_of)]
        if not self.traits.ids.paths:
            return []
        links = [
            (target, note.id)
            for target, to in self.find_links(note.id).links
            if to is None and "." in target.rpartition("/")[2]
        ]
        there = await self._resolve_shown(links) if links else {}
        shown = {one.id: one for link in links if (one := there.get(link)) is not None}
        ids = {target: one.id for (target, _), one in there.items()}
        return [*_with_lines([*shown.values()], note.text, lambda target: ids.get(target, ""))]

    async def read_attachment(self, name: str) -> ReadFile | None:
        """Return the file of this id, or that a link from the top would mean, with what can be shown of it.

        None if there is none, or none that may be seen. Raises what the store raises.
        """
        facts = await self._find_shown_attachment(name)
        if facts is None:
            return None
        await self._decoding.acquire()
        reading = asyncio.ensure_future(self._read_file(facts))
        reading.add_done_callback(lambda _: self._decoding.release())
        return await asyncio.shield(reading)  # the copy works on if the caller is cancelled

    async def _read_file(self, facts: Attachment) -> ReadFile:
        from mcp_notarium.attachments import decoding  # noqa: PLC0415 - seldom needed

        if self.traits.attachments:
            data = await self._attaching.read_attachment(facts, largest=decoding.LARGEST)
            facts = facts if data is None else replace(facts, size=len(data))
        else:
            facts, data = await self._folders.read_file(facts.id, largest=decoding.LARGEST)
        if data is None:
            return ReadFile(facts, "", None)
        digest = hashlib.sha256(data).hexdigest()
        kept, decoded = self._decoded
        if kept != (facts.id, digest):
            decoded = await run_in_thread(partial(decoding.decode, data, facts.kind))
            self._decoded = (facts.id, digest), decoded
        return ReadFile(facts, digest, decoded)

    async def _find_shown_attachment(self, name: str) -> Attachment | None:
        """Find the file that may be seen.

        Where rules hide notes, a note that is shown has to show it. No file is looked for of which no shown note speaks, or the
        time of the answer would tell that there is one.
        """
        if self.traits.attachments:
            note = self.get(name.partition("/")[0])
            found = await self.find_attachments(note) if note is not None else ()
            return next((one for one in found if one.id == name), None)
        if not self.traits.ids.paths:
            return None
        rules, asked = self._cache.notes.visibility.rules, (name, "")
        links = self._cache.notes.links.find_sources(name) if rules.has_rules else []
        if rules.has_rules and not links:
            return None
        there = await self._resolve_shown([asked, *links])
        facts = there.get(asked)
        shows = {one.id for link in links if (one := there.get(link)) is not None}
        if facts is None or (rules.has_rules and facts.id not in shows):
            return None
        return facts

    async def _resolve_shown(
        self, links: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Attachment]:
        """Return the files that links lead to, but for those in closed places and those of a name that a hidden note links to.

        An agent can write a link to any file, so that a shown note has it proves nothing. It can move folders as well, so that a
        hidden note's link no longer leads to its file: so the name decides alone.
        """
        if not self._cache.notes.visibility.rules.has_rules:
            return await self._folders.resolve_files(links)
        return await self._folders.resolve_files(links, sees=await self._find_sight())

    async def _find_sight(self) -> Callable[[str], bool]:
        """Return what tells whether a file exists for the agent: no rule closes its place, and no hidden note may show one of its name."""
        rules = self._cache.notes.visibility.rules
        if not rules.has_rules:
            return lambda _: True
        known = note_rows.all_ids(self._cache.database)
        names = await self._read_unseen_names(but_of=dict.fromkeys(known))

        def sees(path: str) -> bool:
            # defence: hidden-attachment-unread =False
            hidden = names is None or name_key(path) in names
            return not (hidden or rules.closes(path))  # defence: closed-attachment-unread -closes

        return sees

    async def _read_unseen_names(self, *, but_of: Mapping[str, str | None]) -> set[str] | None:
        """Return the names of the files that hidden notes and canvases may show, and notes but for these; None: one of them cannot be read.

        ``but_of``: see ``FolderStore.read_file_names``.
        """
        rules, folders = self._cache.notes.visibility.rules, self._folders
        names, unread = await folders.read_file_names(but_of=but_of)
        if any(rules.hides_beside_seen or rules.closes(one) or one in but_of for one in unread):
            return None
        if rules.names_paths:
            beside = await folders.list_beside()
            for canvas in filter(rules.closes, beside.shown):
                names.update(map(name_key, beside.shown[canvas]))
                names.update(name_key(link[0]) for link in beside.links[canvas])
        return names

    @property
    def largest_file(self) -> int:
        """Return how many bytes a file may have that is kept; 0 if the store keeps none."""
        takes = self.traits.keeps_files or self.traits.adds_pictures
        return self._keeper.largest_file if takes else 0

    @property
    def _keeper(self) -> KeepingStore:
        return cast("KeepingStore", self._store)  # its trait says so

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Keep and link one file at a time, of all processes: each may be large, and the same one at once would be made and linked twice.

        Raises ``CacheBusy`` while another process is at it for long.
        """
        async with self._keeping_files, AsyncExitStack() as held:
            if self._files_lock is not None:
                lock = wait_for_lock(self._files_lock, seconds=_KEEPING_SECONDS)
                try:
                    await held.enter_async_context(lock)  # defence: one-file-at-a-time
                except TimeoutError:
                    raise CacheBusy("Another program is adding a file to these notes.") from None
            yield

    async def keep_file(
        self, note: Note, name: str, kind: str, data: bytes, *, act: Act | None
    ) -> KeptFile:
        """Put a file where the app puts files of a note, as ``act`` records before. The caller lets the note show it.

        Where rules hide notes its name has digits of its own: that a name is taken would betray a hidden file. Raises what the store
        raises, and ``NotPermitted`` for a place that is closed.
        """
        digest = hashlib.sha256(data).hexdigest()
        if (base := self._cache.notes.base(note.id)) is None:
            raise NoteNotFound("There is no note with this id.", details={"id": note.id})
        if self.traits.ids.paths:
            # defence: kept-name-betrays-nothing =False
            if self._cache.notes.visibility.rules.has_rules:
                stem, ending = split_ending(name)
                name = with_digits(stem, seed=f"{note.id}/{digest}") + ending
            await self._require_open_place(note, name)
        if act is not None:
            act.files = (digest,)
            act.begin()  # defence: kept-file-recorded-first
        kept = await self._keeper.keep_file(base, name, kind, data)
        if kept.made:
            now = self._cache.clock()
            since = now - self._cache.versions.limits.days * DAY
            row = KeptFileRow(kept.id, digest, now)
            self._cache.sync_state.add_kept_file(row, since=since)
        elif kept.id in {one.id for one in self._cache.sync_state.kept_files() if one.discarded}:
            # An undo has taken ours, and somebody has put the same bytes there since.
            self._cache.sync_state.forget_kept_file(kept.id)  # defence: foreign-twin-stays
        return kept

    async def with_picture(self, note: Note, kind: str, data: bytes) -> tuple[str, str]:
        """Return what adds a picture to a note; see ``PictureStore.with_picture``. Raises what the store raises."""
        return await cast("PictureStore", self._store).with_picture(note.id, kind, data)

    async def _require_open_place(self, note: Note, name: str) -> None:
        """Raise ``NotPermitted`` if the app puts files of the note where the rules close, or where nothing may be changed."""
        folder = await self._folders.place_files(note.id)
        path = f"{folder}/{name}".lstrip("/")
        # defence: no-file-in-closed-place =False
        if self._cache.notes.visibility.rules.closes(path):
            raise NotPermitted(
                "The app puts files into a folder that is closed here.",
                resolution_hint="Ask the user to open the folder for attachments in MCP Notarium's policy file, or to choose another one in "
                "their app.",
            )
        # defence: no-file-outside-scope =False
        if not self._writer.scope.permits_path(path):
            raise self._writer.scope.refusal(
                "The app puts files into a folder that may only be read here."
            )

    async def drop_file(self, kept: KeptFile, digest: str) -> None:
        """Take a file back that no note came to show."""
        if kept.made:
            with suppress(StoreError, NoteNotFound):
                await self._discard(kept.id, digest)

    def find_following(
        self, old: str, new: str, *, undone: bool
    ) -> Iterator[tuple[KeptFileRow, bool]]:
        """Yield the files that were kept from here and follow a text that changes, each with whether the new one shows it.

        ``undone``: also those that it shows no more.
        """
        for one in self._cache.sync_state.kept_files() if self.traits.keeps_files else ():
            marks = self._keeper.marks_of(one.id)
            shown, was = _has_any(new, marks), _has_any(old, marks)
            # One that counts as there may be gone: a process has ended in between.
            if shown != was and (shown or (undone and not one.discarded)):
                yield one, shown

    async def settle_files(
        self, old: str, note: Note, *, undone: bool, act: Act | None
    ) -> FilesSettled:
        """Let files that were kept from here follow the text of a note, which was ``old``: bring discarded ones back that it shows again.

        ``undone``: discard those that it shows no more, if no other note shows them and their bytes are the same. ``act`` then names
        those that have followed.
        """
        gone = back = stays = lost = missing = 0
        followed: list[str] = []
        for one, shown in self.find_following(old, note.text, undone=undone):
            if shown:
                found = await self._restore_kept(one)
                done = found is Restored.BACK or (one.discarded and found is Restored.THERE)
                back, lost = back + done, lost + (found is Restored.LOST)
            else:
                try:
                    done = await self._discard_kept(one)
                    gone, stays = gone + done, stays + (not done)
                except NoteNotFound:
                    missing, done = missing + 1, False
            followed += [one.digest] if done else []
        if act is not None:
            act.files = tuple(followed)
        unsure = self._cache.notes.visibility.rules.has_rules
        return FilesSettled(gone, stays, back, lost, missing, unsure=unsure)

    async def _discard_kept(self, one: KeptFileRow) -> bool:
        """Discard a file; return whether it is gone to the caller. The note is saved whatever becomes of the file.

        Raises ``NoteNotFound`` if it was gone before.
        """
        done = False
        with suppress(StoreError):
            unsure = self._cache.notes.visibility.rules.has_rules
            # defence: twin-shown-again foreign=discarded
            done = unsure if one.foreign else await self._discard(one.id, one.digest)
        if done:
            self._cache.sync_state.add_kept_file(replace(one, discarded=True), since=0.0)
        return done

    async def _restore_kept(self, one: KeptFileRow) -> Restored:
        """Bring a file back. One that others have put there since it was discarded stays theirs."""
        found = Restored.LOST
        with suppress(StoreError):
            found = await self._keeper.restore_file(one.id, one.digest)
        if found is Restored.BACK or (one.discarded and found is Restored.THERE):
            foreign = found is Restored.THERE
            row = replace(one, discarded=False, foreign=foreign)
            self._cache.sync_state.add_kept_file(row, since=0.0)
        return found

    async def _discard(self, file_id: str, digest: str) -> bool:
        """Discard a file that nothing shows.

        Return whether it is gone to the caller: where rules hide notes, a file is also if only a hidden note shows it. Raises
        ``NoteNotFound`` if it was gone before, and no rule hides notes.
        """
        # defence: shown-file-stays =False
        if await self._is_shown(file_id):
            return False
        unsure = self._cache.notes.visibility.rules.has_rules
        # defence: hidden-file-stays =False
        if await self._may_be_shown(file_id):
            return unsure
        try:
            return await self._keeper.discard_file(file_id, digest) or unsure
        except NoteNotFound:
            if unsure:  # only what stays would be told apart
                return True
            raise

    async def _is_shown(self, file_id: str) -> bool:
        """Tell whether a note or canvas that may be seen shows a file, also one in the trash."""
        if self._is_named(self._cache.database, file_id):
            return True
        if not self.traits.ids.paths:
            return False
        rules, beside = self._cache.notes.visibility.rules, await self._folders.list_beside()
        return any(file_id in files for one, files in beside.shown.items() if rules.sees(one, ()))

    def _is_named(self, database: Database, file_id: str) -> bool:
        return any(database.row(_SHOWING, (one,)) for one in self._keeper.marks_of(file_id))

    async def _may_be_shown(self, file_id: str) -> bool:
        """Tell whether a note or canvas that the rules hide may show a file, or a note that others have changed just now."""
        if self._is_named(self._cache.stored.database, file_id):
            return True
        if not self.traits.ids.paths:
            return False
        names = await self._read_unseen_names(but_of=self._cache.notes.etags())
        return names is None or name_key(file_id) in names

    async def list_files(self) -> set[str]:
        """Return the files that are no notes, in a store with paths, but for those in closed places."""
        rules, beside = self._cache.notes.visibility.rules, await self._folders.list_beside()
        # defence: closed-files-stay -closes
        return {one for one in beside.files if not rules.closes(one)}

    async def survey_move(
        self, old: str, new: str
    ) -> tuple[note_links.MoveSurvey, list[str], Iterator[None]]:
        """Return what links will have to become if a folder moves, the files that are no notes, and what finds the first.

        What is still to follow of earlier renamings follows first. Raises ``CacheBusy`` if it cannot yet.
        """
        await self._writer.finish_links()
        if any(write.after for write in self._cache.journal.in_flight()):
            raise CacheBusy("links to a renamed note are still to be changed; nothing was moved")
        inside = note_lookup.find_in_folder(self._cache.database, old)
        found = note_links.MoveSurvey(inside)
        files = sorted(await self.list_files())
        # defence: hidden-notes-files-stay =False
        if self._cache.notes.visibility.rules.hides_beside_seen:
            files = [*filter(await self._find_sight(), files)]
        steps = note_links.survey_move(
            self._cache.database,
            found,
            old=old,
            new=new,
            files=files,
            canvases=await self._read_card_links(),
        )
        return found, files, steps

    async def find_file_cards(self, path: str) -> list[str]:
        """Return the canvases with cards that show a file, but for hidden ones."""
        sees = self._cache.notes.visibility.rules.sees
        return [one for one in await self._folders.find_cards(path) if sees(one, ())]

    async def find_canvases(self, paths: Collection[str]) -> set[str]:
        """Return the canvases with cards that show any of these notes and files, but for hidden ones."""
        sees, beside = self._cache.notes.visibility.rules.sees, await self._folders.list_beside()
        wanted = {normalize("NFC", one) for one in paths}
        return {
            canvas
            for canvas, shown in beside.shown.items()
            # defence: hidden-canvases-uncounted -sees
            if sees(canvas, ()) and any(normalize("NFC", one) in wanted for one in shown)
        }

    async def move_file(self, old: str, new: str) -> bool:
        """Move a file that is no note, with the cards that show it; True if it is at its new path."""
        scope = self._writer.scope
        cards: dict[str, Changes] = {one: {} for one in await self.find_file_cards(old)}
        if not all(map(scope.permits_path, (old, new, *cards))):
            raise scope.refusal("This file, or a canvas that shows it, may only be read here.")
        # Before the file: whoever goes on after a cut finds files that are still to move, and no cards.
        shows = await self._folders.move_cards(cards, old=old, new=new)
        there = await self._folders.move_file(old, new)
        if not there:
            moved: dict[str, Changes] = {one: {} for one, done in shows.items() if done}
            await self._folders.move_cards(moved, old=new, new=old)
        else:
            self._cache.sync_state.rename_kept_file(old, new)
        return there

    async def remove_folders(self, folder: str) -> list[str]:
        """Remove a folder, and those below it, as far as they are empty; return the files in them that stay, hidden ones too."""
        return await self._folders.remove_folders(folder)

    def keep_moved_files(self, change_id: str, old: str, new: str, files: Sequence[str]) -> None:
        """Keep which files go with a folder; see :meth:`SyncState.keep_moved_files`."""
        self._cache.sync_state.keep_moved_files(change_id, old, new, files)

    def moved_files(self, change_id: str) -> tuple[str, str, list[str]] | None:
        """Return what :meth:`keep_moved_files` has kept of a change."""
        return self._cache.sync_state.moved_files(change_id)

    async def count(self, query: Query) -> int:
        """Return how many notes match."""
        return (await self._cache.search.find(query, limit=1, corrects=False)).total

    def count_active(self) -> int:
        """Return how many notes are outside the trash."""
        return self._cache.notes.counts().active

    def find_newest(self, most: int) -> list[Key]:
        """Return the keys of the ``most`` notes outside the trash that were created last, newest first."""
        return note_rows.find_newest(self._cache.database, most)

    def find_literally(self, text: str, matches: Matches) -> Iterator[list[Key]]:
        """Yield the keys of all notes outside the trash with this text in slices; ``matches`` tells if SQLite cannot."""
        return note_rows.find_literally(self._cache.database, text, matches)

    def read(self, keys: Sequence[Key], *, texts: bool) -> list[ScannedNote]:
        """Return the notes of these keys in this order; some may have gone meanwhile."""
        return note_rows.read(self._cache.database, keys, texts=texts)

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes whenever anything is written, by any process."""
        self._look()
        return self._cache.database.stamp()

    def etags(self, note_ids: Sequence[str]) -> dict[str, str]:
        """Return id to etag of those of these notes that are in the index now."""
        return self._cache.notes.etags(note_ids)

    def times(self, note_id: str) -> tuple[float, float]:
        """Return when a note was created and last changed, in epoch seconds with fractions."""
        return note_rows.read_times(self._cache.database, note_id)

    def count_tags(self, *, limit: int, offset: int) -> TagPage:
        """Return one page of the tags of notes outside the trash, most used first."""
        return note_lookup.count_tags(self._cache.database, limit=limit, offset=offset)

    def has_property(self, name: str) -> bool:
        """Tell whether any note has a property of this name."""
        return property_table.is_used(self._cache.database, name)

    async def property_types(self) -> Mapping[str, str]:
        """Return the types that the app gives to properties, by the keys of their names; not those that rules name."""
        if not self.traits.types_properties:
            return {}
        found = await cast("TypingStore", self._store).read_property_types()  # its trait says so
        rules = self._cache.notes.visibility.rules.hidden_properties
        named = {tag_key(rule.partition(":")[0].strip()) for rule in rules}
        return {key: kind for key, kind in found.items() if key not in named}

    async def property_names(self, typed: str) -> Callable[[str], bool]:
        """Return what tells whether a name in this query may be that of a property: notes have it, or the app a type for it.

        Where rules hide notes, a type alone would tell that one of these has it.
        """
        rules = self._cache.notes.visibility.rules.has_rules
        types = {} if rules or ":" not in typed else await self.property_types()
        return lambda name: tag_key(name) in types or self.has_property(name)

    def find_unread(self, *, most: int) -> tuple[int, list[str]]:
        """Return how many notes outside the trash have properties that cannot be read, and the ids of the first ones."""
        return property_table.find_unread(self._cache.database, most=most)

    def count_properties(self, *, limit: int, offset: int) -> tuple[list[PropertyUse], int]:
        """Return one page of the properties of notes outside the trash, most used first, and their number."""
        return property_table.count_properties(self._cache.database, limit=limit, offset=offset)

    def read_properties(
        self, note_ids: Sequence[str], names: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the values of these properties of these notes, by id and name."""
        return property_table.read_named(self._cache.database, note_ids, names)

    def find_tasks(
        self, note_ids: Sequence[str], wanted: Sequence[HasTask]
    ) -> dict[str, list[FoundTask]]:
        """Return the tasks of these notes that any of the conditions means, by id; see ``task_table.MOST``."""
        return property_table.find_tasks_of(self._cache.database, note_ids, wanted)

    def find_tagged(self, tag: str) -> list[TaggedNote]:
        """Return the notes with this tag; those in the trash, too."""
        return note_lookup.find_tagged(self._cache.database, tag)

    def collect_hashes(self, hashes: Hashes) -> Iterator[None]:
        """Add the hashes of what notes outside the trash say, a slice at each step."""
        return note_lookup.collect_hashes(self._cache.database, hashes)

    def read_twins(self, keys: list[int]) -> list[Twin]:
        """Return the notes of these keys, which have one hash."""
        return note_lookup.read_twins(self._cache.database, keys)

    def get(self, note_id: str) -> Note | None:
        """Return a note from the index, or None."""
        return self._cache.notes.get(note_id)

    def find_called(self, name: str, *, titles: bool) -> list[str]:
        """Return the ids of the notes that this name means, two at most; ``titles``: also by titles, in any letter case."""
        return note_lookup.find_called(self._cache.database, name, titles=titles)

    def form_of(self, note: Note) -> Form:
        """Return what the text of a note is: lines, or Markdown, where lines below each other may be one block."""
        base = self._cache.notes.base(note.id)
        markdown = "markdown" in note.properties or (base and self.traits.is_markdown(base))
        if not markdown:
            return Form.LINES
        return Form.FILE if self.traits.tags_in_text else Form.MARKDOWN

    def given(self, note: Note | None, text: str) -> Content | None:
        """Return the content of a text that may be in the store's own form; None: it is only text, or the note is gone."""
        if self.traits.given is None:
            return None
        base = None if note is None else self._cache.notes.base(note.id)
        return None if note is not None and base is None else self.traits.given(text, base)

    def shown_beside(self, note: Note) -> Mapping[str, Any]:
        """Return what the store's app shows beside the content of a note, by its own names."""
        base = self._cache.notes.base(note.id)
        return {} if base is None else self.traits.beside(base)

    def find_links(self, note_id: str) -> LinkedNotes:
        """Return the links of a note of a store with paths, and those to it."""
        return self._cache.notes.links.of(note_id)

    @property
    def store_may_have_more(self) -> bool:
        """Tell whether to ask the store for a note that a complete index lacks: it may have been made a moment ago.

        Not where rules hide notes: the time of the answer would tell that there is one. A store of names, or one in the
        database, is followed as it changes.
        """
        watched = self.traits.ids.named or self.traits.in_database
        return not (watched or self._cache.notes.visibility.rules.has_rules)

    async def fetch(self, note_id: str) -> Note | None:
        """Fetch a note from the store that the index lacks; None if there is none.

        Raises what the store raises.
        """
        return await NativeIndex(self._cache, self._store).refresh(note_id)

    def find_place(self, content: Content) -> str:
        """Return the path that a new note would get, but for its name; '' if no rule is about paths."""
        rules, scope = self._cache.notes.visibility.rules, self._writer.scope
        if not (rules.names_paths or scope.names_paths):
            return ""
        return self._store.new_id(content.cleaned(), seed=_ANY_SEED, attempt=SEEDED)

    async def require_open(self, note: Note | None, content: Content | None) -> None:
        """Raise ``NotPermitted`` if the note may not become so because of where it stands now; None: removed. The write asks again."""
        await self._writer.heads.require_open(note, content)

    async def find_read_only(self, note_ids: Sequence[str]) -> set[str]:
        """Return those of these notes that the store marks as ones that may only be read; the write asks again."""
        if not (self.traits.ids.paths and note_ids):
            return set()
        return await self._folders.find_read_only(note_ids)

    async def require_writable(self, note: Note) -> None:
        """Raise ``NoteReadOnly`` for such a note, also if a write would change nothing of it."""
        if await self.find_read_only([note.id]):
            raise NoteReadOnly

    def status(self) -> SyncStatus:
        """Return how complete and how fresh the index is."""
        self._look()
        return self._scheduler.status()

    def writing(self, key: str) -> AbstractAsyncContextManager[None]:
        """Serve a writing call; drafting belongs inside. See :meth:`NoteLocks.call`."""
        call = self._writer.locks.call(key)
        return call if self._cache.stored is self._cache else self._looking(call)

    @asynccontextmanager
    async def _looking(self, call: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        async with call:
            self._look()  # others have written while it waited
            yield

    def _look(self) -> None:
        """Bring the view of a profile in step with what is stored."""
        if self._cache.stored is not self._cache:  # defence: view-follows =False
            self._cache.follow()

    def preview(
        self, note: Note | None, content: Content, *, path: str = ""
    ) -> tuple[str, Content]:
        """Return what the policy has to judge of a save: the path or id, and the content with the tags in its text.

        ``path``: the one that a new note gets, if that is known. Raises ``StoreRejected``.
        """
        place = (path or self.find_place(content)) if note is None else note.id
        if not (self.traits.tags_in_text or self.traits.ids.paths):
            return place, content
        base = None if note is None else self._cache.notes.base(note.id)
        kept = note is not None and content.title == note.title
        body = self._store.compose(base, replace(content, title=None) if kept else content, now=0.0)
        stored = self._store.revision_of(place, body)
        content = replace(content, tags=stored.content.tags)
        return place if note is None else stored.id, content  # defence: new-place-judged =True

    def with_free_title(self, note: Note | None, content: Content) -> Content:
        """Return the content with digits behind a new title that names the note, where rules hide others.

        That a name is taken would betray a hidden note.
        """
        # defence: taken-name-betrays-nothing =False
        hides = self._cache.notes.visibility.rules.hides_beside_seen
        if note is None or not hides or not self.traits.ids.paths or content.title is None:
            return content
        if path_key(self.preview(note, content)[0]) == path_key(note.id):
            return content
        return replace(content, title=with_digits(content.title, seed=note.id))

    async def find_broken_links(self, note: Note, content: Content) -> dict[str, Changes]:
        """Return what links must become if the content gives the note another path; by the notes they stand in."""
        if (new_id := await self._find_new_path(note, content)) is None:
            return {}
        links = self._cache.notes.links
        files: set[str] = set()
        if places := links.find_file_places(note.id):
            files = await self._folders.find_files([*filter(await self._find_sight(), places)])
        broken = links.find_broken(note.id, new_id, files=files)
        return {one: changes for one, changes in broken.items() if self._has_links(one, changes)}

    async def find_cards(self, note: Note, content: Content) -> dict[str, int | None]:
        """Return how many cards of each canvas show the note, if the content gives it another path.

        None: the canvas names the note, and is not readable.
        """
        if await self._find_new_path(note, content) is None:
            return {}
        rules = self._cache.notes.visibility.rules
        found = await self._folders.find_cards(note.id)
        return {one: count for one, count in found.items() if rules.sees(one, ())}

    def still_broken(
        self, broken: Mapping[str, Changes], moves: Mapping[str, str]
    ) -> dict[str, Changes]:
        """See ``NoteLinks.still_broken``."""
        return self._cache.notes.links.still_broken(broken, moves)

    async def find_card_links(self, note: Note, content: Content) -> dict[str, tuple[int, Changes]]:
        """Return what links in texts of canvases must become if the content gives the note another path, and how many there are."""
        if (new_id := await self._find_new_path(note, content)) is None:
            return {}
        canvases = await self._read_card_links()
        links = [(one, link[0]) for one, said in canvases.items() for link in said]
        broken = self._cache.notes.links.find_broken(note.id, new_id, others=links)
        return {
            one: (count, {link: changes[link] for link in said if link in changes})
            for one, said in canvases.items()
            if (changes := settled(broken.get(one, {})))
            and (count := sum(map(changes.__contains__, said)))
        }

    async def _read_card_links(self) -> dict[str, Sequence[Link]]:
        """Return the links in texts of the canvases that may be seen."""
        rules, beside = self._cache.notes.visibility.rules, await self._folders.list_beside()
        return {one: said for one, said in beside.links.items() if said and rules.sees(one, ())}

    async def _find_new_path(self, note: Note, content: Content) -> str | None:
        """Return the path that a content would give the note; None: the one it has, or none.

        What is still to follow of an earlier renaming follows first.
        """
        if not self.traits.ids.paths or note.trash or content.title == note.title:
            return None
        new_id = self.preview(note, content)[0]
        if new_id == note.id:
            return None
        await self._writer.finish_links()
        return new_id

    @property
    def _attaching(self) -> AttachmentStore:
        return cast("AttachmentStore", self._store)  # the same

    @property
    def _folders(self) -> FolderStore:
        return cast("FolderStore", self._store)  # its trait says so

    def _has_links(self, note_id: str, changes: Changes) -> bool:
        note = self.get(note_id)
        return note is not None and count_links(note.text, changes) > 0

    async def find_loss(
        self, note: Note, content: Content, *, now: float, after: int = 0
    ) -> Loss | None:
        """Return what is lost for good if the note becomes ``content``. Raises what the store raises.

        ``after``: the room that versions take which the same change needs before.
        """
        base, found = self._cache.notes.base(note.id), Replaced()
        native = len(self.traits.own_form(base).encode()) if base is not None else 0
        beside: tuple[str, ...] = ()
        if (made := await self._find_replaced(note, base, content, now=now)) is not None:
            body, replaced = made
            found = replaced or found
            native = native if replaced is None else len(found.native)
            lost = () if base is None else self.traits.form_losses(base, body)
            beside = (*lost, *found.names)
        if not (beside or find_taken(note.content, content)):
            return None
        keeping = self._keeping(note, native + after, now=now)
        loss = find_loss(note.content, content, keeping, beside=beside)
        return loss and replace(loss, replaced=_digest(found.native))

    async def _find_replaced(
        self, note: Note, base: Revision | None, content: Content, *, now: float
    ) -> tuple[bytes, Replaced | None] | None:
        """Return the body that makes ``content`` of a note, and what that replaces now; None if the save refuses it."""
        try:
            with suppress(
                VersionConflict, NoteNotFound, StoreRejected
            ):  # the save says that better
                body = self._store.compose(base, content.cleaned(), now=now)
                return body, await find_replaced(self._store, note.id, body)
        except StoreError as error:
            raise add_outcome(error, NOT_SAVED) from None
        return None

    async def find_forms(
        self, note: Note | None, content: Content | None
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return what a change replaces in the store's own form, and by what. Raises what the store raises.

        ``note`` None: a new one; ``content`` None: it is removed.
        """
        if note is None:
            return {}, shown_form(self._store, content.native.encode()) if content else {}
        shown = partial(shown_form, self._store)
        if content is None:
            said = shown(await self._keepsake(note))
            return {name: value for name, value in said.items() if value}, {}
        base = self._cache.notes.base(note.id)
        made = await self._find_replaced(note, base, content, now=0.0)
        if base is None or made is None:
            return {}, {}
        body, found = made
        before, after = self.traits.forms(base, body)
        found = found or Replaced()
        return {**before, **shown(found.native)}, {**after, **shown(found.becomes)}

    async def find_published(self, note: Note | None, content: Content) -> Published | None:
        """Return what everybody may read if a note becomes ``content``, but for what is hidden here; None: no more than now.

        ``note`` None: a new one. Raises what the store raises.
        """
        if not self.traits.publishes:
            return None
        base = None if note is None else self._cache.notes.base(note.id)
        if note is not None and base is None:
            return None
        try:
            found = await cast("PublishingStore", self._store).find_published(base, content)
        except NoteNotFound:
            return None  # the save says that better
        except StoreError as error:
            raise add_outcome(error, NOT_SAVED) from None
        if found is None:
            return None
        if not self._cache.notes.visibility.rules.has_rules:  # what is not in the index yet counts
            return found
        own = "" if note is None else note.id
        # defence: published-without-hidden =True
        shown = (one for one in found.ids if one == own or self.get(one) is not None)
        return replace(found, ids=frozenset(shown))

    def version_size(self, note: Note) -> int:
        """Return the room that a version of a note takes."""
        return ROW_BYTES + len(note.text.encode())

    async def find_removal_loss(self, note: Note, *, now: float) -> Loss | None:
        """Return what is lost for good if the note is removed. Raises what the store raises."""
        kept = await self._keepsake(note)
        loss = find_loss(note.content, None, self._keeping(note, len(kept), now=now))
        return loss and replace(loss, replaced=_digest(kept))

    async def _keepsake(self, note: Note) -> bytes:
        """Return all that the store holds of a note, if it can make it again; b'' if not, or if it is gone."""
        if not self.traits.revives:
            return b""
        try:
            return await cast("RevivingStore", self._store).keepsake(note.id)
        except NoteNotFound:
            return b""
        except StoreError as error:
            raise add_outcome(error, NOT_REMOVED) from None

    def _keeping(self, note: Note, native: int, *, now: float) -> Keeping:
        versions, size = self._cache.versions, len(note.text.encode()) + native
        return Keeping(
            days=versions.limits.days,
            fits=versions.has_room(size, now=now),
            revives=self.traits.revives,
        )

    async def save(
        self,
        *,
        note: Note | None,
        content: Content,
        act: Act,
        path: str = "",
        exact: bool = False,
        keeps: bool = False,
        links: Mapping[str, Changes] = MappingProxyType({}),
        canvases: Mapping[str, Changes] = MappingProxyType({}),
        change_id: str = "",
    ) -> Saved:
        """Create or change a note; see :meth:`Writer.save`. ``canvases``: those that follow it to its new path, each with what links in its texts become.

        ``path``: the only one that a new note may get, '' for any; see :meth:`Writer.revive`.
        """
        if note is None and path:
            return await self.revive(path, content, act=act)
        save = partial(
            self._writer.save,
            note=note,
            content=content,
            act=act,
            exact=exact,
            keeps=keeps,
            links=links,
            change_id=change_id,
        )
        if note is None or not canvases:
            return await save()
        new = self.preview(note, content)[0]
        if new == note.id:
            return await save()
        if not all(map(self._writer.scope.permits_path, canvases)):
            raise self._writer.scope.refusal("A canvas that shows the note may only be read here.")
        async with self._writer.cards.following(note.id, new, canvases) as moved:
            saved = await save()
        return replace(
            saved,
            canvases=tuple(sorted(moved.canvases)),
            canvases_waiting=tuple(sorted(moved.waiting)),
        )

    def begin_change(self, asked: str) -> str:
        """Return the id of a change of many notes: of the same one if it was cut off within a day, else a new one.

        ``asked`` stands for what is changed, and by whom.
        """
        return self._cache.sync_state.begin_change(asked, at=self._cache.clock())

    def end_change(self, asked: str) -> None:
        """Note that nothing of this change is left to be done."""
        self._cache.sync_state.end_change(asked, at=self._cache.clock())

    def is_change(self, change_id: str) -> bool:
        """Tell whether this is the id of a change of many notes that can be undone, as far as that is known."""
        return bool(self.history.find_changed(change_id)) or self.moved_files(change_id) is not None

    def find_change(self, asked: str) -> str | None:
        """Return the id of the same change if it was made within a day: its answer may have been lost."""
        return self._cache.sync_state.find_change(asked, at=self._cache.clock())

    async def revive(self, note_id: str, content: Content, *, act: Act) -> Saved:
        """Make a note under this id; see :meth:`Writer.revive`."""
        return await self._writer.revive(note_id, content, act=act)

    async def remove(self, note: Note, *, act: Act, keeps: bool = False) -> None:
        """Remove a note for good; see :meth:`Writer.remove`."""
        await self._writer.remove(note, act=act, keeps=keeps)

    async def reset(self, *, act: Act) -> None:
        """Empty the index and load everything again; see :meth:`Scheduler.reset`."""
        await self._scheduler.reset(act=act)

    def statistics(self) -> Statistics:
        """Return all numbers from the database; asks the store nothing."""
        database = self._cache.stored.database
        writes = self._cache.journal.all()
        rejected = sum(write.state is WriteState.REJECTED for write in writes)
        return Statistics(
            counts=self._cache.notes.counts(),
            metrics=self._cache.sync_state.metrics(),
            cursor=self._cache.sync_state.cursor(),
            pending=len(writes) - rejected,
            rejected=rejected,
            feed_usable=self._scheduler.feed_usable,
            encrypted=database.encrypted,
            cipher_version=driver.facts().cipher_version if database.encrypted else None,
            size_bytes=database.size_bytes(),
            schema_version=database.user_version(),
        )
