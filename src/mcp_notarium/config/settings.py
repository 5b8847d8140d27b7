"""Define the configuration as one frozen value. ``config.load`` makes it; it knows no sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mcp_notarium.config.variables import BUILT_IN_API_KEY
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.secret import Secret

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
