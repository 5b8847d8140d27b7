"""What can be refused before anything is opened: said on stderr, because clients hide the rest.

Only looks. It must stay cheap: every client waits for it at each start. The full examination is made
when the cache is opened.
"""

from __future__ import annotations

import os
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import ConfigError, LockedError, Verdict

if TYPE_CHECKING:
    from mcp_notarium.config import Config

TOOL_SET = "notarium"

_READABLE, _CHANGEABLE = 0o077, 0o022
"""Rights of others that are too many: any, or any to change it."""
_DRIVER = "sqlcipher3"
_REINSTALL = "Run `pip uninstall sqlcipher3 sqlcipher3-binary`, then `pip install mcp-notarium`."


def refuse_early(config: Config) -> None:
    """Raises ``ConfigError`` or ``LockedError`` for what no later step could make good."""
    check_configuration(config)
    _check_driver(_installed_drivers())
    _check_folder(config)
    _check_mode(config)


def check_configuration(config: Config) -> None:
    """Raises ``ConfigError`` for a name in the settings that stands for nothing."""
    _check_tools(config)
    _check_store(config)


def missing_key(config: Config) -> LockedError | None:
    """The refusal of an encrypted cache to which nothing here can have the key; None: something may.

    A keychain that runs is not asked: it may ask the person, and the client may be gone by then.
    """
    if not config.db_encryption or config.db_key is not None or _keychain_runs(config):
        return None
    from mcp_notarium.account import inspection, opener  # noqa: PLC0415 - the same
    from mcp_notarium.account.startup_table import Locked  # noqa: PLC0415 - slow, rarely needed

    decision = inspection.verdict(config)
    return opener.locked_error(decision) if isinstance(decision, Locked) else None


def _keychain_runs(config: Config) -> bool:
    """Whether a keychain is to be asked, even if it turns out that it cannot be used."""
    if not config.keychain:
        return False
    from mcp_notarium.keys.keychain import system_keychain  # noqa: PLC0415 - slow, rarely needed

    try:
        return not system_keychain().missing
    except LockedError:
        return True


def _check_tools(config: Config) -> None:
    if config.tools != TOOL_SET:
        raise ConfigError(
            "NOTARIUM_TOOLS names a set of tools that does not exist.",
            resolution_hint=f"Remove it, or set it to {TOOL_SET}.",
        )


def _check_store(config: Config) -> None:
    from mcp_notarium.stores import registry  # noqa: PLC0415 - as below

    if config.backend not in registry.names():
        registry.load(config.backend)


def _installed_drivers() -> tuple[str, ...] | None:
    """The driver's distributions beside its package; None if there is no package."""
    spec = find_spec(_DRIVER)
    if spec is None or spec.origin is None:
        return None
    beside = os.listdir(Path(spec.origin).parent.parent)  # noqa: PTH208 - names are enough
    return tuple(
        sorted(name for name in beside if name.startswith(_DRIVER) and name.endswith(".dist-info"))
    )


def _check_driver(found: tuple[str, ...] | None) -> None:
    if found is None:
        message = "The SQLCipher driver is not installed."
    elif len(found) > 1:
        message = "Two SQLCipher drivers are installed over each other."
    else:
        return
    raise LockedError(Verdict.CRYPTO_UNSUITABLE, message, resolution_hint=_REINSTALL)


def _check_mode(config: Config) -> None:
    """Never a readable cache beside an encrypted one: one of the two is a mistake."""
    folder = config.account_dir
    if config.db_encryption or not folder.is_dir():
        return
    if any(name.endswith(".sqlite.encrypted") for name in os.listdir(folder)):  # noqa: PTH208
        from mcp_notarium.files.os_errors import move_command  # noqa: PLC0415 - as below

        raise LockedError(
            Verdict.MODE_MISMATCH,
            "DB_ENCRYPTION=off, but there is an encrypted cache of this account.",
            resolution_hint=f"Remove DB_ENCRYPTION=off, or move the folder away: {move_command(folder)}.",
        )


def _check_folder(config: Config) -> None:
    """The full examination is imported only where a glance has not settled it."""
    folder = config.account_dir
    if _plainly_private(folder):
        return
    from mcp_notarium.files.account_folder import AccountFolder, find_problem  # noqa: PLC0415 - see above

    problem = find_problem(AccountFolder(folder))
    if problem is not None:
        raise LockedError(Verdict.UNSAFE_PATH, problem.reason, resolution_hint=problem.command)


def _plainly_private(folder: Path) -> bool:
    """True only if the full examination would find nothing; it is made again at the opening."""
    if os.name != "posix":
        return False
    try:
        inside = [folder, *folder.iterdir()]
    except FileNotFoundError:
        inside = []
    except OSError:
        return False
    return all(_ours(path, forbidden=_READABLE) for path in inside) and all(
        _ours(path, forbidden=_CHANGEABLE) for path in folder.absolute().parents
    )


def _ours(path: Path, *, forbidden: int) -> bool:
    """True only for a folder or plain file with one name, the user's or root's, without these rights.

    A folder in which others may only add what is theirs (sticky) counts as one they cannot change.
    What is not there is in nobody's way.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    plain = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
    sticky = forbidden == _CHANGEABLE and found.st_mode & stat.S_ISVTX
    return (
        plain
        and found.st_uid in {0, os.geteuid()}
        and (bool(sticky) or not found.st_mode & forbidden)
    )
