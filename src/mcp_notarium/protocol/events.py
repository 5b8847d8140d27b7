"""What can arrive at the main thread, from the client, the system, the loader and direct readings."""

from __future__ import annotations

from mcp_notarium.protocol.line_reader import Item


class Stop:
    """A signal asks the process to end."""


class Loaded:
    """A part of the program has been imported; ``problem`` is why it could not be."""

    __slots__ = ("part", "problem")

    def __init__(self, part: str, problem: BaseException | None = None) -> None:
        self.part = part
        self.problem = problem

    def demand(self) -> None:
        """Raises the problem, if there is one."""
        if self.problem is not None:
            raise self.problem


class Answered:
    """A call of this tool has been answered, or called off, without the engine."""

    __slots__ = ("request_id", "tool")

    def __init__(self, request_id: int | str, tool: str) -> None:
        self.request_id = request_id
        self.tool = tool


Arrival = Item | Stop
Event = Arrival | Loaded | Answered
