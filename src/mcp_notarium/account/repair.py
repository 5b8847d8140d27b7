"""Rescue a database: repair it, with what can be read of it, or put a copy in its place. The key must be right.

Either way a new generation gets the state, and the old files go to the quarantine, byte for byte, with their key file.
A repair leaves the index empty: the next sync fetches the notes again. It opens only a copy of the old files, because
opening a damaged file may change it. The full-text index is rebuilt in place if it alone is wrong.

A server repairs without being asked if that loses nothing. The notes can be fetched again, and every row that only this
database has can be read. Nobody else has it open, and the disk has not damaged it again and again.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium import logs
from mcp_notarium.account import copies, generation, rollback, startup_hints, startup_table
from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.chain_copy import carry_chain
from mcp_notarium.account.copies import Copies, DatabaseCopy, list_copies
from mcp_notarium.account.generation import GenerationWriter, Step, SwitchResult, remove_prepared
from mcp_notarium.account.inspection import unmark_damage
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    find_account,
    missing_cache_error,
)
from mcp_notarium.account.startup_outcomes import Locked
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_file_codec, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import (
    CacheDamaged,
    CacheError,
    InvalidRequest,
    LockedError,
    NotariumError,
    Verdict,
)
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import copy_private, replace_private, sync_folder
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.key_file_store import KeyFiles
from mcp_notarium.storage import database_opener, integrity, table_copy
from mcp_notarium.storage.database_opener import Database, companions
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.schema import RENUMBERING
from mcp_notarium.storage.table_copy import OnProgress, SalvageReport
from mcp_notarium.stores.kind import Truth
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.account.opener import StartupActions

_SPACE = 2.4
"""Free space that a copy and a new database need, in sizes of the old database."""
_COPY_SPACE = 1.5
"""Free space that a restored copy needs, in sizes of the copy."""
_MOST_CUT = 16
"""Largest quotient of the size before a file was cut and after; a shorter rest gives nothing."""
_NOT_TAKEN = generation.BINDING_KEYS | {"owner_identity_hash"}
MOST_A_DAY = 3
"""Databases that may go to the quarantine within 24 hours before a server stops repairing. A disk that
damages more needs a look, and each of them takes its space."""
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Hold what was saved and is active."""

    salvaged: SalvageReport
    quarantine: Path | None
    """Folder for the old files. None: the full-text index alone was wrong, and was rebuilt in place."""
    state: SwitchResult
    """Result of the move: whether all have gone there."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Hold which copy was restored, and how it ended."""

    copy: DatabaseCopy
    unsound: tuple[DatabaseCopy, ...]
    """Newer ones that were damaged."""
    result: RepairResult


def repair(
    settings: Config,
    *,
    whole_state: bool = False,
    options: ChangeOptions = DEFAULTS,
    on_progress: OnProgress = lambda _done, _of: None,
) -> RepairResult | None:
    """Create a new generation of all state that can still be read; None if nothing is wrong.

    Every key that opened the old one opens the new one: data key and slots are the same.

    Raises ``InvalidRequest`` if the cache is not encrypted, ``CacheDamaged`` if nothing can be read (or not
    the ``whole_state``, where that is wanted), ``CacheFull`` and ``LockedError``, with the old files as
    they were. Its ``state`` has what fails after the new generation is active.
    """
    if not settings.db_encryption:
        raise InvalidRequest(
            "nothing was repaired: only an encrypted cache can be, and this one is not (DB_ENCRYPTION=off)",
            resolution_hint=startup_hints.BEGIN_ANEW,
        )
    folder, failure = find_account(settings), "the cache cannot be repaired"
    with generation.hold_alone(settings, folder, options, on_progress, failure) as writer:
        quarantine.remove_work_folder(folder)
        old = _inspect(writer, {Verdict.DATABASE_DAMAGED})
        try:
            copy = _copy_damaged(writer, old.keyfile)
            kept = Copies(folder, old.data_key, settings.store.tables)
            if whole_state and rollback.find_in_unreadable(
                copy, old.keyfile.generation, old.keyfile.database_salt, kept
            ):
                raise CacheDamaged("the database is a mixture of two states")
            damaged = _is_damaged(copy, old)
            if damaged and _rebuild_search(copy, old):
                if not _rebuild_search(folder.database(old.keyfile.generation), old):
                    raise CacheDamaged("the full-text index cannot be rebuilt")
                unmark_damage(folder)
                return RepairResult(SalvageReport(), None, SwitchResult(copied=True))
            _lengthen(copy)
            _require_newest(copy, old)
            old.finish(writer)
            if not damaged:
                return None
            anchor = Anchor(folder, old.keyfile.generation, audit_keys(old.data_key).anchor)
            return _replace(
                writer,
                old,
                lambda: old.open(copy),
                why="repaired",
                anchor=anchor,
                whole=whole_state,
            )
        finally:
            with suppress(OSError):  # a copy; what stays of it goes with the next repair
                quarantine.remove_work_folder(folder)


def heal(actions: StartupActions) -> str:
    """Repair the database without being asked; return a notice for the user, '' if nothing was repaired.

    Raises ``LockedError`` (BUSY) while another process has it open: the next attempt may repair it.
    """
    if not _may_heal(actions):
        return ""
    options = ChangeOptions(system=actions.inspector.keychain, clock=actions.clock, at=actions.at)
    try:
        done = repair(actions.settings, whole_state=True, options=options)
    except NotariumError as error:
        if isinstance(error, LockedError) and error.verdict is Verdict.BUSY:
            raise
        logs.get("cache").warning("cache.not_repaired", message=error.message)
        return ""
    if done is None:
        return ""
    if done.quarantine is None:
        return "The search index was damaged, and was built again. Nothing was lost."
    return (
        "A page of the database could not be read. The database was repaired: unfinished writes, settings "
        "and the audit log are kept, the notes are fetched again, and the old files are in "
        f"`quarantine/{done.quarantine.name}`. If it happens again, check the disk."
    )


def _may_heal(actions: StartupActions) -> bool:
    settings, since = actions.settings, actions.clock() - _DAY
    if not settings.db_encryption or settings.store.truth is Truth.LOCAL:
        return False
    # defence: three-repairs-a-day =True
    return quarantine.count_databases(AccountFolder(settings.account_dir), since=since) < MOST_A_DAY


def restore(
    settings: Config,
    *,
    name: str | None = None,
    options: ChangeOptions = DEFAULTS,
    on_progress: OnProgress = lambda _done, _of: None,
) -> Restored:
    """Restore the copy of this file name, or (None) the newest undamaged one. The copies stay.

    Raises ``InvalidRequest`` if there is no such copy, ``CacheDamaged`` if all are damaged, ``CacheFull`` and
    ``LockedError``, with everything as it was. ``result.state`` has what fails after the copy is active.
    """
    folder, failure = find_account(settings), "the copy cannot be restored"
    with generation.hold_alone(settings, folder, options, on_progress, failure) as writer:
        old = _inspect(writer, {Verdict.DATABASE_DAMAGED, Verdict.DATABASE_MISSING})
        found = [one for one in list_copies(folder) if name in (None, one.path.name)]
        if not found:
            raise InvalidRequest(
                "there is no such copy" if name else "there is no copy of the notebook",
                resolution_hint="`mcp-notarium restore --list` lists the copies.",
            )
        copy, unsound = _choose(found, old.data_key)
        writer.require_free(int(copy.path.stat().st_size * _COPY_SPACE))
        old.finish(writer)
        result = _replace(
            writer,
            old,
            lambda: copy.open(old.data_key),
            why="restored",
            anchor=None,  # what came after the copy is in the quarantine
            whole=True,
            least=int(options.clock()),  # defence: numbers-go-on-after-restore
        )
        return Restored(copy, unsound, result)


@dataclass(frozen=True, slots=True)
class _Old:
    """Hold what opens the generation that is to be replaced."""

    keyfile: KeyFile
    data_key: DataKey
    files: KeyFiles

    def open(self, path: Path) -> Database:
        return database_opener.connect(path, self.data_key.database_key(self.keyfile.database_salt))

    def finish(self, writer: GenerationWriter) -> None:
        """Finish an interrupted change, and quarantine what no key file names."""
        now = writer.options.clock()
        key_file_store.finish_interrupted_change(writer.folder, self.files, now=now)
        writer.quarantine_unknown(self.keyfile)


def _inspect(writer: GenerationWriter, permitted: Collection[Verdict]) -> _Old:
    """Check that the key is right. Raises start-up's refusal, unless that is about the database itself (``permitted``)."""
    inspector = writer.options.inspector(writer.settings)
    inspection = inspector.inspect(now=writer.options.clock(), opens=False)
    decision = startup_table.decide(replace(inspection.seen, on_unreadable="refuse"))
    if isinstance(decision, Locked) and decision.verdict not in permitted:
        raise decision.error()
    if inspection.seen.plain:
        raise InvalidRequest(
            "nothing was restored: copies are made of encrypted notebooks only",
            resolution_hint="Run `mcp-notarium export PATH` now and then to have your notes elsewhere, too.",
        )
    if inspection.keyfile is None or inspection.data_key is None or inspection.files is None:
        raise missing_cache_error()
    return _Old(inspection.keyfile, inspection.data_key, inspection.files)


def _copy_damaged(writer: GenerationWriter, old: KeyFile) -> Path:
    """Copy the old files to the work folder."""
    folder = writer.folder
    path = folder.database(old.generation)
    size = sum(file.stat().st_size for file in companions(path) if file.exists())
    writer.require_free(int(size * _SPACE))
    target = quarantine.create_work_folder(folder)
    for file in companions(path)[:2]:  # SQLite re-creates the third
        if file.exists():
            copy_private(file, target / file.name)
    return target / path.name


def _replace(
    writer: GenerationWriter,
    old: _Old,
    opens: table_copy.Open,
    *,
    why: str,
    anchor: Anchor | None,
    whole: bool,
    least: int = 0,
) -> RepairResult:
    """Create the next generation with the state that can be read, activate it, and quarantine the old one.

    ``whole``: refuse if not everything can be read. ``least``: the lowest number that a changed note gets from now
    on. Nothing is left of it if this raises.
    """
    new_keyfile, data_key = key_slots.next_generation(old.keyfile, old.data_key), old.data_key
    reports = []

    def fill(target: Database) -> None:
        try:
            report = table_copy.salvage(
                opens, target, without=_NOT_TAKEN, on_progress=writer.on_progress
            )
        except CacheDamaged as error:
            raise CacheDamaged(
                "nothing can be saved: the pages that say where everything is are damaged",
                resolution_hint=startup_hints.BEGIN_ANEW,
            ) from error
        reports.append(report)
        keys, now = audit_keys(data_key), writer.options.clock()
        with closing(opens()) as source:
            report.complete &= carry_chain(
                anchor, (source, keys), (target, keys), at=now, why=why, rescuing=True
            )
        if whole and not report.complete:  # defence: repair-keeps-what-is-unique
            raise CacheDamaged("not everything that only this database has can be read")
        if not report.complete:
            copies.keep_newest(writer.folder, data_key)  # defence: copy-of-before-repair-stays
        lowest = least if report.complete else int(now)
        NoteTable(target).raise_version_floor(least=lowest)  # defence: versions-above-those-given
        for statement in RENUMBERING:
            target.run(statement, {"least": lowest})

    owner = {"owner_identity_hash": writer.settings.owner_hash}
    writer.write(new_keyfile, data_key, fill, meta=owner, check=generation.require_undamaged)
    return _switch(writer, old.keyfile, new_keyfile, reports.pop())


def _switch(
    writer: GenerationWriter, old: KeyFile, new_keyfile: KeyFile, salvaged: SalvageReport
) -> RepairResult:
    """Activate the new generation; move the old one to the quarantine, with the key file that opens it."""
    folder, options = writer.folder, writer.options
    try:
        target = quarantine.create_folder(folder, options.clock())
        content = key_file_codec.serialise(old)
        replace_private(target / folder.key_file.name, content)
    except BaseException:
        remove_prepared(folder, new_keyfile)
        raise
    replaced = companions(folder.database(old.generation))

    def clear() -> None:
        unmark_damage(folder)
        for file in replaced:
            if file.exists():
                SYSTEM.move(file, target / file.name)
        sync_folder(target)
        sync_folder(folder.path)
        options.at(Step.REMOVE)

    state = writer.switch(new_keyfile, replaced=replaced, clear=clear)
    return RepairResult(salvaged, target, state)


def _require_newest(copy: Path, old: _Old) -> None:
    """Check that the copy was never opened with a newer key file. Raises ``LockedError``."""
    try:
        with closing(old.open(copy)) as opened:
            row = opened.row("SELECT value FROM sync_metadata WHERE key = 'key_sequence'")
    except CacheError:
        return
    if row is not None and int(row[0]) > old.keyfile.sequence:
        raise LockedError(
            Verdict.ROLLBACK_SEEN,
            startup_hints.KEY_FILE_BEHIND,
            resolution_hint=startup_hints.PUT_NEWEST_BACK + startup_hints.RESET_IF_FETCHED,
        )


def _rebuild_search(path: Path, old: _Old) -> bool:
    """Rebuild the full-text index; False if something else is wrong, too."""
    try:
        with closing(old.open(path)) as opened:
            with opened.transaction(durable=True):
                FtsIndex(opened).rebuild()
            return not integrity.check(opened)
    except CacheError:
        return False


def _lengthen(copy: Path) -> None:
    """Lengthen the copy: SQLite opens no file shorter than its first page says; holes cost no space."""
    descriptor = SYSTEM.open_private(copy, os.O_RDWR)
    try:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size * _MOST_CUT)
    finally:
        os.close(descriptor)


def _is_damaged(copy: Path, old: _Old) -> bool:
    try:
        with closing(old.open(copy)) as opened:
            return bool(integrity.check(opened))
    except CacheError:
        return True


def _choose(
    found: list[DatabaseCopy], data_key: DataKey
) -> tuple[DatabaseCopy, tuple[DatabaseCopy, ...]]:
    """Return the first copy whose every page is authentic, and those before it."""
    for number, copy in enumerate(found):
        if copy.is_authentic(data_key):
            return copy, tuple(found[:number])
    raise CacheDamaged(
        "no copy can be read with this key",
        resolution_hint="A copy is opened by the key file that was active when it was made: "
        "`mcp-notarium restore --key-file PATH` puts an older one back.",
    )
