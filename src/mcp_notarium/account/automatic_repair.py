"""Repair a damaged database without being asked, where that loses nothing.

The rules: the notes can be fetched again, every row that only this database has can be read, nobody else
has it open, and the disk has not damaged it again and again. Otherwise the files stay as they were, and
start-up decides as always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_notarium import logs
from mcp_notarium.account import repair
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.account.repair import RepairResult
from mcp_notarium.errors import LockedError, NotariumError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.stores.kind import Truth

if TYPE_CHECKING:
    from mcp_notarium.account.startup_actions import StartupActions

MOST_A_DAY = 3
"""Databases that may go to the quarantine within 24 hours before a server stops repairing. A disk that
damages more needs a look, and each of them takes its space."""
_DAY = 86_400


def heal(actions: StartupActions) -> str:
    """Repair the database; return a notice for the user, '' if nothing was repaired.

    Raises ``LockedError`` (BUSY) while another process has it open: the next attempt may repair it.
    """
    if not _may_heal(actions):
        return ""
    options = ChangeOptions(
        bounds=actions.bounds,
        system=actions.inspector.keychain,
        clock=actions.clock,
        at=actions.at,
    )
    try:
        done = repair.repair(actions.settings, whole_state=True, options=options)
    except NotariumError as error:
        if isinstance(error, LockedError) and error.verdict is Verdict.BUSY:
            raise
        logs.get("cache").warning("cache.not_repaired", message=error.message)
        return ""
    return _describe(done) if done is not None else ""


def _may_heal(actions: StartupActions) -> bool:
    settings, since = actions.settings, actions.clock() - _DAY
    if not settings.db_encryption or settings.store.truth is Truth.LOCAL:
        return False
    return quarantine.count_databases(AccountFolder(settings.account_dir), since=since) < MOST_A_DAY


def _describe(done: RepairResult) -> str:
    if done.quarantine is None:
        return "The search index was damaged, and was built again. Nothing was lost."
    return (
        "A page of the database could not be read. The database was repaired: unfinished writes, settings "
        "and the audit log are kept, the notes are fetched again, and the old files are in "
        f"`quarantine/{done.quarantine.name}`. If it happens again, check the disk."
    )
