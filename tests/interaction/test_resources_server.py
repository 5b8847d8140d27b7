"""A real, confined server: names with a prefix, a note as a resource, and a change that is told."""

import json
import os

import pytest

from mcp_notarium.sandbox import landlock
from support.talker import call
from support.whole import Server

pytestmark = pytest.mark.slow("a server of its own, which looks for changes once a second")


def test_subscribed_note_that_changes_is_told_and_read(tmp_path):
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NOTARIUM_DATA_DIR": str(tmp_path / "data"),
        "NOTARIUM_SANDBOX": "require" if landlock.version() else "off",
        "NOTARIUM_STORE": "memory",
        "NOTARIUM_TOOL_PREFIX": "n_",
    }
    with Server(env) as server:

        def ask(number, method, **params):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            return server.ask(request)["result"]

        def save(number, **arguments):
            result = ask(number, "tools/call", name="n_save", arguments=arguments)
            return json.loads(result["content"][0]["text"])

        assert ask(100, "tools/list")["tools"][0]["name"] == "n_list"
        note = save(101, text="hello")
        (row,) = ask(102, "resources/list", cursor="1")["resources"]
        word = row["name"].rpartition(":")[2]
        assert row["name"] == f"note data {word}: hello :{word}"
        assert row["uri"] == f"note://{note['id']}"
        assert ask(103, "resources/subscribe", uri=row["uri"]) == {}
        changed = {"id": note["id"], "local_version": note["local_version"], "text": "changed"}
        server.send(call(104, "n_save", **changed))
        # The change may be told before the answer.
        answer, told = sorted((server.receive(), server.receive()), key=lambda one: "method" in one)
        assert answer["id"] == 104
        assert told["method"] == "notifications/resources/updated"
        assert told["params"] == {"uri": row["uri"]}
        (content,) = ask(105, "resources/read", uri=row["uri"])["contents"]
        assert json.loads(content["text"])["text"] == "changed"
        assert server.leave() == 0
