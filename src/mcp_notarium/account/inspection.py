"""Inspect an account folder step by step (paths, key file, pages, schema) without changing it.

Inspection stops where it would not be safe: no file of an unsafe folder is read, and no database is
opened before the key file has proven the key and some page of the file is authentic. It changes nothing,
except that opening a database lets SQLite play back a left-over log, unless it is opened ``read_only``.

A few pages are checked; all of them if the caller asks, or where ``damage_met.json`` lies: the database turned out to
be damaged while it was open. The content of that marker does not matter: the examination decides. It goes when that
finds nothing wrong, or with the old files into the quarantine.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from mcp_notarium.account import rollback, startup_table
from mcp_notarium.account.copies import Copies
from mcp_notarium.account.startup_outcomes import (
    Decision,
    Files,
    Identity,
    KeySource,
    Observations,
    Opening,
    SchemaSeen,
    Unwrap,
)
from mcp_notarium.config import Config
from mcp_notarium.crypto import canonical_json, key_file_codec, key_slots, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, MalformedKey, WrongKey
from mcp_notarium.crypto.key_file_codec import KeyFile, SlotType
from mcp_notarium.errors import CacheBusy, CacheDamaged, LockedError
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder, find_problem, folder_errors
from mcp_notarium.files.private_files import replace_private, sync_folder
from mcp_notarium.keys import key_file_store, keychain
from mcp_notarium.keys.key_file_store import KeyFiles
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.secret_places import KEYCHAIN, FoundKey, find_passphrase
from mcp_notarium.storage import database_opener, driver, integrity, schema_version
from mcp_notarium.storage.database_opener import Database
from mcp_notarium.stores.kind import Truth
from mcp_notarium.system import SYSTEM

_CONTENT = canonical_json.encode({"format": "mcp-notarium-damage-met", "version": 1})


def is_damage_marked(folder: AccountFolder) -> bool:
    """Check whether damage was met since the whole cache was last checked."""
    return os.path.lexists(folder.damage_marker)


def mark_damage(folder: AccountFolder) -> None:
    """Write the marker; durable when it returns. Never raises for the disk's sake."""
    if not is_damage_marked(folder):
        with suppress(OSError):
            replace_private(folder.damage_marker, _CONTENT)


def unmark_damage(folder: AccountFolder) -> None:
    """Remove the marker: the active cache is undamaged. Never raises: a marker that stays costs one examination."""
    if is_damage_marked(folder):
        with suppress(OSError):
            SYSTEM.remove(folder.damage_marker)
            sync_folder(folder.path)


_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Inspection:
    """Hold the observations, and what was opened on the way."""

    seen: Observations
    folder: AccountFolder
    files: KeyFiles | None = None
    key: FoundKey | None = None
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None
    database: Database | None = None

    def close(self) -> None:
        """Close the database if it was opened."""
        if self.database is not None:
            self.database.close()


@dataclass(frozen=True, slots=True)
class Inspector:
    """Inspect an account folder, several times if asked; unwrap each key file once."""

    settings: Config
    keychain: Keychain | None = None
    key: FoundKey | None = None
    """Replaces the key of the settings."""
    whole: bool = False
    """Check every page."""
    read_only: bool = False
    """Change no file."""
    _unwrapped_before: dict[str, DataKey | Unwrap] = field(default_factory=dict)

    def inspect(self, *, now: float, opens: bool = True) -> Inspection:
        """Inspect once; ``opens`` False: from outside only. The caller closes the inspection, or takes over its database."""
        settings = self.settings
        folder = AccountFolder(settings.account_dir)
        seen = _check_driver(
            Observations(
                plain=not settings.db_encryption,
                on_unreadable=settings.on_unreadable,
                only_copy=settings.store.truth is Truth.LOCAL,
            )
        )
        if not seen.is_blocked:
            seen = replace(seen, path_problem=find_problem(folder))
        if seen.is_blocked:
            return Inspection(seen, folder)
        folder = AccountFolder(Path(os.path.realpath(folder.path)))
        inspection = self._read_files(Inspection(seen, folder), now)
        inspect = self._inspect_plain if seen.plain else self._inspect_encrypted
        return inspect(inspection, opens=opens)

    def _read_files(self, inspection: Inspection, now: float) -> Inspection:
        """Read everything that can be read without a key."""
        folder = inspection.folder
        files = key_file_store.load(folder)
        valid, prepared = files.valid, files.prepared.keyfile
        known = {one.generation for one in (valid, prepared) if one}
        generations = set(folder.generations())
        seen = replace(
            inspection.seen,
            main=files.main.state,
            copy=files.copy.state,
            change_unfinished=files.copy_stale or bool(files.temporary),
            newer_version=files.newer_version,
            files=Files(
                current=valid is not None and valid.generation in generations,
                unknown=len(generations - known),
                prepared=prepared is not None,
                plain=folder.plain_database.exists(),
                wal=database_opener.has_log(
                    _database_path(folder, valid, plain=inspection.seen.plain)
                ),
            ),
            rebuilt_recently=_rebuilt_recently(folder, valid, now=now),
        )
        return replace(inspection, seen=seen, files=files, keyfile=valid)

    def _inspect_plain(self, inspection: Inspection, *, opens: bool) -> Inspection:
        path = inspection.folder.plain_database
        if not inspection.seen.files.plain or inspection.seen.anything_encrypted:
            return inspection
        sample = integrity.plain_sample(path)
        expected = Identity(owner_hash=self.settings.owner_hash)
        inspection = replace(
            inspection, seen=replace(inspection.seen, sample=sample, expected=expected)
        )
        if sample.plaintext_magic and opens:
            return self._open(inspection, path)
        return inspection

    def _inspect_encrypted(self, inspection: Inspection, *, opens: bool) -> Inspection:
        inspection = self._unwrap_data_key(self._find_key(inspection))
        seen, found, data_key = inspection.seen, inspection.keyfile, inspection.data_key
        if found is None or data_key is None or not seen.owner_matches or not seen.files.current:
            return inspection
        path = inspection.folder.database(found.generation)
        whole = self.whole or is_damage_marked(inspection.folder)
        sample = integrity.sample(path, data_key.page_mac_key(), found.database_salt, every=whole)
        if sample.bad and database_opener.has_log(path):  # a server may have begun one meanwhile
            seen = replace(seen, files=replace(seen.files, wal=True))
        seen = replace(seen, sample=sample)
        inspection = replace(inspection, seen=seen)
        # A log may repair what a crash tore.
        openable = seen.files.wal or not (sample.bad or sample.torn)
        if sample.good and openable and opens:
            return self._open(inspection, path)
        if sample.good and opens:
            return replace(inspection, seen=self._find_missing(inspection, path, seen))
        return inspection

    def _find_key(self, inspection: Inspection) -> Inspection:
        try:
            key = self.key or find_passphrase(self.settings, system=self.keychain)
        except LockedError as error:
            reason = str(error.details.get("reason", error.message))
            seen = replace(inspection.seen, key=KeySource.KEYCHAIN_UNUSABLE, reason=reason)
            return replace(inspection, seen=seen)
        if key is None and not self.settings.keychain:
            return inspection
        if key is None:
            # Another keychain may have been in use, or none runs here.
            found, system = inspection.keyfile, self.keychain or keychain.system_keychain()
            has_slot = found is not None and _has_keychain_slot(found)
            reason = system.explain_missing_key()
            seen = replace(inspection.seen, keychain=reason, keychain_slot=has_slot)
            return replace(inspection, seen=seen)
        seen = replace(inspection.seen, source=key.origin, key=KeySource.FOUND)
        try:
            weakness = user_key.weakness(key.passphrase, account=self.settings.account.name)
            if self.key is None and not self.settings.allow_weak:  # a given one makes no cache
                seen = replace(seen, weakness=weakness)
        except MalformedKey as malformed:
            seen = replace(seen, key=KeySource.MALFORMED, reason=malformed.reason)
        return replace(inspection, seen=seen, key=key)

    def _unwrap_data_key(self, inspection: Inspection) -> Inspection:
        found, key = inspection.keyfile, inspection.key
        if found is None or key is None or inspection.seen.key is not KeySource.FOUND:
            return inspection
        seen = replace(
            inspection.seen,
            rotated=_format_day(found.rotated),
            cipher_floor=found.cipher_floor,
            schema_floor=found.schema_floor,
            expected=Identity(
                owner_hash=self.settings.owner_hash,
                vault_id=found.vault_id,
                generation=found.generation,
                sequence=found.sequence,
            ),
        )
        opened = self._unwrap(found, key)
        if inspection.files is not None and self._is_copy_ahead(inspection.files, key, opened):
            seen = replace(seen, copy_ahead=True)
        if isinstance(opened, Unwrap):
            typo = user_key.explain_typo(key.passphrase.reveal_text())
            asked = key is self.key or key.origin == KEYCHAIN or key.from_working_folder
            unasked = self.settings.keychain and not asked and _has_keychain_slot(found)
            seen = replace(seen, unwrap=opened, typo=typo, keychain_slot=unasked)
            return replace(inspection, seen=seen)
        matches = key_slots.belongs_to(found, opened, self.settings.owner_hash)
        seen = replace(seen, unwrap=Unwrap.OPENED, owner_matches=matches)
        return replace(inspection, seen=seen, data_key=opened)

    def _is_copy_ahead(self, files: KeyFiles, key: FoundKey, opened: DataKey | Unwrap) -> bool:
        """Check whether the copy is newer than the key file, and not only says so."""
        copy = files.copy_ahead
        if copy is None:
            return False
        if isinstance(opened, DataKey) and key_slots.has_valid_mac(copy, opened):
            return True
        return isinstance(self._unwrap(copy, key), DataKey)

    def _unwrap(self, found: KeyFile, key: FoundKey) -> DataKey | Unwrap:
        # Stretching a passphrase is slow; the second inspection, under the lock, need not repeat it.
        name = hashlib.sha256(key_file_codec.serialise(found)).hexdigest()
        if name not in self._unwrapped_before:
            try:
                self._unwrapped_before[name] = key_slots.unlock(found, key.passphrase)
            except WrongKey:
                self._unwrapped_before[name] = Unwrap.WRONG_KEY
            except KeyFileDamaged:
                self._unwrapped_before[name] = Unwrap.FORGED
        return self._unwrapped_before[name]

    def _open(self, inspection: Inspection, path: Path) -> Inspection:
        seen = inspection.seen
        secret = None
        if inspection.data_key is not None and inspection.keyfile is not None:
            secret = inspection.data_key.database_key(inspection.keyfile.database_salt)
        try:
            opened = database_opener.connect(
                path,
                secret,
                memory_security=self.settings.memory_security,
                read_only=self.read_only,
            )
            try:
                schema_seen, identity = _read_schema(opened)
                self._examine(inspection, opened, schema_seen)
            except BaseException:
                opened.close()
                raise
        except CacheDamaged:
            damaged = replace(seen, opening=Opening.DAMAGED)
            return replace(inspection, seen=self._find_missing(inspection, path, damaged))
        except CacheBusy:
            return replace(inspection, seen=replace(seen, opening=Opening.BUSY))
        seen = replace(seen, opening=Opening.OPENED, schema=schema_seen, found=identity)
        return replace(inspection, seen=seen, database=opened)

    def _find_missing(
        self, inspection: Inspection, path: Path, damaged: Observations
    ) -> Observations:
        """Return what is seen of an unreadable database: what it lacks, or that it is ``damaged``."""
        keyfile = inspection.keyfile
        generation = keyfile.generation if keyfile is not None else ""
        salt = keyfile.database_salt if keyfile is not None else b""
        copies = Copies(inspection.folder, inspection.data_key, self.settings.store.tables)
        found = rollback.find_in_unreadable(path, generation, salt, copies)
        if found is None:
            newest = copies.newest()
            return replace(damaged, newest_copy=f" The newest is {newest}." if newest else "")
        copy = f"{found.copy_back}. " if found.copy else ""
        return replace(inspection.seen, opening=Opening.MIXED, lacks=found.words, copy_back=copy)

    def _examine(self, inspection: Inspection, opened: Database, schema_seen: SchemaSeen) -> None:
        """Walk the database where the sampled pages do not prove it undamaged. Raises ``CacheDamaged``."""
        if not schema_seen.is_readable:
            return
        marked, sample = is_damage_marked(inspection.folder), inspection.seen.sample
        # Beside a log the file may lack pages that neither of them has.
        unproven = (
            inspection.seen.plain
            or inspection.seen.files.wal
            or (sample is not None and sample.bad > 0)
        )
        if marked or (self.whole and unproven):
            faults = integrity.walk(opened, deep=marked)
            if faults:
                raise CacheDamaged(faults[0])


def verdict(settings: Config) -> Decision:
    """Return what start-up would decide; changes nothing."""
    with folder_errors(AccountFolder(settings.account_dir)):
        inspection = Inspector(settings, read_only=True).inspect(now=time.time())
    inspection.close()
    return startup_table.decide(inspection.seen)


def _has_keychain_slot(found: KeyFile) -> bool:
    """Check whether some slot is a keychain's."""
    return any(slot.type is SlotType.KEYCHAIN for slot in found.slots)


def _database_path(folder: AccountFolder, valid: KeyFile | None, *, plain: bool) -> Path | None:
    if plain:
        return folder.plain_database
    return None if valid is None else folder.database(valid.generation)


def _check_driver(seen: Observations) -> Observations:
    try:
        found = driver.require_suitable(driver.facts())
    except LockedError as error:
        return replace(seen, driver_problem=error.message)
    return replace(seen, cipher_major=int(found.cipher_version.split(".")[0]))


def _read_schema(database: Database) -> tuple[SchemaSeen, Identity | None]:
    """Read schema and identity of an open database; no identity if it is not one of this schema of ours."""
    seen = SchemaSeen(
        version=database.user_version(),
        program=schema_version.SCHEMA_VERSION,
        ours=schema_version.is_ours(database),
    )
    return seen, _read_identity(database) if seen.is_readable else None


def _read_identity(database: Database) -> Identity:
    rows: dict[str, object] = dict(
        database.rows(
            "SELECT key, value FROM sync_metadata WHERE key IN "
            "('owner_identity_hash', 'vault_id', 'generation', 'key_sequence')"
        )
    )
    sequence = str(rows.get("key_sequence", ""))
    return Identity(
        owner_hash=str(rows.get("owner_identity_hash", "")),
        vault_id=str(rows.get("vault_id", "")),
        generation=str(rows.get("generation", "")),
        sequence=int(sequence) if sequence.isdecimal() else 0,
    )


def _rebuilt_recently(folder: AccountFolder, keyfile: KeyFile | None, *, now: float) -> bool:
    """Check whether this cache replaced one that was moved to the quarantine within the last 24 hours.

    Two clients with different keys would otherwise rebuild each other's cache for ever.
    """
    moved = quarantine.find_last_use(folder)
    if moved is None or moved < now - _DAY:
        return False
    if folder.plain_database.exists():
        return True
    return keyfile is not None and keyfile.created >= now - _DAY


def _format_day(epoch: int | None) -> str | None:
    """Return the UTC day of a time in epoch seconds."""
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d")
