"""Keep the questions that wait for a person at a terminal, and what was decided about them.

A question is asked by a server and decided by a command: two processes, so it is a row. It is bound to all that it is about
(``binding``, a digest), waits for ten minutes, and a yes is worth one call. A no holds until the question expires, so that
nobody is asked the same again and again. No more than ``MOST_WAITING`` wait: others are refused and counted, none is pushed
out. What a row shows is for the person alone. Only commands decide; no server does.

Like all state, rows are authentic because their pages are: without the key of the database nobody can make one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database

SECONDS: Final = 600.0
"""Seconds that a question waits, and its answer counts, from the moment it was asked."""
MOST_WAITING: Final = 16
_REFUSED: Final = "approvals_refused"
"""Row of ``sync_metadata``: how many questions found no room since the last decision."""


class Answer(Enum):
    """Name what a person has said about a question."""

    WAITING = ""
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Hold what a server asks."""

    client: str
    """Name and version that the program says of itself."""
    profile: str | None
    """That of its entry, or None."""
    tool: str
    action: str
    """Of the tool, '' if it has none."""
    note_id: str
    """The note that it is about; '' if it is not about one note."""
    question: str
    diff: str
    """Change as lines of a unified diff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Asked):
    """Hold a question for the person. Times are epoch seconds."""

    id: str
    asked_at: float
    expires_at: float
    answer: Answer = Answer.WAITING


class ApprovalTable:
    """Hold the approvals of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def waiting(self, *, now: float) -> list[Approval]:
        """Return the questions that nobody has answered, the oldest first."""
        return [one for one in self._open(now) if one.answer is Answer.WAITING]

    def refused(self) -> int:
        """Return how many questions found no room since the last decision."""
        row = self._db.row("SELECT value FROM sync_metadata WHERE key = ?", (_REFUSED,))
        return 0 if row is None else int(row[0])

    def ask(self, asked: Asked, binding: str, *, now: float) -> Approval | None:
        """Let a question wait, unless the same one does; return it, or None if too many wait.

        ``binding``: a digest of all that an answer is bound to.
        """
        with self._db.join_or_begin(durable=True):
            self.drop_expired(now=now)
            if (known := _found(self._db.row(_BY_BINDING, (binding,)))) is not None:
                return known
            if self._db.number(_COUNT) >= MOST_WAITING:  # defence: few-approvals-wait
                self._db.run(_COUNT_REFUSED, (_REFUSED,))
                return None
            approval_id = secrets.token_hex(4)
            self._db.run(
                _ADD,
                (
                    *(approval_id, binding, asked.client, asked.profile, asked.tool),
                    *(asked.action, asked.note_id, asked.question, asked.diff, now, now + SECONDS),
                ),
            )
            return _found(self._db.row(_BY_ID, (approval_id,)))

    def decide(self, approval_id: str, *, agrees: bool, now: float) -> Approval | None:
        """Answer a question that waits, in the caller's transaction; None if it does not, or not any more."""
        answer = Answer.YES if agrees else Answer.NO
        with self._db.join_or_begin(durable=True):
            self.drop_expired(now=now)
            if not self._db.run(_DECIDE, (answer.value, approval_id)):
                return None
            self._db.run("DELETE FROM sync_metadata WHERE key = ?", (_REFUSED,))
            return _found(self._db.row(_BY_ID, (approval_id,)))

    def redeem(self, binding: str, *, now: float) -> Approval | None:
        """Return the question that was answered for exactly this, None if there is none. A yes is used up."""
        with self._db.join_or_begin(durable=True):
            self.drop_expired(now=now)
            found = _found(self._db.row(_ANSWERED, (binding,)))
            if found is not None and found.answer is Answer.YES:
                # defence: approval-counts-once
                self._db.run("DELETE FROM approvals WHERE id = ?", (found.id,))
            return found

    def drop_expired(self, *, now: float) -> None:
        """Remove the questions whose ten minutes are over: they hold texts of notes."""
        # A clock that was set back makes no question wait longer.
        # defence: approval-expires
        self._db.run("DELETE FROM approvals WHERE abs(? - asked_at) >= ?", (now, SECONDS))

    def _open(self, now: float) -> list[Approval]:
        rows = self._db.rows(_OPEN, (now, SECONDS))
        return [_approval(row) for row in rows]


def _found(row: Row | None) -> Approval | None:
    return None if row is None else _approval(row)


def _approval(row: Row) -> Approval:
    *fields, answer = row
    named = dict(zip(_COLUMNS.split(", "), fields, strict=False))
    return Approval(**named, answer=Answer(answer))


_COLUMNS = (
    "id, client, profile, tool, action, note_id, question, diff, asked_at, expires_at, answer"
)
_SELECT = f"SELECT {_COLUMNS} FROM approvals"  # noqa: S608 - constants only
_OPEN = f"{_SELECT} WHERE abs(? - asked_at) < ? ORDER BY asked_at, rowid"
_BY_ID = f"{_SELECT} WHERE id = ?"
_BY_BINDING = f"{_SELECT} WHERE binding = ?"
_ANSWERED = f"{_SELECT} WHERE binding = ? AND answer <> ''"
_ADD = """
INSERT INTO approvals(id, binding, client, profile, tool, action, note_id, question, diff, asked_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNT = "SELECT count(*) FROM approvals WHERE answer <> 'no'"
_DECIDE = "UPDATE approvals SET answer = ? WHERE id = ? AND answer = ''"
_COUNT_REFUSED = """
INSERT INTO sync_metadata(key, value) VALUES (?, '1')
ON CONFLICT(key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)
"""
