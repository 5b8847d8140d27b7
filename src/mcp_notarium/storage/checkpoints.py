"""Number the checkpoints of a database, so that an older main file in the place of the newest one is known.

The log moves into the main file only behind a transaction that raises the number. So each state of the main
file has a number of its own, which is on one page and can be read there without the log. A transaction
after the move raises it again and begins the log anew: what is left of a log that was cut inside the part
that the main file has already shows a lower number than that.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING

from mcp_notarium.errors import CacheDamaged, CacheError, LockedError

if TYPE_CHECKING:
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


def move_log(database: Database) -> bool:
    """Move the whole log into the main file and empty it; False if readers prevented it. Raises ``CacheError``."""
    number = number_next(database)
    found = database.row("PRAGMA wal_checkpoint(TRUNCATE)")
    done = found is not None and found[0] == 0
    if done:
        note_done(database, number)
    return done


def move_what_can_be(database: Database) -> None:
    """Move the log as far as readers permit. Never raises. SQLite would do so by itself, without a number."""
    with suppress(CacheError):
        number = number_next(database)
        found = database.row("PRAGMA wal_checkpoint(PASSIVE)")
        if found is not None and found[0] == 0 and found[1] == found[2]:
            note_done(database, number)
            number_next(database)  # begins the log anew


def number_next(database: Database) -> int:
    """Raise the number for the checkpoint that follows; 0 if that is not possible now. Raises ``CacheDamaged``."""
    if database.read_only or database.in_memory or database.in_transaction:
        return 0
    try:
        with database.transaction():
            database.run("UPDATE checkpoints SET number = number + 1")
            return read_number(database)
    except CacheDamaged:
        raise
    except CacheError:
        return 0


def note_done(database: Database, number: int) -> None:
    """Tell the database's witness that the main file has all up to this number; 0: it has none."""
    if database.witness is not None and number:
        database.witness.checkpointed(number)
