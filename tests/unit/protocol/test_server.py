"""The last resort of ``serve``: whatever goes wrong, one line and no trace with paths and values."""

import json

import pytest

from mcp_notarium.errors import ConfigError
from mcp_notarium.protocol import server


def one_line(capsys):
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return json.loads(line)


@pytest.mark.parametrize(
    "error", [RuntimeError("/home/ada/notes"), PermissionError(13, "denied", "/home/ada")]
)
def test_a_fault_is_one_critical_line_without_paths_and_values(monkeypatch, capsys, error):
    def fault(*_given):
        raise error

    monkeypatch.setattr(server, "_serve", fault)
    assert server.serve() == 1
    said = one_line(capsys)
    assert (said["level"], said["event"]) == ("critical", "server.crashed")
    assert type(error).__name__ in json.dumps(said)
    assert "report" in said["hint"]
    assert "ada" not in json.dumps(said)


def test_a_refusal_that_nobody_caught_keeps_its_words(monkeypatch, capsys):
    def refuse(*_given):
        raise ConfigError("it is wrong", resolution_hint="Change it.")

    monkeypatch.setattr(server, "_serve", refuse)
    assert server.serve() == 1
    assert (said := one_line(capsys))["message"] == "it is wrong"
    assert said["hint"] == "Change it."
