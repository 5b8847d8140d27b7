"""Where the text of a variable comes from: the environment, ``--env-file``, a trusted ``.env``.

Ranked, the environment first. Given as values, so that tests need no process environment.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config.text_files import Opened, read_found, read_named
from mcp_notarium.config.variables import BY_NAME, FILE_NAMES, Trust
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.display_paths import display_path

_OWN_PREFIXES = ("NOTARIUM_", "SIMPLENOTE_", "SIMPERIUM_", "DB_ENCRYPTION")


@dataclass(frozen=True, slots=True)
class Source:
    """One source: how it is called, what it says, how far it is trusted, and where it is."""

    label: str
    values: Mapping[str, str]
    level: Trust
    place: str

    def get(self, name: str) -> str | None:
        """The text, None where it is not set; empty counts as not set (clients send empty strings)."""
        return self.values.get(name) or None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The sources in rank order, with what was odd about finding them."""

    sources: tuple[Source, ...]
    warnings: tuple[str, ...] = ()
    problem: ConfigError | None = None


def gather(environ: Mapping[str, str], *, cwd: Path, env_file: Path | None) -> Gathered:
    """The environment, then the named file, or else the ``.env`` of the working folder."""
    real = Source("environment", environ, Trust.ENVIRONMENT, "the environment")
    unknown = tuple(
        f"{name} is not a variable of MCP Notarium; see --print-config-vars."
        for name in sorted(environ)
        if name.startswith(_OWN_PREFIXES) and name not in BY_NAME and name not in FILE_NAMES
    )
    try:
        more = _named(cwd / env_file) if env_file else _found(cwd / ".env")
    except ConfigError as problem:
        return Gathered((real,), unknown, problem)
    return Gathered((real, *more.sources), unknown + more.warnings)


def _named(path: Path) -> Gathered:
    opened = read_named(path, called="--env-file", name=display_path(path))
    values, warnings = _parse(opened, label="the file named by --env-file")
    if opened.readable_by_others or opened.foreign:
        warnings.append("the file named by --env-file can be read by others; chmod 600 it.")
    return Gathered(
        (Source("--env-file", values, Trust.ENV_FILE, display_path(path)),), tuple(warnings)
    )


def _found(path: Path) -> Gathered:
    try:
        opened = read_found(path)
    except FileNotFoundError:
        return Gathered(())
    except ConfigError as problem:
        return Gathered((), (_ignored(path, problem),))
    values, warnings = _parse(opened, label="the .env in the working folder")
    return Gathered(
        (Source(".env", values, Trust.WORKING_FOLDER, display_path(path)),), tuple(warnings)
    )


def _ignored(path: Path, problem: ConfigError) -> str:
    hint = problem.resolution_hint or ""
    return (
        f"the .env in the working folder is ignored: {problem.message} ({display_path(path)}). {hint}"
    ).rstrip()


def _parse(opened: Opened, *, label: str) -> tuple[dict[str, str], list[str]]:
    """Our variables among the lines; the file may hold many that are none of our business."""
    from dotenv.parser import parse_stream  # noqa: PLC0415 - only where such a file exists

    values: dict[str, str] = {}
    warnings: list[str] = []
    for binding in parse_stream(io.StringIO(opened.text)):
        if binding.error:
            warnings.append(f"line {binding.original.line} of {label} is not understood.")
        elif binding.key in BY_NAME or binding.key in FILE_NAMES:
            values[binding.key] = binding.value or ""
    return values, warnings
