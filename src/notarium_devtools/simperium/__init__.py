"""An embedded Simperium: a real HTTP server on loopback for the demo and the tests.

``with Simulator().running() as sim:`` and speak to ``sim.url``. What it models and how sure we are
of it stands in docs/simulator.md.
"""

from __future__ import annotations

from notarium_devtools.simperium.accounts import Account, Doors
from notarium_devtools.simperium.device import Device, whole_note
from notarium_devtools.simperium.faults import Faults, Rule
from notarium_devtools.simperium.http import Logged
from notarium_devtools.simperium.rules import Refused
from notarium_devtools.simperium.simulator import Simulator
from notarium_devtools.simperium.store import Bucket
from notarium_devtools.simperium.versions import Limits

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
