"""Schema 4: ``withheld``, the notes of the account that a policy keeps out of this cache.

Nothing of such a note is here but what sync needs to leave it alone while it does not change: its
id, etag and version, and the rule that hides it, for the person's question why.
"""

from __future__ import annotations

NAME = "notes that a policy withholds"

STATEMENTS = (
    """
    CREATE TABLE withheld (
      id             TEXT PRIMARY KEY CHECK (id <> ''),
      etag           TEXT NOT NULL,
      server_version INTEGER,
      rule           TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
)
