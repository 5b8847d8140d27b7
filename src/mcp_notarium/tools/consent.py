"""Decide what a person has to agree to, and phrase the question. ``protocol/elicitation`` puts it to them.

A person is asked before

* a save that drops most of a text, or shares the note (:func:`ask_before_save`);
* a change after which everybody may read a note (:func:`ask_before_publishing`);
* a change that takes away what nothing can bring back, of the note or of notes that link to it (:func:`find_questions`,
  and for the removal of a note :func:`remove_note`; ``domain/loss`` decides what that is);
* ``manage`` deletes for good, undoes, restores, changes many notes, renames a tag, moves a folder or resets the index: always, in the
  words of its handler.

There are two kinds of them, and who phrases the question says which it is (``question.Ask``). What can be taken back may be the
model's word where the client has no dialogue. What is irreversible needs a person: a removal for good, sharing, what no
version keeps (each with what else is asked). A user at a terminal is not asked what they have typed. Who may answer
follows from NOTARIUM_DESTRUCTIVE (:func:`consent_mode`).

A question names the note, so that the user notices a wrong one. The text of a note is not ours: nothing
in it may look like the question's own words, turn them around, or hide. The name is for the user's eyes
and never for a log.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import ConfirmationRequired, VersionConflict
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.markup.obsidian_links import rewrite_links
from mcp_notarium.tools.question import Ask, NoteChange, Question, no_changes
from mcp_notarium.tools.save_checks import drops_most, find_new_addresses
from mcp_notarium.tools.untrusted_text import is_foreign

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.loss import Loss
    from mcp_notarium.domain.note import Content, Note, Published
    from mcp_notarium.markup.obsidian_links import Changes
    from mcp_notarium.tools.tool import CallContext


WIDTH = 60
LONGEST_ID = 64
SEARCHED_CHARACTERS = 4096
"""Characters of a text that are searched for a first line."""

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159")
"""Characters without a shape that Unicode still counts as letters or signs, as variation selectors."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # defence: question-shows-characters =()
_QUOTES = re.compile('["\u201c-\u201f\u00ab\u00bb\u2033\uff02]')
_LINES = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


class ConsentMode(Enum):
    """Name the way to obtain consent to a destructive or sharing action."""

    ASK = "ask the user through the client"
    ARGUMENT = "look at the argument `confirm`"
    APPROVAL = "let a person decide at a terminal"
    REFUSE = "nobody can agree to it"


def consent_mode(setting: str, *, irreversible: bool, can_elicit: bool) -> ConsentMode:
    """Return the mode for ``NOTARIUM_DESTRUCTIVE`` = ``setting`` with a client that can ask, or cannot."""
    if setting == "deny":
        return ConsentMode.REFUSE
    if can_elicit:
        return ConsentMode.ASK
    if setting == "strict":
        return ConsentMode.APPROVAL
    if irreversible and setting != "trust":  # defence: irreversible-needs-a-person
        return ConsentMode.APPROVAL
    return ConsentMode.ARGUMENT


def consent_error(mode: ConsentMode, message: str, *, has_app: bool = True) -> ConfirmationRequired:
    """Return the error for an action that nobody has agreed to, naming what would help; ``has_app``: the store has one of its own."""
    hint = "Ask the user. If they agree to exactly this, repeat the call with confirm: true."
    if mode is ConsentMode.REFUSE:
        way = "They can do this in the note store's own app."
        if not has_app:
            way = (
                "No other program has these notes: only the user can permit it, with another value."
            )
        hint = f"The user has disabled such actions (NOTARIUM_DESTRUCTIVE=deny). {way}"
    return ConfirmationRequired(message, resolution_hint=hint, details={"asks": message})


def approval_error(message: str, *, approval_id: str, command: str) -> ConfirmationRequired:
    """Return the error for an action that waits for a person at a terminal; ``command`` is what they run there."""
    return ConfirmationRequired(
        message,
        resolution_hint=f"Tell the user: run `{command}` in a terminal within ten minutes to see and approve this. "
        "Nothing was changed; repeat this same call once they have.",
        details={"asks": message, "approval": approval_id},
    )


def crowded_error(message: str, *, command: str) -> ConfirmationRequired:
    """Return the error for an action that cannot even wait, because too many do."""
    return ConfirmationRequired(
        message,
        resolution_hint=f"Tell the user: too many questions wait; run `{command}` in a terminal to answer them. "
        "Nothing was changed; ask for this again after that.",
        details={"asks": message},
    )


def timeout_error(message: str) -> ConfirmationRequired:
    """Return the error for a question that was not answered in time."""
    return ConfirmationRequired(
        "The user did not answer in time; nothing was changed.",
        resolution_hint="Ask the user, and repeat the call when they can confirm it.",
        details={"asks": message},
    )


def client_error(message: str) -> ConfirmationRequired:
    """Return the error for a question that the client answered with an error, or unreadably.

    Some clients report with an error that their user said no.
    """
    return ConfirmationRequired(
        "The client gave no readable answer to the question; nothing was changed.",
        resolution_hint="The user may have refused. Do not try again unless they ask for it.",
        details={"asks": message},
    )


def quote(text: str) -> str:
    """Return a tag for a question or a message: its visible characters, at most 60, in quotation marks."""
    seen = _visible_part(text)
    return f"“{seen if len(seen) <= WIDTH else shorten(seen, WIDTH) + '…'}”"


async def require_consent(
    call: CallContext,
    asks: Sequence[Ask],
    *,
    note_id: str = "",
    changes: Callable[[], AsyncIterator[NoteChange]] = no_changes,
) -> None:
    """Raise ``ConfirmationRequired`` unless the user agrees to all of ``asks``; ``changes`` are what they are about."""
    if not await call.confirm(Question(tuple(asks), note_id, changes)):  # defence: decline-obeyed
        raise ConfirmationRequired(
            "The user declined; nothing was changed.",
            subcategory="declined",
            resolution_hint="Do not try again unless the user asks for it.",
        )


def describe_note(text: str, *, note_id: str | None) -> str:
    """Return for example ``note “Shopping” (id 8f3c)``; without an id ``new note “Shopping”``."""
    line = first_visible_line(text)
    name = f" “{line}”" if line else " without text"
    return f"new note{name}" if note_id is None else f"note{name} (id {quote_id(note_id)})"


def name_note(app: App, text: str, *, note_id: str | None) -> str:
    """Return a note's name for a question, by its id alone if the policy hides its text.

    The agent reads a question that nobody can be asked, so the question must not show hidden text.
    """
    if note_id is not None and (  # defence: question-within-limits -bytes_left
        app.config.policy.hides(Field.TEXT) or app.usage_limits.bytes_left == 0
    ):
        return describe_note("", note_id=note_id).replace(" without text", "")
    return describe_note(text, note_id=note_id)


def first_visible_line(text: str) -> str:
    """Return the first visible line, at most 60 characters; '' if there is none."""
    for line in _LINES.split(text[:SEARCHED_CHARACTERS]):
        if seen := _visible_part(line):
            cut = shorten(seen, WIDTH)
            return cut if cut == seen else f"{cut}…"
    return ""


def _visible_part(line: str) -> str:
    """Return the visible characters, with single spaces and without double quotation marks."""
    spaced = "".join(" " if character.isspace() else character for character in line)
    shown = "".join(character for character in spaced if _is_seen(character))
    return " ".join(_QUOTES.sub("'", shown).split())


def _is_seen(character: str) -> bool:
    return not (
        unicodedata.category(character) in _UNSEEN
        or character in _INVISIBLE
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    )


def quote_id(note_id: str) -> str:
    """Return an id for a question or a message: cut, and between quotation marks if it may say something."""
    shown = note_id if len(note_id) <= LONGEST_ID else f"{note_id[:LONGEST_ID]}…"
    return quote_whole(shown) if is_foreign(note_id) else shown


def quote_whole(text: str) -> str:
    """Return a text for a question, uncut and in quotation marks: what is unsafe to show stands as its code."""
    shown = _QUOTES.sub("'", one_line(text))
    return f"“{shown}”"


def ask_before_save(
    old: Content, new: Content, *, name: Callable[[], str], shares: bool
) -> tuple[Ask, ...]:
    """Return the questions for a person before ``new`` replaces ``old`` in the note that ``name`` names."""
    asks = []
    added = find_new_addresses(new.tags, present=old.tags) if shares else ()
    if added:  # defence: sharing-asks
        people = ", ".join(map(quote_whole, added))
        said = f"Share the {name()} with {people} (an e-mail address as a tag)?"
        asks.append(Ask(said, irreversible=True))
    if drops_most(old.text, new.text):  # defence: dropping-text-asks
        sizes = f"({len(old.text)} characters, {len(new.text)} after)"
        asks.append(Ask(f"Overwrite the {name()} and drop most of its text {sizes}?"))
    return tuple(asks)


def ask_before_publishing(
    app: App, what: str, changed: int, published: Published
) -> tuple[Ask, ...]:
    """Return the question about notes that everybody may read after a change; ``what`` names the ones that are changed, so many."""
    notes, why = describe_published(app, what, changed, published)
    does = f"Make {notes} public" if published.place else f"Change who can read {notes}"
    return (Ask(f"{does} on the web? {why}", irreversible=True, about=published.digest),)


def describe_published(app: App, what: str, changed: int, published: Published) -> tuple[str, str]:
    """Return which notes a change makes public, and why; see :func:`ask_before_publishing`."""
    count = len(published.ids)
    named = f"the {what}" if changed == 1 else what
    below = f" and what stands below {'it' if changed == 1 else 'them'}" if count > changed else ""
    notes = named if count == 1 else f"{count} notes ({named}{below})"
    they = "It" if count == 1 else "They"
    if not published.place:
        return (
            notes,
            f"{they} {'is' if count == 1 else 'are'} shared, and the password changes or goes.",
        )
    place = app.library.get(published.place)
    above = name_note(app, (place.title or place.text) if place else "", note_id=published.place)
    moves = "" not in published.ids
    # That something is hidden below must not be told by this, so it is said wherever rules hide notes.
    hides = moves and app.config.policy.visibility.has_rules
    more = " What stands below and is hidden here becomes public, too." if hides else ""
    return notes, f"{they} would stand below the {above}, which is shared.{more}"


async def find_loss(
    app: App, note: Note, content: Content | None, *, after: int = 0
) -> Loss | None:
    """Return what is lost for good if the note becomes ``content`` (None: is removed); None if nothing is.

    ``after``: the room of the versions that the same change needs before. Raises ``NotPermitted`` if the policy
    forbids that.
    """
    if content is None:
        loss = await app.library.losses.find_removal_loss(note, now=app.clock())
    else:
        loss = await app.library.losses.find_loss(note, content, now=app.clock(), after=after)
    if loss is not None:
        app.config.policy.require_irreversible()  # defence: write-mode-no-deletion
    return loss


async def find_questions(
    app: App, note: Note, content: Content, *, links: Mapping[str, Changes]
) -> tuple[Ask, ...]:
    """Return what a person has to be asked before the note becomes ``content``, and links in other notes change.

    Raises ``NotPermitted`` if the policy forbids that.
    """
    asks = []
    loss, others, _ = await find_losses(app, note, content, links=links)
    if loss is not None:
        name = name_note(app, note.title or note.text, note_id=note.id)
        gone = f"What this replaces ({', '.join(loss.parts)}) cannot be brought back: {loss.why}."
        said = f"Change the {name}? {gone}"
        asks.append(Ask(said, irreversible=True, about=loss.replaced))
    return (*asks, *ask_about_links(others))


async def find_losses(
    app: App, note: Note, content: Content, *, links: Mapping[str, Changes], after: int = 0
) -> tuple[Loss | None, int, int]:
    """Return what is lost for good of the note and in how many others, and the room that their versions take.

    ``after``: see :func:`find_loss`. Raises as that.
    """
    loss = await find_loss(app, note, content, after=after)
    others, room = 0, after + (app.library.losses.version_size(note) if loss is None else 0)
    for other, becomes in relinked(app, links):
        lost = await find_loss(app, other, becomes, after=room) is not None
        others += lost
        room += 0 if lost else app.library.losses.version_size(other)
    return loss, others, room - after


def ask_about_links(others: int) -> tuple[Ask, ...]:
    """Return the question about links in so many notes of which no version is kept; none for 0."""
    if not others:
        return ()
    notes = "1 other note" if others == 1 else f"{others} other notes"
    said = f"Change links in {notes}? What they were cannot be brought back."
    return (Ask(said, irreversible=True),)


def relinked(app: App, links: Mapping[str, Changes]) -> Iterator[tuple[Note, Content]]:
    """Yield the notes whose links change, and what they become."""
    for note_id, changes in links.items():
        if (other := app.library.get(note_id)) is not None:
            text = rewrite_links(other.text, changes)
            yield other, replace(other.content, text=text)


def changes_of(
    note: Note | None,
    content: Content | None,
    others: Callable[[], Iterable[tuple[Note, Content]]] = tuple,
) -> Callable[[], AsyncIterator[NoteChange]]:
    """Return what gives the change of one note, and those of ``others`` that follow from it."""

    async def changes() -> AsyncIterator[NoteChange]:
        yield NoteChange(note, content)
        for other, becomes in others():
            yield NoteChange(other, becomes)

    return changes


_ATTEMPTS = 3


async def remove_note(
    app: App, key: str, call: CallContext, find: Callable[[], Awaitable[Note]], *, asks: bool
) -> Note:
    """Delete the note that ``find`` returns each time, and return it.

    ``key``: as for ``Library.writing``. ``asks``: the user is asked also about a note that can be brought back. Raises
    ``VersionConflict`` if the answer was about another state of the note, or it cannot be brought back any more.
    """
    agreed = await find()
    app.config.policy.writing.require_change(agreed.id, agreed.tags, inside=None)
    await app.library.require_open(agreed, None)
    loss = await find_loss(app, agreed, None)
    if asks or loss is not None:
        app.usage_limits.require_write()
        if not call.is_answered(irreversible=True):
            await app.library.foresee(agreed, None)
            agreed = await find()
        name = name_note(app, agreed.title or agreed.text, note_id=agreed.id)
        kept = f"For {app.config.version_days} days `restore_version` can bring it back."
        back = kept if loss is None else f"It cannot be brought back: {loss.why}."
        # defence: delete-for-good-asks
        await require_consent(
            call,
            [Ask(f"Delete the {name} for good? {back}", irreversible=True)],
            note_id=agreed.id,
            changes=changes_of(agreed, None),
        )
    for attempt in range(1, _ATTEMPTS + 1):
        async with app.library.writing(key):
            note = await find()
            now = await find_loss(app, note, None)
            if loss is None and now is not None:  # defence: delete-what-was-agreed
                raise VersionConflict(
                    "The note cannot be brought back any more; nothing was deleted.",
                    details={"id": note.id},
                    resolution_hint="Delete it again if it is still to go: then the user is asked about that.",
                )
            if loss is not None and (note, now) != (agreed, loss):
                raise VersionConflict(
                    "The note has changed just now; nothing was deleted.",
                    details={"id": note.id},
                    resolution_hint="Read it again, and delete it if the user still wants that.",
                )
            try:
                with app.usage_limits.write():
                    await app.library.remove(note, act=call.act, keeps=loss is None)
            except VersionConflict:  # another program has changed it at this moment
                if attempt == _ATTEMPTS:
                    raise
            else:
                return note
    raise AssertionError("the last attempt returns or raises")
