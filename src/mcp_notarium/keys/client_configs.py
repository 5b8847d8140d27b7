"""Find the configuration files of MCP clients on this machine that hold a given key.

They are read, never written: they belong to other programs. The result says where a key stands, never
what else is in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config.clients import CLIENTS
from mcp_notarium.files.private_files import open_regular
from mcp_notarium.secret import Secret

_MAX_BYTES = 16 * 1024 * 1024
"""Bytes that are read of a file; some clients keep their history in the same file."""
_SHORTEST = 8
"""Bytes of the shortest key that is searched for; a shorter one would be found in every file."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Hold the path of a configuration file, and the program it belongs to."""

    program: str
    path: Path


def find_configs_with_key(key: Secret, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Find the files of this user's clients, and those in the working folder, that hold ``key`` in clear.

    Files that cannot be read are skipped: no client of this user reads them either.
    """
    spellings = _encodings(key)
    if not spellings:
        return []
    return [
        place
        for place in _config_files(environ)
        if any(spelling in _read_content(place.path) for spelling in spellings)
    ]


def _config_files(environ: Mapping[str, str]) -> list[ConfigFile]:
    """Return each file once. A folder that is not there, at home or to work in, has none."""
    found: dict[Path, str] = {}
    with suppress(OSError, RuntimeError):
        for client in CLIENTS:
            found |= dict.fromkeys(client.files(environ), client.title)
    with suppress(OSError):
        here = Path.cwd()
        found[here / ".env"] = "environment file"
        for client in CLIENTS:
            for name in client.in_project:
                found.setdefault(here / name, client.title)
    return [ConfigFile(program, path) for path, program in found.items()]


def _read_content(path: Path) -> bytes:
    try:
        with open_regular(path, follow=True) as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""


def _encodings(key: Secret) -> set[bytes]:
    """Return the key as it is, and as JSON and TOML write it."""
    raw = key.reveal()
    if len(raw) < _SHORTEST:
        return set()
    text = raw.decode("utf-8", "replace")
    quoted = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {raw, *(one.encode() for one in quoted)}
