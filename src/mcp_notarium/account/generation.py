"""Create a generation of the database, build the next one from it, verify it, and switch to it.

A prepared key file names a new encrypted generation. Its rename over the key file is the commit point: until
then the old generation is active, and the next start recognises by the prepared file what a crash has left. What
was active is removed or moved only after the new key file has been flushed. A plain database is created
under another name and renamed; an account in memory has no file at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.chain_copy import carry_chain
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheFull, NotariumError, Unfinished
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import ServerLock, exclusive_locks
from mcp_notarium.files.private_files import (
    StepHook,
    disk_errors,
    ignore_step,
    require_free,
    sync_folder,
)
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener, integrity, table_copy
from mcp_notarium.storage.audit_log import ANCHORED, AuditTable
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.database_opener import Database, companions
from mcp_notarium.storage.note_table import VERSION_FLOOR
from mcp_notarium.storage.table_copy import OnProgress
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.account.key_changes import ChangeOptions


_RETIRED = "retires"
"""Row of ``sync_metadata``: the generation that this database has replaced for good."""
BINDING_KEYS = frozenset({"vault_id", "generation", "key_sequence", _RETIRED, ANCHORED})
"""Keys of the rows that tie a database to its key file and its anchor; every other row is copied."""
_SPACE = 1.5
"""Free space that a new database and its log need, in sizes of the old database."""
_SPACE_FOR_LOG = 8 << 20
"""Bytes that the log may need besides: it is emptied at 4 MiB, but not within a transaction."""


@dataclass(frozen=True, slots=True)
class NewCache:
    """Hold a new database, open, with its key file and data key."""

    database: Database
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None


@dataclass(frozen=True, slots=True)
class OpenedCache:
    """Hold an open cache."""

    database: Database
    data_key: DataKey | None
    """None: it is not encrypted."""
    created: bool
    notices: tuple[str, ...]
    server_lock: ServerLock
    anchor: Anchor
    """Keeps the end of the audit chain."""
    rebuilt: bool = False
    """It has replaced another."""
    had_log: bool = False
    """A log lay next to the file when it was opened."""

    def close(self) -> None:
        """Close the database, release the lock. Never raises."""
        self.database.close()
        self.server_lock.release()


class _NoLock(ServerLock):
    """Hold nothing: nobody else can have the database."""

    def __init__(self) -> None:
        self._descriptor = None


class _NoAnchor(Anchor):
    """Keep nothing of the audit chain, which ends with the process."""

    def write(self, table: AuditTable, database: Database, *, begun: int = 0) -> bool:
        del table, database, begun
        return True


def open_in_memory(config: Config) -> OpenedCache:
    """Return an empty account under the policy. Its data key, for the audit chain alone, was drawn just now."""
    database = database_opener.create_in_memory(meta={"owner_identity_hash": config.owner_hash})
    apply_rules(Cache(database, config.policy.visibility.stored))
    return OpenedCache(
        database,
        DataKey.generate(),
        created=True,
        notices=(),
        server_lock=_NoLock(),
        anchor=_NoAnchor(AccountFolder(config.account_dir), "", None),
    )


def kdf_policy(settings: Config, algorithm: str | None = None) -> kdf.KdfPolicy:
    """Return the policy for new passphrases: of ``algorithm``, else of the settings."""
    return kdf.KdfPolicy(
        algorithm or settings.kdf,
        explicit=algorithm is not None or settings.kdf_chosen,
        costs=(kdf.Pbkdf2Sha512(settings.kdf_iterations),),
    )


def create_encrypted(
    folder: AccountFolder,
    settings: Config,
    passphrase: Secret,
    *,
    parameters: kdf.Parameters,
    now: float,
    version_floor: int = 0,
    before_commit: Callable[[Collection[Path]], None],
    at: StepHook = ignore_step,
) -> NewCache:
    """Create a new generation with a new data key. Call it under the key lock.

    ``before_commit`` is called with the new files when everything is ready, just before the commit point.
    """
    data_key = DataKey.generate()
    keyfile = key_slots.build(
        data_key=data_key,
        passphrase=passphrase,
        parameters=parameters,
        owner_hash=settings.owner_hash,
        now=int(now),
    )
    path = folder.database(keyfile.generation)
    opened: Database | None = None
    try:
        key_file_store.prepare(folder, keyfile, at=lambda step: at(f"{step}_prepared"))
        key_slots.unlock(keyfile, passphrase)
        opened = database_opener.create(
            path,
            data_key.database_key(keyfile.database_salt),
            meta=_origin(settings, now, version_floor) | binding_rows(keyfile),
            memory_security=settings.memory_security,
        )
        at("database")
        before_commit((*companions(path), folder.prepared_key_file))
        at("clear")
    except BaseException:
        # Created in this call, not active and still empty: the one thing that may be removed.
        if opened is not None:
            opened.close()
        remove_prepared(folder, keyfile)
        raise
    try:
        key_file_store.commit(folder)
        key_file_store.make_durable(folder, keyfile, at=at)
    except BaseException:
        opened.close()
        raise
    return NewCache(opened, keyfile, data_key)


def create_plain(
    folder: AccountFolder,
    settings: Config,
    *,
    now: float,
    version_floor: int = 0,
    at: StepHook = ignore_step,
) -> NewCache:
    """Create a new unencrypted database. Call it under the key lock."""
    unfinished, path = folder.unfinished_plain_database, folder.plain_database
    meta = _origin(settings, now, version_floor)
    database_opener.create(unfinished, None, meta=meta).close()
    at("database")
    SYSTEM.move(unfinished, path)
    sync_folder(folder.path)
    at("switch")
    return NewCache(database_opener.connect(path, None))


def _origin(settings: Config, now: float, version_floor: int) -> dict[str, str]:
    floor = {VERSION_FLOOR: str(version_floor)} if version_floor else {}
    return {"owner_identity_hash": settings.owner_hash, "created_at": str(int(now))} | floor


def binding_rows(keyfile: KeyFile) -> dict[str, str]:
    """Return the rows that tie a database to its key file."""
    return {
        "vault_id": keyfile.vault_id,
        "generation": keyfile.generation,
        "key_sequence": str(keyfile.sequence),
    }


def remove_prepared(folder: AccountFolder, keyfile: KeyFile) -> None:
    """Remove what was created and is not active; the original is untouched."""
    for file in (*companions(folder.database(keyfile.generation)), folder.prepared_key_file):
        SYSTEM.remove(file)


def record_key_sequence(database: Database, keyfile: KeyFile) -> None:
    """Store the newest key-file number seen, so that an older file put back is noticed."""
    if database.read_only:
        return
    with suppress(CacheBusy, CacheFull), database.transaction(durable=True):
        database.run(
            "UPDATE sync_metadata SET value = ? "
            "WHERE key = 'key_sequence' AND CAST(value AS INTEGER) < ?",
            (str(keyfile.sequence), keyfile.sequence),
        )


class Step(StrEnum):
    """Name the steps, in order; each is also a place to crash at."""

    ALONE = "alone"
    PREPARE = "prepare"
    CREATE = "create"
    COPY = "copy"
    VERIFY = "verify"
    REMOVE = "remove"
    ANCHOR = "anchor"


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """Hold the state after a switch."""

    copied: bool
    """The key file's copy was written; else the next start does it."""
    left: str = ""
    """Reason that some of the replaced files are still there; empty: none is."""

    def require_finished(self, what: str, *, hint: str) -> None:
        """Raise ``Unfinished`` if something is left; ``what`` begins the sentence."""
        if self.left:
            raise Unfinished(f"{what} ({self.left})", resolution_hint=hint)


@dataclass(frozen=True, slots=True)
class GenerationWriter:
    """Write a new generation, compare it, activate it. Nobody else may use the account meanwhile."""

    settings: Config
    folder: AccountFolder
    options: ChangeOptions
    on_progress: OnProgress

    def quarantine_unknown(self, in_force: KeyFile) -> None:
        """Quarantine databases that the active key file does not name, and a prepared key file."""
        named = companions(self.folder.database(in_force.generation))
        unknown = [path for path in self.folder.encrypted_files() if path not in named]
        quarantine.move(
            self.folder, [*unknown, self.folder.prepared_key_file], now=self.options.clock()
        )

    def require_space(self, old: Database) -> None:
        """Check for space for a second database. Raises ``CacheFull``."""
        self.require_free(int(old.size_bytes() * _SPACE) + _SPACE_FOR_LOG)

    def require_free(self, needed: int) -> None:
        """Check for so many free bytes. Raises ``CacheFull``."""
        require_free(self.folder.path, needed, "no new cache was written")

    def copy(
        self,
        old: Database,
        new_keyfile: KeyFile,
        data_key: DataKey,
        *,
        old_key: DataKey,
        replaces: str,
    ) -> int:
        """Write a copy of the old database, compare both; return the number of notes.

        ``replaces`` is the generation of the old one, which is removed once the new one is active, also after
        a crash in between.
        """

        def fill(target: Database) -> None:
            table_copy.copy_into(old, target, keep=BINDING_KEYS, on_progress=self.on_progress)
            anchor = Anchor(self.folder, replaces, audit_keys(old_key).anchor)
            carry_chain(
                anchor,
                (old, audit_keys(old_key)),
                (target, audit_keys(data_key)),
                at=self.options.clock(),
                why="reencrypted",
            )

        notes = old.number("SELECT count(*) FROM notes")
        self.write(
            new_keyfile,
            data_key,
            fill,
            meta={_RETIRED: replaces},
            check=lambda target: compare(old, target),  # defence: copy-compared =None
        )
        return notes

    def write(
        self,
        new_keyfile: KeyFile,
        data_key: DataKey,
        fill: Callable[[Database], None],
        *,
        meta: Mapping[str, str],
        check: Callable[[Database], None],
    ) -> None:
        """Prepare the key file, create the database, ``fill`` it, ``check`` it.

        Nothing is active yet afterwards; nothing is left if it raises.
        """
        path, at = self.folder.database(new_keyfile.generation), self.options.at
        key = data_key.database_key(new_keyfile.database_salt)
        try:
            key_file_store.prepare(self.folder, new_keyfile)
            at(Step.PREPARE)
            created = database_opener.create(path, key, meta={**meta, **binding_rows(new_keyfile)})
            with closing(created) as target:
                at(Step.CREATE)
                target.set_checkpointer(True)  # or the log would grow to the size of the whole
                fill(target)
                target.checkpoint()
            at(Step.COPY)
            with closing(database_opener.connect(path, key)) as target:
                check(target)
            at(Step.VERIFY)
        except BaseException:
            remove_prepared(self.folder, new_keyfile)  # defence: full-disk-leaves-nothing
            raise

    def switch(
        self, new_keyfile: KeyFile, *, replaced: Collection[Path], clear: Callable[[], None]
    ) -> SwitchResult:
        """Activate the new generation, then ``clear`` away the files that it has ``replaced``.

        Raises ``OSError`` if it cannot be activated; nothing of it is left then. A later failure of
        the disk is not raised but returned.
        """
        try:
            key_file_store.commit(self.folder)
        except OSError:
            remove_prepared(self.folder, new_keyfile)
            raise

        copied, why = False, ""
        try:
            copied = key_file_store.make_durable(self.folder, new_keyfile, at=self.options.at)
            clear()
        except OSError as error:
            why = os_errors.describe_with_path(error)
        except NotariumError as error:
            why = error.message
        return SwitchResult(copied, why if any(os.path.lexists(path) for path in replaced) else "")


@contextmanager
def hold_alone(
    settings: Config,
    folder: AccountFolder,
    options: ChangeOptions,
    on_progress: OnProgress,
    failure: str,
) -> Iterator[GenerationWriter]:
    """Hold both locks of the account and yield the writer. ``failure`` begins the text of a disk error.

    Raises ``LockedError`` (BUSY names who has the cache open), ``CacheFull``.
    """
    with disk_errors(failure), exclusive_locks(folder, timeout=options.timeout):
        options.at(Step.ALONE)
        yield GenerationWriter(settings, folder, options, on_progress)


def remove_retired(folder: AccountFolder, opened: Database, in_force: KeyFile) -> None:
    """Remove the generation that the active one replaced for good, if a crash has left it.

    ``opened`` names it. That row was written before its key file was active, and after the comparison.
    """
    row = opened.row("SELECT value FROM sync_metadata WHERE key = ?", (_RETIRED,))
    if row is not None and row[0] != in_force.generation:
        for file in companions(folder.database(row[0])):
            SYSTEM.remove(file)
        sync_folder(folder.path)


def compare(old: Database, new: Database) -> None:
    """Check that both databases are undamaged and have the same rows. Raises ``CacheDamaged``."""
    old.require_authentic()
    require_undamaged(new)
    digests = [table_copy.content_digest(each, without=BINDING_KEYS) for each in (old, new)]
    if digests[0] != digests[1]:
        raise CacheDamaged("what was written differs from the original")


def require_undamaged(new: Database) -> None:
    """Check that every page is authentic and the index fits the notes. Raises ``CacheDamaged``."""
    wrong = integrity.check(new)
    if wrong:
        raise CacheDamaged(f"what was written is damaged: {wrong[0]}")
