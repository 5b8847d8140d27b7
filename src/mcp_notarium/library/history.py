"""Read the history of a note: versions that are kept here, and those that the store keeps itself.

Only for a note that is visible now. The store's versions end before the first one that the policy would
hide: what a note said before it was hidden is gone for agents, as are the versions kept here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import cast

from mcp_notarium.domain.note import Content, Note, Revision
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.version_table import Makers, NoteVersion
from mcp_notarium.stores.contract import ListingStore, Store, VersionedStore, Versions
from mcp_notarium.stores.extensions import RevivingStore, find_native, move_of, name_parts

LIMIT = 10
"""Versions that the store is asked for at a time."""
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True)
class Version:
    """Hold a state of a note, the present one too."""

    name: str
    """Name to ask for it by."""
    etag: str
    content: Content
    modified_at: float
    """In epoch seconds."""
    made_by: str
    """The client program that saved it here; '' if it was made elsewhere, or that is not known."""
    tags_known: bool = True
    """False: its tags are not kept."""
    present: bool = False
    removed: bool = False
    """A note of this id that was removed from here."""
    moved: bool = False
    """The write that replaced it gave the note another id."""
    server_version: int | None = None
    """The number that the store gave it, where that counts its revisions."""


class History:
    """Read the histories of the notes of one database."""

    def __init__(self, cache: Cache, store: Store) -> None:
        self._cache = cache
        self._store = store
        self._kind = store.traits.versions

    async def walk(self, note_id: str, *, after: str | None = None) -> AsyncGenerator[Version]:
        """Yield the present state of a note and the older ones, newest first, or those older than ``after``.

        Nothing if the note is not visible. Raises ``NoteNotFound`` if there is no version of the name
        ``after``, and what the store raises.
        """
        passed = after is None
        if after is not None and self._kind is Versions.BY_ETAG and not self._has_rules:
            walk, passed = self._walk_on(note_id, after), True  # what is newer is not asked for
        else:
            walk = self._walk(note_id)
        async with aclosing(walk):
            async for version in walk:
                if passed:
                    yield version
                passed = passed or version.name == after
        if not passed:
            raise self._missing_error(note_id, after or "")

    async def _walk_on(self, note_id: str, after: str) -> AsyncGenerator[Version]:
        place = await self.read(note_id, after)
        makers = self._cache.versions.makers(note_id)
        async with aclosing(self._walk_older(note_id, place, makers)) as older:
            async for one in older:
                yield one

    async def _walk(self, note_id: str) -> AsyncGenerator[Version]:
        note, base = self._cache.notes.get(note_id), self._cache.notes.base(note_id)
        if note is None or base is None:
            return
        makers = self._cache.versions.makers(note.id)
        last = self._present(note, base, makers)
        yield last
        async with aclosing(self._walk_older(note.id, last, makers)) as older:
            async for one in older:
                yield one

    async def _walk_older(
        self, note_id: str, last: Version, makers: Makers
    ) -> AsyncGenerator[Version]:
        """Yield what is older than a version: kept here or by the store, each once."""
        kept = self._kept(note_id, makers, below=last)
        waiting = next(kept, None)
        async with aclosing(self._listed(note_id, last.etag, makers)) as listed:
            async for one in listed:
                if one is None:
                    waiting = None if self._kind is Versions.BY_ETAG else waiting
                    break
                while waiting is not None and self._is_older(one, waiting):
                    yield waiting
                    last, waiting = waiting, next(kept, None)
                if waiting is not None and waiting.name == one.name:
                    waiting = next(kept, None)
                if self._kind is Versions.BY_ETAG or one.content.wording != last.content.wording:
                    yield one
                    last = one
        while waiting is not None:
            yield waiting
            waiting = next(kept, None)

    async def read(self, note_id: str, name: str) -> Version:
        """Return a version by its name, or by the ``local_version`` that it was.

        Raises ``NoteNotFound`` if it is not kept (any more), hidden, or the note is not visible, otherwise
        what the store raises.
        """
        note, base = self._cache.notes.get(note_id), self._cache.notes.base(note_id)
        if note is None or base is None:
            raise self._missing_error(note_id, name)
        makers = self._cache.versions.makers(note.id)
        present = self._present(note, base, makers)
        row = self._cache.versions.get(note.id, _number(name))
        if name == present.name:
            return present
        by_etag = self._kind is Versions.BY_ETAG
        if row is not None and row[1] is not None and not by_etag:
            return self._kept_version(row[0], row[1], makers)
        if self._kind is Versions.NONE:
            raise self._missing_error(note.id, name)
        etags = [name, row[0].etag] if row is not None and by_etag else [name]
        found = await self._find_listed(note.id, base.etag, etags, makers)
        if found is None or self._cache.notes.get(note.id) is None:  # it went while we asked
            raise self._missing_error(note.id, name)
        return found

    def _missing_error(self, note_id: str, name: str) -> NoteNotFound:
        """Return the error for a version that a note does not have; the id of a change of many is told where it belongs."""
        hint = "Action `history` lists the versions that are kept."
        if self.find_changed(name):
            hint = f"This is a `change_id`: action `undo` takes it, without `id`. {hint}"
        return NoteNotFound(
            "This note has no version of that name.",
            details={"id": note_id, "version": name[:40]},
            subcategory="version",
            resolution_hint=hint,
        )

    def find_ids(self) -> list[str]:
        """Return every id that a note has or had, also of removed ones, for the owner of the notes."""
        return self._cache.notes.names.all()

    def read_removed(self, note_id: str) -> list[Version]:
        """Return what is kept of the notes of this id that were removed from here, the last one first.

        Nothing while a note of the id is there, and none that the rules hide. The names are numbers.
        """
        if self._cache.notes.get(note_id) is not None:
            return []
        find_rule = self._cache.notes.visibility.find_rule_of
        return [
            self._kept_version(kept.version, kept.content, Makers())
            for kept in self._cache.versions.removed(note_id)
            if find_rule(note_id, kept.content, clear=kept.tags_understood) is None
        ]

    async def content_at(self, note_id: str, local_version: int) -> Content | None:
        """Return what a note said at this version, as the base of a merge; None if that is not known.

        Raises what the store raises.
        """
        note, base = self._cache.notes.get(note_id), self._cache.notes.base(note_id)
        if note is None or base is None:
            return None
        if (kept := self._cache.notes.merge_bases.get(note.id, local_version)) is not None:
            return kept
        row = self._cache.versions.get(note.id, local_version)
        if row is not None and row[1] is not None:
            return self._without_place(row[1])
        if row is None or self._kind is not Versions.BY_ETAG:  # else its text had no room
            return None
        found = await self._find_listed(note.id, base.etag, [row[0].etag], Makers())
        if found is None or not found.tags_known or self._cache.notes.get(note.id) is None:
            return None
        return found.content

    async def recall(self, note_id: str) -> list[Content]:
        """Return what a visible note said lately: what others replaced, and what the last save here did.

        A store that cannot be asked now is left out.
        """
        if (note := self._cache.notes.get(note_id)) is None:
            return []
        found: list[Content | None] = [*self._cache.notes.merge_bases.of(note.id)]
        for row in self._cache.versions.of(note.id)[:1]:
            with suppress(NotariumError):
                found.append(await self.content_at(note.id, row.local_version))
        return [one for one in found if one is not None]

    def native_of(self, note_id: str, version: Version, *, last: bool = False) -> str:
        """Return the ``Content.native`` of a version: what is kept of it and its content does not say.

        '' if the content says all. ``last``: only what the last save has replaced, which nothing has followed.
        """
        number = _number(version.name)
        if version.removed or not number:
            return ""
        if last or not self._store.traits.revives:
            return self._cache.versions.native(note_id, number)
        store = cast("RevivingStore", self._store)  # its trait says so
        return store.overlay(self._cache.versions.natives_since(note_id, number))

    async def find_own_form(self, note: Note, version: Version) -> str | None:
        """Return the ``Content.native`` that stores an older version as the store has kept it; None if it has not.

        '' if the note is stored so now. Raises what the store raises.
        """
        traits = self._store.traits
        if traits.versions is not Versions.LISTED:
            return ""
        if version.name == version.etag:
            kept: Revision | None = await self._store.get(note.id, etag=version.etag)
        else:  # the one of its date, else the newest of the same new text
            store = cast("ListingStore", self._store)  # its trait says so
            kept = await store.find_version(
                note.id, version.content, at=version.modified_at, now=note.content
            )
        if kept is None:
            return None
        native, base = traits.own_form(kept), self._cache.notes.base(note.id)
        return "" if base is not None and native == traits.own_form(base) else native

    def find_move(self, note_id: str, version: Version) -> str:
        """Return the ``Content.native`` that takes the move back by which a save has replaced a version; '' if it moved nothing."""
        return move_of(self._store, self.native_of(note_id, version, last=True).encode())

    def parts_beside(self, note_id: str, version: Version, newer: Content) -> tuple[str, ...]:
        """Name what the save that replaced a version has changed outside the content, which became ``newer``."""
        number = _number(version.name)
        if version.removed or version.present or not number:
            return ()
        native = self._cache.versions.native(note_id, number)
        return self._name_parts(native, same=version.content.wording == newer.wording)

    async def find_parts_beside(
        self, note: Note, content: Content, *, now: float
    ) -> tuple[str, ...]:
        """Name what changes outside the content if the note becomes ``content``. Raises what the store raises."""
        base, native = self._cache.notes.base(note.id), content.native
        if self._store.traits.revives:
            with suppress(
                VersionConflict, NoteNotFound, StoreRejected
            ):  # the save says that better
                body = self._store.compose(base, content.cleaned(), now=now)
                found = await find_native(self._store, note.id, body)
                native = (found or b"").decode()
        return self._name_parts(native, same=content.wording == (note.title, note.text))

    def _name_parts(self, native: str, *, same: bool) -> tuple[str, ...]:
        """Name what the store's own form of a note has; ``same``: title and text stay."""
        if self._store.traits.revives or move_of(self._store, native.encode()):
            return name_parts(self._store, native.encode())
        return ("formatting",) if native and same else ()

    async def read_replaced(self, note_id: str, *, client: str | None) -> Version:
        """Return what the last save of ``client`` (None: of any program, made here) has replaced.

        Raises ``VersionConflict`` if anything came after that save, ``InvalidRequest`` if none is kept, also
        of a note that was removed since and made again.
        """
        note = self._cache.notes.get(note_id)
        rows = [one for one in self._cache.versions.of(note_id) if not one.removed]
        row = _last_of(rows, client)
        if row is None or note is None:
            raise _nothing_to_undo(note_id)
        # defence: undo-stops-at-later-change
        if row != rows[0] or row.made is None or row.made != self._cache.notes.etag(note.id):
            raise _changed_since(note_id)
        return await self._read_kept(note.id, row)

    def has_saved_since(self, note_id: str, number: int, *, client: str | None) -> bool:
        """Tell whether ``client`` has saved a note once more since its save over the version of this number, or over a later one."""
        rows = self._cache.versions.of(note_id)
        rows = [row for row in rows if row.replaced_by == client and not row.removed]
        return any(row.local_version >= number for row in rows[1:]) and rows[0].made is not None

    def find_changed(self, change_id: str) -> list[str]:
        """Return the visible notes that a change of many has changed, the last one first."""
        found = self._cache.versions.find_changed(change_id)
        return [one for one in found if self._cache.notes.etag(one) is not None]

    def find_restorable(self, change_id: str) -> set[str]:
        """Return the notes that an undo of a change of many can bring back, if nothing has followed in them."""
        versions = self._cache.versions
        if self._kind is Versions.BY_ETAG:
            return {*versions.find_changed(change_id)}
        return versions.find_restorable(change_id)

    def is_changed_by(self, note_id: str, change_id: str) -> bool:
        """Tell whether the last write of a note belongs to this change of many."""
        rows = self._cache.versions.of(note_id)
        return bool(rows) and rows[0].change_id == change_id

    def has_moved(self, note_id: str, change_id: str) -> bool:
        """Tell whether a change of many notes has moved this one to another path."""
        rows = [one for one in self._cache.versions.of(note_id) if one.change_id == change_id]
        kept = [self._cache.versions.get(note_id, one.local_version) for one in rows]
        titles = [one[1].title or "" for one in kept if one is not None and one[1] is not None]
        return self._store.traits.ids.paths and any("/" in title for title in titles)

    async def read_before(self, note_id: str, change_id: str) -> Version:
        """Return what the writes of a change of many have replaced in a note.

        Raises ``VersionConflict`` if anything came after them, or between them and did not take them back, ``InvalidRequest``
        if it is not kept.
        """
        note = self._cache.notes.get(note_id)
        rows = [one for one in self._cache.versions.of(note_id) if not one.removed]
        writes = [row for row in rows if row.change_id == change_id]
        if note is None or not writes:
            raise _nothing_to_undo(note_id)
        run, now = list[NoteVersion](), self._cache.notes.etag(note.id)
        for row in rows:
            if row.change_id != change_id or row.made != now:
                break
            run.append(row)
            now = row.etag
        # defence: bulk-undo-stops-at-later-change
        if len(run) < len(writes) and not await self._is_same(note.id, run[-1:], writes[-1]):
            raise _changed_since(note_id)
        found = await self._read_kept(note.id, run[-1])
        if self._store.traits.ids.paths:
            kept = (self._cache.versions.get(note.id, row.local_version) for row in reversed(run))
            titles = [one[1].title for one in kept if one is not None and one[1] is not None]
            place = next((one for one in titles if one and "/" in one), found.content.title)
            found = replace(found, content=replace(found.content, title=place))
        return found

    async def _is_same(self, note_id: str, last: list[NoteVersion], first: NoteVersion) -> bool:
        """Tell whether two versions say the same; ``last`` may be empty."""
        kept = [await self._read_kept(note_id, row) for row in last]
        return bool(kept) and kept[0].content == (await self._read_kept(note_id, first)).content

    async def _read_kept(self, note_id: str, row: NoteVersion) -> Version:
        """Return a version with what it said; its title may be the path that the note had. Raises ``InvalidRequest``."""
        kept = self._cache.versions.get(note_id, row.local_version)
        if kept is None or (kept[1] is None and self._kind is not Versions.BY_ETAG):
            raise _nothing_to_undo(note_id)  # its text had no room
        if kept[1] is None:
            return await self.read(note_id, row.etag)
        found = self._kept_version(row, kept[1], self._cache.versions.makers(note_id))
        return replace(found, content=kept[1])

    async def since(self, note_id: str, *, client: str | None, most: int) -> list[Version]:
        """Return what came after the last save of ``client``, newest first, at most ``most`` versions."""
        row = _last_of(self._cache.versions.of(note_id), client)
        found: list[Version] = []
        async with aclosing(self.walk(note_id)) as walk:
            async for version in walk:
                if row is None or version.etag in (row.made, row.etag) or len(found) == most:
                    break
                found.append(version)
        return found

    def _present(self, note: Note, base: Revision, makers: Makers) -> Version:
        by_etag = self._kind is Versions.BY_ETAG
        name = base.etag if by_etag else str(note.local_version)
        return Version(
            name,
            base.etag,
            base.content,
            base.modified_at,
            makers.of(base.etag, number=note.local_version),
            present=True,
            server_version=base.server_version,
        )

    def _kept(
        self, note_id: str, makers: Makers, *, below: Version | None = None
    ) -> Iterator[Version]:
        """Yield the versions whose texts are here, newest first; one text is read at a time.

        ``below``: where the store counts revisions, only those that are older than this one.
        """
        for row in self._cache.versions.of(note_id):
            number = row.server_version or 0
            if self._kind is Versions.BY_ETAG and below and number >= (below.server_version or 0):
                continue
            found = self._cache.versions.get(note_id, row.local_version)
            if found is not None and found[1] is not None:
                yield self._kept_version(row, found[1], makers)

    def _is_older(self, one: Version, kept: Version) -> bool:
        """Tell whether a version that the store lists comes after a kept one."""
        if self._kind is Versions.BY_ETAG:
            return (one.server_version or 0) < (kept.server_version or 0)
        return one.modified_at <= kept.modified_at

    async def _listed(
        self, note_id: str, newest: str, makers: Makers
    ) -> AsyncGenerator[Version | None]:
        """Yield what the store keeps, newest first; None in the place of the first version that the rules hide, and no more."""
        if self._kind is Versions.NONE:
            return
        store, place = cast("VersionedStore", self._store), newest  # its trait says so
        while True:
            page = await store.list_versions(note_id, before=place, limit=LIMIT)
            for revision in page.revisions:
                # defence: hidden-version-by-its-tags -_hides
                if self._cache.notes.get(note_id) is None or self._hides(revision):
                    yield None
                    return
                yield _listed_version(revision, makers)
            if page.more is None:
                return
            place = page.more

    async def _find_listed(
        self, note_id: str, newest: str, etags: list[str], makers: Makers
    ) -> Version | None:
        """Return the version that the store keeps under one of these etags, or that is kept here since the store dropped it."""
        # defence: nothing-before-hidden
        if self._has_rules:  # a newer one may be hidden: then none before is shown
            async with aclosing(self._listed(note_id, newest, makers)) as listed:
                async for one in listed:
                    if one is None or one.etag in etags:
                        return one
        else:
            for etag in dict.fromkeys(etags):
                try:
                    return _listed_version(await self._store.get(note_id, etag=etag), makers)
                except NoteNotFound:
                    continue
        if self._kind is not Versions.BY_ETAG:
            return None
        kept = self._kept(note_id, makers)
        return next((one for one in kept if one.etag in etags), None)

    def _kept_version(self, row: NoteVersion, content: Content, makers: Makers) -> Version:
        named = self._without_place(content)
        by_etag = self._kind is Versions.BY_ETAG
        return Version(
            row.etag if by_etag else str(row.local_version),
            row.etag,
            named,
            row.modified_at,
            makers.of(row.etag, number=row.local_version),
            removed=row.removed,
            moved=named != content,
            server_version=row.server_version,
        )

    def _without_place(self, content: Content) -> Content:
        """Return the content with the name alone as its title: in a store with paths that may be the path it had."""
        if not self._store.traits.ids.paths or content.title is None:
            return content
        return replace(content, title=content.title.rpartition("/")[2])

    @property
    def _has_rules(self) -> bool:
        return self._cache.notes.visibility.rules.has_rules

    def _hides(self, revision: Revision) -> bool:
        return self._cache.notes.visibility.find_rule(revision) is not None


def _last_of(rows: list[NoteVersion], client: str | None) -> NoteVersion | None:
    """Return what the last save of ``client`` (None: of any program) has replaced; ``rows``: newest first."""
    return next((row for row in rows if client is None or row.replaced_by == client), None)


def _listed_version(revision: Revision, makers: Makers) -> Version:
    return Version(
        revision.etag,
        revision.etag,
        revision.content,
        revision.modified_at,
        makers.of(revision.etag),
        revision.tags_understood,
        server_version=revision.server_version,
    )


def _number(name: str) -> int:
    """Return the number that a name may be; 0 is none."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= _LONGEST_NUMBER
    return int(name) if is_number else 0


def _changed_since(note_id: str) -> VersionConflict:
    return VersionConflict(
        "The note has changed since that save; nothing was undone.",
        subcategory="changed_since",
        details={"id": note_id},
        resolution_hint="Action `history` shows what came; ask the user before `restore_version` drops it.",
    )


def _nothing_to_undo(note_id: str) -> InvalidRequest:
    return InvalidRequest(
        "There is no change to this note to undo: none was saved from here, or it is kept no more.",
        subcategory="nothing_to_undo",
        details={"id": note_id},
        resolution_hint="Action `history` lists what can be restored.",
    )
