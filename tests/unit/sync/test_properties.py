"""Properties of notes merge one by one, as sets do, and count as content everywhere."""

import asyncio
from dataclasses import replace

import pytest

from mcp_notarium.domain.conflict_copy import (
    StoredAs,
    compare_stored,
    differences,
    plan_repair,
    with_lost_tags,
)
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, flags
from mcp_notarium.errors import InvalidRequest, OutcomeUnknown
from support.memory_client import LIKE_TRILIUM, ROWS, Fault

NONE, PIN, BOTH = flags(), flags("pinned"), flags("pinned", "markdown")
MARKDOWN = flags("markdown")


def of(properties, text="x\n"):
    return Content(text, properties=properties)


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        (NONE, PIN, MARKDOWN, BOTH),
        (BOTH, PIN, MARKDOWN, NONE),
        (PIN, NONE, BOTH, MARKDOWN),
        (PIN, PIN, NONE, NONE),
        (NONE, PIN, PIN, PIN),
    ],
)
def test_each_property_is_merged_by_itself(base, mine, theirs, merged):
    assert merge_content(of(base), of(mine), of(theirs)) == of(merged)
    assert with_lost_tags(base=of(base), sent=of(mine), stored=of(theirs)) == of(merged)


def test_a_property_that_a_store_drops_is_seen_and_put_back():
    assert compare_stored(base=of(NONE), sent=of(PIN), stored=of(NONE)) is StoredAs.TAGS_LOST
    assert compare_stored(base=of(NONE), sent=of(PIN), stored=of(BOTH)) is StoredAs.MERGED
    repair = plan_repair(base=of(NONE), sent=of(PIN), theirs=of(MARKDOWN), stored=of(MARKDOWN))
    assert repair is not None
    assert repair.content == of(BOTH)
    assert plan_repair(base=of(NONE), sent=of(PIN), theirs=of(MARKDOWN), stored=of(BOTH)) is None
    assert differences(sent=of(PIN), stored=of(MARKDOWN)) == "markdown, pinned"


def set_elsewhere(store, note_id, properties):
    store.overwrite(note_id, store.fields(note_id) | {"properties": sorted(properties)})


@pytest.mark.parametrize("row", ["simplenote", "local"])
def test_a_pin_meets_another_property_that_was_set_elsewhere(clients, store, row):
    """The cache does not know of it yet: both stay, also a mark that only its own program knows."""
    client = clients(traits=replace(ROWS[row], properties=frozenset(BOTH)))

    async def scenario():
        note = await client.create("one\n")
        set_elsewhere(store, note.id, {"markdown", "later"})
        return await client.writer.save(note=note, content=of(PIN, "one\n"))

    saved = asyncio.run(scenario())
    assert store.fields(saved.note.id)["properties"] == ["later", "markdown", "pinned"]
    assert (saved.note.properties, saved.merged) == (BOTH, True)


def test_a_pin_without_an_answer_is_finished_from_the_journal(clients, store):
    client = clients()

    async def scenario():
        note = await client.create("one\n")
        client.remote.faults.plan(Fault.LOST_ANSWER, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.writer.save(note=note, content=of(PIN, "one\n"))
        assert [write.content for write in client.cache.journal.all()] == [of(PIN, "one\n")]
        await client.run_cycles(2)
        return note.id

    note_id = asyncio.run(scenario())
    assert client.note(note_id).properties == PIN
    assert store.contents() == {note_id: of(PIN, "one\n")}


def test_a_store_without_properties_refuses_one_and_says_what_it_has(clients, store):
    client = clients(traits=LIKE_TRILIUM)

    async def scenario():
        note = await client.create("one\n")
        with pytest.raises(InvalidRequest, match="no property pinned") as refused:
            await client.writer.save(note=note, content=of(PIN, "one\n"))
        return refused.value

    error = asyncio.run(scenario())
    assert (error.subcategory, error.resolution_hint[-5:]) == ("no_property", "none.")
