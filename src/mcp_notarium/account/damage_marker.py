"""``damage_met.json``: the mark that a cache turned out to be damaged while it was open.

A start looks at a few pages only. Where this file lies it looks at all of them, so that damage which
one process has met is known to the next. What the file says does not matter: the examination decides,
and the mark goes when that finds nothing wrong, or with the old files into the quarantine.
"""

from __future__ import annotations

import os
from contextlib import suppress

from mcp_notarium.crypto import canonical_json
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import replace_private, sync_folder

_CONTENT = canonical_json.encode({"format": "mcp-notarium-damage-met", "version": 1})


def is_marked(folder: AccountFolder) -> bool:
    """Whether damage was met since the whole cache was last found sound."""
    return os.path.lexists(folder.damage_mark)


def mark(folder: AccountFolder) -> None:
    """Remember it; durable when it returns. A disk that does not let us costs only the memory."""
    if not is_marked(folder):
        with suppress(OSError):
            replace_private(folder.damage_mark, _CONTENT, check=lambda _written: None)


def forget(folder: AccountFolder) -> None:
    """The cache that counts now is sound. What stays because of the disk costs an examination."""
    if is_marked(folder):
        with suppress(OSError):
            folder.damage_mark.unlink(missing_ok=True)
            sync_folder(folder.path)
