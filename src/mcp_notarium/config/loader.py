"""Loads the configuration: every variable picked from its best source, read, checked, explained.

:func:`load` raises one ``ConfigError`` naming everything that is wrong; :func:`inspect` never
raises and shows the same as rows. :func:`load_here` and :func:`inspect_here` are the only places
that look at the environment and the working folder of this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config import builder, policy_file
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.config.settings import Config
from mcp_notarium.config.source_selection import NOT_SET, Pick, pick, pick_file
from mcp_notarium.config.sources import gather
from mcp_notarium.config.variables import VARIABLES, Variable, secret_names
from mcp_notarium.errors import ConfigError, NotariumError, SettingsMissing
from mcp_notarium.secret import Secret


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable as it may be shown: secrets appear as "set (N characters)", never in part."""

    name: str
    value: str
    origin: str
    purpose: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration, how each setting came about, and what was odd but usable.

    ``missing``: why nothing can be opened with it.
    """

    config: Config
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    policy: FoundPolicy
    missing: NotariumError | None = None


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a person sees of a configuration that may be incomplete or wrong.

    ``source_problem`` is what hindered reading ``--env-file``; the rest stands in the settings.
    """

    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    source_problem: ConfigError | None


@dataclass(frozen=True, slots=True)
class _Reading:
    picks: Mapping[str, Pick]
    files: Mapping[str, Pick]
    source_warnings: tuple[str, ...]
    source_problem: ConfigError | None

    @property
    def warnings(self) -> tuple[str, ...]:
        odd = (warning for pick_ in self.picks.values() for warning in pick_.warnings)
        return (*self.source_warnings, *odd)

    def reasons(self) -> tuple[str, ...]:
        """What may be the reason that something is not set although somebody has set it."""
        unset = [one for one in self.picks.values() if one.problem and one.origin == NOT_SET]
        odd = (warning for one in unset for warning in one.warnings)
        return (*self.source_warnings, *odd) if unset else ()

    def problems(self) -> tuple[ConfigError, ...]:
        found = [pick_.problem for pick_ in self.picks.values()]
        if any(isinstance(problem, SettingsMissing) for problem in found):
            found.append(builder.missing_key(self.picks))
        return tuple(problem for problem in (self.source_problem, *found) if problem)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The platform's folder for application data of this user."""
    platform: str = sys.platform
    if platform == "linux":
        # The XDG rule as platformdirs has it; importing that costs as much as the rest of a start.
        home = environ.get("XDG_DATA_HOME", "").strip()
        return Path(home or "~/.local/share").expanduser() / "mcp-notarium"
    import platformdirs  # noqa: PLC0415 - slow, and not needed everywhere

    return platformdirs.user_data_path("mcp-notarium", appauthor=False)


def load(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None = None,
    data_dir: Callable[[Mapping[str, str]], Path] = default_data_dir,
    complete: bool = True,
) -> Loaded:
    """The checked configuration. Raises ``ConfigError`` with everything that has to be changed.

    ``env_file`` (relative to ``cwd``) is read instead of ``cwd/.env``; ``environ`` wins over both.
    ``data_dir`` gives the default of NOTARIUM_DATA_DIR. ``complete`` False: where nothing is wrong
    but that required settings are missing, ``Loaded.missing`` says so.
    """
    reading = _read(environ, cwd=cwd, env_file=env_file, data_dir=data_dir)
    missing = None
    if problems := reading.problems():
        missing = _joined(problems, reasons=reading.reasons())
        if complete or not isinstance(missing, SettingsMissing):
            raise missing
    found = builder.policy(reading.picks)
    config = builder.config(reading.picks, found)
    policy_file.demand_no_stray(found, account_dir=config.account_dir)
    return Loaded(config, _settings(reading), reading.warnings, found, missing)


def inspect(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None = None,
    data_dir: Callable[[Mapping[str, str]], Path] = default_data_dir,
) -> Inspected:
    """As :func:`load`, but what is wrong comes back as rows and problems; never raises."""
    reading = _read(environ, cwd=cwd, env_file=env_file, data_dir=data_dir)
    return Inspected(_settings(reading), reading.warnings, reading.source_problem)


def load_here(*, env_file: Path | None = None, complete: bool = True) -> Loaded:
    """:func:`load` for this process: its environment, its working folder."""
    return load(os.environ, cwd=_working_folder(), env_file=env_file, complete=complete)


def secrets_here() -> tuple[Secret, ...]:
    """What stands in the environment as secrets, before it is known whether it makes sense."""
    found = (os.environ.get(name, "").strip() for name in secret_names())
    return tuple(Secret(os.fsencode(value)) for value in found if value)  # it may be no text


def inspect_here(*, env_file: Path | None = None) -> Inspected:
    """:func:`inspect` for this process: its environment, its working folder."""
    return inspect(os.environ, cwd=_working_folder(), env_file=env_file)


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # the folder is gone; nothing relative can be meant
        return Path(os.path.sep)


def _read(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None,
    data_dir: Callable[[Mapping[str, str]], Path],
) -> _Reading:
    gathered = gather(environ, cwd=cwd, env_file=env_file)
    picks = {
        variable.name: pick(variable, gathered.sources, cwd=cwd, environ=environ)
        for variable in VARIABLES
    }
    builder.complete(picks, data_dir=lambda: data_dir(environ))
    files = {one.name: pick_file(one, gathered.sources) for one in VARIABLES if one.has_file}
    return _Reading(picks, files, gathered.warnings, gathered.problem)


def _settings(reading: _Reading) -> tuple[Setting, ...]:
    found: list[Setting] = []
    for variable in VARIABLES:
        found.append(_setting(variable, reading.picks[variable.name]))
        if variable.has_file:
            found.append(_file_setting(variable, reading.files[variable.name]))
    return tuple(found)


def _file_setting(variable: Variable, named: Pick) -> Setting:
    return Setting(
        name=variable.file_name,
        value=named.text or "",
        origin=named.origin,
        purpose=f"File that holds {variable.name}.",
    )


def _setting(variable: Variable, pick_: Pick) -> Setting:
    shown = pick_.text or ""
    if variable.secret and shown:
        shown = f"set ({len(shown)} characters)"
    return Setting(
        name=variable.name,
        value=shown,
        origin=pick_.origin,
        purpose=variable.purpose,
        problem=_explained(pick_.problem) if pick_.problem else "",
    )


def _explained(problem: ConfigError) -> str:
    return f"{problem.message}. {problem.resolution_hint or ''}".strip()


def _joined(problems: tuple[ConfigError, ...], *, reasons: tuple[str, ...]) -> ConfigError:
    messages = "; ".join(problem.message for problem in problems)
    if len(problems) > 1:
        messages = f"{len(problems)} settings need attention: {messages}"
    hints = [problem.resolution_hint or "" for problem in problems]
    if reasons:
        hints.append(f"This may be the reason: {' '.join(reasons)}")
    hint = " ".join(hints).strip()
    missing = [problem for problem in problems if isinstance(problem, SettingsMissing)]
    if len(missing) < len(problems):
        return ConfigError(messages, resolution_hint=hint)
    names = tuple(name for problem in missing for name in problem.missing)
    return SettingsMissing(messages, missing=names, resolution_hint=hint)
