"""Refuse a start that cannot succeed, before anything is opened.

Must stay cheap: every client waits for it at each start. The full examination is made when the account
is opened.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import REINSTALL, ConfigError, LockedError, Verdict

if TYPE_CHECKING:
    from mcp_notarium.config import Config


_DRIVER = "sqlcipher3"


def refuse_early(config: Config) -> None:
    """Raise ``ConfigError`` or ``LockedError`` for what no later step could make good."""
    check_configuration(config)
    _check_driver()
    if config.store.persistent:
        _check_folder(config)
        _check_mode(config)


def check_configuration(config: Config) -> None:
    """Raise ``ConfigError`` for settings that do not fit each other."""
    if config.tools != "notarium" and not config.store.native_toolset:
        raise ConfigError(
            f"NOTARIUM_TOOLS asks for native tools, and {config.store.title} has none.",
            resolution_hint="Remove it, or set it to notarium.",
        )


def missing_key(config: Config) -> LockedError | None:
    """Return the refusal of an encrypted database to which nothing here can have the key, or None.

    A keychain that runs is not asked: it may ask the user, and the client may be gone by then.
    """
    if not config.db_encryption or config.db_key is not None or _keychain_runs(config):
        return None
    from mcp_notarium.account import inspection  # noqa: PLC0415 - slow, rarely needed
    from mcp_notarium.account.startup_outcomes import Locked  # noqa: PLC0415 - the same

    decision = inspection.verdict(config)
    return decision.error() if isinstance(decision, Locked) else None


def _keychain_runs(config: Config) -> bool:
    """Return whether a keychain is to be asked, even if it turns out that it cannot be used."""
    if not config.keychain:
        return False
    from mcp_notarium.keys.keychain import system_keychain  # noqa: PLC0415 - slow, rarely needed

    try:
        return not system_keychain().missing
    except LockedError:
        return True


def _check_driver() -> None:
    """Raise ``LockedError`` unless exactly one distribution of the driver is installed."""
    spec = find_spec(_DRIVER)
    if spec is None or spec.origin is None:
        message = "The SQLCipher driver is not installed."
    else:
        installed = os.listdir(Path(spec.origin).parent.parent)  # noqa: PTH208 - names are enough
        found = [
            name for name in installed if name.startswith(_DRIVER) and name.endswith(".dist-info")
        ]
        if len(found) <= 1:
            return
        message = "Two SQLCipher drivers are installed over each other."
    raise LockedError(Verdict.CRYPTO_UNSUITABLE, message, resolution_hint=REINSTALL)


def _check_folder(config: Config) -> None:
    from mcp_notarium.files.account_folder import AccountFolder, find_problem  # noqa: PLC0415 - as below

    problem = find_problem(AccountFolder(config.account_dir))
    if problem is not None:
        raise LockedError(Verdict.UNSAFE_PATH, problem.reason, resolution_hint=problem.command)


def _check_mode(config: Config) -> None:
    """Refuse a readable database next to an encrypted one: one of the two is a mistake."""
    folder = config.account_dir
    if config.db_encryption or not folder.is_dir():
        return
    if any(name.endswith(".sqlite.encrypted") for name in os.listdir(folder)):  # noqa: PTH208
        from mcp_notarium.files.os_errors import move_command  # noqa: PLC0415 - rarely needed

        raise LockedError(
            Verdict.MODE_MISMATCH,
            "DB_ENCRYPTION=off, but there is an encrypted cache of this account.",
            resolution_hint=f"Remove DB_ENCRYPTION=off, or move the folder away: {move_command(folder)}.",
        )
