"""Puts one question at a time to foreign code, and waits for the answer so long and no longer.

A keychain may show a dialog that nobody sees, and its daemon may hang. A question that was given up
stays open in its thread, which does not outlive the process; while it is open no other is put,
because that one would only stand behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Answer = TypeVar("_Answer")


class Unanswered(Exception):
    """No answer came in time, or an earlier question is still open."""


class Asker:
    """Asks for several threads, one after the other."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._given_up: threading.Event | None = None

    def ask(self, question: Callable[[], _Answer], *, within: float) -> _Answer:
        """The answer; raises what the question raises. ``within`` in seconds.

        Raises ``Unanswered``.
        """
        with self._turn:
            if self._given_up is not None and not self._given_up.is_set():
                raise Unanswered
            return self._put(question, within)

    def _put(self, question: Callable[[], _Answer], within: float) -> _Answer:
        answers: list[_Answer] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                answers.append(question())
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                errors.append(error)
            finally:
                done.set()

        threading.Thread(target=work, name="keychain", daemon=True).start()
        if not done.wait(within):
            self._given_up = done
            raise Unanswered
        if errors:
            raise errors.pop()
        return answers.pop()
