"""Map store names to classes, imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mcp_notarium.errors import ConfigError

_CLASSES = {
    "simplenote": "mcp_notarium.stores.simplenote.store:SimplenoteStore",
}


def names() -> tuple[str, ...]:
    """Return the names a configuration may use."""
    return tuple(_CLASSES)


def load(name: str) -> type[Any]:
    """Load the store class of that name. Raises ``ConfigError`` for an unknown name.

    Constructors differ, because services differ in what they need; ``app`` knows them.
    """
    path = _CLASSES.get(name)
    if path is None:
        raise ConfigError(
            f"there is no store named {name!r}",
            resolution_hint=f"Use one of: {', '.join(_CLASSES)}.",
        )
    module, _, attribute = path.partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found
