"""Run ``mcp-notarium report``: write one HTML page of what assistants did with the notes.

Changes no file of the account and asks the store nothing. Exit code 3: the page was written, and the audit log is
not whole.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from mcp_notarium import __version__
from mcp_notarium.account import key_changes
from mcp_notarium.audit.chain import Head, Record
from mcp_notarium.audit.verification import Verification
from mcp_notarium.cli import command_context, console, doctor
from mcp_notarium.cli.audit import BROKEN_EXIT, open_chain, read_titles
from mcp_notarium.cli.terminal import print_data, typed_path
from mcp_notarium.config import Config, Loaded
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.files.private_files import (
    create_private,
    output_errors,
    read_private,
    replace_private,
)
from mcp_notarium.report import page, words
from mcp_notarium.report.activity import Activity, ActivityCounter, Result
from mcp_notarium.report.page import BAD, WARN, KeyRing, PageFacts

_PATH = Path("mcp-notarium-report.html")
_DAYS = 7
_MOST_DAYS = 3660
_STEP = 1000
"""Records between two reports of progress."""
_AHEAD_MS = 3_600_000
"""Milliseconds that a record may lie ahead of the clock."""
_CHAIN_CHECK = "audit chain"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, the days, and what the page shows."""
    parser.add_argument(
        "path",
        type=typed_path,
        nargs="?",
        default=_PATH,
        metavar="PATH",
        help=f"the file to write ({_PATH}); an older report is replaced, no other file",
    )
    days = parser.add_mutually_exclusive_group()
    days.add_argument(
        "--days", type=int, metavar="N", help=f"today and the days before it ({_DAYS})"
    )
    days.add_argument("--since", metavar="DATE", help="from this day on, such as 2026-01-31")
    parser.add_argument("--titles", action="store_true", help="name notes by their titles, too")
    command_context.options("--json")(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page and say what is in it."""
    today = _local(time.time()).date()
    since = _first_day(args, today)
    path: Path = args.path.absolute()
    loaded = command_context.prepare_account(args)
    replacing = _is_report(path)
    facts = _collect(loaded, since, today, titles=args.titles)
    with output_errors(path, "the report"):
        (replace_private if replacing else create_private)(path, page.render(facts))
    print_data(_as_json(path, facts), _as_text(path, facts), as_json=args.json)
    return 0 if facts.chain.whole else BROKEN_EXIT


def _first_day(args: argparse.Namespace, today: date) -> date:
    if args.since is None:
        days = _DAYS if args.days is None else args.days
    else:
        try:
            days = (today - date.fromisoformat(args.since)).days + 1
        except ValueError:
            raise InvalidRequest(
                "--since wants a day", resolution_hint="Write it like 2026-01-31."
            ) from None
    if not 1 <= days <= _MOST_DAYS:
        raise InvalidRequest(
            f"the report can have 1 to {_MOST_DAYS} days until today",
            resolution_hint="Give another --days or --since.",
        )
    return today - timedelta(days - 1)


def _collect(loaded: Loaded, since: date, today: date, *, titles: bool) -> PageFacts:
    config, now = loaded.config, time.time()
    begins = datetime(since.year, since.month, since.day).astimezone()
    counter = ActivityCounter(
        int(begins.timestamp() * 1000),
        int(now * 1000) + _AHEAD_MS,
        lambda ms: _local(ms / 1000).date(),
    )
    chain, names = _read_chain(config, counter.feed, titles=titles)
    with console.progress("Checking the account"):
        findings, _code = doctor.examine(loaded, offline=True, pages=False)
    days = (today - since).days + 1
    return PageFacts(
        account=config.account.shown,
        store=config.store.title,
        version=__version__,
        command=f"mcp-notarium report --days {days}{' --titles' if titles else ''}",
        made_at=now,
        local=_local,
        since=since,
        until=today,
        activity=counter.result(),
        chain=chain,
        checks=[one for one in findings if one.name != _CHAIN_CHECK],
        keys=_read_keys(config, now),
        titles=names if titles else None,
    )


def _read_chain(
    config: Config, feed: Callable[[Record], None], *, titles: bool
) -> tuple[Verification, dict[str, str]]:
    """Verify the log, feed each record, and return titles if asked for; no log is an empty one."""
    try:
        with (
            open_chain(config, read_only=True) as chain,
            console.progress("Reading the log") as say,
        ):
            table = chain.audit_log.table
            total, done = table.head().count - table.first() + 1, 0

            def take(record: Record) -> None:
                nonlocal done
                feed(record)
                done += 1
                if done % _STEP == 0:
                    say(done, max(total, done))

            return chain.verify(None, also=take), read_titles(chain) if titles else {}
    except LockedError as error:
        if error.verdict is not Verdict.DATABASE_MISSING:
            raise
        return Verification(Head(), 0, ()), {}


def _read_keys(config: Config, now: float) -> KeyRing | None:
    if not config.db_encryption:
        return None
    try:
        found = key_changes.list_slots(config, None).keyfile
    except LockedError as error:
        if error.verdict is not Verdict.DATABASE_MISSING:
            raise
        return KeyRing((), "", "")
    slots = tuple((one.type.value, one.label) for one in found.slots)
    made, changed = (
        "" if at is None else f"on {_local(at):%Y-%m-%d} ({words.age(now - at)})"
        for at in (found.created, found.rotated)
    )
    return KeyRing(slots, made, changed)


def _local(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, UTC).astimezone()


def _is_report(path: Path) -> bool:
    """Tell whether a report is there. Raises ``InvalidRequest`` if it is anything else."""
    with output_errors(path, "the report"):
        found = read_private(path, most=len(page.MARK))
    if found is not None and not found.startswith(page.MARK):
        raise InvalidRequest(
            f"{path} is there and is no report; nothing was written",
            resolution_hint="Name another file.",
        )
    return found is not None


def _as_json(path: Path, facts: PageFacts) -> dict[str, Any]:
    activity = facts.activity
    return {
        "path": str(path),
        "since": facts.since.isoformat(),
        "until": facts.until.isoformat(),
        "calls": _count(activity.tally.results),
        "notes_seen": len(activity.notes),
        "programs": {
            one.name: _count(one.tally.results) | {"new": one.new}
            for one in activity.programs.values()
        },
        "audit_log": {
            "whole": facts.chain.whole,
            "head": str(facts.chain.head),
            "faults": len(facts.chain.faults),
        },
        "concerns": [
            {"level": one.level, "says": one.says, "hint": one.hint} for one in facts.concerns()
        ],
    }


def _count(results: Any) -> dict[str, int]:
    return {one.value: results[one] for one in Result}


def _as_text(path: Path, facts: PageFacts) -> str:
    concerns = [one for one in facts.concerns() if one.level in (BAD, WARN)]
    lines = [f"The report is in {path}: open it in a browser.", _summary(facts.activity)]
    lines += [f"! {one.says}" for one in concerns]
    if not concerns:
        lines.append("Nothing looks wrong.")
    kept = "titles" if facts.titles is not None else "ids"
    lines.append(f"You alone can read it. It holds {kept} of notes and is not encrypted.")
    return "\n".join(lines)


def _summary(activity: Activity) -> str:
    results = activity.tally.results
    if not activity.tally.calls:
        return "No assistant used your notes in these days."
    return (
        f"{words.counted(len(activity.programs), 'program')}, "
        f"{words.counted(activity.tally.calls, 'call')}, "
        f"{words.counted(results[Result.CHANGED], 'change')}, "
        f"{results[Result.REFUSED]:,} refused."
    )


COMMANDS = {"report": (add_arguments, run)}
