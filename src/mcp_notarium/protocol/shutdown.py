"""The end of the process: one deadline for everything from the client's leaving to the exit.

Clients send SIGTERM two seconds after they have closed standard input. Whoever takes part in the
end asks how much is left for it; what cannot be asked (a disk that hangs, a look-up of a name that
does not return) is cut off. Nothing is lost by that: a write on its way is an intent in the cache,
and a transaction is stored whole or not at all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 1.5
"""From the client's leaving to the end of the process."""
ANSWERS: Final = 0.8
"""The part of it in which calls in hand may still be answered."""
CLOSING: Final = 0.9
"""The part after which nothing is waited for any more: sync and connections are closed, or not."""


class Ending:
    """How much time is left. Nothing counts before :meth:`begin`; one end begins once."""

    def __init__(
        self, seconds: float = SECONDS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began: float | None = None
        self._cut_off: Callable[[], None] | None = None

    def begin(self) -> None:
        """The client has left, or the system asks the process to end."""
        if self._began is not None:
            return
        self._began = self._clock()
        if self._cut_off is not None:
            timer = threading.Timer(self._seconds, self._cut_off)
            timer.daemon = True
            timer.start()

    def enforce(self, exit_code: Callable[[], int]) -> None:
        """At the deadline the process ends, whatever it is doing. Call it before :meth:`begin`."""
        self._cut_off = lambda: os._exit(exit_code())

    @property
    def begun(self) -> bool:
        """Whether the time runs."""
        return self._began is not None

    def for_answers(self) -> float:
        """Seconds that calls in hand may still take."""
        return self._left(ANSWERS)

    def for_closing(self) -> float:
        """Seconds until everything that is waited for must be closed."""
        return self._left(CLOSING)

    def _left(self, part: float) -> float:
        passed = 0.0 if self._began is None else self._clock() - self._began
        return max(0.0, part * self._seconds - passed)
