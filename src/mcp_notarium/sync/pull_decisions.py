"""Decide, note by note, how to reconcile what we hold with what the store says. Pure: values in, actions out.

Everything that decides about one note stands in ``CHANGES``; everything that decides about removals in ``plan_sweep`` and
``check_removals``. ``batch_apply`` carries the decisions out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from mcp_notarium.domain.note import Content, Revision, Tombstone, by_identity
from mcp_notarium.errors import RemoteVanished
from mcp_notarium.stores.contract import Entry

REMOVAL_COUNT = 10
"""Active notes that may disappear at once without halting: as many as a person deletes in an evening."""
SWEEP_SHARE = 0.10
"""In larger accounts this share of all notes may be missing from a full listing."""
_SAME_SECOND = 1.0
_REMOVED = 2**62
TOMBSTONE_SHARE = 0.50
"""The share that one answer of the change feed may remove: tombstones are stated, not inferred."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Say that a full listing, or the last answer, does not mention this note: ask the store."""

    id: str
    told: int = 0
    """The version that the store has told of it before (:func:`told_version`)."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Hold the answer to a ``get``."""

    answer: Revision | Tombstone
    seen: str | None
    """The etag that the index held when the store was asked."""

    @property
    def id(self) -> str:
        """Return the note asked for."""
        return self.answer.id


Remote = Revision | Entry | Tombstone | Missing | Confirmed
"""One thing the store says about one note."""


@dataclass(frozen=True, slots=True)
class Known:
    """Hold the acknowledged revision in the index."""

    etag: str
    version: int | None
    """The number that the store gave it, where it counts."""
    content: Content | None = None
    """Known where a direct answer came."""


class LocalState(Enum):
    """Name our side, as far as the table needs it."""

    UNKNOWN = "not known"
    KNOWN = "known"
    PENDING = "write in flight"


class RemoteState(Enum):
    """Name the store's side against ours, as far as the table needs it."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    OTHER = "other"
    RECREATED = "same number, other text"
    GONE = "gone"
    MISSING = "not mentioned"


class Move(Enum):
    """Name what the table decides."""

    NOTHING = "nothing"
    STORE = "store"
    """Put the revision into the index."""
    REPLACE = "replace"
    """The same, but remove the note first: the etag alone would not show the change."""
    FETCH = "fetch"
    """Ask the store, then decide again."""
    FORGET = "forget"
    """Remove the note from the index."""
    RESOLVE = "resolve"
    """Leave the note until the writer has finished its write, then decide again."""


_UNKNOWN, _KNOWN, _PENDING = LocalState.UNKNOWN, LocalState.KNOWN, LocalState.PENDING

# fmt: off
CHANGES: Mapping[tuple[LocalState, RemoteState], tuple[Move, str]] = {
    (_UNKNOWN, RemoteState.NEWER): (Move.STORE, "a new note"),
    (_UNKNOWN, RemoteState.OTHER): (Move.FETCH, "it went away here while we asked: ask again"),
    (_UNKNOWN, RemoteState.GONE): (Move.NOTHING, "it was never here, or is gone already"),
    (_UNKNOWN, RemoteState.MISSING): (Move.FETCH, "somebody wants to know: ask"),
    (_KNOWN, RemoteState.SAME): (Move.NOTHING, "we have it"),
    (_KNOWN, RemoteState.NEWER): (Move.STORE, "it was changed elsewhere"),
    (_KNOWN, RemoteState.OLDER): (Move.FETCH, "a listing that lags, or a note made again after its removal: ask the note"),
    (_KNOWN, RemoteState.OTHER): (Move.FETCH, "which of the two is newer cannot be told: ask"),
    (_KNOWN, RemoteState.RECREATED): (Move.REPLACE, "removed and made again, and its version count came to the same number"),
    (_KNOWN, RemoteState.GONE): (Move.FORGET, "the store says it was removed"),
    # defence: removal-needs-proof FETCH=FORGET
    (_KNOWN, RemoteState.MISSING): (Move.FETCH, "absence is no proof: ask the note itself"),
    (_PENDING, RemoteState.SAME): (Move.NOTHING, "the write is still on its way"),
    (_PENDING, RemoteState.NEWER): (Move.RESOLVE, "the pending text must be merged, not covered"),
    (_PENDING, RemoteState.OLDER): (Move.RESOLVE, "the writer asks for the newest revision anyway"),
    (_PENDING, RemoteState.OTHER): (Move.RESOLVE, "the writer asks for the newest revision anyway"),
    (_PENDING, RemoteState.RECREATED): (Move.RESOLVE, "the writer asks for the note anyway"),
    (_PENDING, RemoteState.GONE): (Move.RESOLVE, "removed there, changed here: the text is kept"),
    (_PENDING, RemoteState.MISSING): (Move.RESOLVE, "first the write, then the question"),
}
# fmt: on
"""The whole decision: the move, and the reason in a reader's words. Any pair that is not listed cannot occur (a note not known is never SAME or
OLDER). A REJECTED write does not make a note PENDING: its text waits in its own table."""


@dataclass(frozen=True, slots=True)
class Action:
    """Hold what to do with one note."""

    move: Move
    id: str
    revision: Revision | None = None
    """The one to store; None if nothing is."""


def remote_state(known: Known | None, remote: Remote) -> RemoteState:
    """Name the store's side in the words of the table."""
    match remote:
        case Tombstone():
            return RemoteState.GONE
        case Missing():
            return RemoteState.MISSING
        case Confirmed(answer=answer, seen=seen):
            return _compare_confirmed(known, answer, still=seen == (known.etag if known else None))
        case _:
            return _compare(known, remote)


def _compare_confirmed(
    known: Known | None, answer: Revision | Tombstone, *, still: bool
) -> RemoteState:
    """Believe a direct answer while the index still holds what it held when we asked."""
    if isinstance(answer, Tombstone):
        return RemoteState.GONE if still else RemoteState.OTHER
    if known is None:
        return RemoteState.NEWER if still else RemoteState.OTHER
    relation = _compare(known, answer)
    if relation is RemoteState.SAME:
        recreated = known.content not in (None, answer.content)
        return RemoteState.RECREATED if recreated else RemoteState.SAME
    return RemoteState.NEWER if still else relation


def _compare(known: Known | None, remote: Revision | Entry) -> RemoteState:
    if known is None:
        return RemoteState.NEWER
    if known.etag == remote.etag:
        return RemoteState.SAME
    ours, theirs = known.version, remote.server_version
    if ours is None or theirs is None or ours == theirs:
        return RemoteState.OTHER
    return RemoteState.NEWER if theirs > ours else RemoteState.OLDER


def plan(known: Known | None, remote: Remote, *, pending: bool) -> Action:
    """Decide what to do about one note; ``pending``: it has an unfinished write."""
    ours = _PENDING if pending else _UNKNOWN if known is None else _KNOWN
    move, _ = CHANGES[ours, remote_state(known, remote)]
    content = remote.answer if isinstance(remote, Confirmed) else remote
    if move not in (Move.STORE, Move.REPLACE):
        return Action(move, remote.id)
    if isinstance(content, Revision):
        return Action(move, remote.id, content)
    return Action(Move.FETCH, remote.id)


def contradicts(known: Revision, answer: Revision, *, dated: bool) -> bool:
    """Tell whether the note cannot be so after ``known``; ``dated``: it keeps its date of making."""
    if known.server_version is None or answer.server_version is None:
        return False
    if answer.server_version == known.server_version:
        return answer.content != known.content
    undated = known.created_at == known.modified_at
    other = dated and not undated and abs(known.created_at - answer.created_at) >= _SAME_SECOND
    return other or answer.server_version < known.server_version


def lags_behind(answer: Revision | Tombstone, remote: Remote) -> bool:
    """Tell whether a direct answer is older than what made us ask, as far as that can be known."""
    if isinstance(remote, Missing) and isinstance(answer, Revision):
        return (answer.server_version or 0) < remote.told
    if not isinstance(remote, Revision | Entry):
        return False
    if isinstance(answer, Tombstone):
        return True
    return _compare(Known(remote.etag, remote.server_version), answer) is RemoteState.OLDER


def told_version(remote: Remote) -> int:
    """Return the version of which a statement tells: 0 for none, the highest of all for a removal."""
    about = remote.answer if isinstance(remote, Confirmed) else remote
    if isinstance(about, Tombstone):
        return _REMOVED
    return about.told if isinstance(about, Missing) else about.server_version or 0


def deduplicate(remotes: Iterable[Remote]) -> tuple[Remote, ...]:
    """Return the page with one statement per note, at the place of its first mention.

    Of several the highest version stays. If that cannot be told, or one of them is a removal, the
    note is asked for: the order of a page is no proof of a removal.
    """
    kept: dict[str, Remote] = {}
    for remote in remotes:
        before = kept.get(remote.id)
        kept[remote.id] = remote if before is None else _newer_of(before, remote)
    return tuple(kept.values())


def _newer_of(first: Remote, second: Remote) -> Remote:
    if first == second:
        return first
    if isinstance(first, Revision | Entry) and isinstance(second, Revision | Entry):
        relation = _compare(Known(first.etag, first.server_version), second)
        if relation is RemoteState.SAME:
            return second if isinstance(second, Revision) else first
        if relation is not RemoteState.OTHER:
            return second if relation is RemoteState.NEWER else first
    return Missing(first.id)


def find_renamed(
    known: Mapping[str, str], identities: Mapping[str, str], listed: Iterable[Revision | Entry]
) -> dict[str, str]:
    """Return old id to new id of the notes that a *complete* listing shows under another id.

    ``identities``: id to identity of what is known. An identity that stands twice on either side tells
    nothing: those notes are missing and new.
    """
    seen = {entry.id: entry for entry in listed}
    new = by_identity({i: e.identity for i, e in seen.items() if e.identity and i not in known})
    old = by_identity({i: one for i, one in identities.items() if i in known and i not in seen})
    return {old[identity]: new[identity] for identity in sorted(old.keys() & new.keys())}


def find_moved(
    known: Mapping[str, str], identities: Mapping[str, str], listed: Iterable[Revision | Entry]
) -> dict[str, str]:
    """Return old id to new id of the hidden notes that are listed elsewhere at the same revision."""
    seen = {entry.id: entry for entry in listed}
    new = by_identity({i: e.identity for i, e in seen.items() if e.identity})
    return {
        old: new[identity]
        for old, identity in identities.items()
        if new.get(identity, old) != old and seen[new[identity]].etag == known[old]
    }


def plan_sweep(
    known: Mapping[str, str], listed: Iterable[Revision | Entry]
) -> tuple[tuple[Revision | Entry, ...], tuple[Missing, ...]]:
    """Return what has changed in a *complete* listing, and what it lacks of what was known (id to etag) before its first page."""
    last = {entry.id: entry for entry in deduplicate(listed)}
    changed = tuple(
        entry if isinstance(entry, Revision | Entry) else Entry(entry.id, "")
        for entry in last.values()
        if not (isinstance(entry, Revision | Entry) and known.get(entry.id) == entry.etag)
    )
    missing = tuple(Missing(note_id) for note_id in known if note_id not in last)
    return changed, missing


def check_removals(
    known: int,
    removed: AbstractSet[str],
    *,
    trashed: AbstractSet[str],
    swept: bool,
    whole: bool = False,
) -> None:
    """Raise ``RemoteVanished`` if more of the ``known`` notes disappear than a person deletes.

    ``swept``: a full listing lacks them, and one without any note we know is believed only of a small
    account; otherwise one answer of the change feed removes them. ``trashed`` are those that lie in the
    trash here: emptying the trash is an ordinary act, so they do not count. ``whole``: the store proves its
    listings (``Traits.whole_listings``), and this one has notes: it is believed.
    """
    limit = max(REMOVAL_COUNT, int(known * (SWEEP_SHARE if swept else TOMBSTONE_SHARE)))
    # defence: removal-limit-empty-listing =False
    everything = swept and len(removed) > REMOVAL_COUNT and len(removed) >= known
    lost = len(removed if everything else removed - trashed)
    if (everything or lost > limit) and not whole:  # defence: removal-limit -limit
        raise RemoteVanished(
            f"{lost} of {known} notes disappeared at once from the note store",
            details={"known": known, "missing": lost, "limit": limit},
        )
