"""Carry the audit chain of one database over to another, under the other's key.

What is wrong with the old chain is recorded in the new one: a new MAC must not hide it. Neither file is switched here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mcp_notarium.account.audit_anchor import Anchor, AnchorUnusable
from mcp_notarium.audit.chain import ActName, AuditEntry, AuditKeys, ChainMac, Head, Record, rechain
from mcp_notarium.audit.verification import ChainVerifier
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.database import Database


def carry_chain(
    anchor: Anchor | None,
    old: tuple[Database, AuditKeys],
    new: tuple[Database, AuditKeys],
    *,
    at: float,
    why: str,
    rescuing: bool = False,
) -> bool:
    """Copy the chain of a database, with new MACs and a record of what is wrong with it or its ``anchor`` (None: do not ask it).

    Return whether it is all that the anchor knows. ``rescuing``: the old database is damaged; copy what can be read.
    """
    source = AuditTable(old[0], old[1].chain_mac)
    anchored, wrong, older = None, [], False
    try:
        said = None if anchor is None else anchor.read(old[0])
        if said is not None:
            anchored = said.head
            older = bool(said.replaced) or said.head.count > source.head().count
            if said.replaced:
                wrong.append("another file was put in the place of the database")
    except AnchorUnusable as error:
        wrong.append(error.message)
    except CacheError:
        if not rescuing:
            raise
    target = AuditTable(new[0], new[1].chain_mac)
    complete = carry_over(
        source, target, at=at, why=why, anchored=anchored, wrong=wrong, rescuing=rescuing
    )
    return complete and not older


_UNREADABLE = "not all of it could be read"
_BATCH = 500


def carry_over(
    source: AuditTable,
    target: AuditTable,
    *,
    at: float,
    why: str,
    anchored: Head | None,
    wrong: Iterable[str] = (),
    rescuing: bool = False,
) -> bool:
    """Copy the whole chain under the target's key and end it with a record that links the two.

    Return whether all of it could be read.

    The old chain is verified on the way (with ``anchored``, its anchor). Its faults, and those in
    ``wrong``, go into that record: a new MAC must not hide them. ``target`` is empty and new.
    ``rescuing``: the source is damaged; what can be read of it is copied.
    """
    check, faults = ChainVerifier(source.chain_mac, anchored), [*wrong]
    records = _readable(source, faults) if rescuing else source.records()
    for batch in _rechain_in_batches(records, check, target.chain_mac):
        target.insert_chained(batch)
    found = check.result()
    faults += [f"{fault.kind.value} at {fault.number}" for fault in found.faults[:10]]
    if found.head.count == 0 and not faults:
        target.begin(at, facts={"why": why})
        return True
    facts = {
        "why": why,
        "old_count": found.head.count,
        "old_head": found.head.mac,
        "faults": faults,
    }
    target.append([AuditEntry(at=at, act=ActName.CARRIED, facts=facts)], durable=True)
    return _UNREADABLE not in faults


def _readable(source: AuditTable, faults: list[str]) -> Iterator[Record]:
    """Yield the records up to the first unreadable page; such a page is a fault."""
    try:
        yield from source.records()
    except CacheError:
        faults.append(_UNREADABLE)


def _rechain_in_batches(
    records: Iterable[Record], check: ChainVerifier, chain_mac: ChainMac
) -> Iterator[list[Record]]:
    """Yield the records under another key, some hundred at a time; ``check`` sees the old ones."""
    batch: list[Record] = []
    previous: str | None = None
    for record in records:
        check.feed(record)
        # After a pruning the first record follows a removed one.
        batch.append(rechain(record, record.previous if previous is None else previous, chain_mac))
        previous = batch[-1].mac
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch
