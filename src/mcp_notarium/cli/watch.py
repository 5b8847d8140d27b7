"""Run ``mcp-notarium watch``: what assistants do now, and what waits for the person, until it is left.

``--json`` prints each act and each question as a line of JSON as it comes, for a script.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict

from mcp_notarium.cli import command_context, terminal
from mcp_notarium.cli.history import open_synced, person_config
from mcp_notarium.cli.watch_source import WatchSource

_POLL_SECONDS = 0.5


async def _watch(args: argparse.Namespace) -> int:
    if not args.json:
        terminal.require_terminal(
            "Run it in a terminal, or print lines of JSON with `mcp-notarium watch --json`."
        )
    config = person_config(args)
    async with open_synced(config) as app:
        source = WatchSource(app, account=terminal.account or config.store.title)
        if args.json:
            return await _print(source)
        from mcp_notarium.cli.watch_screen import WatchScreen  # noqa: PLC0415 - textual, for this alone

        await WatchScreen(source).run_async()
    return 0


async def _print(source: WatchSource) -> int:
    told: set[str] = set()
    while True:
        for act in source.feed.poll():
            _say(act.as_json())
        waiting = {one.id: one for one in source.waiting()}
        for one in waiting.values():
            if one.id not in told:
                _say({"type": "waiting", **asdict(one)})
        told = {*waiting}
        await asyncio.sleep(_POLL_SECONDS)


def _say(facts: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(facts, ensure_ascii=False) + "\n")
    sys.stdout.flush()


COMMANDS = {"watch": (command_context.options("--json"), _watch)}
