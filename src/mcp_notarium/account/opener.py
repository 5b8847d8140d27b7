"""Open the cache of one account: inspect, decide by the table, do what was decided.

``account/startup_table`` alone decides. A cache that is in order is opened without any exclusive lock.
Everything that changes files is decided a second time under the key lock, because clients often start a
server twice. Whoever has the database open holds the server lock shared, so that nobody moves the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mcp_notarium.account import (
    creation,
    markers,
    schema_migration,
    startup_decisions,
    startup_table,
)
from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.creation import NewCache
from mcp_notarium.account.inspection import Inspection, Inspector, Unlock
from mcp_notarium.account.markers import PendingMarker
from mcp_notarium.account.opened_cache import OpenedCache
from mcp_notarium.account.startup_facts import OnUnreadable
from mcp_notarium.account.startup_table import Create, Decision, Locked, Migrate, Open, Rebuild
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.kdf import PRODUCTION, Bounds, Parameters
from mcp_notarium.crypto.key_slots import KeyFile
from mcp_notarium.errors import (
    CacheBusy,
    CacheDamaged,
    CacheFull,
    InvalidRequest,
    LockedError,
    Verdict,
)
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import (
    AccountFolder,
    check_folder,
    create_folder,
    find_problem,
    folder_errors,
    location_warnings,
)
from mcp_notarium.files.locks import ServerLock, busy_error, key_lock
from mcp_notarium.files.private_files import StepHook, disk_errors, ignore_step
from mcp_notarium.keys import key_file
from mcp_notarium.keys.credentials import FoundKey
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.storage.database import Database, companions

__all__ = [
    "OpenedCache",
    "damage_error",
    "open_cache",
    "quarantine_account",
]

_Value = TypeVar("_Value")

_UNUSABLE = "the cache folder cannot be used"


def open_cache(
    settings: Config,
    *,
    kdf: Parameters | None = None,
    bounds: Bounds = PRODUCTION,
    refetchable: bool = True,
    guarded: bool = False,
    whole: bool = False,
    read_only: bool = False,
    system: Keychain | None = None,
    unlock: Unlock = key_slots.unlock,
    clock: Callable[[], float] = time.time,
    at: StepHook = ignore_step,
) -> OpenedCache:
    """Open or create the account's cache. Raises ``LockedError`` or ``CacheFull``; deletes nothing.

    ``kdf`` replaces the settings' parameters of a new slot. ``refetchable`` False: the cache is the only
    place the notes are kept and is never rebuilt. ``guarded``: everything that records an intent calls
    ``pending_marker.withdraw`` first, so the marker may stand while the cache is open; otherwise it is
    withdrawn now. ``whole``: every page is checked, as after damage was met. Damage that is found so, or
    met later, marks the folder for the next start. ``read_only``: no other file of the folder is changed,
    and a cache that a start would have to change first is refused. ``unlock`` replaces
    ``key_slots.unlock``.
    """
    inspector = Inspector(
        settings,
        bounds=bounds,
        refetchable=refetchable,
        system=system,
        whole=whole,
        read_only=read_only,
        unlock=unlock,
    )
    opener = _Opener(
        settings=settings,
        inspector=inspector,
        parameters=kdf or creation.parameters(settings),
        bounds=bounds,
        guarded=guarded,
        clock=clock,
        at=at,
    )
    with folder_errors(AccountFolder(settings.account_dir)):
        try:
            if read_only:
                return opener.as_it_is(read_only=True) or opener.seen_again()
            return opener.as_it_is() or opener.under_lock()
        except CacheDamaged as error:
            markers.mark_damage(AccountFolder(settings.account_dir))
            raise damage_error(settings) from error
        except LockedError as error:
            if whole and error.verdict is Verdict.DATABASE_DAMAGED:
                markers.mark_damage(
                    AccountFolder(settings.account_dir)
                )  # a start would not look so far
            raise


def damage_error(settings: Config) -> LockedError:
    """Return the error for a cache that turns out to be damaged while it is open, or nearly so."""
    return locked_error(
        startup_decisions.decide_on_damage(
            plain=not settings.db_encryption, on_unreadable=OnUnreadable(settings.on_unreadable)
        )
    )


def quarantine_account(settings: Config, *, clock: Callable[[], float] = time.time) -> Path | None:
    """Move the account's cache and key file to the quarantine, readable or not.

    Returns the folder they went to, None if there was nothing. Raises ``LockedError`` (UNSAFE_PATH,
    or BUSY while anybody has the cache open) with nothing moved, and ``Unfinished``.
    """
    folder = check_folder(settings.account_dir)
    if not folder.path.is_dir():
        return None
    with disk_errors(_UNUSABLE), key_lock(folder):
        server_lock = ServerLock(folder)
        try:
            server_lock.exclude()
            return quarantine.set_everything_aside(folder, now=clock())
        finally:
            server_lock.release()


@dataclass(frozen=True, slots=True)
class _Opener:
    """Run one call of :func:`open_cache`: its arguments and its steps."""

    settings: Config
    inspector: Inspector
    parameters: Parameters
    bounds: Bounds
    guarded: bool
    clock: Callable[[], float]
    at: StepHook

    def as_it_is(self, *, read_only: bool = False, at_rest: bool = False) -> OpenedCache | None:
        """Open a cache that is in order; None if something has to be done first.

        ``read_only``: an interrupted change stays for the next start. ``at_rest``: no process is changing
        the folder.
        """
        if markers.is_damage_marked(AccountFolder(self.settings.account_dir)) and not read_only:
            return None  # every page is to be checked once, and the marker removed
        server_lock = self._share_lock()
        inspection: Inspection | None = None
        try:
            inspection = self.inspector.inspect(now=self.clock())
            decision = startup_table.decide(inspection.seen)
            # Without the lock: another process has made the folder since we looked for it.
            rests = isinstance(decision, Open) and (read_only or not decision.finish_key_files)
            if isinstance(decision, Open) and rests and server_lock is not None:
                return self._finished(inspection, server_lock, decision.notices)
        except BaseException:
            _let_go(inspection, server_lock)
            raise
        _let_go(inspection, server_lock)
        if isinstance(decision, Locked) and (at_rest or not self._may_be_in_motion()):
            raise locked_error(decision)
        return None

    def seen_again(self) -> OpenedCache:
        """Inspect once more, while no process changes the folder."""
        folder = check_folder(self.settings.account_dir)
        with key_lock(folder) if os.access(folder.path, os.W_OK) else nullcontext():
            opened = self.as_it_is(read_only=True, at_rest=True)
        if opened is None:
            raise InvalidRequest(
                "a start of the server has to bring this cache in order first",
                resolution_hint="Start the server once (`mcp-notarium serve`), then try again.",
            )
        return opened

    def _may_be_in_motion(self) -> bool:
        """Check whether what was seen may have been half of another process's change.

        An inspection reads one file after the other, and whoever changes them holds the key lock. So
        nothing in the folder is refused on an inspection that was not under the lock.
        """
        folder = AccountFolder(self.settings.account_dir)
        return folder.path.is_dir() and find_problem(folder) is None

    def under_lock(self) -> OpenedCache:
        """Decide again under the key lock, and do it."""
        folder = check_folder(self.settings.account_dir)
        create_folder(folder)
        with key_lock(folder):
            server_lock = ServerLock(folder)
            inspection: Inspection | None = None
            try:
                server_lock.share()
                inspection = self.inspector.inspect(now=self.clock())
                opened = self._done(inspection, server_lock, startup_table.decide(inspection.seen))
            except BaseException:
                _let_go(inspection, server_lock)
                raise
            if not opened.database.closed:
                markers.clear_damage_marker(folder)
            return opened

    def _done(
        self, inspection: Inspection, server_lock: ServerLock, decision: Decision
    ) -> OpenedCache:
        match decision:
            case Open(notices):
                return self._finished(inspection, server_lock, (*notices, *self._rest(inspection)))
            case Create(notices):
                return self._made(inspection, server_lock, notices)
            case Migrate():
                return self._migrated(inspection, server_lock, decision)
            case Rebuild(_, reason):
                return self._rebuilt(inspection, server_lock, reason)
            case Locked():
                raise locked_error(decision)

    def _share_lock(self) -> ServerLock | None:
        """Take the server lock shared, if there is a folder that may be trusted."""
        folder = AccountFolder(self.settings.account_dir)
        if not folder.path.is_dir() or find_problem(folder) is not None:
            return None
        return ServerLock(check_folder(self.settings.account_dir)).share()

    def _rest(self, inspection: Inspection) -> tuple[str, ...]:
        """Finish an interrupted change; a failing disk is no reason to refuse."""
        if inspection.files is None or inspection.seen.plain:
            return ()
        try:
            key_file.finish_interrupted_change(
                inspection.folder, inspection.files, now=self.clock()
            )
            self._set_half_done_aside(inspection)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            return (f"The key file and its copy could not be brought in line ({reason}).",)
        return ()

    def _set_half_done_aside(self, inspection: Inspection) -> None:
        """Quarantine a prepared key file that never was in force, and the empty database made for it."""
        half_done = [inspection.folder.prepared_key_file]
        unfinished = inspection.files.prepared.keyfile if inspection.files is not None else None
        counts = inspection.keyfile.generation if inspection.keyfile is not None else None
        if unfinished is not None and unfinished.generation != counts:
            half_done = [*companions(inspection.folder.database(unfinished.generation)), *half_done]
        quarantine.set_aside(inspection.folder, half_done, now=self.clock())

    def _finished(
        self, inspection: Inspection, server_lock: ServerLock | None, notices: tuple[str, ...]
    ) -> OpenedCache:
        made = NewCache(_present(inspection.database), inspection.keyfile, inspection.data_key)
        if made.keyfile is not None:
            record_key_sequence(made.database, made.keyfile)
        return self._opened(inspection, made, server_lock, notices, created=False)

    def _made(
        self,
        inspection: Inspection,
        server_lock: ServerLock,
        notices: tuple[str, ...],
        *,
        instead: bool = False,
    ) -> OpenedCache:
        folder, now = inspection.folder, self.clock()
        if inspection.files is not None:
            key_file.remove_strays(inspection.files)
        if inspection.seen.plain:
            if instead:
                quarantine.set_aside(folder, quarantine.list_files(folder), now=now)
            made = creation.make_plain(folder, self.settings, now=now, at=self.at)
        else:
            # The only prepared key file there may be is the one that is made now.
            self._set_half_done_aside(inspection)
            made = creation.make_encrypted(
                folder,
                self.settings,
                _present(inspection.key).passphrase,
                parameters=self.parameters,
                now=now,
                bounds=self.bounds,
                make_room=self._room(folder, now) if instead else _no_room,
                at=self.at,
            )
        return self._opened(inspection, made, server_lock, notices, created=True)

    def _room(self, folder: AccountFolder, now: float) -> Callable[[KeyFile], None]:
        def make_room(made: KeyFile) -> None:
            kept = {*companions(folder.database(made.generation)), folder.prepared_key_file}
            quarantine.set_aside(folder, quarantine.list_files(folder, but=kept), now=now)

        return make_room

    def _rebuilt(self, inspection: Inspection, server_lock: ServerLock, reason: str) -> OpenedCache:
        inspection.close()
        server_lock.exclude()
        notice = f"A new cache was made, the old files are in `quarantine/`: {reason.rstrip('.')}."
        opened = self._made(inspection, server_lock, (notice,), instead=True)
        server_lock.share()
        return replace(opened, rebuilt=True)

    def _migrated(
        self, inspection: Inspection, server_lock: ServerLock, decision: Migrate
    ) -> OpenedCache:
        path = _present(inspection.database).path
        inspection.close()
        server_lock.exclude()
        unrested = self._rest(inspection)
        schema_migration.migrate(
            inspection.folder, path, inspection.data_key, inspection.keyfile, now=self.clock()
        )
        server_lock.share()
        again = self.inspector.inspect(now=self.clock())
        after = startup_table.decide(again.seen)
        if not isinstance(after, Open):
            again.close()
            raise (
                locked_error(after)
                if isinstance(after, Locked)
                else busy_error("the cache is changing")
            )
        said = f"The database was brought from schema {decision.version} to {decision.program}."
        return self._finished(again, server_lock, (said, *decision.notices, *unrested))

    def _opened(
        self,
        inspection: Inspection,
        made: NewCache,
        server_lock: ServerLock | None,
        notices: tuple[str, ...],
        *,
        created: bool,
    ) -> OpenedCache:
        folder = inspection.folder
        generation = made.keyfile.generation if made.keyfile is not None else ""
        pending_marker = PendingMarker(folder, generation)
        if not self.guarded:
            pending_marker.withdraw()
        elif not pending_marker.stands():
            pending_marker.renew(made.database)
        made.database.on_damage(lambda: markers.mark_damage(folder))
        return OpenedCache(
            database=made.database,
            data_key=made.data_key,
            generation=generation,
            created=created,
            notices=(*notices, *_key_notice(inspection.key), *location_warnings(folder.path)),
            pending_marker=pending_marker,
            server_lock=_present(server_lock),
            anchor=Anchor(folder, generation, audit_keys(made.data_key).anchor),
        )


def locked_error(locked: Locked) -> LockedError:
    """Turn the decision into an error."""
    return LockedError(
        locked.verdict, locked.message, resolution_hint=locked.hint, agent_hint=locked.one
    )


def record_key_sequence(database: Database, keyfile: KeyFile) -> None:
    """Store the newest key-file number seen, so that an older file put back is noticed."""
    with suppress(CacheBusy, CacheFull), database.transaction(durable=True):
        database.run(
            "UPDATE sync_metadata SET value = ? "
            "WHERE key = 'key_sequence' AND CAST(value AS INTEGER) < ?",
            (str(keyfile.sequence), keyfile.sequence),
        )


def _key_notice(key: FoundKey | None) -> tuple[str, ...]:
    """Return the notice about a key of the working folder. A ``.env`` may lower the log level, too."""
    if key is None or not key.from_working_folder:
        return ()
    return (f"The key of the cache is taken from {key.origin}, which lies in the working folder.",)


def _let_go(inspection: Inspection | None, server_lock: ServerLock | None) -> None:
    if inspection is not None:
        inspection.close()
    if server_lock is not None:
        server_lock.release()


def _no_room(_made: KeyFile) -> None:
    """Do nothing: a first cache needs no room."""


def _present(value: _Value | None) -> _Value:
    """Return a value that the decision has made sure of."""
    if value is None:
        raise AssertionError("decided without having seen it")
    return value
