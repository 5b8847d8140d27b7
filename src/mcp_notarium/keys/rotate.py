"""Changes the passphrase of a cache: the steps of ``crypto/rotation`` in the world.

Only the key file is written; running servers keep the data key and notice nothing. After a crash
exactly one passphrase opens the cache, and the next start or rotation tidies up. It does not make a
new data key: who has copied the key file and knew the old passphrase can still open that copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from mcp_notarium.cache import startup
from mcp_notarium.cache.observations import OnUnreadable, Opening
from mcp_notarium.cache.startup import Locked, Open
from mcp_notarium.crypto import keyslots, rotation, userkey
from mcp_notarium.crypto.datakey import DataKey
from mcp_notarium.crypto.failures import KeyFileDamaged, WeakPassphrase
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds, Parameters
from mcp_notarium.crypto.keyslots import KeyFile
from mcp_notarium.crypto.rotation import Step
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import creating, keyfile
from mcp_notarium.keys.files import At, disk_errors, nowhere
from mcp_notarium.keys.folder import AccountFolder, trusted
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.locks import Presence, key_lock
from mcp_notarium.keys.looking import Observer, OpeningSettings, Scene, never
from mcp_notarium.keys.opening import raise_sequence, refusal
from mcp_notarium.keys.unlock import Found
from mcp_notarium.secret import Secret

LOCK_SECONDS = 5.0
_UNUSABLE = "the key file cannot be changed"
_NEW = "the new key"


@dataclass(frozen=True, slots=True)
class Rotated:
    """What was done. ``proven``: the database was opened with what was written."""

    sequence: int
    rotated: int
    proven: bool
    notices: tuple[str, ...]


KEPT_BY_OTHERS = (
    "Every client configuration that holds the old key needs the new one before its next start.",
    "Old copies of the key file (backups) still open with the old key, and they open the database.",
)


def rotate_passphrase(
    settings: OpeningSettings,
    *,
    new: Secret,
    old: Secret | None = None,
    parameters: Parameters | None = None,
    allow_weak: bool = False,
    bounds: Bounds = PRODUCTION,
    timeout: float = LOCK_SECONDS,
    system: Keychain | None = None,
    clock: Callable[[], float] = time.time,
    at: At = nowhere,
) -> Rotated:
    """Let ``new`` open the cache instead of ``old`` (None: the key of the settings).

    ``new`` is a passphrase or a raw key; ``parameters`` stretch it (None: as the settings say).
    Raises ``WeakPassphrase``, ``MalformedKey`` and ``LockedError`` (start-up's verdicts, or BUSY)
    with nothing changed.
    """
    reason = userkey.weakness(new)
    if reason and not allow_weak:
        raise WeakPassphrase(reason)
    folder = trusted(settings.account_dir)
    given = None if old is None else Found(old, "the old key given")
    rotation_ = _Rotation(
        settings=settings,
        observer=Observer(settings, bounds=bounds, system=system, key=given),
        new=new,
        parameters=parameters or creating.parameters(settings),
        bounds=bounds,
        now=clock(),
        at=at,
    )
    if not folder.path.is_dir():
        raise _nothing_there()
    with disk_errors(_UNUSABLE), key_lock(folder, timeout=timeout):
        at(Step.LOCK)
        written = rotation_.write()
        proven = rotation_.prove(folder)
        at(Step.PROVE)
    return Rotated(
        sequence=written.sequence,
        rotated=int(rotation_.now),
        proven=proven,
        notices=KEPT_BY_OTHERS,
    )


@dataclass(frozen=True, slots=True)
class _Rotation:
    settings: OpeningSettings
    observer: Observer
    new: Secret
    parameters: Parameters
    bounds: Bounds
    now: float
    at: At

    def write(self) -> KeyFile:
        """Unwrap with the old key, wrap with the new one, put it in place."""
        scene = self.observer.look(now=self.now, opens=never)
        before, data_key, key = _openable(scene)
        self.at(Step.UNWRAP)
        if scene.files is not None:
            keyfile.bring_to_rest(scene.folder, scene.files, now=self.now)
        written = rotation.rewrap(
            before,
            old=key.passphrase,
            new=self.new,
            parameters=self.parameters,
            now=int(self.now),
            bounds=self.bounds,
        )
        self.at(Step.BUILD)
        keyfile.store(
            scene.folder, written, check=self._opens(data_key), bounds=self.bounds, at=self.at
        )
        return written

    def prove(self, folder: AccountFolder) -> bool:
        """Open the database with what is on the disk now; False if another process holds it."""
        observer = Observer(self.settings, bounds=self.bounds, key=Found(self.new, _NEW))
        presence = Presence(folder)
        try:
            presence.share()
            with closing(observer.look(now=self.now)) as scene:
                if scene.seen.opening is Opening.BUSY:
                    return False
                decision = startup.decide(_refusing(scene).seen)
                if isinstance(decision, Locked):
                    raise refusal(decision)
                if scene.database is not None and scene.keyfile is not None:
                    raise_sequence(scene.database, scene.keyfile)
                return scene.database is not None
        finally:
            presence.release()

    def _opens(self, data_key: DataKey) -> Callable[[KeyFile], None]:
        def check(read_back: KeyFile) -> None:
            if keyslots.unlock(read_back, self.new, bounds=self.bounds) != data_key:
                raise KeyFileDamaged("what was written does not open with the new key")

        return check


def _openable(scene: Scene) -> tuple[KeyFile, DataKey, Found]:
    """What is to be changed. Raises start-up's refusal if the cache could not be opened."""
    decision = startup.decide(_refusing(scene).seen)
    if isinstance(decision, Locked):
        raise refusal(decision)
    if scene.seen.plain:
        raise LockedError(
            Verdict.MODE_MISMATCH,
            "the cache is not encrypted, so it has no key to change",
            resolution_hint="Remove DB_ENCRYPTION=off to use an encrypted cache.",
        )
    if not isinstance(decision, Open) or not (scene.keyfile and scene.data_key and scene.key):
        raise _nothing_there()
    return scene.keyfile, scene.data_key, scene.key


def _refusing(scene: Scene) -> Scene:
    """The same scene for somebody who never rebuilds."""
    return replace(scene, seen=replace(scene.seen, on_unreadable=OnUnreadable.REFUSE))


def _nothing_there() -> LockedError:
    return LockedError(
        Verdict.DATABASE_MISSING,
        "there is no encrypted cache yet",
        resolution_hint="Start the server once (`mcp-notarium serve`); it makes one.",
    )
