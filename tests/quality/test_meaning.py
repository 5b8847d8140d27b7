"""Hold what search by meaning adds to how well ``list`` finds, with a model that ``NOTARIUM_TEST_MEANING_MODEL`` names."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mcp_notarium import logs
from mcp_notarium.meaning import meaning_search
from mcp_notarium.meaning.meaning_search import MeaningSearch
from quality import asked, texts
from quality.scoring import difference, interval, values
from support.sync_rig import until

MODEL = os.environ.get("NOTARIUM_TEST_MEANING_MODEL", "")
QUERIES = texts.queries()
pytestmark = [
    pytest.mark.skipif(not MODEL, reason="NOTARIUM_TEST_MEANING_MODEL names no model"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The first page of ``list`` for each query, without the model and with it."""
    notes = [*texts.notes(), *texts.beside(0)]
    harness = asked.opened(tmp_path_factory.mktemp("quality"), notes)
    cache = harness.app.cache

    async def both():
        before = await asked.ask(harness, QUERIES)
        found = MeaningSearch(Path(MODEL), cache.database, leads=lambda: True, log=logs.get("test"))
        task = asyncio.create_task(found.run())
        count = cache.database.number
        await until(
            lambda: (
                count("SELECT count(*) FROM note_vectors") == count("SELECT count(*) FROM notes")
            ),
            seconds=1500,
        )
        cache.search.meaning = found
        after = await asked.ask(harness, QUERIES)
        task.cancel()
        return before, after

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meaning_search, "_REST", 0.1)
        patch.setattr(meaning_search, "_SHARE", 1.0)
        try:
            yield asyncio.run(both())
        finally:
            harness.close()


@pytest.mark.parametrize(("group", "least"), [("all", 0.0), ("paraphrases", 0.05)])
def test_more_is_found_with_it(answers, group, least):
    places = [at for at, query in enumerate(QUERIES) if group in {"all", query.group}]
    queries = [QUERIES[at] for at in places]
    without, with_it = (values("hit@5", [given[at] for at in places], queries) for given in answers)
    assert difference(with_it, without).low > least, (interval(without), interval(with_it))
