"""List the kinds of note stores: one line per store, the default first."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from mcp_notarium.stores.kind import StoreKind

_MODULES = {
    "simplenote": "mcp_notarium.stores.simplenote.kind",
    "local": "mcp_notarium.stores.local.kind",
    "memory": "mcp_notarium.stores.local.kind",
    "trilium": "mcp_notarium.stores.trilium.kind",
    "memento": "mcp_notarium.stores.memento.kind",
    "vault": "mcp_notarium.stores.vault.kind",
}
DEFAULT = next(iter(_MODULES))
WITHOUT_ACCOUNT = "local"
"""The store for people who have no account anywhere."""


def names() -> tuple[str, ...]:
    """Return the names a configuration may use."""
    return tuple(_MODULES)


@cache
def kind(name: str) -> StoreKind:
    """Return the kind of that name, which is one of :func:`names`."""
    module = _MODULES[name]
    loaded = import_module(module)
    found: StoreKind = loaded.MEMORY if name == "memory" else loaded.KIND
    return found


def kinds() -> tuple[StoreKind, ...]:
    """Return every kind."""
    return tuple(map(kind, _MODULES))
