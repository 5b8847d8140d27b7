"""Find out whether an open database lacks what the anchor says that the disk had, and say what is missing.

An older database put back, and a log that lost its end, leave an older state, which can be read; its saves wait
for a person. A main file and a log of two times make a mixture, which is not opened at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from mcp_notarium.account.audit_anchor import (
    LOOK,
    Anchor,
    Anchored,
    AnchorUnusable,
    audit_keys,
    continues,
)
from mcp_notarium.audit.chain import ActName, AuditEntry, ChainMac, Head
from mcp_notarium.audit.verification import Fault, FaultKind
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.errors import CacheError, LockedError, RollbackSeen, Verdict
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.storage import checkpoints, database_opener
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.audit_table import AuditTable
from mcp_notarium.storage.database import Database

OLDER_THAN_LOG = "The database file was replaced by an older one beside its newer log"
_OLDER = "an older copy of the database was put back, or its newest writes are lost"
_MIXED = "pages of an older database are among those of the newest"
_SEE_STATUS = (
    "Ask the user to run `mcp-notarium status`: it says what is missing, and the ways out."
)


@dataclass(frozen=True, slots=True)
class Rollback:
    """Hold what is missing, in ``words`` that begin a sentence.

    ``missing``: so many records after number ``upto``; 0 if nobody can count them. ``mixed``: the database is
    a mixture of two states. ``outcomes``: nothing is missing but outcomes of changes that are there. ``copy``:
    the name of a copy with newer notes, '' if there is none. ``fetched``: the notes are at a store, too.
    """

    words: str
    anchor: Anchored
    missing: int = 0
    upto: int = 0
    mixed: bool = False
    harmless: bool = False
    copy: str = ""
    fetched: bool = True

    @property
    def notice(self) -> str:
        """Return the notice of a start; ``audit_anchor.find_chain_notice`` knows it by its end."""
        if self.harmless:
            return f"{self.words}. No change is among them. {LOOK}"
        return f"{self.words}. {self.ways_out} {LOOK}"

    @property
    def ways_out(self) -> str:
        """Return the commands that end this state."""
        accept = "`mcp-notarium audit accept` goes on with what is there"
        if self.copy:
            return f"`mcp-notarium restore {self.copy}` puts back a copy that has newer notes; {accept}."
        if not self.fetched:
            return f"`mcp-notarium restore --list` lists the copies; {accept}."
        if self.mixed:
            return f"{accept}; then `mcp-notarium reset-cache` loads all notes again."
        return f"{accept}."

    def refusal(self) -> RollbackSeen:
        """Return the error for a change."""
        return RollbackSeen(
            f"{self.words}; so nothing was changed",
            details={"missing_records": self.missing} if self.missing else None,
            resolution_hint=_SEE_STATUS,
        )

    def locked(self) -> LockedError:
        """Return the error for whoever opens or uses a mixture, and for ``status``."""
        return LockedError(
            Verdict.ROLLBACK_SEEN,
            self.words,
            resolution_hint=self.ways_out,
            agent_hint=_SEE_STATUS,
            details={"missing_records": self.missing} if self.missing else None,
        )

    def fault(self) -> Fault | None:
        """Return the fault for ``audit verify``; None if comparing chain and anchor tells it."""
        if not self.mixed:
            return None
        return Fault(FaultKind.REPLACED, self.upto, f"{self.words}. {self.ways_out}")


def find(
    anchor: Anchor,
    table: AuditTable,
    database: Database,
    *,
    had_log: bool,
    fetched: bool = True,
    newer_copy: Callable[[], str] = lambda: "",
) -> Rollback | None:
    """Compare an open database with its anchor; None if nothing is missing.

    ``had_log``: a log lay beside the main file when it was opened; alone the file is one state. Raises
    ``CacheError``, and ``AnchorUnusable`` if the anchor cannot tell.
    """
    before = anchor.read(database)
    if before is None:
        return None
    # Each after what it is compared with: another server may be writing all of them.
    main, mixture = (None, "")
    if had_log:
        main, mixture = _read_main(database.open_without_log, table.chain_mac, before)
    whole = checkpoints.read_number(database)
    now, _ = table.end()
    missing, upto = before.head.count - now.count, now.count
    if not mixture:
        mixture = _describe_mixture(before, main, whole, table)
        if mixture and missing > 0:
            mixture += f". {_describe(table, before, missing, upto)}"
    if mixture:
        return Rollback(
            *(mixture, before, max(0, missing), upto),
            mixed=True,
            copy=newer_copy(),
            fetched=fetched,
        )
    if continues(table, before.head, now):
        return None
    noted = _read_note(database, before)
    if noted is not None:
        missing, upto = noted
    elif missing <= 0:
        words = f"The audit chain is not the one that its anchor knows: {_OLDER}"
        return Rollback(words, before, upto=now.count, copy=newer_copy(), fetched=fetched)
    harmless = noted is None and now.count >= before.begun
    copy = "" if harmless else newer_copy()
    words = _describe(table, before, missing, upto)
    return Rollback(words, before, missing, upto, harmless=harmless, copy=copy, fetched=fetched)


def describe_older_main(
    folder: AccountFolder, path: Path, generation: str, data_key: DataKey | None, salt: bytes
) -> str:
    """Say that an older file is in the place of a database whose log stayed, and what it lacks; '' if not.

    It opens the main file alone, and nothing if there is no log.
    """
    if not database_opener.has_log(path):
        return ""
    keys = audit_keys(data_key)
    before = Anchor(folder, generation, keys.anchor).read_alone()
    key = None if data_key is None else data_key.database_key(salt)
    opens = partial(database_opener.connect, path, key, read_only=True, without_log=True)
    return "" if before is None else _read_main(opens, keys.chain_mac, before)[1]


def _read_main(
    opens: Callable[[], Database], chain_mac: ChainMac, before: Anchored
) -> tuple[int | None, str]:
    """Return the number of the main file's checkpoint (None: it cannot be read now), and what it lacks if it is older."""
    try:
        with closing(opens()) as main:
            number = checkpoints.read_number(main)
            if number >= before.checkpoint:
                return number, ""
            table = AuditTable(main, chain_mac)
            missing, upto = before.head.count - table.head().count, table.head().count
            lacks = f". {_describe(table, before, missing, upto)}" if missing > 0 else ""
            return number, f"{OLDER_THAN_LOG}{lacks}"
    except (CacheError, LockedError):
        return None, ""


def replaced_error(*, fetched: bool) -> LockedError:
    """Return the error for a server that has met another file in the place of its open database."""
    words = "Another file, or an older one, has taken the place of the open database"
    return Rollback(words, Anchored(Head()), mixed=True, fetched=fetched).locked()


def describe_unusable(error: AnchorUnusable) -> str:
    """Return the notice about an anchor that cannot tell anything."""
    return f"The end of the audit chain cannot be checked: {error.message}. {LOOK}"


def note(found: Rollback, audit: AuditLog, anchor: Anchor, database: Database) -> None:
    """Put on record what is missing, once. Never raises.

    If no change is missing, the anchor follows the chain again.
    """
    if found.mixed or not found.missing or _read_note(database, found.anchor) is not None:
        return
    facts = {"missing": found.missing, "upto": found.upto, "anchor": str(found.anchor.head)}
    audit.buffer(AuditEntry(at=audit.now(), act=ActName.CUT, facts=facts))
    if audit.flush(wait=True) and found.harmless:
        with suppress(Exception):
            anchor.accept(audit.table, database)


def _describe_mixture(before: Anchored, main: int | None, whole: int, table: AuditTable) -> str:
    if before.replaced:
        return f"At {_format(before.replaced)} a server met another file in the place of its open database"
    if main is not None and whole < main:
        return f"The log of the database lost its end after a part of it had been stored: {_MIXED}"
    if table.has_gap():
        return f"Records are missing among the newest of the audit chain: {_MIXED}"
    return ""


def _describe(table: AuditTable, before: Anchored, missing: int, upto: int) -> str:
    last = next(table.records(first=upto, last=upto), None)
    since = f" ({_format(last.at_ms)})" if last is not None else ""
    records = "1 audit record" if missing == 1 else f"{missing:,} audit records"
    until = "of" if missing == 1 else "up to"
    verb = "is" if missing == 1 else "are"
    return f"{records} after number {upto:,}{since} {verb} missing, {until} {_format(before.at)}: {_OLDER}"


def _read_note(database: Database, before: Anchored) -> tuple[int, int] | None:
    """Return what an earlier start has put on record: so many records are missing after this number."""
    row = database.row(
        "SELECT facts FROM audit WHERE act = ? ORDER BY number DESC LIMIT 1", (ActName.CUT,)
    )
    with suppress(ValueError, KeyError, TypeError):
        facts = json.loads(row[0]) if row is not None else {}
        if facts.get("anchor") == str(before.head):
            return int(facts["missing"]), int(facts["upto"])
    return None


def _format(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
