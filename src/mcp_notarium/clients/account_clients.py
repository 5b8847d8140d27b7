"""Tell which MCP clients of this user have which account: what their files say of servers of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_notarium.clients import client_files
from mcp_notarium.clients.known_clients import all_clients
from mcp_notarium.errors import NotariumError

_PROFILE = "--profile"


@dataclass(frozen=True, slots=True)
class ClientEntry:
    """Hold one server of ours in a client's file.

    ``account``: the one it names, '' for none. ``variables``: those it sets. ``profile``: of the policy, '' for none.
    """

    client: str
    account: str
    variables: Mapping[str, str]
    profile: str

    @property
    def shown(self) -> str:
        """Return the client for a list."""
        return f"{self.client} ({self.profile})" if self.profile else self.client


def find_entries(environ: Mapping[str, str], copies: Path) -> list[ClientEntry]:
    """Return every server of ours in the files of clients; files that cannot be read are left out."""
    found: list[ClientEntry] = []
    for one in all_clients(environ):
        with suppress(NotariumError):
            file = client_files.read_file(one, environ, copies)
            found += [_read(one.title, entry) for entry in client_files.ours(file).values()]
    return found


def _read(title: str, entry: Mapping[str, Any]) -> ClientEntry:
    given = entry.get("env")
    variables = given if isinstance(given, dict) else {}
    return ClientEntry(
        title,
        client_files.account_of(entry),
        {str(name): str(value) for name, value in variables.items()},
        _option(entry, _PROFILE),
    )


def _option(entry: Mapping[str, Any], option: str) -> str:
    words = [str(one) for one in entry.get("args") or ()]
    given = next((one for one in words if one.startswith(f"{option}=")), "")
    after = words[words.index(option) + 1] if option in words[:-1] else ""
    return given.partition("=")[2] or after
