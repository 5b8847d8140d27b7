"""Run ``mcp-notarium refused``: list the writes that were refused for good, show the text of one, and drop one.

Nothing sends such a write again, so this is the way to its text. The command works while servers run, and asks the note store nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit.chain import OK, AuditEntry
from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.audit import OpenChain, open_chain
from mcp_notarium.cli.cache import confirm
from mcp_notarium.cli.history import note_title
from mcp_notarium.cli.show import print_raw
from mcp_notarium.cli.terminal import print_data, talk
from mcp_notarium.domain.note import PendingWrite, WriteKind, WriteState
from mcp_notarium.errors import InvalidRequest, NotariumError
from mcp_notarium.logs.redaction import one_line, several_lines
from mcp_notarium.report.words import counted
from mcp_notarium.storage.journal_table import JournalTable

_SHOWN_ID = 8
"""Characters of a write's id in the list: of 50 writes no two share them."""
_DOES = {
    WriteKind.CREATE: "a new note",
    WriteKind.UPDATE: "a change of",
    WriteKind.DELETE: "the removal of",
}


class NoSuchWrite(NotariumError):
    """Report that no refused write, or more than one, has an id that begins so."""

    category = "NOT_FOUND"
    resolution_hint = "`mcp-notarium refused` lists the refused writes of this account."


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="show the text of this write (default: list all)"
    )
    parser.add_argument("--raw", action="store_true", help="with ID: print the text byte by byte")
    parser.add_argument("--drop", metavar="ID", help="forget this write and its text")
    command_context.options("--yes", "--json")(parser)


def _run(args: argparse.Namespace) -> int:
    shows = args.id is not None
    drops = args.drop is not None
    if (shows and drops) or (args.raw and (args.json or not shows)):
        raise InvalidRequest(
            "these options do not go together",
            resolution_hint="`refused ID` shows a write, with `--raw` or `--json`; `refused --drop ID` forgets one.",
        )
    with open_chain(command_context.prepare(args)) as chain:
        writes = JournalTable(chain.database).all()
        refused = [one for one in writes if one.state is WriteState.REJECTED]
        if drops:
            return _drop(chain, _find(refused, args.drop), yes=args.yes)
        shown = [_find(refused, args.id)] if shows else refused
        if shows or (args.json and refused):
            chain.audit_log.record_outcome(_entry(chain, "cli.refused.show", shown))
    if args.raw:
        print_raw(shown[0].content.text)
    elif shows:
        text = several_lines(shown[0].content.text.removesuffix("\n"))
        print_data(_facts(shown[0]), text, as_json=args.json)
    else:
        print_data({"refused": [*map(_facts, refused)]}, _rows(refused), as_json=args.json)
        if not refused:
            talk("No write is refused.")
    return 0


def _find(refused: Sequence[PendingWrite], begins: str) -> PendingWrite:
    """Return the write whose id begins so."""
    found = [one for one in refused if begins and one.write_id.startswith(begins.lower())]
    if len(found) != 1:
        many = f"{len(found)} refused writes have ids that begin so"
        raise NoSuchWrite(many if found else "no refused write has this id")
    return found[0]


def _drop(chain: OpenChain, write: PendingWrite, *, yes: bool) -> int:
    lines = counted(len(write.content.text.splitlines()), "line")
    if not confirm(f"Forget {_about(write)}, {lines}? Nothing else has this text.", yes=yes):
        return 1
    with chain.audit_log.recording_begin(_entry(chain, "cli.refused.drop", [write])):
        JournalTable(chain.database).drop(write.write_id)
    talk("Forgotten.")
    return 0


def _entry(chain: OpenChain, act: str, writes: Sequence[PendingWrite]) -> AuditEntry:
    notes = tuple(chain.audit_log.note_reference(one.note_id) for one in writes)
    return AuditEntry(at=time.time(), act=act, client=CLIENT, notes=notes, outcome=OK)


def _about(write: PendingWrite) -> str:
    title = one_line(note_title(write.content.title, write.content.text))
    of = "" if write.kind is WriteKind.CREATE else f" {one_line(write.note_id)}"
    return f"{_DOES[write.kind]}{of}: {title}"


def _rows(refused: Sequence[PendingWrite]) -> list[RenderableType]:
    rows: list[RenderableType] = []
    for write in refused:
        by = one_line(write.client) or "a client without a name"
        at = console.local_time(write.created_at)
        rows += [
            Text.assemble((write.write_id[:_SHOWN_ID], "bold"), f"  {at}  {by}"),
            Text(f"    {_about(write)}"),
            Text(f"    {one_line(write.reason)}"),
        ]
    if refused:
        rows.append(console.hint("`mcp-notarium refused ID` shows the text of one."))
    return rows


def _facts(write: PendingWrite) -> dict[str, Any]:
    """Return what a program reads of a write."""
    content = write.content
    return {
        "id": write.write_id,
        "kind": write.kind.value,
        "note_id": write.note_id,
        "at": console.iso_time(write.created_at),
        "by": write.client,
        "reason": write.reason,
        "title": content.title,
        "tags": list(content.tags),
        "properties": dict(content.properties),
        "trash": content.trash,
        "text": content.text,
    }


COMMANDS = {"refused": (_add_arguments, _run)}
