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
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_GRACE_SECONDS = 0.05
"""A signal that was noted so long ago and not acted on has come too early to interrupt the wait."""
_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def hearing() -> Iterator[None]:
    """Inside, Ctrl+C, SIGTERM and SIGHUP are acted on within a moment, whatever is waited for.

    A thread learns of every signal noted, and interrupts the wait by another one, that means nothing,
    until the first has been acted on. Does nothing outside the main thread, or without POSIX signals.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    acted = threading.Event()
    handlers = _telling(acted)
    noted, note = os.pipe()
    os.set_blocking(note, False)  # what Python writes a signal's number to must never block
    listener = threading.Thread(
        target=_interrupt_wait, args=(noted, handlers.keys(), acted), daemon=True
    )
    with ExitStack() as undo:  # the last one first
        listener.start()
        undo.callback(os.close, noted)
        undo.callback(listener.join)
        undo.callback(os.close, note)  # what the thread reads has an end then
        undo.callback(acted.set)
        for number, handler in {**handlers, signal.SIGALRM: _mean_nothing}.items():
            undo.callback(_put_back, number, signal.getsignal(number), ours=handler)
            signal.signal(number, handler)
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(note)
        yield


def _put_back(
    number: int, before: signal.Handlers | _Handler | int | None, *, ours: _Handler
) -> None:
    """The handler from before, unless that of now is another one than ours: then that is to stay."""
    if signal.getsignal(number) is ours:
        signal.signal(number, before or signal.SIG_DFL)


def _telling(acted: threading.Event) -> dict[int, _Handler]:
    """The handlers of now, which say that they have begun."""
    handlers: dict[int, _Handler] = {}
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


def _mean_nothing(_number: int, _frame: FrameType | None) -> None:
    """Interrupting a system call is all it is for."""


def _interrupt_wait(noted: int, heard: Collection[int], acted: threading.Event) -> None:
    waits = threading.main_thread().ident
    while number := os.read(noted, 1):
        while waits is not None and number[0] in heard and not acted.wait(_GRACE_SECONDS):
            signal.pthread_kill(waits, signal.SIGALRM)
