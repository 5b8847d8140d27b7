"""Declare the notebook in memory: the tables of the local one, in a database that no file ever holds."""

from __future__ import annotations

from mcp_notarium.stores.kind import AccountIdentity, StoreKind, StoreSettings, Truth
from mcp_notarium.stores.local.kind import KIND as LOCAL


def _identity(_settings: StoreSettings) -> AccountIdentity:
    return AccountIdentity("memory", "", "")


KIND = StoreKind(
    name="memory",
    title="the notebook in memory",
    truth=Truth.LOCAL,
    variables=(),
    identity=_identity,
    open=LOCAL.open,
    access=LOCAL.access,
    titles=LOCAL.titles,
    trash=LOCAL.trash,
    properties=LOCAL.properties,
    native_toolset=LOCAL.native_toolset,
    persistent=False,
)
"""Every database of the program has the tables already, so none are declared here."""
