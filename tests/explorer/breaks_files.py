"""Break the stores of files on purpose, to see that the worlds over real files find it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.file_names import numbered
from mcp_notarium.domain.note import PendingWrite, Tombstone
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.write_ahead_log import WalFlusher
from mcp_notarium.stores.local import attachments as local_files
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento import database_file, note_codec
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault import attachment_writer, file_table, file_writer
from mcp_notarium.stores.vault.listing import KnownFiles
from mcp_notarium.stores.vault.store import VaultStore

# The local notebook.


def _local_base_not_compared(set_attribute: Set) -> None:
    push = LocalStore._push

    def over_anything(self: LocalStore, write: PendingWrite) -> Any:
        row = self._row(write.note_id)
        if row is not None and write.base_etag is not None:
            write = replace(write, base_etag=str(row[1]))
        return push(self, write)

    set_attribute(LocalStore, "_push", over_anything)


def _local_not_flushed(set_attribute: Set) -> None:
    transaction = Database.transaction

    async def flush(_self: WalFlusher) -> None:
        return

    @contextmanager
    def join(self: Database, **_durable: bool) -> Iterator[None]:
        if self.in_transaction:
            yield
            return
        with transaction(self):
            yield

    set_attribute(Database, "transaction", lambda self, **_durable: transaction(self))
    set_attribute(Database, "join_or_begin", join)
    set_attribute(WalFlusher, "flush", flush)


def _local_removals_not_told(set_attribute: Set) -> None:
    changes = LocalStore.changes

    async def silent(self: LocalStore, cursor: str, **how: Any) -> Any:
        page = await changes(self, cursor, **how)
        return replace(
            page, changes=tuple(one for one in page.changes if not isinstance(one, Tombstone))
        )

    set_attribute(LocalStore, "changes", silent)


# The vault.


def _displaced_not_told(set_attribute: Set) -> None:
    replace_file = file_writer.replace_file

    def silent(parent: int, name: str, data: bytes, *, held: Any, **how: Any) -> Any:
        written, _, certain = replace_file(parent, name, data, held=held, **how)
        return written, held, certain

    set_attribute(file_writer, "replace_file", silent)


def _not_exchanged(set_attribute: Set) -> None:
    rename = file_writer.rename

    def without_exchange(parent: int, old: str, target: int, new: str, *, exchange: bool) -> bool:
        return not exchange and rename(parent, old, target, new, exchange=False)

    set_attribute(file_writer, "rename", without_exchange)


def _writers_not_awaited(set_attribute: Set) -> None:
    set_attribute(file_writer, "_wait_for_writers", lambda *_names: True)


def _left_behind_removed(set_attribute: Set) -> None:
    set_attribute(
        file_table, "recover", lambda folder, name, **_how: bool(os.unlink(name, dir_fd=folder))
    )


def _flushed_too_late(set_attribute: Set) -> None:
    replace_file, flush = file_writer.replace_file, file_writer.flush

    def late(parent: int, name: str, data: bytes, **how: Any) -> Any:
        set_attribute(file_writer, "flush", lambda _folder: None)
        try:
            done = replace_file(parent, name, data, **how)
        finally:
            set_attribute(file_writer, "flush", flush)
        flush(parent)
        return done

    set_attribute(file_writer, "replace_file", late)


def _removed_unread(set_attribute: Set) -> None:
    def remove(parent: int, name: str, *, before: Callable[[], None], **_how: Any) -> bool:
        before()
        temporary = f".notarium-gone{name}"
        file_writer.move(parent, name, parent, temporary)
        os.unlink(temporary, dir_fd=parent)
        return True

    set_attribute(file_writer, "remove_file", remove)


def _events_believed_forever(set_attribute: Set) -> None:
    look = VaultStore._look
    set_attribute(
        VaultStore, "_look", lambda self, root, within: look(self, root, within=1e9 + within)
    )


def _state_not_compared(set_attribute: Set) -> None:
    set_attribute(KnownFiles, "find", lambda self, place, _state: self.last(place))


# Memento.


def _memento_not_compared(set_attribute: Set) -> None:
    set_attribute(MementoStore, "_require", lambda _self, _held, _note_id, _etag: None)


def _memento_date_alone(set_attribute: Set) -> None:
    set_attribute(note_codec, "etag", lambda row: str(row["updatedAt"]))


def _memento_failure_passed_over(set_attribute: Set) -> None:
    commit = database_file._commit

    def hopeful(connection: sqlite3.Connection) -> None:
        try:
            commit(connection)
        except sqlite3.Error:
            connection.rollback()

    set_attribute(database_file, "_commit", hopeful)


# Files beside notes.


def _file_not_brought_back(set_attribute: Set) -> None:
    set_attribute(attachment_writer, "_take_back", lambda *_: True)


def _same_file_not_known(set_attribute: Set) -> None:
    set_attribute(local_files.NoteFiles, "_find_name", _any_free_name)


def _any_free_name(self: local_files.NoteFiles, note_id: str, name: str, _digest: str) -> Any:
    taken = "SELECT count(*) FROM notebook_files WHERE note_id = ?"
    return numbered(name, 2 + self._db.number(taken, (note_id,))), None


BREAKS: dict[str, Break] = {
    "the notebook stores over any base": Break(
        "local files",
        _local_base_not_compared,
        ("lost", "undo"),
    ),
    "a save in the notebook is not flushed": Break(
        "local files", _local_not_flushed, ("lost", "chain", "version")
    ),
    "the notebook tells of no removal": Break(
        "local files",
        _local_removals_not_told,
        ("the store",),
    ),
    "what a save displaces is not told": Break("vault files", _displaced_not_told, ("lost",)),
    "files are not exchanged": Break("vault files", _not_exchanged, ("lost",)),
    "nobody waits for writers": Break("vault files", _writers_not_awaited, ("lost",)),
    "what is left behind is removed": Break(
        "vault files", _left_behind_removed, ("lost", "the store")
    ),
    "the displaced file goes before the flush": Break("vault files", _flushed_too_late, ("lost",)),
    "a note is removed without a look": Break("vault files", _removed_unread, ("lost",)),
    "events are believed for ever": Break("vault files", _events_believed_forever, ("the store",)),
    "a changed file counts as read": Break("vault files", _state_not_compared, ("the store",)),
    "Memento's notes are not compared": Break("memento files", _memento_not_compared, ("lost",)),
    "Memento's date alone tells of changes": Break(
        "memento files",
        _memento_date_alone,
        ("the store", "lost"),
    ),
    "a file does not come back": Break(
        "vault files, attachments", _file_not_brought_back, ("a file that is gone",)
    ),
    "a file is not known again": Break(
        "local files, attachments", _same_file_not_known, ("kept twice",)
    ),
    "a commit that failed counts": Break(
        "memento files",
        _memento_failure_passed_over,
        ("lost", "the store", "have it still"),
    ),
}
"""By what is broken."""
