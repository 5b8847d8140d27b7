"""Test servers of one account, some with an old password, as two clients' configurations have."""

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, until


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator(poll_seconds=1.0)
    with simulator.running():
        yield simulator


@pytest.fixture(name="old")
def _old(simulator, tmp_path):
    """A server that leads, until the password is changed on another device."""
    simulator.put("n1", content="one")
    with Server(environment(simulator, tmp_path)) as server:
        server.loaded(1)
        simulator.change_password("a new long password")
        yield server


def test_a_server_with_the_new_password_brings_news_to_one_with_the_old(simulator, tmp_path, old):
    with Server(environment(simulator, tmp_path)) as new:
        simulator.put("n2", content="two")
        new.loaded(2)
        old.loaded(2)
        until(lambda: not _needs_login(old))
        old.tool("save", text="three")  # by the token that the other one was given
        new.loaded(3)


def test_as_long_as_nobody_has_the_new_password_all_say_so(simulator, tmp_path, old):
    password = {"SIMPLENOTE_PASSWORD": "the old one"}
    with Server(environment(simulator, tmp_path, **password)) as other:
        until(lambda: _needs_login(old) and _needs_login(other))
        assert [server.tool("list")["total_items"] for server in (old, other)] == [1, 1]


def _needs_login(server):
    return server.tool("manage", action="get_stats")["stats"]["needs_login"]
