"""The bus of a login session, for a server that was started with a bare environment."""

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from mcp_notarium.keys import session_bus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="D-Bus sessions of Linux")

ADDRESS = "DBUS_SESSION_BUS_ADDRESS"


@pytest.fixture
def runtime(monkeypatch):
    """A runtime folder with a short path, as sockets need it, and nothing in the environment."""
    with tempfile.TemporaryDirectory(prefix="notarium-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        # Set first, so that what `find` sets is taken back as well.
        monkeypatch.setenv(ADDRESS, "")
        yield Path(folder)


@pytest.fixture
def listening(runtime):
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(runtime / "bus"))
        yield runtime / "bus"


def test_a_bus_at_its_usual_place_is_named(listening):
    session_bus.find()
    assert os.environ[ADDRESS] == f"unix:path={listening}"


def test_the_bus_that_is_named_is_left_alone(listening, monkeypatch):
    monkeypatch.setenv(ADDRESS, "unix:path=/elsewhere")
    session_bus.find()
    assert os.environ[ADDRESS] == "unix:path=/elsewhere"


def test_without_a_bus_nothing_is_named(runtime):
    session_bus.find()
    assert os.environ[ADDRESS] == ""


def test_what_is_no_socket_is_no_bus(runtime):
    (runtime / "bus").write_text("")
    session_bus.find()
    assert os.environ[ADDRESS] == ""


def test_a_link_to_a_socket_is_no_bus(listening):
    listening.rename(listening.with_name("real"))
    listening.symlink_to(listening.with_name("real"))
    session_bus.find()
    assert os.environ[ADDRESS] == ""


def test_somebody_elses_bus_is_not_trusted(listening, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: listening.stat().st_uid + 1)
    session_bus.find()
    assert os.environ[ADDRESS] == ""
