"""Give every note a vector in the background, and find the notes that are nearest to a question.

One thread of one process works at it, a quarter of the time, the notes that changed last first. What is done is in
the database: after a restart it goes on there. Until a note has its vector, only its words find it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import CacheBusy, CacheFull, ConfigError
from mcp_notarium.meaning.embedder import Embedder
from mcp_notarium.meaning.vector_index import VectorIndex
from mcp_notarium.storage.vector_table import Passage, VectorTable
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from mcp_notarium.logs import Logger
    from mcp_notarium.storage.database import Database

CHARACTERS = 2000
"""Of a note's text that is looked at: more than the model reads of it."""
_AT_ONCE = 64
_BATCH = 8
"""Notes in one transaction."""
_SHARE = 0.25
_REST = 5.0
"""Seconds until it looks for changed notes again, and before the model is loaded: a start is not slower for it."""


class MeaningSearch:
    """Search one database by meaning. ``leads``: whether this process is the one that works in the background."""

    def __init__(
        self, folder: Path, database: Database, *, leads: Callable[[], bool], log: Logger
    ) -> None:
        self._folder = folder
        self._db = database
        self._leads = leads
        self._log = log
        self._embedder: Embedder | None = None
        self._index: VectorIndex | None = None
        self._stamp: tuple[int, int] | None = None
        self._done: tuple[int, int] | None = None
        self._searching = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Tell whether the model is loaded."""
        return self._embedder is not None

    @property
    def settled(self) -> bool:
        """Tell whether every note had its vector when it was looked last, and nothing was written since."""
        return self._done == self._db.stamp()

    async def run(self) -> None:
        """Load the model, then embed what has no vector, for ever."""
        await asyncio.sleep(_REST)
        try:
            embedder = await run_in_thread(partial(Embedder, self._folder))
        except ConfigError as error:
            self._log.warning("meaning.unusable", message=error.message)
            return
        self._index = VectorIndex(embedder.model, embedder.size)
        self._embedder = embedder
        try:
            while True:
                with suppress(CacheBusy, CacheFull):
                    if self._leads():
                        await self._embed_missing(embedder)
                await asyncio.sleep(_REST)
        except Exception as error:  # noqa: BLE001 - a model may fail at any text
            self._fail(error)

    async def find_nearest(
        self, text: str, *, most: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return the nearest notes (pk, cosine), best first; none while the model is loaded.

        ``among``: of these notes only.
        """
        embedder, index = self._embedder, self._index
        if embedder is None or index is None:
            return []
        async with self._searching:
            stamp = self._db.stamp()
            if stamp != self._stamp:
                await self._db.run_aside(index.refresh)
                self._stamp = stamp

            def find() -> list[tuple[int, float]]:
                return index.nearest(embedder.embed_query(text), most=most, among=among)

            try:
                return await run_in_thread(find)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)
                return []

    def _fail(self, error: Exception) -> None:
        """Go on with words only."""
        self._embedder = None
        self._log.error("meaning.ended", exc=error)

    async def _embed_missing(self, embedder: Embedder) -> None:
        """Embed all that has no vector; look only if something was written since all had theirs."""
        stamp = self._db.stamp()
        if stamp == self._done:
            return
        if self._done is None:
            VectorTable(self._db).forget_others(embedder.model)
        while missing := await self._db.run_aside(partial(_find_missing, model=embedder.model)):
            for start in range(0, len(missing), _BATCH):
                await self._embed(embedder, missing[start : start + _BATCH])
        self._done = stamp

    async def _embed(self, embedder: Embedder, passages: Sequence[Passage]) -> None:
        began = time.monotonic()
        vectors = await run_in_thread(
            lambda: [(one, embedder.embed_passage(one.text)) for one in passages]
        )
        VectorTable(self._db).write(embedder.model, vectors)
        await asyncio.sleep((time.monotonic() - began) * (1 / _SHARE - 1))


def _find_missing(database: Database, *, model: str) -> list[Passage]:
    return VectorTable(database).find_missing(model, characters=CHARACTERS, limit=_AT_ONCE)
