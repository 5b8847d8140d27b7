"""Log in to the note store and out of it.

A token goes into the OS keychain, else into the encrypted database; never into a plain file.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, signals
from mcp_notarium.cli.terminal import ask_secret, input_is_ready, read_line, require_terminal, talk
from mcp_notarium.config import Config
from mcp_notarium.errors import ConfigError, LockedError, NotariumError, OtherAccount
from mcp_notarium.files.account_folder import AccountFolder, folder_errors
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret
from mcp_notarium.stores.kind import Login


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the login method, and whether a new database may have a weak key."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--password", action="store_true", help="ask for the password, send no e-mail")
    way.add_argument(
        "--code-stdin", action="store_true", help="read the code of the e-mail from standard input"
    )
    command_context.options("--allow-weak")(parser)


def _run_login(args: argparse.Namespace) -> int:
    return log_in(command_context.prepare(args), args)


def log_in(config: Config, args: argparse.Namespace) -> int:
    """Log in to the store of ``config``, as the options of the command say; return the exit code."""
    login = config.store.require_login()
    require_dialog(login, args)  # before a code is sent that nobody could type
    return asyncio.run(_log_in(replace(config, allow_weak=args.allow_weak), login, args))


def require_dialog(login: Login, args: argparse.Namespace) -> None:
    """Raise ``ConfigError`` if nobody can answer what the login asks."""
    if not args.code_stdin:
        require_terminal(f"Run the command in a terminal. {login.unattended}")


async def _log_in(config: Config, login: Login, args: argparse.Namespace) -> int:
    async with open_app(config, syncing=False) as app:
        if not app.tokens.persistent:
            raise ConfigError(
                "there is no safe place for a login: the cache is not encrypted and there is no "
                "usable keychain",
                resolution_hint=f"Remove DB_ENCRYPTION=off, or set {' or '.join(login.variables)} in the "
                "client's configuration instead.",
            )
        signals.watch_folder(config.account_dir)  # opening may have created the database
        before = app.tokens.load()
        token = await login.get_token(config.store_settings, config.api_timeout, _Dialog(args))
        with command_context.record_command(app, "cli.login"):
            app.tokens.store(token)
            try:
                # One small request in the account's name.
                await app.store.list_page(since=None, mark=None, limit=1, with_content=False)
            except OtherAccount:
                raise  # the login is valid; the database belongs to another account
            except (NotariumError, KeyboardInterrupt, asyncio.CancelledError):
                _restore_token(app, before)
                raise
    talk(f"Logged in. {config.store.title} accepts the token; it is stored for servers.")
    talk("Running servers use it at once. `mcp-notarium sync` loads the notes now.")
    return 0


class _Dialog:
    """Be the :class:`LoginDialog` of the terminal, or of standard input with ``--code-stdin``."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.by_password: bool = args.password
        self.asks_person: bool = not args.code_stdin

    def say(self, text: str) -> None:
        """Show a line."""
        talk(text)

    def ask_secret(self, prompt: str) -> Secret:
        """Ask for a secret without showing what is typed."""
        return ask_secret(prompt)

    def waiting_code(self) -> str | None:
        """Return what standard input has already, '' at its end, None if it has nothing yet."""
        return read_line() if not self.asks_person and input_is_ready() else None

    def ask_code(self, prompt: str) -> str:
        """Ask for a code; '' if none comes."""
        return ask_secret(prompt).reveal_text() if self.asks_person else read_line()


def _restore_token(app: App, before: Secret | None) -> None:
    if before is None:
        with suppress(LockedError):  # then it was not stored there either
            app.tokens.forget()
    else:
        app.tokens.store(before)


def _run_logout(args: argparse.Namespace) -> int:
    config = command_context.prepare(args)
    login = config.store.require_login()
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
    talk(f"note: {login.logout}")
    if any(config.store_settings.secret(name) for name in login.variables):
        talk(f"note: {' or '.join(login.variables)} is set and still lets servers log in.")
    return 0


async def _forget(config: Config) -> None:
    async with open_app(config, syncing=False) as app:
        try:
            with command_context.record_command(app, "cli.logout"):
                app.tokens.forget()
        except LockedError as error:
            raise LockedError(
                error.verdict,
                f"the cache has forgotten the login, and {error.message}; it may still hold one",
                resolution_hint="Unlock the keychain and run `mcp-notarium logout` again.",
            ) from error


COMMANDS = {
    "login": (add_login_arguments, _run_login),
    "logout": (command_context.options(), _run_logout),
}
