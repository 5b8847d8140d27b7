"""Decide what to do with a write, given what the store holds now, and hold how it ended. Pure: values in, decisions out.

Rules of this file: what is decided before a push stands in ``DECISIONS``; what becomes of two texts that
have met in a store which keeps only the last one stands in ``settle``. It does not read the database or
ask the store; ``writer`` and ``entry_replay`` carry the decisions out through ``push``.

What is claimed is stored: a copy that is named exists, and ``merged`` is said of what the note holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from mcp_notarium.domain.diff import find_changes
from mcp_notarium.domain.lines import split_lines
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Revision, Tombstone, WriteKind
from mcp_notarium.sync.conflict_copy import contains_change, with_lost_tags


class Attempt(Enum):
    """Name whether the write may have arrived before."""

    FIRST = "first"
    REPEATED = "repeated"


class Held(Enum):
    """Name what the store holds in place of the note, against our write."""

    NOTHING = "nothing"
    BASE = "our base"
    SAME_AGAIN = "our base, or the same text again"
    OURS = "our content"
    PART = "our content without some of its tags"
    MERGEABLE = "another edit, of other lines"
    CLASHING = "another edit, of the same lines"


class Step(Enum):
    """Name what the table decides."""

    PUSH = "push"
    MERGE = "merge and push"
    COPY = "conflict copy"
    NEW_ID = "push under another id"
    REFUSE = "refuse"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold a step and the reason for it, in a reader's words."""

    step: Step
    why: str


DECISIONS: Mapping[tuple[WriteKind, Attempt, Held], Decision] = {
    (WriteKind.CREATE, Attempt.FIRST, Held.NOTHING): Decision(Step.PUSH, "a new note"),
    (WriteKind.CREATE, Attempt.FIRST, Held.OURS): Decision(
        Step.NEW_ID, "somebody else's note of that name, though it says the same"
    ),
    (WriteKind.CREATE, Attempt.FIRST, Held.CLASHING): Decision(
        Step.NEW_ID, "somebody else's note of that name"
    ),
    (WriteKind.CREATE, Attempt.REPEATED, Held.NOTHING): Decision(Step.PUSH, "it never arrived"),
    (WriteKind.CREATE, Attempt.REPEATED, Held.OURS): Decision(Step.DONE, "it has arrived"),
    (WriteKind.CREATE, Attempt.REPEATED, Held.PART): Decision(
        Step.MERGE, "the note was made, and then the connection was lost"
    ),
    (WriteKind.CREATE, Attempt.REPEATED, Held.MERGEABLE): Decision(
        Step.DONE, "it has arrived, and was edited since: nobody else makes this id"
    ),
    (WriteKind.CREATE, Attempt.REPEATED, Held.CLASHING): Decision(
        Step.NEW_ID, "perhaps somebody else's note of that name: keep both"
    ),
    (WriteKind.UPDATE, Attempt.FIRST, Held.NOTHING): Decision(
        Step.REFUSE, "removed elsewhere: the caller decides"
    ),
    (WriteKind.UPDATE, Attempt.FIRST, Held.BASE): Decision(Step.PUSH, "nobody else has written"),
    (WriteKind.UPDATE, Attempt.FIRST, Held.OURS): Decision(Step.DONE, "it says so already"),
    (WriteKind.UPDATE, Attempt.FIRST, Held.MERGEABLE): Decision(Step.MERGE, "both edits fit"),
    (WriteKind.UPDATE, Attempt.FIRST, Held.CLASHING): Decision(
        Step.REFUSE, "the same lines: the caller decides"
    ),
    (WriteKind.UPDATE, Attempt.REPEATED, Held.NOTHING): Decision(
        Step.COPY, "removed there, changed here: the text is kept"
    ),
    (WriteKind.UPDATE, Attempt.REPEATED, Held.BASE): Decision(Step.PUSH, "it never arrived"),
    (WriteKind.UPDATE, Attempt.REPEATED, Held.OURS): Decision(Step.DONE, "it has arrived"),
    (WriteKind.UPDATE, Attempt.REPEATED, Held.MERGEABLE): Decision(Step.MERGE, "both edits fit"),
    (WriteKind.UPDATE, Attempt.REPEATED, Held.CLASHING): Decision(
        Step.COPY, "the same lines, and nobody to ask: both are kept"
    ),
    (WriteKind.DELETE, Attempt.REPEATED, Held.NOTHING): Decision(Step.DONE, "it is gone"),
    (WriteKind.DELETE, Attempt.REPEATED, Held.BASE): Decision(Step.PUSH, "it never arrived"),
    (WriteKind.DELETE, Attempt.REPEATED, Held.SAME_AGAIN): Decision(
        Step.DONE, "perhaps somebody has brought it back: it stays"
    ),
    (WriteKind.DELETE, Attempt.REPEATED, Held.CLASHING): Decision(
        Step.DONE, "changed since: what they wrote stays"
    ),
}
"""The whole decision. Pairs that are not listed cannot occur: the first attempt to delete asks nothing,
because the store or the comparison before a push guards it."""


def decide(kind: WriteKind, attempt: Attempt, held: Held) -> Step:
    """Return the step for a write."""
    return DECISIONS[kind, attempt, held].step


def held_for_creation(
    head: Revision | Tombstone, sent: Content, *, named: bool, in_parts: bool = False
) -> Held:
    """Name what stands under the id of a new note; ``named``: somebody else may have taken it.

    ``in_parts``: the store may take text and tags in requests of their own.
    """
    if isinstance(head, Tombstone):
        return Held.NOTHING
    lacks_tags = not set(sent.tags) <= set(head.content.tags)
    if in_parts and lacks_tags and replace(head.content, tags=sent.tags) == sent:
        return Held.PART
    if head.content.wording == sent.wording:  # it may have got a tag, or gone to the trash
        return Held.OURS
    return Held.CLASHING if named else Held.MERGEABLE


def held_for_update(
    head: Revision | Tombstone,
    *,
    base: Content | None,
    base_etag: str | None,
    sent: Content,
    wanted: Content,
    taken: bool = False,
    repeated: bool = False,
) -> tuple[Held, Content]:
    """Name what the store holds of a note to be changed, and what to push over that.

    ``wanted`` was made from ``base`` (None: not known any more), ``sent`` is what a push carried. ``taken``:
    another note has the id now, however similar its text is. A text in the store's own form is not merged.
    ``repeated``: the push may have arrived.
    """
    if isinstance(head, Tombstone):
        return Held.NOTHING, wanted
    if head.content == sent:
        return Held.OURS, wanted
    if head.etag == base_etag:
        return Held.BASE, wanted
    merged = None
    if base is not None and not taken and not wanted.native:
        # Where it has arrived and was edited since, a merge could add its lines once more: a blank line that
        # both texts have is enough to take an edit beside them for one of other lines.
        if repeated and contains_change(base=base, sent=wanted, stored=head.content):
            merged = with_lost_tags(base=base, sent=wanted, stored=head.content)
        else:
            merged = merge_content(base, wanted, head.content)
    if merged is None:
        return Held.CLASHING, wanted
    return Held.OURS if merged == head.content else Held.MERGEABLE, merged


def held_for_deletion(
    head: Revision | Tombstone, base_etag: str | None, *, recognised: bool
) -> Held:
    """Name what is left of a note that is to be deleted.

    ``recognised``: the store knows the write if it has arrived. Otherwise the etag of our base does not
    prove that the note was there all the time.
    """
    if isinstance(head, Tombstone):
        return Held.NOTHING
    if head.etag != base_etag:
        return Held.CLASHING
    return Held.BASE if recognised else Held.SAME_AGAIN


@dataclass(frozen=True, slots=True)
class Settlement:
    """Hold what the note should be, and the texts that need a note of their own."""

    content: Content
    ours: Content | None = None
    theirs: Content | None = None


def settle(*, base: Content, sent: Content, displaced: Content | None, held: Content) -> Settlement:
    """Bring together texts of which the store kept only the last.

    ``displaced`` is what our write has overwritten, ``held`` what the store has now: our write, or
    another one over it. Somebody else's text stays in the note where two cannot be merged; ours becomes
    a copy. If there are two others, the displaced one becomes a copy as well. If nothing was displaced, ``held`` may be the
    store's own form of our text: merging the two could repeat a change, so ours becomes a copy if both changed one place.
    """
    content, theirs = held, None
    if displaced is not None and held == sent:
        content = displaced
    elif displaced is not None:
        merged = merge_content(base, displaced, held)
        content, theirs = (held, displaced) if merged is None else (merged, None)
    both = merge_content(base, sent, content)
    doubtful = displaced is None and both is not None and both.text != held.text
    if doubtful and _change_same_place(base.text, sent.text, held.text):
        both = None
    return Settlement(content, sent, theirs) if both is None else Settlement(both, None, theirs)


def _change_same_place(base: str, sent: str, held: str) -> bool:
    """Tell whether both texts changed or added lines at one place of the base, and not the same."""
    old, ours, theirs = split_lines(base), split_lines(sent), split_lines(held)
    others = find_changes(old, theirs)
    return any(
        mine.low <= other.high
        and other.low <= mine.high
        and ours[mine.start : mine.stop] != theirs[other.start : other.stop]
        for mine in find_changes(old, ours)
        for other in others
    )


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
