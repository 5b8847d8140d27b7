"""Ask ``list`` of this build: the real index and the real handler, in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError
from mcp_notarium.tools import list as list_
from mcp_notarium.tools.requests import ListRequest
from quality.scoring import Answer
from quality.texts import Note, Query
from support import cache_room, corpus
from support.tool_harness import ToolHarness

_SLICE = 500
_NO_WORD = "zzqqx"
_UNREAD = "still being read"
_DEADLINE = 60.0


def opened(folder: Path, notes: Iterable[Note]) -> ToolHarness:
    """Return an account that holds these notes and whose first load is over."""
    harness = ToolHarness(folder)
    cache = harness.app.cache
    revisions = [
        corpus.make(
            note.id, Content(note.text, note.tags), created_at=note.date, modified_at=note.date
        )
        for note in notes
    ]
    for start in range(0, len(revisions), _SLICE):
        cache_room.store(cache, revisions[start : start + _SLICE])
    with cache.transaction():
        cache.sync_state.set_cursor("1")
        progress = cache.sync_state.facts().progress
        cache.sync_state.set_progress(replace(progress, complete=True))
    return harness


async def ask(harness: ToolHarness, queries: Sequence[Query]) -> list[Answer]:
    """Return the first page of each query, as an agent gets it that names no limit; a refusal is an empty page."""
    await _wait_for_words(harness)
    answers = []
    for query in queries:
        began = time.perf_counter()
        request = ListRequest.model_validate({"query": query.text})
        try:
            page = await list_.handle(harness.app, request, harness.caller)
        except NotariumError as error:
            answers.append(Answer((), str(error)))
            continue
        took = (time.perf_counter() - began) * 1000
        text = page.model_dump_json(exclude_none=True)
        answers.append(Answer(tuple(row.uuid for row in page.content), text, took))
    return answers


async def _wait_for_words(harness: ToolHarness) -> None:
    """Wait until misspelt words are corrected: the first one has the words of all notes read."""
    deadline = time.monotonic() + _DEADLINE
    request = ListRequest.model_validate({"query": _NO_WORD})
    while _UNREAD in ((await list_.handle(harness.app, request, harness.caller)).note or ""):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
