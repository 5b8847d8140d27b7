"""Find notes by a name that is not their id: a path in another spelling, the target of a link, an alias, a title."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from mcp_notarium.domain.note_links import name_key, place_of
from mcp_notarium.domain.note_paths import path_key

if TYPE_CHECKING:
    from mcp_notarium.storage.database import Database

_ENDS = (".md", ".markdown")
_MOST = 100


def find_called(database: Database, name: str, *, titles: bool) -> list[str]:
    """Return the ids of the notes that this name means, two at most, by the first way that finds any.

    A note outside the trash comes before those in it. ``titles``: look for notes with this title, or first line, too.
    """
    forms = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    ways = [database.rows(_BY_ID, (*forms,)), database.rows(_BY_PATH, (path_key(name),))]
    if place := place_of(name, ""):
        named = database.rows(_BY_NAME, ("name", name_key(place), _MOST))
        wanted = _stem(place)
        ways.append([row for row in named if _stem(row[0]) == wanted])
        ways.append([row for row in named if _stem(row[0]).endswith(f"/{wanted}")])
    ways.append(database.rows(_BY_NAME, ("alias", path_key(name), _MOST)))
    if titles:
        ways.append(database.rows(_BY_TITLE, {"name": name, "nfc": forms[0], "nfd": forms[1]}))
    for found in ways:
        active = [row[0] for row in found if not row[1]]
        if ids := active or [row[0] for row in found]:
            return list(dict.fromkeys(ids))[:2]
    return []


def _stem(path: str) -> str:
    key = path_key(path)
    return next((key.removesuffix(end) for end in _ENDS if key.endswith(end)), key)


_BY_ID = "SELECT id, trash FROM notes WHERE id IN (?, ?)"
_BY_PATH = """
SELECT n.id, n.trash FROM note_names m JOIN notes n ON n.pk = m.pk WHERE m.kind = 'path' AND m.key = ?
"""
_BY_NAME = """
SELECT n.id, n.trash FROM note_names m JOIN notes n ON n.pk = m.pk WHERE m.kind = ? AND m.key = ? LIMIT ?
"""
_BY_TITLE = """
SELECT id, trash FROM notes
WHERE title IN (:name, :nfc, :nfd) OR ((title IS NULL OR title = '') AND head IN (:name, :nfc, :nfd))
ORDER BY trash LIMIT 2
"""
