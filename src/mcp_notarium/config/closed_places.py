"""Name the places of this program, of its clients and of notes, from which no agent may take a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from mcp_notarium.config import accounts
from mcp_notarium.config.settings import Config
from mcp_notarium.config.sources import known_names, read_env_file
from mcp_notarium.errors import ConfigError
from mcp_notarium.system import SYSTEM

_APP_FOLDERS = ("LOCALAPPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME")
"""Name the folders in which clients keep their settings, and tokens in them, where these are not hidden."""


def find_closed_places(config: Config) -> Iterator[Path]:
    """Yield the places of this program, its clients and the notes of this account."""
    access = config.store.access(config.store_settings)
    yield from (config.data_dir, config.account_dir, *access.read, *access.write)
    yield from (one for one in (config.log_file, config.meaning_model) if one is not None)
    yield from config.closed_places  # defence: settings-files-closed
    yield from find_app_places()


def find_other_accounts(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files and folders that accounts name, also those of which only a client's configuration tells. Raises ``AccountError``."""
    from mcp_notarium.clients.client_files import find_entries  # noqa: PLC0415 - seldom needed
    from mcp_notarium.clients.known_clients import CLIENTS  # noqa: PLC0415 - the same

    known, copies = known_names(), Path()
    with suppress(RuntimeError):  # no home folder
        folder = accounts.config_dir(environ)
        copies = folder / "clients"
        for account in accounts.read_accounts(folder).values():
            yield from accounts.find_places(account.variables)
    for entry in find_entries(environ, copies, CLIENTS):
        # Of other variables one may name the home folder.
        given = {name: text for name, text in entry.variables.items() if name in known}
        given["--env-file"] = entry.env_file
        with suppress(RuntimeError):
            yield SYSTEM.user_folder("data", entry.variables)
        with suppress(ConfigError, RuntimeError):
            given = {**read_env_file(Path(entry.env_file).expanduser()), **given}
        yield from accounts.find_places(given)  # defence: client-accounts-closed -given


def find_app_places() -> Iterator[Path]:
    """Yield the places of this program and its clients that no account names."""
    with suppress(RuntimeError):  # no home folder
        yield SYSTEM.user_folder("config", os.environ)
    with suppress(RuntimeError):
        yield SYSTEM.user_folder("data", os.environ)
    with suppress(RuntimeError):
        yield SYSTEM.app_folder(os.environ)  # defence: app-folder-closed
    named = map(os.environ.get, _APP_FOLDERS)
    yield from (Path(one) for one in named if one)
