"""Save notes through whole calls in an account of the local notebook, and end by a stop or a kill."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from mcp_notarium.app import open_app
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from support.local_child import Call, configured
from support.stories import die

WORDS = "word " * 300


def saved(home: Path, names: Sequence[str], end: str = "stop") -> None:
    """Save a note for each name. ``end``: "stop", "kill", or "moved" (the log is moved first, and then killed)."""
    anyio.run(_save, home, names, end)


async def _save(home: Path, names: Sequence[str], end: str) -> None:
    holder = AppHolder(partial(open_app, configured(home)), report=lambda _error: None)
    pipeline = CallPipeline(holder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder.keep)
        app = await holder.app()
        app.cache.database.set_checkpointer(True)
        for name in names:
            answer = await pipeline.answer(Call("save", {"text": f"{name}\n{WORDS}"}))
            assert not answer.is_error, answer
        if end != "stop":
            die()
        await holder.leave(within=20)
