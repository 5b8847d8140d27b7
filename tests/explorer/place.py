"""Keep the notes of a run: the store that servers reach, and another device that writes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from explorer.broken import all_words
from explorer.choices import HIDING_PROPERTY, NOT_UNDERSTOOD, way_to_hide
from explorer.editors import added_below
from explorer.wire import UNCLEAR, WiredClient
from mcp_notarium.domain.note import Content
from mcp_notarium.stores.contract import Store, Traits, Versions
from mcp_notarium.stores.kind import Ids
from support.memory_store import Fields, MemoryStore
from support.simplenote_settings import simplenote

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache

NOTHING = "nothing"
_AHEAD = 0.00037
"""Seconds that the clock of another device is ahead by; no number of events and of pauses takes as long."""


def is_hidden(fields: Fields) -> bool:
    """Tell whether a note of a store in memory is hidden, in worlds that hide any."""
    by_property = HIDING_PROPERTY in fields.get("properties", ())
    return by_property or "hidden" in fields["tags"] or bool(fields.get(UNCLEAR))


class Place(Protocol):
    """Describe what holds the notes of a run."""

    traits: Traits
    repeats: bool
    """What an index remembers of it is the same in every run."""
    settings: dict[str, Any]
    """The two fields of a configuration that name the store."""

    def acts(self) -> dict[str, Callable[[str, str], None]]:
        """Return what another device may do to a note: name to a function of its id and a new word."""

    def remote(self, process: Process, cache: Cache) -> Store:
        """Return a client of the store for a process."""

    def requests(self) -> dict[str, int]:
        """Return how many requests each process has sent."""

    def ids(self) -> list[str]:
        """Return the ids of all notes, in order, hidden ones too."""

    def contents(self) -> dict[str, Content]:
        """Return all notes, as a server without rules shows them."""

    def is_clear(self, note_id: str) -> bool:
        """Tell whether all tags of a note can be understood."""

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """Let another device make a note."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryPlace:
    """A note service in memory, of any row of the contract."""

    repeats = True

    def __init__(self, world: World, traits: Traits) -> None:
        self._world = world
        self.traits = traits
        self.settings: dict[str, Any] = simplenote("user@example.org")
        self.store = MemoryStore()
        self._gone: list[str] = []
        """Ids of the notes that another device has removed."""
        self._clients: list[WiredClient] = []

    def acts(self) -> dict[str, Callable[[str, str], None]]:  # noqa: C901, PLR0915 - one function an act
        """See ``Place.acts``."""
        store, world, gone = self.store, self._world, self._gone

        def edit(note_id: str, change: Callable[[str], str]) -> None:
            store.edit(note_id, change, now=self._others_clock())

        def rewrite(note_id: str, word: str) -> None:
            world.oracle.forgive(store.text(note_id))
            edit(note_id, lambda _text: f"{word} other\n")

        def trash(note_id: str, _word: str) -> None:
            fields = store.fields(note_id) | {"trash": True, "modified": self._others_clock()}
            store.overwrite(note_id, fields)

        def remove(note_id: str, _word: str) -> None:
            if len(store.ids()) > 1:
                world.oracle.forgive(all_words(store.contents()[note_id]))
                gone.append(note_id)
                store.remove(note_id)

        def bring_back(note_id: str, word: str) -> None:
            one = gone[-1] if gone and note_id in store.ids() else note_id
            if one not in store.ids():
                self.put(one, f"{word}\nback\n", tags=world.plan.shows)
                world.oracle.is_back(one, at=world.loop.time())

        def rename(note_id: str, word: str) -> None:
            world.oracle.left_names.append(note_id)
            store.rename(note_id, f"{word}.md")

        def tag(note_id: str, word: str) -> None:
            fields = store.fields(note_id)
            given = {"tags": [*fields["tags"], word], "modified": self._others_clock()}
            store.overwrite(note_id, fields | given)

        def save_again(note_id: str, _word: str) -> None:
            before = store.etag(store.kept(note_id), store.kept(note_id).head)
            store.overwrite(note_id, store.fields(note_id) | {"modified": self._others_clock()})
            if store.etag(store.kept(note_id), store.kept(note_id).head) != before:
                world.oracle.saved_again[note_id] += 1

        def take_name(_note_id: str, word: str) -> None:
            if left := world.oracle.take_name(self.ids()):
                self.put(left, f"{word}\nin its place\n")

        acts: dict[str, Callable[[str, str], None]] = {
            "edit the top": lambda one, word: edit(one, lambda text: f"{word}\n{text}"),
            "edit the end": lambda one, word: edit(one, lambda text: added_below(text, word)),
            "rewrite": rewrite,
            "remove": remove,
            "forget cursors": lambda _one, _word: store.forget_cursors(),
            "forget versions": lambda one, _word: self._forget_versions(one),
        }
        if world.plan.hides:
            acts["hide the note"] = self._hide
        if self.traits.trash:
            acts["trash"] = trash
        if self.traits.ids.named:
            acts["rename"] = rename
        if world.plan.shows:
            acts["take a tag"] = self._take_tag
        if self.traits.tags:
            acts["give a tag"] = tag
        if self.traits.ids is Ids.RANDOM and self.traits.versions is Versions.NONE:
            acts["bring a note back"] = bring_back
        acts["save it as it is"] = save_again
        if self.traits.ids.named:
            acts["take a name that was left"] = take_name
        if world.plan.hides:
            acts["show the note again"] = self._show_again
        return acts

    def _take_tag(self, note_id: str, _word: str) -> None:
        """Take one of two tags: the other one goes on to show the note."""
        fields = self.store.fields(note_id)
        if len(fields["tags"]) > 1:
            self._world.oracle.forgive(fields["tags"][-1])
            kept = {"tags": fields["tags"][:-1], "modified": self._others_clock()}
            self.store.overwrite(note_id, fields | kept)

    def _others_clock(self) -> float:
        """Return the time of another device: it agrees with no server's, also where time stands still."""
        return self._world.clock.time() + _AHEAD

    def _forget_versions(self, note_id: str) -> None:
        self._world.oracle.forgetful = True
        self._world.oracle.lose_versions(note_id)
        self.store.forget_versions(note_id)

    def _hide(self, note_id: str, word: str) -> None:
        """Add a word to a note that no agent may see, and what hides it: a tag, a property, or tags that nobody understands."""
        if len(self.store.ids()) > 2:
            fields = self.store.fields(note_id)
            ways = (NOT_UNDERSTOOD, *{HIDING_PROPERTY}.intersection(self.traits.properties))
            way = way_to_hide(self._world.chooser, note_id, *ways)
            hidden: dict[str, Any] = {"tags": [*fields["tags"], "hidden"]}
            if way == HIDING_PROPERTY:
                hidden = {"properties": [*fields.get("properties", ()), HIDING_PROPERTY]}
            elif way == NOT_UNDERSTOOD:
                hidden = {UNCLEAR: True}
            hidden["text"] = f"{fields['text']}{self._world.secret(word)}\n"
            dated = {"modified": self._others_clock()}
            self.store.overwrite(note_id, fields | hidden | dated)

    def _show_again(self, note_id: str, _word: str) -> None:
        """Take what hides a note from it, and the words that no agent may see."""
        fields = self.store.fields(note_id)
        if is_hidden(fields):
            hidden = self._world.oracle.hidden
            lines = [one for one in fields["text"].split("\n") if not {*one.split()} & hidden]
            tags = [one for one in fields["tags"] if one != "hidden"]
            shown = {"text": "\n".join(lines), "tags": tags, "modified": self._others_clock()}
            if HIDING_PROPERTY in (held := fields.get("properties", ())):
                shown["properties"] = [one for one in held if one != HIDING_PROPERTY]
            fields.pop(UNCLEAR, None)
            self.store.overwrite(note_id, fields | shown)

    def is_clear(self, note_id: str) -> bool:
        """See ``Place.is_clear``."""
        return note_id not in self.store.ids() or not self.store.fields(note_id).get(UNCLEAR)

    def remote(self, process: Process, _cache: Cache) -> Store:
        """See ``Place.remote``."""
        world = self._world
        client = WiredClient(
            self.store,
            process=process,
            loop=world.loop,
            chooser=world.chooser,
            note=world.note,
            traits=self.traits,
            calm=lambda: world.calm,
            down=lambda: bool(world.down),
            meddle=world.meddle,
            owes=world.oracle.promise_while,
            promises=world.oracle.promise,
            covers=world.oracle.overwrite,
            sends=world.oracle.see_push,
            deletes=lambda one: world.oracle.forgive(client.words(one)),
        )
        place = process.place

        def step(what: str) -> None:
            if what == "has flushed its log" and not process.missed_commit:
                client.unrecorded = ""
            place(what)

        process.place = step  # type: ignore[method-assign]
        process.ends.append(lambda: world.oracle.forgive(client.unrecorded))
        self._clients.append(client)
        return client  # type: ignore[return-value]

    def changes(self) -> int:
        """Return how often a note has changed."""
        return len(self.store._log)

    def requests(self) -> dict[str, int]:
        """See ``Place.requests``."""
        return {one.process.name: one.requests for one in self._clients}

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(self.store.ids())

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``."""
        return self.store.contents()

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        self.store.put(name, text, tags=tags, now=self._world.clock.time())

    def close(self) -> None:
        """See ``Place.close``."""
