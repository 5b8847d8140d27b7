"""Turns the cache of the plain mode into an encrypted one and erases the plain bytes.

The plain database counts until the encrypted one is complete, compared and committed; only then is
it overwritten and removed. A run that was cut short is gone on with by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from mcp_notarium.cache import database, schema
from mcp_notarium.cache.copying import Told
from mcp_notarium.cache.database import Database, companions
from mcp_notarium.crypto import keyslots
from mcp_notarium.crypto.datakey import DataKey
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.crypto.keyslots import KeyFile
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.keys import anew, creating, erasing, keyfile
from mcp_notarium.keys.anew import Step
from mcp_notarium.keys.changing import Given
from mcp_notarium.keys.files import disk_errors
from mcp_notarium.keys.folder import AccountFolder, trusted
from mcp_notarium.keys.locks import Presence, key_lock
from mcp_notarium.keys.looking import OpeningSettings
from mcp_notarium.secret import Secret

_UNUSABLE = "the cache cannot be encrypted"


@dataclass(frozen=True, slots=True)
class Encrypted:
    """What was done. ``notes``: how many there are in the encrypted cache."""

    generation: str
    notes: int


def encrypt_plain(
    settings: OpeningSettings,
    key: Secret,
    *,
    parameters: Parameters | None = None,
    told: Told = lambda _done, _of: None,
    given: Given | None = None,
) -> Encrypted:
    """Make an encrypted cache that ``key`` opens out of the plain one, then erase the plain one.

    Raises ``InvalidRequest`` if there is no plain cache, ``CacheFull``, ``CacheDamaged``, and
    ``LockedError`` (OTHER_OWNER, SCHEMA_NEWER, MIGRATION_FAILED, WRONG_KEY, MODE_MISMATCH, BUSY),
    with the plain cache as it was.
    """
    given = given or Given()
    folder = trusted(settings.account_dir)
    if not folder.plain_database.is_file():
        raise InvalidRequest(
            "there is no unencrypted cache here",
            resolution_hint="Nothing is to be done; `mcp-notarium status` tells what there is.",
        )
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=given.timeout):
        presence = Presence(folder)
        try:
            anew.be_alone(presence, folder)
            given.at(Step.ALONE)
            cost = parameters or creating.parameters(settings)
            with _plain(folder, settings) as plain:
                done = _Work(settings, folder, key, cost, told, given).encrypted(plain)
            for file in reversed(companions(folder.plain_database)):
                erasing.erase(file)
            folder.certificate.unlink(missing_ok=True)
            given.at(Step.REMOVE)
            return done
        finally:
            presence.release()


@contextmanager
def _plain(folder: AccountFolder, settings: OpeningSettings) -> Iterator[Database]:
    """The plain database, if it is this account's and of this release."""
    with closing(database.connect(folder.plain_database, None)) as plain:
        state = schema.state(plain)
        if not state.ours or state.newer_than() or state.older_than():
            raise LockedError(
                Verdict.SCHEMA_NEWER if state.newer_than() else Verdict.MIGRATION_FAILED,
                f"the unencrypted cache has schema {state.version}, this release has "
                f"{schema.SCHEMA_VERSION}",
                resolution_hint="Start a server once with DB_ENCRYPTION=off and this release, then "
                "try again.",
            )
        owner = plain.row("SELECT value FROM sync_metadata WHERE key = 'owner_identity_hash'")
        if owner != (settings.owner_hash,):
            raise LockedError(
                Verdict.OTHER_OWNER,
                "the unencrypted cache belongs to another account",
                resolution_hint="Check SIMPLENOTE_USERNAME.",
            )
        plain.checkpoint()  # so that the main file is the whole of it
        yield plain


@dataclass(frozen=True, slots=True)
class _Work:
    settings: OpeningSettings
    folder: AccountFolder
    key: Secret
    parameters: Parameters
    told: Told
    given: Given

    def encrypted(self, plain: Database) -> Encrypted:
        """The encrypted cache beside the plain one: made now, or by a run that was cut short."""
        given, folder = self.given, self.folder
        files = keyfile.load(folder, bounds=given.bounds)
        counts = files.valid
        anew.set_leftovers_aside(folder, counts, now=given.clock())
        if counts is not None and folder.database(counts.generation).exists():
            keyfile.bring_to_rest(folder, files, now=given.clock())
            data_key = keyslots.unlock(counts, self.key, bounds=given.bounds)
            return _gone_on_with(folder, plain, counts, data_key)
        anew.demand_room(folder, plain)
        data_key = DataKey.generate()
        made = keyslots.build(
            data_key=data_key,
            passphrase=self.key,
            parameters=self.parameters,
            username=self.settings.username,
            now=int(given.clock()),
            bounds=given.bounds,
        )
        notes = anew.write(folder, plain, made, data_key, told=self.told, at=given.at)
        keyfile.commit(folder, made, at=given.at)
        return Encrypted(made.generation, notes)


def _gone_on_with(
    folder: AccountFolder, plain: Database, counts: KeyFile, data_key: DataKey
) -> Encrypted:
    """An encrypted cache that counts already: it must be the same, or nothing is erased."""
    key = data_key.database_key(counts.database_salt)
    with closing(database.connect(folder.database(counts.generation), key)) as made:
        if not anew.same(plain, made):
            raise LockedError(
                Verdict.MODE_MISMATCH,
                "an encrypted cache with other content lies beside the unencrypted one",
                resolution_hint="Look which of the two you want; `mcp-notarium reset-cache` sets "
                "both aside and loads a new one.",
            )
        return Encrypted(counts.generation, made.number("SELECT count(*) FROM notes"))
