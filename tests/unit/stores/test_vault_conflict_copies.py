"""Test where a text goes that a vault's note cannot hold beside another program's."""

import asyncio

import pytest

from mcp_notarium.domain.policy import Policy, Visibility
from mcp_notarium.stores.vault import note_writer
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools import save
from mcp_notarium.tools.requests import SaveRequest
from support.tool_harness import ToolHarness

OLD = b"# Plan\n- one\n"


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(visibility=Visibility(allowed_paths=("Work",)))]
)
def test_a_conflict_copy_lies_beside_its_note(tmp_path, monkeypatch, policy):
    vault = tmp_path / "vault"
    (vault / "Work").mkdir(parents=True)
    plan = vault / "Work" / "plan.md"
    plan.write_bytes(OLD)
    (tmp_path / "cache").mkdir(mode=0o700)
    harness = ToolHarness(tmp_path / "cache", policy=policy, remote=VaultStore(vault))

    def raced():
        if plan.read_bytes() == OLD:
            plan.write_bytes(b"# Plan\n- theirs\n")

    async def story():
        await harness.sync()
        monkeypatch.setattr(note_writer, "check_not_withdrawn", raced)
        request = SaveRequest(id="Work/plan.md", local_version=1, text="# Plan\n- ours\n")
        answer = await save.handle(harness.app, request, harness.caller)
        await harness.sync()
        await harness.remote.close()
        return answer

    answer = asyncio.run(story())
    texts = {path.relative_to(vault).as_posix(): path.read_text() for path in vault.rglob("*.md")}
    assert sorted(texts.values()) == ["# Plan\n- ours\n", "# Plan\n- theirs\n"]
    assert all(path.startswith("Work/") for path in texts), texts
    assert answer.conflict_copy_id in texts
    harness.close()
