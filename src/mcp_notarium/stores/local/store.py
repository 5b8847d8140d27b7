"""Keep notes in tables of the account's own database.

No method waits: a write and the index's copy of it are one transaction of the caller's. Other processes
share database and index, so they see it as soon as it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from mcp_notarium.domain.note import NONE, Content, PendingWrite, Properties, Revision, Tombstone
from mcp_notarium.errors import (
    TRASH_FIRST,
    CursorLost,
    IdTaken,
    NoteNotFound,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.context import LentDatabase
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    WriteGuard,
    check_not_withdrawn,
    random_id,
)
from mcp_notarium.stores.extensions import Attachment, KeptFile, Restored, Room
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.local import attachments
from mcp_notarium.stores.local.kind import KIND

MOST_LISTED = 500
"""Notes of one page: they are in memory together."""
MOST_REMOVED = 10_000
"""Removals that are remembered. A server that was away for more of them compares everything."""
ID_LENGTH = 8
"""Hex digits of an id: short enough to be read out. One that a note has already is not given again."""
_COLUMNS = (
    "id, change, write_id, made_by, created_at, modified_at, trash, tags, properties, title, text"
)


class LocalStore:
    """Hold the notes of one notebook."""

    traits = Traits(
        Changes.FEED,
        WriteGuard.CAS,
        Retry.IDEMPOTENT,
        **traits_of(KIND),
        keeps_dates=True,
        in_database=True,
        attachments=True,
    )
    codec_version = 1
    largest_file = attachments.LARGEST

    def __init__(self, database: LentDatabase) -> None:
        self._db = database
        self._files = attachments.NoteFiles(database)

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. A mark is the change of the last note of the page before."""
        limit = max(1, min(limit, MOST_LISTED))
        before = _number(mark) if mark is not None else None
        cursor = str(self._db.number("SELECT change FROM notebook"))
        total = self._db.number("SELECT count(*) FROM notebook_notes") if mark is None else None
        rows = self._db.rows(_PAGE if with_content else _BARE_PAGE, {"before": before, "n": limit})
        entries = tuple(
            _revision(row) if with_content else Entry(row[0], str(row[1])) for row in rows
        )
        more = str(rows[-1][1]) if len(rows) == limit else None
        return ListingPage(entries, cursor, more, total)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``. It never waits: the index of other processes is this one."""
        after = _number(cursor)
        ((newest, forgotten),) = self._db.rows("SELECT change, forgotten FROM notebook")
        if not forgotten <= after <= newest:
            raise CursorLost("this place in the changes of the notebook is not known")
        rows = self._db.rows(_CHANGES, {"after": after, "n": MOST_LISTED})
        found = tuple(
            Tombstone(note_id) if removed else Entry(note_id, str(change))
            for change, note_id, removed in rows
        )
        end = rows[-1][0] if len(rows) == MOST_LISTED else newest
        return ChangePage(found, str(end))

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``."""
        held = self._row(note_id)
        if held is None:
            raise _not_found(note_id)
        return _revision(held)

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        """See ``Store.compose``: the whole note as JSON."""
        wanted = content.cleaned()
        others = json.loads(base.raw or b"{}") if base else {}
        changed = base is None or wanted != base.content
        made, last = wanted.dates or (now, now)
        fields = {
            "title": wanted.title,
            "text": wanted.text,
            "tags": list(wanted.tags),
            "trash": wanted.trash,
            "created": base.created_at if base else made,
            "modified": last if base is None or changed else base.modified_at,
        }
        known = base.content.properties if base else NONE
        others = {name: value for name, value in others.items() if name not in known}
        return json.dumps({"others": others | {**wanted.properties}} | fields).encode()

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return _revision((note_id, 0, "", "", *_columns(body)))

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:  # noqa: ARG002
        """See ``Store.new_id``. ``push`` refuses one that a note has."""
        return random_id(f"{seed}/{attempt}")[:ID_LENGTH]

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. It joins the caller's transaction."""
        check_not_withdrawn()
        with self._db.join_or_begin(durable=True):
            return self._push(write)

    def _push(self, write: PendingWrite) -> Acknowledgement:
        row = self._row(write.note_id)
        if row is None:
            if write.base_etag is not None:
                raise _not_found(write.note_id)
            return self._store(write, made_by=write.write_id)
        held, made_by = _revision(row), row[3]
        if write.base_etag is None and made_by != write.write_id:
            raise IdTaken("a note of the notebook has this id", details={"id": write.note_id})
        if write.base_etag is None or row[2] == write.write_id:
            return Acknowledgement(held, PushStatus.REPEATED, alone=True)
        if held.etag != write.base_etag:  # defence: local-stale-base-refused
            raise VersionConflict("the note has changed", details={"id": write.note_id})
        if tuple(row[4:]) == _columns(write.body):
            return Acknowledgement(held, PushStatus.UNCHANGED, alone=True)
        return self._store(write, made_by=made_by)

    def _store(self, write: PendingWrite, *, made_by: str) -> Acknowledgement:
        change = self._next_change()
        row = (write.note_id, change, write.write_id, made_by, *_columns(write.body))
        self._db.run(_PUT, row)
        self._db.run("DELETE FROM notebook_removed WHERE id = ?", (write.note_id,))
        return Acknowledgement(_revision(row), PushStatus.STORED, alone=True)

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. It joins the caller's transaction."""
        check_not_withdrawn()
        with self._db.join_or_begin(durable=True):
            row = self._row(note_id)
            if row is None:
                return
            held = _revision(row)
            if held.etag != etag:
                raise VersionConflict("the note has changed", details={"id": note_id})
            if not held.content.trash:
                raise StoreRejected(
                    "the note is not in the trash; nothing was deleted",
                    details={"id": note_id},
                    resolution_hint=TRASH_FIRST,
                )
            self._db.run("DELETE FROM notebook_notes WHERE id = ?", (note_id,))
            self._files.drop_note(note_id)
            self._db.run(
                "INSERT INTO notebook_removed VALUES (?, ?)", (note_id, self._next_change())
            )
            self._forget_old_removals()

    async def list_attachments(self, revision: Revision) -> Sequence[Attachment]:
        """See ``AttachmentStore.list_attachments``."""
        return self._files.list_shown(revision) if "](" in revision.content.text else []

    async def read_attachment(
        self, attachment: Attachment, *, largest: int
    ) -> tuple[Attachment, bytes | None]:
        """See ``AttachmentStore.read_attachment``."""
        return attachment, self._files.read(attachment.id, largest=largest)

    def id_of_link(self, note_id: str, target: str) -> str:  # noqa: ARG002 - a link names the note as well
        """See ``AttachmentStore.id_of_link``."""
        owner, _, name = target.partition("/")
        return target if name and ":" not in owner else ""

    async def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:
        """See ``KeepingStore.keep_file``. It joins the caller's transaction."""
        with self._db.join_or_begin(durable=True):
            if self._row(revision.id) is None:
                raise _not_found(revision.id)
            return self._files.keep(revision, name, kind, data, largest=self.largest_file)

    async def find_room(self) -> Room:
        """See ``KeepingStore.find_room``."""
        return self._files.find_room()

    def marks_of(self, file_id: str) -> tuple[str, ...]:
        """See ``KeepingStore.marks_of``."""
        return file_id, quote(file_id)

    async def discard_file(self, file_id: str, digest: str) -> bool:
        """See ``KeepingStore.discard_file``. A file that a note shows, perhaps one that the rules hide, stays."""
        with self._db.join_or_begin(durable=True):
            if any(self._db.row(_SHOWING, (mark,)) for mark in self.marks_of(file_id)):
                return False
            return self._files.discard(file_id, digest)

    async def restore_file(self, file_id: str, digest: str) -> Restored:
        """See ``KeepingStore.restore_file``."""
        with self._db.join_or_begin(durable=True):
            return self._files.restore(file_id, digest)

    async def close(self) -> None:
        """See ``Store.close``: the database is the caller's."""

    def _row(self, note_id: str) -> Any:
        return self._db.row(f"SELECT {_COLUMNS} FROM notebook_notes WHERE id = ?", (note_id,))  # noqa: S608 - a constant

    def _next_change(self) -> int:
        return self._db.number("UPDATE notebook SET change = change + 1 RETURNING change")

    def _forget_old_removals(self) -> None:
        oldest = self._db.number(_OLDEST_REMOVAL, (MOST_REMOVED,))
        if oldest:
            self._db.run("DELETE FROM notebook_removed WHERE change <= ?", (oldest,))
            self._db.run("UPDATE notebook SET forgotten = ?", (oldest,))


def _number(place: str) -> int:
    if not (place.isascii() and place.isdecimal()) or len(place) > 18:  # noqa: PLR2004 - SQLite's integers
        raise CursorLost("this place in the notebook is not known")
    return int(place)


def _not_found(note_id: str) -> NoteNotFound:
    return NoteNotFound("no such note in the notebook", details={"id": note_id})


def _columns(body: bytes) -> tuple[Any, ...]:
    fields = json.loads(body)
    return (
        float(fields["created"]),
        float(fields["modified"]),
        int(fields["trash"]),
        json.dumps(fields["tags"]),
        json.dumps(fields["others"]),
        fields["title"],
        fields["text"],
    )


def _revision(row: Any) -> Revision:
    note_id, change, _, _, created, modified, trash, tags, properties, title, text = row
    known = Properties.from_json(properties)
    return Revision(
        id=note_id,
        etag=str(change) if change else "",
        content=Content(text, tuple(json.loads(tags)), bool(trash), title, known),
        created_at=created,
        modified_at=modified,
        raw=properties.encode(),
    )


_SHOWING = "SELECT 1 FROM notebook_notes WHERE instr(text, ?) > 0"
_PAGE = f"""
SELECT {_COLUMNS} FROM notebook_notes WHERE :before IS NULL OR change < :before
ORDER BY change DESC LIMIT :n
"""  # noqa: S608 - a constant
_BARE_PAGE = """
SELECT id, change FROM notebook_notes WHERE :before IS NULL OR change < :before
ORDER BY change DESC LIMIT :n
"""
_CHANGES = """
SELECT change, id, 0 FROM notebook_notes WHERE change > :after
UNION ALL SELECT change, id, 1 FROM notebook_removed WHERE change > :after
ORDER BY 1 LIMIT :n
"""
_PUT = f"""
INSERT INTO notebook_notes({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  change = excluded.change, write_id = excluded.write_id, created_at = excluded.created_at,
  modified_at = excluded.modified_at, trash = excluded.trash, tags = excluded.tags,
  properties = excluded.properties, title = excluded.title, text = excluded.text
"""  # noqa: S608 - a constant
_OLDEST_REMOVAL = "SELECT change FROM notebook_removed ORDER BY change DESC LIMIT 1 OFFSET ?"
