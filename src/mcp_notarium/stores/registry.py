"""Map store names to classes, imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mcp_notarium.errors import ConfigError

_PLACES = {
    "simplenote": "mcp_notarium.stores.simplenote.store:SimplenoteStore",
}


def names() -> tuple[str, ...]:
    """The names a configuration may use."""
    return tuple(_PLACES)


def load(name: str) -> type[Any]:
    """The store class of that name. Raises ``ConfigError`` for a name nobody has.

    Constructors differ, because services differ in what they need; the one place that wires the
    house knows them.
    """
    place = _PLACES.get(name)
    if place is None:
        raise ConfigError(
            f"there is no store named {name!r}",
            resolution_hint=f"Use one of: {', '.join(_PLACES)}.",
        )
    module, _, attribute = place.partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found
