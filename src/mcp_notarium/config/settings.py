"""Define the configuration as one frozen value, and build it from valid picks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from mcp_notarium.config import policy_file
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.config.sources import DEFAULT, NOT_SET, Pick
from mcp_notarium.config.variables import BUILT_IN_API_KEY
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.errors import ConfigError, SettingsMissing
from mcp_notarium.secret import Secret

_KEY = "DB_ENCRYPTION_KEY"

Kdf = Literal["argon2id", "pbkdf2-sha512"]
OnUnreadable = Literal["refuse", "rebuild"]
Destructive = Literal["ask", "elicit", "deny"]
Sandbox = Literal["auto", "require", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Hold every setting, checked. Times are in seconds, addresses without a final slash.

    The defaults are those of the variable table. ``db_key_yields``: the key comes from a ``.env`` that
    nobody named, and a key in the keychain is preferred. ``kdf_chosen``: somebody has set ``kdf``.
    ``username`` stays out of the repr: it is an e-mail address. ``allow_weak``: a command was told to
    make a new database with a passphrase that can be guessed; no variable sets it.
    """

    username: str = field(repr=False)
    data_dir: Path
    password: Secret | None = None
    token: Secret | None = None
    db_key: Secret | None = None
    db_key_origin: str = ""
    db_key_yields: bool = False
    db_encryption: bool = True
    kdf: Kdf = "argon2id"
    kdf_chosen: bool = False
    kdf_iterations: int = 310_000
    allow_weak: bool = False
    on_unreadable: OnUnreadable = "refuse"
    memory_security: bool = False
    sync_interval: float = 300.0
    api_timeout: float = 30.0
    log_level: str = "info"
    log_file: Path | None = None
    backend: str = "simplenote"
    tools: str = "notarium"
    destructive: Destructive = "ask"
    sandbox: Sandbox = "auto"
    audit_days: int = 365
    policy: Policy = PERMISSIVE
    keychain: bool = True
    request_source: str = "mcp-notarium"
    api_url: str = "https://api.simperium.com/1"
    auth_url: str = "https://auth.simperium.com/1"
    app_url: str = "https://app.simplenote.com"
    api_key: Secret = field(default_factory=lambda: Secret(BUILT_IN_API_KEY))

    @property
    def owner_hash(self) -> str:
        """Return the owner's hash: 64 hex digits made from the normalised user name."""
        from mcp_notarium.crypto import owner_hash as owner  # noqa: PLC0415 - needed only to open the account

        return owner.owner_hash(self.username)

    @property
    def account_dir(self) -> Path:
        """Return the folder of this account's database and key file."""
        return self.data_dir / self.owner_hash[:16]


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for application data of this user."""
    platform: str = sys.platform
    if platform == "linux":
        # The XDG rule as in platformdirs, whose import costs as much as the rest of a start.
        home = environ.get("XDG_DATA_HOME", "").strip()
        return Path(home or "~/.local/share").expanduser() / "mcp-notarium"
    import platformdirs  # noqa: PLC0415 - slow, and not needed everywhere

    return platformdirs.user_data_path("mcp-notarium", appauthor=False)


def fill_defaults(picks: dict[str, Pick], environ: Mapping[str, str]) -> None:
    """Fill in what depends on other variables or on the platform."""
    username, backend = picks["SIMPLENOTE_USERNAME"], picks["NOTARIUM_BACKEND"].text
    if backend != "simplenote" and username.origin == NOT_SET:
        # Other stores need no account: the store's own name owns the database.
        picks["SIMPLENOTE_USERNAME"] = Pick(backend, DEFAULT, warnings=username.warnings)
    folder = picks["NOTARIUM_DATA_DIR"]
    if folder.text is None and folder.problem is None:
        picks["NOTARIUM_DATA_DIR"] = _pick_default_folder(folder, environ)
    if picks[_KEY].found_in:
        picks[_KEY] = _warn_of_origin(picks[_KEY])


def find_missing_key(picks: Mapping[str, Pick]) -> SettingsMissing | None:
    """Return the error for a key that is not set; None if it is set or not needed.

    Called only if another required setting is missing, because a keychain may have the key.
    """
    key = picks[_KEY]
    if picks["DB_ENCRYPTION"].text == "off" or key.origin != NOT_SET or key.problem:
        return None
    elsewhere = "" if picks["NOTARIUM_KEYCHAIN"].text == "off" else "Unless the keychain has it: "
    return SettingsMissing(
        f"{_KEY} is not set",
        missing=[_KEY],
        resolution_hint=f"{elsewhere}Set {_KEY} to the key of the cache; for a first one, "
        "`mcp-notarium generate-key` prints a new one.",
    )


def build_policy(picks: Mapping[str, Pick]) -> FoundPolicy:
    """Return the policy; every pick is free of problems. Raises ``ConfigError``."""
    named = picks[policy_file.FILE_VARIABLE].text
    return policy_file.find_policy(
        named=Path(named) if named else None,
        data_dir=Path(picks["NOTARIUM_DATA_DIR"].text or ""),
        read_only=picks[policy_file.READ_ONLY_VARIABLE].text == "on",
    )


def build_config(picks: Mapping[str, Pick], found: FoundPolicy) -> Config:
    """Return the configuration; every pick is free of problems.

    A pick may lack a required value, which is '' then.
    """
    text = {name: pick.text or "" for name, pick in picks.items()}
    secret = {name: Secret(value) if value else None for name, value in text.items()}
    key = picks[_KEY]
    return Config(
        username=text["SIMPLENOTE_USERNAME"],
        data_dir=Path(text["NOTARIUM_DATA_DIR"]),
        password=secret["SIMPLENOTE_PASSWORD"],
        token=secret["SIMPLENOTE_TOKEN"],
        db_key=secret[_KEY],
        db_key_origin=f"{key.set_by} of {key.found_in}" if key.found_in else key.set_by,
        db_key_yields=bool(key.found_in),
        db_encryption=text["DB_ENCRYPTION"] == "on",
        kdf=cast("Kdf", text["DB_ENCRYPTION_KDF"]),
        kdf_chosen=picks["DB_ENCRYPTION_KDF"].origin != DEFAULT,
        kdf_iterations=int(text["DB_ENCRYPTION_KDF_ITERATIONS"]),
        on_unreadable=cast("OnUnreadable", text["DB_ON_UNREADABLE"]),
        memory_security=text["DB_CIPHER_MEMORY_SECURITY"] == "on",
        sync_interval=float(text["SYNC_INTERVAL_SECONDS"]),
        api_timeout=float(text["API_TIMEOUT_SECONDS"]),
        log_level=text["LOG_LEVEL"],
        log_file=Path(text["LOG_FILE_PATH"]) if text["LOG_FILE_PATH"] else None,
        backend=text["NOTARIUM_BACKEND"],
        tools=text["NOTARIUM_TOOLS"],
        destructive=cast("Destructive", text["NOTARIUM_DESTRUCTIVE"]),
        sandbox=cast("Sandbox", text["NOTARIUM_SANDBOX"]),
        audit_days=int(text["NOTARIUM_AUDIT_DAYS"]),
        policy=found.policy,
        keychain=text["NOTARIUM_KEYCHAIN"] == "on",
        request_source=text["SIMPLENOTE_REQUEST_SOURCE"],
        api_url=text["SIMPERIUM_API_URL"],
        auth_url=text["SIMPERIUM_AUTH_URL"],
        app_url=text["SIMPLENOTE_APP_URL"],
        api_key=Secret(text["SIMPERIUM_API_KEY"]),
    )


def _warn_of_origin(key: Pick) -> Pick:
    """Add a warning: whoever filled the working folder may have chosen the key, and may know it."""
    warning = (
        f"{_KEY} comes from {key.found_in}, which lies in the working folder; it is used unless the "
        f"keychain has a key. Set {_KEY} in the environment of the client's server entry instead."
    )
    return replace(key, warnings=(*key.warnings, warning))


def _pick_default_folder(pick: Pick, environ: Mapping[str, str]) -> Pick:
    try:
        folder = default_data_dir(environ)
    except RuntimeError:  # no home folder to be found
        folder = Path()
    if folder.is_absolute():
        return replace(pick, text=str(folder), origin=DEFAULT)
    problem = ConfigError(
        "the folder for application data cannot be found",
        resolution_hint="Set NOTARIUM_DATA_DIR to a full path.",
    )
    return replace(pick, problem=problem)
