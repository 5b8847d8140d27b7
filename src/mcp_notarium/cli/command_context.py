"""Set up a command: load the configuration, start logging, record the act."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium import config, logs
from mcp_notarium.account.key_changes import CLIENT, ChangeOptions
from mcp_notarium.audit.chain import OK, OPEN, UNKNOWN, AuditEntry
from mcp_notarium.cli import signals, terminal
from mcp_notarium.cli.terminal import ask_secret, can_ask, talk
from mcp_notarium.config import Config, Loaded, accounts
from mcp_notarium.errors import InvalidRequest, NotariumError
from mcp_notarium.keys import keychain, secret_places
from mcp_notarium.protocol.startup_checks import check_configuration
from mcp_notarium.sandbox import confinement
from mcp_notarium.secret import Secret

if TYPE_CHECKING:
    from mcp_notarium.app import App


_OPTIONS = {
    "--json": "print JSON",
    "--yes": "answer every question with yes",
    "--ask-key": "ask for a key instead of taking the configured one",
    "--allow-weak": "accept a passphrase that can be guessed",
}
"""Options that several commands share, with their help."""


def options(*names: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return a function that adds these options to a parser."""

    def add(parser: argparse.ArgumentParser) -> None:
        for name in names:
            parser.add_argument(name, action="store_true", help=_OPTIONS[name])

    return add


def prepare(args: argparse.Namespace) -> Config:
    """Return the checked configuration and remove its secrets from the environment.

    Raises ``ConfigError`` naming everything that has to be changed, and ``InvalidRequest`` where nothing is
    stored that a command could work on.
    """
    return prepare_account(args).config


def prepare_account(args: argparse.Namespace) -> Loaded:
    """Prepare as :func:`prepare`, and return the remembered account, too."""
    loaded = load(args)
    if not loaded.config.store.persistent:
        raise InvalidRequest(
            f"{loaded.config.store.title} is in the memory of a running server; there is nothing on the disk",
            resolution_hint="Start a server, or set another NOTARIUM_STORE.",
        )
    return loaded


def load(args: argparse.Namespace, *, asks: bool = True) -> Loaded:
    """Prepare as :func:`prepare`, and return where each setting comes from, too.

    ``asks`` False: nobody is asked for a passphrase that is stored nowhere.
    """
    logs.protect(*config.secrets_here())  # an error may quote a value from a wrong variable
    loaded = config.load_here(env_file=args.env_file, account=args.account)
    if loaded.account and len(accounts.read_accounts(accounts.config_dir(os.environ))) > 1:
        terminal.account = loaded.account.name
    loaded = _ask_key(loaded) if asks else loaded
    confinement.wipe_environment(*config.secret_names())  # defence: command-wipes-secrets
    # A person reads this: routine events would only distract.
    quiet = loaded.config.log_level in {"info", "warn"}
    logs.configure("error" if quiet else loaded.config.log_level, loaded.config.log_file)
    logs.protect_config(loaded.config)
    for warning in loaded.warnings:
        talk(f"note: {warning}")
    check_configuration(loaded.config)
    signals.watch_folder(loaded.config.account_dir)
    return loaded


def _ask_key(loaded: Loaded) -> Loaded:
    """Ask for the passphrase of an account whose key is nowhere on this machine."""
    account, found = loaded.account, loaded.config
    given = found.db_key is not None and not found.db_key_yields
    if account is None or account.key != "passphrase" or given or not can_ask():
        return loaded
    key = ask_secret(f"Passphrase of the account {account.name}: ")
    return replace(loaded, config=with_typed(found, key))


def with_typed(found: Config, key: Secret) -> Config:
    """Return the configuration with a key that was typed."""
    return replace(found, db_key=key, db_key_origin=secret_places.TYPED, db_key_yields=False)


def change_options(config: Config, args: argparse.Namespace) -> ChangeOptions:
    """Return how a change of keys or files finds the key, as ``--ask-key`` says."""
    return ChangeOptions(
        old=ask_secret("Key: ") if args.ask_key else None,
        system=keychain.system_keychain() if config.keychain else None,
    )


@contextmanager
def record_command(app: App, act: str, *, changes: bool = True) -> Iterator[None]:
    """Record ``act`` before it begins and its outcome when it ends. ``changes``: it changes something of the account.

    Raises ``NotRecorded``, with nothing done, if the record cannot be written.
    """
    number = app.audit.record_begin(
        AuditEntry(at=app.clock(), act=act, client=CLIENT, outcome=OPEN), changes=changes
    )
    outcome = UNKNOWN
    try:
        yield
        outcome = OK
    except NotariumError as error:
        outcome = error.subcategory or error.category.lower()
        raise
    finally:
        app.audit.record_outcome(
            AuditEntry(at=app.clock(), act=act, client=CLIENT, outcome=outcome, refers=number)
        )
