"""Define what a handler may ask of its call, without the protocol or its SDK.

The server makes one :class:`CallContext` for each call. Handlers read the index freely. Every change
happens inside ``app.writer.call()``: writes are served one after another, and reads never wait for
the network behind a write.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mcp_notarium.errors import ConfirmationRequired


class CallContext(Protocol):
    """Represent one call: who asks, and how to ask back."""

    @property
    def client(self) -> str:
        """Return the name of the client program, '' if it did not say."""

    async def confirm(self, message: str) -> bool:
        """Return whether the person agrees to ``message``.

        Raises ``ConfirmationRequired`` if nobody can say.
        """

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the client; does nothing if the client did not ask for that."""


class Way(Enum):
    """Name the way to obtain consent to a destructive or sharing action."""

    ASK = "ask the person through the client"
    ARGUMENT = "look at the argument `confirm`"
    REFUSE = "nobody can agree to it"


def way_of_consent(setting: str, *, can_elicit: bool) -> Way:
    """Return the way for ``NOTARIUM_DESTRUCTIVE`` = ``setting`` with a client that can ask, or cannot."""
    if setting == "deny":
        return Way.REFUSE
    if can_elicit:
        return Way.ASK
    return Way.ARGUMENT if setting == "ask" else Way.REFUSE


def refusal(setting: str, message: str) -> ConfirmationRequired:
    """Return the error for an action without consent, naming what would help."""
    hints = {
        "deny": "The user has disabled such actions (NOTARIUM_DESTRUCTIVE=deny). "
        "They can do this in the note store's own app.",
        "elicit": "This client cannot ask the user, and NOTARIUM_DESTRUCTIVE=elicit requires that. "
        "The user can do this in the note store's own app.",
    }
    hint = hints.get(
        setting, "Ask the user. If they agree to exactly this, repeat the call with confirm: true."
    )
    return ConfirmationRequired(message, resolution_hint=hint, details={"asks": message})


def unanswered(message: str) -> ConfirmationRequired:
    """Return the error for a question that was not answered in time."""
    return ConfirmationRequired(
        "The user did not answer in time; nothing was changed.",
        resolution_hint="Ask the user, and repeat the call when they can confirm it.",
        details={"asks": message},
    )


def refused_with_error(message: str) -> ConfirmationRequired:
    """Return the error for a question that the client answered with an error, or unreadably.

    Some clients report with an error that their user said no.
    """
    return ConfirmationRequired(
        "The client gave no readable answer to the question; nothing was changed.",
        resolution_hint="The user may have refused. Do not try again unless they ask for it.",
        details={"asks": message},
    )


async def require_consent(call: CallContext, message: str) -> None:
    """Raise ``ConfirmationRequired`` unless the person agrees to ``message``."""
    if not await call.confirm(message):
        raise ConfirmationRequired(
            "The user declined; nothing was changed.",
            subcategory="declined",
            resolution_hint="Do not try again unless the user asks for it.",
        )
