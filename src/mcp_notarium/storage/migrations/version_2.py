"""Schema 2: no new table; ``notes.supplement`` written anew with all tokens of a line in their order.

Before, words and runs of the same line stood apart in it, so a phrase of both could not be found
as a phrase.
"""

from __future__ import annotations

from mcp_notarium.search.folding import supplement
from mcp_notarium.storage.connection import Database

NAME = "words and scripts without spaces in one row"

_SLICE = 500


def rewrite(database: Database) -> None:
    """Compute every supplement again; index all notes anew if one is different."""
    database.run("UPDATE search_index SET deferred = 1")
    changed = 0
    last = 0
    while notes := database.rows(_NOTES, (last, _SLICE)):
        last = notes[-1][0]
        now = [(supplement(text), pk) for pk, text, _ in notes]
        stale = [new for new, (*_, old) in zip(now, notes, strict=True) if new[0] != old]
        database.run_many("UPDATE notes SET supplement = ? WHERE pk = ?", stale)
        changed += len(stale)
    if changed:
        database.run("INSERT INTO notes_fts(notes_fts) VALUES ('rebuild')")
    # More than are told apart: who keeps a copy of the vocabulary reads it again.
    database.run("UPDATE search_index SET deferred = 0, changes = changes + 1000")


_NOTES = "SELECT pk, text, supplement FROM notes WHERE pk > ? ORDER BY pk LIMIT ?"
