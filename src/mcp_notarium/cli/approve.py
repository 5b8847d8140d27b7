"""Run ``mcp-notarium approve``: show what waits for a person, with what would change, and take their yes or no.

It works while servers run and needs the key, as every command does. A yes is typed at a terminal that shows the
question: no option gives it. Each decision is in the audit log.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit.chain import AuditEntry, Decision
from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.audit import OpenChain, open_chain
from mcp_notarium.cli.terminal import can_show, forget_typed, name_account, read_line, talk
from mcp_notarium.errors import ConfigError, InvalidRequest, NotariumError
from mcp_notarium.logs.redaction import one_line, several_lines
from mcp_notarium.storage.approval_table import Approval, ApprovalTable
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.database import Database

FIRST_LINES = 60
"""Lines of a change that are shown where several questions are."""
_MINUTE = 60
_YES, _NO = {"y", "yes"}, {"n", "no"}


class NothingWaits(NotariumError):
    """Report that no question of this id waits: it was answered, is over, or is another account's."""

    category = "NOT_FOUND"
    resolution_hint = "`mcp-notarium approve --list` shows what waits in this account."

    def __init__(self) -> None:
        super().__init__(
            "no such question waits: it was answered, its ten minutes are over, or it is another account's"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the id of a question, and what to do instead of asking."""
    parser.add_argument("id", nargs="?", metavar="ID", help="the question (default: each in turn)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="only show what waits")
    instead.add_argument("--deny", metavar="ID", help="say no to this question")
    parser.add_argument("--json", action="store_true", help="with --list: print JSON")


def run(args: argparse.Namespace) -> int:
    """List the questions, deny one, or show them in turn and take the answers."""
    if args.json and not args.list:
        raise InvalidRequest("--json goes with --list", resolution_hint="Add `--list`.")
    if args.id is not None and (args.list or args.deny is not None):
        raise InvalidRequest("one ID at a time", resolution_hint="Leave the other option out.")
    if args.list:
        return _list(args)
    if args.deny is not None:
        return _deny(args)
    return _ask_each(args)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Hold what waits at one moment."""

    approvals: tuple[Approval, ...]
    refused: int
    """Questions that found no room since the last decision."""
    now: float


def read_waiting(chain: OpenChain) -> Waiting:
    """Return what waits in an open account."""
    table, now = ApprovalTable(chain.database), time.time()
    return Waiting(tuple(table.waiting(now=now)), table.refused(), now)


def decide(log: AuditLog, database: Database, approval: Approval, *, agrees: bool) -> None:
    """Store a person's decision together with its audit record. Raises ``NothingWaits`` with nothing stored."""
    now = time.time()
    entry = AuditEntry(
        at=now,
        act="cli.approve" if agrees else "cli.deny",
        client=CLIENT,
        notes=(log.note_reference(approval.note_id),) if approval.note_id else (),
        decision=Decision.APPROVED if agrees else Decision.ALLOWED,
        facts={"approval": approval.id},
    )
    with log.recording_begin(entry):  # defence: decision-on-record
        if ApprovalTable(database).decide(approval.id, agrees=agrees, now=now) is None:
            raise NothingWaits


def describe(
    approval: Approval, *, now: float, most: int | None = None
) -> Iterator[RenderableType]:
    """Yield a question as lines, with what would change; of that no more than ``most`` lines."""
    left = max(1, round((approval.expires_at - now) / _MINUTE))
    profile = f", profile {one_line(approval.profile)}" if approval.profile else ""
    call = " ".join(filter(None, (approval.tool, approval.action)))
    yield Text.assemble((approval.id, "bold"), f"  {call}, {left} min left")
    client = one_line(approval.client) or "a client without a name"
    yield Text(f"{client}{profile}, {console.local_time(approval.asked_at, seconds=True)}")
    yield Text(one_line(approval.question), style="bold")
    yield from signed_changes(approval, most=most)


def signed_changes(approval: Approval, *, most: int | None) -> Iterator[RenderableType]:
    """Yield what would change, of that no more than ``most`` lines."""
    lines = approval.diff.split("\n") if approval.diff else []
    yield _signed(lines[:most])
    if most is not None and len(lines) > most:
        rest = f"… {len(lines) - most:,} more lines: mcp-notarium approve {approval.id}"
        yield Text(name_account(rest), style="dim")


def _signed(lines: Sequence[str]) -> Table:
    """Return the lines of a change; what goes on in the next row stands behind the column of signs, so it looks like no sign."""
    made = Table.grid()
    made.add_column(width=1, no_wrap=True)
    made.add_column(overflow="fold")
    for line in lines:
        style = console.DIFF_COLOURS.get(line[:1], "")
        made.add_row(Text(line[:1], style=style), Text(several_lines(line[1:]), style=style))
    return made


def _list(args: argparse.Namespace) -> int:
    with open_chain(command_context.prepare(args), read_only=True) as chain:
        waiting = read_waiting(chain)
    if args.json:
        facts = {
            "waiting": [facts_of(one) for one in waiting.approvals],
            "refused": waiting.refused,
        }
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
        return 0
    for number, approval in enumerate(waiting.approvals):
        console.show([*([Text()] if number else []), *_shortly(approval, waiting)])
    _tell_rest(waiting)
    return 0


def facts_of(approval: Approval) -> dict[str, Any]:
    """Return what a program reads of a question that waits."""
    facts = asdict(approval)
    del facts["answer"]
    times = {name: console.iso_time(facts[name]) for name in ("asked_at", "expires_at")}
    return facts | times


def _shortly(approval: Approval, waiting: Waiting) -> Iterator[RenderableType]:
    return describe(approval, now=waiting.now, most=FIRST_LINES)


def _tell_rest(waiting: Waiting) -> None:
    if not waiting.approvals:
        talk("Nothing waits for you.")
    if waiting.refused:
        talk(f"Questions that found no room since you last answered: {waiting.refused:,}.")


def _deny(args: argparse.Namespace) -> int:
    with open_chain(command_context.prepare(args)) as chain:
        approval = _find(read_waiting(chain), args.deny)
        decide(chain.audit_log, chain.database, approval, agrees=False)
    talk("Denied.")
    return 0


def _find(waiting: Waiting, approval_id: str) -> Approval:
    for approval in waiting.approvals:
        if approval.id == approval_id.lower():
            return approval
    raise NothingWaits


def _ask_each(args: argparse.Namespace) -> int:
    # defence: approval-typed-at-a-terminal
    if not (can_show() and sys.stdout.isatty()):
        raise ConfigError(
            "an approval is typed at a terminal that shows the question",
            resolution_hint="Run the command in a terminal. `--list` only shows what waits, and `--deny ID` says no.",
        )
    with open_chain(command_context.prepare(args)) as chain:
        waiting = read_waiting(chain)
        chosen = waiting.approvals if args.id is None else (_find(waiting, args.id),)
        for number, approval in enumerate(chosen):
            console.show([Text()] if number else [])
            shown = (
                _shortly(approval, waiting)
                if len(chosen) > 1
                else describe(approval, now=waiting.now)
            )
            console.show(shown)
            _take_answer(chain, approval)
    _tell_rest(Waiting(chosen, waiting.refused, waiting.now))
    return 0


def _take_answer(chain: OpenChain, approval: Approval) -> None:
    """Ask until it is yes, no, or (by Enter, or the end of the input) neither."""
    while True:
        forget_typed()
        talk("Do it? [y: yes, n: no, Enter: not now] ")
        typed = read_line().strip().lower()
        if typed in _YES | _NO:
            break
        if not typed:
            talk("It still waits.")
            return
    try:
        decide(chain.audit_log, chain.database, approval, agrees=typed in _YES)
    except NothingWaits as error:
        talk(f"{error.message}.")
    else:
        talk(said_of(agrees=typed in _YES))


def said_of(*, agrees: bool) -> str:
    """Return what to say of a decision."""
    return "Approved: the assistant has to ask for it once more." if agrees else "Denied."


COMMANDS = {"approve": (add_arguments, run)}
