"""NOTARIUM_TOOL_PREFIX: the client knows other names; policy and audit log keep the plain ones."""

import json

import pytest
from mcp import MCPError

from mcp_notarium.domain.policy import PERMISSIVE, TOOLS, Policy
from mcp_notarium.protocol.static_replies import offering, read_replies
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools import static_replies as generator
from support.tool_client import connected
from support.tool_harness import ToolHarness

PREFIX = "notes_"
PLAIN = [f"`{name}`" for name in (*TOOLS, "AddNote", "GetNote", "ListNotes", "SearchNotes")]
OURS = find_toolset("titled").prefixed(PREFIX)
BOTH = find_toolset("plain_pascal_both").prefixed(PREFIX)


@pytest.mark.parametrize(
    ("toolset", "policy"),
    [
        ("notarium", PERMISSIVE),
        ("plain_pascal_both", Policy(switched_off=frozenset({"manage"})).read_only()),
    ],
)
def test_static_replies_have_the_names_that_the_sdk_says(toolset, policy):
    offered = find_toolset(toolset).prefixed(PREFIX).permitted(policy)
    narrowed = offering(read_replies(toolset), policy, PREFIX)
    made = json.loads(generator.text_of(generator.make(offered)))
    for replies in (narrowed, made):
        del replies["rules"], replies["needs"], replies["stands"]
    assert narrowed == made
    said = json.dumps(narrowed)
    assert "`notes_get`" in said
    assert "`notes_local_version`" not in said
    assert not [name for name in PLAIN if name in said]
    for listed in narrowed["lists"]:
        assert all(tool["name"].startswith(PREFIX) for tool in listed["tools"])


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_calls_and_hints_use_the_prefix_and_the_plain_name_is_unknown(harness, era):
    harness.store.put("n", "say `get`")
    await harness.sync()
    async with connected(harness.opened, era, toolset=OURS) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["notes_list", "notes_get", "notes_save", "notes_manage"]
        found = (await client.call_tool("notes_get", {"id": "n"})).structured_content
        assert found["text"] == "say `get`"
        missing = await client.call_tool("notes_get", {"id": "nowhere"})
        assert "`notes_list`" in json.loads(missing.content[0].text)["resolution_hint"]
        wrong = await client.call_tool("notes_save", {"colour": "red"})
        assert json.loads(wrong.content[0].text)["message"].startswith("`notes_save` refuses")
        with pytest.raises(MCPError) as caught:
            await client.call_tool("get", {"id": "n"})
        assert "notes_get" in caught.value.data["details"]["known"]
        harness.app.audit.flush()
        acts = {record.act for record in harness.app.audit.table.records()}
    assert acts >= {"tool.get", "tool.save", "tool.unknown"}


@pytest.mark.anyio
async def test_question_names_a_note_as_it_is(harness):
    harness.store.put("n", "say `get`", trash=True)
    await harness.sync()
    arguments = {"action": "delete_permanently", "id": "n", "local_version": 1}
    async with connected(harness.opened, "legacy", toolset=OURS) as client:
        refused = await client.call_tool("notes_manage", arguments)
    assert "say `get`" in json.loads(refused.content[0].text)["message"]


@pytest.mark.anyio
async def test_policy_knows_plain_names(tmp_path):
    policy = Policy(switched_off=frozenset({"get"}))
    harness = ToolHarness(tmp_path, policy=policy)
    try:
        async with connected(harness.opened, "legacy", toolset=BOTH.permitted(policy)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"notes_list", "notes_AddNote"} <= set(names)
            assert not {"notes_get", "notes_GetNote"} & set(names)
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert "summarize_notes" not in prompts
            asked = (await client.get_prompt("quick_note", {"content": "Buy milk"})).messages[0]
            assert "`notes_AddNote`" in asked.content.text
        async with connected(harness.opened, "legacy", toolset=BOTH) as client:
            refused = await client.call_tool("notes_get", {"id": "n"})
            assert "`notes_get` is switched off." in refused.content[0].text
    finally:
        harness.close()
