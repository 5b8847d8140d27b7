"""An embedded Simperium: a real HTTP server on loopback for the demo and the tests.

``with Simulator().running() as sim:`` and speak to ``sim.url``. What it models and how sure we are
of it stands in docs/simulator.md.
"""

from __future__ import annotations

from mcp_notarium.simulator.accounts import Account, Doors
from mcp_notarium.simulator.device import Device, whole_note
from mcp_notarium.simulator.faults import Faults, Rule
from mcp_notarium.simulator.http import Logged
from mcp_notarium.simulator.rules import Refused
from mcp_notarium.simulator.simulator import Simulator
from mcp_notarium.simulator.store import Bucket
from mcp_notarium.simulator.versions import Limits

__all__ = [
    "Account",
    "Bucket",
    "Device",
    "Doors",
    "Faults",
    "Limits",
    "Logged",
    "Refused",
    "Rule",
    "Simulator",
    "whole_note",
]
