"""Put a copy of the database in the place of the active one. The key must be right.

A new generation gets the state of the copy, the notes among it; the next start makes the index again. The old
files go to the quarantine with their key file, byte for byte, and the copies stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from mcp_notarium.account import generation_writer, repair, startup_table
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.database_copies import (
    DatabaseCopy,
    list_copies,
    read_salt,
    require_authentic,
)
from mcp_notarium.account.inspection import Inspection
from mcp_notarium.account.key_changes import (
    DEFAULTS,
    ChangeOptions,
    find_account,
    missing_cache_error,
)
from mcp_notarium.account.repair import RepairResult
from mcp_notarium.account.startup_outcomes import Locked
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_slots
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.errors import CacheDamaged, CacheError, InvalidRequest, Verdict
from mcp_notarium.keys import key_file_store
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_table import AuditTable, carry_over
from mcp_notarium.storage.database_opener import Database
from mcp_notarium.storage.table_copy import OnProgress

_NOT_RESTORED = "the copy cannot be restored"
_COPY_SPACE = 1.5
_REPLACEABLE = {Verdict.DATABASE_DAMAGED, Verdict.DATABASE_MISSING}


@dataclass(frozen=True, slots=True)
class Restored:
    """Hold which copy was restored, those that were damaged, and how it ended."""

    copy: DatabaseCopy
    unsound: tuple[DatabaseCopy, ...]
    result: RepairResult


def restore(
    settings: Config,
    *,
    name: str | None = None,
    options: ChangeOptions = DEFAULTS,
    on_progress: OnProgress = lambda _done, _of: None,
) -> Restored:
    """Restore the copy of this file name, or (None) the newest undamaged one.

    Raises ``InvalidRequest`` if there is no such copy, ``CacheDamaged`` if all are damaged, ``CacheFull`` and
    ``LockedError``, with everything as it was. Once the copy is active, what fails is in ``result.state``.
    """
    folder = find_account(settings)
    with generation_writer.hold_alone(
        settings, folder, options, on_progress, _NOT_RESTORED
    ) as writer:
        inspection = options.inspector(settings).inspect(now=options.clock(), opens=False)
        _require_replaceable(inspection)
        if inspection.seen.plain:
            raise InvalidRequest(
                "nothing was restored: copies are made of encrypted notebooks only",
                resolution_hint="Run `mcp-notarium export PATH` now and then to have your notes elsewhere, too.",
            )
        if inspection.keyfile is None or inspection.data_key is None or inspection.files is None:
            raise missing_cache_error()
        keyfile, data_key = inspection.keyfile, inspection.data_key
        found = [one for one in list_copies(folder) if name in (None, one.path.name)]
        if not found:
            raise InvalidRequest(
                "there is no such copy" if name else "there is no copy of the notebook",
                resolution_hint="`mcp-notarium restore --list` lists the copies.",
            )
        copy, unsound = _choose(found, data_key)
        writer.require_free(int(copy.path.stat().st_size * _COPY_SPACE))
        key_file_store.finish_interrupted_change(folder, inspection.files, now=options.clock())
        writer.quarantine_unknown(keyfile)
        new_keyfile = key_slots.next_generation(keyfile, data_key)
        salvaged = repair.write_salvaged(
            writer,
            new_keyfile,
            data_key,
            opens=partial(_open_copy, copy, data_key),
            carry_audit=partial(_carry_audit_of_copy, data_key, options.clock()),
            whole_state=True,
            least=int(options.clock()),
        )
        return Restored(copy, unsound, repair.switch(writer, keyfile, new_keyfile, salvaged))


def _choose(
    found: list[DatabaseCopy], data_key: DataKey
) -> tuple[DatabaseCopy, tuple[DatabaseCopy, ...]]:
    """Return the first copy whose every page is authentic, and those before it."""
    for number, copy in enumerate(found):
        try:
            require_authentic(copy.path, data_key)
        except (CacheError, OSError):
            continue
        return copy, tuple(found[:number])
    raise CacheDamaged(
        "no copy can be read with this key",
        resolution_hint="A copy is opened by the key file that was active when it was made: "
        "`mcp-notarium restore --key-file PATH` puts an older one back.",
    )


def _open_copy(copy: DatabaseCopy, data_key: DataKey) -> Database:
    """Open a copy without changing it."""
    key = data_key.database_key(read_salt(copy.path))
    return database_opener.connect(copy.path, key, read_only=True)


def _carry_audit_of_copy(data_key: DataKey, at: float, copy: Database, target: Database) -> bool:
    """Carry the chain of the copy. What came after it is in the quarantine, so no anchor is asked."""
    chain = audit_keys(data_key).chain_mac
    return carry_over(
        AuditTable(copy, chain),
        AuditTable(target, chain),
        at=at,
        why="restored",
        anchored=None,
        wrong=[],
        rescuing=True,
    )


def _require_replaceable(inspection: Inspection) -> None:
    """Check that the key is right. Raises start-up's refusal, unless it is about the database itself."""
    decision = startup_table.decide(replace(inspection.seen, on_unreadable="refuse"))
    if isinstance(decision, Locked) and decision.verdict not in _REPLACEABLE:
        raise decision.error()
