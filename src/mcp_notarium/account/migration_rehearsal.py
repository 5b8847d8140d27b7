"""Tries a migration without making it, so that its failure is known before a start meets it."""

from __future__ import annotations

import time
from contextlib import closing

from mcp_notarium.account import schema_migration, startup_table
from mcp_notarium.account.inspection import Observer, OpeningSettings
from mcp_notarium.account.startup_table import Migrate
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds
from mcp_notarium.errors import CacheBusy, CacheError, CacheFull
from mcp_notarium.files.access_errors import reached
from mcp_notarium.files.account_folder import trusted
from mcp_notarium.files.locks import Presence
from mcp_notarium.storage import schema
from mcp_notarium.storage.connection import Database


def rehearse(settings: OpeningSettings, *, bounds: Bounds = PRODUCTION) -> None:
    """Take every step of the migration and undo it. The database is as before.

    Raises ``LockedError`` (MIGRATION_FAILED) if it does not go through, ``CacheFull`` if there is no
    room for it, and ``LockedError`` (BUSY) while somebody is alone in the folder. Says nothing where the database is in use or needs no migration.
    """
    folder = trusted(settings.account_dir)
    with reached(folder):
        presence = Presence(folder)
        try:
            presence.share()
            with closing(Observer(settings, bounds=bounds).look(now=time.time())) as scene:
                if scene.database is not None and isinstance(
                    startup_table.decide(scene.seen), Migrate
                ):
                    _try(scene.database)
        finally:
            presence.release()


def _try(database: Database) -> None:
    try:
        schema.rehearse(database)
    except CacheBusy:
        return
    except CacheFull:
        raise
    except CacheError as error:
        raise schema_migration.failed(error.message) from error
