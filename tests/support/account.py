"""Make an account in a temporary folder, with a key of the lowest cost."""

import hashlib
from dataclasses import replace
from pathlib import Path

from mcp_notarium.account import opener
from mcp_notarium.account.startup_actions import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.secret import Secret

USERNAME = "Someone@Example.com"
PASSPHRASE = "violet kettle under seven maps"
OTHER = "nine hungry lamps by the river"
BOUNDS = kdf.TEST_BOUNDS


def account(folder: Path, **changes) -> Config:
    """Settings for one account under ``folder``; the keychain is off."""
    config = Config(
        username=USERNAME,
        data_dir=folder / "notarium",
        db_key=Secret(PASSPHRASE),
        db_key_origin="DB_ENCRYPTION_KEY",
        keychain=False,
    )
    return replace(config, **changes)


def open_cheaply(config: Config, **options) -> OpenedCache:
    """``open_cache`` with the cheapest key derivation."""
    return opener.open_cache(config, **({"kdf": kdf.CHEAPEST, "bounds": kdf.TEST_BOUNDS} | options))


def folder_of(config: Config) -> AccountFolder:
    """The account's folder."""
    return AccountFolder(config.account_dir)


def made(folder: Path, **changes) -> Config:
    """Settings of an account whose cache was made and closed again."""
    config = account(folder, **changes)
    open_cheaply(config).close()
    return config


def fingerprint(path: Path) -> dict[str, str]:
    """Every file below ``path`` by name and content, so that two moments can be compared."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not file.name.endswith(".lock")
    }
