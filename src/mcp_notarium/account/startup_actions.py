"""Carry out what start-up decided: open, create, migrate or rebuild; return the open cache.

``Open`` needs no exclusive lock if no key file is to be finished. Everything else changes files and is
done under the key lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mcp_notarium.account import (
    damage_marker,
    database_creation,
    startup_table,
)
from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.database_creation import NewCache, OpenedCache, record_key_sequence
from mcp_notarium.account.inspection import Inspection, Inspector
from mcp_notarium.account.startup_outcomes import Create, Decision, Locked, Migrate, Open, Rebuild
from mcp_notarium.config import Config
from mcp_notarium.crypto.kdf import Bounds, Parameters
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import location_warnings
from mcp_notarium.files.locks import ServerLock, busy_error
from mcp_notarium.files.private_files import StepHook
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.credentials import FoundKey
from mcp_notarium.storage.database_opener import companions

_Value = TypeVar("_Value")

_INTERRUPTED = "an earlier start or reset was interrupted"


@dataclass(frozen=True, slots=True)
class StartupActions:
    """Do what was decided for one call of :func:`opener.open_cache`, with its arguments."""

    settings: Config
    inspector: Inspector
    parameters: Parameters
    bounds: Bounds
    clock: Callable[[], float]
    at: StepHook

    def carry_out(
        self, inspection: Inspection, server_lock: ServerLock, decision: Decision
    ) -> OpenedCache:
        """Do what was decided. Call it under the key lock. Raises ``LockedError`` for a refusal."""
        match decision:
            case Open(notices):
                notices = (*notices, *self._finish_key_files(inspection))
                return self.use(inspection, server_lock, notices)
            case Create(notices):
                if any(path.exists() for path in quarantine.list_files(inspection.folder)):
                    return self._rebuild(inspection, server_lock, _INTERRUPTED, notices)
                return self._create(inspection, server_lock, notices)
            case Migrate():
                return self._migrate(inspection, server_lock, decision)
            case Rebuild(reason):
                return self._rebuild(inspection, server_lock, reason)
            case Locked():
                raise decision.error()

    def use(
        self, inspection: Inspection, server_lock: ServerLock, notices: tuple[str, ...]
    ) -> OpenedCache:
        """Return the cache that the inspection has opened."""
        found = NewCache(_require(inspection.database), inspection.keyfile, inspection.data_key)
        if found.keyfile is not None:
            record_key_sequence(found.database, found.keyfile)
        return self._make_opened(inspection, found, server_lock, notices, created=False)

    def _finish_key_files(self, inspection: Inspection) -> tuple[str, ...]:
        """Finish an interrupted change; a failing disk is no reason to refuse."""
        if inspection.files is None or inspection.seen.plain:
            return ()
        try:
            key_file_store.finish_interrupted_change(
                inspection.folder, inspection.files, now=self.clock()
            )
            self._quarantine_unfinished(inspection)
        except OSError as error:
            reason = os_errors.describe(error)
            return (f"The key file and its copy could not be brought in line ({reason}).",)
        return ()

    def _quarantine_unfinished(self, inspection: Inspection) -> None:
        """Quarantine a prepared key file that was never active, and the empty database made for it."""
        unfinished_files = [inspection.folder.prepared_key_file]
        unfinished = inspection.files.prepared.keyfile if inspection.files is not None else None
        in_force = inspection.keyfile.generation if inspection.keyfile is not None else None
        if unfinished is not None and unfinished.generation != in_force:
            unfinished_files = [
                *companions(inspection.folder.database(unfinished.generation)),
                *unfinished_files,
            ]
        quarantine.move(inspection.folder, unfinished_files, now=self.clock())

    def _create(
        self,
        inspection: Inspection,
        server_lock: ServerLock,
        notices: tuple[str, ...],
        *,
        instead: bool = False,
    ) -> OpenedCache:
        """Create a cache; ``instead``: of what is there, which goes to the quarantine."""
        folder, now = inspection.folder, self.clock()
        used = quarantine.find_last_use(folder)
        # The numbers that were given before are in no file that can be read, but they are smaller than this.
        floor = int(max(now, used or 0)) if instead or used is not None else 0

        def move_old(kept: Collection[Path] = ()) -> None:
            if instead:
                quarantine.move(folder, quarantine.list_files(folder, but=kept), now=now)

        if inspection.files is not None:
            key_file_store.remove_temporary(inspection.files)
        if inspection.seen.plain:
            move_old()
            unfinished = companions(folder.unfinished_plain_database)
            quarantine.move(folder, unfinished, now=now)
            new_cache = database_creation.create_plain(
                folder, self.settings, now=now, version_floor=floor, at=self.at
            )
        else:
            # The only prepared key file there may be is the one that is made now.
            self._quarantine_unfinished(inspection)
            new_cache = database_creation.create_encrypted(
                folder,
                self.settings,
                _require(inspection.key).passphrase,
                parameters=self.parameters,
                now=now,
                version_floor=floor,
                bounds=self.bounds,
                before_commit=move_old,
                at=self.at,
            )
        return self._make_opened(inspection, new_cache, server_lock, notices, created=True)

    def _rebuild(
        self,
        inspection: Inspection,
        server_lock: ServerLock,
        reason: str,
        notices: tuple[str, ...] = (),
    ) -> OpenedCache:
        inspection.close()
        server_lock.exclude()
        notice = (
            "A new cache was made, the old files are in `quarantine/` (writes that never reached the note "
            f"store may be in them): {reason.rstrip('.')}."
        )
        opened = self._create(inspection, server_lock, (notice, *notices), instead=True)
        server_lock.share()
        return replace(opened, rebuilt=True)

    def _migrate(
        self, inspection: Inspection, server_lock: ServerLock, decision: Migrate
    ) -> OpenedCache:
        path = _require(inspection.database).path
        inspection.close()
        server_lock.exclude()
        unfinished = self._finish_key_files(inspection)
        from mcp_notarium.account import schema_migration  # noqa: PLC0415 - rarely needed

        schema_migration.migrate(
            inspection.folder, path, inspection.data_key, inspection.keyfile, now=self.clock()
        )
        server_lock.share()
        notice = f"The database was brought from schema {decision.version} to {decision.program}."
        with ExitStack() as undo:
            again = self.inspector.inspect(now=self.clock())
            undo.callback(again.close)
            after = startup_table.decide(again.seen)
            if isinstance(after, Locked):
                raise after.error()
            if not isinstance(after, Open):
                raise busy_error("the cache is changing")
            opened = self.use(again, server_lock, (notice, *decision.notices, *unfinished))
            undo.pop_all()
        return opened

    def _make_opened(
        self,
        inspection: Inspection,
        new_cache: NewCache,
        server_lock: ServerLock,
        notices: tuple[str, ...],
        *,
        created: bool,
    ) -> OpenedCache:
        folder = inspection.folder
        generation = new_cache.keyfile.generation if new_cache.keyfile is not None else ""
        new_cache.database.on_damage(lambda: damage_marker.mark_damage(folder))
        return OpenedCache(
            database=new_cache.database,
            data_key=new_cache.data_key,
            generation=generation,
            created=created,
            notices=(*notices, *_key_notice(inspection.key), *location_warnings(folder.path)),
            server_lock=server_lock,
            anchor=Anchor(folder, generation, audit_keys(new_cache.data_key).anchor),
            had_log=inspection.seen.files.wal and not created,
        )


def _key_notice(key: FoundKey | None) -> tuple[str, ...]:
    """Return the notice about a key of the working folder. A ``.env`` may lower the log level, too."""
    if key is None or not key.from_working_folder:
        return ()
    return (f"The key of the cache is taken from {key.origin}, which lies in the working folder.",)


def _require(value: _Value | None) -> _Value:
    """Return a value that the decision guarantees."""
    if value is None:
        raise AssertionError("decided without having seen it")
    return value
