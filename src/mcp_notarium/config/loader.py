"""Load the configuration: pick every variable from its best source, parse, check and explain it.

:func:`load` raises one ``ConfigError`` naming everything that is wrong; :func:`inspect` never
raises and shows the same as rows. Only :func:`load_here` and :func:`inspect_here` look at the
environment and the working folder of this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.config import policy_file, settings
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.config.settings import Config
from mcp_notarium.config.sources import NOT_SET, Pick, gather_sources, pick, pick_file
from mcp_notarium.config.variables import VARIABLES, secret_names
from mcp_notarium.errors import ConfigError, NotariumError, SettingsMissing
from mcp_notarium.secret import Secret


@dataclass(frozen=True, slots=True)
class Setting:
    """Hold one variable as it may be shown: secrets appear as "set (N characters)", never in part."""

    name: str
    value: str
    origin: str
    purpose: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold the configuration, the origin of each setting, and what was odd but usable.

    ``missing``: why no account can be opened with it.
    """

    config: Config
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    policy: FoundPolicy
    missing: NotariumError | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """Hold what a person sees of a configuration that may be incomplete or wrong.

    ``source_problem`` says why ``--env-file`` could not be read; all else is in the settings.
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
        """Return why something may count as not set although somebody has set it."""
        unset = [one for one in self.picks.values() if one.problem and one.origin == NOT_SET]
        odd = (warning for one in unset for warning in one.warnings)
        return (*self.source_warnings, *odd) if unset else ()

    def problems(self) -> tuple[ConfigError, ...]:
        found = [pick_.problem for pick_ in self.picks.values()]
        if any(isinstance(problem, SettingsMissing) for problem in found):
            found.append(settings.find_missing_key(self.picks))
        return tuple(problem for problem in (self.source_problem, *found) if problem)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for application data of this user."""
    platform: str = sys.platform
    if platform == "linux":
        # The XDG rule as in platformdirs, whose import costs as much as the rest of a start.
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
    """Return the checked configuration. Raises ``ConfigError`` with everything that has to be changed.

    ``env_file`` (relative to ``cwd``) is read instead of ``cwd/.env``; ``environ`` wins over both.
    ``data_dir`` gives the default of NOTARIUM_DATA_DIR. ``complete`` False: if only required settings
    are missing and nothing is wrong, ``Loaded.missing`` says so.
    """
    reading = _read(environ, cwd=cwd, env_file=env_file, data_dir=data_dir)
    missing = None
    if problems := reading.problems():
        missing = _joined(problems, reasons=reading.reasons())
        if complete or not isinstance(missing, SettingsMissing):
            raise missing
    found = settings.build_policy(reading.picks)
    config = settings.build_config(reading.picks, found)
    policy_file.refuse_stray_file(found, account_dir=config.account_dir)
    return Loaded(config, _settings(reading), reading.warnings, found, missing)


def inspect(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None = None,
    data_dir: Callable[[Mapping[str, str]], Path] = default_data_dir,
) -> Inspection:
    """Return the configuration as rows and problems; never raises. Otherwise as :func:`load`."""
    reading = _read(environ, cwd=cwd, env_file=env_file, data_dir=data_dir)
    return Inspection(_settings(reading), reading.warnings, reading.source_problem)


def load_here(*, env_file: Path | None = None, complete: bool = True) -> Loaded:
    """Load the configuration of this process: its environment, its working folder."""
    return load(os.environ, cwd=_working_folder(), env_file=env_file, complete=complete)


def secrets_here() -> tuple[Secret, ...]:
    """Return the secrets in the environment, before it is known whether they are valid."""
    found = (os.environ.get(name, "").strip() for name in secret_names())
    return tuple(Secret(os.fsencode(value)) for value in found if value)  # it may be no text


def inspect_here(*, env_file: Path | None = None) -> Inspection:
    """Inspect the configuration of this process: its environment, its working folder."""
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
    gathered = gather_sources(environ, cwd=cwd, env_file=env_file)
    picks = {
        variable.name: pick(variable, gathered.sources, cwd=cwd, environ=environ)
        for variable in VARIABLES
    }
    settings.fill_defaults(picks, data_dir=lambda: data_dir(environ))
    files = {one.name: pick_file(one, gathered.sources) for one in VARIABLES if one.has_file}
    return _Reading(picks, files, gathered.warnings, gathered.problem)


def _settings(reading: _Reading) -> tuple[Setting, ...]:
    found: list[Setting] = []
    for variable in VARIABLES:
        pick_ = reading.picks[variable.name]
        shown, problem = pick_.text or "", pick_.problem
        if variable.secret and shown:
            shown = f"set ({len(shown)} characters)"
        why = f"{problem.message}. {problem.resolution_hint or ''}".strip() if problem else ""
        found.append(Setting(variable.name, shown, pick_.origin, variable.purpose, why))
        if variable.has_file:
            named, purpose = reading.files[variable.name], f"File that holds {variable.name}."
            found.append(Setting(variable.file_name, named.text or "", named.origin, purpose))
    return tuple(found)


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
    names = [name for problem in missing for name in problem.details["missing"]]
    return SettingsMissing(messages, missing=names, resolution_hint=hint)
