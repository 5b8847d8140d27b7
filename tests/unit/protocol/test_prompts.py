"""The prompts beside our tools: in both eras, for every store, and only where their tools are offered."""

from datetime import datetime

import pytest
from mcp import MCPError

from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.protocol.static_replies import offering, read_replies
from mcp_notarium.stores import registry
from mcp_notarium.tools.catalog import NOTARIUM
from support.tool_client import connected

OURS = {"daily_note", "meeting_note", "tidy_tags"}


def listed(toolset, policy=PERMISSIVE):
    replies = offering(read_replies(toolset), policy)
    (modern,) = replies["modern"].values()
    for way in (replies["handshake"], modern):
        yield {prompt["name"] for prompt in way["prompts/list"]["result"]["prompts"]}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_prompt_has_what_was_given_and_the_names_of_the_tools(harness, era):
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    toolset = NOTARIUM.prefixed("n_")
    async with connected(harness.opened, era, toolset=toolset) as client:
        assert {prompt.name for prompt in (await client.list_prompts()).prompts} == OURS

        async def text_of(name, **given):
            (message,) = (await client.get_prompt(name, given)).messages
            assert message.role == "user"
            return message.content.text

        assert f"my daily note of {today}." in await text_of("daily_note")
        told = await text_of("daily_note", date="2025-01-31", entry="Saw a lighthouse {save}.")
        assert "my daily note of 2025-01-31." in told
        assert "Saw a lighthouse {save}." in told
        assert f"“Roof {today}”" in await text_of("meeting_note", topic=" Roof ")
        for prompt in NOTARIUM.prompts:
            said = await text_of(prompt.name)
            assert all(f"`n_{tool}`" in said for tool in prompt.tools)
        assert all(f"`{action}`" in said for action in ("list_tags", "rename_tag"))
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("nothing", {})
    assert set(caught.value.data["details"]["known"]) == OURS


@pytest.mark.parametrize("kind", [kind.name for kind in registry.kinds()])
def test_every_store_has_them_and_a_policy_without_their_tools_has_none(kind):
    toolset = "titled" if registry.kind(kind).titles else "notarium"
    assert list(listed(toolset)) == [OURS, OURS]
    assert list(listed(toolset, Policy().read_only())) == [set(), set()]
    for off, left in (("get", {"tidy_tags"}), ("manage", OURS - {"tidy_tags"}), ("save", set())):
        assert list(listed(toolset, Policy(switched_off=frozenset({off})))) == [left, left]


def test_both_toolsets_have_the_prompts_of_both():
    assert all(names > OURS for names in listed("plain_pascal_both"))
    assert not any(names & OURS for names in listed("plain_pascal"))
