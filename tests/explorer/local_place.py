"""Keep the notes of a run in the local notebook: tables of the account's own database.

Nothing is sent, so nothing gets lost on the way. What can go wrong is the end of a process or of the power at
any commit, and another process that writes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from explorer.broken import all_words
from explorer.editors import added_below
from explorer.machine import Killed
from mcp_notarium.domain.note import Content
from mcp_notarium.stores.contract import Store
from mcp_notarium.stores.local.store import LocalStore
from support.local_notebook import OtherProcess, local
from support.sync_rig import open_cache

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache


_FILES = """
SELECT note_id || '/' || name, data FROM notebook_files JOIN notebook_file_parts USING (digest) WHERE discarded_at IS NULL
"""


class LocalPlace:
    """The notebook of one computer. The other device is a process of its own there, which may be killed, too."""

    repeats = False

    traits = LocalStore.traits

    def __init__(self, world: World) -> None:
        self._world = world
        self.settings: dict[str, Any] = local()
        self.opens: Callable[[], Cache] | None = None
        """Opens the database, where that is no matter of this place."""

    def acts(self) -> dict[str, Callable[[str, str], None]]:
        """See ``Place.acts``."""
        oracle = self._world.oracle

        def edit(note_id: str, change: Callable[[str], str]) -> None:
            with self._other() as other:
                other.edit(note_id, change)

        def rewrite(note_id: str, word: str) -> None:
            with self._other() as other:
                oracle.forgive(other.get(note_id).content.text)
                other.edit(note_id, lambda _text: f"{word} other\n")

        def trash(note_id: str, _word: str) -> None:
            with self._other() as other:
                held = other.get(note_id).content
                other.put(note_id, held.text, tags=held.tags, trash=not held.trash)

        def remove(note_id: str, _word: str) -> None:
            with self._other() as other:
                if len(other.contents()) > 1:
                    oracle.tags.dropped.add(note_id)  # it goes to the trash first, without them
                    oracle.forgive(all_words(other.get(note_id).content))
                    other.remove(note_id)

        def forget(_note_id: str, _word: str) -> None:
            with self._other() as other:
                other.forget_cursors()

        def hide(note_id: str, word: str) -> None:
            with self._other() as other:
                held = other.get(note_id).content
                if len(other.contents()) > 2:
                    text = added_below(held.text, self._world.secret(word))
                    other.put(note_id, text, tags=(*held.tags, "hidden"), trash=held.trash)

        def tag(note_id: str, word: str) -> None:
            with self._other() as other:
                held = other.get(note_id).content
                other.put(note_id, held.text, tags=(*held.tags, word), trash=held.trash)

        hides = {"hide the note": hide} if self._world.plan.hides else {}
        return {
            "edit the top": lambda one, word: edit(one, lambda text: f"{word}\n{text}"),
            "edit the end": lambda one, word: edit(one, lambda text: added_below(text, word)),
            "rewrite": rewrite,
            "trash": trash,
            "remove": remove,
            "forget cursors": forget,
            **hides,
            "give a tag": tag,
        }

    def _open(self) -> Cache:
        """Open the database under the rules of the servers: other rules would empty the index."""
        if self.opens is not None:
            return self.opens()
        rules = self._world.servers[0].policy.visibility
        return open_cache(self._world.machines[0].folder, rules, key=None)

    @contextmanager
    def _other(self) -> Iterator[OtherProcess]:
        """Start another process with a connection of its own; end it afterwards."""
        machine = self._world.machines[0]
        process = machine.start("another program")
        try:
            with process.running():
                cache = self._open()
                machine.watch(cache, process, is_refused=False)
                yield OtherProcess(cache)
                cache.close()
        except Killed:
            return
        finally:
            process.kill()

    def remote(self, process: Process, cache: Cache) -> Store:
        """See ``Place.remote``."""
        place = process.place

        def step(what: str) -> None:
            place(what)
            if what == "recorded":  # what the transaction is to hold is composed
                self._world.act_between(f"{process.name} stores")
                if process.dead:  # with the power
                    raise Killed

        process.place = step  # type: ignore[method-assign]
        return LocalStore(cache.database)

    def requests(self) -> dict[str, int]:
        """See ``Place.requests``: there are none."""
        return {}

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(self.contents())

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``."""
        for server in self._world.servers:
            if server.alive:
                return OtherProcess(server.app.cache).contents()
        cache = self._open()
        try:
            return OtherProcess(cache).contents()
        finally:
            cache.close()

    def files(self) -> dict[str, bytes]:
        """See ``FilesPlace.files``."""
        server = next(one for one in self._world.servers if one.alive)
        return {str(one): bytes(data) for one, data in server.app.cache.database.rows(_FILES)}

    def is_clear(self, _note_id: str) -> bool:
        """See ``Place.is_clear``: nobody hides any otherwise."""
        return True

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        with self._other() as other:
            other.put(name, text, tags=tags)

    def close(self) -> None:
        """See ``Place.close``."""
