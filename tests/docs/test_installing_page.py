"""Test the units of docs/installing.md: systemd knows every line, and the server works on a socket."""

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs/installing.md").read_text(encoding="utf-8")
UNITS = dict(
    re.findall(r"`/etc/systemd/user/(notarium[^`]*)`:\n\n```ini\n(.*?)```", PAGE, re.DOTALL)
)
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_knows_every_line(tmp_path):
    assert set(UNITS) == {"notarium.socket", "notarium@.service"}
    for name, text in UNITS.items():
        runnable = text.replace("/usr/local/bin/mcp-notarium", sys.executable)
        (tmp_path / name).write_text(runnable)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *(tmp_path / name for name in UNITS)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line], done.stderr
    assert "Unknown" not in done.stderr


def test_server_speaks_on_a_socket_as_on_pipes(tmp_path):
    client, server = socket.socketpair()
    with (
        client,
        server,
        subprocess.Popen(
            [sys.executable, "-m", "mcp_notarium", "serve"],
            stdin=server,
            stdout=server,
            stderr=subprocess.PIPE,
            env={"NOTARIUM_STORE": "memory", "HOME": str(tmp_path)},
        ) as process,
    ):
        server.close()
        client.settimeout(30)
        client.sendall(INITIALIZE)
        answer = json.loads(client.makefile("rb").readline())
        client.shutdown(socket.SHUT_WR)
        assert answer["result"]["serverInfo"]
        assert process.wait(30) == 0


@pytest.mark.parametrize("name", ["README.md", "docs/installing.md"])
def test_lines_to_copy_have_no_comment_that_zsh_would_run(name):
    """An interactive zsh takes `#` for a word, and what stands in backticks behind it for a command."""
    text = (TOP / name).read_text(encoding="utf-8")
    if name == "README.md":
        text = text.split("## Set it up")[1].split("## What an agent can do")[0]
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert blocks
    assert [
        line for block in blocks for line in block.splitlines() if re.search(r"(^|\s)#", line)
    ] == []
