"""Find, read and change the notes of one account: all that tools see of it.

Reads come from the index and never wait. Changes happen inside :meth:`Library.writing` and return when
the store has answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.domain.note import Content, Note, WriteState, with_digits
from mcp_notarium.errors import NoteNotFound, NoteReadOnly, StoreError
from mcp_notarium.library.attachments import NoteFiles
from mcp_notarium.library.day_notes import DayNotes
from mcp_notarium.library.history import History
from mcp_notarium.library.losses import Losses
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.library.paths import Paths
from mcp_notarium.search.query import Query
from mcp_notarium.storage import driver, note_links, note_lookup, note_rows, property_table
from mcp_notarium.storage.note_search import Found, Summary
from mcp_notarium.stores.contract import SEEDED, require_supported
from mcp_notarium.sync.write_errors import NOT_SAVED, add_outcome

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_notarium.domain.note import Published
    from mcp_notarium.markup.obsidian_links import Changes
    from mcp_notarium.storage.audit_log import Act, Step
    from mcp_notarium.storage.cache import Cache
    from mcp_notarium.storage.database import Database
    from mcp_notarium.storage.note_table import Counts
    from mcp_notarium.storage.sync_state import Metrics
    from mcp_notarium.stores.contract import Store, Traits
    from mcp_notarium.stores.extensions import (
        FolderStore,
        NativeReads,
        PublishingStore,
        TypingStore,
    )
    from mcp_notarium.sync.scheduler import Scheduler
    from mcp_notarium.sync.status import SyncStatus
    from mcp_notarium.sync.writer import Saved, Writer

_ANY_SEED = "0" * 32


@dataclass(frozen=True, slots=True)
class Statistics:
    """Hold numbers about one account."""

    counts: Counts
    metrics: Metrics
    cursor: str | None
    """The place in the store's stream of changes; None before the first load."""
    pending: int
    """Writes without an answer."""
    rejected: int
    """Writes that the store has refused for good."""
    feed_usable: bool
    """Changes elsewhere show within seconds."""
    encrypted: bool
    cipher_version: str | None
    """Of SQLCipher; None if the database is not encrypted."""
    size_bytes: int
    schema_version: int


_Args = ParamSpec("_Args")
_Found = TypeVar("_Found")


def _ask(
    ask: Callable[Concatenate[Database, _Args], _Found],
) -> Callable[Concatenate[Library, _Args], _Found]:
    """Return the method that asks this of the index."""

    @wraps(ask)
    def method(self: Library, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Found:
        return ask(self._cache.database, *args, **kwargs)

    return method


class Library:
    """Hold the notes of one account.

    ``history`` has their versions, ``files`` their files, ``paths`` what links to them, ``losses`` what changes take from them, and
    ``transfer`` what export and import need. ``days`` finds the notes of days. ``native`` is what the native tools of its store
    read; None if it has none. ``files_lock``: see :class:`NoteFiles`.
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
        self.files = NoteFiles(
            cache,
            store,
            scope=writer.scope,
            is_reached=lambda: self.status().last_error is None,
            lock=files_lock,
        )
        self.paths = Paths(cache, store, writer, files=self.files, preview=self.preview)
        self.losses = Losses(cache, store)
        self.transfer = NoteTransfer(cache, store, writer)
        self.native = native
        self.days = DayNotes(cache, store)

    spell_folder = _ask(note_lookup.spell_folder)
    count_folders = _ask(note_links.count_folders)
    find_untagged = _ask(note_links.find_untagged)
    find_newest = _ask(note_rows.find_newest)
    find_literally = _ask(note_rows.find_literally)
    read = _ask(note_rows.read)
    times = _ask(note_rows.read_times)
    count_tags = _ask(note_lookup.count_tags)
    has_property = _ask(property_table.is_used)
    find_unread = _ask(property_table.find_unread)
    count_properties = _ask(property_table.count_properties)
    read_properties = _ask(property_table.read_named)
    find_tasks = _ask(property_table.find_tasks_of)
    find_tagged = _ask(note_lookup.find_tagged)
    collect_hashes = _ask(note_lookup.collect_hashes)
    read_twins = _ask(note_lookup.read_twins)
    find_called = _ask(note_lookup.find_called)

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
            corrects=corrects,
        )

    def find_last_changed(self, most: int) -> list[Summary]:
        """Return the ``most`` notes outside the trash that were changed last, newest first."""
        return self._cache.search.find_words(Query(), limit=most).notes

    def find_ids(self, query: Query, *, most: int) -> tuple[list[str], int]:
        """Return the ids of the notes that match, at most so many, and how many there are."""
        found = self._cache.search.find_words(query, limit=most)
        return [note.id for note in found.notes], found.total

    @property
    def shows_files(self) -> bool:
        """Tell whether notes of the store can show files."""
        return self.traits.attachments or self.traits.ids.paths

    def count_active(self) -> int:
        """Return how many notes are outside the trash."""
        return self._cache.notes.counts().active

    def stamp(self) -> tuple[int, int]:
        """Return a value that changes whenever anything is written, by any process."""
        self._look()
        return self._cache.database.stamp()

    def etags(self, note_ids: Sequence[str]) -> dict[str, str]:
        """Return id to etag of those of these notes that are in the index now."""
        return self._cache.notes.etags(note_ids)

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

        A type alone would betray a hidden note that has it.
        """
        rules = self._cache.notes.visibility.rules.has_rules
        types = {} if rules or ":" not in typed else await self.property_types()
        return lambda name: tag_key(name) in types or self.has_property(name)

    def get(self, note_id: str) -> Note | None:
        """Return a note from the index, or None."""
        return self._cache.notes.get(note_id)

    def form_of(self, note: Note) -> Form:
        """Return what the text of a note is: lines, or Markdown, where lines below each other may be one block."""
        markdown = "markdown" in note.properties or self.traits.is_markdown is True
        if not markdown and callable(self.traits.is_markdown):
            base = self._cache.notes.base(note.id)
            markdown = base is not None and bool(base.raw) and self.traits.is_markdown(base)
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
        """Return what the store's app shows in addition to the content of a note, by its own names."""
        base = self._cache.notes.base(note.id)
        return {} if base is None or not base.raw else self.traits.beside(base)

    @property
    def store_may_have_more(self) -> bool:
        """Tell whether to ask the store for a note that a complete index lacks: it may have been made a moment ago.

        Not where rules hide notes: the time of the answer would tell that there is one. A store of names, or one in the
        database, is followed as it changes.
        """
        watched = self.traits.ids.named or self.traits.in_database
        return not (watched or self._cache.notes.visibility.rules.has_rules)

    async def fetch(self, note_id: str) -> Note | None:
        """Fetch a note from the store that the index lacks; None if there is none. Raises what the store raises."""
        return await NativeIndex(self._cache, self._store).refresh(note_id)

    def find_place(self, content: Content) -> str:
        """Return the path that a new note would get, but for its name; '' if no rule is about paths."""
        rules, scope = self._cache.notes.visibility.rules, self._writer.scope
        if not (rules.names_paths or scope.names_paths):
            return ""
        return self._store.new_id(content.cleaned(), seed=_ANY_SEED, attempt=SEEDED)

    async def require_open(self, note: Note | None, content: Content | None) -> None:
        """Raise ``NotPermitted`` if the note may not become so because of where it stands now; None: removed. The write asks again."""
        if self._writer.scope.tops:
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

    def writing(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Serve a writing call; drafting belongs inside. See :meth:`NoteLocks.call`."""
        call = self._writer.locks.call(key)
        return call if self._cache.stored is self._cache else self._looking(call)

    @asynccontextmanager
    async def _looking(self, call: AbstractAsyncContextManager[bool]) -> AsyncIterator[bool]:
        async with call as waited:
            self._look()  # others have written while it waited
            yield waited

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

    @property
    def _folders(self) -> FolderStore:
        return cast("FolderStore", self._store)  # its trait says so

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

    def find_saved(self, step: Step) -> Saved | None:
        """See :meth:`Writer.find_saved`."""
        return self._writer.find_saved(step)

    def begin_change(self, asked: str) -> str:
        """Return the id of a change of many notes: of the same one if it was cut off within a day, else a new one.

        ``asked`` stands for what is changed, and by whom.
        """
        return self._cache.change_records.begin_change(asked, at=self._cache.clock())

    def end_change(self, asked: str) -> None:
        """Record that nothing of this change is left to be done."""
        self._cache.change_records.end_change(asked, at=self._cache.clock())

    def is_change(self, change_id: str) -> bool:
        """Tell whether this is the id of a change of many notes that can be undone, as far as that is known."""
        return (
            bool(self.history.find_changed(change_id))
            or self.paths.moved_files(change_id) is not None
        )

    def find_change(self, asked: str) -> str | None:
        """Return the id of the same change if it was made within a day: its answer may have been lost."""
        return self._cache.change_records.find_change(asked, at=self._cache.clock())

    async def revive(self, note_id: str, content: Content, *, act: Act) -> Saved:
        """Make a note under this id; see :meth:`Writer.revive`."""
        return await self._writer.revive(note_id, content, act=act)

    async def foresee(self, note: Note, content: Content | None) -> None:
        """See :meth:`Writer.foresee` and :meth:`require_writable`."""
        await self.require_writable(note)
        await self._writer.foresee(note, content)

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
