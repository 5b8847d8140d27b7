"""Remember accounts in ``accounts.toml``: their store, its settings and where the key is; never a secret.

A command uses the account that ``--account`` names, or else the default account, or the only one. A server uses the one that
it was started with, or else the default account; that is one only if the user has made it one. The environment wins over
the file, and so does the file of ``--env-file``: if it names a store, no account is used but the one of ``--account``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from mcp_notarium.config.common_variables import COMMON, STORE
from mcp_notarium.config.text_files import read_found_file
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import StoreKind, StoreSettings
from mcp_notarium.system import SYSTEM

KeyPlace = Literal["keychain", "file", "passphrase"]
"""Place of the key: the system's keychain, a file, or nobody's hands but the user's."""

FILE = "accounts.toml"
ONLY = ""
"""Stands for the default account, or the only one, where one is to be named."""
KEY_FILE = "DB_ENCRYPTION_KEY_FILE"
_KEY, _DEFAULT = "key", "default"
_PLACES = ("keychain", "file", "passphrase")
_HEAD = (
    "The accounts of MCP Notarium. `mcp-notarium setup` writes this file; no secret belongs in it."
)
_SETUP = "Run `mcp-notarium setup` in a terminal."


class AccountError(ConfigError):
    """Report that the account that a command or a server should use cannot be told."""

    resolution_hint = _SETUP


@dataclass(frozen=True, slots=True)
class Account:
    """Hold one account."""

    name: str
    key: KeyPlace
    """Place of its key."""
    variables: Mapping[str, str]
    """Its settings as texts, by the names of the variables."""
    default: bool = False
    """Tell that it is used where none is named."""

    @property
    def store(self) -> str:
        """Return the name of the kind of its store."""
        return self.variables.get(STORE, registry.DEFAULT)


def config_dir(environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for settings of this user. Raises ``RuntimeError`` without a home folder."""
    return SYSTEM.user_folder("config", environ)


def choose_account(
    name: str | None, folder: Path, better: Iterable[Mapping[str, str]]
) -> Account | None:
    """Return the account of that name, or the default or only one for ``ONLY``, the default one for None; None if there is none.

    For ``ONLY`` and None an account is not used if a ``better`` source names a store or a setting of one: that is
    another account. Raises ``AccountError``, but for None.
    """
    # defence: key-of-one-account-only
    if not name and any(naming_variable(values) for values in better):
        return None
    if name is None:
        with suppress(
            AccountError
        ):  # the settings that are missing then are what a server complains of
            return default_account(read_accounts(folder))
        return None
    found = read_accounts(folder)
    if name != ONLY:
        if name in found:
            return found[name]
        import difflib  # noqa: PLC0415 - only for an error

        folded = {one.casefold(): one for one in found}
        near = difflib.get_close_matches(name.casefold(), folded, 1)
        known = f"There are: {', '.join(found)}." if found else "There is none yet."
        known = f"Did you mean `{folded[near[0]]}`? {known}" if near else known
        raise AccountError(
            f"there is no account `{name}` in {display_path(folder / FILE)}",
            resolution_hint=f"{known} {_SETUP}",
        )
    if (default := default_account(found)) is not None:
        return default
    if len(found) > 1:
        named = ", ".join(f"`--account {one.name}` ({one.store})" for one in found.values())
        raise AccountError(
            f"there are {len(found)} accounts, and it is not said which one is meant",
            resolution_hint=f"Add one of these to the command: {named}. `mcp-notarium accounts default NAME` makes one the default.",
        )
    return next(iter(found.values()), None)


def default_account(found: Mapping[str, Account]) -> Account | None:
    """Return the account that is the default one; None if none is."""
    return next((one for one in found.values() if one.default), None)


def set_default(folder: Path, name: str | None) -> None:
    """Make this account the default one, or none for None. Raises ``OSError``, ``AccountError``."""
    found = read_accounts(folder)
    write_accounts(folder, {one: replace(it, default=one == name) for one, it in found.items()})


def read_accounts(folder: Path) -> dict[str, Account]:
    """Return the accounts by name, in the file's order; none if there is no file. Raises ``AccountError``."""
    path = folder / FILE
    try:
        text = read_found_file(path).text
    except FileNotFoundError:
        return {}
    except ConfigError as error:
        raise AccountError(
            f"{display_path(path)} cannot be used: {error.message}",
            resolution_hint=error.resolution_hint,
        ) from error
    import tomllib  # noqa: PLC0415 - only where there is such a file

    try:
        found = {name: _read_account(name, table) for name, table in tomllib.loads(text).items()}
        if sum(one.default for one in found.values()) > 1:
            raise ConfigError("several accounts are the default one")  # noqa: TRY301 - one message for all
    except (tomllib.TOMLDecodeError, ConfigError) as error:
        raise AccountError(
            f"{display_path(path)} cannot be used: {error}",
            resolution_hint=f"Correct it, or remove it and start again. {_SETUP}",
        ) from error
    return found


def write_accounts(folder: Path, accounts: Mapping[str, Account]) -> None:
    """Replace the file, readable by the user alone. Raises ``OSError``."""
    import tomlkit  # noqa: PLC0415 - only commands write it

    from mcp_notarium.files.private_files import replace_private  # noqa: PLC0415 - the same

    document = tomlkit.document()
    document.add(tomlkit.comment(_HEAD))
    for account in accounts.values():
        default = {_DEFAULT: True} if account.default else {}
        table = {_KEY: account.key, **default, **account.variables}
        document.add(account.name, tomlkit.item(table))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(folder / FILE, tomlkit.dumps(document).encode())


def remember(folder: Path, account: Account) -> None:
    """Add the account, or replace the one of its name. Raises ``OSError``, ``AccountError``."""
    write_accounts(folder, read_accounts(folder) | {account.name: account})


def forget(folder: Path, account: Account) -> None:
    """Take the account out of the file, and remove an empty file and folder. Raises ``OSError``, ``AccountError``."""
    kept = {name: one for name, one in read_accounts(folder).items() if name != account.name}
    if kept:
        write_accounts(folder, kept)
    else:
        SYSTEM.remove(folder / FILE)
        with suppress(OSError):  # a folder that holds something else stays
            folder.rmdir()


def find_places(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files and folders that the settings of an account name: of its keys, secrets, notes and data."""
    texts, named = dict(variables), set[Path]()
    for name, text in variables.items():
        with suppress(RuntimeError, ValueError):  # the home folder of nobody, or no path
            if (path := Path(text).expanduser()).is_absolute():
                named |= {path, *path.resolve().parents, path.resolve()}
                texts[name] = str(path)
                yield path
    if (store := variables.get(STORE, registry.DEFAULT)) in registry.names():
        with suppress(ConfigError, ValueError):  # nothing starts with these settings
            access = registry.kind(store).access(StoreSettings(texts))
            # A setting that is missing would name the working folder.
            yield from named.intersection((*access.read, *access.write))


def storable_names(kind: StoreKind) -> set[str]:
    """Return the names of the variables that an account of that store may hold: all that are no secrets."""
    known = (*COMMON, *kind.variables)
    plain = {one.name for one in known if not one.secret}
    return plain | {one.file_name for one in known if one.has_file}


def naming_names() -> list[str]:
    """Return the variables that name a store, or are a setting of one."""
    own = (one for kind in registry.kinds() for one in kind.variables)
    return [STORE, *(name for one in own for name in (one.name, one.file_name))]


def naming_variable(values: Mapping[str, str]) -> str | None:
    """Return one of :func:`naming_names` that is set; None if there is none."""
    return next((name for name in naming_names() if values.get(name)), None)


def _read_account(name: str, table: Any) -> Account:
    default = isinstance(table, dict) and table.pop(_DEFAULT, False)
    if not isinstance(default, bool):
        raise ConfigError(f"`{_DEFAULT}` of `{name}` is not true or false")
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ConfigError(f"`{name}` is no table of texts")
    values = cast("dict[str, str]", table)
    key = values.pop(_KEY, "keychain")
    if key not in _PLACES:
        raise ConfigError(f"the key of `{name}` is in none of these: {', '.join(_PLACES)}")
    account = Account(name, cast("KeyPlace", key), values, default)
    if account.store not in registry.names():
        raise ConfigError(f"`{name}` names a store that does not exist")
    # Only this kind is imported: a server waits for it.
    if strange := sorted(values.keys() - storable_names(registry.kind(account.store))):
        raise ConfigError(f"`{name}` may not hold {', '.join(strange)}")
    if (key == "file") != (KEY_FILE in values):
        raise ConfigError(f"`{name}` has {KEY_FILE} if its key is in a file, and only then")
    return account
