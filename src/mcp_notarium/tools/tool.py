"""Describe a tool, and what its handler gets for one call.

The server makes one :class:`CallContext` for each call. Handlers read the index freely. Every change
happens inside ``app.library.writing()``: writes of one note are served one after another, and reads never
wait for the network behind a write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from mcp_notarium.storage.audit_log import Act


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
