"""Make the settings of a Simplenote account."""

from mcp_notarium.secret import Secret
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.simplenote.kind import KIND, USERNAME


def simplenote_settings(username: str = "", **given: str) -> StoreSettings:
    """Return the settings of that user; ``given`` are other variables, the rest have their defaults."""
    values = {one.name: one.default for one in KIND.variables} | {USERNAME: username} | given
    secrets = {one.name for one in KIND.variables if one.secret}
    return StoreSettings(
        texts={name: text for name, text in values.items() if name not in secrets},
        secrets={name: Secret(values[name]) for name in secrets if values[name]},
    )


def simplenote(username: str = "", **given: str) -> dict:
    """Return the two fields of a configuration for Simplenote."""
    return {"store": KIND, "store_settings": simplenote_settings(username, **given)}
