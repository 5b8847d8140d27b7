"""Test the real server under a policy: its tools, its answers, and two servers with two policies."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from notarium_devtools.simperium import Simulator
from support.policy_twins import same_word
from support.preloaded import ENTRY
from support.talker import ENVELOPE, Talker, call, modern
from support.whole import SERVE, Server, account_folder, environment, run, until

HIDES = '[notes]\nhidden_tags = ["private"]\n'
WORDS = ("tea", "milk", "garden", "gardens", "zymurgy", "report")
CLOCKS = ("created_at", "modified_at", "db_sync_duration_ms", "db_last_sync_at")
DRAWN = ("begin_untrusted", "untrusted_end")


def policy(folder: Path, text: str) -> None:
    (folder / "cache").mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "cache" / "policy.toml"
    path.write_text(text)
    path.chmod(0o600)


def listed(server: Server) -> set[str]:
    return {row["uuid"] for row in server.tool("list", limit=100, trash_status=2)["content"]}


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.put("seen", content="tea and milk", tags=["work"])
    simulator.put("kept", content="zymurgy", tags=["Private", "work"])
    with simulator.running():
        yield simulator


def test_a_tool_that_is_off_is_neither_listed_nor_callable_in_both_eras(simulator, tmp_path):
    policy(tmp_path, "[tools]\nmanage = false\n")
    env = environment(simulator, tmp_path) | {"NOTARIUM_READ_ONLY": "1"}
    with Server(env) as server:
        offered = server.ask({"jsonrpc": "2.0", "id": 90, "method": "tools/list"})
        assert [tool["name"] for tool in offered["result"]["tools"]] == ["list", "get"]
        for name in ("save", "manage"):
            refused = server.ask(call(91, name, action="get_stats"))["error"]
            assert refused["code"] == -32602
            assert refused["data"]["details"]["known"] == ["get", "list"]
        server.tool("list")
        again = server.ask({"jsonrpc": "2.0", "id": 92, "method": "tools/list"})
        assert again["result"] == offered["result"]
    with Talker(SERVE, env=env) as talker:
        offered = talker.ask(modern(1, "tools/list"))
        assert [tool["name"] for tool in offered["result"]["tools"]] == ["list", "get"]
        params = {"name": "save", "arguments": {"text": "x"}, "_meta": ENVELOPE}
        refused = talker.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        assert refused["error"]["code"] == -32602
        assert talker.ask(modern(3, "tools/list"))["result"] == offered["result"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")
@pytest.mark.parametrize("how", ["open to others", "a link", "by --env-file", "wrong"])
def test_a_policy_that_cannot_be_trusted_stops_the_start(simulator, tmp_path, how):
    policy(tmp_path, "[tools]\nsearch = false\n" if how == "wrong" else HIDES)
    path, more = tmp_path / "cache" / "policy.toml", []
    match how:
        case "open to others":
            path.chmod(0o644)
        case "a link":
            path.rename(tmp_path / "real.toml")
            path.symlink_to(tmp_path / "real.toml")
        case "by --env-file":
            more = ["--env-file", str(naming_another(tmp_path / "some.env"))]
    done = run(environment(simulator, tmp_path), *more)
    assert (done.returncode, done.stdout) == (1, "")
    assert '"level": "critical"' in done.stderr
    assert "policy" in done.stderr.lower()


def test_a_policy_that_a_working_folder_names_is_not_looked_at(simulator, tmp_path):
    policy(tmp_path, HIDES)
    here = tmp_path / "here"
    here.mkdir(mode=0o700)
    naming_another(here / ".env")
    with Server(environment(simulator, tmp_path), cwd=here) as server:
        server.loaded(1)
        assert server.leave() == 0
        assert "NOTARIUM_POLICY_FILE in .env is ignored" in server.errors()


def naming_another(settings: Path) -> Path:
    """A file of settings that names a policy without rules."""
    loose = settings.with_name("loose.toml")
    for path, text in ((loose, ""), (settings, f"NOTARIUM_POLICY_FILE={loose}\n")):
        path.touch(mode=0o600)
        path.write_text(text)
    return settings


@pytest.mark.attack(41)
def test_limits_hold_on_the_wire(simulator, tmp_path):
    policy(tmp_path, "[limits]\nbytes_per_session = 1000\n")
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(2)
        read = 0
        while not (result := server.result("get", id="seen")).get("isError"):
            read += len(result["content"][0]["text"].encode())
        assert read <= 1000
        refused = json.loads(result["content"][0]["text"])
        assert refused["subcategory"] == "policy"
        assert "restarted" in refused["resolution_hint"]


def test_hidden_notes_are_gone_at_the_next_start_and_come_back_with_the_old_rules(
    simulator, tmp_path
):
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.loaded(2)
        assert server.leave() == 0
    policy(tmp_path, HIDES)
    with Server(env) as server:
        until(lambda: not server.result("list").get("isError"))
        assert listed(server) == {"seen"}
        simulator.edit("seen", tags=["private"])
        until(lambda: listed(server) == set())
        simulator.edit("seen", tags=["work"])
        until(lambda: listed(server) == {"seen"})
        assert server.leave() == 0
    (tmp_path / "cache" / "policy.toml").unlink()
    with Server(env) as server:
        until(lambda: listed(server) == {"seen", "kept"})
        assert server.leave() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there the folder has no such lock")
def test_two_servers_with_different_rules_do_not_share_a_cache(simulator, tmp_path):
    env = environment(simulator, tmp_path)
    with Server(env) as first:
        first.loaded(2)
        policy(tmp_path, HIDES)
        with Server(env) as second:
            refused = second.error("list")
            assert refused["details"]["verdict"] == "busy"
            assert "close all MCP clients" in refused["resolution_hint"]
            assert listed(first) == {"seen", "kept"}
            assert first.leave() == 0
            until(lambda: not second.result("list").get("isError"))
            assert listed(second) == {"seen"}


def test_servers_started_at_once_after_a_change_of_the_rules_all_come_up(simulator, tmp_path):
    env = environment(simulator, tmp_path)
    with Server(env) as server:
        server.loaded(2)
        assert server.leave() == 0
    policy(tmp_path, HIDES)
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(env)) for _ in range(3)]
        for server in servers:
            server.send(call(f"first {id(server)}", "get", id="seen"))
        for server in servers:
            assert not server.receive()["result"].get("isError")
            until(lambda server=server: not server.result("list").get("isError"))
            assert listed(server) == {"seen"}


def test_a_server_that_holds_older_rules_stops(simulator, tmp_path):
    """What locks cannot keep out: the cache comes under other rules while a server runs."""
    env = environment(simulator, tmp_path, DB_ENCRYPTION="off", DB_ENCRYPTION_KEY=None)
    with Server(env) as server:
        server.loaded(2)
        script = (
            "import sys; from pathlib import Path; from mcp_notarium.storage import database_opener;"
            "d = database_opener.connect(Path(sys.argv[1]), None);"
            "d.run(\"INSERT INTO sync_metadata VALUES ('policy.visibility', 'other')\")"
        )
        path = account_folder(simulator, tmp_path) / "notarium_cache.sqlite"
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        refused = server.error("list")
        assert refused["subcategory"] == "policy_changed"
        assert "restart" in refused["resolution_hint"]
        assert server.error("get", id="seen")["subcategory"] == "policy_changed"
        assert server.leave() == 1


def masked(value: Any) -> Any:
    """The answer without clocks and made-up ids, and with one word for its boundaries."""
    if isinstance(value, str):
        return same_word(value)
    if isinstance(value, list):
        return [masked(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: "clock" if key in CLOCKS + DRAWN else masked(one) for key, one in value.items()}


@pytest.mark.attack(38)
def test_two_real_servers_answer_the_same_bytes_with_and_without_hidden_notes(tmp_path):
    dice = random.Random(7)
    one, other = Simulator(), Simulator()
    for number in range(30):
        text = "\n".join(" ".join(dice.choices(WORDS, k=4)) for _ in range(3))
        hidden = number % 3 == 0
        fields = {
            "content": f"secretive {text}" if hidden else text,
            "tags": ["private"] if hidden else dice.sample(["work", "home"], dice.randint(0, 2)),
            "creationDate": 1_700_000_000 + number,
            "modificationDate": 1_700_000_000 + number,
        }
        one.put(f"n{number}", **fields)
        if not hidden:
            other.put(f"n{number}", **fields)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir(mode=0o700)
        policy(tmp_path / folder, HIDES)
    with ExitStack() as stack:
        servers = []
        for simulator, folder in ((one, "a"), (other, "b")):
            stack.enter_context(simulator.running())
            env = environment(simulator, tmp_path / folder)
            servers.append(stack.enter_context(Server(env)))
        for server in servers:
            until(lambda server=server: not server.result("list").get("isError"))
        for turn in range(250):
            if turn % 25 == 24:
                one.edit("n0", content=f"secretive {turn}")
                hidden_elsewhere(one, other, servers, dice)
            tool, arguments = some_call(dice)
            answer, others = (masked(server.result(tool, **arguments)) for server in servers)
            if tool != "manage" and not answer.get("isError"):
                answer["content"] = others["content"] = None  # the same JSON, with clocks
            assert answer == others, (tool, arguments)
        for server in servers:
            assert server.leave() == 0


def hidden_elsewhere(
    one: Simulator, other: Simulator, servers: list[Server], dice: random.Random
) -> None:
    """Another device hides a note in the one account and removes it from the other."""
    note_id = dice.choice(sorted(other.notes()))
    if note_id in one.notes():
        one.edit(note_id, tags=["work", "Private"])
        other.delete(note_id)
        for server in servers:
            until(lambda server=server: server.result("get", id=note_id).get("isError"))


def some_call(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """A call that changes nothing, or changes both accounts alike."""
    note_id = f"n{dice.randrange(32)}"
    roll = dice.random()
    if roll < 0.5:
        query = " ".join(dice.choices((*WORDS, "secretiv", "secretive", "trash:any"), k=2))
        page = dice.randint(1, 4)
        # The two write at different moments: nothing may hang on which second it was.
        limit, by = dice.choice((1, 5, 100)), "created_at"
        return "list", {"query": query, "limit": limit, "page": page, "sort_by": by}
    if roll < 0.8:
        return "get", {"id": note_id}
    if roll < 0.9:
        tags = dice.sample(["work", "private"], 1)
        return "save", {"id": note_id, "local_version": 1, "tags": tags}
    action = dice.choice(("trash", "untrash", "delete_permanently"))
    return "manage", {"action": action, "id": note_id, "local_version": dice.randint(1, 3)}


def test_notes_whose_tags_cannot_be_read_are_hidden_by_a_rule_on_tags(tmp_path: Path) -> None:
    simulator = Simulator(poll_seconds=1.0)
    odd: dict[str, Any] = {"text": "private", "object": {"0": "private"}, "deep": [["private"]]}
    for note_id, tags in odd.items():
        simulator.put(note_id, content="odd\n", tags=tags)
    simulator.put("n0", content="normal\n")
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    (place / "policy.toml").touch(mode=0o600)
    (place / "policy.toml").write_text('[notes]\nhidden_tags = ["private"]\n')
    with simulator.running(), Server(environment(simulator, tmp_path)) as server:
        server.loaded(1)
        assert [row["uuid"] for row in server.tool("list")["content"]] == ["n0"]
        for note_id in odd:
            assert server.error("get", id=note_id)["category"] == "NOT_FOUND"
        server.leave()


PROFILES = """
[profiles.guest.notes]
hidden_tags = ["private"]
[profiles.reader]
mode = "read-only"
[profiles.owner]
"""


@pytest.mark.attack(38)
def test_two_profiles_of_one_account_see_different_notes_at_once_without_a_trace(tmp_path):
    """The guest's answers are those of an account without the private notes, while the owner works on these."""
    dice, one, other = random.Random(11), Simulator(), Simulator()
    for number in range(24):
        text = " ".join(dice.choices(WORDS, k=6))
        hidden = number % 3 == 0
        fields = {"content": f"secretive {text}" if hidden else text}
        fields |= {"tags": ["private"] if hidden else dice.sample(["work", "home"], 1)}
        fields |= dict.fromkeys(("creationDate", "modificationDate"), 1_700_000_000 + number)
        for simulator in (one, *(() if hidden else (other,))):
            simulator.put(f"n{number}", **fields)
    for folder, text in (("a", PROFILES), ("b", HIDES)):
        (tmp_path / folder).mkdir(mode=0o700)
        policy(tmp_path / folder, text)
    with ExitStack() as stack:
        env, alone = (
            environment(simulator, tmp_path / folder)
            for simulator, folder in ((one, "a"), (other, "b"))
            if stack.enter_context(simulator.running()) or True
        )
        guest = stack.enter_context(Server(env | {"NOTARIUM_PROFILE": "guest"}))
        without = stack.enter_context(Server(alone))
        for server in (guest, without):  # the first listing waits for all that is shown
            answers = (server.result("list", limit=1) for _ in range(1000))
            first = next(answer for answer in answers if not answer.get("isError"))
            assert first["structuredContent"]["total_items"] == 16
        owner = stack.enter_context(Server(env, command=[*ENTRY, "serve", "--profile", "owner"]))
        owner.loaded(24)
        for turn in range(40):
            if turn % 4 == 0:
                name = f"n{3 * dice.randrange(8)}"
                note = owner.tool("get", id=name)
                words = f"secretive {dice.choice(WORDS)} {turn}"
                owner.tool("save", id=name, local_version=note["local_version"], text=words)
                owner.tool("save", text=f"secretive of {turn}", tags=["private"])
                assert guest.error("get", id=name)["category"] == "NOT_FOUND"
            tool, arguments = some_call(dice)
            answer, others = (
                masked(server.result(tool, **arguments)) for server in (guest, without)
            )
            if tool != "manage" and not answer.get("isError"):
                answer["content"] = others["content"] = None
            assert answer == others, (tool, arguments)
        totals = [
            server.tool("manage", action="get_stats")["stats"]["db_total_notes"]
            for server in (guest, without)
        ]
        assert totals[0] == totals[1]
        assert owner.tool("list", query="secretive", limit=1)["total_items"] == 8 + 10
        for server in (guest, owner, without):
            assert server.leave() == 0


@pytest.mark.parametrize("name", ["nobody", "Guest"])
def test_a_profile_that_is_not_in_the_policy_stops_the_start_and_the_others_are_named(
    simulator, tmp_path, name
):
    policy(tmp_path, PROFILES)
    for env, more in (({}, ["serve", "--profile", name]), ({"NOTARIUM_PROFILE": name}, [])):
        done = run(environment(simulator, tmp_path) | env, *more)
        assert (done.returncode, done.stdout) == (1, "")
        assert "guest, reader, owner" in done.stderr
    (tmp_path / "cache" / "policy.toml").unlink()
    done = run(environment(simulator, tmp_path), "--profile", name)
    assert "there is no policy file" in done.stderr


def test_a_profile_narrows_modes_and_tools_of_its_own_client_alone(simulator, tmp_path):
    policy(tmp_path, PROFILES)
    env = environment(simulator, tmp_path)
    with Server(env | {"NOTARIUM_PROFILE": "reader"}) as reader, Server(env) as free:
        offered = reader.ask({"jsonrpc": "2.0", "id": 90, "method": "tools/list"})["result"]
        assert "save" not in [tool["name"] for tool in offered["tools"]]
        free.loaded(2)
        reader.loaded(2)
        refused = reader.error("manage", action="trash", id="seen", local_version=1)
        assert refused["subcategory"] == "policy"
        free.tool("save", text="free")
        until(lambda: len(listed(reader)) == 3)
