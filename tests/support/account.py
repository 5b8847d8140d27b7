"""Make an account in a temporary folder, with a key of the lowest cost."""

import hashlib
from dataclasses import replace
from pathlib import Path

from mcp_notarium.account import opener
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_file_codec
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.kind import KIND
from support.cheap_costs import CHEAPEST, permit_cheapest
from support.simplenote_settings import simplenote, simplenote_settings

USERNAME = "Someone@Example.com"
OWNER = KIND.identity(simplenote_settings(USERNAME)).owner_hash
PASSPHRASE = "violet kettle under seven maps"
OTHER = "nine hungry lamps by the river"
permit_cheapest()


def account(folder: Path, **changes) -> Config:
    """Settings for one account under ``folder``; the keychain is off."""
    config = Config(
        **simplenote(USERNAME),
        data_dir=folder / "notarium",
        db_key=Secret(PASSPHRASE),
        db_key_origin="DB_ENCRYPTION_KEY",
        keychain=False,
    )
    return replace(config, **changes)


def open_cheaply(config: Config, **options) -> OpenedCache:
    """``open_cache`` with the cheapest key derivation."""
    return opener.open_cache(config, **({"kdf": CHEAPEST} | options))


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


def opens(config: Config, key: Secret) -> bool:
    """Return whether the key opens the account's cache."""
    try:
        open_cheaply(replace(config, db_key=key)).close()
    except LockedError as error:
        if error.verdict is not Verdict.WRONG_KEY:
            raise
        return False
    return True


def keyfile_of(config: Config) -> KeyFile:
    """Read the account's key file."""
    return key_file_codec.parse(folder_of(config).key_file.read_bytes())


def database_of(config: Config) -> Path:
    """Return the path of the account's only database."""
    (generation,) = folder_of(config).generations()
    return folder_of(config).database(generation)
