"""Start, inspect and disturb a simulated Trilium server.

It also acts as the user who edits the same notes in Trilium's own window.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import formatdate

from notarium_devtools.http_faults import Faults
from notarium_devtools.http_server import Logged, Request, Response, Server
from notarium_devtools.trilium.api import Etapi
from notarium_devtools.trilium.bodies import NoAnswer
from notarium_devtools.trilium.document import ROOT, Document
from notarium_devtools.trilium.parts import Parts
from notarium_devtools.trilium.records import Note
from notarium_devtools.trilium.versions import VERSIONS

_FOREVER = 3600.0


class TriliumSimulator:
    """Simulate one server of a version, with a password and one token to begin with."""

    def __init__(
        self,
        version: str = "0.102.1",
        *,
        password: str = "correct horse battery staple",  # noqa: S107 - opens nothing but this
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.password = password
        self.faults = Faults()
        traits = VERSIONS[version]
        self.document = Document(clock, traits)
        self.etapi = Etapi(self.document, traits, password, Parts(self.document, traits))
        self.token = self.etapi.issue_token()
        self.before_request: Callable[[Request], None] = lambda _request: None
        """Called before each request is answered: a person acts between two of our requests."""
        self._server = Server(self, self.faults)
        self._last = 0.0

    # As a person

    def write(
        self, note_id: str, title: str, content: str, *, kind: str = "text", mime: str = "text/html"
    ) -> Note:
        """Create a note below the root, or overwrite its title and content."""
        note = self.document.notes.get(note_id)
        if note is None:
            note = self.document.create(note_id, title, kind, mime, content.encode())
            # Not looked for: many notes are written in a row.
            last = 10 * len(self.document.branches)
            self.document.place(note_id, ROOT, position=last)
        else:
            note.title = title
            self.document.set_content(note, content.encode())
            self.document.touch(note)
        # Dates rise, also where the clock is not finer than a millisecond.
        self._last = note.changed = max(note.changed, self._last + 0.001)
        return note

    def set_labels(self, note_id: str, *names: str) -> None:
        """Give a note exactly these labels, in this order."""
        for one in self.document.owned(note_id):
            del self.document.attributes[one.id]
        for name in names:
            self.document.set_attribute(self.document.make_id(), note_id, "label", name, "")

    def protect(self, note_id: str) -> None:
        """Protect a note, as a person does in a protected session."""
        note = self.document.notes[note_id]
        note.protected = True
        self.document.touch(note)

    # On the wire

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:PORT``. Valid once it serves."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def requests(self) -> list[Logged]:
        """Return every request so far, in the order they were finished."""
        return list(self._server.log)

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self._server.log.clear()

    def stop_listening(self) -> None:
        """Simulate a lost network: connections are cut and new ones refused, on the same port."""
        self._server.refuse()

    async def respond(self, request: Request) -> Response:
        """Answer a request; one that the server would never answer waits for an hour."""
        self.before_request(request)
        if self.document.ended:
            return Response(503)
        try:
            answer = await self.etapi.respond(request)
            date = formatdate(self.document.clock(), usegmt=True)
            return replace(answer, headers=(*answer.headers, ("Date", date)))
        except NoAnswer:
            await asyncio.sleep(_FOREVER)
            raise

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[TriliumSimulator]:
        """Serve from the running event loop while the block lasts."""
        self._server.hold_port()
        await self._server.listen()
        try:
            yield self
        finally:
            await self._server.stop()
