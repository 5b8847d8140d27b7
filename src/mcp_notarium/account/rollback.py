"""Find out whether an open database lacks what the anchor says that the disk had, and say what is missing.

An older database put back, and a log that lost its end, leave an older state, which can be read; its saves wait
for a person. A main file and a log of two times make a mixture, which is not opened at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
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
from mcp_notarium.account.copies import Copies
from mcp_notarium.account.startup_hints import SEE_STATUS
from mcp_notarium.audit.chain import ActName, AuditEntry, Head
from mcp_notarium.audit.verification import Fault, FaultKind
from mcp_notarium.errors import CacheError, LockedError, RollbackSeen, Verdict
from mcp_notarium.storage import database_opener, write_ahead_log
from mcp_notarium.storage.audit_log import AuditLog, AuditTable
from mcp_notarium.storage.database import Database

OLDER_THAN_LOG = "The database file was replaced by an older one beside its newer log"
_OLDER = "an older copy of the database was put back, or its newest writes are lost"
_MIXED = "pages of an older database are among those of the newest"
_MET = "another file or older pages had replaced the database"


@dataclass(frozen=True, slots=True)
class _End:
    """Hold how far a state goes: its last record, when that was made, and the number of its main file's checkpoint."""

    count: int
    at: int
    checkpoint: int = 0


@dataclass(frozen=True, slots=True)
class Rollback:
    """Hold what is missing."""

    words: str
    """The beginning of a sentence."""
    anchor: Anchored
    missing: int = 0
    """Number of missing records; 0 if nobody can count them."""
    upto: int = 0
    """The number of the last one that is there."""
    upto_at: int = 0
    """Time of that record, in epoch milliseconds."""
    mixed: bool = False
    """The database is a mixture of two states, or nobody can tell it from one."""
    readable: bool = True
    """It may be read through, so a person may accept it."""
    complete: bool = False
    """Its chain has all that the anchor knows."""
    harmless: bool = False
    """Nothing is missing but outcomes of changes that are there."""
    copy: str = ""
    """The name of a copy with newer notes, '' if there is none."""
    copied: int = 0
    """So many of the missing records are in it, where that was counted."""
    fetched: bool = True
    """The notes are at a store, too."""

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
        if self.mixed:
            accept += ", if it can be read through"
        if not self.readable:
            accept = "`mcp-notarium repair` saves what can be read"
        if self.complete:
            accept = (
                "if you put the newest file back, `mcp-notarium audit accept` reads it through and "
                "goes on with it"
            )
        if self.copy:
            return f"{self.copy_back}; {accept}."
        if not self.fetched:
            return f"`mcp-notarium restore --list` lists the copies; {accept}."
        if self.mixed and self.readable:
            return f"{accept}; then `mcp-notarium reset-cache` loads all notes again."
        return f"{accept}."

    @property
    def copy_back(self) -> str:
        """Return what puts back the copy, '' if there is none."""
        if not self.copy:
            return ""
        has = "newer notes than the file met then" if self.complete else "newer notes"
        if self.copied:
            has = "all of them" if self.copied >= self.missing else f"{self.copied:,} of them"
        return f"`mcp-notarium restore {self.copy}` puts back a copy that has {has}"

    def refusal(self) -> RollbackSeen:
        """Return the error for a change."""
        return RollbackSeen(
            f"{self.words}; so nothing was changed",
            details={"missing_records": self.missing} if self.missing else None,
            resolution_hint=SEE_STATUS,
        )

    def locked(self) -> LockedError:
        """Return the error for a process that opens or uses a mixture, and for ``status``."""
        return LockedError(
            Verdict.ROLLBACK_SEEN,
            self.words,
            resolution_hint=self.ways_out,
            agent_hint=SEE_STATUS,
            details={"missing_records": self.missing} if self.missing else None,
        )

    def fault(self) -> Fault | None:
        """Return the fault for ``audit verify``; None if comparing chain and anchor tells it."""
        if not self.mixed:
            return None
        return Fault(FaultKind.REPLACED, self.upto, f"{self.words}. {self.ways_out}")

    def unreadable(self) -> Rollback:
        """Return the same of a database that cannot be read through, so that nobody can accept it."""
        return replace(self, readable=False, complete=False)


def find(
    anchor: Anchor,
    table: AuditTable,
    database: Database,
    *,
    had_log: bool,
    copies: Copies | None = None,
) -> Rollback | None:
    """Compare an open database with its anchor; None if nothing is missing.

    ``had_log``: a log lay next to the main file when it was opened; alone the file is one state. ``copies``: None
    if there are none. Raises ``CacheError``, and ``AnchorUnusable`` if the anchor cannot tell.
    """
    copies = copies or Copies(anchor.folder, None, None)
    before = anchor.read(database)
    if before is None:
        return None
    if before.replaced:
        return _find_since_replaced(before, table, copies)
    # Each after what it is compared with: another server may be writing all of them.
    noted = _read_note(database, before)
    main = _read_main(database.open_without_log) if had_log else None
    whole = write_ahead_log.read_number(database)
    now, at = table.end()
    end = _End(now.count, at)
    mixture = _find_older_main(main, before, noted, copies)
    if mixture is None and (words := _describe_mixture(main, whole, table)):
        mixture = _mixed(words, before, end, copies)
    # defence: chain-compared-at-start =True
    if mixture is not None or continues(table, before.head, now):
        return mixture
    if noted is not None:
        end = _End(noted.count, _read_time(table, noted.count))
    elif before.begun <= end.count < before.head.count:
        return replace(_describe_older(before, end), harmless=True)
    copy = copies.with_newer_notes(database)
    return replace(_describe_older(before, end), copy=copy, fetched=copies.fetched)


def find_in_unreadable(path: Path, generation: str, salt: bytes, copies: Copies) -> Rollback | None:
    """Find out what an unreadable database lacks; None if only damage is known.

    The anchor says what the database had. The end of the chain says what it has now, if that can be read. The main file
    is also read without its log if there is one: somebody may have put back an older one.
    """
    data_key = copies.data_key
    before = Anchor(copies.folder, generation, audit_keys(data_key).anchor).read_alone()
    if before is None:
        return None
    if before.replaced:
        return _describe_replaced(before, copies)  # defence: mixture-after-replacement =None
    key = None if data_key is None else data_key.database_key(salt)
    opens = partial(database_opener.connect, path, key, read_only=True)
    noted = end = None
    with suppress(CacheError, LockedError), closing(opens()) as database:
        end = _read_end(database)
        noted = _read_note(database, before)
        if noted is not None:
            at = database.row(_MADE_AT, (noted.count,))
            noted = replace(noted, at=at[0] if at else 0)
    if database_opener.has_log(path):
        main = _read_main(partial(opens, without_log=True))
        if (found := _find_older_main(main, before, noted, copies)) is not None:
            return found
    end = noted or end
    # defence: older-although-damaged =True
    if end is None or (noted is None and end.count >= before.begun):
        return None  # as far as can be seen no change is missing
    copy, last = copies.with_records_after(end.count)
    copied = min(last, before.head.count) - end.count if copy else 0
    older = _describe_older(before, end)
    words = f"{older.words}. What is there is damaged, too"
    return replace(older, words=words, copy=copy, copied=copied, fetched=copies.fetched)


def find_replaced(anchor: Anchor, copies: Copies) -> Rollback | None:
    """Return what is missing since another file was met in the place of the database; None if none was."""
    before = anchor.read_alone()
    return _describe_replaced(before, copies) if before is not None and before.replaced else None


def note_replaced(found: Rollback, anchor: Anchor, at: float) -> None:
    """Record in the anchor that the database is a mixture: closing it stores it (epoch seconds). Never raises."""
    anchor.note_replaced(at, met=found.upto, met_at=found.upto_at)


def read_met(database: Database) -> tuple[int, int]:
    """Return the number of the last record in the main file alone, and when it was made; 0 if it cannot be read."""
    main = _read_main(database.open_without_log)
    return (0, 0) if main is None else (main.count, main.at)


def _read_main(opens: Callable[[], Database]) -> _End | None:
    """Return how far the main file goes without its log; None if it cannot be read now."""
    try:
        with closing(opens()) as main:
            number = write_ahead_log.read_number(main)
            with suppress(CacheError):
                return replace(_read_end(main), checkpoint=number)
            return _End(0, 0, number)
    except (CacheError, LockedError):
        return None


def _read_end(database: Database) -> _End:
    return _End(*(database.row(_LAST) or (0, 0)))


def _find_older_main(
    main: _End | None, before: Anchored, noted: _End | None, copies: Copies
) -> Rollback | None:
    """Return what is missing if the main file is older than the log next to it.

    What a start has ``noted`` there began on an older main file: it has the number of that one, or a later.
    """
    # defence: older-state-outlives-a-kill =True
    least = before.checkpoint if noted is None else noted.checkpoint
    if main is None or main.checkpoint >= least:  # defence: older-file-beside-newer-log =True
        return None
    return _mixed(OLDER_THAN_LOG, before, main, copies)


def _describe_replaced(before: Anchored, copies: Copies) -> Rollback:
    words = f"By {_format(before.replaced)} {_MET}"
    return _mixed(words, before, _End(before.met, before.met_at), copies)


def _find_since_replaced(before: Anchored, table: AuditTable, copies: Copies) -> Rollback:
    """Return what is missing since a server met another file; say so if the chain of what is there now lacks nothing.

    That chain does not prove the notes: its last pages may come from the log of that server, with older pages around them.
    """
    found = _describe_replaced(before, copies)
    with suppress(CacheError):
        now = table.head()
        if now.count < before.head.count or table.has_gap():
            return found
        if continues(table, before.head, now):
            return _describe_complete(found, now)
    return found


def _describe_complete(found: Rollback, now: Head) -> Rollback:
    before = found.anchor
    words = f"By {_format(before.replaced)} {_MET}"
    if found.missing:
        lacked = _describe(before, _End(before.met, before.met_at), lacked=True)
        words += f". The file met then lacked {lacked}"
    words += (
        f". The file that is there now has the audit chain up to number {now.count:,}, and lacks nothing of it; "
        "whether its notes are as new cannot be told from that"
    )
    return replace(found, words=words, missing=0, complete=True, copied=0)


def _mixed(words: str, before: Anchored, end: _End, copies: Copies) -> Rollback:
    missing = max(0, before.head.count - end.count) if end.count else 0
    copy, last = copies.with_records_after(end.count)
    return Rollback(
        f"{words}. {_describe(before, end)}" if missing else words,
        *(before, missing, end.count, end.at),
        mixed=True,
        copy=copy,
        copied=min(last, before.head.count) - end.count if missing else 0,
        fetched=copies.fetched,
    )


def removed_error() -> LockedError:
    """Return the error for a server whose open database was removed."""
    return LockedError(
        Verdict.DATABASE_MISSING,
        "The database was removed while it was open",
        resolution_hint="`mcp-notarium status` says what is left. If this was not meant, `mcp-notarium restore` puts a "
        "copy or a backup back.",
        agent_hint=SEE_STATUS,
    )


def replaced_error(copies: Copies) -> LockedError:
    """Return the error for a server that has met another file in the place of its open database.

    For one whose anchor could not note it.
    """
    words = "Another file, or an older one, has taken the place of the open database"
    return Rollback(words, Anchored(Head()), mixed=True, fetched=copies.fetched).locked()


def describe_unusable(error: AnchorUnusable) -> str:
    """Return the notice about an anchor that cannot tell anything."""
    return f"The end of the audit chain cannot be checked: {error.message}. {LOOK}"


def note(found: Rollback, audit: AuditLog, anchor: Anchor, database: Database) -> None:
    """Record once what is missing. Never raises. The anchor follows the chain again if no change is missing."""
    if found.mixed or not found.missing or _read_note(database, found.anchor) is not None:
        return
    facts = {
        "missing": found.missing,
        "upto": found.upto,
        "anchor": str(found.anchor.head),
        "checkpoint": write_ahead_log.read_main(database) or 0,
    }
    audit.buffer(AuditEntry(at=audit.now(), act=ActName.CUT, facts=facts))
    if audit.flush(wait=True) and found.harmless:
        with suppress(Exception):
            anchor.accept(audit.table, database)


def _describe_older(before: Anchored, end: _End) -> Rollback:
    """Return what one older state lacks, which goes as far as ``end``."""
    missing = before.head.count - end.count
    if missing <= 0:
        words = f"The audit chain is not the one that its anchor knows: {_OLDER}"
        return Rollback(words, before, upto=end.count)
    words = f"{_describe(before, end)}: {_OLDER}"
    return Rollback(words, before, missing, end.count)


def _describe_mixture(main: _End | None, whole: int, table: AuditTable) -> str:
    if main is not None and whole < main.checkpoint:
        return f"The log of the database lost its end after a part of it had been stored: {_MIXED}"
    if table.has_gap():
        return f"Records are missing among the newest of the audit chain: {_MIXED}"
    return ""


def _describe(before: Anchored, end: _End, *, lacked: bool = False) -> str:
    """Return which records are missing; with ``lacked`` without the verb."""
    missing = before.head.count - end.count
    since = f" ({_format(end.at)})" if end.at else ""
    records = "1 audit record" if missing == 1 else f"{missing:,} audit records"
    until = "of" if missing == 1 else "up to"
    verb = "" if lacked else " is missing" if missing == 1 else " are missing"
    return f"{records} after number {end.count:,}{since}{verb}, {until} {_format(before.at)}"


def _read_time(table: AuditTable, number: int) -> int:
    last = next(table.records(first=number, last=number), None)
    return 0 if last is None else last.at_ms


def _read_note(database: Database, before: Anchored) -> _End | None:
    """Return how far the state went that an earlier start has put on record as an older one."""
    row = database.row(_NOTED, (ActName.CUT,))
    with suppress(ValueError, KeyError, TypeError):
        facts = json.loads(row[0]) if row is not None else {}
        if facts.get("anchor") == str(before.head):
            return _End(int(facts["upto"]), 0, int(facts["checkpoint"]))
    return None


def _format(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


_LAST = "SELECT number, at_ms FROM audit ORDER BY number DESC LIMIT 1"
_MADE_AT = "SELECT at_ms FROM audit WHERE number = ?"
_NOTED = "SELECT facts FROM audit WHERE act = ? ORDER BY number DESC LIMIT 1"
