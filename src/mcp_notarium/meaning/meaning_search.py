"""Give every note a vector in the background, and find the notes whose vectors are nearest to a question's.

One thread of one process works at it, a quarter of the time, the notes that changed last first. What is done is in
the database: after a restart it goes on there. Only its words find a note until it has its vector.

The vectors are kept in memory: 20 MB at 50,000 notes. All are compared, a block at a time, which takes 15 ms then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import CacheBusy, CacheFull, ConfigError
from mcp_notarium.meaning.embedder import Embedder
from mcp_notarium.storage.vector_table import Passage, VectorTable
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    import numpy as np

    from mcp_notarium.logs import Logger
    from mcp_notarium.storage.database import Database


_BLOCK = 4096
_SCALE = 127.0
FARTHEST = 0.05
"""Largest gap in nearness to the nearest note: of 205 right notes 195 were within 0.03."""


class VectorIndex:
    """Hold the vectors of one model in memory, as the database has them. For one thread at a time."""

    def __init__(self, model: str, size: int) -> None:
        import numpy as np  # noqa: PLC0415 - an extra

        self._model = model
        self._last = 0
        self._vectors = np.empty((0, size), np.int8)
        self._pks = np.empty(0, np.int64)
        self._used = 0
        self._row_of: dict[int, int] = {}

    def __len__(self) -> int:
        return self._used

    def refresh(self, database: Database) -> None:
        """Read the vectors that were written since; all of them if notes were removed."""
        table = VectorTable(database)
        with database.snapshot():
            self._read(table)
            if self._used != table.count(self._model):
                self._last = self._used = 0
                self._row_of.clear()
                self._read(table)

    def _read(self, table: VectorTable) -> None:
        for number, pk, vector in table.read_after(self._last, self._model):
            self._put(pk, vector)
            self._last = max(self._last, number)

    def nearest(
        self, question: np.ndarray[Any, Any], *, most: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return the nearest notes (pk, cosine), best first, none far behind the best. ``among``: of these notes only."""
        import numpy as np  # noqa: PLC0415 - an extra

        near = np.empty(self._used, np.float32)
        for start in range(0, self._used, _BLOCK):
            block = self._vectors[start : min(start + _BLOCK, self._used)]
            near[start : start + len(block)] = block.astype(np.float32) @ question
        near /= _SCALE
        rows = np.arange(self._used)
        if among is not None:
            rows = np.array([self._row_of[pk] for pk in among if pk in self._row_of], np.int64)
        count = min(most, len(rows))
        if not count:
            return []
        best = rows[np.argpartition(-near[rows], count - 1)[:count]]
        best = best[np.lexsort((self._pks[best], -near[best]))]
        least = float(np.max(near)) - FARTHEST
        return [(int(self._pks[row]), float(near[row])) for row in best if near[row] >= least]

    def _put(self, pk: int, vector: bytes) -> None:
        import numpy as np  # noqa: PLC0415 - an extra

        row = self._row_of.get(pk)
        if row is None:
            row = self._row_of[pk] = self._used
            self._used += 1
            if self._used > len(self._vectors):
                self._grow()
        self._pks[row] = pk
        self._vectors[row] = np.frombuffer(vector, np.int8)

    def _grow(self) -> None:
        import numpy as np  # noqa: PLC0415 - an extra

        room = max(1024, 2 * len(self._vectors))
        vectors, pks = np.zeros((room, self._vectors.shape[1]), np.int8), np.zeros(room, np.int64)
        vectors[: len(self._vectors)], pks[: len(self._pks)] = self._vectors, self._pks
        self._vectors, self._pks = vectors, pks


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
        """Return the nearest notes (pk, cosine), best first; none while the model is loaded. ``among``: of these notes only."""
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
