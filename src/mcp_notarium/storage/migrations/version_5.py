"""Schema 5: ``pending_writes.copied``, by which a conflict copy is known as one after a crash."""

from __future__ import annotations

NAME = "conflict copies known as such"

STATEMENTS = (
    """
    ALTER TABLE pending_writes
    ADD COLUMN copied INTEGER NOT NULL DEFAULT 0 CHECK (copied IN (0, 1))
    """,
)
