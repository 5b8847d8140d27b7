"""The wiring, over a store that names its notes by their titles and changes what it is given."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium import app as app_module
from mcp_notarium.app import open_app
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import ConfigError
from mcp_notarium.secret import Secret
from mcp_notarium.stores.contract import Changes, Retry, Traits, WriteGuard
from mcp_notarium.stores.kind import Ids
from mcp_notarium.stores.simplenote.kind import KIND
from support.account import account
from support.log_events import capture
from support.memory_client import LIKE_VAULT, MemoryClient
from support.memory_store import MemoryStore


def test_an_id_made_of_a_title_is_a_digest_in_the_log(tmp_path):
    service = MemoryStore()
    service.rewrite = lambda fields: fields | {"text": fields["text"].replace("b", "p")}
    kind = replace(KIND, open=lambda *_given: MemoryClient(service, traits=LIKE_VAULT))
    config = account(tmp_path, store=kind, db_key=Secret("raw:" + "0a" * 32))

    async def scenario():
        async with open_app(config, syncing=False) as app:
            return await app.writer.save(note=None, content=Content("Illness\nblood\n"))

    with capture() as events:
        saved = asyncio.run(scenario())
    assert saved.differs
    assert saved.note.id == "Illness.md"
    (event,) = [one for one in events if one["event"] == "sync.stored_differently"]
    assert event["note_id"].startswith("id:")
    assert "Illness" not in str(events)


@pytest.mark.parametrize(
    "row",
    [
        (Changes.SNAPSHOT, WriteGuard.CAS, Retry.ASK),
        (Changes.DELTA, WriteGuard.LAST_WRITER, Retry.IDEMPOTENT),
    ],
    ids=["store ids", "delta"],
)
def test_a_store_of_a_row_that_is_not_tested_is_refused(tmp_path, row):
    store = MemoryClient(MemoryStore(), traits=Traits(*row, ids=Ids.NAMED))
    kind = replace(KIND, open=lambda *_given: store)
    config = account(tmp_path, store=kind, db_key=Secret("raw:" + "0a" * 32))

    async def scenario():
        async with open_app(config, syncing=False):
            pass

    with pytest.raises(ConfigError, match="traits that do not go together"):
        asyncio.run(scenario())


def test_a_server_reads_the_words_of_all_notes_once_they_are_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(app_module, "WARMING_DELAY", 0.05)
    service = MemoryStore()
    service.put("a", "lighthouse")
    kind = replace(KIND, open=lambda *_given: MemoryClient(service))
    config = account(tmp_path, store=kind, db_key=Secret("raw:" + "0a" * 32))

    async def scenario():
        async with open_app(config) as app:
            (warming,) = (one for one in asyncio.all_tasks() if one.get_name() == "warming")
            async with asyncio.timeout(10):
                await warming
            return app.cache.vocabulary.containing("ghthous", limit=2)

    assert asyncio.run(scenario()) == ["lighthous"]

    async def alone():
        async with open_app(config, syncing=False) as app:
            await asyncio.sleep(0.3)
            return app.cache.vocabulary._changes is not None

    assert not asyncio.run(alone())
