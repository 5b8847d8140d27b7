"""Write an example of ``mcp-notarium report``, from an audit log that is made up: ``python -m notarium_devtools.report_example FILE``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from mcp_notarium.audit.chain import OPEN, AuditEntry, ChainMac, Decision, Head, append_to_chain
from mcp_notarium.audit.verification import Verification
from mcp_notarium.report.activity import Activity, ActivityCounter
from mcp_notarium.report.page import KeyRing, PageFacts, render
from mcp_notarium.report.words import Check

NOW = datetime(2026, 11, 23, 14, 5, tzinfo=UTC).timestamp()
SINCE, TODAY = date(2026, 11, 17), date(2026, 11, 23)
_DAY = 86_400.0
_CLIENTS = (
    "claude-code 2.1.3",
    "claude-code 2.1.3",
    "Cursor 1.7.2",
    "claude-code 2.1.3",
    "Zed 0.198",
)
_TITLES = (
    "Sourdough bread",
    "Tax return 2026",
    "Meeting with Ada",
    "Books to read",
    "Garden in spring",
)
_IDS = tuple(f"{number:x}" * 32 for number in range(1, 6))
_CALLS = 90
_NEW_SINCE = 50
"""The first call that Zed may make."""
_AGREED, _REFUSED, _DECLINED = {1, 32, 63}, {7, 47, 87}, {61}
"""Calls that change something with consent, that the policy refuses, and that the person declines."""


def local(epoch: float) -> datetime:
    """Return a time as clocks in the example show it."""
    return datetime.fromtimestamp(epoch, UTC)


def count(entries: Iterable[AuditEntry]) -> tuple[Activity, Verification]:
    """Return what the page counts of these entries, and the chain of them."""
    since = datetime(SINCE.year, SINCE.month, SINCE.day, tzinfo=UTC).timestamp()
    counter = ActivityCounter(
        int(since * 1000), int(NOW * 1000) + 1, lambda ms: local(ms / 1000).date()
    )
    head = Head()
    for entry in entries:
        record, head = append_to_chain(entry, head, ChainMac(None))
        counter.feed(record)
    return counter.result(), Verification(head, 1, ())


def page(entries: Iterable[AuditEntry], **changes: Any) -> bytes:
    """Return the page of these entries; ``changes`` are facts that differ from the example."""
    activity, chain = count(entries)
    facts: dict[str, Any] = {
        "account": "ada@example.com",
        "store": "Simplenote",
        "version": "0.1.0",
        "command": "mcp-notarium report --titles",
        "made_at": NOW,
        "local": local,
        "since": SINCE,
        "until": TODAY,
        "activity": activity,
        "chain": chain,
        "checks": [
            Check("sandbox", "ok", "auto: Landlock 7: files, network, signals; seccomp"),
            Check("sync", "ok", "last cycle: idle"),
        ],
        "keys": KeyRing((("passphrase", ""), ("recovery", "")), "on 2026-01-02", ""),
        "titles": dict(zip(_IDS, _TITLES, strict=True)),
    }
    return render(PageFacts(**facts | changes))


def a_week() -> list[AuditEntry]:
    """Return acts of three programs in one week, with all results but one."""
    entries = [AuditEntry(at=NOW - 30 * _DAY, act="tool.list", client=one) for one in _CLIENTS[:4]]
    for number in range(_CALLS):
        at = NOW - _DAY * (6.4 - number / 14) + (number % 5) * 1900
        client, note = _CLIENTS[number % (5 if number > _NEW_SINCE else 4)], _IDS[number * 7 % 5]
        common: dict[str, Any] = {"at": min(at, NOW), "client": client, "notes": (note,)}
        entries.append(AuditEntry(act="tool.list", bytes_out=2600, **common | {"notes": _IDS}))
        if number % 4:
            entries.append(AuditEntry(act="tool.get", bytes_out=4100, **common))
        if number % 5 == number % 3:
            entries += _change("tool.save", len(entries), common)
        if number in _AGREED:
            agreed = common | {"decision": Decision.CONFIRMED}
            entries += _change("tool.manage.undo", len(entries), agreed)
        if number in _REFUSED:
            refused: dict[str, Any] = {"decision": Decision.REFUSED, "outcome": "policy"}
            entries.append(AuditEntry(act="tool.save", **common, **refused))
        if number in _DECLINED:
            declined: dict[str, Any] = {"decision": Decision.DECLINED, "outcome": "declined"}
            entries.append(AuditEntry(act="tool.manage.delete_permanently", **common, **declined))
            entries.append(
                AuditEntry(act="tool.get", outcome="not_found", **common | {"notes": ()})
            )
    entries.append(AuditEntry(at=NOW, act="keys.changed", facts={"added": ["2 recovery active"]}))
    return entries


def _change(act: str, before: int, common: dict[str, Any]) -> list[AuditEntry]:
    return [
        AuditEntry(act=act, outcome=OPEN, **common),
        AuditEntry(act=act, refers=before + 1, bytes_out=300, **common),
    ]


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(page(a_week()))
