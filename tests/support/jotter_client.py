"""Make clients of the simulated Jotter, and run servers that know it by one line in the registry."""

from __future__ import annotations

from mcp_notarium.secret import Secret
from notarium_devtools.jotter.simulator import JotterSimulator
from notarium_devtools.jotter.store import Jotter
from support import other_store
from support.simplenote_client import QUICK

COMMAND = other_store.command("jotter", "notarium_devtools.jotter.kind")


def open_jotter(sim: JotterSimulator, *, timeout: float = 10.0) -> Jotter:
    """A store with the simulator's first token: quick retries, a feed that is asked often."""
    token = Secret(sim.token)
    return Jotter(sim.url, lambda: token, timeout=timeout, retry_policy=QUICK, poll_seconds=0.05)
