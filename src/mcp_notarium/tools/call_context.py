"""What a handler may ask of the call it serves, without knowing the protocol or its SDK.

The server makes one :class:`CallContext` for each call. Handlers read the cache as they like; what
changes anything happens inside ``app.writer.call()``, so that writes are served one after another while
reads never wait for the network behind a write.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mcp_notarium.errors import ConfirmationRequired


class CallContext(Protocol):
    """One call: who asks, and how to ask back."""

    @property
    def client(self) -> str:
        """Name of the client program, '' if it did not say."""

    async def confirm(self, message: str) -> bool:
        """Did the person agree to ``message``? Raises ``ConfirmationRequired`` if nobody can say."""

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell the client how far the call is; nothing happens if it did not ask for that."""


class Way(Enum):
    """How consent to a destructive or sharing action is found."""

    ASK = "ask the person through the client"
    ARGUMENT = "look at the argument `confirm`"
    REFUSE = "nobody can agree to it"


def way_of_consent(setting: str, *, can_elicit: bool) -> Way:
    """The way for ``NOTARIUM_DESTRUCTIVE`` = ``setting`` with a client that can ask, or cannot."""
    if setting == "deny":
        return Way.REFUSE
    if can_elicit:
        return Way.ASK
    return Way.ARGUMENT if setting == "ask" else Way.REFUSE


def refusal(setting: str, message: str) -> ConfirmationRequired:
    """The error for an action that nobody has agreed to, naming what would help."""
    hints = {
        "deny": "The user has switched such actions off (NOTARIUM_DESTRUCTIVE=deny). "
        "They can do this in the note service's own app.",
        "elicit": "This client cannot ask the user, and NOTARIUM_DESTRUCTIVE=elicit wants that. "
        "The user can do this in the note service's own app.",
    }
    hint = hints.get(
        setting, "Ask the user. If they agree to exactly this, repeat the call with confirm: true."
    )
    return ConfirmationRequired(message, resolution_hint=hint, details={"asks": message})


def unanswered(message: str) -> ConfirmationRequired:
    """The error for a question that stood open for too long."""
    return ConfirmationRequired(
        "The user did not answer in time; nothing was changed.",
        resolution_hint="Ask the user, and repeat the call when they are there to confirm it.",
        details={"asks": message},
    )


def refused_with_error(message: str) -> ConfirmationRequired:
    """The error for a question that the client answered with what cannot be read, or with an error.

    Some say with an error that their user said no.
    """
    return ConfirmationRequired(
        "The client gave no answer that can be read to the question; nothing was changed.",
        resolution_hint="The user may have refused. Do not try again unless they ask for it.",
        details={"asks": message},
    )


async def require_consent(call: CallContext, message: str) -> None:
    """Go on only if the person agrees to ``message``; raises ``ConfirmationRequired``."""
    if not await call.confirm(message):
        raise ConfirmationRequired(
            "The user declined; nothing was changed.",
            subcategory="declined",
            resolution_hint="Do not try again unless the user asks for it.",
        )
