"""A process of its own on a cache, syncing with an embedded service; it can be made to end anywhere.

Started by tests/crash as a script. The first argument is JSON: ``folder``, ``url``, ``app_id``,
``token``, ``job`` and where to end. ``serve`` takes one JSON order per line on stdin and answers
each with one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError
from mcp_notarium.files.locks import make_owner_name
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import AccountRecord
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.simplenote.kind import Urls
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from mcp_notarium.sync.scheduler import Scheduler
from mcp_notarium.sync.writer import Writer
from support.simplenote_client import QUICK, MemoryTokens
from support.sync_rig import open_cache, run_cycle


def end() -> None:
    """The process ends as by a power cut of its own: no handler, no clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Child:
    """Cache, store, writer and scheduler as the application wires them."""

    def __init__(self, order: dict) -> None:
        self.order = order
        folder = Path(order["folder"])
        urls = Urls(
            api=f"{order['url']}/1", auth=f"{order['url']}/1", app=order["url"],
            app_id=order["app_id"],
        )  # fmt: skip
        self.cache = open_cache(folder)
        store = SimplenoteStore(
            urls=urls,
            username="user@example.com",
            password=None,
            token=Secret(order["token"]),
            tokens=MemoryTokens(),
            record=AccountRecord(self.cache.database),
            api_key=Secret("unused"),
            client_id=f"child-{os.getpid()}",
            timeout=10.0,
            session=HttpSession(bases=urls.all(), timeout=10.0, retry_policy=QUICK),
        )
        self.writer = Writer(
            self.cache,
            store,
            owner=make_owner_name(),
            lease=60.0,
            on_step=lambda step: end() if step == order.get("end_at_step") else None,
        )
        self.scheduler = Scheduler(
            self.cache,
            store,
            self.writer,
            stopwatch=time.monotonic,
            interval=60.0,
            leader_lock_path=folder / "sync.lock",
        )
        if "end_at_transaction" in order:
            self._end_at(order["end_at_transaction"], torn=order["torn"])

    def _end_at(self, nth: int, *, torn: bool) -> None:
        transaction, begun = Cache.transaction, []

        @contextmanager
        def ending(cache, **options):
            begun.append(1)
            number = len(begun)
            with transaction(cache, **options):
                yield
                if torn and number == nth:
                    end()
            if number == nth:
                end()

        Cache.transaction = ending

    async def sync(self) -> None:
        """One cycle, then done."""
        await run_cycle(self.scheduler)

    async def save(self) -> None:
        """Change the note named in the order, or create one."""
        await self._write(self.order)

    async def serve(self) -> None:
        """Run the scheduler and do what is asked on stdin."""
        run = asyncio.create_task(self.scheduler.run())
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                answer = await self._answer(json.loads(line))
            except NotariumError as error:
                answer = {"error": type(error).__name__}
            print(json.dumps(answer), flush=True)  # noqa: T201 - this is the answer
        run.cancel()
        await asyncio.wait({run})
        await self.writer.locks.drain()

    async def _answer(self, order: dict) -> dict:
        match order["do"]:
            case "write":
                return {"id": await self._write(order)}
            case "sync":
                return {"well": await self.scheduler.sync_now(20.0)}
            case _:
                status = self.scheduler.status()
                return {"leader": status.leader, "complete": status.complete}

    async def _write(self, order: dict) -> str:
        note = self.cache.notes.get(order["id"]) if order.get("id") else None
        saved = await self.writer.save(note=note, content=Content(order["text"]))
        return saved.note.id


if __name__ == "__main__":
    child = Child(json.loads(sys.argv[1]))
    asyncio.run(getattr(child, child.order["job"])())
