"""Tell which resources have changed, while a client is subscribed to any.

Another process may be the one that syncs, so the database is asked: every second whether anything was
written at all, and only then what of the subscribed was. A note that appears or goes has changed. A hidden
note is not in the index, so it never changes here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from mcp_notarium.errors import NotariumError
from mcp_notarium.tools import resources

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.protocol.app_holder import AppHolder

SECONDS = 1.0
"""Seconds between two looks."""
LISTING: Final = ""
"""Stands for the list of resources, which has no URI."""


class ChangeWatch:
    """Watch the resources of one connection. ``tell`` is given the URI of each that has changed."""

    def __init__(self, holder: AppHolder, tell: Callable[[str], Awaitable[None]]) -> None:
        self._holder = holder
        self._tell = tell
        self._watched: Counter[str] = Counter()
        self._states: dict[str, object] = {}
        self._stamp: object = None
        self._wanted = anyio.Event()

    @property
    def count(self) -> int:
        """Return how many resources are watched."""
        return len(self._watched)

    @contextmanager
    def watching(self, uris: Iterable[str]) -> Iterator[None]:
        """Watch these inside the ``with`` block."""
        uris = list(uris)
        self.add(uris)
        try:
            yield
        finally:
            self.remove(uris)

    def add(self, uris: Iterable[str]) -> None:
        """Watch these, as they are now."""
        new = [uri for uri in uris if uri not in self._watched]
        self._watched.update(uris)
        if (app := self._holder.opened) is not None and new:
            self._states |= _states(app, new)
        self._wanted.set()

    def remove(self, uris: Iterable[str]) -> None:
        """Forget these, once each."""
        self._watched.subtract(uris)
        self._watched = +self._watched
        self._states = {uri: self._states.get(uri) for uri in self._watched}
        if not self._watched:
            self._wanted = anyio.Event()

    async def keep_looking(self) -> None:
        """Watch until cancelled."""
        while True:
            await self._wanted.wait()
            await anyio.sleep(SECONDS)
            for uri in self._look():
                await self._tell(uri)

    def _look(self) -> list[str]:
        """Return what has changed since it was looked at last."""
        app = self._holder.opened
        try:
            if app is None or (stamp := (id(app), app.library.stamp())) == self._stamp:
                return []
            states = _states(app, self._watched)
        except NotariumError:  # a call will meet it as well, and say so
            return []
        changed = [uri for uri, state in states.items() if state != self._states.get(uri)]
        self._stamp, self._states = stamp, states
        return changed


def _states(app: App, uris: Iterable[str]) -> dict[str, object]:
    """Return for each resource a value that is another one when it has changed."""
    ids = {uri: resources.note_id_of(uri) for uri in uris}
    etags = app.library.etags([note_id for note_id in ids.values() if note_id is not None])
    states: dict[str, object] = {}
    for uri, note_id in ids.items():
        if note_id is not None:
            states[uri] = etags.get(note_id)
        elif uri == resources.TAGS:
            states[uri] = resources.tag_counts(app)
        else:
            states[uri] = resources.newest_notes(app)
    return states
