"""Number the checkpoints of a database, so that an older main file in the place of the newest one is known.

The log moves into the main file only behind a transaction that raises the number. So each state of the main
file has a number of its own, which is on one page and can be read there without the log. A transaction
after the move raises it again and begins the log anew: what is left of a log that was cut inside the part
that the main file has already shows a lower number than that.
"""

from __future__ import annotations

from contextlib import closing

from mcp_notarium.errors import CacheError, LockedError
from mcp_notarium.storage.database import Database

_NUMBER = "SELECT number FROM checkpoints"


def read_number(database: Database) -> int:
    """Return the number as the log and the main file together have it. Raises ``CacheError``."""
    return database.number(_NUMBER)


def read_main(database: Database) -> int | None:
    """Return the number in the main file alone; None if that cannot be read, or not just now."""
    try:
        with closing(database.open_without_log()) as main:
            return main.number(_NUMBER)
    except (CacheError, LockedError):
        return None
