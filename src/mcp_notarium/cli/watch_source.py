"""Give ``watch`` what it shows and does: acts, questions that wait, notes, undo."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from mcp_notarium.cli import approve
from mcp_notarium.cli import history as history_commands
from mcp_notarium.cli.activity_feed import ActivityFeed
from mcp_notarium.storage.approval_table import Approval, ApprovalTable
from mcp_notarium.tools import history
from mcp_notarium.tools.requests import ManageRequest

if TYPE_CHECKING:
    from mcp_notarium.app import App


class WatchSource:
    """Read and change one account for ``watch``. One thread only."""

    def __init__(self, app: App, *, account: str) -> None:
        self._app = app
        self._approvals = ApprovalTable(app.cache.stored.database)
        self.account = account
        self.feed = ActivityFeed(app, since=_midnight())

    def waiting(self) -> Sequence[Approval]:
        """Return the questions that wait, oldest first."""
        return self._approvals.waiting(now=time.time())

    def left_out(self) -> int:
        """Return how many questions found no room since the last decision."""
        return self._approvals.refused()

    def read(self, note_id: str) -> tuple[str, str]:
        """Return title and text of a note; two empty texts if it is not here."""
        note = self._app.library.get(note_id)
        if note is None:
            return "", ""
        return history_commands.note_title(note.title, note.text), note.text

    def decide(self, approval: Approval, *, agrees: bool) -> str:
        """Answer a question; return what to say of it. Raises ``NothingWaits``."""
        app = self._app
        approve.decide(app.audit, app.cache.database, approval, agrees=agrees)
        return approve.said_of(agrees=agrees)

    async def undo(self, note_id: str) -> str:
        """Take back the last change of a note; return what to say of it."""
        app = self._app
        app.config.policy.require_use("manage", "undo")
        note = app.library.get(note_id)
        version = None if note is None else note.local_version
        request = ManageRequest(action="undo", id=note_id, local_version=version)
        asked = argparse.Namespace(command_name="undo", yes=True)  # the screen has asked
        answer = await history_commands.recorded(
            app, asked, note_id, partial(history.undo, app, request)
        )
        return f"{answer.status}. {answer.note}"


def _midnight() -> float:
    now = datetime.fromtimestamp(time.time()).astimezone()
    return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
