"""Hold a local notebook in the place of the account of a run: no service, no other device, copies to verify."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mcp_notarium import config
from mcp_notarium.account import copies, opener
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.storage import integrity
from mcp_notarium.storage.database_opener import PAGE_CACHE
from soak.account import Account
from soak.measures import MOST_GROWTH
from soak.promises import Truth

_ALL = "SELECT id, text, tags, trash FROM notebook_notes"
_VERSIONS = """
SELECT note_id, number FROM note_versions WHERE number > 0 UNION ALL SELECT id, change FROM notebook_notes
"""


class Notebook(Account):
    """A notebook that two servers and a visitor share. Its clock jumps, so nothing may go by its age."""

    has_service = False
    most_growth = MOST_GROWTH + PAGE_CACHE
    """It begins empty, so the cache of pages fills as it grows."""

    @property
    def cache(self) -> Path:
        """The folder of the notebook."""
        return self._config().account_dir

    def env(self) -> dict[str, str]:
        """What a client has configured now."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "NOTARIUM_DATA_DIR": str(self.folder / "cache"),
            "NOTARIUM_KEYCHAIN": "off",
            "NOTARIUM_STORE": "local",
            "DB_ENCRYPTION_KEY": self.key,
            "LOG_LEVEL": "info",
            "NOTARIUM_AUDIT_DAYS": "36500",
            "NOTARIUM_VERSION_DAYS": "36500",
            "NOTARIUM_VERSION_MB": "4096",
        }

    def truth(self) -> Truth:
        """The notes as their table holds them, by a connection of its own."""
        with closing(opener.open_cache(self._config(), read_only=True)) as opened:
            rows = opened.database.rows(_ALL)
        return {row[0]: _fields(*row[1:]) for row in rows}

    def judge(self) -> None:
        """After everybody has left: every version that was told is there; file and copies are whole."""
        with closing(opener.open_cache(self._config())) as opened:
            held: dict[str, set[int]] = {}
            for note_id, number in opened.database.rows(_VERSIONS):
                held.setdefault(note_id, set()).add(number)
            for fault in integrity.check(opened.database):
                self.promises.complain(f"the database is damaged: {fault}")
            data_key = opened.data_key
        for note_id, told in self.promises.versions.items():
            if note_id not in self.promises.deleted and told - held.get(note_id, set()):
                missing = sorted(told - held.get(note_id, set()))[:5]
                self.promises.complain(f"note {note_id} has lost its versions {missing}")
        found = copies.list_copies(AccountFolder(self.cache))
        if not found or data_key is None:
            self.promises.complain("nobody who left last has made a copy")
            return
        for copy in found:
            copies.require_authentic(copy.path, data_key)
        self.counts["copies at the end"] = len(found)

    def _config(self) -> config.Config:
        return config.load(self.env(), cwd=self.folder).config


def _fields(text: str, tags: str, trash: int) -> Mapping[str, Any]:
    return {"content": text, "tags": json.loads(tags), "deleted": bool(trash)}
