"""Run ``mcp-notarium repair``: recover what can be read of a damaged database; the store has the rest."""

from __future__ import annotations

import argparse

from mcp_notarium.account import repair
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import Progress, ask_secret, say_unless_copied, talk
from mcp_notarium.keys import keychain
from mcp_notarium.storage.table_copy import SalvageReport


def missing(found: SalvageReport) -> str:
    """Return what is known of the notes that could not be recovered."""
    fetched = "the next sync compares everything with the note store and fetches what is missing."
    if found.expected is not None:
        lost = max(found.expected - found.notes, 0)
        return (
            f"{lost:,} of {found.expected:,} could not be read; {fetched}"
            if lost
            else "None is missing."
        )
    if found.lost or found.open_end:
        return f"How many could not be read is not known, for that was damaged too; {fetched}"
    return f"As far as can be seen none is missing; {fetched}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the source of the key."""
    parser.add_argument(
        "--ask-key", action="store_true", help="ask for a key instead of taking the configured one"
    )


def run(args: argparse.Namespace) -> int:
    """Repair; exit code 0 when a sound database is in force, also if it was sound before.

    Raises ``Unfinished`` if the new one is in force and the old files are not set aside.
    """
    config = command_setup.prepare(args)
    options = ChangeOptions(
        old=ask_secret("Key: ") if args.ask_key else None,
        system=keychain.system_keychain() if config.keychain else None,
    )
    done = repair.repair(config, told=Progress("places looked at"), options=options)
    if done is None:
        talk("There is nothing to repair: every page is authentic, and the index fits the notes.")
        return 0
    found = done.salvaged
    talk(f"A sound cache is in force: {found.notes:,} notes came over.")
    talk(missing(found))
    if "pending_writes" not in found.complete:
        talk("WARNING: not every unfinished write could be read. One may be only in the old files.")
    talk("Every key that opened the cache opens it as before.")
    say_unless_copied(done.state.copied)
    done.state.demand_finished(
        "the repaired cache is in force, but the old files are not all set aside",
        hint="Nothing is lost, and servers can be started. Run `mcp-notarium repair` again when the "
        f"disk is well: it sets aside what is not yet in {done.quarantine}.",
    )
    talk(f"The old files are in {done.quarantine}, as they were.")
    return 0
