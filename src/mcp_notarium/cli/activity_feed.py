"""Follow what all servers of an account do, from its audit log: one :class:`SeenAct` for each act, in its latest state.

An act that changes something has two records. It is seen when it begins, and again under the same number when its outcome
is on record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit.chain import OPEN, Decision, Record
from mcp_notarium.cli.console import iso_time
from mcp_notarium.domain.diff import summarize_change
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report import words
from mcp_notarium.report.activity import Result, classify
from mcp_notarium.storage import note_rows

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Content

_TOOL: Final = "tool."
_COMMAND: Final = "cli."
_DECIDING: Final = {"cli.approve", "cli.deny"}
_SHOWN: Final = (_TOOL, "resource.", _COMMAND)
_MOST_BEGUN: Final = 1000
_MOST_NAMED: Final = 3
_NEAR_SECONDS: Final = 0.002
"""How far the clock of a record may be rounded."""


@dataclass(frozen=True, slots=True)
class SeenAct:
    """Hold one act. Texts are made for a terminal: one line each, without control characters.

    ``at``: epoch seconds. ``result`` is None while nothing tells its end. ``notes``: ids of notes that are here. ``about``
    are titles, or what the log calls the notes. ``changed``: lines added and removed and the like, '' if that is not known.
    ``approval``: the id of the question that was asked or answered, '' if there was none.
    """

    number: int
    at: float
    client: str
    profile: str
    act: str
    result: Result | None
    decision: str
    outcome: str
    notes: tuple[str, ...]
    about: str
    changed: str
    approval: str = ""

    @property
    def does(self) -> str:
        """Return the act in a person's words."""
        if self.act.startswith(_COMMAND):
            command = self.act.removeprefix(_COMMAND)
            return words.COMMANDS.get(command, f"mcp-notarium {command}")
        return words.TOOLS.get(self.act, self.act)

    @property
    def ended(self) -> str:
        """Return how it ended in a person's words; '' if it was done as asked, and nobody was asked."""
        said = words.DECISIONS.get(Decision(self.decision), "") if self.decision else ""
        if self.result in (Result.READ, Result.CHANGED) or self.act in _DECIDING:
            return said
        why = words.REASONS.get(self.outcome, self.outcome.replace("_", " "))
        if self.decision == Decision.ASKED:
            return why or said
        name = "begun" if self.result is None else words.RESULTS[self.result]
        return "; ".join(filter(None, [name, why, said if said != why else ""]))

    def as_json(self) -> dict[str, Any]:
        """Return it as ``watch --json`` prints it."""
        result = None if self.result is None else self.result.value
        facts = {"at": iso_time(self.at), "profile": self.profile or None, "result": result}
        return {"type": "act", **asdict(self), **facts}


class ActivityFeed:
    """Read the acts of one account since a time, in epoch seconds. One thread only."""

    def __init__(self, app: App, *, since: float) -> None:
        self._app = app
        self._table = app.audit.table
        self._next = self._table.first_number_since(since)
        self._begun: dict[int, Record] = {}
        self._titles: dict[str, tuple[str, str]] = {}
        self._titles_are_new = False
        self.counts: Counter[Result] = Counter()
        """Acts by their results, of those that have one."""

    def poll(self) -> list[SeenAct]:
        """Return what came since the last call, oldest first. Raises ``CacheError``."""
        seen: dict[int, SeenAct] = {}
        records = list(self._table.records(first=self._next))
        self._titles_are_new = False  # what these records name was stored with them, or is gone
        for record in records:
            self._next = record.number + 1
            act = self._join(record)
            if act is not None:
                seen[act.number] = act
        return list(seen.values())

    def _join(self, record: Record) -> SeenAct | None:
        first = self._begun.pop(record.refers, None) if record.refers else record
        if first is None or not record.act.startswith(_SHOWN):
            return None
        if record.outcome == OPEN:
            self._begun[record.number] = record
            if len(self._begun) > _MOST_BEGUN:
                del self._begun[next(iter(self._begun))]
            return self._describe(record, record, None)
        # A decision is one record, and changes what waits.
        result = Result.CHANGED if first.act in _DECIDING else classify(first, record)
        # The same call comes again with the answer.
        if record.decision != Decision.ASKED and first.act not in _DECIDING:
            self.counts[result] += 1
        return self._describe(first, record, result)

    def _describe(self, first: Record, last: Record, result: Result | None) -> SeenAct:
        references = _texts(last.notes)
        known = [self._title(one) for one in references]
        ids = tuple(found[0] for found in known if found is not None)
        facts = json.loads(first.facts or "{}")
        client = "command line" if first.client == CLIENT else first.client
        changed = ""
        if (
            result is Result.CHANGED
            and first.act not in _DECIDING
            and len(ids) == len(references) == 1
        ):
            changed = self._changed(ids[0], first, last)
        return SeenAct(
            number=first.number,
            at=first.at_ms / 1000,
            client=one_line(client) or "a program without a name",
            profile=one_line(str(facts.get("profile", ""))),
            act=one_line(first.act.removeprefix(_TOOL)),
            result=result,
            decision="" if last.decision == Decision.ALLOWED else last.decision,
            outcome="" if result in (Result.READ, Result.CHANGED) else one_line(last.outcome),
            notes=ids,
            about=_named(
                found[1] if found is not None else one
                for one, found in zip(references, known, strict=True)
            ),
            changed=changed,
            approval=one_line(str(json.loads(last.facts or "{}").get("approval", ""))),
        )

    def _title(self, reference: str) -> tuple[str, str] | None:
        """Return id and title of the note that a record calls so; None if it is not here."""
        if reference not in self._titles and not self._titles_are_new:
            self._titles_are_new = True
            found = note_rows.read_titles(self._app.cache.database)
            self._titles = {
                self._app.audit.note_reference(note_id): (note_id, title)
                for note_id, title in found
            }
        return self._titles.get(reference)

    def _changed(self, note_id: str, first: Record, last: Record) -> str:
        """Return what a change did to a note, as far as its versions are kept here."""
        versions, note = self._app.cache.versions, self._app.library.get(note_id)
        newer = None if note is None else note.content
        begun, ended = first.at_ms / 1000 - _NEAR_SECONDS, last.at_ms / 1000 + _NEAR_SECONDS
        for one in versions.of(note_id):
            kept = versions.get(note_id, one.local_version)
            content = None if kept is None else kept[1]
            if one.replaced_at < begun:
                break
            if one.replaced_at <= ended and one.replaced_by == first.client:
                return _said(content, newer)
            newer = content
        created = begun - 1 <= note.created_at <= ended if note is not None else False
        return "new" if created else ""


def _said(old: Content | None, new: Content | None) -> str:
    return "" if old is None or new is None else one_line(summarize_change(old, new).facts)


def _texts(encoded: str) -> list[str]:
    found = json.loads(encoded or "[]")
    return [str(one) for one in found] if isinstance(found, list) else []


def _named(titles: Iterable[str]) -> str:
    named = [one_line(title) for title in titles]
    more = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
