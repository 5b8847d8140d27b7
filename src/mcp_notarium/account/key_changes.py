"""Changes the key file of a cache, whatever the change is: the steps of ``crypto/rotation_steps``.

Only the key file is written; running servers keep the data key and notice nothing. What was written
is read back and opened before it counts. The database is opened before anything is written, because
it alone knows whether the key file is the newest one, and once more afterwards. After a crash the
folder has the key file of before or of after, and the next start tidies up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from mcp_notarium.account import startup_table
from mcp_notarium.account.inspection import Observer, OpeningSettings, Scene
from mcp_notarium.account.key_audit import record_change
from mcp_notarium.account.opener import raise_sequence, refusal
from mcp_notarium.account.startup_facts import OnUnreadable
from mcp_notarium.account.startup_table import Locked, Open
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds
from mcp_notarium.crypto.key_slots import KeyFile
from mcp_notarium.crypto.rotation_steps import Step
from mcp_notarium.errors import CacheError, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder, trusted
from mcp_notarium.files.locks import Presence, key_lock
from mcp_notarium.files.private_files import At, disk_errors, nowhere
from mcp_notarium.keys import key_file
from mcp_notarium.keys.key_sources import Found
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret

LOCK_SECONDS = 5.0
_UNUSABLE = "the key file cannot be changed"


@dataclass(frozen=True, slots=True)
class Given:
    """What every change of a key file is given.

    ``old`` stands in for the key of the settings. The others are for tests: limits of the key
    derivation, the keychain, the clock, and a place to crash at.
    """

    old: Secret | None = None
    bounds: Bounds = PRODUCTION
    timeout: float = LOCK_SECONDS
    system: Keychain | None = None
    clock: Callable[[], float] = time.time
    at: At = nowhere


@dataclass(frozen=True, slots=True)
class Changed:
    """What was written. ``proven``: the database was opened with it.

    ``copied``: its copy was written, too; else the next start does that. What was written counts,
    whatever these two say.
    """

    before: KeyFile
    after: KeyFile
    proven: bool
    copied: bool


class Change(Protocol):
    """One change, pure: the next key file out of the present one."""

    def __call__(self, before: KeyFile, data_key: DataKey, key: Secret, /) -> KeyFile:
        """``key`` is the one that opened it; raises where there is nothing to be written."""


def change(
    settings: OpeningSettings,
    make: Change,
    *,
    also_opens: Sequence[Secret] = (),
    instead: Secret | None = None,
    given: Given | None = None,
) -> Changed:
    """Carry out ``make`` under the key lock.

    The key that opened the cache must open it afterwards, ``instead`` of it if that is given, and
    so must ``also_opens``. Raises ``LockedError`` (start-up's verdicts, or BUSY) and what ``make``
    raises, with nothing changed.
    """
    given = given or Given()
    folder = trusted(settings.account_dir)
    if not folder.path.is_dir():
        raise nothing_there()
    work = _Work(settings, given, folder, int(given.clock()))
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=given.timeout):
        given.at(Step.LOCK)
        presence = Presence(folder).share()
        try:
            before, after, proof, copied = work.write(make, instead, also_opens)
            proven = work.prove(proof, before)
        finally:
            presence.release()
        given.at(Step.PROVE)
    return Changed(before, after, proven, copied)


@dataclass(frozen=True, slots=True)
class _Work:
    settings: OpeningSettings
    given: Given
    folder: AccountFolder
    now: int

    def write(
        self, make: Change, instead: Secret | None, also_opens: Sequence[Secret]
    ) -> tuple[KeyFile, KeyFile, Secret, bool]:
        """Unwrap, build, put it in place."""
        given = self.given
        key = None if given.old is None else Found(given.old, "the key given")
        observer = Observer(self.settings, bounds=given.bounds, system=given.system, key=key)
        with closing(observer.look(now=self.now)) as scene:
            before, data_key, found = openable(scene)
            if scene.database is not None:
                raise_sequence(scene.database, before)
        given.at(Step.UNWRAP)
        if scene.files is not None:
            key_file.bring_to_rest(scene.folder, scene.files, now=self.now)
        after = make(before, data_key, found.passphrase)
        proof = instead or found.passphrase
        check = self._opening(data_key, (proof, *also_opens))
        given.at(Step.BUILD)
        copied = key_file.store(scene.folder, after, check=check, bounds=given.bounds, at=given.at)
        return before, after, proof, copied

    def prove(self, key: Secret, before: KeyFile) -> bool:
        """Open the database with what is on the disk now.

        What was written counts by now, and whoever is told of a failure would go on with the old
        key; so this never raises. False if another process holds the database, the disk has no room
        for what opening it writes, or it cannot be opened any more for whatever reason.
        """
        observer = Observer(
            self.settings, bounds=self.given.bounds, key=Found(key, "what was written")
        )
        try:
            with closing(observer.look(now=self.now)) as scene:
                decision = startup_table.decide(_refusing(scene).seen)
                if scene.database is None or isinstance(decision, Locked):
                    return False
                if scene.keyfile is not None:
                    raise_sequence(scene.database, scene.keyfile)
                    record_change(scene, before, at=self.now)
                return True
        except (CacheError, LockedError, OSError):
            return False

    def _opening(self, data_key: DataKey, keys: Sequence[Secret]) -> Callable[[KeyFile], None]:
        def check(read_back: KeyFile) -> None:
            for key in keys:
                if key_slots.unlock(read_back, key, bounds=self.given.bounds) != data_key:
                    raise KeyFileDamaged("what was written does not open")

        return check


def openable(scene: Scene) -> tuple[KeyFile, DataKey, Found]:
    """What is to be changed. Raises start-up's refusal if the cache could not be opened."""
    decision = startup_table.decide(_refusing(scene).seen)
    if isinstance(decision, Locked):
        raise refusal(decision)
    if scene.seen.plain:
        raise LockedError(
            Verdict.MODE_MISMATCH,
            "the cache is not encrypted, so it has no key to change",
            resolution_hint="Remove DB_ENCRYPTION=off to use an encrypted cache.",
        )
    if not isinstance(decision, Open) or not (scene.keyfile and scene.data_key and scene.key):
        raise nothing_there()
    return scene.keyfile, scene.data_key, scene.key


def nothing_there() -> LockedError:
    """There is no encrypted cache to change the keys of."""
    return LockedError(
        Verdict.DATABASE_MISSING,
        "there is no encrypted cache yet",
        resolution_hint="Start the server once (`mcp-notarium serve`); it makes one.",
    )


def _refusing(scene: Scene) -> Scene:
    """The same scene for somebody who never rebuilds."""
    return replace(scene, seen=replace(scene.seen, on_unreadable=OnUnreadable.REFUSE))
