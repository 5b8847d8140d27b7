"""Where everything that happens to the connection arrives, in order: lines, signals, imports done.

Threads and signal handlers put things in; the main thread takes them out, first by waiting, later
from an event loop that is woken up. Nothing is lost or overtaken when it changes from one to the
other.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from mcp_notarium.protocol.events import Event

MOST_BYTES = 16 * 1024 * 1024
"""Lines that may lie here, each counted with what it costs beside its bytes."""
_EACH = 1024


class Inbox:
    """A queue with a bell. Putting is allowed from any thread and from signal handlers."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._ring: Callable[[], object] | None = None
        self._came = 0  # written by the thread that puts lines, only
        self._went = 0  # written by the thread that takes them, only
        self.behind: Callable[[], bool] = lambda: False
        """Whether those who take things out have too much in hand already."""

    def crowded(self) -> bool:
        """Whether no more lines should come for the moment."""
        return self._came - self._went > MOST_BYTES or self.behind()

    def put(self, item: Event) -> None:
        """Add an item and ring the bell, if there is one."""
        if cost := weight(item):  # what others put weighs nothing, and must not undo a line's count
            self._came += cost
        self._items.put(item)
        if self._ring is not None:
            try:
                self._ring()
            except RuntimeError:  # the loop has ended: nobody listens any more
                self._ring = None

    def wait(self, within: float | None = None) -> Event | None:
        """The next item; blocks until there is one, and for so many seconds at most: None then.

        Signal handlers run meanwhile.
        """
        try:
            item = self._items.get(timeout=within)
        except queue.Empty:
            return None
        self._went += weight(item)
        return item

    def taken(self) -> list[Event]:
        """Everything that is there now."""
        items = []
        while True:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                self._went += sum(map(weight, items))
                return items

    def ring(self, bell: Callable[[], object]) -> None:
        """From now on call ``bell`` after each put; called once at once, for what is there already."""
        self._ring = bell
        bell()


def weight(item: object) -> int:
    """What a line costs in memory, about."""
    return len(item) + _EACH if isinstance(item, bytes) else 0
