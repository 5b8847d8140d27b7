"""Run ``mcp-notarium migrate-plaintext``: encrypt an unencrypted database."""

from __future__ import annotations

import argparse

from mcp_notarium.account import key_rotation, plaintext_migration
from mcp_notarium.cli import command_setup, new_key
from mcp_notarium.cli.terminal import Progress, say_unless_copied, talk
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys import credentials


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whether a weak key is accepted; the key is the configured one."""
    new_key.add_allow_weak(parser)


def run(args: argparse.Namespace) -> int:
    """Encrypt with the configured key; exit code 0 when no plain file is left.

    Raises ``Unfinished`` if the encrypted database is in force and plain files are left.
    """
    config = command_setup.prepare(args)
    found = credentials.find_passphrase(config, config.owner_hash)
    if found is None:
        raise InvalidRequest(
            "there is no key to encrypt with",
            resolution_hint="Run `mcp-notarium generate-key --file PATH` and set "
            "DB_ENCRYPTION_KEY_FILE=PATH.",
        )
    key_rotation.demand_strong(found.passphrase, allow_weak=args.allow_weak)
    done = plaintext_migration.encrypt_plain(
        config, found.passphrase, told=Progress("rows encrypted")
    )
    talk(f"The cache is encrypted and compared: {done.notes:,} notes.")
    say_unless_copied(done.state.copied)
    done.state.demand_finished(
        "the encrypted cache is in force, but the unencrypted files are not all erased",
        hint="Nothing is lost. Run `mcp-notarium migrate-plaintext` again when the disk lets them be "
        "erased; until then they can be read.",
    )
    talk(f"The unencrypted files were overwritten and removed. {plaintext_migration.SURVIVES}")
    if not config.db_encryption:
        talk("Now take DB_ENCRYPTION=off out of the clients' configurations.")
    return 0
