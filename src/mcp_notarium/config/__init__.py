"""Load the configuration: variables from the environment become one frozen :class:`Config`.

Only this package reads settings from ``os.environ``. It logs nothing and creates nothing. What is unusual
but usable is returned as warnings; what is not usable raises ``ConfigError`` that says what to do.
"""

from mcp_notarium.config.common_variables import secret_names
from mcp_notarium.config.loader import (
    Loaded,
    Setting,
    account_dir_here,
    inspect,
    inspect_here,
    load,
    load_here,
    secrets_here,
)
from mcp_notarium.config.settings import Config, Sandbox

__all__ = [
    "Config",
    "Loaded",
    "Sandbox",
    "Setting",
    "account_dir_here",
    "inspect",
    "inspect_here",
    "load",
    "load_here",
    "secret_names",
    "secrets_here",
]
