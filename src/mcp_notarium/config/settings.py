"""Define the configuration as one frozen value, and build it from valid picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from mcp_notarium.config import policy_file
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.config.sources import DEFAULT, NOT_SET, Pick
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.domain.write_scope import ANYTHING
from mcp_notarium.errors import ConfigError, NotariumError, SettingsMissing
from mcp_notarium.secret import Secret
from mcp_notarium.stores.kind import AccountIdentity, StoreKind, StoreSettings
from mcp_notarium.system import SYSTEM

_KEY = "DB_ENCRYPTION_KEY"

OnUnreadable = Literal["refuse", "rebuild"]
Destructive = Literal["ask", "strict", "trust", "deny"]
Sandbox = Literal["auto", "require", "off"]
Tools = Literal["notarium", "native", "both"]
NativeNames = Literal["pascal", "snake"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Hold every setting, checked. Times are in seconds, addresses without a final slash."""

    store: StoreKind
    store_settings: StoreSettings
    """Those of the store's own variables."""
    data_dir: Path
    db_key: Secret | None = None
    db_key_origin: str = ""
    """Source that has set the key."""
    db_key_yields: bool = False
    """The key comes from a ``.env`` that nobody named, and a key in the keychain is preferred."""
    db_encryption: bool = True
    kdf: str = "argon2id"
    kdf_chosen: bool = False
    """Somebody has set ``kdf``."""
    kdf_iterations: int = 310_000
    """Of PBKDF2 alone."""
    allow_weak: bool = False
    """A command was told to make a new database with a passphrase that can be guessed; no variable sets it."""
    on_unreadable: OnUnreadable = "refuse"
    memory_security: bool = False
    sync_interval: float = 300.0
    api_timeout: float = 30.0
    log_level: str = "info"
    log_file: Path | None = None
    meaning_model: Path | None = None
    tools: Tools = "notarium"
    native_names: NativeNames = "pascal"
    tool_prefix: str = ""
    destructive: Destructive = "ask"
    sandbox: Sandbox = "auto"
    audit_days: int = 365
    version_days: int = 90
    version_mb: int = 64
    """MiB of all versions."""
    policy: Policy = PERMISSIVE
    keychain: bool = True
    account_name: str = ""
    """Name of the account in ``accounts.toml``, '' if it is not from there."""
    closed_places: tuple[Path, ...] = ()
    """Paths that no agent may read as a file: the files from which secrets and settings were read, the policy file among
    them, and what the user's other accounts name."""

    @property
    def account(self) -> AccountIdentity:
        """Return what names the account."""
        return self.store.identity(self.store_settings)

    @property
    def owner_hash(self) -> str:
        """Return the hash of the account's identity: 64 hex digits."""
        return self.account.owner_hash

    @property
    def toolset(self) -> str:
        """Return the name of the tools that a server offers."""
        if self.tools == "notarium":
            ours = "titled" if self.store.titles else "notarium"
            return "with_paths" if self.store.ids.paths else ours
        both = "_both" if self.tools == "both" else ""
        return self.store.native_toolset.format(names=self.native_names) + both

    @property
    def account_dir(self) -> Path:
        """Return the folder of the account's database and key file."""
        return self.data_dir / self.owner_hash[:16]


def find_account_dir(store: StoreKind, picks: Mapping[str, Pick]) -> Path | None:
    """Return the folder of the account that settings name, some of which may be wrong; None if that cannot be told."""
    text = {name: pick.text or "" for name, pick in picks.items()}
    try:
        identity = store.identity(_store_settings(store, text))
    except (NotariumError, ValueError, OSError, RuntimeError):
        return None
    return Path(text["NOTARIUM_DATA_DIR"]) / identity.owner_hash[:16]


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for application data of this user. Raises ``RuntimeError``."""
    return SYSTEM.user_folder("data", environ)


def fill_defaults(picks: dict[str, Pick], environ: Mapping[str, str]) -> None:
    """Fill in what depends on other variables or on the platform."""
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


def build_policy(
    store: StoreKind, picks: Mapping[str, Pick], profile: str | None = None
) -> FoundPolicy:
    """Return the policy that holds in an account of this store; every pick is free of problems. Raises ``ConfigError``.

    ``profile``: the one that narrows it, '' for the one that NOTARIUM_PROFILE names, None for none.
    """
    named = picks[policy_file.FILE_VARIABLE].text
    found = policy_file.find_policy(
        named=Path(named) if named else None,
        data_dir=Path(picks["NOTARIUM_DATA_DIR"].text or ""),
        read_only=picks[policy_file.READ_ONLY_VARIABLE].text == "on",
    )
    chosen = "" if profile is None else profile or picks[policy_file.PROFILE_VARIABLE].text
    return found.of_account(store, chosen or "")


def build_config(
    store: StoreKind, picks: Mapping[str, Pick], found: FoundPolicy, *, for_agents: bool
) -> Config:
    """Return the configuration; every pick is free of problems.

    A pick may lack a required value, which is '' then. ``for_agents`` False: for a command of the user's own, who may
    change any note.
    """
    text = {name: pick.text or "" for name, pick in picks.items()}
    key = picks[_KEY]
    return Config(
        store=store,
        store_settings=_store_settings(store, text),
        data_dir=Path(text["NOTARIUM_DATA_DIR"]),
        db_key=Secret(text[_KEY]) if text[_KEY] else None,
        db_key_origin=f"{key.set_by} of {key.found_in}" if key.found_in else key.set_by,
        db_key_yields=bool(key.found_in),
        db_encryption=text["DB_ENCRYPTION"] == "on" and store.persistent,
        kdf=text["DB_ENCRYPTION_KDF"],
        kdf_chosen=picks["DB_ENCRYPTION_KDF"].origin != DEFAULT,
        kdf_iterations=int(text["DB_ENCRYPTION_KDF_ITERATIONS"]),
        on_unreadable=cast("OnUnreadable", text["DB_ON_UNREADABLE"]),
        memory_security=text["DB_CIPHER_MEMORY_SECURITY"] == "on",
        sync_interval=float(text["SYNC_INTERVAL_SECONDS"]),
        api_timeout=float(text["API_TIMEOUT_SECONDS"]),
        log_level=text["LOG_LEVEL"],
        log_file=Path(text["LOG_FILE_PATH"]) if text["LOG_FILE_PATH"] else None,
        meaning_model=Path(text["NOTARIUM_MEANING_MODEL"])
        if text["NOTARIUM_MEANING_MODEL"]
        else None,
        tools=cast("Tools", text["NOTARIUM_TOOLS"]),
        native_names=cast("NativeNames", text["NOTARIUM_NATIVE_NAMES"]),
        tool_prefix=text["NOTARIUM_TOOL_PREFIX"],
        destructive=cast("Destructive", text["NOTARIUM_DESTRUCTIVE"]),
        sandbox=cast("Sandbox", text["NOTARIUM_SANDBOX"]),
        audit_days=int(text["NOTARIUM_AUDIT_DAYS"]),
        version_days=int(text["NOTARIUM_VERSION_DAYS"]),
        version_mb=int(text["NOTARIUM_VERSION_MB"]),
        policy=found.policy
        if for_agents or not found.policy.writing.has_rules
        else replace(found.policy, writing=ANYTHING),
        keychain=text["NOTARIUM_KEYCHAIN"] == "on" and store.persistent,
        closed_places=tuple(filter(None, (found.path, *(pick.file for pick in picks.values())))),
    )


def _store_settings(store: StoreKind, text: Mapping[str, str]) -> StoreSettings:
    secrets = {one.name for one in store.variables if one.secret}
    return StoreSettings(
        texts={one.name: text[one.name] for one in store.variables if one.name not in secrets},
        secrets={name: Secret(text[name]) for name in secrets if text[name]},
    )


def _warn_of_origin(key: Pick) -> Pick:
    """Add a warning: the author of the working folder may have chosen the key, and may know it."""
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
