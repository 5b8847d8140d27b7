"""Configuration: variables from the environment become one frozen :class:`Config`.

The only room that reads ``os.environ``. It logs nothing and creates nothing: what was odd but
usable comes back as warnings, what was not raises ``ConfigError`` with what to do about it.
"""

from mcp_notarium.config.loader import (
    Loaded,
    Setting,
    inspect,
    inspect_here,
    load,
    load_here,
    secrets_here,
)
from mcp_notarium.config.settings import Config, Sandbox
from mcp_notarium.config.variables import secret_names

__all__ = [
    "Config",
    "Loaded",
    "Sandbox",
    "Setting",
    "inspect",
    "inspect_here",
    "load",
    "load_here",
    "secret_names",
    "secrets_here",
]
