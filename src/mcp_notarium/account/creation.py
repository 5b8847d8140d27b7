"""Create a database; a crash at any moment leaves all of it in force, or nothing.

Encrypted: write a prepared key file, then the whole database, then rename the prepared key file: the
commit point. What a crash leaves before that is recognised by the prepared key file, which names the
generation. Plain: create the database under another name and rename it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_slots import KeyFile
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import StepHook, ignore_step, sync_folder
from mcp_notarium.keys import key_file
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database
from mcp_notarium.storage.database import Database, companions


@dataclass(frozen=True, slots=True)
class NewCache:
    """Hold a new database, open, with its key file and data key."""

    database: Database
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None


def parameters(settings: Config) -> kdf.Parameters:
    """Return the settings' key-derivation parameters for new passphrases."""
    if settings.kdf == "pbkdf2-sha512":
        return kdf.Pbkdf2Sha512(settings.kdf_iterations)
    return kdf.Argon2id()


def make_encrypted(
    folder: AccountFolder,
    settings: Config,
    passphrase: Secret,
    *,
    parameters: kdf.Parameters,
    now: float,
    bounds: kdf.Bounds = kdf.PRODUCTION,
    make_room: Callable[[KeyFile], None] = lambda _keyfile: None,
    at: StepHook = ignore_step,
) -> NewCache:
    """Create a new generation with a new data key. Call it under the key lock.

    ``make_room`` is called when everything is ready, just before the commit point.
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
        opened = database.create(
            path,
            data_key.database_key(made.database_salt),
            meta=_meta(settings, made, now),
            memory_security=settings.memory_security,
        )
        at("database")
        make_room(made)
        at("room")
    except BaseException:
        # Created in this call, not in force and still empty: the one thing that may be removed.
        if opened is not None:
            opened.close()
        for file in (*companions(path), folder.prepared_key_file):
            file.unlink(missing_ok=True)
        raise
    key_file.commit(folder)
    key_file.make_durable(folder, made, at=at)
    return NewCache(opened, made, data_key)


def make_plain(
    folder: AccountFolder, settings: Config, *, now: float, at: StepHook = ignore_step
) -> NewCache:
    """Create a new unencrypted database. Call it under the key lock."""
    unfinished, path = folder.unfinished_plain_database, folder.plain_database
    database.create(unfinished, None, meta=_meta(settings, None, now)).close()
    at("database")
    unfinished.rename(path)
    sync_folder(folder.path)
    at("switch")
    return NewCache(database.connect(path, None))


def _meta(settings: Config, made: KeyFile | None, now: float) -> dict[str, str]:
    rows = {"owner_identity_hash": settings.owner_hash, "created_at": str(int(now))}
    if made is not None:
        rows |= {
            "vault_id": made.vault_id,
            "generation": made.generation,
            "key_sequence": str(made.sequence),
        }
    return rows
