"""Give ``watch`` what it shows and does: acts, questions that wait, notes, undo, the person's editor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_notarium.cli import history as history_commands
from mcp_notarium.cli.activity_feed import ActivityFeed
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.tools import history
from mcp_notarium.tools.requests import ManageRequest

if TYPE_CHECKING:
    from mcp_notarium.app import App


@dataclass(frozen=True, slots=True)
class Waiting:
    """Hold one question that waits for the person; ``diff`` shows what would change. Times are epoch seconds."""

    id: str
    client: str
    profile: str
    act: str
    note_id: str
    question: str
    diff: str
    asked_at: float
    expires_at: float


class WatchSource:
    """Read and change one account for ``watch``. One thread only."""

    def __init__(self, app: App, *, account: str) -> None:
        self._app = app
        self.account = account
        self.feed = ActivityFeed(app, since=_midnight())

    def waiting(self) -> Iterator[Waiting]:
        """Yield what waits, oldest first."""
        yield from ()

    def left_out(self) -> int:
        """Return how many questions were not kept, as too many waited."""
        return 0

    def read(self, note_id: str) -> tuple[str, str]:
        """Return title and text of a note; two empty texts if it is not here."""
        note = None
        with suppress(NoteNotFound):
            note = self._app.library.get(note_id)
        if note is None:
            return "", ""
        return history_commands.note_title(note.title, note.text), note.text

    async def decide(self, waiting_id: str, agrees: bool) -> str:  # noqa: FBT001 - an answer
        """Answer a question; return what to say of it."""
        raise NotImplementedError

    async def undo(self, note_id: str) -> str:
        """Take back the last change of a note; return what to say of it."""
        app = self._app
        app.config.policy.require_use("manage", "undo")
        note = app.library.get(note_id)
        request = ManageRequest(
            action="undo",
            id=note_id,
            local_version=None if note is None else note.local_version,
        )
        handle: Any = partial(history.undo, app, request)
        answer = await history_commands.recorded(app, "cli.undo", note_id, handle, yes=True)
        return f"{answer.status}. {answer.note}"

    async def edit(self, note_id: str) -> str:
        """Open a note in the person's editor; return what to say of it."""
        raise NotImplementedError


def _midnight() -> float:
    now = datetime.fromtimestamp(time.time()).astimezone()
    return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
