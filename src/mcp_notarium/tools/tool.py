"""Describe a tool, what its handler gets for one call, and the prefix of its name.

The server makes one :class:`CallContext` for each call. Handlers read the index freely. Every change
happens inside ``app.library.writing()``: writes of one note are served one after another, and reads never
wait for the network behind a write.

Everything of ours that names a tool writes its plain name between backticks. The plain name is also the
policy's and the audit log's; a prefix exists for the client alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_notarium.storage.audit_log import Act, Steps
    from mcp_notarium.tools.question import Question


class CallContext(Protocol):
    """Represent one call: how to record a change, to ask the user, and to tell the client."""

    @property
    def client(self) -> str | None:
        """Return the program that calls, as versions name it; None: the user, at a terminal."""

    @property
    def act(self) -> Act:
        """Return what a change is recorded by before it is made."""

    @property
    def steps(self) -> Steps:
        """Return its saves, and those of the same call that was taken back."""

    def is_answered(self, *, irreversible: bool) -> bool:
        """Tell whether the call brings the answer to such a question, so that nobody is asked."""

    async def confirm(self, question: Question) -> bool:
        """Return whether the user agrees. Raises ``ConfirmationRequired`` if nobody can say."""

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the client; does nothing if the client did not ask for that."""


Handler = Callable[..., "Awaitable[BaseModel]"]


@dataclass(frozen=True, slots=True)
class Tool:
    """Describe one tool, ready to be listed and called."""

    name: str
    title: str
    description: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Handler
    other_answers: tuple[type[BaseModel], ...] = ()
    """Describe what some calls get instead."""
    read_only: bool = False
    """Tell a client, as the next three do, what it may rely on when it decides whether to ask its user."""
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    stands_for: str = ""
    """Name the tool of ours whose rules of the policy hold for this one; '' for one of ours."""
    action: str | None = None
    """Name the action of that tool."""
    protocol_errors: bool = False
    """Answer errors as those of the protocol. They have the next two codes, and end with ``failure_sign``."""
    wrong_code: int = -32602
    """Say that the caller can change it."""
    missing_code: int = -32602
    """Say that there is no such note."""
    without: frozenset[str] = frozenset()
    """Name the actions and arguments that clients are not shown."""
    failure_sign: str = ""
    family: str = "tool"
    """Name what the audit log puts before the tool's name."""

    rule: tuple[str, str | None] = field(init=False)
    """Say what the policy calls it: a tool of ours, and an action of that."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", (self.stands_for or self.name, self.action))


def instructions_without(instructions: str, gone: Collection[str]) -> str:
    """Return the instructions without the lines that name a tool that is ``gone``."""
    lines = instructions.split("\n")
    return "\n".join(line for line in lines if not any(f"`{name}`" in line for name in gone))


def form_without(form: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return an entry of ``tools/list`` without these actions and arguments, and what is said of them."""
    said = form["description"].split("; ")
    kept = [part for part in said if not any(f"`{name}`" in part for name in gone)]
    ending = "" if kept and kept[-1] == said[-1] else "."
    return form | {
        "description": "; ".join(kept) + ending,
        "inputSchema": schema_without(form["inputSchema"], gone),
    }


def schema_without(schema: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return a flat schema without these fields and values."""
    fields = {
        name: schema_without(field, gone)
        for name, field in schema.get("properties", {}).items()
        if name not in gone
    }
    values = [value for value in schema.get("enum", ()) if value not in gone]
    rest = {name: value for name, value in schema.items() if name != "properties"}
    return (
        rest
        | ({"properties": fields} if fields or not schema.get("properties", True) else {})
        | ({"enum": values} if "enum" in schema else {})
    )


class ToolNames:
    """Hold what a client calls the tools: a prefix before each plain name."""

    def __init__(self, prefix: str = "", names: Collection[str] = ()) -> None:
        self._prefix = prefix
        self._named = re.compile(f"`({'|'.join(names)})`") if prefix and names else None

    def shown(self, name: str) -> str:
        """Return the name that the client knows for a plain one."""
        return self._prefix + name

    def in_text(self, text: str) -> str:
        """Return a text of ours with the names that the client knows."""
        return text if self._named is None else self._named.sub(rf"`{self._prefix}\1`", text)

    def in_descriptions(self, node: Any) -> Any:
        """Return a JSON value of ours with these names in every ``description``."""
        if self._named is None:
            return node
        if isinstance(node, list):
            return [self.in_descriptions(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {
            key: self.in_text(value)
            if key == "description" and isinstance(value, str)
            else self.in_descriptions(value)
            for key, value in node.items()
        }
