"""Test the real program, as a client starts it, over a note service on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from mcp_notarium.config import Config
from mcp_notarium.tools.catalog import TOOLS, wire_form
from support.json_schema import validate
from support.long import sample
from support.simplenote_settings import simplenote
from support.talker import HELLO, INITIALIZED, Talker, call, modern
from support.whole import SERVE, until

pytestmark = pytest.mark.timeout(90)

KEY = "raw:" + "5a" * 32
COMMAND = [sys.executable, "-m", "mcp_notarium"]


def content_of(answer):
    return json.loads(answer["result"]["content"][0]["text"])


def environment_of(pid):
    """The process's environment as others may see it: not at all, or without its secrets."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


async def converse(account, era):
    """Find, read, change, patch, trash and look at the numbers; everything checked on the way."""
    parameters = StdioServerParameters(
        command=COMMAND[0], args=COMMAND[1:], env=account.environment()
    )
    schemas = {tool.name: wire_form(tool)["outputSchema"] for tool in TOOLS}

    async with Client(parameters, mode=era, read_timeout_seconds=40) as client:

        async def use(name, **arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            assert json.loads(result.content[0].text) == result.structured_content
            validate(result.structured_content, schemas[name])
            return result.structured_content

        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["list", "get", "save", "manage"]
        found = await use("list", query="lighthouse")
        assert [row["uuid"] for row in found["content"]] == ["diary"]
        note = await use("get", id="shopping")
        patch = [{"operation": "addition", "line_number": 4, "value": "- eggs"}]
        saved = await use(
            "save", id="shopping", local_version=note["local_version"], text_patch=patch
        )
        assert saved["changed"] == [{"line": 2, "text": "- milk\n- bread\n- eggs\n"}]
        assert account.simulator.notes()["shopping"]["content"] == note["text"] + "- eggs\n"
        gone = await use(
            "manage", action="trash", id="shopping", local_version=saved["local_version"]
        )
        assert gone["status"] == "trashed"
        numbers = (await use("manage", action="get_stats"))["stats"]
        assert numbers["db_encryption"] == "on"
        assert numbers["db_cipher_version"].startswith("4.")
        assert numbers["db_total_notes"] == 2
        missing = await client.call_tool("get", {"id": "lighthouse"})
        assert missing.is_error
        assert missing.structured_content is None


@pytest.mark.parametrize("era", sample("eras of a conversation", ["legacy", "auto"], 1))
def test_whole_conversation_in_both_eras(account, era):
    async def bounded():
        with anyio.fail_after(80):
            await converse(account, era)

    anyio.run(bounded)


@pytest.mark.parametrize(
    "question", [HELLO, modern(0, "server/discover")], ids=["legacy", "modern"]
)
def test_copy_that_is_thrown_away_opens_nothing(account, question):
    with Talker(COMMAND, env=account.environment()) as talker:
        assert "result" in talker.ask(question)
        talker.hang_up()
        code, seconds = talker.leave()
        assert talker.errors() == ""
    assert code == 0
    assert seconds < 5
    assert not account.folder.exists()
    assert account.simulator.requests == []


def test_secrets_leave_the_environment_though_the_client_only_shakes_hands(account):
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.ask(HELLO)
        until(lambda: KEY.encode() not in environment_of(talker.process.pid))
        assert account.simulator.password.encode() not in environment_of(talker.process.pid)
        assert not account.folder.exists()


def test_signal_before_anything_is_open_ends_it_cleanly(account):
    with Talker(COMMAND, env=account.environment()) as talker:
        talker.ask(HELLO)
        talker.signal(signal.SIGTERM)
        code = talker.leave()[0]
        assert (code, talker.errors()) == (0, "")


def test_piped_conversation_is_answered_by_the_real_server(account):
    lines = [HELLO, INITIALIZED, call(1, "list"), call(2, "get", id="diary")]
    sent = "\n".join(json.dumps(line) for line in lines)
    done = subprocess.run(
        COMMAND, input=sent.encode(), capture_output=True, timeout=40, check=True,
        env=account.environment(),
    )  # fmt: skip
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers.keys() == {0, 1, 2}
    assert content_of(answers[1])["total_items"] == 2
    assert content_of(answers[2])["text"].startswith("Diary")


def test_second_start_answers_from_the_cache_without_the_service(account):
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        assert content_of(talker.ask(call(1, "list")))["total_items"] == 2
        talker.signal(signal.SIGTERM)
        assert talker.leave()[0] == 0
        assert "Traceback" not in talker.errors()
    account.simulator.stop_listening()
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        assert content_of(talker.ask(call(1, "list", query="milk")))["total_items"] == 1
        refused = talker.ask(call(2, "save", text="new"))
        assert refused["result"]["isError"]
        assert content_of(refused)["subcategory"] in ("unavailable", "login_required")
        talker.hang_up()
        code, seconds = talker.leave()
    assert code == 0
    assert seconds < 10
    text = b"".join(path.read_bytes() for path in account.folder.rglob("*") if path.is_file())
    assert b"milk" not in text


def refused_at_once(environment):
    """Start a server that must refuse before the handshake; gives its one line on stderr."""
    done = subprocess.run(
        COMMAND, input=json.dumps(HELLO).encode() + b"\n", capture_output=True, timeout=30,
        check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "critical" in line.lower()
    return line


def test_plain_mode_beside_an_encrypted_cache_refuses_before_the_handshake(account):
    config = Config(
        **simplenote(account.simulator.username, SIMPERIUM_API_URL=account.simulator.api_url),
        data_dir=account.folder,
    )
    config.account_dir.mkdir(mode=0o700, parents=True)
    encrypted = config.account_dir / "notarium_cache.0123456789abcdef.sqlite.encrypted"
    encrypted.touch(mode=0o600)
    assert "DB_ENCRYPTION=off" in refused_at_once(account.environment(DB_ENCRYPTION="off"))


def test_unsafe_folder_refuses_before_the_handshake(account):
    account.folder.mkdir()
    account.folder.chmod(0o777)
    assert "chmod" in refused_at_once(account.environment())


def test_handshake_needs_none_of_the_heavy_packages():
    program = """
import sys
from pathlib import Path
from mcp_notarium.protocol import server as run
from mcp_notarium.config import load
from mcp_notarium.protocol.startup_checks import refuse_early
refuse_early(load({"SIMPLENOTE_USERNAME": "u"}, cwd=Path("/")).config)
run.read_replies()
heavy = {"asyncio", "anyio", "mcp", "mcp_types", "pydantic", "httpx", "keyring", "structlog",
         "logging", "argparse", "sqlcipher3", "cryptography", "platformdirs",
         "importlib.metadata", "subprocess", "socket", "ssl", "shutil", "lzma",
         "rich", "questionary", "prompt_toolkit", "tomlkit", "tomllib"}
print(sorted(heavy & sys.modules.keys()))
"""
    environment = os.environ | {"HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=30, check=True,
        env=environment,
    )  # fmt: skip
    assert done.stdout == b"[]\n"


def test_call_while_the_first_sync_runs_is_served(account):
    account.simulator.load(
        {f"n{n}": {"content": f"note {n}", "tags": [], "systemTags": [], "deleted": False,
                   "creationDate": 1.0 + n, "modificationDate": 1.0 + n} for n in range(700)}
    )  # fmt: skip
    account.simulator.latency = 0.3
    with Talker(SERVE, env=account.environment()) as talker:
        talker.greet()
        oldest = content_of(talker.ask(call(1, "get", id="n0")))
        assert oldest["text"] == "note 0"
        first = content_of(talker.ask(call(2, "list")))
        assert first["content"]
        assert first["total_items"] == 702 or not first["sync"]["complete"]
        deadline = time.monotonic() + 40
        while content_of(talker.ask(call(3, "list")))["total_items"] < 702:
            assert time.monotonic() < deadline
        talker.hang_up()
        assert talker.leave()[0] == 0


@pytest.mark.attack(44)
def test_module_in_the_working_folder_is_not_run_though_started_by_its_name(account, tmp_path):
    """What Python itself imports before the program begins cannot be kept from the working folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    for module in ("argparse", "pydantic", "sqlcipher3"):
        hostile = f"open('it-ran-{module}', 'w').close()\nraise SystemExit(9)\n"
        (folder / f"{module}.py").write_text(hostile)
    lines = [HELLO, INITIALIZED, call(1, "list"), call(2, "manage", action="get_stats")]
    done = subprocess.run(
        COMMAND, input="\n".join(map(json.dumps, lines)).encode(), cwd=folder,
        env=account.environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    helped = subprocess.run([*COMMAND, "--help"], cwd=folder, capture_output=True, check=False)
    assert (done.returncode, helped.returncode) == (0, 0)
    assert len(done.stdout.splitlines()) == 3
    assert not list(folder.glob("it-ran-*"))
