"""Find, read, keep and discard the files of notes, as far as the agent may know of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from mcp_notarium.domain.file_names import split_ending
from mcp_notarium.domain.note import Note, with_digits
from mcp_notarium.errors import CacheBusy, LoginRequired, NoteNotFound, NotPermitted, StoreError
from mcp_notarium.files.locks import wait_for_lock
from mcp_notarium.markup.obsidian_links import find_links, name_key
from mcp_notarium.storage import note_rows
from mcp_notarium.storage.change_records import KeptFileRow
from mcp_notarium.storage.version_table import DAY
from mcp_notarium.stores.extensions import Attachment, Restored
from mcp_notarium.sync.write_errors import NOT_SAVED, add_outcome
from mcp_notarium.threads import run_in_thread, shield_task

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_notarium.attachments.decoding import Decoded
    from mcp_notarium.domain.note import Content
    from mcp_notarium.domain.write_scope import WriteScope
    from mcp_notarium.storage.audit_log import Act
    from mcp_notarium.storage.cache import Cache
    from mcp_notarium.storage.database import Database
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.extensions import (
        AskingStore,
        AttachmentStore,
        FolderStore,
        KeepingStore,
        KeptFile,
        PictureStore,
    )

_KEEPING_SECONDS = 60.0
"""Seconds that a call waits for another process that keeps a file."""
_ASKED_SECONDS = 5.0
"""Seconds that a service is asked for a file."""
_UNREACHED_SECONDS = 1.0
"""The same where sync does not reach it."""
_MOST_OWNERS = 1000
"""Other notes that are looked at for one that shows them."""
_MOST_LINES = 5
"""Lines that are named of those which link to a file."""
_SHOWING = "SELECT 1 FROM notes WHERE instr(text, ?) > 0"


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
    """Count the files that were to follow a text."""

    gone: int = 0
    """Discarded with it."""
    stays: int = 0
    """Not discarded."""
    back: int = 0
    """Brought back with it."""
    lost: int = 0
    """Not to be brought back."""
    missing: int = 0
    """Gone before."""
    unsure: bool = False
    """A file that is gone may be shown by what nobody may tell of."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Hold a file that a note shows."""

    facts: Attachment
    digest: str
    """The SHA-256 of its bytes; '' if it is larger than what is read."""
    decoded: Decoded | None
    """Part of it that can be shown; None: nothing."""


class NoteFiles:
    """Hold the files of the notes of one account.

    ``scope``: what callers may change. ``is_reached`` tells whether sync reaches the store. ``lock``: see :meth:`keeping`; None: no
    other process has the notes.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        scope: WriteScope,
        is_reached: Callable[[], bool],
        lock: Path | None,
    ) -> None:
        self._cache = cache
        self._store = store
        self._scope = scope
        self._is_reached = is_reached
        self._keeping_files = asyncio.Lock()
        self._files_lock = lock
        self._decoding = asyncio.Semaphore(2)
        """Files that are read and decoded at once: each may take a gigabyte."""
        self._decoded: tuple[tuple[str, str], Decoded | None] = (("", ""), None)
        """The last file that was decoded, by path and hash: a long one is read in parts."""

    @property
    def _attaching(self) -> AttachmentStore:
        return cast("AttachmentStore", self._store)  # its trait says so

    @property
    def _folders(self) -> FolderStore:
        return cast("FolderStore", self._store)  # the same

    @property
    def _asking(self) -> AskingStore:
        return cast("AskingStore", self._store)  # the same

    async def find_attachments(
        self, note: Note, *, seconds: float = 0
    ) -> tuple[Sequence[Attachment], bool]:
        """Return the files that a note shows or links to, with their lines, but for those in closed places.

        A service that alone knows them all is asked for so many seconds, if sync reaches it. Return as well whether it has
        answered, or nobody need be asked.
        """
        asks = self._store.traits.asks_attachments
        if asks and seconds and self._is_reached():
            with suppress(StoreError, LoginRequired, NoteNotFound):
                return await self._find_files(note, seconds=seconds), True
        return await self._find_files(note), not asks

    async def _find_files(self, note: Note, *, seconds: float = 0) -> Sequence[Attachment]:
        """Find the files of a note; with ``seconds`` ask the service that alone knows them all, and raise what that raises."""
        base = self._cache.notes.base(note.id)
        if not self._store.traits.attachments or base is None or not base.raw:
            return await self._find_beside(note)
        found = await self._attaching.list_attachments(base)
        if seconds:
            there = await self._asking.ask_attachments(base, seconds=seconds)
            # What an undo has taken is there for a while.
            gone = self._cache.change_records.discarded_files() - {one.id for one in found}
            found = [one for one in there if one.id not in gone]
        seen = self._find_seen(note, found)
        id_of = partial(self._attaching.id_of_link, note.id)
        return [*_with_lines(seen, note.text, id_of)]

    def _find_seen(self, note: Note, found: Sequence[Attachment]) -> list[Attachment]:
        """Return the files of the note, and of the first notes that it shows those that are files and may be seen."""
        owners = dict.fromkeys(one.id.partition("/")[0] for one in found)
        owners.pop(note.id, None)
        seen = {note.id, *filter(self._is_seen_file, islice(owners, _MOST_OWNERS))}
        return [one for one in found if one.id.partition("/")[0] in seen]

    def _is_seen_file(self, owner: str) -> bool:
        """Tell whether a note may be seen, and is a file itself."""
        base = self._cache.notes.base(owner) if self._cache.notes.get(owner) is not None else None
        asks = self._store.traits.asks_attachments
        return base is not None and (not asks or self._asking.is_file(base))

    async def _find_beside(self, note: Note) -> Sequence[Attachment]:
        if not self._store.traits.ids.paths:
            return []
        links = [
            (target, note.id)
            for target, to in self._cache.notes.links.of(note.id).links
            if to is None and "." in target.rpartition("/")[2]
        ]
        there = await self._resolve_shown(links) if links else {}
        shown = {one.id: one for link in links if (one := there.get(link)) is not None}
        ids = {target: one.id for (target, _), one in there.items()}
        return [*_with_lines([*shown.values()], note.text, lambda target: ids.get(target, ""))]

    async def require_no_hidden(self, note: Note | None, content: Content) -> None:
        """Raise ``NotPermitted`` if a service would give the note copies of a hidden note's files, which the content newly names.

        A file that is not there is refused as well, or the difference would tell. Raises what the store raises.
        """
        if not self._cache.notes.visibility.rules.has_rules:
            return
        base = None if note is None else self._cache.notes.base(note.id)
        try:
            owners = await self._asking.find_owners(base, content)
        except StoreError as error:
            raise add_outcome(error, NOT_SAVED) from None
        # defence: hidden-file-not-copied =False
        if any(self._cache.notes.get(one) is None for one in owners):
            raise NotPermitted(
                "The text names a file that no note here has; nothing was saved.",
                resolution_hint="Leave that link out, or name one of the `files` of a note.",
            )

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
        return await shield_task(reading)  # the copy works on if the caller is cancelled

    async def _read_file(self, facts: Attachment) -> ReadFile:
        from mcp_notarium.attachments import decoding  # noqa: PLC0415 - seldom needed

        if self._store.traits.attachments:
            facts, data = await self._attaching.read_attachment(facts, largest=decoding.LARGEST)
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

        A visible note has to show it if rules hide notes. No file is looked for of which no shown note speaks, or the
        time of the answer would tell that there is one.
        """
        if self._store.traits.attachments:
            if (note := self._cache.notes.get(name.partition("/")[0])) is None:
                return None
            asks = self._store.traits.asks_attachments
            # Asked once, for it is tried for seconds to read a file of a service that is not there.
            seconds = _ASKED_SECONDS if self._is_reached() else _UNREACHED_SECONDS
            found = await self._find_files(note, seconds=seconds if asks else 0)
            return next((one for one in found if one.id == name), None)
        return await self._find_linked_file(name) if self._store.traits.ids.paths else None

    async def _find_linked_file(self, name: str) -> Attachment | None:
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
        return await self._folders.resolve_files(links, sees=await self.find_sight())

    async def find_sight(self) -> Callable[[str], bool]:
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
        takes = self._store.traits.keeps_files or self._store.traits.adds_pictures
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
            await self._discard_left()
            yield

    async def keep_file(
        self, note: Note, name: str, kind: str, data: bytes, *, act: Act | None
    ) -> KeptFile:
        """Put a file where the app puts files of a note, as ``act`` records before. The caller lets the note show it.

        Its name gets digits of its own if rules hide notes: a taken name would betray a hidden file. Raises what the store
        raises, and ``NotPermitted`` for a place that is closed.
        """
        digest = hashlib.sha256(data).hexdigest()
        if (base := self._cache.notes.base(note.id)) is None:
            raise NoteNotFound("There is no note with this id.", details={"id": note.id})
        if self._store.traits.ids.paths:
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
            self._cache.change_records.add_kept_file(row, since=since)
        elif kept.id in self._cache.change_records.discarded_files():
            # An undo has taken ours, and somebody has put the same bytes there since.
            self._cache.change_records.forget_kept_file(kept.id)  # defence: foreign-twin-stays
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
        if not self._scope.permits_path(path):
            raise self._scope.refusal(
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
        for one in (
            self._cache.change_records.kept_files() if self._store.traits.keeps_files else ()
        ):
            marks = self._keeper.marks_of(one.id)
            shown, was = _has_any(new, marks), _has_any(old, marks)
            # One that counts as there may be gone: a process has ended in between.
            if shown != was and (shown or (undone and not one.discarded)):
                yield one, shown

    def announce_leaving(self, files: Iterable[KeptFileRow], *, leaving: bool) -> None:
        """Remember that an undo is about to take these files, or that it takes none: whatever keeps the next file goes on with them."""
        for one in files:
            self._cache.change_records.add_kept_file(replace(one, leaving=leaving), since=0.0)

    async def _discard_left(self) -> None:
        """Discard what an undo was to take that ended before it could. What a note shows stays: the undo may still be sent."""
        for one in (
            self._cache.change_records.kept_files() if self._store.traits.keeps_files else ()
        ):
            # defence: undo-goes-on-with-files =False
            if one.leaving and not one.discarded:
                try:
                    await self._discard_kept(one)
                except NoteNotFound:
                    self.announce_leaving([one], leaving=False)

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
                if not done:
                    self.announce_leaving([one], leaving=False)
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
            row = replace(one, discarded=True, leaving=False)
            self._cache.change_records.add_kept_file(row, since=0.0)
        return done

    async def _restore_kept(self, one: KeptFileRow) -> Restored:
        """Bring a file back, also from an undo that ended before it could take it. One that others have put there since it was discarded stays theirs."""
        found = Restored.LOST
        with suppress(StoreError):
            found = await self._keeper.restore_file(one.id, one.digest)
        # defence: redo-keeps-its-file -leaving
        if found is Restored.BACK or (found is Restored.THERE and (one.discarded or one.leaving)):
            foreign = found is Restored.THERE and (one.discarded or one.foreign)
            row = replace(one, discarded=False, foreign=foreign, leaving=False)
            self._cache.change_records.add_kept_file(row, since=0.0)
        return found

    async def _discard(self, file_id: str, digest: str) -> bool:
        """Discard a file that nothing shows.

        Return whether it is gone to the caller: where rules hide notes, a file is also if only a hidden note shows it. Raises
        ``NoteNotFound`` if it was gone before, and no rule hides notes.
        """
        unsure = self._cache.notes.visibility.rules.has_rules
        # defence: shown-file-told =False
        if await self._is_shown(file_id):
            if not unsure:
                await self._require_there(file_id)
            return False
        # defence: hidden-file-stays =False
        if await self._may_be_shown(file_id):
            return unsure
        try:
            return await self._keeper.discard_file(file_id, digest) or unsure
        except NoteNotFound:
            if unsure:  # only what stays would be told apart
                return True
            raise

    async def _require_there(self, file_id: str) -> None:
        """Raise ``NoteNotFound`` if a file that was kept is gone."""
        if self._store.traits.attachments:
            await self._attaching.read_attachment(Attachment(file_id, ""), largest=0)
        elif not await self._folders.find_files([file_id]):
            raise NoteNotFound("There is no such file.", details={"id": file_id})

    async def _is_shown(self, file_id: str) -> bool:
        """Tell whether a note or canvas that may be seen shows a file, also one in the trash."""
        if self._is_named(self._cache.database, file_id):
            return True
        if not self._store.traits.ids.paths:
            return False
        rules, beside = self._cache.notes.visibility.rules, await self._folders.list_beside()
        return any(file_id in files for one, files in beside.shown.items() if rules.sees(one, ()))

    def _is_named(self, database: Database, file_id: str) -> bool:
        return any(database.row(_SHOWING, (one,)) for one in self._keeper.marks_of(file_id))

    async def _may_be_shown(self, file_id: str) -> bool:
        """Tell whether a note or canvas that the rules hide may show a file, or a note that others have changed just now."""
        if self._is_named(self._cache.stored.database, file_id):
            return True
        if not self._store.traits.ids.paths:
            return False
        names = await self._read_unseen_names(but_of=self._cache.notes.etags())
        return names is None or name_key(file_id) in names

    async def list_files(self) -> set[str]:
        """Return the files that are no notes, in a store with paths, but for those that may not be seen."""
        beside, sees = await self._folders.list_beside(), await self.find_sight()
        # defence: hidden-notes-files-stay -sees
        return {one for one in beside.files if sees(one)}
