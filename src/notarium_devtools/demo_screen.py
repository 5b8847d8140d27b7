"""Print what the demo shows, and count whether every claim held."""

from __future__ import annotations

import sys
import textwrap
import time

_WIDTH = 96


class Screen:
    """Print what the demo shows, and count the claims that held."""

    def __init__(self) -> None:
        self._steps = 0
        self._failed = 0
        self._checks = 0
        self._started = time.perf_counter()

    def title(self, text: str) -> None:
        """Print the title."""
        self._line(f"\n{text}\n{'=' * len(text)}")

    def step(self, text: str) -> None:
        """Print the heading of a step."""
        self._steps += 1
        self._line(f"\n{self._steps}. {text}")

    def say(self, text: str) -> None:
        """Print one remark."""
        self._line(textwrap.fill(text, _WIDTH, initial_indent="   ", subsequent_indent="   "))

    def quote(self, text: str) -> None:
        """Print some lines of a note, as they are."""
        for line in text.splitlines():
            self._line(f"   │ {line[: _WIDTH - 5]}")

    def check(self, true: bool, claim: str) -> None:  # noqa: FBT001 - reads as a sentence
        """Print a claim, marked as kept or broken."""
        self._checks += 1
        self._failed += not true
        self._line(f"   {'✓' if true else '✗ NOT TRUE:'} {claim}")

    def close(self) -> int:
        """Print the last line and return the exit code."""
        took = time.perf_counter() - self._started
        kept = self._checks - self._failed
        self._line(f"\n{kept} of {self._checks} claims kept, in {took:.0f} s.\n")
        return 1 if self._failed else 0

    def _line(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
