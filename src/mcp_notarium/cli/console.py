"""Render for a person with rich, on stderr: wrapped at the terminal's width, coloured if it asks for colour.

``NO_COLOR`` and a terminal without colour are respected. Data for programs goes to stdout by ``terminal.print_data``.
"""

from __future__ import annotations

import difflib
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

Report = Callable[[int, int | None], None]
"""Takes how many are done, and of how many; None: nobody knows yet."""

_NARROWEST = 20
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def console() -> Console:
    """Return the console of messages: standard error as it is now."""
    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def say(text: str = "", *, style: str = "") -> None:
    """Show a paragraph. ``style`` is one of rich."""
    out = console()
    for line in _wrap(text, out.width):
        out.print(line, style=style or None, soft_wrap=True)


def heading(text: str) -> None:
    """Show the title of a step, with an empty line above."""
    console().print(f"\n{text}", style="bold")


def done(text: str) -> None:
    """Show that something is done or is so."""
    _marked("ok", "green", text)


def warn(text: str) -> None:
    """Show what did not work, or what the user should know."""
    _marked("!!", "yellow", text)


def show_diff(before: str, after: str, *, name: str) -> None:
    """Show what changes in a text, with one line around each change."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name} (new)", n=1, lineterm=""
    )
    out = console()
    for line in lines:
        out.print(Text(f"  {line}", style=_COLOURS.get(line[:1], "dim")), soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar with the time left while the block runs, at a terminal."""
    out = console()
    if not out.is_terminal:
        yield lambda _done, _total: None
        return
    columns = (
        SpinnerColumn(), TextColumn(what), BarColumn(bar_width=20), TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(what, total=None, count="")
        began = time.monotonic()

        def report(done: int, total: int | None) -> None:
            rate = done / (time.monotonic() - began)
            count = f"{done:,} of {total:,}" if total else f"{done:,}"
            bar.update(task, completed=done, total=total, count=f"{count}, {rate:,.0f} a second")

        yield report


def _marked(mark: str, colour: str, text: str) -> None:
    """Show a mark, and the paragraph to the right of it."""
    out = console()
    first, *rest = _wrap(text[:1].upper() + text[1:], out.width - len(mark) - 1)
    out.print(Text.assemble((mark, colour), f" {first}"), soft_wrap=True)
    for line in rest:
        out.print(f"{'':{len(mark)}} {line}", soft_wrap=True)


def _wrap(text: str, width: int) -> list[str]:
    """Break a text between words only: no path or command is cut."""
    return textwrap.wrap(
        text, max(width, _NARROWEST), break_long_words=False, break_on_hyphens=False
    ) or [""]
