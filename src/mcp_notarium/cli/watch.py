"""Run ``mcp-notarium watch``: what assistants do now, and what waits for the person, until it is left.

``--json`` prints each act and each question as a line of JSON as it comes, for a script.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import sys

from mcp_notarium.cli import approve, command_context, terminal
from mcp_notarium.cli.edit import edit_note
from mcp_notarium.cli.history import open_synced, person_config
from mcp_notarium.cli.signals import note_change, raise_if_stopped
from mcp_notarium.cli.terminal import read_line, talk
from mcp_notarium.cli.watch_source import WatchSource
from mcp_notarium.config import Config
from mcp_notarium.errors import NotariumError

_POLL_SECONDS = 0.5


class ScreenFailed(NotariumError):
    """The screen met an error that it has no words for."""

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
