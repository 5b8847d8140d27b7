"""Several notes in one call, and sections, under a policy: hidden notes do not exist, limits count, each note is on record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.domain.policy import Field, Limits, Policy, Visibility
from mcp_notarium.secret import Secret
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
NOTE, OTHER, HIDDEN = (digit * 32 for digit in "abc")
KEYS = AuditKeys(Secret(b"c" * 32), Secret(b"d" * 32), Secret(b"a" * 32))
TEXT = "# Plan\na\n# Costs\nb\n"


@asynccontextmanager
async def client_under(folder: Path, policy: Policy) -> AsyncIterator[tuple[Client, ToolHarness]]:
    harness = ToolHarness(folder, policy=policy, audit_keys=KEYS)
    harness.store.put(NOTE, TEXT, tags=["open"])
    harness.store.put(OTHER, TEXT * 500, tags=["open"])
    harness.store.put(HIDDEN, TEXT, tags=["private"])
    await harness.sync()
    async with connected(harness.opened) as client:
        yield client, harness
    harness.close()


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.structured_content is not None:
        return result.structured_content
    found: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return found


async def test_a_hidden_note_is_one_that_there_is_not(tmp_path: Path) -> None:
    policy = Policy(visibility=Visibility(hidden_tags=("private",)))
    async with client_under(tmp_path, policy) as (client, _):
        answer = await call(client, "get", ids=[HIDDEN, NOTE, "d" * 32])
    hidden, note, missing = answer["notes"]
    assert note["text"] == TEXT
    assert hidden["error"] == missing["error"]
    assert hidden["asked"] == HIDDEN


async def test_each_note_that_was_read_is_on_record(tmp_path: Path) -> None:
    async with client_under(tmp_path, Policy()) as (client, harness):
        await call(client, "get", ids=[NOTE, "nowhere", OTHER])
        harness.app.audit.flush(wait=True)
        [record] = harness.app.audit.table.records()
        error = await call(client, "get", ids=[HIDDEN], id=NOTE)
    assert (record.act, json.loads(record.notes)) == ("tool.get", [NOTE, OTHER])
    assert error["subcategory"] == "arguments"


async def test_invisible_characters_are_named_in_the_row_of_their_note(tmp_path: Path) -> None:
    async with client_under(tmp_path, Policy()) as (client, harness):
        harness.store.put("e" * 32, "a\nb\u200bc", tags=["open"])
        await harness.sync()
        plain, odd = (await call(client, "get", ids=[NOTE, "e" * 32]))["notes"]
    assert "findings" not in plain
    assert odd["findings"] == [{"kind": "zero_width", "count": 1, "first_line": 2}]


async def test_the_limits_of_the_policy_count_each_note(tmp_path: Path) -> None:
    limits = Limits(notes_per_call=1)
    async with client_under(tmp_path, Policy(limits=limits)) as (client, _):
        first, second = (await call(client, "get", ids=[NOTE, OTHER]))["notes"]
    assert first["text"] == TEXT
    assert second["error"]["subcategory"] == "policy"


@pytest.mark.parametrize("most", [3_000, 6_000])
async def test_several_notes_stay_within_the_bytes_of_one_answer(tmp_path: Path, most: int) -> None:
    limits = Limits(bytes_per_call=most, bytes_per_session=most + 2_000)
    async with client_under(tmp_path, Policy(limits=limits)) as (client, _):
        result = await client.call_tool("get", {"ids": [OTHER, NOTE]})
        size = len(result.content[0].text.encode())  # type: ignore[union-attr]
        assert result.structured_content is not None
        long, short = result.structured_content["notes"]
        assert short["text"] == TEXT
        assert TEXT[:6] in long["text"]
        assert long["text_is_partial"]
        assert size <= most
        over = await call(client, "get", ids=[OTHER, NOTE])
    assert "untrusted_end" in over or over["subcategory"] == "policy"


async def test_where_texts_are_hidden_no_section_tells_of_them(tmp_path: Path) -> None:
    async with client_under(tmp_path, Policy(hidden_fields=frozenset({Field.TEXT}))) as (client, _):
        there = await call(client, "get", id=NOTE, section="Costs")
        nowhere = await call(client, "get", id=NOTE, section="Nowhere")
        assert (there["text"], "headings" in there) == ("", False)
        assert {**there, "begin_untrusted": "", "untrusted_end": ""} == {
            **nowhere,
            "begin_untrusted": "",
            "untrusted_end": "",
        }
        [several] = (await call(client, "get", ids=[NOTE]))["notes"]
        assert (several["text"], "headings" in several) == ("", False)
        for change in ({"append": "x"}, {"heading": "x"}):
            error = await call(client, "save", id=NOTE, section="Costs", **change)
            assert error["subcategory"] == "policy"


async def test_where_tags_are_hidden_none_comes_or_goes(tmp_path: Path) -> None:
    async with client_under(tmp_path, Policy(hidden_fields=frozenset({Field.TAGS}))) as (client, _):
        for change in ({"add_tags": ["x"]}, {"remove_tags": ["open"]}):
            assert (await call(client, "save", id=NOTE, **change))["subcategory"] == "policy"


async def test_no_tag_hides_a_note_or_takes_its_allowance_away(tmp_path: Path) -> None:
    rules = Visibility(hidden_tags=("private",), allowed_tags=("open",), untagged=False)
    async with client_under(tmp_path, Policy(visibility=rules)) as (client, _):
        for change in ({"add_tags": ["private"]}, {"remove_tags": ["open"]}):
            assert (await call(client, "save", id=NOTE, **change))["subcategory"] == "policy"
        done = await call(client, "save", id=NOTE, add_tags=["more"])
    assert done["tags"] == ["open", "more"]


async def test_a_guess_at_a_heading_counts_as_reading(tmp_path: Path) -> None:
    limits = Limits(bytes_per_session=2_000)
    async with client_under(tmp_path, Policy(limits=limits)) as (client, _):
        for _number in range(20):
            error = await call(client, "save", id=NOTE, section="Nowhere", append="x")
            if error["subcategory"] == "policy":
                break
        assert error["subcategory"] == "policy", "the words of headings are text of notes"
