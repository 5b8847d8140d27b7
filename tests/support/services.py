"""Run a simulated service in a thread beside a test that starts processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from notarium_devtools.trilium import TriliumSimulator
from support.whole import DEADLINE


@contextmanager
def running(service: TriliumSimulator) -> Iterator[None]:
    """The service at work, in a loop of its own."""
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        async with service.serving():
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(DEADLINE)
        yield
    finally:
        ended.set()
        thread.join(DEADLINE)
