"""A client's entry names a profile: the server that it starts keeps to it, and every record and answer about it says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.whole import Server, run

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the folders are those of POSIX"),
    pytest.mark.slow("it makes an account and starts servers as a client does"),
]
POLICY = """
[profiles.guest]
mode = "write"
[profiles.guest.notes]
hidden_tags = ["private"]
writable_tags = ["agent"]
"""


def test_a_client_keeps_its_profile_until_it_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "NOTARIUM_KEYCHAIN": "off"}

    def entry() -> list[str]:
        servers = json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]
        return [servers["notarium"]["command"], *servers["notarium"]["args"]]

    def ask(*words: str) -> dict[str, object]:
        done = run(env, *words, "--json")
        return json.loads(done.stdout)

    made = run(env, "setup", "--yes")
    assert made.returncode == 0, made.stderr
    install = ("install", "--client", "cursor", "--yes")
    policy = tmp_path / ".local/share/mcp-notarium/policy.toml"
    policy.write_text(POLICY)
    policy.chmod(0o600)
    with Server(env, command=entry()) as server:
        server.tool("save", text="kept secret", tags=["private"])
        mine = server.tool("save", text="for everybody", tags=["agent"])["id"]
        other = server.tool("save", text="to be read")["id"]
        assert server.leave() == 0

    assert run(env, *install, "--profile", "guest").returncode == 0
    assert run(env, *install).returncode == 0
    assert entry()[-2:] == ["--profile", "guest"]
    with Server(env, command=entry()) as server:
        assert server.tool("list")["total_items"] == 2
        server.tool("save", id=mine, append="more")
        said = server.error("save", id=other, append="more")
        assert '"agent"' in said["resolution_hint"]
        assert server.leave() == 0
    kept = [json.loads(line) for line in run(env, "audit", "tail", "--json").stdout.splitlines()]
    calls = [one for one in kept if str(one["act"]).startswith("tool.")]
    assert [one["facts"].get("profile") for one in calls][-4:] == ["guest"] * 4
    assert "guest" not in json.dumps(calls[:2])
    assert "(profile guest)" in run(env, "report", str(tmp_path / "page.html"), "--json").stdout
    shown = ask("policy", "show", "--profile", "guest")
    assert {"rule": "mode", "value": "write", "from": "policy.toml, line 3"} in shown["rules"]  # type: ignore[operator]
    assert ask("policy", "explain", "--profile", "guest", other, "save")["allowed"] is False

    assert run(env, *install, "--no-profile").returncode == 0
    assert "--profile" not in entry()
    again = ("setup", "--yes", "--client", "cursor", "--no-recovery", "--profile")
    refused = run(env, *again, "nobody")
    assert refused.returncode == 1
    assert "guest" in refused.stderr
    assert "--profile" not in entry()
    assert run(env, *again, "guest").returncode == 0
    assert entry()[-2:] == ["--profile", "guest"]
    assert "profiles: guest" in run(env, "doctor").stdout
