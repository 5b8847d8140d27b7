"""Choose the account of ``setup``: a known one, or the settings of a new one.

The store of a new account is asked before anything is written.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from mcp_notarium import config, logs
from mcp_notarium.app import open_app
from mcp_notarium.cli import console, login, new_key, setup_key
from mcp_notarium.config import Config, accounts
from mcp_notarium.config.accounts import KEY_FILE, ONLY, Account
from mcp_notarium.config.common_variables import STORE, known_variables
from mcp_notarium.config.value_parser import parse_value
from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.errors import (
    ConfigError,
    InvalidRequest,
    StorePlaceUnusable,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import Place, StoreKind, StoreSettings
from mcp_notarium.system import SYSTEM

_DATA_DIR = "NOTARIUM_DATA_DIR"
_ANOTHER = ""
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_PATIENCE = 3.0
"""Seconds after which the user is told that the store has not answered yet."""


_BESIDE_A_CHOICE = 5
"""Columns of the arrow before a choice, and of the edge behind it."""


def choose_account(args: argparse.Namespace) -> Account:
    """Return the account to go on with, or a new one that stands in no file yet."""
    known = accounts.read_accounts(accounts.config_dir(os.environ))
    given = _parse_pairs("--set", args.set)
    name = args.account
    if known and name == ONLY and not args.store:
        name = _choose_known(known, yes=args.yes)
    if name in known:
        kind = registry.kind(known[name].store)
        _require_known(kind, given)
        _read_secrets(kind, args.secret_file)
        return _with_settings(known[name], given)
    kind = registry.kind(args.store or _choose_store(yes=args.yes))
    _require_known(kind, given)
    _read_secrets(kind, args.secret_file)
    variables = {STORE: kind.name} | _settings(kind, given)
    new = Account(args.account or _free_name(kind.name, known), "keychain", variables)
    if (same := _same_account(known, new)) is not None and args.account:
        raise _other_name_error(kind, new.name, same.name)
    return same or new


def _choose_known(known: Mapping[str, Account], *, yes: bool) -> str:
    if yes and len(known) == 1:
        return next(iter(known))
    shown = [(name, f"{name}  ({one.store})") for name, one in known.items()]
    return console.choose(
        "Which account?", [*shown, (_ANOTHER, "another one")],
        default=shown[0][0], option="--account NAME",
    )  # fmt: skip


def _choose_store(*, yes: bool) -> str:
    default = os.environ.get(STORE, "") or registry.WITHOUT_ACCOUNT
    if yes or os.environ.get(STORE):
        return default
    kinds = [one for one in registry.kinds() if one.persistent]
    shown = [(one.name, one.place) for one in kinds]
    return console.choose("Where do the notes live?", shown, default=default, option="--store")


def _same_account(known: Mapping[str, Account], new: Account) -> Account | None:
    """Return the account that an earlier run has left for the same notes, with the new settings."""
    place = setup_key.account_folder(new).path
    for one in known.values():
        if one.store == new.store and setup_key.account_folder(one).path == place:
            return _with_settings(one, new.variables)
    return None


def _other_name_error(kind: StoreKind, asked: str, known: str) -> InvalidRequest:
    """Return the error for a new name of notes that have an account: two would share one database."""
    names = [one.name for one in kind.variables if not one.secret]
    other = (
        f" Other notes need a setting of their own, such as `--set {names[0]}={asked}`."
        if names
        else ""
    )
    return InvalidRequest(
        f"the account `{asked}` would be of the same notes as the account `{known}`; nothing was done",
        resolution_hint=f"`mcp-notarium --account {known} setup` goes on with those.{other}",
    )


def _with_settings(account: Account, given: Mapping[str, str]) -> Account:
    settings = {name: _canonical(name, text) for name, text in given.items()}
    return replace(account, variables={**account.variables, **settings})


def _free_name(store: str, known: Mapping[str, Account]) -> str:
    names = [store, *(f"{store}-{number}" for number in range(2, len(known) + 2))]
    return next(name for name in names if name not in known)


def _parse_pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, _, value in pairs if not value]:
        raise InvalidRequest(f"`{option}` needs a name, `=` and a value: {wrong[0]} has no value")
    return {name: value for name, _, value in pairs}


def _read_secrets(kind: StoreKind, given: list[str]) -> None:
    """Put the secrets of ``--secret-file`` where those of the environment are. Raises ``InvalidRequest``."""
    names = [one.name for one in kind.variables if one.secret and one.has_file]
    for name, path in _parse_pairs("--secret-file", given).items():
        if name not in names:
            raise InvalidRequest(
                f"{name} is no secret of {kind.title}",
                resolution_hint=f"Give one of {', '.join(names)}." if names else "It needs none.",
            )
        os.environ[name] = new_key.read_secret(path, "--secret-file").reveal_text()


def _require_known(kind: StoreKind, given: Mapping[str, str]) -> None:
    """Raise ``InvalidRequest`` if a setting is a secret, or none of this store."""
    if wrong := sorted(given.keys() - accounts.storable_names(kind)):
        raise InvalidRequest(
            f"`--set` takes no secrets and only settings of {kind.title}; `{wrong[0]}` is not for it",
            resolution_hint=f"`{STORE}={kind.name} mcp-notarium --print-config-vars` lists them. Secrets come "
            "from a file: `--secret-file NAME=FILE`, with `-` for standard input.",
        )


def _settings(kind: StoreKind, given: Mapping[str, str]) -> dict[str, str]:
    """Return what the account remembers: options, settings of the store, and answers to questions."""
    own = {one.name: one for one in kind.variables if not one.secret}
    files = {one.file_name for one in kind.variables if one.has_file}
    names = {*own, *files, _DATA_DIR, setup_key.KEYCHAIN, accounts.KEY_FILE}
    values = {name: text for name in sorted(names) if (text := os.environ.get(name))} | dict(given)
    for name, variable in own.items():
        if variable.required and name not in values:
            values[name] = _ask(kind, variable, values, "")
        elif variable.required and (wrong := _problem(kind, variable, values, values[name])):
            raise InvalidRequest(f"{name} cannot be used: {wrong}", resolution_hint="Correct it.")
    return {name: _canonical(name, text) for name, text in values.items()}


def _ask(kind: StoreKind, variable: Variable, known: Mapping[str, str], default: str) -> str:
    return ask_setting(kind, variable, default, problem=partial(_problem, kind, variable, known))


def _problem(
    kind: StoreKind, variable: Variable, known: Mapping[str, str], typed: str
) -> str | None:
    """Return what is wrong with a typed value among the known ones; None if nothing."""
    if not typed.strip():
        return "It is needed."
    if variable.kind is Kind.PATH and not Path(typed.strip()).expanduser().exists():
        return f"There is no such file or folder: {display_path(Path(typed.strip()))}"
    if variable.kind is Kind.EMAIL and not _ADDRESS.fullmatch(typed.strip()):
        return "This is no e-mail address: one has a name, `@` and a host."
    try:
        parse_value(variable, typed, [])
        usual = {one.name: one.default for one in kind.variables}
        kind.identity(StoreSettings({**usual, **known, variable.name: typed.strip()}))
    except ConfigError as error:
        return f"{error.message}. {error.person_hint}"
    return None


def _canonical(name: str, text: str) -> str:
    """Return the value as it is kept: a path as a full one, for servers have another working folder."""
    variable = next((one for one in known_variables() if one.name == name), None)
    if variable is None or variable.kind is Kind.PATH:
        return str(Path(text).expanduser().absolute())
    return parse_value(variable, text, [])


def ask_again(account: Account, needed: list[Variable]) -> Account:
    """Return the account with these settings, which a person corrects."""
    kind, known = registry.kind(account.store), account.variables
    typed = {one.name: _ask(kind, one, known, known.get(one.name, "")) for one in needed}
    return _with_settings(account, typed)


def is_known(account: Account) -> bool:
    """Tell whether the account is remembered already."""
    return account.name in accounts.read_accounts(accounts.config_dir(os.environ))


def given_logins(account: Account) -> list[str]:
    """Return the secrets by which servers log in to the account's store, as far as they are set."""
    login_ = registry.kind(account.store).login
    given = {**os.environ, **account.variables}
    names = login_.variables if login_ else ()
    return [one for one in names if given.get(one) or given.get(f"{one}_FILE")]


def without_logins(account: Account) -> Account:
    """Return the account without the secrets that its store has refused; files that were made for them go."""
    variables = dict(account.variables)
    for name in given_logins(account):
        os.environ.pop(name, None)
        path = Path(os.environ.pop(f"{name}_FILE", "") or variables.get(f"{name}_FILE", ""))
        variables.pop(f"{name}_FILE", None)
        if path.parent == accounts.config_dir(os.environ):
            SYSTEM.remove(path)
    return replace(account, variables=variables)


def require_reachable(account: Account, args: argparse.Namespace) -> None:
    """Ask the store of a new account for one note, before anything is kept. Raises ``NotariumError``.

    A store that wants a login first is asked by that.
    """
    kind = registry.kind(account.store)
    if kind.tables is not None:
        return
    given = {**os.environ, **account.variables}
    if kind.login and not given_logins(account):
        login.require_dialog(kind.login, args)
        return
    logs.protect(*config.secrets_here())  # an error may quote a value from a wrong variable
    own = {KEY_FILE: "", setup_key.KEY: ""}
    found = config.load({**given, **own}, cwd=Path(os.path.sep)).config
    # In memory, without a keychain: no file and no login is left behind.
    trial = replace(found, store=replace(kind, persistent=False), keychain=False)
    try:
        with console.progress(f"Asking {kind.title}"):
            _ask_patiently(trial)
    except StorePlaceUnusable:
        raise  # it names the place, and no network is in between
    except StoreUnavailable as error:
        needed = [f"{one.name}={given[one.name]}" for one in kind.variables if one.required]
        raise StoreUnavailable(
            error.message,
            resolution_hint=f"Check {' and '.join(needed)} and the network.",
        ) from error


def _ask_patiently(trial: Config) -> None:
    """Ask the store, and tell the user if it is slow."""
    try:
        asyncio.run(_ask_store(replace(trial, api_timeout=min(_PATIENCE, trial.api_timeout))))
    except StoreTimeout:
        if trial.api_timeout <= _PATIENCE:
            raise
        console.say(f"{trial.store.title} is slow; waiting up to {trial.api_timeout:g} s ...")
        asyncio.run(_ask_store(trial))


async def _ask_store(trial: Config) -> None:
    async with open_app(trial, syncing=False) as app:
        await app.store.list_page(since=None, mark=None, limit=1, with_content=False)


def ask_setting(
    kind: StoreKind, variable: Variable, default: str, *, problem: Callable[[str], str | None]
) -> str:
    """Return what the user chooses or types, once ``problem`` says that it can be used."""
    question, option = f"{variable.purpose.removesuffix('.')}:", f"--set {variable.name}=VALUE"
    is_path = variable.kind is Kind.PATH
    places = kind.places(os.environ) if is_path and not default else ()
    if places := tuple(one for one in places if problem(one.path) is None):
        shown = [(one.path, _choice(one)) for one in places]
        chosen = console.choose(
            "Which one?", [*shown, (_ANOTHER, "another folder")],
            default=places[0].path, option=option,
        )  # fmt: skip
        if chosen != _ANOTHER:
            return chosen
    return console.ask_text(
        question, default=default, option=option, problem=problem, is_path=is_path
    )


def _choice(place: Place) -> str:
    """Return how a place is shown: in one line, with the end of a long path."""
    begin = f"{one_line(place.name)}  ({place.app}, "
    home = f"{Path.home()}{os.sep}"
    path = one_line(
        place.path.replace(home, f"~{os.sep}", 1) if place.path.startswith(home) else place.path
    )
    room = max(console.console().width - len(begin) - _BESIDE_A_CHOICE, 1)
    return f"{begin}{path if len(path) <= room else f'…{path[1 - room :]}'})"
