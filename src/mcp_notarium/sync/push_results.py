"""Hold how a push ended, with what followed from it. Pure.

What is claimed is stored: a copy that is named exists, and ``merged`` is said of what the note holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class PushOutcome(Enum):
    """Name how a push ended."""

    STORED = "stored"
    COPIED = "copied"
    """Stored, but some of our text was not in it: that is kept in a conflict copy."""
    REFUSED = "refused"
    """The store will never take it; the text stays as a rejected entry."""
    WAITING = "waiting"
    """Stored, but a copy or repair that follows from it waits in the journal."""
    AGAIN = "again"
    """Not stored, because the note has changed: decide again."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """Hold how a push ended, and whether somebody else's change is in it.

    ``note_id``: the note as the store names it; "" if nothing was stored. ``differs``: where the store by
    itself holds something else than was sent; "" if nowhere.
    """

    outcome: PushOutcome
    note_id: str = ""
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""

    @property
    def stored(self) -> bool:
        """Tell whether the store holds the text, in the note or in a copy."""
        return self.outcome in (PushOutcome.STORED, PushOutcome.COPIED)

    def followed_by(
        self, copy: PushResult | None, repair: PushResult | None = None, *, lost: bool
    ) -> PushResult:
        """Add how the copy of our text and the repair of the note ended; None: there was none.

        ``lost``: without them the note lacks some of our change.
        """
        result = self
        if repair is not None and repair.note_id:
            result = replace(repair, merged=True)
        elif repair is not None and lost:
            result = replace(self, outcome=repair.outcome)
        if copy is None:
            return result
        copied = copy.note_id if copy.stored else None
        outcome = PushOutcome.COPIED if copy.stored else copy.outcome
        return replace(result, outcome=outcome, copy_id=copied)
