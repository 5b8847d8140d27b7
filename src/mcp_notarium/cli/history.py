"""Show what a note was, and bring that back: ``history``, ``diff``, ``restore-version`` and ``undo``.

They work with and without running servers. The note is synced first, if the store can be reached. The
rules on notes and the read-only mode of the policy hold; its limits and hidden parts are for agents.
``undo`` takes back the last change that was saved from here, by whatever program.
"""

from __future__ import annotations

import argparse
import difflib
import re
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.app import App, open_app
from mcp_notarium.audit.chain import OK, OPEN, UNKNOWN, AuditEntry
from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.terminal import ask_yes, name_account, print_data, talk
from mcp_notarium.config import Config
from mcp_notarium.domain.diff import summarize_change
from mcp_notarium.domain.lines import split_lines
from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import Limits
from mcp_notarium.errors import InvalidRequest, NotariumError, NoteNotFound
from mcp_notarium.logs.redaction import one_line, several_lines
from mcp_notarium.search import parser as search_parser
from mcp_notarium.search.query import Query, with_all_words
from mcp_notarium.storage.audit_log import Act, Steps
from mcp_notarium.tools import history
from mcp_notarium.tools.answers import VersionRow
from mcp_notarium.tools.note_lookup import find_id, find_note
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.tags import spell_query

if TYPE_CHECKING:
    from mcp_notarium.storage.note_search import Summary
    from mcp_notarium.tools.question import Question

_Answer = TypeVar("_Answer")
_SYNC_SECONDS = 15.0
_MOST_NAMED = 10
MOST_COMPARED = 1000
"""Notes with the words whose titles are compared with what was typed."""
_RECORDED = re.compile("id:[0-9a-f]{16}")
"""Name that the audit log and the report give a note whose id is made of words."""
_HINTS = {
    "nothing_to_undo": "`mcp-notarium history NOTE` lists what `mcp-notarium restore-version` can bring back.",
    "changed_since": "`mcp-notarium history NOTE` lists what came; `mcp-notarium restore-version` drops that, too.",
    "conflict": "Nothing was changed. `mcp-notarium diff NOTE` shows what came; run the command again if you still want it.",
    "version": "`mcp-notarium history NOTE` lists the versions that are kept.",
}
"""Hints for a person, by the kind of the error; agents are told of their tools."""


class Person:
    """Stand in for the context of a tool's handler: the person at the terminal calls. ``note_id``: '' for a new one."""

    client = None
    act: Act

    def __init__(self, note_id: str, *, yes: bool) -> None:
        self.note_id = note_id
        self.steps = Steps()
        self._yes = yes

    def is_answered(self, *, irreversible: bool) -> bool:
        """Tell whether ``--yes`` was typed."""
        del irreversible
        return self._yes

    async def confirm(self, question: Question) -> bool:
        """Return whether the user agrees."""
        return self._yes or ask_yes(question.text)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report nothing: it is over at once."""


async def _history(args: argparse.Namespace) -> int:
    async with open_synced(person_config(args)) as app:
        named = _unrecorded(app, " ".join(args.note))
        removed = app.library.history.read_removed(named)
        note_id = named if removed else (await _find_told(app, named)).id
        request = ManageRequest(action="history", id=note_id, version=args.before)
        found = await history.list_versions(app, request)
        record_read(app, "cli.history", note_id)
    lines = [line for row in found.history or () for line in _row_lines(row)]
    if found.next_version is not None:
        more = f"mcp-notarium history {note_id} --before {found.next_version}"
        lines.append(name_account(f"older ones: {more}"))
    facts = found.model_dump(include={"id", "history", "next_version"}, exclude_none=True)
    print_data(facts, "\n".join(lines), as_json=args.json)
    return 0


def _row_lines(row: VersionRow) -> list[str]:
    by = "command line" if row.by == CLIENT else row.by or "made elsewhere, or not known"
    made = f"{row.version:<8}  {_local(row.at)}  {by}"
    return [one_line(made), f"    {one_line(row.changed)}"]


def _local(at: str) -> str:
    """Return a time of the tools as clocks here show it; they have none that is in no calendar."""
    return console.local_time(datetime.fromisoformat(at).timestamp()) if at else "at no known time"


async def _diff(args: argparse.Namespace) -> int:
    async with open_synced(person_config(args)) as app:
        note = await _find_told(app, args.note)
        versions = app.library.history
        found = [await versions.read(note.id, name) for name in (args.version, args.other) if name]
        if len(found) < 2:  # noqa: PLR2004 - a diff is of two
            async with aclosing(versions.walk(note.id)) as walk:
                newest = [one for _ in range(2) if (one := await anext(walk, None)) is not None]
            found = [*(found or newest[1:]), *newest[:1]]
        record_read(app, "cli.diff", note.id)
    if len(found) < 2:  # noqa: PLR2004 - as above
        raise InvalidRequest(
            "there is no older version of this note to compare it with",
            resolution_hint=_HINTS["version"],
        )
    old, new = found
    facts = summarize_change(old.content, new.content, tags=old.tags_known and new.tags_known).facts
    compared = difflib.unified_diff(
        [line.rstrip("\n") for line in split_lines(old.content.text)],
        [line.rstrip("\n") for line in split_lines(new.content.text)],
        f"version {old.name}",
        f"version {new.name}",
        lineterm="",
    )
    lines = list(compared)
    said = "\n".join([f"{facts}", *(several_lines(line) for line in lines)])
    value = {"id": note.id, "from": old.name, "to": new.name, "changed": facts, "lines": lines}
    print_data(value, said, as_json=args.json)
    return 0


async def _change(args: argparse.Namespace, *, action: str) -> int:
    config = person_config(args)
    config.policy.require_use("manage", action)
    async with open_synced(config) as app:
        typed = args.note if isinstance(args.note, str) else " ".join(args.note)
        named = _unrecorded(app, typed)
        fields = {"action": action, "id": named, "version": getattr(args, "version", None)}
        if action == "undo" or not app.library.history.read_removed(named):
            note = await _find_told(app, named)
            fields |= {"id": note.id, "local_version": note.local_version}
        request = ManageRequest.model_validate(fields)
        handle = history.undo if action == "undo" else history.restore_version
        try:
            answer = await recorded(app, args, request.id or named, partial(handle, app, request))
        except NotariumError as error:
            for came in error.details.get("came_after", ()):
                talk(one_line(f"after it: {came['version']}  {_local(came['at'])}  {came['by']}"))
            raise
    facts = answer.model_dump(exclude_none=True)
    print_data(facts, f"{answer.status}. {answer.note}", as_json=args.json)
    return 0


async def recorded(
    app: App,
    args: argparse.Namespace,
    note_id: str,
    handle: Callable[[Person], Awaitable[_Answer]],
) -> _Answer:
    """Make a change of a note, and record it before and after."""
    person = Person(note_id, yes=args.yes)

    def entry(outcome: str, refers: int = 0) -> AuditEntry:
        return AuditEntry(
            at=app.clock(),
            act=f"cli.{args.command_name}",
            client=CLIENT,
            notes=(app.audit.note_reference(person.note_id),) if person.note_id else (),
            outcome=outcome,
            refers=refers,
        )

    person.act = Act(app.audit, lambda: entry(OPEN))
    outcome = UNKNOWN
    try:
        answer = await handle(person)
        outcome = OK
    except NotariumError as error:
        outcome = error.subcategory or error.category.lower()
        raise
    finally:
        app.audit.record_outcome(entry(outcome, person.act.begun))
    return answer


def record_read(app: App, act: str, *note_ids: str) -> None:
    """Record that a command has read these notes."""
    references = tuple(map(app.audit.note_reference, note_ids))
    app.audit.buffer(
        AuditEntry(at=app.clock(), act=act, client=CLIENT, notes=references, outcome=OK)
    )


def person_config(args: argparse.Namespace) -> Config:
    """Return the configuration for the owner of the notes: limits and hidden parts are for agents."""
    config = command_context.prepare(args)
    policy = replace(config.policy, hidden_fields=frozenset(), limits=Limits())
    return replace(config, policy=policy, on_unreadable="refuse")


@asynccontextmanager
async def open_synced(config: Config) -> AsyncIterator[App]:
    """Open the account, in step with the store if that can be reached."""
    async with open_app(config) as app, _named_errors():
        known = app.library.traits.in_database and app.library.status().complete
        if not known and not await app.scheduler.sync_now(_SYNC_SECONDS):
            why = app.library.status().last_error or "it did not answer in time"
            talk(f"note: the note store was not asked: {why}")
        yield app


@asynccontextmanager
async def _named_errors() -> AsyncIterator[None]:
    """Tell a person of commands, where an agent would be told of its tools."""
    try:
        yield
    except NotariumError as error:
        error.resolution_hint = _HINTS.get(error.subcategory or "", error.resolution_hint)
        raise


async def find_named(app: App, named: str) -> Note:
    """Return the note with this id, the only one with this title, or the only one that has these words.

    The name that an audit record has of a note is one of its ids. A note in the trash is meant if no other is
    found. Raises ``NoteNotFound``, and lists the notes if there are several.
    """
    named = _unrecorded(app, named)
    with suppress(NoteNotFound):  # of several that are called so the words may tell one
        named = find_id(app, named)
    try:
        return await find_note(app, named)
    except NoteNotFound:
        query = spell_query(app, with_all_words(search_parser.parse(named)))
        for wanted in with_trash_last(query):
            found = await app.library.find(
                wanted, limit=MOST_COMPARED, offset=0, preview_lines=1, corrects=False
            )
            if found.total:
                break
    titled = [one for one in found.notes if same_title(one, named)]
    alone = titled if len(titled) == 1 else found.notes[: found.total == 1]
    only = app.library.get(alone[0].id) if alone else None
    if only is not None:
        return only
    if not found.total:
        raise NoteNotFound(
            "no note has this id or these words",
            resolution_hint="`mcp-notarium search WORDS` lists notes; the policy may hide some.",
        )
    first = (titled or list(found.notes))[:_MOST_NAMED]
    for one in first:
        talk(f"  {one_line(note_title(one.title, one.head))}  {one_line(one.id)}")
    if titled:
        raise NoteNotFound(
            f"{len(titled):,} notes have this title", resolution_hint="Give the id of one."
        )
    shown = "" if len(first) == found.total else f", of which {len(first)} are above"
    raise NoteNotFound(
        f"{found.total:,} notes have these words{shown}",
        resolution_hint="Give the id of one, or more words.",
    )


def _unrecorded(app: App, named: str) -> str:
    """Return the id of the note with this name in the audit log; else the name."""
    return find_recorded(named, app.library.history.find_ids(), app.audit.note_reference)


def find_recorded(named: str, ids: Iterable[str], reference: Callable[[str], str]) -> str:
    """Return the id with this ``reference`` in the audit log; else the name."""
    if not _RECORDED.fullmatch(named):
        return named
    return next((one for one in ids if reference(one) == named), named)


def with_trash_last(query: Query) -> tuple[Query, ...]:
    """Return the query, and then the same of notes in the trash unless it says which it wants."""
    return (query, replace(query, trash="trashed")) if query.trash == "active" else (query,)


def same_title(one: Summary, named: str) -> bool:
    """Tell whether this is the note's title, apart from letter case and the signs of a heading."""
    return _plain_title(note_title(one.title, one.head)) == _plain_title(named)


def _plain_title(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).lstrip("# ").casefold().split())


async def _find_told(app: App, named: str) -> Note:
    """Return the note as :func:`find_named`, and tell which one it is."""
    note = await find_named(app, named)
    if note.id != named:
        talk(f"{one_line(note_title(note.title, note.text))}  {one_line(note.id)}")
    return note


def note_title(title: str | None, text: str) -> str:
    """Return what a person calls the note: its title, or its first line with letters."""
    lines = (title or "", *text.splitlines())
    return next((one.strip() for one in lines if one.strip()), "(empty)")


def _arguments(
    name: str, *more: str, before: bool = False, changes: bool = False
) -> Callable[[argparse.ArgumentParser], None]:
    """Return what adds the note, and ``more`` versions with their help."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.set_defaults(command_name=name)
        parser.add_argument(
            "note",
            metavar="NOTE",
            nargs=None if more else "+",
            help=f"its id, or words of it alone{' (several in quotation marks)' if more else ''}",
        )
        for dest, words in zip(("version", "other"), more, strict=False):
            parser.add_argument(
                dest,
                metavar=dest.upper(),
                nargs="?" if name == "diff" else None,
                help=words,
            )
        if before:
            parser.add_argument("--before", metavar="VERSION", help="list those before this one")
        command_context.options(*(("--yes",) if changes else ()), "--json")(parser)

    return add


COMMANDS = {
    "history": (_arguments("history", before=True), _history),
    "diff": (
        _arguments(
            "diff",
            "the older version, as `history` shows it (default: the one before the present state)",
            "the newer version (default: the present state)",
        ),
        _diff,
    ),
    "restore-version": (
        _arguments("restore-version", "a version as `history` shows it", changes=True),
        partial(_change, action="restore_version"),
    ),
    "undo": (_arguments("undo", changes=True), partial(_change, action="undo")),
}
