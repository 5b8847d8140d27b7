"""``Batch``: some of what the store says, with what may be remembered once it is stored. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mcp_notarium.storage.note_rows import Prepared
from mcp_notarium.sync.planner import Remote

if TYPE_CHECKING:
    from mcp_notarium.sync.progress import Ledger

Bookmark = Callable[["Ledger"], None]
"""Writes down how far the cache is, in the ledger of the connection that stores."""
SPLIT = 100
"""Notes fetched and stored together where content is missing; progress survives between them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some statements of the store about notes.

    ``epoch`` names the filling of the cache it was read for. ``bookmark`` runs in the transaction
    that stores the last of it and moves the cursor or the mark. ``last``: the cycle ends with it.
    ``prepared``: rows that were made beforehand.
    """

    remotes: tuple[Remote, ...]
    epoch: int
    bookmark: Bookmark | None = None
    last: bool = False
    prepared: Prepared = field(default_factory=dict)

    def answered(self, remotes: tuple[Remote, ...]) -> Batch:
        """The same batch with other statements."""
        return replace(self, remotes=remotes)


def split(
    remotes: Iterable[Remote],
    *,
    epoch: int,
    bookmark: Bookmark | None = None,
    last: bool = False,
) -> tuple[Batch, ...]:
    """Batches small enough to fetch for. Only the final one carries the bookmark and ``last``."""
    everything = tuple(remotes)
    if not everything and bookmark is None:
        return ()
    cuts = range(0, len(everything), SPLIT) or range(1)
    *before, final = (everything[at : at + SPLIT] for at in cuts)
    return (*(Batch(part, epoch) for part in before), Batch(final, epoch, bookmark, last))
