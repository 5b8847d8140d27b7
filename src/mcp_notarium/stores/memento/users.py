"""Tell whose notes are served: one user's, and those that belong to nobody."""

from __future__ import annotations

import sqlite3

from mcp_notarium.errors import StorePlaceUnusable

_MOST_NAMED = 10
_HINT = (
    "Ask the user to set MEMENTO_USER_ID; `mcp-notarium doctor` says how many notes each user has."
)
_COUNTS = 'SELECT "userId", count(*) FROM "Note" WHERE "userId" IS NOT NULL GROUP BY 1'


def find_owner(connection: sqlite3.Connection, user_id: str, *, counting: bool) -> str | None:
    """Return the user of the settings, else the only one; None if the file has no users.

    Raises ``StorePlaceUnusable`` if the file has others instead, or several to choose from. ``counting``: the
    error says how many notes each has, for which all notes are read.
    """
    users = _read_users(connection)
    if user_id in users or len(users) + bool(user_id) < 2:  # noqa: PLR2004 - one, named or not
        return user_id or (users[0] if users else None)
    wrong = "names none of them" if user_id else "is not set"
    counts = dict(connection.execute(_COUNTS).fetchall()) if counting else {}
    named = [f"“{one}”" + (f" (notes: {counts.get(one, 0)})" if counting else "") for one in users]
    raise StorePlaceUnusable(
        f"Memento's file has these users, and MEMENTO_USER_ID {wrong}: {_list(named)}",
        resolution_hint=_HINT,
    )


def _read_users(connection: sqlite3.Connection) -> list[str]:
    try:
        found = connection.execute('SELECT "id" FROM "User"').fetchall()
    except sqlite3.OperationalError:
        return []  # an app without users
    return [one[0] for one in found if isinstance(one[0], str)]


def _list(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
