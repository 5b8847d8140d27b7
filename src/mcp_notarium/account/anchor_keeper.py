"""Compare an opened database with its anchor, keep the anchor from then on, and watch the place of the open file.

A database that lacks what the anchor knows is read and not changed, until a person has decided; a mixture of two
states is not opened. :class:`AnchorWitness` notices that another file has taken the place of the one that is open, or that an
older one was written over it: SQLite's pages in memory and in the log would make a mixture of the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, NoReturn

from mcp_notarium.account import rollback
from mcp_notarium.account.audit_anchor import Anchor, Anchored, AnchorUnusable
from mcp_notarium.account.copies import Copies
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.account.rollback import Rollback
from mcp_notarium.audit.chain import Head
from mcp_notarium.config import Config
from mcp_notarium.errors import CacheDamaged, CacheError, CacheReplaced, RollbackSeen
from mcp_notarium.storage import write_ahead_log
from mcp_notarium.storage.audit_log import AuditLog, AuditTable
from mcp_notarium.storage.database import Database

REPLACED: Final = "another file, or an older one, has taken the place of the open database"
READS_SECONDS: Final = 0.1
"""Seconds between two looks at the file by statements that only read."""
_UNSURE_SECONDS: Final = 0.5
"""Seconds until a main file that could not be read is read again."""


class AnchorWitness:
    """Watch one open database; see ``storage.write_ahead_log.Witness``.

    ``on_replaced`` is called once, when another file was met in its place.
    """

    def __init__(
        self,
        anchor: Anchor,
        audit: AuditLog,
        database: Database,
        *,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        self._anchor = anchor
        self._audit = audit
        self._database = database
        self._on_replaced = on_replaced
        self.fits = True
        """The chain continues what the anchor says. If not, the anchor is evidence, and nothing is written to it."""
        self.replaced = False
        """Another file was met in the place of the open one."""
        self.displaced = False
        """The open file was replaced by a rename, or removed: what is open is whole."""
        self._next_look = 0.0
        self._unsure_until = 0.0
        found = os.stat(database.path)  # noqa: PTH116 - a tenth of the time
        self._place, self._written = _place(found), _written(found)

    def require_same_file(self, *, writing: bool) -> None:
        """Raise ``CacheReplaced`` if another file, or an older one, is in the place of the open one.

        A statement that only reads looks now and then.
        """
        if self.replaced:
            raise CacheReplaced(REPLACED)
        now = time.monotonic()
        if writing or now >= self._next_look:
            self._next_look = now + READS_SECONDS
            self._look(now)

    def _look(self, now: float) -> None:
        try:
            found = os.stat(self._database.path)  # noqa: PTH116 - as above
        except FileNotFoundError:
            self.displaced = True
            self._fail()
        except OSError:
            return
        if _place(found) != self._place:  # defence: other-file-noticed
            self.displaced = True
            self._fail()
        if _written(found) == self._written or now < self._unsure_until:
            return
        # The anchor is read before the file: another process may be moving the log.
        said = self._anchor.read_alone() if self.fits else None
        there = write_ahead_log.read_main(self._database)
        if there is None:
            self._unsure_until = now + _UNSURE_SECONDS
        elif said is not None and there < said.checkpoint:  # defence: older-file-noticed
            self._fail()
        else:
            self._written = _written(found)

    def _fail(self) -> NoReturn:
        self.replaced = True
        if self.fits:
            met, met_at = rollback.read_met(self._database)  # closing may write the log over it
            self._anchor.note_replaced(time.time(), met=met, met_at=met_at)
        self._on_replaced()
        raise CacheReplaced(REPLACED)

    def before_flush(self, database: Database) -> Callable[[], None]:
        """Remember the end of the chain; return what writes it to the anchor. Raises ``CacheError``."""
        if not self.fits:
            return lambda: None
        head, at = AuditTable(database, self._audit.table.chain_mac).end()
        now = Anchored(head, at, begun=self._audit.last_begun)
        return lambda: self._anchor.advance(now)

    def checkpointed(self, number: int) -> None:
        """Record that the main file has all up to this checkpoint. Never raises."""
        if self.fits and not self.replaced:
            self._anchor.advance(Anchored(Head(), checkpoint=number))


def _place(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _written(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_size


class AnchorKeeper:
    """Compare the database of one opened account with its anchor."""

    def __init__(self, config: Config, opened: OpenedCache, audit: AuditLog) -> None:
        self._stored = not opened.database.in_memory
        self._copies = Copies(opened.anchor.folder, opened.data_key, config.store.tables)
        self._opened = opened
        self._audit = audit

    def start(self, on_replaced: Callable[[], None]) -> tuple[Rollback | None, str | None]:
        """Return what the database lacks, or the notice why the anchor cannot tell.

        ``on_replaced`` is called, in any thread, when another file is met in the place of the open one. Raises
        ``LockedError`` if the database is a mixture, and ``CacheError``.
        """
        if not self._stored:
            return None, None
        missing, unusable = None, None
        try:
            missing = self._find()
        except AnchorUnusable as error:
            unusable = rollback.describe_unusable(error)
        except CacheDamaged:
            missing = rollback.find_replaced(self._opened.anchor, self._copies)
            if missing is None:
                raise
        anchor, database = self._opened.anchor, self._opened.database
        if missing is not None and missing.mixed:
            if not database.read_only:
                rollback.note_replaced(missing, anchor, time.time())
            raise missing.locked()
        if not database.read_only:
            witness = AnchorWitness(anchor, self._audit, database, on_replaced=on_replaced)
            database.witness = witness
            if missing is not None:
                self._refuse_changes(missing, witness)
            elif unusable is None:
                anchor.begin(self._audit.table, database)
        return missing, unusable

    def _refuse_changes(self, missing: Rollback, witness: AnchorWitness) -> None:
        """Put on record what is missing; let no change begin until the anchor fits, unless no change is."""
        rollback.note(missing, self._audit, self._opened.anchor, self._opened.database)
        witness.fits = missing.harmless
        if missing.harmless:
            return

        def refuse() -> RollbackSeen | None:
            try:
                found = self._find()
            except (AnchorUnusable, CacheError):
                found = missing
            if found is not None:
                return found.refusal()
            witness.fits = True
            self._audit.refusal = lambda: None
            return None

        self._audit.refusal = refuse  # defence: change-needs-the-anchor

    def _find(self) -> Rollback | None:
        opened = self._opened
        return rollback.find(
            opened.anchor,
            self._audit.table,
            opened.database,
            had_log=opened.had_log,
            copies=self._copies,
        )
