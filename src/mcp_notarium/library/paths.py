"""Find which links, cards and files follow a note or folder to another path, and move what is no note."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast
from unicodedata import normalize

from mcp_notarium.errors import CacheBusy, OutcomeUnknown, StoreError
from mcp_notarium.markup.obsidian_links import count_links, settled
from mcp_notarium.storage import note_links, note_lookup

if TYPE_CHECKING:
    from mcp_notarium.domain.note import Content, Note
    from mcp_notarium.library.attachments import NoteFiles
    from mcp_notarium.markup.obsidian_links import Changes, Link
    from mcp_notarium.storage.cache import Cache
    from mcp_notarium.storage.note_links import LinkedNotes
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.extensions import FolderStore
    from mcp_notarium.sync.writer import Writer


class Paths:
    """Hold what leads to notes and files by their paths. ``preview``: see :meth:`Library.preview`."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        writer: Writer,
        *,
        files: NoteFiles,
        preview: Callable[[Note, Content], tuple[str, Content]],
    ) -> None:
        self._cache = cache
        self._store = store
        self._writer = writer
        self._files = files
        self._preview = preview

    @property
    def _folders(self) -> FolderStore:
        return cast("FolderStore", self._store)  # its trait says so

    def find_links(self, note_id: str) -> LinkedNotes:
        """Return the links of a note of a store with paths, and those to it."""
        return self._cache.notes.links.of(note_id)

    async def survey_links(self) -> tuple[note_links.Survey, Iterator[None]]:
        """Return where all links of a store with paths will have led, and what finds that, a slice at each step.

        Raises what the store raises.
        """
        found = note_links.Survey()
        rules, sees = self._cache.notes.visibility.rules, await self._files.find_sight()
        beside = await self._folders.list_beside()
        files = [one for one in beside.files if sees(one)]
        canvases = {
            one: [*(f"/{path}" for path in shown), *(link[0] for link in beside.links[one])]
            for one, shown in beside.shown.items()
            if not rules.closes(one)
        }
        return found, note_links.survey(self._cache.database, found, files=files, canvases=canvases)

    async def find_broken_links(self, note: Note, content: Content) -> dict[str, Changes]:
        """Return what links must become if the content gives the note another path; by the notes they stand in."""
        if (new_id := await self._find_new_path(note, content)) is None:
            return {}
        links = self._cache.notes.links
        files: set[str] = set()
        if places := links.find_file_places(note.id):
            files = await self._folders.find_files(
                [*filter(await self._files.find_sight(), places)]
            )
        broken = links.find_broken(note.id, new_id, files=files)
        return {one: changes for one, changes in broken.items() if self._has_links(one, changes)}

    async def find_cards(self, note: Note, content: Content) -> dict[str, int | None]:
        """Return how many cards of each canvas show the note, if the content gives it another path.

        None: the canvas names the note, and is not readable, or it cannot be read now.
        """
        if await self._find_new_path(note, content) is None:
            return {}
        rules = self._cache.notes.visibility.rules
        # Looked up before the canvases are read: what is done by then shows in them.
        cards = self._writer.cards
        paths, waiting = cards.find_former_paths(note.id), cards.find_waiting_links(note.id)
        former = [await self._folders.find_cards(path) for path in paths]
        found = await self._folders.find_cards(note.id)  # last: a card may come there meanwhile
        for one, count in (item for counts in former for item in counts.items()):
            if count and one in waiting:
                found[one] = (found.get(one) or 0) + count
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
        waiting = self._writer.cards.find_waiting_links(note.id)
        canvases = await self._read_card_links()
        links = [(one, link[0]) for one, said in canvases.items() for link in said]
        links += [(one, then) for one in canvases for then in waiting.get(one, {}).values()]
        broken = self._cache.notes.links.find_broken(note.id, new_id, others=links)
        found: dict[str, tuple[int, Changes]] = {}
        for one, said in canvases.items():
            changes = dict(settled(broken.get(one, {})))
            for link, then in waiting.get(one, {}).items():
                if (later := (then, link[1])) in changes:
                    changes[link] = changes[later]
            if count := sum(map(changes.__contains__, said)):
                found[one] = count, changes
        return found

    async def _read_card_links(self) -> dict[str, Sequence[Link]]:
        """Return the links in texts of the canvases that may be seen."""
        rules, beside = self._cache.notes.visibility.rules, await self._folders.list_beside()
        return {one: said for one, said in beside.links.items() if said and rules.sees(one, ())}

    async def _find_new_path(self, note: Note, content: Content) -> str | None:
        """Return the path that a content would give the note; None: the one it has, or none.

        What is still to follow of an earlier renaming follows first.
        """
        if not self._store.traits.ids.paths or note.trash or content.title == note.title:
            return None
        new_id = self._preview(note, content)[0]
        if new_id == note.id:
            return None
        await self._writer.finish_links()
        return new_id

    def _has_links(self, note_id: str, changes: Changes) -> bool:
        note = self._cache.notes.get(note_id)
        return note is not None and count_links(note.text, changes) > 0

    async def survey_move(
        self, old: str, new: str
    ) -> tuple[note_links.MoveSurvey, list[str], Iterator[None]]:
        """Return what links will have to become if a folder moves, the files that are no notes, and what finds the first.

        What is still to follow of earlier renamings follows first. Raises ``CacheBusy`` if it cannot yet.
        """
        await self._writer.finish_links()
        waiting = any(write.after for write in self._cache.journal.in_flight())
        if waiting or self._cache.sync_state.card_moves():
            raise CacheBusy("links to a renamed note are still to be changed; nothing was moved")
        inside = note_lookup.find_in_folder(self._cache.database, old)
        found = note_links.MoveSurvey(inside)
        files = sorted(await self._files.list_files())
        steps = note_links.survey_move(
            self._cache.database,
            found,
            old=old,
            new=new,
            files=files,
            canvases=await self._read_card_links(),
            unknown_stays=self._cache.notes.visibility.rules.has_rules,
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
        async with self._writer.cards.following(old, new, cards) if cards else nullcontext():
            if cards:  # the process that goes on after a cut finds no such file, and no cards
                await self._cache.flush()
            try:
                there = await self._folders.move_file(old, new)
            except StoreError as error:
                raise OutcomeUnknown(error.message) from error
        if there:
            self._cache.change_records.rename_kept_file(old, new)
        return there

    async def remove_folders(self, folder: str) -> list[str]:
        """Remove a folder, and those below it, as far as they are empty; return the files in them that stay, hidden ones too."""
        return await self._folders.remove_folders(folder)

    def keep_moved_files(self, change_id: str, old: str, new: str, files: Sequence[str]) -> None:
        """Keep which files go with a folder; see :meth:`SyncState.keep_moved_files`."""
        self._cache.change_records.keep_moved_files(change_id, old, new, files)

    def moved_files(self, change_id: str) -> tuple[str, str, list[str]] | None:
        """Return what :meth:`keep_moved_files` has kept of a change."""
        return self._cache.change_records.moved_files(change_id)
