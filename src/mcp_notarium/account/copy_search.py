"""Find the copy of a local notebook that has what its database lacks."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.storage.database import Database
from mcp_notarium.stores.kind import LentTables


@dataclass(frozen=True, slots=True)
class Copies:
    """Find the copy of a local notebook (``tables``) that has what is missing; other stores have none."""

    folder: AccountFolder
    data_key: DataKey | None
    tables: LentTables | None

    @property
    def fetched(self) -> bool:
        """Tell whether the notes are at a store, too."""
        return self.tables is None

    def with_newer_notes(self, database: Database) -> str:
        """Return the name of a copy with newer notes than a database has, '' if there is none."""
        if self.tables is None:
            return ""
        from mcp_notarium.account import database_copies  # noqa: PLC0415 - no other store needs it

        return database_copies.find_newer(self.folder, database, self.tables)

    def with_records_after(self, upto: int) -> tuple[str, int]:
        """Return the name of the copy with the most audit records, and its last number; '' if that is none after ``upto``."""
        if self.tables is None or self.data_key is None:
            return "", 0
        from mcp_notarium.account import database_copies  # noqa: PLC0415 - as above

        return database_copies.find_longest(self.folder, self.data_key, upto)

    def newest(self) -> str:
        """Return the name of the newest copy, '' if there is none."""
        if self.tables is None:
            return ""
        from mcp_notarium.account import database_copies  # noqa: PLC0415 - as above

        return next((one.path.name for one in database_copies.list_copies(self.folder)), "")
