"""The time before the engine is there: what is known is done, everything else is kept.

Also decides when nothing is left to do, so that a copy that was started and dropped ends at once
without having opened anything.
"""

from __future__ import annotations

from mcp_notarium.protocol.events import Arrival, Stop
from mcp_notarium.protocol.inbox import MOST_BYTES, weight
from mcp_notarium.protocol.line_reader import EndOfInput
from mcp_notarium.protocol.static_replies import Due, Front
from mcp_notarium.protocol.stdio import write_all


class Greeting:
    """Feed it what arrives; afterwards ``held`` is what the engine has to see, in order."""

    def __init__(self, front: Front, outgoing: int) -> None:
        self.front = front
        self.held: list[Arrival] = []
        self._due: list[tuple[Due, int]] = []
        self._outgoing = outgoing
        self._gone = False
        self.begun = False
        self._bytes = 0

    def behind(self) -> bool:
        """Whether more is held than should be before anything is answered."""
        return self._bytes > MOST_BYTES

    @property
    def waiting(self) -> bool:
        """Something has come that cannot be answered here, or the client has gone."""
        return self._gone or bool(self.held or self._due)

    @property
    def left(self) -> bool:
        """The client has left, and the engine owes it nothing."""
        return self._gone or (bool(self.held) and isinstance(self.held[0], EndOfInput | Stop))

    @property
    def over(self) -> bool:
        """The client has left, and nothing is owed to it."""
        return self._gone or (self.left and not self._due)

    def take(self, arrival: Arrival) -> Due:
        """Keep one thing, or give what is due about it."""
        due = None
        if isinstance(arrival, bytes):
            due = self.front.receive(arrival)
        else:
            self.front.hold()
        if due is None:
            self.held.append(arrival)
            self._bytes += weight(arrival)
            return b""
        return due

    def answer(self, arrival: Arrival) -> None:
        """Take one thing while there is no event loop: write a reply at once, note the rest."""
        self.begun = True
        due = self.take(arrival)
        if not isinstance(due, bytes):
            self._due.append((due, weight(arrival)))
            self._bytes += weight(arrival)
        elif due:
            self._write(due)

    def hand_over(self) -> list[tuple[Due, int]]:
        """What is due of what came before there was an event loop, each with what it costs."""
        due, self._due = self._due, []
        self._bytes -= sum(size for _, size in due)
        return due

    def _write(self, reply: bytes) -> None:
        try:
            write_all(self._outgoing, reply)
        except OSError:
            self._gone = True
