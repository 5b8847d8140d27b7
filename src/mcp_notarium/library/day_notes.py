"""Find the note of a day, and what a new one begins with; have it made where the service makes it.

A note that the policy hides is not in the index, so it is found by nothing here. A taken path would betray a
note that rules hide by other things than its path: a new note of a day then gets digits behind its name, as every new note
does there, and is found by these.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import cast

from mcp_notarium.domain.characters import path_key, tag_key
from mcp_notarium.domain.note import Content, Note, Properties, PropertyPlace
from mcp_notarium.errors import NotariumError, NoteNotFound
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.markup.templates import TAG, Filling, find_template, name_templates
from mcp_notarium.storage import note_lookup
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Days, Store
from mcp_notarium.stores.extensions import (
    CopyingStore,
    DayMakingStore,
    DayPlace,
    DayPlacingStore,
    PublishingStore,
    TemplateSettings,
    TemplateStore,
)
from mcp_notarium.sync.write_errors import NOT_SAVED, add_outcome

_DIGITS = re.compile(r" [0-9a-f]{8}[0-9]{2}\.md")
"""Suffix that ``new_id`` puts behind a name that may be taken."""
_SHOWN_SO = {"pinned", "archived"}
"""Marks of a template that its notes do not get."""


@dataclass(frozen=True, slots=True)
class NewDay:
    """Hold what a note of a day begins as."""

    title: str
    path: str = ""
    """'' where ids are no paths, or where a name that is taken would betray a hidden note."""
    place: DayPlace | None = None
    """Place by the app's settings. None: they name none."""


class DayNotes:
    """Find and begin the notes of days in one account."""

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store
        self._index = NativeIndex(cache, store)
        self._last = ""
        """The note of a day that was found last, where that costs something."""

    @property
    def titled(self) -> bool:
        """Tell whether the note of a day is known by its title alone."""
        return self._days is Days.TITLED

    @property
    def made_elsewhere(self) -> bool:
        """Tell whether the service makes the notes of days."""
        return self._days is Days.MADE

    @property
    def _days(self) -> Days:
        return self._store.traits.days

    @property
    def names_betray(self) -> bool:
        """Tell whether a name that is taken would tell of a hidden note."""
        # defence: taken-day-betrays-nothing =False
        return self._index.rules.hides_beside_seen

    async def find(self, day: datetime) -> Note | None:
        """Return the note of a day, if the policy shows it; one outside the trash before one in it.

        Raises ``InvalidRequest`` if the app's settings are in the way, and what the store raises.
        """
        found = await self._find(day)
        return None if found is None else self._cache.notes.get(found)

    async def _find(self, day: datetime) -> str | None:
        database, named = self._cache.database, day.date().isoformat()
        match self._days:
            case Days.TITLED:
                return next(iter(note_lookup.find_titled(database, named)), None)
            case Days.PLACED:
                return await self._find_placed((await self._place(day)).path)
            case Days.MADE:
                return await self._find_made(named)

    async def _find_placed(self, path: str) -> str | None:
        database = self._cache.database
        if (found := note_lookup.find_at(database, path)) is not None:
            return found
        if self.names_betray:
            return self._find_with_digits(path)
        return path if await self._index.refresh(path) is not None else None

    def _find_with_digits(self, path: str) -> str | None:
        """Return the note that was made for a path that may be taken, the last one of several."""
        stem = path_key(path)[: -len(".md")]
        near = note_lookup.find_starting(self._cache.database, f"{stem} ", trash=True)
        return next((one for one in near if _DIGITS.fullmatch(path_key(one)[len(stem) :])), None)

    async def _find_made(self, day: str) -> str | None:
        store = cast("DayMakingStore", self._store)
        if self._is_made(self._last, day):
            return self._last
        # 0.2 s for ten years of long notes: the day stands in no column.
        ids = note_lookup.find_tagged_with(self._cache.database, store.day_tag, day.encode())
        for one in ids:
            if self._is_made(one, day):
                self._last = one
                return one
        if self._index.rules.has_rules:
            return None
        with suppress(NotariumError):  # it is not to be had now, and the index lacks it
            found = await store.find_day(day)
            if found is not None and await self._index.refresh(found) is not None:
                return found
        return None

    def _is_made(self, note_id: str, day: str) -> bool:
        base = self._cache.notes.base(note_id) if note_id else None
        return base is not None and cast("DayMakingStore", self._store).day_of(base) == day

    async def plan(self, day: datetime) -> NewDay:
        """Return what a new note of the day begins as. Raises as :meth:`find`."""
        if self._days is not Days.PLACED:
            return NewDay(day.date().isoformat())
        place = await self._place(day)
        title = place.path[: -len(".md")]
        return NewDay(title, "" if self.names_betray else place.path, place)

    async def find_public(self, day: date) -> str:
        """Return the public note below which the service would make the note of a day; '' if none is. Raises what the store raises."""
        if not self._store.traits.publishes:
            return ""
        try:
            return await cast("PublishingStore", self._store).find_public_day(day.isoformat())
        except NotariumError as error:
            raise add_outcome(error, NOT_SAVED) from None

    async def make(self, day: date) -> Note | None:
        """Let the service make the note of a day, unless it is there; None if it is hidden. Raises what the store raises."""
        try:
            self._last = await cast("DayMakingStore", self._store).make_day(day.isoformat())
            return await self._index.refresh(self._last)
        except NotariumError as error:
            raise add_outcome(error, NOT_SAVED) from None

    def find_at(self, path: str) -> Note | None:
        """Return the note that settings name by its path, or by its name alone as a link does."""
        database = self._cache.database
        found = note_lookup.find_at(database, path)
        if found is None:
            called = note_lookup.find_called(database, path, titles=False)
            found = called[0] if called else None
        note = None if found is None else self._cache.notes.get(found)
        return None if note is None or note.trash else note

    def find_block(self, name: str) -> str | None:
        """Return what the template of Logseq of this name stands for, in whichever visible page; None if there is none."""
        for text in note_lookup.find_saying(self._cache.database, "template::"):
            if (found := find_template(text, name)) is not None:
                return found
        return None

    def list_blocks(self) -> list[str]:
        """Return the names of the templates of Logseq in visible pages."""
        texts = note_lookup.find_saying(self._cache.database, "template::")
        return sorted({name for text in texts for name in name_templates(text)}, key=str.casefold)

    async def read_templates(self) -> TemplateSettings | None:
        """Return where templates lie; None: nowhere."""
        if not self._store.traits.templates:
            return None
        return await cast("TemplateStore", self._store).read_templates()

    def list_templates(self, folder: str) -> list[str]:
        """Return the paths of the templates in a folder, and in those below it, that the policy shows; in order."""
        return sorted(note_lookup.find_starting(self._cache.database, f"{folder}/"))

    async def copy(self, template: Note, filling: Filling) -> tuple[Content | None, str]:
        """Return what a note begins with that is made from another, and what to say of it; None: it is no text.

        The tag ``template`` stays behind, and what says how the app shows the note. Raises what the store raises.
        """
        traits = self._store.traits
        if traits.copies:
            base = self._cache.notes.base(template.id)
            if base is None:
                raise NoteNotFound("There is no note with this id.")
            return await cast("CopyingStore", self._store).copy(base, filling)
        beside = traits.other_properties is PropertyPlace.BESIDE
        kept = {
            name: value
            for name, value in template.properties.items()
            if name not in _SHOWN_SO and (beside or name in traits.properties)
        }
        tags = () if traits.tags_in_text else template.tags
        tags = tuple(one for one in tags if tag_key(one) != TAG)
        return Content(filling.fill(template.text), tags, properties=Properties(kept)), ""

    async def _place(self, day: datetime) -> DayPlace:
        return await cast("DayPlacingStore", self._store).place_day(day)
