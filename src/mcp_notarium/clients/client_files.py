"""Read and change the files in which MCP clients keep their servers: find our servers, add ours, take it out again.

Before the first change the file is copied. Taking the server out puts that copy back if nothing else has
changed since, and removes a file that we have made.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from mcp_notarium.clients import json_members
from mcp_notarium.clients.known_clients import Client, arguments_of
from mcp_notarium.errors import ConfigError, NotariumError
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import open_regular, replace_private
from mcp_notarium.system import SYSTEM

NAME = "notarium"
"""Name of the server in a client; with a second account ``notarium-ACCOUNT``."""
_LARGEST = 64 * 1024 * 1024
_PROGRAMS = ("mcp-notarium", "mcp-notarium.exe")
_MODULE = "mcp_notarium"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """Hold a client's file: its path without links, and its text; None if there is no file."""

    client: Client
    path: Path
    text: str | None
    copy: Path
    """The path of its copy, which need not exist."""


def read_file(client: Client, environ: Mapping[str, str], copies: Path) -> ClientFile:
    """Read the client's file. Raises ``ConfigError`` if it cannot be read."""
    path = Path(os.path.realpath(client.path(environ)))
    found = ClientFile(client, path, _read_text(path), copies / f"{client.name}.before")
    servers_of(found)
    return found


def servers_of(file: ClientFile) -> dict[str, Any]:
    """Return the servers by name. Raises ``ConfigError`` if the file cannot be understood."""
    found = _parse(file.client, file.text or "", file.path).get(file.client.key, {})
    return dict(found) if isinstance(found, dict) else {}


def ours(file: ClientFile, *, account: str = "") -> dict[str, Any]:
    """Return the servers that start this program, those of ``account`` only if one is named."""
    return {
        name: entry
        for name, entry in servers_of(file).items()
        if _starts_us(file.client, entry) and (not account or account_of(entry) == account)
    }


def account_of(entry: Mapping[str, Any]) -> str:
    """Return the account that an entry of ours names, '' if none."""
    return _option(entry, "--account")


def profile_of(entry: Mapping[str, Any]) -> str:
    """Return the profile that an entry of ours names, '' if none."""
    return _option(entry, "--profile")


def _option(entry: Mapping[str, Any], option: str) -> str:
    words = [part for one in arguments_of(entry) for part in one.split("=", 1)]
    return words[words.index(option) + 1] if option in words[:-1] else ""


def name_for(file: ClientFile, account: str) -> str:
    """Return the name of the server for an account: the one it has, or one that is free."""
    own = ours(file, account=account)
    taken = servers_of(file)
    wished = chain((NAME, f"{NAME}-{account}"), (f"{NAME}-{account}-{one}" for one in count(2)))
    return next(iter(own), "") or next(one for one in wished if one not in taken)


def with_server(file: ClientFile, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with that server in place of one of the same name. Raises ``ConfigError``."""
    text = file.text or ""
    if name in servers_of(file):
        text = _removed(file, text, name)
    return _added(file, text, name, entry)


def without_server(file: ClientFile, name: str) -> str | None:
    """Return the text without that server; None if the file held nothing else, and was made for it. Raises ``ConfigError``."""
    before = _read_text(file.copy)
    entry = servers_of(file)[name]
    if file.text == _added(file, before or "", name, entry):
        return before
    return _removed(file, file.text or "", name)


def write(file: ClientFile, text: str | None) -> None:
    """Replace the file, keeping its mode, or remove it. Raises ``ConfigError``."""
    try:
        if text is None:
            SYSTEM.remove(file.path)
            if file.path.parent != file.client.home():
                with suppress(OSError):  # a folder that holds something else stays
                    file.path.parent.rmdir()
            return
        file.path.parent.mkdir(parents=True, exist_ok=True)
        side = file.client.side
        if (
            side is not None and side.platform == "linux"
        ):  # seen over the border, modes cannot be set
            file.path.write_bytes(text.encode())
            return
        mode = stat.S_IMODE(file.path.stat().st_mode) if file.text is not None else 0o600
        replace_private(file.path, text.encode())
        if side is None:
            file.path.chmod(mode)
    except OSError as error:
        raise _error(file.path, f"cannot be written: {os_errors.describe(error)}") from None


def drop_copy(file: ClientFile) -> None:
    """Remove the copy, and its folders behind the last one."""
    SYSTEM.remove(file.copy)
    with suppress(OSError):
        file.copy.parent.rmdir()
        file.copy.parent.parent.rmdir()


def keep_copy(file: ClientFile) -> None:
    """Copy the file as it is without a server of ours. Raises ``ConfigError``."""
    if ours(file):
        return
    try:
        SYSTEM.remove(file.copy)
        if file.text is not None:
            file.copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(file.copy, file.text.encode())
    except OSError as error:
        raise _error(file.copy, f"cannot be written: {os_errors.describe(error)}") from None


def _starts_us(client: Client, entry: object) -> bool:
    if not isinstance(entry, dict) or not (words := client.own_words(entry)):
        return False
    return re.split(r"[/\\]", words[0])[-1] in _PROGRAMS or words[1:3] == ["-m", _MODULE]


def _parse(client: Client, text: str, path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - one of two formats

    try:
        return tomllib.loads(text) if client.format == "TOML" else json_members.read(text)
    except (ValueError, RecursionError) as error:
        raise _error(path, f"cannot be read: {error}") from None


def _added(file: ClientFile, text: str, name: str, entry: Mapping[str, Any]) -> str:
    key = file.client.key
    try:
        if file.client.format == "JSON":
            return json_members.add(text, key, name, entry)
        if (appended := _appended(file, text, name, entry)) is not None:
            return appended
        import tomlkit  # noqa: PLC0415 - the other format

        document = tomlkit.parse(text)
        document[key][name] = dict(entry)
    except (ValueError, TypeError) as error:
        raise _error(file.path, f"cannot be changed: {error}") from None
    return _proven(file, tomlkit.dumps(document), document.unwrap())


def _removed(file: ClientFile, text: str, name: str) -> str:
    before = _parse(file.client, _read_text(file.copy) or "", file.copy)
    key = file.client.key
    try:
        if file.client.format == "JSON":
            return json_members.remove(text, key, name, with_object=key not in before)
        if (cut := _cut(file, text, name)) is not None:
            return cut
        import tomlkit  # noqa: PLC0415 - the other format

        document = tomlkit.parse(text)
        servers = document[key]
        del servers[name]
        if not servers and key not in before:
            del document[key]
    except (ValueError, TypeError) as error:
        raise _error(file.path, f"cannot be changed: {error}") from None
    return _proven(file, tomlkit.dumps(document), document.unwrap())


def _appended(file: ClientFile, text: str, name: str, entry: Mapping[str, Any]) -> str | None:
    """Return TOML with the server's table at its end; None if it cannot stand there."""
    gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    made = text + gap + toml_table(file.client, name, entry)
    wanted = _parse(file.client, text, file.path)
    wanted.setdefault(file.client.key, {})[name] = dict(entry)
    try:
        return _proven(file, made, wanted)
    except ConfigError:  # the servers stand in an inline table
        return None


def _cut(file: ClientFile, text: str, name: str) -> str | None:
    """Return TOML without the server's table; None if it is not as it was written."""
    wanted = _parse(file.client, text, file.path)
    table = toml_table(file.client, name, wanted[file.client.key].pop(name))
    left = text.replace("\n" + table if "\n" + table in text else table, "", 1)
    try:
        found = _parse(file.client, left, file.path)
    except ConfigError:
        return None
    return left if {file.client.key: {}, **found} == wanted else None


def toml_table(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """Return the server as a table of TOML."""
    import tomlkit  # noqa: PLC0415 - one of two formats

    return tomlkit.dumps({client.key: {name: dict(entry)}})


def _proven(file: ClientFile, text: str, wanted: Mapping[str, Any]) -> str:
    if _parse(file.client, text, file.path) != wanted:
        raise _error(file.path, "is written in a way that cannot be changed safely")
    return text


def _read_text(path: Path) -> str | None:
    try:
        with open_regular(path, follow=True) as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _error(path, f"cannot be read: {os_errors.describe(error)}") from None
    if len(content) > _LARGEST:
        raise _error(path, "is too large")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _error(path, "is no UTF-8 text") from None


def _error(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{display_path(path)} {what}",
        resolution_hint="It was left as it is. `mcp-notarium install --print CLIENT` shows what to put there "
        "by hand.",
    )


@dataclass(frozen=True, slots=True)
class ClientEntry:
    """Hold one server of ours in a client's file."""

    client: str
    account: str
    """The one it names, '' for none."""
    variables: Mapping[str, str]
    """Those it sets."""
    profile: str
    """The profile of the policy, '' for none."""
    env_file: str = ""
    """The one it names, '' for none."""

    @property
    def shown(self) -> str:
        """Return the client for a list."""
        return f"{self.client} ({self.profile})" if self.profile else self.client


def find_entries(
    environ: Mapping[str, str], copies: Path, clients: Iterable[Client]
) -> list[ClientEntry]:
    """Return every server of ours in the files of these clients; files that cannot be read are left out."""
    found: list[ClientEntry] = []
    for one in clients:
        with suppress(NotariumError, RuntimeError):  # no home folder
            file = read_file(one, environ, copies)
            found += [_read(one.title, entry) for entry in ours(file).values()]
    return found


def _read(title: str, entry: Mapping[str, Any]) -> ClientEntry:
    given = entry.get("env")
    variables = given if isinstance(given, dict) else {}
    named = {str(name): str(value) for name, value in variables.items()}
    env_file = _option(entry, "--env-file")
    return ClientEntry(title, account_of(entry), named, profile_of(entry), env_file)
