"""Run ``mcp-notarium watch``: what assistants do now, and what waits for the person, until it is left.

``--json`` prints each act and each question as a line of JSON as it comes, for a script.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from mcp_notarium.cli import approve, command_context, terminal
from mcp_notarium.cli import history as history_commands
from mcp_notarium.cli.activity_feed import ActivityFeed
from mcp_notarium.cli.edit import edit_note
from mcp_notarium.cli.history import open_synced, person_config
from mcp_notarium.cli.signals import note_change, raise_if_stopped
from mcp_notarium.cli.terminal import read_line, talk
from mcp_notarium.config import Config
from mcp_notarium.errors import NotariumError
from mcp_notarium.storage.approval_table import Approval, ApprovalTable
from mcp_notarium.tools import history
from mcp_notarium.tools.requests import ManageRequest

if TYPE_CHECKING:
    from mcp_notarium.app import App

_POLL_SECONDS = 0.5


class ScreenFailed(NotariumError):
    """Report that the screen met an error that it has no words for."""

    resolution_hint = "Start it again, or use `mcp-notarium approve` and `mcp-notarium report`."

    def __init__(self) -> None:
        super().__init__("the screen ended with an error")


def _watch(args: argparse.Namespace) -> int:
    if args.json:
        return asyncio.run(_print(person_config(args)))
    terminal.require_terminal(
        "Run it in a terminal, or print lines of JSON with `mcp-notarium watch --json`."
    )
    config = person_config(args)
    while note_id := asyncio.run(_show(config)):
        _edit(config, args, note_id)
    return 0


async def _show(config: Config) -> str | None:
    """Show the screen until it is left; return the id of the note that the person wants to edit."""
    from mcp_notarium.cli.watch_screen import WatchScreen  # noqa: PLC0415 - textual, for this alone

    async with open_synced(config) as app:
        source = WatchSource(app, account=terminal.account or config.store.title)
        screen = WatchScreen(source)
        note_id = await screen.run_async()
        if screen.broken is not None:  # the way out of the account says what became of it
            raise screen.broken
        if screen.return_code:
            raise ScreenFailed
        return note_id


def _edit(config: Config, args: argparse.Namespace, note_id: str) -> None:
    asked = copy.copy(args)
    asked.note, asked.command_name, asked.yes, asked.fresh = [note_id], "edit", False, False
    try:
        config.policy.require_use("save")
        edit_note(config, asked)
    except NotariumError as error:
        talk(f"{error.message} {error.person_hint or ''}")
    talk("Enter: back to the screen ")
    read_line()


async def _print(config: Config) -> int:
    told: set[str] = set()
    note_change("It only reads: nothing was changed by it.")
    async with open_synced(config) as app:
        source = WatchSource(app, account="")
        while True:
            for act in source.feed.poll():
                _say(act.as_json())
            waiting = {one.id: one for one in source.waiting()}
            for one in waiting.values():
                if one.id not in told:
                    _say({"type": "waiting"} | approve.facts_of(one))
            told = {*waiting}
            await asyncio.sleep(_POLL_SECONDS)
            raise_if_stopped()


def _say(facts: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


COMMANDS = {"watch": (command_context.options("--json"), _watch)}


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
