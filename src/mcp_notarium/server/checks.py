"""What can be refused before anything is opened: said on stderr, because clients hide the rest.

Only looks. It must stay cheap: every client waits for it at each start. The full examination is made
when the cache is opened.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import LockedError, Verdict

if TYPE_CHECKING:
    from mcp_notarium.config import Config

_DRIVER = "sqlcipher3"
_REINSTALL = "Run `pip uninstall sqlcipher3 sqlcipher3-binary`, then `pip install mcp-notarium`."


def refuse_early(config: Config) -> None:
    """Raises ``LockedError`` for what no later step could make good."""
    _check_driver(_installed_drivers())
    _check_mode(config)
    _check_folder(config)


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
        raise LockedError(
            Verdict.MODE_MISMATCH,
            "DB_ENCRYPTION=off, but there is an encrypted cache of this account.",
            resolution_hint="Remove DB_ENCRYPTION=off, or move the encrypted files away.",
        )


def _check_folder(config: Config) -> None:
    from mcp_notarium.keys.folder import AccountFolder, find_problem  # noqa: PLC0415 - as above

    problem = find_problem(AccountFolder(config.account_dir))
    if problem is not None:
        raise LockedError(Verdict.UNSAFE_PATH, problem.reason, resolution_hint=problem.command)
