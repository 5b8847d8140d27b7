"""Read and write ``damage_met.json``: the database turned out to be damaged while it was open.

A start checks a few pages only; where this file lies it checks all of them, so that the next process knows
of damage that one has met. Its content does not matter: the examination decides. The file goes when that
finds nothing wrong, or with the old files into the quarantine.
"""

from __future__ import annotations

import os
from contextlib import suppress

from mcp_notarium.crypto import canonical_json
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import replace_private, sync_folder

_CONTENT = canonical_json.encode({"format": "mcp-notarium-damage-met", "version": 1})


def is_damage_marked(folder: AccountFolder) -> bool:
    """Check whether damage was met since the whole cache was last checked."""
    return os.path.lexists(folder.damage_marker)


def mark_damage(folder: AccountFolder) -> None:
    """Write the marker; durable when it returns. Never raises for the disk's sake."""
    if not is_damage_marked(folder):
        with suppress(OSError):
            replace_private(folder.damage_marker, _CONTENT)


def unmark_damage(folder: AccountFolder) -> None:
    """Remove the marker: the active cache is undamaged.

    Never raises for the disk's sake: a marker that stays costs one examination.
    """
    if is_damage_marked(folder):
        with suppress(OSError):
            folder.damage_marker.unlink(missing_ok=True)
            sync_folder(folder.path)
