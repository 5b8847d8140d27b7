"""Run ``mcp-notarium login`` and ``logout``.

A code sent by e-mail (or the password) is exchanged for a token, which goes into the OS keychain, else into
the encrypted database; never into a plain file. Logging out removes it; the local notes stay.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_setup, signals
from mcp_notarium.cli.terminal import (
    ask_secret,
    input_is_ready,
    read_line,
    require_terminal,
    talk,
)
from mcp_notarium.config import Config
from mcp_notarium.errors import ConfigError, LockedError, NotariumError, OtherAccount
from mcp_notarium.files.account_folder import AccountFolder, folder_errors
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.login import Authenticator
from mcp_notarium.stores.simplenote.urls import Urls


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the login method, and whether a new database may have a weak key."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--password", action="store_true", help="ask for the password, send no e-mail")
    way.add_argument(
        "--code-stdin", action="store_true", help="read the code of the e-mail from standard input"
    )
    command_setup.options("--allow-weak")(parser)


def run_login(args: argparse.Namespace) -> int:
    """Log in; exit code 0 when the token works and is stored."""
    if not args.code_stdin:
        require_terminal()  # before a code is sent that nobody could type
    config = replace(command_setup.prepare(args), allow_weak=args.allow_weak)
    return asyncio.run(_log_in(config, args))


async def _log_in(config: Config, args: argparse.Namespace) -> int:
    async with open_app(config, syncing=False) as app:
        if not app.tokens.persistent:
            raise ConfigError(
                "there is no safe place for a login: the cache is not encrypted and there is no "
                "usable keychain",
                resolution_hint="Remove DB_ENCRYPTION=off, or set SIMPLENOTE_TOKEN or "
                "SIMPLENOTE_PASSWORD in the client's configuration instead.",
            )
        signals.watch_folder(config.account_dir)  # opening may have created the database
        before = app.tokens.load()
        token = await _obtain_token(config, args)
        with command_setup.record_command(app, "cli.login"):
            app.tokens.store(token)
            try:
                # One small request in the account's name.
                await app.store.list_page(since=None, mark=None, limit=1, with_content=False)
            except OtherAccount:
                raise  # the login is valid; the database belongs to another account
            except (NotariumError, KeyboardInterrupt, asyncio.CancelledError):
                _restore_token(app, before)
                raise
    talk(
        f"Logged in. {app.config.backend.capitalize()} accepts the token; it is stored for servers."
    )
    return 0


async def _obtain_token(config: Config, args: argparse.Namespace) -> Secret:
    authenticator = Authenticator.open(
        urls=Urls.from_settings(api=config.api_url, auth=config.auth_url, app=config.app_url),
        api_key=config.api_key,
        timeout=config.api_timeout,
    )
    try:
        if args.password:
            return await authenticator.by_password(
                config.username, ask_secret("Simplenote password: ")
            )
        code = read_line() if args.code_stdin and input_is_ready() else None
        if code is None or code.strip():  # else nobody could pass on the code of the e-mail
            await authenticator.request_code(config.username, request_source=config.request_source)
            talk("Simplenote has sent a code to the account's e-mail address.")
        if code is None:
            code = (
                read_line()
                if args.code_stdin
                else ask_secret("Code from the e-mail: ").reveal_text()
            )
        if not code.strip():
            raise ConfigError(
                "no code was given",
                resolution_hint="Run the command again and give the code of the newest e-mail. With "
                "--code-stdin, keep standard input open until the e-mail has come.",
            )
        return await authenticator.complete_code(config.username, code)
    finally:
        await authenticator.close()


def _restore_token(app: App, before: Secret | None) -> None:
    """Restore the previous token, so that a useless one does not replace it."""
    if before is None:
        with suppress(LockedError):  # then it was not stored there either
            app.tokens.forget()
    else:
        app.tokens.store(before)


def add_logout_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an epilog; there are no options."""
    parser.epilog = (
        "Simplenote cannot end a single login. To invalidate the token everywhere, change the "
        "account's password."
    )


def run_logout(args: argparse.Namespace) -> int:
    """Remove the token from keychain and database; exit code 23 if only from the latter."""
    config = command_setup.prepare(args)
    folder = AccountFolder(config.account_dir)
    with folder_errors(folder):  # logging out must not create a database
        found = any(
            file.exists() for file in (folder.key_file, folder.key_copy, folder.plain_database)
        )
    if found:
        asyncio.run(_forget(config))
        talk("The stored login was removed. The cache and its notes stay.")
    else:
        system = keychain.system_keychain()
        if config.keychain and not system.missing:
            system.delete(keychain.TOKEN, config.owner_hash)
        talk("There is no cache here, so no login is stored in one.")
    if config.password or config.token:
        talk("note: SIMPLENOTE_PASSWORD or SIMPLENOTE_TOKEN is set and still lets servers log in.")
    return 0


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


COMMANDS = {
    "login": (add_login_arguments, run_login),
    "logout": (add_logout_arguments, run_logout),
}
