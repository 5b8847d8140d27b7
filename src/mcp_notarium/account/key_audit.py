"""Record changes of keys in the audit log: which slots, never what opens them."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any, Final

from mcp_notarium import __version__
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.inspection import Inspection
from mcp_notarium.audit.chain import Entry, Facts
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.key_slots import KeyFile, Slot
from mcp_notarium.errors import CacheBusy, CacheError, CacheFull, LockedError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.storage import database
from mcp_notarium.storage.audit_table import AuditTable

CLIENT: Final = f"mcp-notarium {__version__} (command line)"


def record_change(
    inspection: Inspection, before: KeyFile | None, *, at: float, act: str = "keys.changed"
) -> None:
    """Record how the key file in force differs from ``before``.

    The change is in force by now, so a full disk or a busy database does not undo it: the number of the
    key file in the next record shows the gap.
    """
    if inspection.database is None or inspection.keyfile is None:
        return
    table = AuditTable(inspection.database, audit_keys(inspection.data_key).seal)
    entry = Entry(at=at, act=act, client=CLIENT, facts=differences(before, inspection.keyfile))
    with suppress(CacheBusy, CacheFull):
        table.append([entry], durable=True)


def differences(before: KeyFile | None, after: KeyFile) -> Facts:
    """List what changed between two key files: slots by number, type and state."""
    old = {slot.id: slot for slot in before.slots} if before is not None else {}
    new = {slot.id: slot for slot in after.slots}
    facts: dict[str, Any] = {"sequence": after.sequence}
    parts = {
        "added": [_named(slot) for number, slot in new.items() if number not in old],
        "removed": [_named(slot) for number, slot in old.items() if number not in new],
        "changed": [
            _named(slot) for number, slot in new.items() if number in old and old[number] != slot
        ],
    }
    return facts | {name: slots for name, slots in parts.items() if slots}


def _named(slot: Slot) -> str:
    return f"{slot.id} {slot.type.value} {slot.state.value}"


def record_restored(
    folder: AccountFolder, restored: KeyFile, data_key: DataKey, *, at: float
) -> None:
    """Record that an older copy of the key file is in force; it is so, whether this succeeds or not."""
    path = folder.database(restored.generation)
    facts = {"sequence": restored.sequence, "slots": [_named(slot) for slot in restored.slots]}
    with (
        suppress(CacheError, LockedError),
        closing(database.connect(path, data_key.database_key(restored.database_salt))) as opened,
    ):
        table = AuditTable(opened, audit_keys(data_key).seal)
        entry = Entry(at=at, act="keys.restored", client=CLIENT, facts=facts)
        table.append([entry], durable=True)
