"""``nothing_pending.json``: the promise that no unfinished write is inside one generation.

A database that cannot be read cannot be asked whether somebody's text is still in it. So the
answer stands beside it, and only ever in one direction: the file is there only while it is certain
that nothing is pending. Missing, unreadable or of another generation means "there may be".

Withdraw inside the transaction that records an intent, before it commits; renew in a transaction
that has seen that none is left. Both take the database's write lock, so that no other process can
renew in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.crypto import canonical_json
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.errors import CacheError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import disk_errors, read_private, replace_private, sync_folder
from mcp_notarium.storage.database import Database

_FORM = "mcp-notarium-nothing-pending"
_MOST = 512


@dataclass(frozen=True, slots=True)
class Certificate:
    """The promise about one generation ('' is the plain database)."""

    folder: AccountFolder
    generation: str

    def stands(self) -> bool:
        """Whether it is certain that no unfinished write is inside."""
        try:
            raw = read_private(self.folder.certificate, most=_MOST)
        except OSError:
            return False
        return raw == self._content()

    def withdraw(self) -> None:
        """There may be an unfinished write from now on; durable when it returns.

        Raises ``CacheFull`` or ``LockedError``: then the intent must not be recorded either.
        """
        with disk_errors("the promise that nothing is pending cannot be withdrawn"):
            try:
                self.folder.certificate.unlink()
            except FileNotFoundError:
                return
            sync_folder(self.folder.path)

    def renew(self, database: Database) -> bool:
        """Promise it again if the database holds no intent; whether it stands afterwards.

        Never raises ``CacheError`` or ``OSError``: a promise that is not made does no harm. Opens
        a transaction of its own (``RuntimeError`` inside another).
        """
        try:
            with database.transaction(durable=True):
                if database.number("SELECT count(*) FROM pending_writes"):
                    return False
                if not self.stands():
                    replace_private(self.folder.certificate, self._content(), check=self._check)
                return True
        except (CacheError, OSError):
            return False

    def _content(self) -> bytes:
        return canonical_json.encode({"format": _FORM, "generation": self.generation, "version": 1})

    def _check(self, written: bytes) -> None:
        if written != self._content():
            raise OSError("the file reads back differently")


def standing_for(folder: AccountFolder) -> str | None:
    """The generation the certificate speaks about, or None."""
    try:
        raw = read_private(folder.certificate, most=_MOST)
        found = canonical_json.decode(raw or b"").get("generation")
    except (OSError, KeyFileDamaged):
        return None
    if not isinstance(found, str) or not Certificate(folder, found).stands():
        return None
    return found
