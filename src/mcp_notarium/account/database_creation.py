"""Create a new, empty generation of the database.

A prepared key file names an encrypted generation. The commit point is the rename of that file over the
key file; the next start recognises what a crash leaves before that by the prepared file. A plain database
is created under another name and renamed. Call everything here under the key lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.account.audit_anchor import Anchor
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import CacheBusy, CacheFull
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.files.private_files import (
    StepHook,
    ignore_step,
    sync_folder,
)
from mcp_notarium.keys import key_file_store
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.database_opener import Database, companions
from mcp_notarium.storage.note_table import VERSION_FLOOR


@dataclass(frozen=True, slots=True)
class NewCache:
    """Hold a new database, open, with its key file and data key."""

    database: Database
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None


@dataclass(frozen=True, slots=True)
class OpenedCache:
    """Hold an open cache. ``data_key`` None and ``generation`` '': it is not encrypted.

    ``anchor`` keeps the end of the audit chain. ``rebuilt``: the cache replaced another. ``had_log``: a log lay
    beside the file when it was opened.
    """

    database: Database
    data_key: DataKey | None
    generation: str
    created: bool
    notices: tuple[str, ...]
    server_lock: ServerLock
    anchor: Anchor
    rebuilt: bool = False
    had_log: bool = False

    def close(self) -> None:
        """Close the database, release the lock. Never raises."""
        self.database.close()
        self.server_lock.release()


def kdf_policy(settings: Config, algorithm: str | None = None) -> kdf.KdfPolicy:
    """Return the policy for new passphrases: of ``algorithm``, else of the settings."""
    return kdf.KdfPolicy(
        argon2id=kdf.Argon2id(),
        pbkdf2=kdf.Pbkdf2Sha512(settings.kdf_iterations),
        algorithm=algorithm or settings.kdf,
        explicit=algorithm is not None or settings.kdf_chosen,
    )


def create_encrypted(
    folder: AccountFolder,
    settings: Config,
    passphrase: Secret,
    *,
    parameters: kdf.Parameters,
    now: float,
    version_floor: int = 0,
    bounds: kdf.Bounds = kdf.PRODUCTION,
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
        bounds=bounds,
    )
    path = folder.database(keyfile.generation)
    opened: Database | None = None
    try:
        key_file_store.prepare(folder, keyfile, at=lambda step: at(f"{step}_prepared"))
        key_slots.unlock(keyfile, passphrase, bounds=bounds)
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
    unfinished.rename(path)
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
        file.unlink(missing_ok=True)


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
