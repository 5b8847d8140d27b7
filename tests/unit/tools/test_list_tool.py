"""``list``: the right rows, honest totals, and a word about what may be missing."""

from dataclasses import replace

import anyio
import pytest

from mcp_notarium.errors import QueryError, Restated, StillLoading
from mcp_notarium.tools import list as list_
from mcp_notarium.tools.requests import ListRequest
from mcp_notarium.tools.sync_notice import status_sentence
from support.memory_client import Fault
from support.tool_harness import NOW, ToolHarness

pytestmark = pytest.mark.anyio

DAY = 86_400


async def find(harness: ToolHarness, **arguments):
    request = ListRequest.model_validate(arguments)
    return await list_.handle(harness.app, request, harness.caller)


def ids(answer):
    return [row.uuid for row in answer.content]


async def test_row_has_exactly_the_fields_of_the_contract(harness):
    harness.store.put("n", "\n  Title  \nbody", tags=["b", "A"], now=NOW)
    await harness.sync()
    answer = (await find(harness)).model_dump(exclude_none=True)
    assert answer == {
        "content": [
            {
                "type": "text",
                "uuid": "n",
                "text": "Title",
                "local_version": 1,
                "tags": ["b", "A"],
                "modified_at": int(NOW),
                "trash": False,
            }
        ],
        "total_items": 1,
    }


async def test_empty_account_is_an_empty_page(harness):
    await harness.sync()
    answer = await find(harness)
    assert (answer.content, answer.total_items) == ([], 0)
    assert (answer.next_page, answer.sync) == (None, None)


async def test_pages_follow_each_other_and_end(harness):
    for n in range(5):
        harness.store.put(f"n{n}", f"note {n}", now=NOW + n)
    await harness.sync()
    seen, page = [], 1
    while page:
        answer = await find(harness, limit=2, page=page)
        assert answer.total_items == 5
        seen += ids(answer)
        page = answer.next_page
    assert seen == ["n4", "n3", "n2", "n1", "n0"]


@pytest.mark.parametrize("page", [4, 10**9, 10**30])
async def test_page_beyond_the_end_is_empty_with_honest_totals(harness, page):
    for n in range(5):
        harness.store.put(f"n{n}", "x")
    await harness.sync()
    answer = await find(harness, limit=2, page=page)
    assert (answer.content, answer.total_items, answer.next_page) == ([], 5, None)


async def test_sorting_by_creation_and_in_both_directions(harness):
    harness.store.put("old", "x", now=NOW)
    harness.store.put("new", "x", now=NOW + 10)
    harness.store.put("old", "changed", now=NOW + 20)
    await harness.sync()
    assert ids(await find(harness)) == ["old", "new"]
    assert ids(await find(harness, sort_order="ASC")) == ["new", "old"]
    assert ids(await find(harness, sort_by="created_at")) == ["new", "old"]


async def test_previews_have_as_many_lines_as_asked_and_are_never_empty(harness):
    harness.store.put("a", "one\n\n two \nthree\nfour", now=NOW)
    harness.store.put("b", " \n\t", now=NOW - 1)
    await harness.sync()
    assert [row.text for row in (await find(harness)).content] == ["one", "(empty note)"]
    rows = (await find(harness, preview_lines=3)).content
    assert [row.text for row in rows] == ["one\ntwo\nthree", "(empty note)"]


async def test_preview_of_many_long_lines_stays_bounded(harness):
    harness.store.put("a", ("x" * 500 + "\n") * 50)
    await harness.sync()
    lines = (await find(harness, preview_lines=20)).content[0].text.split("\n")
    assert [len(line) for line in lines] == [80] * 20


async def test_trash_is_left_out_unless_asked_for_and_the_text_wins(harness):
    harness.store.put("active", "x", now=NOW + 1)
    harness.store.put("trashed", "x", trash=True, now=NOW)
    await harness.sync()
    assert ids(await find(harness)) == ids(await find(harness, trash_status=0)) == ["active"]
    assert ids(await find(harness, trash_status=1)) == ["trashed"]
    assert ids(await find(harness, trash_status=2)) == ["active", "trashed"]
    assert ids(await find(harness, query="trash:yes", trash_status=0)) == ["trashed"]


async def test_every_row_tells_its_type_and_whether_it_is_in_the_trash(harness):
    harness.store.put("active", "x", now=NOW + 1)
    harness.store.put("trashed", "x", trash=True, now=NOW)
    await harness.sync()

    async def told(**arguments):
        rows = (await find(harness, **arguments)).model_dump(exclude_none=True)["content"]
        assert {row["type"] for row in rows} == {"text"}
        return [row["trash"] for row in rows]

    assert await told() == await told(query="trash:no", trash_status=2) == [False]
    assert await told(trash_status=1) == await told(query="in:trash") == [True]
    assert await told(trash_status=2) == await told(query="trash:any") == [False, True]


async def test_tags_and_dates_from_arguments_and_text_hold_together(harness):
    harness.store.put("a", "x", tags=["red", "big"], now=NOW)
    harness.store.put("b", "x", tags=["red"], now=NOW - 2 * DAY)
    await harness.sync()
    assert ids(await find(harness, tags=["RED"])) == ["a", "b"]
    assert ids(await find(harness, tags=["red"], query="tag:big")) == ["a"]
    assert ids(await find(harness, date_after="2025-06-15")) == ["a"]
    assert ids(await find(harness, date_before="2025-06-15")) == ["a", "b"]
    assert ids(await find(harness, date_before="2025-06-14")) == ["b"]
    assert ids(await find(harness, date_before="2025-06-14", query="after:2025-06-14")) == []
    assert ids(await find(harness, date_after="2025-06-13", date_before="2025-06-13")) == ["b"]


async def test_words_find_and_impossible_filters_are_errors(harness):
    harness.store.put("a", "the lighthouse keeper")
    await harness.sync()
    assert ids(await find(harness, query="keeper")) == ["a"]
    for query in ('"', "AND (", "don't *", "a:b -", "x'; DROP TABLE notes"):
        await find(harness, query=query)
    with pytest.raises(QueryError):
        await find(harness, query="before:2024-99-99")


async def test_words_inside_words_are_found_and_said_so(harness):
    harness.store.put("a", "Dampfschifffahrt")
    await harness.sync()
    answer = await find(harness, query="schiff")
    assert (ids(answer), answer.inside_words) == (["a"], True)


async def test_rows_say_why_they_match_unless_they_show_it(harness):
    harness.store.put("a", "Plan\n\nask the keeper\n", now=NOW)
    harness.store.put("b", "The keeper", now=NOW)
    harness.store.put("c", "Plan", tags=["keeper"], now=NOW)
    await harness.sync()
    answer = await find(harness, query="keeper")
    rows = {row["uuid"]: row for row in answer.model_dump(exclude_none=True)["content"]}
    assert rows["a"]["match"] == {"line": 3, "text": "ask the keeper"}
    assert "match" not in rows["b"]
    assert "match" not in rows["c"]
    assert ids(answer)[0] == "b"
    assert all(row.match is None for row in (await find(harness)).content)
    assert all(row.match is None for row in (await find(harness, query="tag:keeper")).content)


async def test_a_misspelt_word_is_searched_as_what_is_clearly_meant(harness):
    for n in range(3):
        harness.store.put(f"n{n}", f"the lighthouse {n}")
    await harness.sync()
    answer = await find(harness, query="lighthuose")
    assert answer.total_items == 3
    assert answer.corrected == {"lighthuose": "lighthouse"}
    assert answer.suggestions is None


async def test_rows_say_which_words_they_lack_and_the_answer_how_many_notes_have_all(harness):
    harness.store.put("a", "pancakes for breakfast, pacave")
    harness.store.put("b", "pana and ripe; pancakes", tags=["x"])
    await harness.sync()
    answer = await find(harness, query='pancakes recipe "for breakfast" pan* -no')
    assert [(row.uuid, row.lacks) for row in answer.content] == [("a", ["recipe"])]
    assert (answer.total_items, answer.have_all) == (1, 0)
    answer = await find(harness, query="pancakes ripe breakfast")
    assert {row.uuid: row.lacks for row in answer.content} == {"a": ["ripe"], "b": ["breakfast"]}
    assert (answer.total_items, answer.have_all) == (2, 0)
    assert (await find(harness, query="recipe")).total_items == 0
    answer = await find(harness, query="pancakes ripe")
    assert {row.uuid: row.lacks for row in answer.content} == {"a": ["ripe"], "b": None}
    assert (answer.total_items, answer.have_all) == (2, 1)


async def test_only_words_without_a_hit_get_suggestions(harness):
    harness.store.put("a", "calendar")
    harness.store.put("b", "calendars lighthouse")
    await harness.sync()
    answer = await find(harness, query="calendar AND lihgthouse")
    assert (answer.total_items, answer.suggestions) == (0, ["lighthouse"])


async def test_brand_new_cache_waits_for_the_first_page_and_its_properties(harness):
    for n in range(3):
        harness.store.put(f"n{n}", "---\nrating: 5\n---\nx")

    async def sync() -> None:
        await anyio.sleep(0.05)
        await harness.sync()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sync)
            answer = await find(harness, query="rating:>=4")
    assert [row.properties for row in answer.content] == [{"rating": 5}] * 3


async def test_incomplete_cache_says_how_far_it_is(harness):
    for n in range(150):
        harness.store.put(f"n{n}", "x")
    page = await harness.remote.list_page(since=None, mark=None, limit=100, with_content=True)
    with harness.app.cache.transaction():
        harness.app.cache.notes.apply(page.entries)
        harness.app.cache.progress.mark_page(
            anchor=page.cursor,
            mark="x",
            total=page.total,
            began_empty=True,
            left_out=0,
            codec_version=1,
        )
    answer = await find(harness)
    assert answer.total_items == 100
    assert answer.sync
    assert (answer.sync.loaded, answer.sync.total, answer.sync.complete) == (100, 150, False)
    assert "100 of 150" in answer.sync.note


async def test_unreachable_service_does_not_make_a_new_cache_wait(harness):
    harness.ticking = True
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=99)
    async with harness.syncing():
        with anyio.fail_after(5), pytest.raises(Restated) as caught:
            await find(harness)
    assert caught.value.kind.subcategory == "unavailable"
    assert caught.value.kind.retryable
    assert "have not been loaded" in caught.value.message
    assert "mcp-notarium doctor" in caught.value.resolution_hint


async def test_a_new_cache_without_a_login_is_an_error_with_the_way_out(harness):
    harness.store.put("n", "x")
    harness.remote.faults.plan(Fault.LOGIN, times=99)
    async with harness.syncing():
        with anyio.fail_after(5), pytest.raises(Restated) as caught:
            await find(harness)
    assert (caught.value.kind.category, caught.value.kind.subcategory) == ("AUTH", "login_required")
    assert "mcp-notarium login" in caught.value.resolution_hint


async def test_a_load_that_takes_long_is_no_empty_page(harness, monkeypatch):
    monkeypatch.setattr("mcp_notarium.tools.sync_notice.FIRST_PAGE_SECONDS", 0.3)
    with pytest.raises(StillLoading) as caught:
        await find(harness)
    assert caught.value.retryable


async def test_rows_beyond_the_maximum_are_not_given_and_that_is_said(harness):
    for n in range(105):
        harness.store.put(f"n{n}", "x")
    await harness.sync()
    answer = await find(harness, limit=500, preview_lines=99)
    assert (len(answer.content), answer.next_page) == (100, 2)
    assert answer.note == "`limit` is at most 100 and `preview_lines` is at most 20; that was used."
    assert (await find(harness, limit=100)).note is None


async def test_missing_login_is_said_with_the_way_out(harness):
    harness.store.put("n", "x")
    await harness.sync()
    harness.remote.faults.plan(Fault.LOGIN, times=99)
    async with harness.syncing():
        with anyio.fail_after(5):
            assert not await harness.app.scheduler.sync_now(4)
            answer = await find(harness)
    assert ids(answer) == ["n"]
    assert answer.sync
    assert "mcp-notarium login" in answer.sync.note
    assert "2025-06-15" in answer.sync.note


async def test_failure_is_mentioned_until_a_cycle_goes_well(harness):
    await harness.sync()
    assert (await find(harness)).sync is None
    harness.remote.faults.plan(Fault.UNAVAILABLE, times=1)
    harness.now += 12 * 60
    await harness.sync()
    answer = await find(harness)
    assert answer.sync
    assert answer.sync.state == "backing_off"
    assert answer.sync.note.startswith("The last sync failed: ")
    assert answer.sync.note.endswith("Notes are as of 2025-06-15 15:06 UTC, 12 min ago.")
    assert len(answer.sync.note) < 140
    await harness.sync()
    assert (await find(harness)).sync is None


async def test_before_the_first_cycle_has_ended_an_old_failure_is_not_mentioned(harness):
    cache = harness.app.cache
    with cache.transaction():  # as an earlier process left it
        cache.progress.mark_page(
            anchor=harness.store.cursor(),
            mark=None,
            total=0,
            began_empty=True,
            left_out=0,
            codec_version=1,
        )
        cache.sync_state.record_cycle(at=NOW, duration_ms=1, status="backing_off", error="away")
    assert (await find(harness)).sync
    harness.remote.faults.plan(Fault.HANG_BEFORE, times=9)
    async with harness.syncing():
        await anyio.wait_all_tasks_blocked()
        assert harness.app.scheduler.status().leader
        assert (await find(harness)).sync is None


async def test_halted_sync_names_the_way_out(harness):
    for n in range(30):
        harness.store.put(f"n{n}", "x")
    await harness.sync()
    status = replace(
        harness.app.scheduler.status(), state="halted", last_error="30 of 30 notes vanished"
    )
    note = status_sentence(status, now=harness.now + 7200)
    assert "30 of 30 notes vanished" in note
    assert "`mcp-notarium reset-cache`" in note
    assert note.endswith("2 h ago.")


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"),
     (172_799, "47 h"), (172_800, "2 days"), (400 * 86_400, "400 days")],
)  # fmt: skip
async def test_age_is_given_in_a_unit_with_a_value_of_at_least_two(harness, seconds, age):
    await harness.sync()
    status = replace(harness.app.scheduler.status(), last_error="no", last_sync_at=NOW)
    assert status_sentence(status, now=NOW + seconds).endswith(f", {age} ago.")


async def test_a_filter_of_another_search_that_finds_nothing_is_named(harness):
    harness.store.put("n", "title:page of a book")
    await harness.sync()
    found = await find(harness, query="title:page", limit=1000)
    assert (found.total_items, found.note) == (1, "`limit` is at most 100; that was used.")
    empty = await find(harness, query="title:nothing")
    assert empty.note.startswith("`title:` was searched for as text. Filters: tag:")
