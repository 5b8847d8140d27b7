"""Find the highest-ranked source of each variable that sets it and may set it.

The sources are ranked: the environment, ``--env-file``, the account in ``accounts.toml``, and without ``--env-file``
a trusted ``.env``. They are values, so that tests need no process environment. Picking reads secret files and never
raises: a problem of a variable stands in its pick.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config import accounts
from mcp_notarium.config.accounts import Account
from mcp_notarium.config.common_variables import known_variables
from mcp_notarium.config.text_files import TextFile, read_found_file, read_named_file
from mcp_notarium.config.value_parser import parse_value
from mcp_notarium.config_variable import Kind, Trust, Variable
from mcp_notarium.errors import ConfigError, SettingsMissing
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.system import SYSTEM

DEFAULT = "default"
NOT_SET = "not set"
_OWN_PREFIXES = ("NOTARIUM_", "DB_ENCRYPTION")


@dataclass(frozen=True, slots=True)
class Source:
    """Hold one source of settings."""

    label: str
    """Name as the origin of a setting."""
    values: Mapping[str, str]
    level: Trust
    """Level of trust."""
    place: str
    """Location, for a person."""

    def get(self, name: str) -> str | None:
        """Return the text, or None if it is not set. Blank counts as not set, in quotation marks too: clients send it."""
        text = self.values.get(name)
        return text if text and text.strip().strip("\"'").strip() else None


@dataclass(frozen=True, slots=True)
class Sources:
    """Hold the sources in rank order."""

    sources: tuple[Source, ...]
    warnings: tuple[str, ...] = ()
    """Faults in them that do no harm."""
    problem: ConfigError | None = None
    """Error in reading one of them."""
    account: Account | None = None
    """The one that is among them."""


def gather_sources(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None,
    account: str | None = None,
) -> Sources:
    """Return the environment, the named file, the account, or else the ``.env`` of the working folder.

    ``account`` is as in :func:`accounts.choose_account`.
    """
    real = Source("environment", environ, Trust.ENVIRONMENT, "the environment")
    found = Sources((real,))
    try:
        if env_file:
            found = _join(found, _read_named(cwd / env_file))
        beside = Sources(()) if env_file else _read_dotenv(cwd / ".env")
        # A server that is told of no account has its settings wherever they are; only without any it uses the default one.
        better = found.sources if account is not None else (*found.sources, *beside.sources)
        return _join(_join(found, _read_account(account, environ, better)), beside)
    except ConfigError as problem:
        return Sources((real,), (), problem)


def _join(one: Sources, other: Sources) -> Sources:
    return Sources(
        (*one.sources, *other.sources),
        (*one.warnings, *other.warnings),
        account=one.account or other.account,
    )


def _read_account(
    name: str | None, environ: Mapping[str, str], better: Sequence[Source]
) -> Sources:
    try:
        folder = accounts.config_dir(environ)
    except RuntimeError:  # no home folder to be found
        return Sources(())
    values = [one.values for one in better]
    found = accounts.choose_account(name, folder, values)
    if found is None:
        return Sources((), () if name is None else _warn_unused(folder, values))
    place = display_path(folder / accounts.FILE)
    label = f"account {found.name}"
    return Sources((Source(label, found.variables, Trust.ENVIRONMENT, place),), account=found)


def _warn_unused(folder: Path, better: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    with suppress(ConfigError):  # a file that is not used is not complained of
        known = accounts.read_accounts(folder)
        names = filter(None, map(accounts.naming_variable, better))
        if known and (name := next(names, None)):
            only = next(iter(known)) if len(known) == 1 else "NAME"
            return (
                f"{name} is set, so no account of {accounts.FILE} is used; `--account {only}` uses one.",
            )
    return ()


def warn_unknown(environ: Mapping[str, str], chosen: Sequence[Variable]) -> tuple[str, ...]:
    """Return a warning for each name in the environment that is probably a misspelt variable of ours."""
    prefixes = (*_OWN_PREFIXES, *(f"{one.name.partition('_')[0]}_" for one in chosen))
    return tuple(
        f"{name} is not a variable of MCP Notarium; see --print-config-vars."
        for name in sorted(environ)
        if name.startswith(prefixes) and name not in known_names()
    )


def known_names() -> set[str]:
    """Return the names of all variables of ours, and of those that name a file instead."""
    known = known_variables()
    return {one.name for one in known} | {one.file_name for one in known if one.has_file}


def read_env_file(path: Path) -> Mapping[str, str]:
    """Return the settings in a file that some ``--env-file`` names. Raises ``ConfigError``."""
    return _parse_lines(
        read_named_file(path, called="--env-file", name=display_path(path)), label=""
    )[0]


def _only_you() -> str:
    """Say what to do about a file whose path may be a secret in the wrong place."""
    return "chmod 600 it" if SYSTEM.has_modes else "permit nobody else to read it"


def _read_named(path: Path) -> Sources:
    opened = read_named_file(path, called="--env-file", name=display_path(path))
    values, warnings = _parse_lines(opened, label="the file named by --env-file")
    if opened.readable_by_others or opened.foreign:
        warnings.append(f"the file named by --env-file can be read by others; {_only_you()}.")
    return Sources(
        (Source("--env-file", values, Trust.ENV_FILE, display_path(path)),), tuple(warnings)
    )


def _read_dotenv(path: Path) -> Sources:
    try:
        opened = read_found_file(path)
    except FileNotFoundError:
        return Sources(())
    except ConfigError as problem:
        ignored = (
            "the .env in the working folder is ignored: "
            f"{problem.message} ({display_path(path)}). {problem.resolution_hint or ''}"
        )
        return Sources((), (ignored.rstrip(),))
    values, warnings = _parse_lines(opened, label="the .env in the working folder")
    return Sources(
        (Source(".env", values, Trust.WORKING_FOLDER, display_path(path)),), tuple(warnings)
    )


def _parse_lines(opened: TextFile, *, label: str) -> tuple[dict[str, str], list[str]]:
    """Return our variables among the lines; the file may hold many foreign ones."""
    from dotenv.parser import parse_stream  # noqa: PLC0415 - only where such a file exists

    values: dict[str, str] = {}
    warnings: list[str] = []
    known = known_names()
    for binding in parse_stream(io.StringIO(opened.text)):
        if binding.error:
            warnings.append(f"line {binding.original.line} of {label} is not understood.")
        elif binding.key in known:
            values[binding.key] = binding.value or ""
    return values, warnings


@dataclass(frozen=True, slots=True)
class Pick:
    """Hold what became of one variable."""

    text: str | None
    """Canonical, None if there is none."""
    origin: str
    """The label of the source."""
    set_by: str = ""
    """The variable that really held it: its own name or the one with ``_FILE``."""
    found_in: str = ""
    """The file it stands in, if that is a ``.env`` nobody named."""
    warnings: tuple[str, ...] = ()
    problem: ConfigError | None = None
    file: Path | None = None
    """The file that the value was read from."""


@dataclass(frozen=True, slots=True)
class _Found:
    text: str
    source: Source
    set_by: str


def pick(
    variable: Variable, sources: Sequence[Source], *, cwd: Path, environ: Mapping[str, str]
) -> Pick:
    """Return the variable from the first source that may set it, parsed by its kind."""
    warnings: list[str] = []
    found: _Found | None = None
    try:
        found = _find(variable, sources, warnings)
        if found is None:
            return _pick_default(variable, warnings)
        text, file = _read_content(variable, found, warnings, cwd=cwd, environ=environ)
        text = _parse_setting(variable, text, warnings, cwd=cwd)
    except ConfigError as problem:
        return _reject(variable, found, problem, warnings)
    origin = found.source.label
    if found.set_by != variable.name:
        origin = f"{found.set_by} ({origin})"
    found_in = found.source.place if found.source.level is Trust.WORKING_FOLDER else ""
    return Pick(text, origin, found.set_by, found_in, warnings=tuple(warnings), file=file)


def pick_file(variable: Variable, sources: Sequence[Source]) -> Pick:
    """Return the ``_FILE`` variable as it may be shown. Reads nothing."""
    level = min(variable.trust, Trust.ENV_FILE)
    for source in sources:
        text = source.get(variable.file_name) if source.level <= level else None
        if text is not None:
            shown = text.strip() if _is_full(text) else f"set ({len(text)} characters)"
            return Pick(shown, source.label, variable.file_name)
    return Pick(None, NOT_SET)


def _reject(
    variable: Variable, found: _Found | None, problem: ConfigError, warnings: list[str]
) -> Pick:
    """Return the pick for a value that cannot be used. In a ``.env`` that nobody named such a value only causes a warning."""
    if found is None:
        return Pick(None, NOT_SET, warnings=tuple(warnings), problem=problem)
    message = f"{problem.message} (from {found.source.place})"
    if found.source.level is Trust.WORKING_FOLDER:
        return _pick_default(variable, [*warnings, f"{message}; it is ignored."])
    error = ConfigError(message, resolution_hint=problem.resolution_hint)
    return Pick(None, found.source.label, warnings=tuple(warnings), problem=error)


def _pick_default(variable: Variable, warnings: list[str]) -> Pick:
    problem = None
    if variable.required:
        problem = SettingsMissing(
            f"{variable.name} is not set",
            missing=[variable.name],
            resolution_hint=f"Set {variable.name} in the environment of the MCP client's server "
            f"entry. {variable.purpose}",
        )
    text = variable.default or None
    return Pick(text, DEFAULT if text else NOT_SET, warnings=tuple(warnings), problem=problem)


def _find(variable: Variable, sources: Sequence[Source], warnings: list[str]) -> _Found | None:
    better: list[Source] = []
    for source in sources:
        value = _get_permitted(variable, variable.name, variable.trust, source, warnings)
        ignored = source.level is Trust.WORKING_FOLDER and any(
            other.get(variable.bound_to) for other in better
        )
        if value and ignored:
            warnings.append(
                f"{variable.name} in {source.label} is ignored: {variable.bound_to} is set "
                "elsewhere. Set both in the same place."
            )
            value = None
        file = None
        if variable.has_file:
            level = min(variable.trust, Trust.ENV_FILE)
            file = _get_permitted(variable, variable.file_name, level, source, warnings)
        if value and file:
            _resolve_double(variable, warnings)
        if value:
            return _Found(value, source, variable.name)
        if file:
            return _Found(file, source, variable.file_name)
        better.append(source)
    return None


def _get_permitted(
    variable: Variable, name: str, trust: Trust, source: Source, warnings: list[str]
) -> str | None:
    text = source.get(name)
    if text is None or source.level <= trust:  # defence: dotenv-trust =True
        return text
    where = "the real environment" if trust is Trust.ENVIRONMENT else "the environment"
    hint = f"Set {name} in {where} of the MCP client's server entry."
    if source.level is Trust.WORKING_FOLDER:
        warnings.append(f"{name} in {source.label} is ignored, it may not be set there. {hint}")
        return None
    raise ConfigError(f"{variable.name} may not be set in {source.label}", resolution_hint=hint)


def _resolve_double(variable: Variable, warnings: list[str]) -> None:
    if not variable.value_beats_file:
        raise ConfigError(
            f"{variable.name} and {variable.file_name} are both set",
            resolution_hint=f"Remove {variable.name} to use the file, "
            f"or {variable.file_name} to use the value.",
        )
    warnings.append(f"{variable.file_name} is not used, because {variable.name} is set too.")


def _read_content(
    variable: Variable,
    found: _Found,
    warnings: list[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
) -> tuple[str, Path | None]:
    """Return the text of a variable, and the file that has it."""
    if found.set_by == variable.name:
        return found.text, None
    path = cwd / _expand(found.text.strip(), name=found.set_by)
    name = (
        display_path(path)
        if _is_full(found.text)
        else f"a relative path, below {display_path(cwd)}"
    )
    opened = read_named_file(path, called=found.set_by, name=name)
    if _is_exposed(opened, path, environ):
        warnings.append(
            f"the file named by {found.set_by} can be read by others or is not yours; {_only_you()}."
        )
    text = opened.text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigError(
            f"the file named by {found.set_by} is empty",
            resolution_hint=f"Write the value into it, or remove {found.set_by}.",
        )
    return text, path


def _is_full(text: str) -> bool:
    """Return whether the text is a full path, which may be shown. Any other may be the secret itself."""
    return text.strip().startswith("~") or Path(text.strip()).is_absolute()


def _is_exposed(opened: TextFile, path: Path, environ: Mapping[str, str]) -> bool:
    folders = ["/run/secrets", "/var/run/secrets", environ.get("CREDENTIALS_DIRECTORY", "")]
    # The system that mounts secrets there also protects the folder; its modes follow other rules.
    if any(folder and path.is_relative_to(folder) for folder in folders):
        return False
    return opened.readable_by_others or opened.foreign


def _parse_setting(variable: Variable, text: str, warnings: list[str], *, cwd: Path) -> str:
    value = parse_value(variable, text, warnings)
    if variable.kind is not Kind.PATH or not value:
        return value
    path = _expand(value, name=variable.name)
    if not path.is_absolute():
        path = cwd / path
        warnings.append(
            f"{variable.name} is relative to the working folder, which clients choose freely; "
            f"write {path} instead."
        )
    return str(path)


def _expand(text: str, *, name: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{name} begins with '~' and there is no such home folder",
            resolution_hint=f"Write {name} as a full path.",
        ) from error
