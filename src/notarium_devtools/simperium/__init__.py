"""Simulate Simperium: a real HTTP server on loopback for the demo and the tests.

Use ``with Simulator().running() as sim:`` and send requests to ``sim.url``. docs/simulator.md says what it
models and how certain that is.
"""

from __future__ import annotations

from notarium_devtools.http_faults import Rule
from notarium_devtools.http_server import Logged
from notarium_devtools.simperium.accounts import Account, LoginRules
from notarium_devtools.simperium.changes import SimperiumFaults
from notarium_devtools.simperium.device import Device, whole_note
from notarium_devtools.simperium.objects import Limits, Refused
from notarium_devtools.simperium.simulator import Simulator
from notarium_devtools.simperium.store import Bucket

__all__ = [
    "Account",
    "Bucket",
    "Device",
    "Limits",
    "Logged",
    "LoginRules",
    "Refused",
    "Rule",
    "SimperiumFaults",
    "Simulator",
    "whole_note",
]
