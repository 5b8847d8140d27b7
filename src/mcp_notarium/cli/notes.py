"""Find and sync the notes from a terminal: ``search``, ``list`` and ``sync``.

``search`` first brings the notes in step with the store, if that can be reached. What the policy hides stays hidden.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, console, signals
from mcp_notarium.cli.history import note_title, open_synced, person_config, record_read
from mcp_notarium.cli.terminal import print_data
from mcp_notarium.errors import InvalidRequest, LoginRequired, NotariumError
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report.words import counted
from mcp_notarium.search import parser
from mcp_notarium.stores.contract import Changes
from mcp_notarium.system import SYSTEM
from mcp_notarium.tools.list import check_query, explain
from mcp_notarium.tools.tags import spell_query
from mcp_notarium.tools.tasks import day_of

if TYPE_CHECKING:
    from mcp_notarium.storage.note_search import Found, Summary

_LONGEST_SYNC = 3600.0
_LOOK_SECONDS = 0.1
_MOST_ROWS = 1000


def _add_search_arguments(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("words", nargs="+", metavar="WORDS", help=parser.FILTERS)
    _add_row_arguments(arguments)


def _add_list_arguments(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("words", nargs="*", metavar="WORDS", help=parser.FILTERS)
    _add_row_arguments(arguments)


def _add_row_arguments(arguments: argparse.ArgumentParser) -> None:
    arguments.epilog = "The exit code is 0 without a hit, too; --json says how many there are."
    arguments.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
    command_context.options("--json")(arguments)


async def _search(args: argparse.Namespace) -> int:
    if not 0 < args.n <= _MOST_ROWS:
        raise InvalidRequest(
            f"-n wants a number from 1 to {_MOST_ROWS}", resolution_hint="Say how many to show."
        )
    async with open_synced(person_config(args)) as app:
        words = " ".join(args.words)
        typed = parser.parse(
            words, is_property=await app.library.property_names(words), today=day_of(app.clock())
        )
        query = spell_query(app, typed)
        check_query(app, query)
        found = await app.library.find(query, limit=args.n, offset=0, preview_lines=1)
        said, meant = list[str](), list[str]()
        if found.is_short:
            said, meant = await explain(app, query, words, found)
        record_read(app, "cli.search", *(one.id for one in found.notes))
    facts = {"total": found.total, "notes": [_as_json(one) for one in found.notes]}
    print_data(facts, [line for one in found.notes for line in _hit(one)], as_json=args.json)
    if not args.json:
        for one in said:
            console.say(one_line(one))
        _say_count(replace(found, suggestions=[*found.suggestions, *meant]), args.words)
    return 0


def _as_json(one: Summary) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": note_title(one.title, one.head),
        "tags": list(one.tags),
        "modified_at": datetime.fromtimestamp(one.modified_at, UTC).isoformat(),
        "trash": one.trash,
        "match": None if one.match is None else one.match.text,
    }


def _hit(one: Summary) -> list[Any]:
    title = Text(one_line(note_title(one.title, one.head)), style="bold")
    tags = "".join(f"  #{one_line(tag)}" for tag in one.tags) + ("  (trash)" if one.trash else "")
    place = Text(f"{console.local_time(one.modified_at)}  {one_line(one.id)}", style="dim")
    match = [] if one.match is None else [Text(one_line(one.match.text.strip()))]
    return [title.append(tags, style="cyan"), *(Padding(x, (0, 0, 0, 2)) for x in (*match, place))]


def _say_count(found: Found, words: list[str]) -> None:
    for typed, meant in found.corrected.items():
        console.say(f"No note has {one_line(typed)}; {one_line(meant)} was searched as well.")
    if found.suggestions:
        console.say(f"Did you mean {', '.join(map(one_line, found.suggestions))}?")
    if not found.total:
        console.say("No note has all of these words." if words else "There are no notes yet.")
        return
    console.say(
        f"{len(found.notes):,} of {counted(found.total, 'note')}. `mcp-notarium show {SYSTEM.quote(found.notes[0].id)}` shows "
        "the first one."
    )


async def _sync(args: argparse.Namespace) -> int:
    async with open_app(command_context.prepare(args)) as app:
        signals.watch_folder(app.config.account_dir)  # opening may have created the database
        await sync_all(app)
        counts = app.cache.notes.counts()
    facts = {"notes": counts.active, "notes_in_trash": counts.trashed}
    print_data(
        facts,
        f"In step: {counted(counts.active, 'note')}, {counts.trashed:,} in the trash.",
        as_json=args.json,
    )
    return 0


async def sync_all(app: App) -> None:
    """Sync with a bar, until every note is here. Raises ``LoginRequired`` and ``NotariumError``."""
    cycle = asyncio.create_task(app.scheduler.sync_now(_LONGEST_SYNC))
    counting: asyncio.Task[int | None] | None = None
    # A SNAPSHOT store says how many there are, and its listings do not bear another one at the same time.
    # Under rules nothing tells how many notes they hide.
    countable = (
        sys.stderr.isatty()
        and app.library.traits.changes is not Changes.SNAPSHOT
        and not app.config.policy.visibility.has_rules
    )
    with console.progress("Loading the notes") as report:
        while not cycle.done():
            await asyncio.wait({cycle}, timeout=_LOOK_SECONDS)
            status = app.scheduler.status()
            if status.needs_login:
                cycle.cancel()
                store = app.config.store
                raise LoginRequired(
                    f"{store.title} does not accept the login, or there is none yet",
                    resolution_hint=store.require_login().hint,
                )
            total = status.total
            if counting is not None:
                total = counting.result() if counting.done() else None
            elif total is None and status.loaded and countable:
                counting = asyncio.create_task(_count(app))
            report(status.loaded, total)
    if counting is not None:
        counting.cancel()
    if not cycle.result():
        raise NotariumError(
            f"the load did not finish: {app.scheduler.status().last_error or 'no reason known'}",
            resolution_hint="Whatever has arrived is kept. Run the command again; `mcp-notarium doctor` says more.",
        )


async def _count(app: App) -> int | None:
    """Return how many notes a store lists that does not say so by itself; None if it cannot be told."""
    count, mark = 0, None
    with suppress(NotariumError):
        while True:
            page = await app.store.list_page(
                since=None, mark=mark, limit=_MOST_ROWS, with_content=False
            )
            count, mark = count + len(page.entries), page.next_mark
            if mark is None:
                return count
    return None


COMMANDS = {
    "search": (_add_search_arguments, _search),
    "list": (_add_list_arguments, _search),
    "sync": (command_context.options("--json"), _sync),
}
