"""Describe a tool and the context of its call, and phrase its consent questions.

The server makes one :class:`CallContext` for each call. Handlers read the index freely. Every change
happens inside ``app.library.writing()``: writes of one note are served one after another, and reads never
wait for the network behind a write.

A question names the note, so that the user notices a wrong one. The text of a note is not ours: nothing
in it may look like the question's own words, turn them around, or hide. The name is for the user's eyes
and never for a log.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.policy import Field
from mcp_notarium.errors import ConfirmationRequired
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.tools.untrusted_text import is_foreign

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.storage.audit_log import Act


WIDTH = 60
LONGEST_ID = 64
SEARCHED_CHARACTERS = 4096
"""Characters of a text that are searched for a first line."""

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159")
"""Characters without a shape that Unicode still counts as letters or signs, as variation selectors."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # defence: question-shows-characters =()
_QUOTES = re.compile('["\u201c-\u201f\u00ab\u00bb\u2033\uff02]')
_LINES = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


class CallContext(Protocol):
    """Represent one call: how to record a change, to ask the user, and to tell the client."""

    @property
    def client(self) -> str | None:
        """Return the program that calls, as versions name it; None: the user, at a terminal."""

    @property
    def act(self) -> Act:
        """Return what a change is recorded by before it is made."""

    async def confirm(self, message: str) -> bool:
        """Return whether the user agrees to ``message``.

        Raises ``ConfirmationRequired`` if nobody can say.
        """

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the client; does nothing if the client did not ask for that."""


class ConsentMode(Enum):
    """Name the way to obtain consent to a destructive or sharing action."""

    ASK = "ask the user through the client"
    ARGUMENT = "look at the argument `confirm`"
    REFUSE = "nobody can agree to it"


def consent_mode(setting: str, *, can_elicit: bool) -> ConsentMode:
    """Return the mode for ``NOTARIUM_DESTRUCTIVE`` = ``setting`` with a client that can ask, or cannot."""
    if setting == "deny":
        return ConsentMode.REFUSE
    if can_elicit:
        return ConsentMode.ASK
    return ConsentMode.ARGUMENT if setting == "ask" else ConsentMode.REFUSE


def consent_error(setting: str, message: str) -> ConfirmationRequired:
    """Return the error for an action without consent, naming what would help."""
    hints = {
        "deny": "The user has disabled such actions (NOTARIUM_DESTRUCTIVE=deny). "
        "They can do this in the note store's own app, if it has one.",
        "elicit": "This client cannot ask the user, and NOTARIUM_DESTRUCTIVE=elicit requires that. "
        "The user can do this in the note store's own app, if it has one.",
    }
    hint = hints.get(
        setting, "Ask the user. If they agree to exactly this, repeat the call with confirm: true."
    )
    return ConfirmationRequired(message, resolution_hint=hint, details={"asks": message})


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


async def require_consent(call: CallContext, message: str) -> None:
    """Raise ``ConfirmationRequired`` unless the user agrees to ``message``."""
    if not await call.confirm(message):  # defence: decline-obeyed
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


Handler = Callable[..., Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Describe one tool, ready to be listed and called.

    ``read_only`` and the next three say what a client may rely on when it decides whether to ask its user.
    ``other_answer``: what some calls get instead. ``without``: actions and arguments that clients are not
    shown. ``stands_for``: the tool of ours, and its action, whose rules of the policy hold for this one; '' for
    one of ours. ``protocol_errors``: its errors are those of the protocol, not answers; they end with
    ``failure_sign``; ``wrong_code``: the caller can change it, ``missing_code``: no such note. ``family`` is what
    the audit log calls it before its name.
    """

    name: str
    title: str
    description: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Handler
    other_answer: type[BaseModel] | None = None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    stands_for: str = ""
    action: str | None = None
    protocol_errors: bool = False
    wrong_code: int = -32602
    missing_code: int = -32602
    without: frozenset[str] = frozenset()
    failure_sign: str = ""
    family: str = "tool"

    @property
    def rule(self) -> tuple[str, str | None]:
        """Return what the policy calls it: a tool of ours, and an action of that."""
        return self.stands_for or self.name, self.action
