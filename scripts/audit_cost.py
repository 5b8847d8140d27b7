"""Measure what the audit log costs a call (docs/audit.md).

    .venv/bin/python scripts/audit_cost.py [ROUNDS]

Runs each call with and without the audit log, in turn, and prints the medians and their difference. The calls go
through the call pipeline of the server, over an encrypted cache and an in-memory note service, without the
protocol. The time of flushing the records of reads is included.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from mcp_notarium.audit.chain import (  # noqa: E402
    AuditEntry,
    AuditKeys,
    Decision,
)
from mcp_notarium.protocol.app_holder import AppHolder  # noqa: E402
from mcp_notarium.protocol.call_audit import Asked  # noqa: E402
from mcp_notarium.protocol.call_pipeline import CallPipeline  # noqa: E402
from mcp_notarium.secret import Secret  # noqa: E402
from mcp_notarium.storage.audit_log import AuditLog  # noqa: E402
from mcp_notarium.tools.call_context import timeout_error  # noqa: E402
from support import tool_harness  # noqa: E402
from support.cache_room import KEY  # noqa: E402

NOTES = 2000
KEYS = AuditKeys(*(Secret(bytes([n]) * 32) for n in (1, 2, 3)))


class NoRecord:
    """Take the place of a call's record, and record nothing."""

    def begin(self, *_given: object) -> None:
        """Record nothing."""

    agree = begin

    def answered(self, result: object) -> object:
        """Return the result as it is."""
        return result

    failed = answered


@contextmanager
def unrecorded(*_: object):
    """Take the place of the recorder of a call."""
    yield NoRecord()


async def measure(rounds: int) -> None:
    """Run all calls and print the table."""
    with tempfile.TemporaryDirectory() as name:
        create = tool_harness.create
        tool_harness.create = lambda path, _key, meta: create(path, KEY, meta=meta)
        harness = tool_harness.ToolHarness(Path(name).resolve(), audit_keys=KEYS)
        harness.ticking = True
        for number in range(NOTES):
            harness.store.put(f"{number:032x}", f"note {number}\n" + "some words of it\n" * 60)
        await harness.sync()
        audit_log = harness.app.audit
        holder = AppHolder(harness.opened, report=print)
        keeping = asyncio.create_task(holder.keep())
        await holder.app()
        recorded, bare = CallPipeline(holder), CallPipeline(holder)
        bare.recorder.recording = unrecorded
        print(
            f"{'call':<34}{'without':>10}{'with':>10}{'more':>10}   (medians, ms; pairs: {rounds})"
        )
        for label, tool, arguments, times in (
            ("get, 1 KB", "get", lambda n: {"id": f"{n % NOTES:032x}"}, rounds),
            ("list, 10 rows", "list", lambda n: {"limit": 10, "page": n % 50 + 1}, rounds),
            ("list, a search", "list", lambda n: {"query": f"note {n % NOTES}"}, rounds),
            ("save, a new note", "save", lambda n: {"text": f"new {n}"}, rounds // 4),
        ):
            await compare(label, tool, arguments, times, recorded, bare, audit_log)
        appending(audit_log, rounds)
        await holder.leave(within=1)
        await keeping
        harness.close()


class PlainCall:
    """Act as a client that cannot ask its user and reads no progress."""

    client = ""
    decision = Decision.ALLOWED

    def __init__(self, **_rules: object) -> None:
        pass

    async def confirm(self, message: str) -> bool:
        """Refuse: there is nobody to ask."""
        raise timeout_error(message)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Drop the message."""


async def compare(label, tool, arguments, times, recorded, bare, audit_log) -> None:
    """Print one row; which of a pair comes first alternates."""
    pairs = []
    for number in range(times):
        took = {}
        for who in (recorded, bare) if number % 2 else (bare, recorded):
            asked = Asked("", tool, arguments(number))
            began = time.perf_counter()
            result = await who.answer(asked, PlainCall)
            took[who] = time.perf_counter() - began
            assert not result.is_error, result
        pairs.append((took[bare], took[recorded]))
        await asyncio.sleep(0)
    waited, began = audit_log.waiting, time.perf_counter()
    audit_log.flush(wait=True)
    flushing = (time.perf_counter() - began) / waited if waited else 0.0
    without, with_ = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    more = (statistics.median(b - a for a, b in pairs) + flushing) * 1000
    print(f"{label:<34}{without:>10.3f}{with_:>10.3f}{more:>10.3f}")


def appending(audit_log: AuditLog, rounds: int) -> None:
    """Print the time of one record by itself, and of verifying all."""
    for durable in (False, True):
        took = []
        for number in range(rounds):
            entry = [AuditEntry(at=number, act="tool.get", notes=("0" * 32,))]
            began = time.perf_counter()
            audit_log.table.append(entry, durable=durable)
            took.append(time.perf_counter() - began)
        word = "on the disk" if durable else "committed"
        print(f"{f'one record, {word}':<34}{'':>10}{statistics.median(took) * 1000:>10.3f}")
    count = audit_log.table.head().count
    audit_log.table.append([AuditEntry(at=1, act="tool.get")] * 20_000, durable=True)
    began = time.perf_counter()
    assert audit_log.table.verify(anchored=None).whole
    took = time.perf_counter() - began
    print(f"{f'verify {count + 20_000:,} records':<34}{'':>10}{took * 1000:>10.0f}")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
