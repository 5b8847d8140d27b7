"""Refuse a start that cannot succeed, before anything is opened, and import the SDK in the parts that are used.

Must stay cheap: every client waits for it at each start. The full examination is made when the account
is opened. :func:`make_bytecode` is the one thing here that writes.

The packages ``mcp`` and ``mcp.server`` import the SDK's client, its web server and its decorators when they are
initialized, and every model of the wire is built at once: two fifths of the time and half of the memory (mcp
2.3.0). Here the packages are not initialized, and such a model is built when it is first used. A release of
the SDK that does not permit this is imported as a whole.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_notarium.errors import REINSTALL, ConfigError, LockedError, Verdict

if TYPE_CHECKING:
    from mcp_notarium.config import Config


_DRIVER = "sqlcipher3"

_TOLD_BY = ("mcp_notarium.protocol.sdk_server", "mcp", "pydantic", "httpx")
_LOADED = (
    "mcp_notarium.protocol.event_loop",
    "mcp_notarium.protocol.sdk_server",
    "mcp_notarium.account.rescue",
    "mcp_notarium.account.rewrite",
    *("httpx", "httpcore", "argon2.low_level"),
)


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
    """Raise ``LockedError`` unless exactly one distribution of the driver is beside its package."""
    spec = find_spec(_DRIVER)
    if spec is None or spec.origin is None:
        message = "The SQLCipher driver is not installed."
    else:
        beside = os.listdir(Path(spec.origin).parent.parent)  # noqa: PTH208 - names are enough
        found = [
            name for name in beside if name.startswith(_DRIVER) and name.endswith(".dist-info")
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
    """Refuse a readable database beside an encrypted one: one of the two is a mistake."""
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


def make_bytecode() -> None:
    """Import what a server needs if that has no bytecode yet, so that Python writes it now.

    A confined process writes nothing beside the sources, and without bytecode every start compiles some
    hundred modules again. pip compiles what it installs; other installers leave it to the first import.
    Nothing that anybody wrote is read by then.
    """
    if sys.dont_write_bytecode or not any(map(_lacks_bytecode, _TOLD_BY)):
        return
    from mcp_notarium.tools import toolsets  # noqa: PLC0415 - rarely needed

    for name in (*_LOADED, *toolsets.native_modules()):
        import_module(name)  # defence: bytecode-made-first


def _lacks_bytecode(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.cached is None or spec.origin is None or Path(spec.cached).exists():
        return False
    return os.access(Path(spec.origin).parent, os.W_OK)


_UNINITIALIZED: Final = ("mcp", "mcp.server")
_NEEDLESS: Final = ("httpx._main", "uvicorn")
"""What the SDK and the HTTP client import if it is there: a command line, a web server. None in
``sys.modules`` means to Python that it is not there."""
_STARTED: Final = ("mcp.", "mcp_types", "mcp_notarium.protocol.")
"""Beginnings of the names of modules that a failed import may leave."""


def import_sdk() -> None:
    """Import ``sdk_server``, and with it what it needs of the SDK."""
    for module in _NEEDLESS:
        sys.modules[module] = None  # type: ignore[assignment]
    if "mcp" in sys.modules:
        _import_server()
        return
    before = set(sys.modules)
    try:
        for package in _UNINITIALIZED:
            spec = find_spec(package)
            assert spec is not None  # noqa: S101 - it is a dependency
            sys.modules[package] = module_from_spec(spec)
        from mcp_types._wire_base import WireModel  # noqa: PLC0415 - the order matters

        WireModel.model_config["defer_build"] = True
        _import_server()
    except (ImportError, AttributeError):
        for name in set(sys.modules) - before:
            if name == "mcp" or name.startswith(_STARTED):
                del sys.modules[name]
        _import_server()


def _import_server() -> None:
    from mcp_notarium.protocol import sdk_server  # noqa: F401, PLC0415 - imported to be there
