"""Decide about one write by the store's present state, and hold how it ended. Pure: values in, decisions out.

Everything that is decided about a write stands in ``DECISIONS``: before a push, after one that the store has not taken, and after
its answer; for a first attempt and a replay. ``head_reader`` names what the store holds, ``write_attempt`` carries the step out.
``domain.conflict_copy`` decides about lines of texts that have met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcp_notarium.domain.conflict_copy import contains_change, merge_repair, with_lost_tags
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone, WriteKind

if TYPE_CHECKING:
    from mcp_notarium.errors import NotariumError
    from mcp_notarium.markup.obsidian_links import Changes
    from mcp_notarium.storage.audit_log import Act


class Attempt(Enum):
    """Name who makes the attempt, and whether the write may have arrived before."""

    FIRST = "first"
    FOLLOWING = "following"
    """Recorded together with another write or its answer, and not sent yet: a copy, a repair, a link."""
    REPEATED = "repeated"
    """Recorded and perhaps sent: after a crash, a lost answer or a restart, or by another server."""
    ANSWERED = "answered"
    """Taken by the store just now, in whichever attempt."""


class Held(Enum):
    """Name what the store holds in place of the note, against our write."""

    NOTHING = "nothing"
    BASE = "our base"
    SAME_AGAIN = "our base, or the same text again"
    OURS = "our content"
    PART = "our content without some of its tags"
    MERGEABLE = "another edit, of other lines"
    CLASHING = "another edit, of the same lines"
    TAKEN = "another note under the new id or name"
    OVERTAKEN = "a change that has followed the one to take back"
    MET = "our content, and another edit of the same moment"
    SINCE = "something else than was read"
    REFUSING = "whatever it holds: it refuses the write"


class Fact(Enum):
    """Name what else a decision depends on."""

    EXACT = "exact"
    """Its caller or a person has agreed to this content, and to no other."""
    HIDDEN = "hidden"
    """The policy would hide what comes of a merge, or a repeated write, or its copy, would show what it hides by now."""
    ARRIVED = "it is known to have arrived"
    KEPT = "it needs no copy"
    """It is one, it has one, or the text is elsewhere too."""
    BULK = "it is of a change of many"
    LINK = "it writes links"
    """It lets links follow a note that was renamed."""
    REPAIR = "it is a repair"
    """It puts back what an earlier write has cost others."""
    LACKING = "it has cost the note something"
    """An earlier attempt has taken away what others wrote."""
    FIXED = "under this id only"
    """It makes a note again that had this id."""
    NAMED = "ids are names"
    """The note may be there under another id."""


class Step(Enum):
    """Name what the table decides."""

    PUSH = "push"
    COPY = "conflict copy"
    NEW_ID = "push under another id"
    KEEP_NAME = "push under the old name"
    LOOK = "look again"
    REFUSE = "refuse"
    """Tell the caller; nothing is stored."""
    REJECT = "keep as a rejected write"
    DROP = "drop"
    """Let the note be as it is: nothing of the write is in it, or is to be."""
    PUT_BACK = "put back"
    MEND = "bring both together"
    """By lines, in a repair of the note, or in a conflict copy."""
    GIVE_BACK = "give the note back"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Case:
    """Hold all that the decision about a write depends on."""

    kind: WriteKind
    attempt: Attempt
    held: Held
    facts: frozenset[Fact] = frozenset()

    @classmethod
    def of(cls, write: PendingWrite, attempt: Attempt, held: Held, *facts: Fact) -> Case:
        """Return the case of an entry, with what it says of itself."""
        said = {Fact.LINK: write.after, Fact.REPAIR: write.repair, Fact.KEPT: write.copied}
        said |= {Fact.BULK: write.change_id}
        return cls(write.kind, attempt, held, frozenset({*facts, *filter(said.get, said)}))


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold one row: the cases it is about, and what is decided."""

    kind: WriteKind | None
    """None: of a new or a changed note."""
    attempt: Attempt
    held: Held
    fact: Fact | None
    """None: whatever else is the case."""
    step: Step
    why: str
    """The reason, in a reader's words."""

    def covers(self, case: Case) -> bool:
        """Tell whether the row is about this case."""
        kind = self.kind or (case.kind if case.kind is not WriteKind.DELETE else None)
        same = (kind, self.attempt, self.held) == (case.kind, case.attempt, case.held)
        return same and (self.fact is None or self.fact in case.facts)


_CREATE, _UPDATE, _DELETE = WriteKind.CREATE, WriteKind.UPDATE, WriteKind.DELETE
_FIRST, _FOLLOWING, _REPEATED = Attempt.FIRST, Attempt.FOLLOWING, Attempt.REPEATED
_ANSWERED = Attempt.ANSWERED

# fmt: off
DECISIONS = (
    Decision(_CREATE, _FIRST, Held.NOTHING, None, Step.PUSH, "a new note"),
    Decision(_CREATE, _FIRST, Held.TAKEN, Fact.FIXED, Step.REFUSE, "somebody has made it again: the caller decides"),
    Decision(_CREATE, _FIRST, Held.TAKEN, None, Step.NEW_ID, "somebody else's note, though it may say the same"),
    Decision(_CREATE, _FIRST, Held.REFUSING, None, Step.REFUSE, "the store's reason is told"),
    Decision(_CREATE, _FOLLOWING, Held.NOTHING, None, Step.PUSH, "the copy of a text that has no place in its note"),
    Decision(_CREATE, _FOLLOWING, Held.TAKEN, None, Step.NEW_ID, "another note has the name of the copy"),
    Decision(_CREATE, _FOLLOWING, Held.REFUSING, None, Step.REJECT, "a text that the store can hold nowhere"),
    Decision(_CREATE, _REPEATED, Held.NOTHING, Fact.ARRIVED, Step.DONE, "it had arrived, and was removed since"),
    Decision(_CREATE, _REPEATED, Held.NOTHING, None, Step.PUSH, "it never arrived, as far as anybody can tell"),
    Decision(_CREATE, _REPEATED, Held.OURS, None, Step.DONE, "it has arrived"),
    Decision(_CREATE, _REPEATED, Held.PART, Fact.HIDDEN, Step.DONE, "it has arrived, and the tags that would show it were taken away"),
    Decision(_CREATE, _REPEATED, Held.PART, None, Step.PUSH, "the note was made, and then the connection was lost: the rest"),
    Decision(_CREATE, _REPEATED, Held.MERGEABLE, None, Step.DONE, "it has arrived, and was edited since: its id was made for it"),
    Decision(_CREATE, _REPEATED, Held.CLASHING, Fact.ARRIVED, Step.DONE, "it had arrived, and was edited since"),
    Decision(_CREATE, _REPEATED, Held.CLASHING, None, Step.NEW_ID, "perhaps somebody else's note: keep both"),
    Decision(_CREATE, _REPEATED, Held.TAKEN, None, Step.NEW_ID, "another note has the next name as well"),
    Decision(_CREATE, _REPEATED, Held.SINCE, None, Step.LOOK, "nothing had its id a moment ago: this may be the very write"),
    Decision(_CREATE, _REPEATED, Held.REFUSING, None, Step.REJECT, "nobody to ask: the user sees it"),
    Decision(_UPDATE, _FIRST, Held.NOTHING, None, Step.REFUSE, "removed or hidden elsewhere: the caller decides"),
    Decision(_UPDATE, _FIRST, Held.BASE, None, Step.PUSH, "nobody else has written"),
    Decision(_UPDATE, _FIRST, Held.OURS, None, Step.DONE, "it says so already"),
    # defence: restore-without-other-edit
    Decision(_UPDATE, _FIRST, Held.MERGEABLE, Fact.EXACT, Step.REFUSE, "what was agreed to is not merged with what came after"),
    Decision(_UPDATE, _FIRST, Held.MERGEABLE, Fact.HIDDEN, Step.REFUSE, "each side kept a tag that shows the note; both edits keep none"),
    Decision(_UPDATE, _FIRST, Held.MERGEABLE, None, Step.PUSH, "both edits fit: merged"),
    Decision(_UPDATE, _FIRST, Held.CLASHING, Fact.BULK, Step.REFUSE, "the same lines: drafted once more, then left, and named"),
    Decision(_UPDATE, _FIRST, Held.CLASHING, None, Step.REFUSE, "the same lines: the caller decides"),
    Decision(_UPDATE, _FIRST, Held.TAKEN, None, Step.REFUSE, "something else has the new name: the caller decides"),
    Decision(_UPDATE, _FIRST, Held.OVERTAKEN, None, Step.REFUSE, "another change followed: the caller decides"),
    Decision(_UPDATE, _FIRST, Held.SINCE, None, Step.LOOK, "somebody has written right before it"),
    Decision(_UPDATE, _FIRST, Held.REFUSING, None, Step.REFUSE, "the store's reason is told"),
    Decision(_UPDATE, _FOLLOWING, Held.BASE, None, Step.PUSH, "a repair of what was just stored, or the links to a renamed note"),
    Decision(_UPDATE, _FOLLOWING, Held.REFUSING, Fact.LINK, Step.DROP, "the links stay as they are: they are no text to keep"),
    Decision(_UPDATE, _FOLLOWING, Held.REFUSING, None, Step.REJECT, "the note stays as it is"),
    Decision(_UPDATE, _REPEATED, Held.NOTHING, Fact.ARRIVED, Step.DONE, "it had arrived, and the note was removed since"),
    Decision(_UPDATE, _REPEATED, Held.NOTHING, Fact.KEPT, Step.DROP, "removed, and the text is not lost with it"),
    Decision(_UPDATE, _REPEATED, Held.NOTHING, Fact.HIDDEN, Step.REJECT, "a copy would show a note that was hidden before it was removed"),
    Decision(_UPDATE, _REPEATED, Held.NOTHING, None, Step.COPY, "removed there, changed here: the text is kept"),
    Decision(_UPDATE, _REPEATED, Held.BASE, Fact.HIDDEN, Step.REJECT, "it would show a note that is hidden by now: the user sees it"),
    Decision(_UPDATE, _REPEATED, Held.BASE, None, Step.PUSH, "it never arrived"),
    Decision(_UPDATE, _REPEATED, Held.OURS, Fact.LACKING, Step.PUT_BACK, "the store has merged it with what others wrote, and lost some"),
    Decision(_UPDATE, _REPEATED, Held.OURS, None, Step.DONE, "it has arrived"),
    Decision(_UPDATE, _REPEATED, Held.MERGEABLE, Fact.HIDDEN, Step.REJECT, "both edits would show a note that is hidden by now"),
    Decision(_UPDATE, _REPEATED, Held.MERGEABLE, None, Step.PUSH, "both edits fit: merged; a hidden note stays so"),
    Decision(_UPDATE, _REPEATED, Held.CLASHING, Fact.ARRIVED, Step.DONE, "it had arrived, and the same lines were edited since"),
    Decision(_UPDATE, _REPEATED, Held.CLASHING, Fact.KEPT, Step.DROP, "the same lines, and it needs no copy"),
    Decision(_UPDATE, _REPEATED, Held.CLASHING, Fact.HIDDEN, Step.REJECT, "a copy would show a note that is hidden by now"),
    Decision(_UPDATE, _REPEATED, Held.CLASHING, None, Step.COPY, "the same lines, and nobody to ask: both are kept"),
    Decision(_UPDATE, _REPEATED, Held.TAKEN, None, Step.KEEP_NAME, "something else has the new name, and nobody to ask"),
    Decision(_UPDATE, _REPEATED, Held.OVERTAKEN, None, Step.DROP, "another change followed: it stays"),
    Decision(_UPDATE, _REPEATED, Held.SINCE, None, Step.LOOK, "somebody has written right before it"),
    Decision(_UPDATE, _REPEATED, Held.REFUSING, Fact.LINK, Step.DROP, "the links stay as they are: they are no text to keep"),
    Decision(_UPDATE, _REPEATED, Held.REFUSING, None, Step.REJECT, "nobody to ask: the user sees it"),
    Decision(None, _ANSWERED, Held.OURS, None, Step.DONE, "nobody else has written: kept as the store has it"),
    Decision(_UPDATE, _ANSWERED, Held.MET, Fact.REPAIR, Step.PUT_BACK, "a repair is mended once, for others only: it ends"),
    Decision(None, _ANSWERED, Held.MET, None, Step.MEND, "the store has merged both, or one has overwritten the other"),
    Decision(_UPDATE, _ANSWERED, Held.CLASHING, None, Step.COPY, "written over a repair: no second one, but our text is kept"),
    Decision(None, _ANSWERED, Held.NOTHING, None, Step.DONE, "removed right after it"),
    Decision(_UPDATE, _ANSWERED, Held.TAKEN, None, Step.GIVE_BACK, "another note had got the id right before it, and was overwritten"),
    Decision(None, _ANSWERED, Held.SINCE, None, Step.LOOK, "nothing to change, says the store, and lacks some of it"),
    Decision(_DELETE, _FIRST, Held.NOTHING, Fact.NAMED, Step.REFUSE, "gone, or there under another name: the caller decides"),
    Decision(_DELETE, _FIRST, Held.NOTHING, None, Step.DONE, "it is gone"),
    Decision(_DELETE, _FIRST, Held.BASE, None, Step.PUSH, "as the caller saw it"),
    Decision(_DELETE, _FIRST, Held.CLASHING, None, Step.REFUSE, "changed since: the caller decides"),
    Decision(_DELETE, _FIRST, Held.REFUSING, None, Step.REFUSE, "the store's reason is told"),
    Decision(_DELETE, _REPEATED, Held.NOTHING, None, Step.DONE, "it is gone"),
    Decision(_DELETE, _REPEATED, Held.BASE, None, Step.PUSH, "it never arrived"),
    Decision(_DELETE, _REPEATED, Held.SAME_AGAIN, None, Step.DROP, "perhaps somebody has brought it back: it stays"),
    Decision(_DELETE, _REPEATED, Held.CLASHING, None, Step.DROP, "changed since: what they wrote stays"),
    Decision(_DELETE, _REPEATED, Held.SINCE, None, Step.LOOK, "somebody has written right before it"),
    Decision(_DELETE, _REPEATED, Held.REFUSING, None, Step.DROP, "it stays, and the user sees it"),
    Decision(_DELETE, _ANSWERED, Held.NOTHING, None, Step.DONE, "it is gone, by this removal or another one"),
)
# fmt: on
"""The whole decision: the first row that covers a case. A case that no row covers cannot occur."""


def decide(case: Case) -> Step:
    """Return the step for a write. Raises ``LookupError`` if there is no row for the case."""
    for row in DECISIONS:
        if row.covers(case):
            return row.step
    raise LookupError(f"no decision for {case}")


def held_for_creation(
    head: Revision | Tombstone, sent: Content, *, others: bool, in_parts: bool = False
) -> Held:
    """Name what has the id of a new note; ``others``: they may make it, too; ``in_parts``: its tags may be late."""
    if isinstance(head, Tombstone):
        return Held.NOTHING
    lacks_tags = not set(sent.tags) <= set(head.content.tags)
    if in_parts and lacks_tags and replace(head.content, tags=sent.tags) == sent:
        return Held.PART
    if head.content.wording == sent.wording:  # it may have got a tag, or gone to the trash
        return Held.OURS
    return Held.CLASHING if others else Held.MERGEABLE


def held_for_update(
    head: Revision,
    *,
    base: Content | None,
    base_etag: str | None,
    sent: Content,
    wanted: Content,
    taken: bool = False,
    repeated: bool = False,
    repair: bool = False,
) -> tuple[Held, Content]:
    """Name what the store holds of a note to be changed, and what to push over that.

    ``wanted`` was made from ``base`` (None: not known any more), ``sent`` is what a push carried. ``taken``:
    another note has the id now, however similar its text is. A text in the store's own form is not merged.
    ``repeated``: the push may have arrived. ``repair``: see ``merge_repair``.
    """
    if taken:
        return Held.CLASHING, wanted
    if head.content == sent:
        return Held.OURS, wanted
    if head.etag == base_etag:
        return Held.BASE, wanted
    merged = None
    if base is not None and not wanted.native:
        # Where it has arrived and was edited since, a merge could add its lines once more: a blank line that
        # both texts have is enough to take an edit next to them for one of other lines.
        if repeated and contains_change(base=base, sent=wanted, stored=head.content):
            merged = with_lost_tags(base=base, sent=wanted, stored=head.content)
        else:
            merge = merge_repair if repair else merge_content
            merged = merge(base, wanted, head.content)
    if merged is None:
        return Held.CLASHING, wanted
    return Held.OURS if merged == head.content else Held.MERGEABLE, merged


def held_for_deletion(
    head: Revision | Tombstone, base_etag: str | None, *, recognised: bool
) -> Held:
    """Name what is left of a note that is to be deleted; ``recognised``: the store knows the write if it has arrived.

    Otherwise the etag of our base does not prove that the note was there all the time.
    """
    if isinstance(head, Tombstone):
        return Held.NOTHING
    if head.etag != base_etag:
        return Held.CLASHING
    return Held.BASE if recognised else Held.SAME_AGAIN


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what the caller of a first attempt has seen, and its wishes that the entry lacks; see ``Writer.save``."""

    note: Note | None = None
    """As the caller read it; None: a new one."""
    act: Act | None = None
    round: int = 0
    """Number of times that the note has changed under this write."""
    facts: frozenset[Fact] = frozenset()
    links: Mapping[str, Changes] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class View:
    """Hold what was seen of the store, and what the write is against that."""

    write: PendingWrite
    case: Case
    asked: Asked | None = None
    """State that the caller of a first attempt has seen."""
    head: Revision | Tombstone | None = None
    """The note in the store; None if nothing was asked."""
    seen: str | None = None
    """The etag in the index before."""
    changed: bool = False
    """The entry in the journal does not say this yet."""
    error: NotariumError | None = None
    """Error for which the store has not taken the write."""
    lacking: Content | None = None
    """The content to put back, if an earlier attempt has taken something from the note."""
    in_part: bool = False
    """The head differs from our base by a part of this write only."""

    @property
    def base(self) -> Revision | None:
        """Return what the write goes over; None for a new note."""
        return self.head if isinstance(self.head, Revision) else None

    def holding(self, held: Held) -> View:
        """Return it with something else that the store holds."""
        return replace(self, case=replace(self.case, held=held))

    def but(self, *facts: Fact) -> View:
        """Return it with more facts."""
        return replace(self, case=replace(self.case, facts=self.case.facts | {*facts}))


class WriteOutcome(Enum):
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
class WriteResult:
    """Hold how a push ended; ``Saved`` explains the other fields."""

    outcome: WriteOutcome
    note_id: str = ""
    """The note as the store names it; "" if nothing was stored."""
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""
    """The fields that the store has changed by itself; "" if none."""
    relinked: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    content: Content | None = None
    """The content in the store then; None: nobody has seen it."""
    etag: str | None = None
    """Of the note then; None: the index tells."""

    @property
    def stored(self) -> bool:
        """Tell whether the store holds the text, in the note or in a copy."""
        return self.outcome in (WriteOutcome.STORED, WriteOutcome.COPIED)

    def followed_by(
        self, copy: WriteResult | None, repair: WriteResult | None = None, *, lost: bool
    ) -> WriteResult:
        """Add how copy and repair ended; ``lost``: the note lacks some of our change without them."""
        result = self
        if repair is not None and repair.note_id:
            result = replace(repair, merged=True)
        elif repair is not None and lost:
            result = replace(self, outcome=repair.outcome)
        if copy is None:
            return result
        copied = copy.note_id if copy.stored else None
        outcome = WriteOutcome.COPIED if copy.stored else copy.outcome
        return replace(result, outcome=outcome, copy_id=copied)
