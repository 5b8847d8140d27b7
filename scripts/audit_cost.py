"""What the audit chain costs: the same calls with and without it, in turn, medians of the differences.

    .venv/bin/python scripts/audit_cost.py [ROUNDS]

Calls go through what answers them in the real server over an encrypted cache and an in-memory note service,
without the protocol in between. Flushing what reads have left is counted in.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from mcp_notarium.audit.chain import (  # noqa: E402
    AuditKeys,
    Decision,
    Entry,
)
from mcp_notarium.protocol.app_holder import AppHolder  # noqa: E402
from mcp_notarium.protocol.call_audit import Asked  # noqa: E402
from mcp_notarium.protocol.call_pipeline import CallPipeline  # noqa: E402
from mcp_notarium.secret import Secret  # noqa: E402
from mcp_notarium.storage.audit_log import AuditLog  # noqa: E402
from mcp_notarium.tools.call_context import unanswered  # noqa: E402
from support import tooling  # noqa: E402
from support.cache_room import KEY  # noqa: E402

NOTES = 2000
KEYS = AuditKeys(*(Secret(bytes([n]) * 32) for n in (1, 2, 3)))


class Nothing:
    """Stands in the recorder's place."""

    def begin(self, *_given: object) -> None:
        """Records nothing."""

    agree = begin

    def answered(self, result: object) -> object:
        """The same."""
        return result

    failed = answered


@contextmanager
def unrecorded(*_: object):
    """A call that nobody records."""
    yield Nothing()


async def measure(rounds: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        create = tooling.create
        tooling.create = lambda path, _key, meta: create(path, KEY, meta=meta)
        desk = tooling.Desk(Path(name).resolve())
        desk.ticking = True
        for number in range(NOTES):
            desk.store.put(f"{number:032x}", f"note {number}\n" + "some words of it\n" * 60)
        await desk.sync()
        trail = AuditLog(desk.app.cache.database, KEYS, clock=desk.clock, days=365)
        desk.app = replace(desk.app, audit=trail)

        @asynccontextmanager
        async def opened():
            yield desk.app

        holder = AppHolder(opened, report=print)
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
            await compare(label, tool, arguments, times, recorded, bare, trail)
        appending(trail, rounds)
        await holder.leave(within=1)
        await keeping
        desk.close()


class Unasked:
    """A call of a client that asks nobody and wants to hear of no progress."""

    client = ""
    decision = Decision.ALLOWED

    def __init__(self, **_rules: object) -> None:
        pass

    async def confirm(self, message: str) -> bool:
        """Nobody is there to agree."""
        raise unanswered(message)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Nobody wants to know."""


async def compare(label, tool, arguments, times, recorded, bare, trail) -> None:
    """One row: each pair is measured in both orders in turn."""
    pairs = []
    for number in range(times):
        took = {}
        for who in (recorded, bare) if number % 2 else (bare, recorded):
            asked = Asked("", tool, arguments(number))
            began = time.perf_counter()
            result = await who.answer(asked, Unasked)
            took[who] = time.perf_counter() - began
            assert not result.is_error, result
        pairs.append((took[bare], took[recorded]))
        await asyncio.sleep(0)
    waited, began = trail.waiting, time.perf_counter()
    trail.flush(patient=True)
    flushing = (time.perf_counter() - began) / waited if waited else 0.0
    without, with_ = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    more = (statistics.median(b - a for a, b in pairs) + flushing) * 1000
    print(f"{label:<34}{without:>10.3f}{with_:>10.3f}{more:>10.3f}")


def appending(trail: AuditLog, rounds: int) -> None:
    """What one record costs by itself, and how long a check of all takes."""
    for durable in (False, True):
        took = []
        for number in range(rounds):
            entry = [Entry(at=number, act="tool.get", notes=("0" * 32,))]
            began = time.perf_counter()
            trail.table.append(entry, durable=durable)
            took.append(time.perf_counter() - began)
        word = "on the disk" if durable else "committed"
        print(f"{f'one record, {word}':<34}{'':>10}{statistics.median(took) * 1000:>10.3f}")
    count = trail.table.head().count
    trail.table.append([Entry(at=1, act="tool.get")] * 20_000, durable=True)
    began = time.perf_counter()
    assert trail.table.verify(anchored=None).whole
    took = time.perf_counter() - began
    print(f"{f'verify {count + 20_000:,} records':<34}{'':>10}{took * 1000:>10.0f}")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
