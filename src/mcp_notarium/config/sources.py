"""Gather the sources of variables: the environment, ``--env-file``, a trusted ``.env``.

They are ranked, the environment first. They are values, so that tests need no process environment.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config.text_files import TextFile, read_found_file, read_named_file
from mcp_notarium.config.variables import BY_NAME, FILE_NAMES, Trust
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.os_errors import display_path

_OWN_PREFIXES = ("NOTARIUM_", "SIMPLENOTE_", "SIMPERIUM_", "DB_ENCRYPTION")


@dataclass(frozen=True, slots=True)
class Source:
    """Hold one source: its label, its values, its trust level, and its place."""

    label: str
    values: Mapping[str, str]
    level: Trust
    place: str

    def get(self, name: str) -> str | None:
        """Return the text, or None if it is not set. Empty counts as not set: clients send empty strings."""
        return self.values.get(name) or None


@dataclass(frozen=True, slots=True)
class Sources:
    """Hold the sources in rank order, with what was odd about finding them."""

    sources: tuple[Source, ...]
    warnings: tuple[str, ...] = ()
    problem: ConfigError | None = None


def gather_sources(environ: Mapping[str, str], *, cwd: Path, env_file: Path | None) -> Sources:
    """Return the environment, then the named file or else the ``.env`` of the working folder."""
    real = Source("environment", environ, Trust.ENVIRONMENT, "the environment")
    unknown = tuple(
        f"{name} is not a variable of MCP Notarium; see --print-config-vars."
        for name in sorted(environ)
        if name.startswith(_OWN_PREFIXES) and name not in BY_NAME and name not in FILE_NAMES
    )
    try:
        more = _named(cwd / env_file) if env_file else _found(cwd / ".env")
    except ConfigError as problem:
        return Sources((real,), unknown, problem)
    return Sources((real, *more.sources), unknown + more.warnings)


def _named(path: Path) -> Sources:
    opened = read_named_file(path, called="--env-file", name=display_path(path))
    values, warnings = _parse(opened, label="the file named by --env-file")
    if opened.readable_by_others or opened.foreign:
        warnings.append("the file named by --env-file can be read by others; chmod 600 it.")
    return Sources(
        (Source("--env-file", values, Trust.ENV_FILE, display_path(path)),), tuple(warnings)
    )


def _found(path: Path) -> Sources:
    try:
        opened = read_found_file(path)
    except FileNotFoundError:
        return Sources(())
    except ConfigError as problem:
        return Sources((), (_ignored(path, problem),))
    values, warnings = _parse(opened, label="the .env in the working folder")
    return Sources(
        (Source(".env", values, Trust.WORKING_FOLDER, display_path(path)),), tuple(warnings)
    )


def _ignored(path: Path, problem: ConfigError) -> str:
    hint = problem.resolution_hint or ""
    return (
        f"the .env in the working folder is ignored: {problem.message} ({display_path(path)}). {hint}"
    ).rstrip()


def _parse(opened: TextFile, *, label: str) -> tuple[dict[str, str], list[str]]:
    """Return our variables among the lines; the file may hold many foreign ones."""
    from dotenv.parser import parse_stream  # noqa: PLC0415 - only where such a file exists

    values: dict[str, str] = {}
    warnings: list[str] = []
    for binding in parse_stream(io.StringIO(opened.text)):
        if binding.error:
            warnings.append(f"line {binding.original.line} of {label} is not understood.")
        elif binding.key in BY_NAME or binding.key in FILE_NAMES:
            values[binding.key] = binding.value or ""
    return values, warnings
