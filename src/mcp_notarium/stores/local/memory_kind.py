"""Declare the notebook in memory: the tables of the local one, in a database that no file ever holds."""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.stores.kind import AccountIdentity, StoreSettings
from mcp_notarium.stores.local.kind import KIND as LOCAL


def _identity(_settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("memory", "", "")


KIND = replace(
    LOCAL,
    name="memory",
    title="the notebook in memory",
    place="",
    variables=(),
    identity=_identity,
    tables=None,  # every database of the program has them already
    copies=lambda _settings: 0,
    persistent=False,
)
