"""Looks at an account's cache from outside inwards and writes down what start-up decides on.

It looks only as far as is safe: no file of an unsafe folder is read, no database is opened before
the key file has proven the key and some page of the file is authentic. It changes nothing, except
that opening a database lets SQLite take up a left-over log, unless it is opened ``read_only``. A few pages
are enough, unless the caller wants all of them or damage was met in this cache before.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mcp_notarium.account import file_facts, markers, startup_table
from mcp_notarium.account.startup_facts import (
    Files,
    Identity,
    KeySource,
    Mode,
    Observations,
    OnUnreadable,
    Opening,
    SchemaSeen,
    Unwrap,
)
from mcp_notarium.account.startup_table import Decision
from mcp_notarium.crypto import kdf, key_slots, recovery_codes, user_key
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged, MalformedKey, WrongKey
from mcp_notarium.crypto.key_slots import KeyFile, SlotState, SlotType
from mcp_notarium.errors import CacheBusy, CacheDamaged, LockedError
from mcp_notarium.files.account_folder import AccountFolder, find_problem, folder_errors
from mcp_notarium.keys import key_file, keychain
from mcp_notarium.keys.key_file import KeyFiles
from mcp_notarium.keys.key_sources import KEYCHAIN, Found, KeySettings, find_passphrase
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database
from mcp_notarium.storage.database import Database


class Unlock(Protocol):
    """How a key file is unlocked; :func:`keyslots.unlock`, or what has begun to before."""

    def __call__(
        self, found: KeyFile, passphrase: Secret, /, *, bounds: kdf.Bounds = ...
    ) -> DataKey:
        """The data key. Raises ``WrongKey`` and ``KeyFileDamaged``."""


class OpeningSettings(KeySettings, Protocol):
    """The settings that opening reads; ``Config`` has them all."""

    @property
    def username(self) -> str:
        """The account's name."""

    @property
    def owner_hash(self) -> str:
        """64 hex digits made from it."""

    @property
    def account_dir(self) -> Path:
        """The account's folder."""

    @property
    def db_encryption(self) -> bool:
        """Whether the cache is encrypted."""

    @property
    def kdf(self) -> str:
        """``argon2id`` or ``pbkdf2-sha512``, for new slots."""

    @property
    def kdf_chosen(self) -> bool:
        """Whether somebody has set it."""

    @property
    def kdf_iterations(self) -> int:
        """The rounds of the latter."""

    @property
    def allow_weak(self) -> bool:
        """Whether a new cache may be made with a passphrase that can be guessed."""

    @property
    def on_unreadable(self) -> str:
        """``refuse`` or ``rebuild``."""

    @property
    def memory_security(self) -> bool:
        """Whether SQLCipher wipes and locks its memory."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What was seen, and what was got hold of on the way."""

    seen: Observations
    folder: AccountFolder
    files: KeyFiles | None = None
    key: Found | None = None
    keyfile: KeyFile | None = None
    data_key: DataKey | None = None
    database: Database | None = None

    def close(self) -> None:
        """Close the database if it was opened."""
        if self.database is not None:
            self.database.close()


def always(_log: bool) -> bool:  # noqa: FBT001 - the one fact it decides on
    """Open the database whenever that is safe."""
    return True


def never(_log: bool) -> bool:  # noqa: FBT001 - the one fact it decides on
    """Look at it from outside only."""
    return False


class Observer:
    """Looks, possibly several times; a key file already unwrapped is not unwrapped again."""

    def __init__(
        self,
        settings: OpeningSettings,
        *,
        bounds: kdf.Bounds = kdf.PRODUCTION,
        refetchable: bool = True,
        system: Keychain | None = None,
        key: Found | None = None,
        whole: bool = False,
        read_only: bool = False,
        unlock: Unlock = key_slots.unlock,
    ) -> None:
        self._settings = settings
        self._bounds = bounds
        self._refetchable = refetchable
        self._system = system
        self._given = key
        self._whole = whole
        self._read_only = read_only
        self._unlock = unlock
        self._known: dict[str, DataKey | Unwrap] = {}

    def look(self, *, now: float, opens: Callable[[bool], bool] = always) -> Scene:
        """One look. The caller closes the scene, or takes the database over."""
        settings = self._settings
        folder = AccountFolder(settings.account_dir)
        seen = Observations(
            mode=Mode.ENCRYPTED if settings.db_encryption else Mode.PLAIN,
            driver=file_facts.driver_seen(),
            refetchable=self._refetchable,
            on_unreadable=OnUnreadable(settings.on_unreadable),
        )
        if not startup_table.stops(seen):
            seen = replace(seen, path_problem=find_problem(folder))
        if startup_table.stops(seen):
            return Scene(seen, folder)
        folder = AccountFolder(Path(os.path.realpath(folder.path)))
        scene = self._files(Scene(seen, folder), now)
        return self._plain(scene, opens) if seen.plain else self._encrypted(scene, opens)

    def _files(self, scene: Scene, now: float) -> Scene:
        """Everything that lies there, read without a key."""
        folder = scene.folder
        files = key_file.load(folder, bounds=self._bounds)
        valid, prepared = files.valid, files.prepared.keyfile
        known = {one.generation for one in (valid, prepared) if one}
        generations = set(folder.generations())
        seen = replace(
            scene.seen,
            main=files.main.state,
            copy=files.copy.state,
            strays=bool(files.strays),
            copy_stale=files.copy_stale,
            newer_version=files.newer_version,
            files=Files(
                current=valid is not None and valid.generation in generations,
                strangers=len(generations - known),
                prepared=prepared is not None,
                plain=folder.plain_database.exists(),
                plain_remains=folder.plain_remains.exists(),
                plain_unfinished=folder.unfinished_plain_database.exists(),
                wal=file_facts.has_log(_path(folder, valid, plain=scene.seen.plain)),
            ),
            no_pending=file_facts.nothing_pending(folder, files, plain=scene.seen.plain),
            rebuilt_recently=file_facts.rebuilt_recently(folder, valid, now=now),
        )
        return replace(scene, seen=seen, files=files, keyfile=valid)

    def _plain(self, scene: Scene, opens: Callable[[bool], bool]) -> Scene:
        path = scene.folder.plain_database
        if not scene.seen.files.plain or scene.seen.anything_encrypted:
            return scene
        sample = file_facts.plain_sample(path)
        expected = Identity(owner_hash=self._settings.owner_hash)
        scene = replace(scene, seen=replace(scene.seen, sample=sample, expected=expected))
        if sample.plaintext_magic and opens(scene.seen.files.wal):
            return self._opened(scene, path)
        return scene

    def _encrypted(self, scene: Scene, opens: Callable[[bool], bool]) -> Scene:
        scene = self._unwrapped(self._with_key(scene))
        seen, found, data_key = scene.seen, scene.keyfile, scene.data_key
        if found is None or data_key is None or not seen.owner_matches or not seen.files.current:
            return scene
        path = scene.folder.database(found.generation)
        whole = self._whole or markers.is_damage_marked(scene.folder)
        sample = file_facts.sample(path, data_key, found, every=whole)
        if sample.bad and file_facts.has_log(path):  # a server may have begun one meanwhile
            seen = replace(seen, files=replace(seen.files, wal=True))
        scene = replace(scene, seen=replace(seen, sample=sample))
        if file_facts.worth_opening(sample, log=seen.files.wal) and opens(seen.files.wal):
            return self._opened(scene, path)
        return scene

    def _with_key(self, scene: Scene) -> Scene:
        try:
            key = self._given or find_passphrase(
                self._settings, self._settings.owner_hash, system=self._system
            )
        except LockedError as error:
            reason = str(error.details.get("reason", error.message))
            seen = replace(scene.seen, key=KeySource.KEYCHAIN_UNUSABLE, reason=reason)
            return replace(scene, seen=seen)
        if key is None:
            return replace(scene, seen=self._without_key(scene))
        seen = replace(scene.seen, source=key.origin, key=KeySource.FOUND)
        try:
            weakness = user_key.weakness(key.passphrase)
            if self._given is None and not self._settings.allow_weak:  # a given one makes no cache
                seen = replace(seen, weakness=weakness)
        except MalformedKey as malformed:
            seen = replace(seen, key=KeySource.MALFORMED, reason=malformed.reason)
        return replace(scene, seen=seen, key=key)

    def _without_key(self, scene: Scene) -> Observations:
        """What the keychain's silence means: another one may have been in use, or none runs here."""
        if not self._settings.keychain:
            return scene.seen
        return replace(
            scene.seen,
            keychain=(self._system or keychain.system_keychain()).why_none(),
            keychain_slot=scene.keyfile is not None and _of_keychain(scene.keyfile),
        )

    def _unwrapped(self, scene: Scene) -> Scene:
        found, key = scene.keyfile, scene.key
        if found is None or key is None or scene.seen.key is not KeySource.FOUND:
            return scene
        seen = replace(
            scene.seen,
            rotated=file_facts.day(found.rotated),
            cipher_floor=found.cipher_floor,
            schema_floor=found.schema_floor,
            expected=Identity(
                owner_hash=self._settings.owner_hash,
                vault_id=found.vault_id,
                generation=found.generation,
                sequence=found.sequence,
            ),
        )
        opened = self._unwrap(found, key)
        if scene.files is not None and self._ahead(scene.files, key, opened):
            seen = replace(seen, copy_ahead=True)
        if isinstance(opened, Unwrap):
            slip = recovery_codes.slip(key.passphrase.reveal_text())
            asked = key is self._given or key.origin == KEYCHAIN or key.lay_there
            unasked = self._settings.keychain and not asked and _of_keychain(found)
            seen = replace(seen, unwrap=opened, slip=slip, keychain_slot=unasked)
            return replace(scene, seen=seen)
        matches = key_slots.owned_by(found, opened, self._settings.username)
        seen = replace(seen, unwrap=Unwrap.OPENED, owner_matches=matches)
        return replace(scene, seen=seen, data_key=opened)

    def _ahead(self, files: KeyFiles, key: Found, opened: DataKey | Unwrap) -> bool:
        """Whether the copy is newer than the key file, and not only says so."""
        copy = files.copy_ahead
        if copy is None:
            return False
        if isinstance(opened, DataKey) and key_slots.vouched_for(copy, opened):
            return True
        return isinstance(self._unwrap(copy, key), DataKey)

    def _unwrap(self, found: KeyFile, key: Found) -> DataKey | Unwrap:
        # Stretching a passphrase takes its time; the second look under the lock need not repeat it.
        name = hashlib.sha256(key_slots.serialise(found)).hexdigest()
        if name not in self._known:
            try:
                self._known[name] = self._unlock(found, key.passphrase, bounds=self._bounds)
            except WrongKey:
                self._known[name] = Unwrap.WRONG_KEY
            except KeyFileDamaged:
                self._known[name] = Unwrap.FORGED
        return self._known[name]

    def _opened(self, scene: Scene, path: Path) -> Scene:
        seen = scene.seen
        secret = None
        if scene.data_key is not None and scene.keyfile is not None:
            secret = scene.data_key.database_key(scene.keyfile.database_salt)
        try:
            opened = database.connect(
                path,
                secret,
                memory_security=self._settings.memory_security,
                read_only=self._read_only,
            )
            try:
                schema_seen, identity = file_facts.inside(opened)
                self._examine(scene, opened, schema_seen)
            except BaseException:
                opened.close()
                raise
        except CacheDamaged:
            return replace(scene, seen=replace(seen, opening=Opening.DAMAGED))
        except CacheBusy:
            return replace(scene, seen=replace(seen, opening=Opening.BUSY))
        seen = replace(seen, opening=Opening.OPENED, schema=schema_seen, found=identity)
        return replace(scene, seen=seen, database=opened)

    def _examine(self, scene: Scene, opened: Database, schema_seen: SchemaSeen) -> None:
        """Raises ``CacheDamaged`` where the pages alone do not show that a database is sound."""
        if not schema_seen.ours or schema_seen.version > schema_seen.program:
            return
        marked, sample = markers.is_damage_marked(scene.folder), scene.seen.sample
        # Beside a log the file may lack pages that neither of them has.
        unproven = (
            scene.seen.plain or scene.seen.files.wal or (sample is not None and sample.bad > 0)
        )
        if marked or (self._whole and unproven):
            faults = opened.walk(deep=marked)
            if faults:
                raise CacheDamaged(faults[0])


def verdict(settings: OpeningSettings, *, bounds: kdf.Bounds = kdf.PRODUCTION) -> Decision:
    """What start-up would decide; changes nothing."""
    with folder_errors(AccountFolder(settings.account_dir)):
        scene = Observer(settings, bounds=bounds, read_only=True).look(now=time.time())
    scene.close()
    return startup_table.decide(scene.seen)


def _of_keychain(found: KeyFile) -> bool:
    """Whether some slot that opens is a keychain's."""
    return any(
        slot.type is SlotType.KEYRING and slot.state is not SlotState.DISABLED
        for slot in found.slots
    )


def _path(folder: AccountFolder, valid: KeyFile | None, *, plain: bool) -> Path | None:
    if plain:
        return folder.plain_database
    return None if valid is None else folder.database(valid.generation)
