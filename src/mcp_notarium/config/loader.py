"""Load the configuration: pick every variable from its best source, parse, check and explain it.

:func:`load` raises one ``ConfigError`` naming everything that is wrong; :func:`inspect` never
raises and shows the same as rows. Only :func:`load_here` and :func:`inspect_here` look at the
environment and the working folder of this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_notarium.config import accounts, policy_file, settings
from mcp_notarium.config.accounts import Account, AccountError
from mcp_notarium.config.closed_places import find_other_accounts
from mcp_notarium.config.common_variables import COMMON, STORE, secret_names
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.config.settings import Config
from mcp_notarium.config.sources import (
    DEFAULT,
    NOT_SET,
    Pick,
    gather_sources,
    pick,
    pick_file,
    warn_unknown,
)
from mcp_notarium.config_variable import Variable
from mcp_notarium.errors import ConfigError, NotariumError, SettingsMissing
from mcp_notarium.secret import Secret
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import StoreKind

_SETUP = "Run `mcp-notarium setup` in a terminal: it asks for all that is needed, and tells your clients. Or:"
_MOST_NAMED = 3
_URL_LOGIN = re.compile(r"://\S*@")
"""A name and a password in a URL: where none belongs, and none is shown."""
_WITHOUT_ACCOUNT = f"Without such an account: {STORE}={registry.WITHOUT_ACCOUNT}."


@dataclass(frozen=True, slots=True)
class Setting:
    """Hold one variable as it may be shown."""

    name: str
    value: str
    """Of a secret only how long it is."""
    origin: str
    """Source that has set it."""
    purpose: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold the configuration, the origin of each setting, and warnings."""

    config: Config
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...]
    policy: FoundPolicy
    missing: NotariumError | None = None
    """Error for which no account can be opened with it."""
    account: Account | None = None
    """The one of ``accounts.toml`` that is used."""


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """Hold what is known of a configuration that may be incomplete or wrong."""

    store: StoreKind | None
    """None if its name stands for none."""
    variables: tuple[Variable, ...]
    """Those of the store, then the common ones."""
    picks: Mapping[str, Pick]
    """Result for each variable, by its name."""
    files: Mapping[str, Pick]
    """The same of each file that a variable may name."""
    source_warnings: tuple[str, ...]
    source_problem: ConfigError | None
    """Error in reading ``--env-file`` or ``account``; all else is in the settings."""
    account: Account | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is unusual about the sources and the values."""
        found = (warning for pick_ in self.picks.values() for warning in pick_.warnings)
        return (*self.source_warnings, *found)

    def reasons(self) -> tuple[str, ...]:
        """Return why something may count as not set although somebody has set it."""
        unset = [one for one in self.picks.values() if one.problem and one.origin == NOT_SET]
        found = (warning for one in unset for warning in one.warnings)
        return (*self.source_warnings, *found) if unset else ()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return every variable as it may be shown."""
        found: list[Setting] = []
        for variable in self.variables:
            pick_ = self.picks[variable.name]
            shown, problem = _URL_LOGIN.sub("://...@", pick_.text or ""), pick_.problem
            if variable.secret and shown:
                shown = f"set ({len(shown)} characters)"
            why = f"{problem.message}. {problem.resolution_hint or ''}".strip() if problem else ""
            found.append(Setting(variable.name, shown, pick_.origin, variable.purpose, why))
            if variable.has_file:
                named, purpose = self.files[variable.name], f"File that holds {variable.name}."
                found.append(Setting(variable.file_name, named.text or "", named.origin, purpose))
        return tuple(found)

    def problems(self) -> tuple[ConfigError, ...]:
        """Return every error, that of a missing key only if something else is missing.

        Without the account that is asked for the rest says nothing.
        """
        if isinstance(self.source_problem, AccountError):
            return (self.source_problem,)
        found = [pick_.problem for pick_ in self.picks.values()]
        if any(isinstance(problem, SettingsMissing) for problem in found):
            found.append(settings.find_missing_key(self.picks))
        return tuple(problem for problem in (self.source_problem, *found) if problem)


def load(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None = None,
    account: str | None = None,
    profile: str | None = None,
    complete: bool = True,
) -> Loaded:
    """Return the checked configuration. Raises ``ConfigError`` with everything that has to be changed.

    * ``env_file`` (relative to ``cwd``) is read instead of ``cwd/.env``; ``environ`` wins over both;
    * ``account``: the account of ``accounts.toml`` to use, ``accounts.ONLY`` for the only one, None for none;
    * ``profile``: as in :func:`settings.build_policy`; it narrows agents, not the user's own commands;
    * ``complete`` False: required settings may be missing; ``Loaded.missing`` is the error then.
    """
    reading = inspect(environ, cwd=cwd, env_file=env_file, account=account)
    missing, store, problems = None, reading.store, reading.problems()
    if problems or store is None:
        missing = _join_problems(
            problems, reasons=reading.reasons(), chosen=reading.picks[STORE].origin != DEFAULT
        )
        if account is None and isinstance(missing, SettingsMissing):
            _point_to_accounts(missing, environ, named=_names_account(reading))
        if complete or store is None or not isinstance(missing, SettingsMissing):
            raise missing
    found = settings.build_policy(store, reading.picks, profile)
    config = settings.build_config(store, reading.picks, found, for_agents=profile is not None)
    if reading.account is not None:
        config = replace(config, account_name=reading.account.name)
    if env_file is not None:
        config = replace(config, closed_places=(*config.closed_places, cwd / env_file))
    if config.policy.import_paths:
        others = find_other_accounts(environ)
        # defence: other-accounts-closed -others
        config = replace(config, closed_places=(*config.closed_places, *others))
    policy_file.refuse_misplaced_file(found, account_dir=config.account_dir)
    return Loaded(config, reading.settings, reading.warnings, found, missing, reading.account)


def inspect(
    environ: Mapping[str, str],
    *,
    cwd: Path,
    env_file: Path | None = None,
    account: str | None = None,
) -> ConfigReport:
    """Return the configuration as rows and problems; never raises. Otherwise as :func:`load`."""
    gathered = gather_sources(environ, cwd=cwd, env_file=env_file, account=account)

    def pick_all(variables: Iterable[Variable]) -> dict[str, Pick]:
        return {
            one.name: pick(one, gathered.sources, cwd=cwd, environ=environ) for one in variables
        }

    common = pick_all(COMMON)
    name = common[STORE].text
    store = registry.kind(name) if name is not None else None
    own = store.variables if store is not None else ()
    picks = pick_all(own) | common
    settings.fill_defaults(picks, environ)
    variables = (*own, *COMMON)
    files = {one.name: pick_file(one, gathered.sources) for one in variables if one.has_file}
    warnings = (*warn_unknown(environ, own), *gathered.warnings)
    return ConfigReport(
        store, variables, picks, files, warnings, gathered.problem, gathered.account
    )


def load_here(
    *,
    env_file: Path | None = None,
    account: str | None = None,
    profile: str | None = None,
    complete: bool = True,
) -> Loaded:
    """Load the configuration of this process: its environment, its working folder."""
    return load(
        os.environ,
        cwd=_working_folder(),
        env_file=env_file,
        account=account,
        profile=profile,
        complete=complete,
    )


def secrets_here() -> tuple[Secret, ...]:
    """Return the secrets in the environment, before it is known whether they are valid."""
    found = (os.environ.get(name, "").strip() for name in secret_names())
    return tuple(Secret(os.fsencode(value)) for value in found if value)  # it may be no text


def inspect_here(*, env_file: Path | None = None, account: str | None = None) -> ConfigReport:
    """Inspect the configuration of this process: its environment, its working folder."""
    return inspect(os.environ, cwd=_working_folder(), env_file=env_file, account=account)


def account_dir_here(*, env_file: Path | None = None, account: str | None = None) -> Path | None:
    """Return the folder of the account that the settings of this process name, though some are wrong; None if that cannot be told."""
    found = inspect_here(env_file=env_file, account=account)
    return None if found.store is None else settings.find_account_dir(found.store, found.picks)


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # the folder is gone; nothing relative can be meant
        return Path(os.path.sep)


def _names_account(reading: ConfigReport) -> bool:
    """Tell whether somebody has named a store, or something of an account of it."""
    own = reading.store.variables if reading.store is not None else ()
    return reading.picks[STORE].origin != DEFAULT or any(
        reading.picks[one.name].origin not in (DEFAULT, NOT_SET) for one in own
    )


def _point_to_accounts(error: SettingsMissing, environ: Mapping[str, str], *, named: bool) -> None:
    """Name the accounts that `setup` has made, if there are any: a server uses one only if it is told which.

    ``named``: the settings are of another account, so the error says what they lack.
    """
    with suppress(ConfigError, RuntimeError):
        found = [*accounts.read_accounts(accounts.config_dir(environ))]
        if not found:
            return
        several = len(found) > 1
        if not named:
            shown = ", ".join(found[:_MOST_NAMED])
            shown += f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            are = f"{len(found)} accounts are" if several else "an account is"
            which = "which one this server is for" if several else "that this server is for it"
            error.message = (
                f"{are} set up ({shown}), and the client's configuration does not say {which}"
            )
            error.details = {"missing": ["--account"]}
        choices = " or ".join(f"`--account {name}`" for name in found[:_MOST_NAMED])
        way = f"add {choices} to the server's arguments in the client's configuration, or run `mcp-notarium install`"
        if named:
            way = f"set {' and '.join(error.details['missing'])}, or {way}"
        error.resolution_hint = f"{way[:1].upper()}{way[1:]}."
        error.agent_hint = f"Ask the user to {way}, and to restart the client."


def _join_problems(
    problems: tuple[ConfigError, ...], *, reasons: tuple[str, ...], chosen: bool
) -> ConfigError:
    """Return all problems as one error. ``chosen``: somebody has named the store."""
    messages = "; ".join(problem.message for problem in problems)
    if all(isinstance(problem, SettingsMissing) for problem in problems):
        messages = f"no account is set up here: {messages}"
    elif len(problems) > 1:
        messages = f"{len(problems)} settings need attention: {messages}"
    hints = [problem.resolution_hint or "" for problem in problems]
    if reasons:
        hints.append(f"This may be the reason: {' '.join(reasons)}")
    hint = " ".join(hints).strip()
    missing = [problem for problem in problems if isinstance(problem, SettingsMissing)]
    if len(missing) < len(problems):
        return ConfigError(messages, resolution_hint=hint)
    names = [name for problem in missing for name in problem.details["missing"]]
    if not chosen:  # who has set nothing up need not know the names of settings
        messages = f"no notes are set up here yet ({'; '.join(one.message for one in problems)})"
    hint = f"{_SETUP} {hint}"
    if {one.name for one in registry.kind(registry.DEFAULT).variables} & {*names}:
        error = SettingsMissing(
            messages, missing=names, resolution_hint=f"{hint} {_WITHOUT_ACCOUNT}"
        )
        error.agent_hint = f"{error.agent_hint} No account: {STORE}={registry.WITHOUT_ACCOUNT}."
        return error
    return SettingsMissing(messages, missing=names, resolution_hint=hint)
