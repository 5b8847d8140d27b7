"""Write a new generation of the database: an empty one, or a copy of the old one, compared with it.

An encrypted generation has a prepared key file, which names it, and is not in force until that file is
renamed: the commit point. By the prepared file everything that a crash leaves before that is recognised.
A plain database is created under another name and renamed. Call everything here under the key lock, and
what replaces a database also under the exclusive server lock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mcp_notarium.account.audit_anchor import Anchor, AnchorUnusable, audit_keys
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import (
    CacheDamaged,
    CacheError,
    CacheFull,
    LockedError,
    NotariumError,
    Unfinished,
)
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import (
    StepHook,
    ignore_step,
    sync_folder,
    temporary_pattern,
)
from mcp_notarium.keys import key_file
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_files, integrity, table_copy
from mcp_notarium.storage.audit_table import ANCHORED, AuditTable, carry_over
from mcp_notarium.storage.database_files import Database, companions
from mcp_notarium.storage.table_copy import OnProgress

RETIRES = "retires"
"""Row of ``sync_metadata``: the generation that this database has replaced for good."""
TIES = frozenset({"vault_id", "generation", "key_sequence", RETIRES, ANCHORED})
"""What ties a database to its key file and its anchor; everything else in it is copied."""
_ROOM = 1.5
"""Free space that is asked for, in sizes of the old database: the new one and its log ..."""
_ROOM_FOR_LOG = 8 << 20
"""... which is emptied at 4 MiB, but no earlier than at the end of a transaction."""


@dataclass(frozen=True, slots=True)
class NewCache:
    """Hold a new database, open, with its key file and data key."""

    database: Database
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None


def kdf_parameters(settings: Config) -> kdf.Parameters:
    """Return the settings' key-derivation parameters for new passphrases."""
    if settings.kdf == "pbkdf2-sha512":
        return kdf.Pbkdf2Sha512(settings.kdf_iterations)
    return kdf.Argon2id()


def create_encrypted(
    folder: AccountFolder,
    settings: Config,
    passphrase: Secret,
    *,
    parameters: kdf.Parameters,
    now: float,
    bounds: kdf.Bounds = kdf.PRODUCTION,
    make_room: Callable[[Collection[Path]], None],
    at: StepHook = ignore_step,
) -> NewCache:
    """Create a new generation with a new data key. Call it under the key lock.

    ``make_room`` is called with the new files when everything is ready, just before the commit point.
    """
    data_key = DataKey.generate()
    made = key_slots.build(
        data_key=data_key,
        passphrase=passphrase,
        parameters=parameters,
        username=settings.username,
        now=int(now),
        bounds=bounds,
    )
    path = folder.database(made.generation)
    opened: Database | None = None
    try:
        key_file.prepare(folder, made, at=lambda step: at(f"{step}_prepared"))
        key_slots.unlock(made, passphrase, bounds=bounds)
        opened = database_files.create(
            path,
            data_key.database_key(made.database_salt),
            meta=_origin(settings, now) | ties_to(made),
            memory_security=settings.memory_security,
        )
        at("database")
        make_room((*companions(path), folder.prepared_key_file))
        at("room")
    except BaseException:
        # Created in this call, not in force and still empty: the one thing that may be removed.
        if opened is not None:
            opened.close()
        remove_prepared(folder, made)
        raise
    key_file.commit(folder)
    key_file.make_durable(folder, made, at=at)
    return NewCache(opened, made, data_key)


def create_plain(
    folder: AccountFolder, settings: Config, *, now: float, at: StepHook = ignore_step
) -> NewCache:
    """Create a new unencrypted database. Call it under the key lock."""
    unfinished, path = folder.unfinished_plain_database, folder.plain_database
    database_files.create(unfinished, None, meta=_origin(settings, now)).close()
    at("database")
    unfinished.rename(path)
    sync_folder(folder.path)
    at("switch")
    return NewCache(database_files.connect(path, None))


def _origin(settings: Config, now: float) -> dict[str, str]:
    return {"owner_identity_hash": settings.owner_hash, "created_at": str(int(now))}


@dataclass(frozen=True, slots=True)
class AuditTransfer:
    """Copy the audit chain: the old data key (None: plain) and generation, when, why.

    ``rescuing``: the old database is damaged, and what can be read is taken.
    """

    data_key: DataKey | None
    generation: str
    at: float
    why: str
    rescuing: bool = False

    def over(
        self, folder: AccountFolder, old: Database, target: Database, data_key: DataKey
    ) -> None:
        """Seal the old chain again. What is wrong with it, or with its anchor, stays on record."""
        keys = audit_keys(self.data_key)
        anchored, wrong = None, []
        try:
            anchored = Anchor(folder, self.generation, keys.anchor).read(old)
        except AnchorUnusable as error:
            wrong.append(error.message)
        except CacheError:
            if not self.rescuing:
                raise
        carry_over(
            AuditTable(old, keys.seal),
            AuditTable(target, audit_keys(data_key).seal),
            at=self.at,
            why=self.why,
            anchored=anchored,
            wrong=wrong,
            rescuing=self.rescuing,
        )


class Step(StrEnum):
    """Name the steps, in order; each is also a place to crash at."""

    ALONE = "alone"
    PREPARE = "prepare"
    CREATE = "create"
    COPY = "copy"
    VERIFY = "verify"
    RETIRE = "retire"
    REMOVE = "remove"
    ANCHOR = "anchor"


def quarantine_leftovers(folder: AccountFolder, counts: KeyFile | None, *, now: float) -> None:
    """Quarantine databases that ``counts``, the key file in force, does not name, and a prepared key file."""
    known = companions(folder.database(counts.generation)) if counts is not None else ()
    strays = [path for path in folder.encrypted_files() if path not in known]
    quarantine.set_aside(folder, [*strays, folder.prepared_key_file], now=now)


def remove_retired(folder: AccountFolder, opened: Database, counts: KeyFile) -> None:
    """Remove the generation that the one in force replaced for good, if a crash has left it.

    ``opened`` names it. That row was written before its key file was in force, and after the comparison.
    """
    row = opened.row("SELECT value FROM sync_metadata WHERE key = ?", (RETIRES,))
    if row is not None and row[0] != counts.generation:
        for file in companions(folder.database(row[0])):
            file.unlink(missing_ok=True)
        sync_folder(folder.path)


def demand_room(folder: AccountFolder, old: Database) -> None:
    """Check for room for the new database beside the old one. Raises ``CacheFull``."""
    needed = int(old.size_bytes() * _ROOM) + _ROOM_FOR_LOG
    free = shutil.disk_usage(folder.path).free
    if free < needed:
        raise CacheFull(
            f"writing the cache anew needs {needed:,} bytes, and {free:,} are free",
            details={"needed": needed, "free": free},
        )


def write(
    folder: AccountFolder,
    old: Database,
    made: KeyFile,
    data_key: DataKey,
    *,
    told: OnProgress,
    at: StepHook,
    carry: AuditTransfer,
    retires: str = "",
) -> int:
    """Prepare the key file, create the database, copy, compare; return the number of notes.

    ``carry`` copies the audit chain. ``retires`` is the generation to be removed once this one is in
    force, also after a crash in between. Nothing is in force yet afterwards; nothing is left if it raises.
    """
    path = folder.database(made.generation)
    key = data_key.database_key(made.database_salt)
    ties = ties_to(made) | ({RETIRES: retires} if retires else {})
    try:
        key_file.prepare(folder, made)
        at(Step.PREPARE)
        with closing(database_files.create(path, key, meta=ties)) as target:
            at(Step.CREATE)
            target.set_checkpointer(True)  # or the log would grow to the size of all that is copied
            table_copy.copy_into(old, target, keep=TIES, on_progress=told)
            carry.over(folder, old, target, data_key)
            target.checkpoint()
        at(Step.COPY)
        with closing(database_files.connect(path, key)) as target:
            compare(old, target)
            notes = target.number("SELECT count(*) FROM notes")
        at(Step.VERIFY)
    except BaseException:
        remove_prepared(folder, made)
        raise
    return notes


def ties_to(made: KeyFile) -> dict[str, str]:
    """Return the rows that tie a database to its key file."""
    return {
        "vault_id": made.vault_id,
        "generation": made.generation,
        "key_sequence": str(made.sequence),
    }


def remove_prepared(folder: AccountFolder, made: KeyFile) -> None:
    """Remove what was created and is not in force; the original is untouched."""
    for file in (*companions(folder.database(made.generation)), folder.prepared_key_file):
        file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """Hold the state after a switch. ``copied``: the key file's copy was written; else the next start does it.

    ``left``: why some of the replaced files are still there; empty: none is.
    """

    copied: bool
    left: str = ""

    def demand_finished(self, what: str, *, hint: str) -> None:
        """Raise ``Unfinished`` if something is left; ``what`` begins the sentence."""
        if self.left:
            raise Unfinished(f"{what} ({self.left})", resolution_hint=hint)


def switch(
    folder: AccountFolder,
    made: KeyFile,
    *,
    replaced: Collection[Path],
    clear: Callable[[], None],
    at: StepHook,
) -> SwitchResult:
    """Put the new generation in force, then ``clear`` away the files that it has ``replaced``.

    Raises ``OSError`` if it is not in force; nothing of it is left then. Afterwards no failure of the
    disk is raised.
    """
    try:
        key_file.commit(folder)
    except OSError:
        remove_prepared(folder, made)
        raise
    return clear_replaced(lambda: key_file.make_durable(folder, made, at=at), replaced, clear)


def clear_replaced(
    lasting: Callable[[], bool], replaced: Collection[Path], clear: Callable[[], None]
) -> SwitchResult:
    """Flush what is in force, then ``clear``; never the latter without the former.

    ``lasting`` flushes, and returns whether the key file's copy was written, too.
    """
    copied, why = False, ""
    try:
        copied = lasting()
        clear()
    except OSError as error:
        why = os_errors.describe_with_path(error)
    except NotariumError as error:
        why = error.message
    return SwitchResult(copied, why if any(os.path.lexists(path) for path in replaced) else "")


def write_anchor(folder: AccountFolder, made: KeyFile, data_key: DataKey) -> None:
    """Write the anchor of the generation in force, alone in the folder. Never raises.

    The anchor that lay there was of the generation before. If it cannot be written, a server's next clean
    stop does it.
    """
    key, keys = data_key.database_key(made.database_salt), audit_keys(data_key)
    with suppress(CacheError, LockedError, OSError):
        for stray in folder.path.glob(temporary_pattern(folder.audit_anchor.name)):
            stray.unlink()  # of a process that was killed while it wrote one
        with closing(database_files.connect(folder.database(made.generation), key)) as opened:
            anchor = Anchor(folder, made.generation, keys.anchor)
            anchor.write(AuditTable(opened, keys.seal), opened)
            opened.set_checkpointer(True)
            opened.checkpoint()


def compare(old: Database, new: Database) -> None:
    """Compare: the new database is sound and has the same rows. Raises ``CacheDamaged``."""
    demand_sound(new)
    if not has_same_rows(old, new):
        raise CacheDamaged("what was written differs from the original")


def demand_sound(new: Database) -> None:
    """Check that every page is authentic and the index fits the notes. Raises ``CacheDamaged``."""
    wrong = integrity.check(new, deep=True)
    if wrong:
        raise CacheDamaged(f"what was written is not sound: {wrong[0]}")


def has_same_rows(one: Database, other: Database) -> bool:
    """Check whether both hold the same rows, except those that tie them to their key files."""
    return len({table_copy.content_digest(each, without=TIES) for each in (one, other)}) == 1
