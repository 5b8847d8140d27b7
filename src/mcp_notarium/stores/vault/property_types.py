"""Read which types Obsidian's settings give to the properties of a vault: ``.obsidian/types.json``.

The file is read at each call that needs it, as the other settings are. A type that is not known counts as none. Nothing of the
file is logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.properties import FORMS
from mcp_notarium.stores.vault.app_settings import OBSIDIAN, read_json
from mcp_notarium.stores.vault.folder import open_folder
from mcp_notarium.system import SYSTEM

_FILE = "types.json"
_MOST = 5_000
"""Properties whose types are read."""
_LOG = logging.getLogger(__name__)


class PropertyTypes:
    """Read the types, and log once that they cannot be read, until they can."""

    def __init__(self) -> None:
        self._told = False

    def read(self, root: int) -> dict[str, str]:
        """Return the type of each property by the key of its name; none if the file is not there or cannot be read."""
        types = (read_json(root, _FILE) or {}).get("types")
        if isinstance(types, Mapping):
            self._told = False
            named = [*types.items()][:_MOST]
            return {
                tag_key(name.strip()): kind
                for name, kind in named
                if isinstance(kind, str) and kind in FORMS
            }
        if not self._told and _is_there(root):
            self._told = True
            _LOG.warning(
                "the types of properties in .obsidian/types.json cannot be read, and are not used"
            )
        return {}


def _is_there(root: int) -> bool:
    try:
        folder = open_folder(root, [OBSIDIAN], exact=False)
        try:
            SYSTEM.look(folder, _FILE)
        finally:
            os.close(folder)
    except OSError:
        return False
    return True
