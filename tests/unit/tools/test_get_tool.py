"""``get``: the right note, the right version, the right lines, or an error that helps."""

import pytest

from mcp_notarium.errors import InvalidRequest, NoteNotFound, StoreUnavailable, VersionConflict
from mcp_notarium.tools import get
from mcp_notarium.tools.requests import GetRequest
from support.memory_client import Fault
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio


async def read(harness: ToolHarness, **arguments):
    return await get.handle(harness.app, GetRequest(**arguments), harness.caller)


async def test_note_comes_with_everything_the_contract_names(harness):
    harness.store.put("n", "one\r\ntwo", tags=["b", "A"], trash=True, now=1_700_000_000.9)
    await harness.sync()
    answer = await read(harness, id="n")
    assert answer.model_dump(exclude_none=True) == {
        "id": "n",
        "local_version": 1,
        "server_version": 1,
        "text": "one\r\ntwo",
        "tags": ["b", "A"],
        "modified_at": 1_700_000_000,
        "created_at": 1_700_000_000,
        "trash": True,
        "text_is_partial": False,
        "text_total_lines": 2,
    }


@pytest.mark.parametrize(
    "text", ["", "\n", "\ufeffbom", "a\x00b", "emoji \U0001f469\u200d\U0001f680", "a\r"]
)
async def test_any_text_comes_back_byte_for_byte(harness, text):
    harness.store.put("n", text)
    await harness.sync()
    assert (await read(harness, id="n")).text == text


async def test_empty_note_has_no_lines_and_is_whole(harness):
    harness.store.put("n", "")
    await harness.sync()
    answer = await read(harness, id="n", range_line_start=1)
    assert (answer.text, answer.text_total_lines, answer.text_is_partial) == ("", 0, False)


async def test_range_says_what_it_is_and_where_to_go_on(harness):
    harness.store.put("n", "1\n2\n3\n4\n")
    await harness.sync()
    answer = await read(harness, id="n", range_line_start=2, range_line_count=2)
    assert answer.text == "2\n3\n"
    assert answer.text_is_partial
    assert answer.text_total_lines == 4
    assert (answer.range_line_start, answer.range_line_count) == (2, 2)
    assert answer.next_range_line_start == 4


async def test_count_zero_is_to_the_end_and_count_alone_begins_at_the_first_line(harness):
    harness.store.put("n", "1\n2\n3")
    await harness.sync()
    assert (await read(harness, id="n", range_line_start=2, range_line_count=0)).text == "2\n3"
    assert (await read(harness, id="n", range_line_count=1)).text == "1\n"


async def test_range_beyond_the_end_is_an_error(harness):
    harness.store.put("n", "1\n2\n3")
    await harness.sync()
    with pytest.raises(InvalidRequest) as caught:
        await read(harness, id="n", range_line_start=4)
    assert caught.value.details == {"total_lines": 3}


async def test_megabyte_is_read_in_parts_of_one_version(harness):
    text = "".join(f"{n} some words to fill a line\n" for n in range(30_000))
    harness.store.put("n", text)
    await harness.sync()
    answer = await read(harness, id="n")
    parts, version = [answer.text], answer.local_version
    assert answer.text_is_partial
    while answer.next_range_line_start:
        start = answer.next_range_line_start
        answer = await read(harness, id="n", local_version=version, range_line_start=start)
        parts.append(answer.text)
    assert "".join(parts) == text


async def test_stale_version_is_refused_with_the_current_one(harness):
    harness.store.put("n", "old")
    await harness.sync()
    harness.store.put("n", "new")
    await harness.sync()
    with pytest.raises(VersionConflict) as caught:
        await read(harness, id="n", local_version=1, range_line_start=1)
    assert caught.value.subcategory == "version_changed"
    assert caught.value.details["current_local_version"] == 2
    assert (await read(harness, id="n", local_version=2)).text == "new"


async def test_unknown_id_is_an_error_and_never_a_search(harness):
    harness.store.put("n", "lighthouse")
    await harness.sync()
    harness.remote.calls.clear()
    with pytest.raises(NoteNotFound) as caught:
        await read(harness, id="lighthouse")
    assert caught.value.details == {"id": "lighthouse"}
    assert harness.remote.calls == ["get"]


async def test_a_note_that_was_made_elsewhere_a_moment_ago_is_fetched(harness):
    harness.store.put("n", "known")
    await harness.sync()
    harness.store.put("new", "just made")
    assert (await read(harness, id="new")).text == "just made"
    harness.remote.calls.clear()
    assert (await read(harness, id="new")).text == "just made"
    assert harness.remote.calls == []


async def test_an_unknown_id_is_the_same_error_if_the_store_cannot_be_asked(harness):
    harness.store.put("n", "known")
    await harness.sync()
    harness.remote.faults.plan(Fault.UNAVAILABLE, on="get")
    with pytest.raises(NoteNotFound):
        await read(harness, id="new")


async def test_during_the_first_sync_the_service_is_asked_and_the_note_kept(harness):
    harness.store.put("n", "not loaded yet")
    assert (await read(harness, id="n")).text == "not loaded yet"
    harness.remote.calls.clear()
    assert (await read(harness, id="n")).text == "not loaded yet"
    assert harness.remote.calls == []


async def test_during_the_first_sync_an_unknown_id_is_still_unknown(harness):
    with pytest.raises(NoteNotFound):
        await read(harness, id="nowhere")


async def test_during_the_first_sync_an_unreachable_service_is_said_to_be_so(harness):
    harness.remote.faults.plan(Fault.UNAVAILABLE, on="get")
    with pytest.raises(StoreUnavailable) as error:
        await read(harness, id="n")
    assert "first sync" in error.value.resolution_hint
