"""The time before the engine is there: static questions are answered, everything else is kept.

Also decides when nothing is left to do, so that a copy that was started and dropped ends at once
without having opened anything.
"""

from __future__ import annotations

from mcp_notarium.server.arrivals import Arrival, Stop
from mcp_notarium.server.fds import write_all
from mcp_notarium.server.front import Front
from mcp_notarium.server.lines import EndOfInput


class Greeting:
    """Feed it what arrives; afterwards ``held`` is what the engine has to see, in order."""

    def __init__(self, front: Front, outgoing: int) -> None:
        self.front = front
        self.held: list[Arrival] = []
        self._outgoing = outgoing
        self._gone = False

    @property
    def over(self) -> bool:
        """The client has left, and nothing is owed to it."""
        return self._gone or (bool(self.held) and isinstance(self.held[0], EndOfInput | Stop))

    def take(self, arrival: Arrival) -> None:
        """Answer or keep one thing."""
        reply = None
        if isinstance(arrival, bytes):
            reply = self.front.receive(arrival)
        else:
            self.front.hold()
        if reply is None:
            self.held.append(arrival)
        elif reply:
            self._write(reply)

    def _write(self, reply: bytes) -> None:
        try:
            write_all(self._outgoing, reply)
        except OSError:
            self._gone = True
