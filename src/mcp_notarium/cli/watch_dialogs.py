"""Show one note over the screen of ``watch``, or ask yes or no there."""

from __future__ import annotations

import time
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Markdown, Static

from mcp_notarium.logs.redaction import one_line, several_lines

MOST_RENDERED_LINES: Final = 500
MOST_RENDERED: Final = 20_000
MOST_SHOWN: Final = 200_000
"""Lines and characters of a note that are rendered as Markdown, and that are shown."""
READ_SECONDS: Final = 0.5
"""A yes counts once the question has been shown for so long."""


class NoteView(ModalScreen[None]):
    """Show one note, its Markdown rendered. Links do not open: an assistant may have written them."""

    BINDINGS: ClassVar = [Binding("escape,q,s", "dismiss", "Back")]
    DEFAULT_CSS = """
    NoteView > VerticalScroll { background: $background; border: round $foreground; padding: 0 1; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Lay out the note."""
        with VerticalScroll() as scroll:
            scroll.border_title = Text(one_line(self._title))
            shown = several_lines(self._text)
            if len(shown) <= MOST_RENDERED and shown.count("\n") < MOST_RENDERED_LINES:
                yield Markdown(shown, open_links=False)
            else:  # a long text rendered would stop the screen for a minute
                yield Static(Text(shown[:MOST_SHOWN]))
                if len(shown) > MOST_SHOWN:
                    yield Static("… o: open all of it")
        yield Footer()


class Question(ModalScreen[bool]):
    """Ask yes or no; anything else than ``y`` is no. A ``y`` that was typed ahead is ignored."""

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]
    DEFAULT_CSS = """
    Question { align: center middle; }
    Question > Container { background: $background; border: round $foreground; padding: 0 1; width: 90%; max-width: 76; height: auto; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question
        self._asked_at = time.monotonic()

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Container():
            yield Static(Text(self._question))
        yield Footer()

    def action_answer(self, agrees: bool) -> None:  # noqa: FBT001 - textual passes it so
        """Close with the answer."""
        if agrees and time.monotonic() - self._asked_at < READ_SECONDS:
            self.notify("Read the question first.", markup=False)
            return
        self.dismiss(agrees)
