"""Schema 3: the audit chain. ``audit/record.py`` says what the columns mean.

Append-only as far as a database can say so: nothing is changed, records follow each other without a
gap, and only the oldest may go. Who has the key can drop these triggers; the MACs are for the rest.
"""

from __future__ import annotations

NAME = "audit chain"

STATEMENTS = (
    """
    CREATE TABLE audit (
      number    INTEGER PRIMARY KEY CHECK (number >= 1),
      at_ms     INTEGER NOT NULL,
      client    TEXT NOT NULL,
      act       TEXT NOT NULL CHECK (act <> ''),
      digest    TEXT NOT NULL,
      notes     TEXT NOT NULL,
      decision  TEXT NOT NULL,
      outcome   TEXT NOT NULL,
      bytes_out INTEGER NOT NULL CHECK (bytes_out >= 0),
      refers    INTEGER NOT NULL CHECK (refers >= 0 AND refers < number),
      facts     TEXT NOT NULL,
      previous  TEXT NOT NULL CHECK (length(previous) = 64),
      mac       TEXT NOT NULL CHECK (length(mac) = 64)
    ) STRICT
    """,
    """
    CREATE TRIGGER audit_never_changed BEFORE UPDATE ON audit BEGIN
      SELECT RAISE(ABORT, 'an audit record is never changed');
    END
    """,
    """
    CREATE TRIGGER audit_without_gap BEFORE INSERT ON audit
    WHEN EXISTS (SELECT 1 FROM audit)
     AND new.number <> (SELECT max(number) FROM audit) + 1
    BEGIN
      SELECT RAISE(ABORT, 'an audit record follows the last one');
    END
    """,
    """
    CREATE TRIGGER audit_oldest_first BEFORE DELETE ON audit
    WHEN old.number <> (SELECT min(number) FROM audit)
    BEGIN
      SELECT RAISE(ABORT, 'only the oldest audit record may go');
    END
    """,
)
