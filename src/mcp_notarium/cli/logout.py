"""``mcp-notarium logout``: forgets the stored login. The notes in the cache stay."""

from __future__ import annotations

import argparse
import asyncio

from mcp_notarium.app import open_app
from mcp_notarium.cli import settings
from mcp_notarium.cli.recorded import recorded
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config
from mcp_notarium.errors import LockedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""
    parser.epilog = (
        "Simplenote offers no way to end one login: to make the token useless everywhere, change "
        "the account's password."
    )


def run(args: argparse.Namespace) -> int:
    """Remove the token from the keychain and from the cache; exit code 23 if only from the latter."""
    return asyncio.run(_forget(settings.prepare(args)))


async def _forget(config: Config) -> int:
    async with open_app(config, syncing=False) as app:
        try:
            with recorded(app, "cli.logout"):
                app.tokens.forget()
        except LockedError as error:
            raise LockedError(
                error.verdict,
                f"the cache has forgotten the login, and {error.message}; it may still hold one",
                resolution_hint="Unlock the keychain and run `mcp-notarium logout` again.",
            ) from error
    talk("The stored login is forgotten. The cache and its notes stay where they are.")
    if config.password or config.token:
        talk("note: SIMPLENOTE_PASSWORD or SIMPLENOTE_TOKEN is set and still lets servers log in.")
    return 0
