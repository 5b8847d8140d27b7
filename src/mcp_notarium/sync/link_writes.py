"""Let the links of other notes and the cards of canvases follow a renamed note, and cards a moved file, also after a kill.

What is to be done is on the disk before the note is renamed. It is done once the index has the note under its new
path only, and forgotten if the note keeps its old one. A canvas is read right before its paths are changed: what anybody
else has written there stays, and doing it twice changes nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, cast

from mcp_notarium.domain.note import PendingWrite, WriteKind
from mcp_notarium.errors import CacheError, OutcomeUnknown, StoreError, StoreRejected
from mcp_notarium.markup.obsidian_links import Changes, Link, rewrite_links
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.journal import Journal

if TYPE_CHECKING:
    from mcp_notarium.stores.extensions import FolderStore

MOST_TRIES = 10
"""Cycles in which a canvas that the disk refuses is tried again."""


def make_link_writes(
    cache: Cache,
    store: Store,
    journal: Journal,
    renaming: PendingWrite,
    links: Mapping[str, Changes],
) -> list[PendingWrite]:
    """Make an entry to follow ``renaming`` for each note with ``links`` that can take one now."""
    made = []
    for note_id, changes in links.items():
        base = cache.notes.base(note_id)
        if base is None or journal.in_flight(note_id):
            continue
        content = replace(base.content, text=rewrite_links(base.content.text, changes))
        with suppress(StoreRejected):
            entry = journal.make(
                note_id=note_id,
                kind=WriteKind.UPDATE,
                content=content,
                over=base,
                copied=True,  # a link is not worth a conflict copy
                after=renaming.write_id,
                change_id=renaming.change_id,
            )
            stored = store.revision_of(note_id, entry.body).content
            if stored != base.content and journal.sees(note_id, stored):
                made.append(entry)
    return made


@dataclass(frozen=True, slots=True)
class CardMove:
    """Hold which canvases are to show a note, or another file, at its new path."""

    paths: Sequence[str]
    """Those that it had: a card that waited for an earlier renaming shows an older one."""
    new: str
    canvases: Mapping[str, Sequence[tuple[str, bool, str | None]]]
    """Changes to links in their texts: target, whether in a Markdown link, and the new target."""
    owner: str
    """The process that works on it; '': none."""
    tries: int = 0
    """Number of times that the disk has refused the canvases."""


@dataclass(slots=True)
class CardsMoved:
    """Hold what became of the canvases of a moved note."""

    canvases: set[str] = field(default_factory=set)
    """Those that show it at its new path."""
    waiting: set[str] = field(default_factory=set)
    """Those that wait for a later cycle."""


class CardMoves:
    """Record, do and finish such moves, in a store with folders; others have no canvases."""

    def __init__(
        self, cache: Cache, store: Store, *, journal: Journal, on_step: Callable[[str], None]
    ) -> None:
        self._cache = cache
        self._folders = cast("FolderStore", store)  # no other store gives them cards
        self._journal = journal
        self._on_step = on_step
        self._active: set[str] = set()

    @asynccontextmanager
    async def following(
        self, old: str, new: str, canvases: Mapping[str, Changes]
    ) -> AsyncIterator[CardsMoved]:
        """Move cards after the renaming within; what is yielded holds in the end what became of them."""
        said = {
            one: [(link[0], link[1], target) for link, target in links.items()]
            for one, links in sorted(canvases.items())
        }
        move = CardMove([old, *self.find_former_paths(old)], new, said, self._journal.owner)
        moved = CardsMoved()
        key = uuid.uuid4().hex
        self._active.add(key)
        try:
            # The flush of the renaming's own entry takes this one to the disk, too.
            self._put(key, move)
            try:
                yield moved
            except Exception as error:
                if not isinstance(error, OutcomeUnknown):
                    with suppress(CacheError):
                        self._cache.sync_state.drop_card_move(key)
                raise
            moved.waiting.update(move.canvases)  # a later cycle does it
            with suppress(StoreError, CacheError):
                await self._cache.flush()  # others may read the note for as long as cards are moved
                done = await self._settle(key, move)
                if done is not None:
                    moved.canvases, moved.waiting = done.canvases, done.waiting
        finally:
            self.release(key)

    def release(self, ended: str = "") -> None:
        """Let any process finish the moves that no task works on here, also where the disk has refused that before."""
        self._active.discard(ended)
        with suppress(CacheError):
            for key, move in self._moves().items():
                if move.owner == self._journal.owner and key not in self._active:
                    self._put(key, replace(move, owner=""))

    def _moves(self) -> dict[str, CardMove]:
        found = self._cache.sync_state.card_moves()
        return {key: CardMove(**json.loads(said)) for key, said in found}

    def _put(self, key: str, move: CardMove) -> None:
        self._cache.sync_state.add_card_move(key, json.dumps(asdict(move)))

    def find_former_paths(self, note_id: str) -> list[str]:
        """Return former paths of a note that cards may show until any process, at any moment, finishes a move."""
        moves = (move for move in self._moves().values() if self._find(move) == note_id)
        return [*dict.fromkeys(path for move in moves for path in self._former_paths(move))]

    def find_waiting_links(self, note_id: str) -> dict[str, dict[Link, str]]:
        """Return what links in the texts of each canvas become when such moves of a note are finished."""
        waiting: dict[str, dict[Link, str]] = {}
        for move in self._moves().values():
            for one in move.canvases if self._find(move) == note_id else ():
                links = self._find_links(move, one, note_id)
                known = {link: then for link, then in links.items() if then is not None}
                waiting.setdefault(one, {}).update(known)
        return waiting

    def are_busy(self) -> bool:
        """Tell whether another process, or another task of this one, works on a move."""
        free, moves = self._journal.may_take_from, self._moves().items()
        return any(key in self._active or not free(move.owner) for key, move in moves)

    async def finish(self) -> None:
        """Finish the recorded moves that no running process works on. Raises ``StoreError``, ``CacheError``."""
        for key in self._moves():
            if move := self._claim(key):
                try:
                    await self._settle(key, move)
                finally:
                    self.release(key)

    def _claim(self, key: str) -> CardMove | None:
        """Take a move for one task of this process; None: it is done, or somebody works on it.

        A second one could meet a canvas that the first is about to put back, and take it for done.
        """
        with self._cache.transaction():
            move = self._moves().get(key)
            if move is None or key in self._active or not self._journal.may_take_from(move.owner):
                return None
            move = replace(move, owner=self._journal.owner)
            self._put(key, move)
        self._active.add(key)
        return move

    async def _settle(self, key: str, move: CardMove) -> CardsMoved | None:
        """Do a move if the note was renamed, and forget it, but for what the disk refuses; None: that is not known yet.

        The cards show the note where it is by now, also if it was renamed once more since, or got its old path back.
        """
        shows, place = dict[str, bool | None](), ""
        while True:
            here, files = self._find(move), set[str]()
            if here is None:
                files = await self._folders.find_files([*move.paths, move.new])
                here = move.new if move.new in files else self._find(move)
            pending = {write.note_id for write in self._cache.journal.in_flight()}
            if pending & {*move.paths, move.new, here}:
                return None
            if here is None or here == place:
                break
            place, shows = here, {}
            self._on_step("cards")
            for before in self._former_paths(move, files):
                left = {
                    one: self._find_links(move, one, here)
                    for one in move.canvases
                    if shows.get(one, True)
                }
                shows |= await self._folders.move_cards(left, old=before, new=here)
            self._on_step("cards moved")
        moved = CardsMoved({one for one, done in shows.items() if done})
        refused = {one: move.canvases[one] for one, done in shows.items() if done is None}
        if refused and move.tries < MOST_TRIES:
            moved.waiting.update(refused)
            self._put(key, replace(move, canvases=refused, tries=move.tries + 1))
        else:
            self._cache.sync_state.drop_card_move(key)
        return moved

    def _former_paths(self, move: CardMove, files: Collection[str] = ()) -> Iterator[str]:
        """Yield the paths that no note has now, nor one of these files."""
        paths = (one for one in (*move.paths, move.new) if one not in files)
        return (one for one in paths if self._cache.notes.etag(one) is None)

    def _find_links(self, move: CardMove, canvas: str, here: str) -> Changes:
        """Return what links in the texts of a canvas become, if the note is at ``here`` by now."""
        links = move.canvases[canvas]
        if here == move.new:
            return {(target, form): then for target, form, then in links}
        targets = [one for target, _, then in links for one in (target, then) if one is not None]
        return self._cache.notes.links.find_moved(canvas, targets)

    def _find(self, move: CardMove) -> str | None:
        """Return the path of the note now; None if it is gone, was never renamed, or is another file."""
        notes = self._cache.notes
        return move.new if notes.etag(move.new) is not None else notes.names.current(move.new)
