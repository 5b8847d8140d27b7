"""``Kept``: a few answers about the notes, for as long as no note changes. In memory only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from mcp_notarium.storage.connection import Database

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


class Kept(Generic[_Asked, _Answer]):
    """``written`` grows with every change of notes through ``database``; what others change, SQLite tells."""

    def __init__(self, database: Database, *, written: Callable[[], int], most: int) -> None:
        self._db = database
        self._written = written
        self._most = most
        self._as_of = (-1, -1)
        self._answers: dict[_Asked, _Answer] = {}

    def now(self) -> dict[_Asked, _Answer] | None:
        """What is true now; ask before reading, so that a change in between empties it the next time.

        None inside a transaction, which may be undone.
        """
        if self._db.in_transaction:
            return None
        now = (self._db.data_version(), self._written())
        if now != self._as_of:
            self._answers.clear()
            self._as_of = now
        return self._answers

    def keep(self, asked: _Asked, answer: _Answer) -> None:
        """Keep one more; beyond ``most`` the oldest is forgotten."""
        if asked not in self._answers and len(self._answers) == self._most:
            self._answers.pop(next(iter(self._answers)))
        self._answers[asked] = answer
