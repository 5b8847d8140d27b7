"""Open the cache of one account: inspect, decide by the table, do what was decided.

``account/startup_table`` alone decides. A cache that is in order is opened without any exclusive lock.
Everything that changes files is decided a second time under the key lock, because clients often start a
server twice. A process with the database open holds the server lock shared, so that nobody moves the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from mcp_notarium.account import generation, startup_outcomes, startup_table
from mcp_notarium.account.audit_anchor import Anchor, audit_keys
from mcp_notarium.account.generation import NewCache, OpenedCache, record_key_sequence
from mcp_notarium.account.inspection import (
    Inspection,
    Inspector,
    is_damage_marked,
    mark_damage,
    unmark_damage,
)
from mcp_notarium.account.startup_outcomes import Create, Decision, Locked, Open, Rebuild
from mcp_notarium.config import Config
from mcp_notarium.crypto.kdf import Parameters
from mcp_notarium.errors import CacheDamaged, InvalidRequest, LockedError, Verdict
from mcp_notarium.files import os_errors, quarantine
from mcp_notarium.files.account_folder import (
    AccountFolder,
    check_folder,
    create_folder,
    find_problem,
    folder_errors,
    location_warnings,
)
from mcp_notarium.files.locks import ServerLock, describe_holders, hold_lock, key_lock
from mcp_notarium.files.private_files import StepHook, ignore_step
from mcp_notarium.keys import key_file_store
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.keys.secret_places import FoundKey
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.database_opener import companions
from mcp_notarium.stores.kind import Truth

_Value = TypeVar("_Value")

_INTERRUPTED = "an earlier start or reset was interrupted"


@dataclass(frozen=True, slots=True)
class StartupActions:
    """Do what was decided for one call of :func:`opener.open_cache`, with its arguments."""

    settings: Config
    inspector: Inspector
    parameters: Parameters
    clock: Callable[[], float]
    at: StepHook

    def carry_out(
        self, inspection: Inspection, server_lock: ServerLock, decision: Decision
    ) -> OpenedCache:
        """Do what was decided. Call it under the key lock. Raises ``LockedError`` for a refusal."""
        match decision:
            case Open(notices):
                notices = (*notices, *self._finish_key_files(inspection))
                return self.use(inspection, server_lock, notices)
            case Create(notices):
                if any(path.exists() for path in quarantine.list_files(inspection.folder)):
                    return self._rebuild(inspection, server_lock, _INTERRUPTED, notices)
                return self._create(inspection, server_lock, notices)
            case Rebuild(reason):
                return self._rebuild(inspection, server_lock, reason)
            case Locked():
                raise decision.error()

    def use(
        self, inspection: Inspection, server_lock: ServerLock, notices: tuple[str, ...]
    ) -> OpenedCache:
        """Return the cache that the inspection has opened."""
        found = NewCache(_require(inspection.database), inspection.keyfile, inspection.data_key)
        if found.keyfile is not None:
            record_key_sequence(found.database, found.keyfile)  # defence: database-knows-key-file
        return self._make_opened(inspection, found, server_lock, notices, created=False)

    def _finish_key_files(self, inspection: Inspection) -> tuple[str, ...]:
        """Finish an interrupted change; a failing disk is no reason to refuse."""
        if inspection.files is None or inspection.seen.plain:
            return ()
        try:
            key_file_store.finish_interrupted_change(
                inspection.folder, inspection.files, now=self.clock()
            )
            self._quarantine_unfinished(inspection)
        except OSError as error:
            reason = os_errors.describe(error)
            return (f"The key file and its copy could not be brought in line ({reason}).",)
        return ()

    def _quarantine_unfinished(self, inspection: Inspection) -> None:
        """Quarantine a prepared key file that was never active, and the empty database made for it."""
        unfinished_files = [inspection.folder.prepared_key_file]
        unfinished = inspection.files.prepared.keyfile if inspection.files is not None else None
        in_force = inspection.keyfile.generation if inspection.keyfile is not None else None
        if unfinished is not None and unfinished.generation != in_force:
            unfinished_files = [
                *companions(inspection.folder.database(unfinished.generation)),
                *unfinished_files,
            ]
        quarantine.move(inspection.folder, unfinished_files, now=self.clock())

    def _create(
        self,
        inspection: Inspection,
        server_lock: ServerLock,
        notices: tuple[str, ...],
        *,
        instead: bool = False,
    ) -> OpenedCache:
        """Create a cache; ``instead``: of what is there, which goes to the quarantine."""
        folder, now = inspection.folder, self.clock()
        used = quarantine.find_last_use(folder)
        # No readable file has the earlier numbers, but they are smaller than this.
        floor = int(max(now, used or 0)) if instead or used is not None else 0

        def move_old(kept: Collection[Path] = ()) -> None:
            if instead:
                quarantine.move(folder, quarantine.list_files(folder, but=kept), now=now)

        if inspection.files is not None:
            key_file_store.remove_temporary(inspection.files)
        if inspection.seen.plain:
            move_old()
            unfinished = companions(folder.unfinished_plain_database)
            quarantine.move(folder, unfinished, now=now)
            new_cache = generation.create_plain(
                folder, self.settings, now=now, version_floor=floor, at=self.at
            )
        else:
            # The only prepared key file there may be is the one that is made now.
            self._quarantine_unfinished(inspection)
            new_cache = generation.create_encrypted(
                folder,
                self.settings,
                _require(inspection.key).passphrase,
                parameters=self.parameters,
                now=now,
                version_floor=floor,
                before_commit=move_old,
                at=self.at,
            )
        return self._make_opened(inspection, new_cache, server_lock, notices, created=True)

    def _rebuild(
        self,
        inspection: Inspection,
        server_lock: ServerLock,
        reason: str,
        notices: tuple[str, ...] = (),
    ) -> OpenedCache:
        inspection.close()
        server_lock.exclude()
        notice = (
            "A new cache was made, the old files are in `quarantine/` (writes that never reached the note "
            f"store may be in them): {reason.rstrip('.')}."
        )
        opened = self._create(inspection, server_lock, (notice, *notices), instead=True)
        server_lock.share()
        return replace(opened, rebuilt=True)

    def _make_opened(
        self,
        inspection: Inspection,
        new_cache: NewCache,
        server_lock: ServerLock,
        notices: tuple[str, ...],
        *,
        created: bool,
    ) -> OpenedCache:
        folder = inspection.folder
        name = new_cache.keyfile.generation if new_cache.keyfile is not None else ""
        new_cache.database.on_damage(lambda: mark_damage(folder))
        return OpenedCache(
            database=new_cache.database,
            data_key=new_cache.data_key,
            created=created,
            notices=(*notices, *_key_notice(inspection.key), *location_warnings(folder.path)),
            server_lock=server_lock,
            anchor=Anchor(folder, name, audit_keys(new_cache.data_key).anchor),
            had_log=inspection.seen.files.wal and not created,
        )


def _key_notice(key: FoundKey | None) -> tuple[str, ...]:
    """Return the notice about a key of the working folder. A ``.env`` may lower the log level, too."""
    if key is None or not key.from_working_folder:
        return ()
    return (f"The key of the cache is taken from {key.origin}, which lies in the working folder.",)


def _require(value: _Value | None) -> _Value:
    """Return a value that the decision guarantees."""
    if value is None:
        raise AssertionError("decided without having seen it")
    return value


def open_cache(
    settings: Config,
    *,
    kdf: Parameters | None = None,
    whole: bool = False,
    read_only: bool = False,
    heal: bool = False,
    system: Keychain | None = None,
    clock: Callable[[], float] = time.time,
    at: StepHook = ignore_step,
) -> OpenedCache:
    """Open or create the account's cache. Raises ``LockedError`` or ``CacheFull``; deletes nothing.

    * ``kdf`` replaces the settings' parameters of a new slot;
    * ``whole``: check every page, as after damage. Damage that is found so, or met later, marks the folder for the next start;
    * ``read_only``: change no other file of the folder; refuse a cache that a start would have to change first;
    * ``heal``: repair a damaged cache (``repair``) if that loses nothing.
    """
    folder = AccountFolder(settings.account_dir)
    actions = StartupActions(
        settings=settings,
        inspector=Inspector(settings, keychain=system, whole=whole, read_only=read_only),
        parameters=kdf or generation.kdf_policy(settings).parameters_for(),
        clock=clock,
        at=at,
    )
    with folder_errors(folder):
        try:
            if read_only:
                return _open_read_only(actions)
            return _open_and_heal(actions) if heal else _open(actions)
        except CacheDamaged as error:
            mark_damage(folder)
            raise damage_error(settings) from error
        except LockedError as error:
            if whole and error.verdict is Verdict.DATABASE_DAMAGED:
                mark_damage(folder)  # a start would not look so far
            raise


def _open(actions: StartupActions) -> OpenedCache:
    return _open_in_order(actions) or _open_under_lock(actions)


def _open_and_heal(actions: StartupActions) -> OpenedCache:
    """Open; if the database is damaged, repair it and open it again. What cannot be repaired is decided as always."""
    careful = replace(actions.settings, on_unreadable="refuse")
    inspector = replace(actions.inspector, settings=careful)
    try:
        return _open(replace(actions, settings=careful, inspector=inspector))
    except CacheDamaged:
        pass
    except LockedError as error:
        if error.verdict is not Verdict.DATABASE_DAMAGED:
            if actions.settings.on_unreadable == "refuse":
                raise
            return _open(actions)
    from mcp_notarium.account import repair  # noqa: PLC0415 - rarely needed

    notice = repair.heal(actions)
    opened = _open(actions)
    return replace(opened, notices=(notice, *opened.notices)) if notice else opened


def damage_error(settings: Config) -> LockedError:
    """Return the error for a cache that turns out to be damaged while it is open, or nearly so."""
    return startup_outcomes.decide_on_damage(
        plain=not settings.db_encryption,
        on_unreadable=settings.on_unreadable,
        only_copy=settings.store.truth is Truth.LOCAL,
    ).error()


def _open_in_order(
    actions: StartupActions, *, read_only: bool = False, locked: bool = False
) -> OpenedCache | None:
    """Open a cache that is in order; None if something has to be done first.

    ``read_only``: an interrupted change stays for the next start. ``locked``: no process is changing
    the folder.
    """
    folder = AccountFolder(actions.settings.account_dir)
    if is_damage_marked(folder) and not read_only:
        return None  # every page is to be checked once, and the marker removed
    with ExitStack() as undo:
        server_lock: ServerLock | None = None
        if _is_trusted(folder):
            server_lock = ServerLock(check_folder(folder.path)).share()
            undo.callback(server_lock.release)
        inspection = actions.inspector.inspect(now=actions.clock())
        undo.callback(inspection.close)
        decision = startup_table.decide(inspection.seen)
        ready = isinstance(decision, Open) and (read_only or not decision.finish_key_files)
        # Without the lock: another process has made the folder since we looked for it.
        if isinstance(decision, Open) and ready and server_lock is not None:
            opened = actions.use(inspection, server_lock, decision.notices)
            undo.pop_all()
            return opened
    # An inspection reads one file after the other, and who changes them holds the key lock. So
    # nothing in a folder that may be trusted is refused on an inspection that was not under the lock.
    if isinstance(decision, Locked) and (locked or not _is_trusted(folder)):
        raise decision.error()
    return None


def _open_read_only(actions: StartupActions) -> OpenedCache:
    """Open a cache that is in order. What looks wrong is inspected again while no process changes it."""
    if (opened := _open_in_order(actions, read_only=True)) is not None:
        return opened
    folder = check_folder(actions.settings.account_dir)
    with key_lock(folder) if os.access(folder.path, os.W_OK) else nullcontext():
        opened = _open_in_order(actions, read_only=True, locked=True)
    if opened is None:
        raise InvalidRequest(
            "a start of the server has to bring this cache in order first",
            resolution_hint="Start the server once (`mcp-notarium serve`), then try again.",
        )
    return opened


def _open_under_lock(actions: StartupActions) -> OpenedCache:
    """Decide again under the key lock, and do it."""
    folder = check_folder(actions.settings.account_dir)
    create_folder(folder)
    with key_lock(folder), ExitStack() as undo:
        server_lock = ServerLock(folder).share()
        undo.callback(server_lock.release)
        inspection = actions.inspector.inspect(now=actions.clock())
        undo.callback(inspection.close)
        decision = startup_table.decide(inspection.seen)
        opened = actions.carry_out(inspection, server_lock, decision)
        undo.pop_all()
        if not opened.database.closed:
            unmark_damage(folder)
        return opened


def _is_trusted(folder: AccountFolder) -> bool:
    return folder.path.is_dir() and find_problem(folder) is None


def open_with_policy(
    config: Config,
    *,
    whole: bool = False,
    heal: bool = False,
    clock: Callable[[], float] = time.time,
) -> OpenedCache:
    """Open as :func:`open_cache`, under the present policy of what agents may see.

    Visibility is computed again first if the policy has changed. That needs the cache alone: ``LockedError`` (BUSY) if
    another process has it open. An unchanged policy costs one row.
    """
    with ExitStack() as undo:
        first = open_cache(config, whole=whole, heal=heal, clock=clock)
        undo.callback(first.close)
        if _matches_policy(first, config):
            undo.pop_all()
            return first
    # Two servers are often started at once: the one that waits must not hold the lock of the other.
    folder = check_folder(config.account_dir)
    with (
        folder_errors(folder),
        hold_lock(folder.policy_lock, lambda: _other_rules_error(folder)),
        ExitStack() as undo,
    ):
        opened = open_cache(config, clock=clock)
        undo.callback(opened.close)
        if not _matches_policy(opened, config):
            _apply_policy(opened, folder, config)
        undo.pop_all()
    return replace(
        opened,
        created=opened.created or first.created,
        rebuilt=opened.rebuilt or first.rebuilt,
        notices=tuple(dict.fromkeys((*first.notices, *opened.notices))),
    )


def _matches_policy(opened: OpenedCache, config: Config) -> bool:
    return Cache(opened.database, config.policy.visibility.stored).notes.visibility.matches_index


def _apply_policy(opened: OpenedCache, folder: AccountFolder, config: Config) -> None:
    with key_lock(folder):
        try:
            opened.server_lock.exclude()
        except LockedError as error:
            if error.verdict is not Verdict.BUSY:
                raise
            raise _other_rules_error(folder) from None
        try:
            apply_rules(Cache(opened.database, config.policy.visibility.stored))
        except CacheDamaged as error:
            raise damage_error(config) from error
        finally:
            opened.server_lock.share()


def _other_rules_error(folder: AccountFolder) -> LockedError:
    return LockedError(
        Verdict.BUSY,
        "another MCP Notarium server works with this cache under other rules of what agents may see"
        + describe_holders(folder.server_lock),
        resolution_hint="If the policy file was changed, close all MCP clients that use this account "
        "and start them again. Clients with rules of their own need a cache of their own: give them "
        "another NOTARIUM_DATA_DIR.",
        agent_hint="Ask the user to close all MCP clients that use this account and to start them "
        "again.",
    )
