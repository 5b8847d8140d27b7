"""Say which notes everybody may read after a write, and could not before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """Hold which notes everybody may read after a write, and could not before."""

    ids: frozenset[str]
    """'' is a new note."""
    place: str = ""
    """The note below which they come to stand, and which everybody may read; '' where they stand there already."""

    @property
    def digest(self) -> str:
        """Return what tells these notes from others at the same place."""
        return hashlib.sha256("\n".join(sorted(self.ids)).encode("utf-8", "replace")).hexdigest()

    def is_within(self, agreed: Published | None) -> bool:
        """Tell whether an answer about ``agreed`` holds for this."""
        return agreed is not None and self.place == agreed.place and self.ids <= agreed.ids


def join_published(several: Iterable[Published]) -> list[Published]:
    """Return one for each place, with all notes that come to stand there."""
    ids: dict[str, frozenset[str]] = {}
    for one in several:
        ids[one.place] = ids.get(one.place, frozenset()) | one.ids
    return [Published(those, place) for place, those in ids.items()]
