"""Titles of notes, where the store has them: shown, set, found, merged, hidden as text is."""

from dataclasses import replace

import pytest

from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.errors import InvalidRequest, NotPermitted, VersionConflict
from mcp_notarium.stores.contract import Changes, Versions, WriteGuard
from mcp_notarium.tools import get, list, save  # noqa: A004 - the tools are called so
from mcp_notarium.tools.requests import GetRequest, ListRequest, SaveRequest, TitledSaveRequest
from mcp_notarium.tools.untrusted_text import add_findings
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
LOCAL = {
    "titles": True,
    "changes": Changes.FEED,
    "write_guard": WriteGuard.CAS,
    "versions": Versions.NONE,
}


@pytest.fixture
def harness(tmp_path):
    made = ToolHarness(tmp_path, **LOCAL)
    made.store.put("plan", "Ship it.\n", title="Road  map")
    yield made
    made.close()


async def listed(harness, **arguments):
    answer = await list.handle(harness.app, ListRequest(**arguments), harness.caller)
    return [(row.uuid, row.title, row.text) for row in answer.content]


async def saved(harness, **arguments):
    return await save.handle(harness.app, TitledSaveRequest(**arguments), harness.caller)


async def test_a_title_is_listed_and_read_beside_the_text(harness):
    harness.store.put("plain", "no title\n")
    await harness.sync()
    assert await listed(harness) == [
        ("plain", None, "no title"),
        ("plan", "Road map", "Ship it."),
    ]
    note = await get.handle(harness.app, GetRequest(id="plan"), harness.caller)
    assert (note.title, note.text) == ("Road  map", "Ship it.\n")


@pytest.mark.parametrize(
    "query", ["road", "map", "roadmap OR maps", '"road map"', "road ship", "oad", "ma*"]
)
async def test_words_of_a_title_find_the_note(harness, query):
    await harness.sync()
    assert [row[0] for row in await listed(harness, query=query)] == ["plan"]
    assert await listed(harness, query="-road") == []


async def test_what_is_missing_is_said_and_only_what_the_store_has_is_offered(harness, tmp_path):
    await harness.sync()
    with pytest.raises(InvalidRequest, match="`title` cannot be saved without `local_version`"):
        await saved(harness, id="plan", title="New")
    with pytest.raises(InvalidRequest, match="`tags` and `title` cannot be saved without"):
        await saved(harness, id="plan", title="New", tags=["x"], append="more")
    for words, more in (
        ("`task` by line", {"task": "31"}),
        ("`section` by number or line", {"section": "1", "append": "x"}),
        ("`text` and `section` by number or line", {"section": "line 2", "text": "x"}),
    ):
        with pytest.raises(
            InvalidRequest, match=f"^{words} cannot be saved without `local_version`"
        ):
            await saved(harness, id="plan", **more)
    with pytest.raises(InvalidRequest, match="needs `text`; it may be empty"):
        await saved(harness, title="New")
    with pytest.raises(InvalidRequest, match="Nothing to save") as nothing:
        await saved(harness, id="plan", local_version=1)
    assert "`title`" in nothing.value.resolution_hint
    (tmp_path / "other").mkdir()
    plain = ToolHarness(tmp_path / "other", properties=frozenset())
    plain.store.put("plan", "Ship it.\n")
    await plain.sync()
    with pytest.raises(InvalidRequest) as nothing:
        await save.handle(plain.app, SaveRequest(id="plan"), plain.caller)
    plain.close()
    assert "`tags`, `trash`." in nothing.value.resolution_hint


async def test_a_word_that_has_left_a_title_finds_nothing(harness):
    await harness.sync()
    await saved(harness, id="plan", local_version=1, title="Größe 東京")
    assert await listed(harness, query="road") == []
    for query in ("grösse", "東京"):
        assert [row[0] for row in await listed(harness, query=query)] == ["plan"]


async def test_save_sets_a_title_changes_it_alone_and_takes_it_away(harness):
    await harness.sync()
    made = await saved(harness, title="  New\nline ", text="x\n", return_text=True)
    assert (made.title, made.text) == ("New line", "x\n")
    after = await saved(harness, id=made.id, local_version=made.local_version, title="Newer")
    assert (after.title, after.text, after.changed) == ("Newer", None, None)
    assert harness.store.contents()[made.id] == Content("x\n", title="Newer")
    same = await saved(harness, id=made.id, local_version=after.local_version, title="Newer")
    assert same.unchanged
    gone = await saved(harness, id=made.id, local_version=after.local_version, title="")
    assert gone.title is None
    with pytest.raises(InvalidRequest, match="1001 characters"):
        await saved(harness, title="x" * 1001, text="x")


async def test_a_store_without_titles_refuses_one(tmp_path):
    harness = ToolHarness(tmp_path)
    await harness.sync()
    with pytest.raises(InvalidRequest, match="no title of their own"):
        await saved(harness, title="T", text="x")
    assert harness.store.ids() == set()
    assert "title" not in SaveRequest.model_fields
    harness.close()


async def test_titles_merge_as_a_field_and_two_new_ones_conflict(harness):
    await harness.sync()
    harness.store.put("plan", "Ship it.\n", title="Theirs")
    both = await saved(
        harness, id="plan", local_version=1, text="Ship it.\nSoon.\n", return_text=True
    )
    assert (both.title, both.text, both.merged) == ("Theirs", "Ship it.\nSoon.\n", True)
    harness.store.put("plan", both.text, title="Again")
    with pytest.raises(VersionConflict) as caught:
        await saved(harness, id="plan", local_version=both.local_version, title="Mine")
    assert caught.value.details["current_title"] == "Again"
    assert harness.store.fields("plan")["title"] == "Again"


@pytest.mark.parametrize(
    ("mine", "theirs", "merged"),
    [("a", "b", "b"), ("c", "a", "c"), ("c", "c", "c"), ("c", "b", None), (None, "a", None)],
)
def test_one_changed_title_wins(mine, theirs, merged):
    base = Content("x\n", title="a")
    made = merge_content(base, replace(base, title=mine), replace(base, title=theirs))
    clash = (mine, theirs) == ("c", "b")
    assert made == (None if clash else replace(base, title=merged))


async def test_a_hidden_text_hides_the_title(tmp_path):
    harness = ToolHarness(tmp_path, policy=Policy(hidden_fields=frozenset({Field.TEXT})), **LOCAL)
    harness.store.put("plan", "Ship it.\n", title="Road map")
    await harness.sync()
    assert await listed(harness) == [("plan", None, "(hidden by the user's policy)")]
    note = await get.handle(harness.app, GetRequest(id="plan"), harness.caller)
    assert note.title is None
    with pytest.raises(NotPermitted):
        await saved(harness, id="plan", local_version=1, title="Mine")
    harness.close()


def test_invisible_characters_of_a_title_are_reported():
    assert add_findings({"title": "a\u202eb", "text": "", "tags": []})["findings"] == [
        {"kind": "bidi", "count": 1, "where": "title"}
    ]
    row = {"title": "a\u200bb", "text": "", "tags": []}
    assert add_findings({"content": [row]})["content"][0]["hidden"] == ["zero_width"]
