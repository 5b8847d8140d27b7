"""Repair a damaged database: save what can be read into a new generation. The key must be right.

Only a copy of the old files is opened, because opening a damaged file may change it. The old files
themselves go to the quarantine, byte for byte, with their key file.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_notarium.account import database_generation, markers, startup_outcomes, startup_table
from mcp_notarium.account.database_generation import Step, SwitchResult
from mcp_notarium.account.inspection import Inspection
from mcp_notarium.account.key_changes import ChangeOptions, missing_cache_error
from mcp_notarium.account.startup_facts import OnUnreadable
from mcp_notarium.account.startup_outcomes import Locked
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import (
    CacheDamaged,
    CacheError,
    CacheFull,
    InvalidRequest,
    LockedError,
    Verdict,
)
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, check_folder
from mcp_notarium.files.locks import exclusive_locks
from mcp_notarium.files.private_files import disk_errors, replace_private, sync_folder
from mcp_notarium.keys import key_file
from mcp_notarium.storage import database_files, integrity, table_copy
from mcp_notarium.storage.database_files import companions
from mcp_notarium.storage.integrity import PAGE_SIZE
from mcp_notarium.storage.sync_state import SyncState
from mcp_notarium.storage.table_copy import OnProgress, SalvageReport

_UNUSABLE = "the cache cannot be repaired"
_ROOM = 2.4
"""Free space that is asked for, in sizes of the old database: its copy and the new one."""
_MOST_CUT = 16
"""A file that was cut to less than this part of it gives nothing."""
_NOT_TAKEN = database_generation.TIES | {"owner_identity_hash"}


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Hold what was saved and is in force, and where the old files go; ``state``: whether all have."""

    salvaged: SalvageReport
    quarantine: Path
    state: SwitchResult


def repair(
    settings: Config,
    *,
    told: OnProgress = lambda _done, _of: None,
    options: ChangeOptions | None = None,
) -> RepairResult | None:
    """Create a new generation of everything that can still be read; None if nothing is wrong.

    Every key that opened the old one opens the new one: data key and slots are the same. The sync
    cursor is removed, so that the next sync compares every note and fetches what is missing. Raises ``InvalidRequest`` if the cache is not encrypted,
    ``CacheDamaged`` if nothing can be read, ``CacheFull`` and ``LockedError``, with the old files as
    they were. Once the new generation is in force, what fails is in its ``state``.
    """
    if not settings.db_encryption:
        raise _only_encrypted()
    options = options or ChangeOptions()
    folder = check_folder(settings.account_dir)
    if not folder.path.is_dir():
        raise missing_cache_error()
    with disk_errors(_UNUSABLE), exclusive_locks(folder, timeout=options.timeout):
        options.at(Step.ALONE)
        quarantine.remove_work_folder(folder)
        return _Work(settings, folder, told, options).done()


@dataclass(frozen=True, slots=True)
class _Work:
    settings: Config
    folder: AccountFolder
    told: OnProgress
    options: ChangeOptions

    def done(self) -> RepairResult | None:
        """Do everything that needs the locks."""
        options, folder = self.options, self.folder
        inspection = options.inspector(self.settings).inspect(now=options.clock(), opens=False)
        _demand_repairable(inspection)
        if inspection.keyfile is None or inspection.data_key is None or inspection.key is None:
            raise missing_cache_error()
        work = self._copied(inspection.keyfile)
        try:
            damaged = _is_damaged(work, inspection.keyfile, inspection.data_key)
            pages = work.stat().st_size // PAGE_SIZE
            _lengthen(work)
            _demand_newest(work, inspection.keyfile, inspection.data_key)
            if inspection.files is not None:
                key_file.finish_interrupted_change(folder, inspection.files, now=options.clock())
            database_generation.quarantine_leftovers(
                folder, inspection.keyfile, now=options.clock()
            )
            if not damaged:
                return None
            made = key_slots.next_generation(inspection.keyfile, inspection.data_key)
            found = self._salvaged(work, inspection.keyfile, made, inspection.data_key, pages=pages)
            return self._switched(inspection.keyfile, made, found)
        finally:
            with suppress(OSError):  # a copy; what stays of it goes with the next repair
                quarantine.remove_work_folder(folder)

    def _switched(self, old: KeyFile, made: KeyFile, found: SalvageReport) -> RepairResult:
        """Put the new generation in force and set the old one aside, with the key file that opens it."""
        try:
            aside = quarantine.create_folder(self.folder, self.options.clock())
            content = key_file_codec.serialise(old)
            replace_private(aside / self.folder.key_file.name, content, check=lambda _written: None)
        except BaseException:
            database_generation.remove_prepared(self.folder, made)
            raise

        replaced = companions(self.folder.database(old.generation))

        def clear() -> None:
            markers.clear_damage_marker(self.folder)
            for file in replaced:
                if file.exists():
                    file.rename(aside / file.name)
            self.folder.pending_marker.unlink(missing_ok=True)
            sync_folder(aside)
            sync_folder(self.folder.path)
            self.options.at(Step.REMOVE)

        state = database_generation.switch(
            self.folder, made, replaced=replaced, clear=clear, at=self.options.at
        )
        return RepairResult(found, aside, state)

    def _copied(self, old: KeyFile) -> Path:
        """Copy the old files to the work folder."""
        path = self.folder.database(old.generation)
        size = sum(file.stat().st_size for file in companions(path) if file.exists())
        free = shutil.disk_usage(self.folder.path).free
        if free < size * _ROOM:
            raise CacheFull(
                f"a repair needs {int(size * _ROOM):,} bytes, and {free:,} are free",
                details={"needed": int(size * _ROOM), "free": free},
            )
        target = quarantine.create_work_folder(self.folder)
        for file in companions(path)[:2]:  # the third is made anew
            if file.exists():
                shutil.copyfile(file, target / file.name)
                (target / file.name).chmod(0o600)
        return target / path.name

    def _salvaged(
        self,
        kept: Path,
        old: KeyFile,
        made: KeyFile,
        data_key: DataKey,
        *,
        pages: int,
    ) -> SalvageReport:
        """Create the new database with all that could be read; nothing is left of it if this raises."""
        path = self.folder.database(made.generation)
        meta = database_generation.ties_to(made) | {"owner_identity_hash": self.settings.owner_hash}
        try:
            key_file.prepare(self.folder, made)
            self.options.at(Step.PREPARE)
            key = data_key.database_key(made.database_salt)
            with closing(database_files.create(path, key, meta=meta)) as target:
                self.options.at(Step.CREATE)
                found = self._read(lambda: _opened(kept, old, data_key), target, pages=pages)
                carry = database_generation.AuditTransfer(
                    data_key, old.generation, self.options.clock(), "repaired", rescuing=True
                )
                with closing(_opened(kept, old, data_key)) as damaged:
                    carry.over(self.folder, damaged, target, data_key)
                SyncState(target).set_cursor(None)
                self.options.at(Step.COPY)
                database_generation.demand_sound(target)
            self.options.at(Step.VERIFY)
        except BaseException:
            database_generation.remove_prepared(self.folder, made)
            raise
        return found

    def _read(
        self, opens: table_copy.Open, target: database_files.Database, *, pages: int
    ) -> SalvageReport:
        try:
            return table_copy.salvage(
                opens, target, pages=pages, without=_NOT_TAKEN, on_progress=self.told
            )
        except CacheDamaged as error:
            raise CacheDamaged(
                "nothing can be saved: the pages that say where everything is are damaged",
                resolution_hint=startup_outcomes.BEGIN_ANEW,
            ) from error


def _demand_newest(kept: Path, found: KeyFile, data_key: DataKey) -> None:
    """Check that the copy was never opened with a newer key file. Raises ``LockedError``."""
    try:
        with closing(_opened(kept, found, data_key)) as opened:
            row = opened.row("SELECT value FROM sync_metadata WHERE key = 'key_sequence'")
    except CacheError:
        return
    if row is not None and int(row[0]) > found.sequence:
        raise LockedError(
            Verdict.ROLLBACK_SEEN,
            startup_outcomes.KEY_FILE_BEHIND,
            resolution_hint=startup_outcomes.NEWEST_BACK,
        )


def _only_encrypted() -> InvalidRequest:
    return InvalidRequest(
        "`repair` works on encrypted caches, and DB_ENCRYPTION is off",
        resolution_hint="Run `mcp-notarium reset-cache`: it sets a damaged cache aside, deletes "
        "nothing, and loads every note anew from the note store.",
    )


def _demand_repairable(inspection: Inspection) -> None:
    """Check that the key is right and a database is there. Raises start-up's refusal."""
    seen = replace(inspection.seen, on_unreadable=OnUnreadable.REFUSE)
    decision = startup_table.decide(seen)
    if isinstance(decision, Locked) and decision.verdict is not Verdict.DATABASE_DAMAGED:
        raise decision.error()


def _opened(path: Path, found: KeyFile, data_key: DataKey) -> database_files.Database:
    return database_files.connect(path, data_key.database_key(found.database_salt))


def _lengthen(copy: Path) -> None:
    """Lengthen the copy: SQLite opens no file shorter than its first page says; holes cost no space."""
    os.truncate(copy, copy.stat().st_size * _MOST_CUT)


def _is_damaged(kept: Path, found: KeyFile, data_key: DataKey) -> bool:
    try:
        with closing(_opened(kept, found, data_key)) as opened:
            return bool(integrity.check(opened, deep=True))
    except CacheError:
        return True
