"""Run ``mcp-notarium logout``: remove the stored login. The local notes stay."""

from __future__ import annotations

import argparse
import asyncio

from mcp_notarium.app import open_app
from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config
from mcp_notarium.errors import LockedError
from mcp_notarium.files.account_folder import AccountFolder, folder_errors
from mcp_notarium.keys import keychain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an epilog; there are no options."""
    parser.epilog = (
        "Simplenote cannot end a single login. To invalidate the token everywhere, change the "
        "account's password."
    )


def run(args: argparse.Namespace) -> int:
    """Remove the token from keychain and database; exit code 23 if only from the latter."""
    config = command_setup.prepare(args)
    if _has_database(AccountFolder(config.account_dir)):
        asyncio.run(_forget(config))
        talk("The stored login was removed. The cache and its notes stay.")
    else:
        _forget_in_keychain(config)
        talk("There is no cache here, so no login is stored in one.")
    if config.password or config.token:
        talk("note: SIMPLENOTE_PASSWORD or SIMPLENOTE_TOKEN is set and still lets servers log in.")
    return 0


def _has_database(folder: AccountFolder) -> bool:
    """Return whether there is a database. Logging out must not create one."""
    with folder_errors(folder):
        files = (folder.key_file, folder.key_copy, folder.plain_database)
        return any(file.exists() for file in files)


def _forget_in_keychain(config: Config) -> None:
    """Remove the token from the keychain, if there is one in this session."""
    system = keychain.system_keychain()
    if config.keychain and not system.missing:
        system.delete(keychain.TOKEN, config.owner_hash)


async def _forget(config: Config) -> None:
    async with open_app(config, syncing=False) as app:
        try:
            with command_setup.record_command(app, "cli.logout"):
                app.tokens.forget()
        except LockedError as error:
            raise LockedError(
                error.verdict,
                f"the cache has forgotten the login, and {error.message}; it may still hold one",
                resolution_hint="Unlock the keychain and run `mcp-notarium logout` again.",
            ) from error
