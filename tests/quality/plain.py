"""Search the same texts by plain FTS5: what a server has that puts the words of a query into ``MATCH``."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import Literal

from quality.scoring import Answer
from quality.texts import Note

_PAGE = 20
_WORD = re.compile(r"\w+")


class PlainIndex:
    """Hold texts and tags in memory, folded and without stemming."""

    def __init__(self, notes: Iterable[Note]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(id UNINDEXED, text, tags,"
            " tokenize='unicode61 remove_diacritics 2')"
        )
        rows = ((note.id, note.text, " ".join(note.tags)) for note in notes)
        self._db.executemany("INSERT INTO texts VALUES (?, ?, ?)", rows)

    def ask(self, text: str, operator: Literal["AND", "OR"]) -> Answer:
        """Return the best 20 by BM25 that have all words, or any."""
        words = dict.fromkeys(_WORD.findall(text))
        if not words:
            return Answer(())
        match = f" {operator} ".join(f'"{word}"' for word in words)
        found = self._db.execute(
            "SELECT id FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (match, _PAGE)
        )
        return Answer(tuple(row[0] for row in found))

    def close(self) -> None:
        """Let go of the memory."""
        self._db.close()
