"""``Batch``: hold statements of the store about notes, and the progress that storing them allows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcp_notarium.sync.planner import Remote

if TYPE_CHECKING:
    from mcp_notarium.sync.progress import SyncProgress

Bookmark = Callable[["SyncProgress"], None]
"""Records how far the index is, through the connection that stores the batch."""
SPLIT = 100
"""Notes fetched and stored together where content is missing; progress is kept between batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold some statements of the store about notes.

    ``epoch`` is that of the index it was read for. ``bookmark`` runs in the transaction that stores
    the last of the batch and moves the cursor or the mark. ``last``: the cycle ends with it.
    """

    remotes: tuple[Remote, ...]
    epoch: int
    bookmark: Bookmark | None = None
    last: bool = False

    def with_remotes(self, remotes: tuple[Remote, ...]) -> Batch:
        """Return the same batch with other statements."""
        return replace(self, remotes=remotes)


def split(
    remotes: Iterable[Remote],
    *,
    epoch: int,
    bookmark: Bookmark | None = None,
    last: bool = False,
) -> tuple[Batch, ...]:
    """Split statements into batches small enough to fetch for.

    Only the final one carries the bookmark and ``last``.
    """
    everything = tuple(remotes)
    if not everything and bookmark is None:
        return ()
    cuts = range(0, len(everything), SPLIT) or range(1)
    *before, final = (everything[at : at + SPLIT] for at in cuts)
    return (*(Batch(part, epoch) for part in before), Batch(final, epoch, bookmark, last))
