"""A signal ends what waits on the terminal also when it comes just before the wait begins.

Python only notes a signal and acts on it between two steps of the program. A system call that has begun
is interrupted; one that begins after the note and before the next step is not, and the first Ctrl+C at
a prompt would be followed only once a line is typed. With other threads at work that is one in a
hundred.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_GRACE_SECONDS = 0.05
"""A signal that was noted so long ago and not acted on has come too early to interrupt the wait."""
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def hearing() -> Iterator[None]:
    """Inside, a signal with a handler of Python's is acted on within a moment, whatever is waited for.

    A thread learns of every signal noted, and interrupts the wait by another one, that means nothing,
    until the first has been acted on. Does nothing outside the main thread, or without POSIX signals.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    noted, note = os.pipe()
    os.set_blocking(note, False)  # what Python writes a signal's number to must never block
    acted = threading.Event()
    before = {number: signal.signal(number, does) for number, does in _telling(acted).items()}
    listener = threading.Thread(target=_interrupt_wait, args=(noted, acted), daemon=True)
    others = signal.set_wakeup_fd(note)
    listener.start()
    try:
        yield
    finally:
        acted.set()
        signal.set_wakeup_fd(others)
        os.close(note)  # what the thread reads has an end now
        listener.join()
        os.close(noted)
        for number, handler in before.items():
            signal.signal(number, handler)


def _telling(acted: threading.Event) -> dict[int, _Handler]:
    """The handlers of now, which say that they have begun, and that of the signal without meaning."""
    handlers: dict[int, _Handler] = {signal.SIGALRM: lambda _number, _frame: None}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = _first_tells(acted, handler)
    return handlers


def _first_tells(acted: threading.Event, handler: _Handler) -> _Handler:
    def handle(number: int, frame: FrameType | None) -> object:
        acted.set()
        return handler(number, frame)

    return handle


def _interrupt_wait(noted: int, acted: threading.Event) -> None:
    waits = threading.main_thread().ident
    if os.read(noted, 1) and waits is not None:
        while not acted.wait(_GRACE_SECONDS):
            signal.pthread_kill(waits, signal.SIGALRM)
