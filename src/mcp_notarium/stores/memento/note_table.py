"""Read and change the rows of a note inside one transaction, those of other tables that go with it too.

Such are the labels that Prisma keeps in a table of its own (``_LabelToNote``). Only what the file itself
declares counts: a foreign key to the note's id with ON DELETE CASCADE. Rows that hang on these rows are not read.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from mcp_notarium.domain.characters import has_lone_surrogate
from mcp_notarium.errors import StorePlaceUnusable, StoreRejected, VersionConflict
from mcp_notarium.stores.extensions import Replaced
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.memento import note_codec
from mcp_notarium.stores.memento.database_file import Columns, DatabaseFile, quoted
from mcp_notarium.stores.memento.note_codec import (
    EMBEDDING,
    HAS_IMAGES,
    SHOWN,
    Change,
    LinkedRow,
    Row,
    Value,
    pack_all,
    parse_list,
    read_change,
    tags_of,
    unpack,
)

_PARTS = {"images": "pictures", "checkItems": "items of the checklist"}
"""The columns that the content of a note does not say, or not all of."""
_UNSEEN = ("images",)
"""The columns that a write may set and of which the etag does not tell one value from another."""
_SHOWN_ELSEWHERE = frozenset({"id", "title", "content", "userId", "createdAt", "order", EMBEDDING})
_NOTHING = (None, "", "[]", "null")


def touched(body: bytes) -> tuple[str, ...]:
    """Return the columns that a body of an update sets, ``updatedAt`` aside, and those that follow from them."""
    change = read_change(body)
    return (*change.columns, *((EMBEDDING,) if change.rewords else ()))


def find(row: Row, body: bytes) -> Replaced:
    """Return what a body replaces in a row of the columns ``touched``. Raises ``VersionConflict``: see ``find_replaced``."""
    made: dict[str, str] = json.loads(body)["made"]
    new = {EMBEDDING: None} | read_change(body).columns
    old = {name: value for name, value in row.items() if value != new.get(name)}
    # A value that is there already is one that has arrived.
    # defence: app-pictures-stay =False
    if any(_digest(row[name]) != digest for name, digest in made.items() if name in old):
        raise VersionConflict("the note has changed in Memento since")
    if old.keys() <= {EMBEDDING}:
        return Replaced()
    unseen = {name: _digest(new[name]) for name in _UNSEEN if name in old}
    native = to_json({"columns": pack_all(old), "made": unseen})
    becomes = to_json({"columns": pack_all({name: new.get(name) for name in old})})
    return Replaced(native, tuple(_missed(old, new)), becomes)


def native_of(column: str, old: Value, new: Value) -> str:
    """Return what sets a column as long as its value is still the old one; '' if that is the new one."""
    if new == old:
        return ""
    return to_json({"columns": pack_all({column: new}), "made": {column: _digest(old)}}).decode()


def pictures_of(body: bytes, replaced: bytes | None) -> str:
    """See ``PictureStore.pictures_of``."""
    value = json.loads(body)
    before = json.loads(replaced)["columns"] if replaced else {}
    made = {name: _digest(unpack(before[name])) for name in _UNSEEN if name in before}
    made |= value["made"]
    columns = {name: one for name, one in value["columns"].items() if name in made}
    return to_json({"columns": columns, "made": made}).decode() if columns else ""


def name_parts(native: bytes) -> tuple[str, ...]:
    """See ``ReplacingStore.name_parts``."""
    columns = json.loads(native)["columns"] if native else {}
    unknown = "labels" in columns and not tags_of(unpack(columns["labels"]))[1]
    named = [name for column, name in _PARTS.items() if column in columns]
    return (*named, *(["labels"] if unknown else []))


def shown_form(native: bytes) -> dict[str, Any]:
    """See ``ReplacingStore.shown_form``: the columns that say something and that no part of the content shows in the same words."""
    columns = json.loads(native)["columns"] if native else {}
    return {name: value for name, value in columns.items() if name not in _SHOWN_ELSEWHERE}


def overlay(natives: Sequence[str]) -> str:
    """See ``RevivingStore.overlay``."""
    columns: dict[str, Any] = {}
    for native in natives:
        columns |= json.loads(native)["columns"]
    return to_json({"columns": columns}).decode() if columns else ""


def _missed(old: Row, new: Row) -> Iterator[str]:
    """Name what goes with these values that the content of the note does not say."""
    if old.get("images") not in _NOTHING:
        yield _PARTS["images"]
    kept = parse_list(new.get("checkItems"))
    kept = kept if isinstance(kept, list) else []
    items = parse_list(held := old.get("checkItems"))
    odd = not isinstance(items, list) and held not in _NOTHING
    if odd or (isinstance(items, list) and any(item not in kept for item in items)):
        yield _PARTS["checkItems"]
    if "labels" in old and not tags_of(old["labels"])[1]:
        yield "labels"


def _digest(value: Value) -> str:
    said = value if isinstance(value, bytes) else str(value).encode()
    return hashlib.sha256(said).hexdigest()


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
    if users is None:
        return user_id or None
    if not users and user_id:
        raise StorePlaceUnusable(
            "Memento's file has no user yet, and MEMENTO_USER_ID names one",
            resolution_hint="Ask the user to leave MEMENTO_USER_ID out, or to sign up in Memento first.",
        )
    # defence: app-user-named =True
    if user_id in users or len(users) + bool(user_id) < 2:  # noqa: PLR2004 - one, named or not
        return user_id or (users[0] if users else None)
    wrong = "names none of them" if user_id else "is not set"
    counts = dict(connection.execute(_COUNTS).fetchall()) if counting else {}
    named = [f"“{one}”" + (f" (notes: {counts.get(one, 0)})" if counting else "") for one in users]
    raise StorePlaceUnusable(
        f"Memento's file has these users, and MEMENTO_USER_ID {wrong}: {_list(named)}",
        resolution_hint=_HINT,
    )


def _read_users(connection: sqlite3.Connection) -> list[str] | None:
    try:
        found = connection.execute('SELECT "id" FROM "User"').fetchall()
    except sqlite3.OperationalError:
        return None  # an app without users
    return [one[0] for one in found if isinstance(one[0], str)]


def _list(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


_LINKS = """
SELECT t.name, k."from" FROM sqlite_master AS t, pragma_foreign_key_list(t.name) AS k
WHERE t.type = 'table' AND lower(k."table") = 'note' AND k.on_delete = 'CASCADE' AND coalesce(k."to", 'id') = 'id'
AND (SELECT count(*) FROM pragma_foreign_key_list(t.name) AS part WHERE part.id = k.id) = 1
"""
"""Each table with a column whose row goes with the note of that id."""
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def read(connection: sqlite3.Connection, note_id: str) -> list[LinkedRow]:
    """Return the rows that SQLite removes together with the note."""
    found = []
    for table, column in connection.execute(_LINKS).fetchall():
        names = ", ".join(map(quoted, _columns(connection, table)))
        sql = f"SELECT {names} FROM {quoted(table)} WHERE {quoted(column)} = ?"  # noqa: S608 - names of the file, quoted
        rows = connection.execute(sql, (note_id,)).fetchall()
        found += [LinkedRow(table, dict(row)) for row in rows]
    return found


def insert(connection: sqlite3.Connection, rows: Sequence[LinkedRow]) -> None:
    """Make the rows again. One that the file does not take any more is left out: its label has gone, too."""
    tables = {table for table, _ in connection.execute(_LINKS).fetchall()}
    for row in rows:
        if row.table not in tables:
            continue
        there = _columns(connection, row.table)
        values = {name: value for name, value in row.values.items() if name in there}
        names, marks = ", ".join(map(quoted, values)), ", ".join("?" * len(values))
        sql = f"INSERT OR IGNORE INTO {quoted(row.table)} ({names}) VALUES ({marks})"  # noqa: S608 - the same
        try:
            connection.execute(sql, tuple(values.values()))
        except sqlite3.IntegrityError:
            continue


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in connection.execute(_COLUMNS, (table,)).fetchall()]


PORTION = 1000
"""Notes that are read at once. The app cannot commit meanwhile."""
_Read = TypeVar("_Read")
_KINDS = 'SELECT typeof("updatedAt") FROM "Note" ORDER BY rowid DESC LIMIT 20'
"""Types of the newest dates. SQLite tells them without a look at the dates, which stand behind the images."""
_TEXTS = """
SELECT "updatedAt" FROM "Note" WHERE typeof("updatedAt") = 'text' ORDER BY rowid DESC LIMIT 3
"""
_FIRST_USERS = 'SELECT "createdAt" FROM "User" LIMIT 20'
_ONE_OF = '"id" IN (SELECT value FROM json_each(?))'
_IMAGES = f"""ifnull("images" NOT IN ('', '[]', 'null'), 0) AS {quoted(HAS_IMAGES)}"""
_DATES = ("createdAt", "updatedAt")
_OWNER = "userId"
_DEFAULTS = {"type": "text", "color": "default", "size": "small"}
"""Values that the app itself takes for granted in a note; a file without the column loses nothing."""


class NoteTable:
    """Reach the notes of one user and of nobody; '': all, in a file with one user at most.

    Raises ``StoreUnavailable`` if it must be said whose notes these are.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        columns: Columns,
        user_id: str,
        *,
        counting: bool = False,
    ) -> None:
        self._db = connection
        self._columns = columns
        self.owner = (
            find_owner(connection, user_id, counting=counting) if _OWNER in columns else None
        )
        """The user whom a new note belongs to."""
        owned = bool(user_id) and _OWNER in columns  # defence: app-notes-of-one-user =False
        self._mine = '("userId" IS NULL OR "userId" = ?)' if owned else "1"
        self._me = (user_id,) if owned else ()
        shown = [quoted(name) for name in (*SHOWN, *_DATES) if name in columns]
        self._shown = ", ".join([*shown, _IMAGES] if "images" in columns else shown)

    def all_ids(self) -> tuple[list[str], int]:
        """Return the ids of the notes of all users, from an index alone, and how many rows have none."""
        found = [one for (one,) in self._db.execute('SELECT "id" FROM "Note"').fetchall()]
        ids = [one for one in found if isinstance(one, str) and one]
        return ids, len(found) - len(ids)

    def read_ages(self, ids: Sequence[str]) -> list[tuple[int, str]]:
        """Return these notes' ids with a number that is the lower, the later a note has changed."""
        at = note_codec.NUMBER.format(quoted("updatedAt"))
        found = self._select(f'"id", {at}', _ONE_OF, json.dumps(ids))
        return [(-(date or 0), one) for one, date in found]

    def read_all(self, ids: Sequence[str]) -> list[Row]:
        """Return what is shown of these notes, in this order; some may have gone."""
        found = self._select(self._shown, _ONE_OF, json.dumps(ids))
        by_id = {one["id"]: dict(one) for one in found}
        return [by_id[one] for one in ids if one in by_id]

    def read_order(self, ids: Sequence[str]) -> list[Row]:
        """Return of these notes what is shown, and their place in the user's own order."""
        order = ', "order"' if "order" in self._columns else ""
        return [dict(one) for one in self._select(self._shown + order, _ONE_OF, json.dumps(ids))]

    def read(self, note_id: str, *, whole: bool = False) -> Row | None:
        """Return what is shown of a note, or all of its columns."""
        if has_lone_surrogate([note_id]):
            return None  # SQLite takes no half character
        columns = ", ".join(map(quoted, sorted(self._columns))) if whole else self._shown
        found = self._select(columns, '"id" = ?', note_id)
        return dict(found[0]) if found else None

    def find_replaced(self, note_id: str, body: bytes) -> Replaced | None:
        """Return what a body replaces in a note; None if there is no such note. Raises ``VersionConflict``."""
        names = [quoted(name) for name in touched(body) if name in self._columns]
        found = self._select(", ".join(names) or "1", '"id" = ?', note_id)
        return find(dict(found[0]) if names else {}, body) if found else None

    def full_copy(self, note_id: str) -> bytes | None:
        """Return a whole note with the rows of other tables that go when it goes; None if there is no such note."""
        row = self.read(note_id, whole=True)
        if row is None:
            return None
        return note_codec.full_copy(row, read(self._db, note_id))

    def insert(self, note_id: str, change: Change) -> None:
        """Make a note. Raises ``StoreRejected`` if the file does not take it."""
        at = self._date(change.at)
        values: dict[str, Any] = {
            "createdAt": at,
            **change.columns,
            "id": note_id,
            "updatedAt": at,
        }
        if _OWNER in self._columns and _OWNER not in values:
            values[_OWNER] = self.owner
        known = self._own(values) if change.revives else self._known(values)
        names, marks = ", ".join(map(quoted, known)), ", ".join("?" * len(known))
        sql = f'INSERT INTO "Note" ({names}) VALUES ({marks})'  # noqa: S608 - names of columns, quoted
        self._change(sql, *known.values())
        insert(self._db, change.links)  # defence: linked-rows-come-back

    def update(self, note_id: str, change: Change) -> None:
        """Change these columns of a note, and what follows from that."""
        values: dict[str, Value] = {**change.columns, "updatedAt": self._date(change.at)}
        if change.rewords and EMBEDDING in self._columns:  # defence: old-embedding-goes
            values.setdefault(
                EMBEDDING, None
            )  # made of the old words, it would find the wrong note
        known = self._known(values)
        changes = ", ".join(f"{quoted(name)} = ?" for name in known)
        sql = f'UPDATE "Note" SET {changes} WHERE "id" = ?'  # noqa: S608 - the same
        self._change(sql, *known.values(), note_id)

    def delete(self, note_id: str) -> None:
        """Remove a note. Raises ``StoreRejected`` if something in the file needs it."""
        self._change('DELETE FROM "Note" WHERE "id" = ?', note_id)

    def _own(self, values: dict[str, Value]) -> dict[str, Value]:
        """Leave values out that the file has no column for."""
        return {name: value for name, value in values.items() if name in self._columns}

    def _known(self, values: dict[str, Value]) -> dict[str, Value]:
        """Leave values out that the file has no column for. Raises ``StoreRejected`` if they say anything."""
        known = self._own(values)
        said = {name for name, value in values.items() if value and value != _DEFAULTS.get(name)}
        lost = said - known.keys()
        if lost:
            raise StoreRejected(
                f"this version of Memento has no {', '.join(sorted(lost))}; nothing was saved",
                subcategory="no_column",
                resolution_hint="Leave that out; the user can update Memento.",
            )
        return known

    def _select(self, what: str, where: str, *values: Value) -> list[sqlite3.Row]:
        sql = f'SELECT {what} FROM "Note" WHERE {where} AND {self._mine}'  # noqa: S608 - names of columns, quoted
        return self._db.execute(sql, (*values, *self._me)).fetchall()

    def _change(self, sql: str, *values: Value) -> None:
        try:
            self._db.execute(sql, values)
        except (UnicodeEncodeError, OverflowError):
            raise StoreRejected(
                "a value is none that Memento's file can hold; nothing was saved"
            ) from None
        except sqlite3.IntegrityError as error:
            what = getattr(error, "sqlite_errorname", "constraint")
            raise StoreRejected(
                f"Memento's file refuses this by a rule of its own ({what}); nothing was saved",
                resolution_hint="Ask the user to check MEMENTO_USER_ID.",
            ) from None

    def _date(self, at: int) -> int | str:
        """Return a date in the form of the file, which other tables show if there is no note."""
        kinds = [kind for (kind,) in self._db.execute(_KINDS).fetchall()]
        # defence: app-dates-as-in-its-file =True
        if kinds and kinds.count("text") * 2 <= len(kinds):
            return at
        try:
            found = self._db.execute(_TEXTS if kinds else _FIRST_USERS).fetchall()
        except sqlite3.OperationalError:
            return at  # an app without users
        return note_codec.write(at, note_codec.find_form(date for (date,) in found))


def read_in_portions(
    file: DatabaseFile, user_id: str, read: Callable[[NoteTable, Sequence[str]], list[_Read]]
) -> tuple[list[_Read], int]:
    """Read all notes, each portion as it is then; and count the rows that are no notes."""
    with file.reading() as opened:
        ids, left_out = NoteTable(*opened, user_id, counting=True).all_ids()
    found: list[_Read] = []
    for at in range(0, len(ids), PORTION):  # defence: app-writes-between PORTION=100000
        with file.reading() as opened:
            found += read(NoteTable(*opened, user_id), ids[at : at + PORTION])
    return found, left_out
