"""Show a person, in a terminal of any width, what assistants do now and what waits for a word of theirs.

One list: what waits, then the acts of the day, newest first. The chosen line is explained below it, or to its right on
a wide terminal. Every text that is not ours is shown as plain characters: nothing in it is markup or moves the cursor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App as Screen
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.css.query import NoMatches
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Markdown, OptionList, Static
from textual.widgets.option_list import Option

from mcp_notarium.cli import approve, console
from mcp_notarium.cli.activity_feed import ActivityFeed, SeenAct
from mcp_notarium.cli.watch import WatchSource
from mcp_notarium.errors import CacheDamaged, NotariumError
from mcp_notarium.logs.redaction import one_line, several_lines
from mcp_notarium.report.activity import Result
from mcp_notarium.report.words import counted
from mcp_notarium.storage.approval_table import Approval

POLL_SECONDS: Final = 0.5
MOST_ACTS: Final = 500
MOST_LINES: Final = 500
"""Lines of a change that are shown; `approve` shows all."""
SEEN_SECONDS: Final = 1.0
"""A question cannot be agreed to before it has been shown for so long: the key may be meant for the one before."""
_WIDE: Final = 100
_WAITS: Final = "waits:"
_ACT: Final = "act:"
_STYLES: Final = {
    Result.READ: "",
    Result.CHANGED: "green",
    Result.REFUSED: "yellow",
    Result.FAILED: "red",
    Result.UNSURE: "red",
}


MOST_RENDERED_LINES: Final = 500
MOST_RENDERED: Final = 20_000
MOST_SHOWN: Final = 200_000
"""Lines and characters of a note that are rendered as Markdown, and that are shown."""
READ_SECONDS: Final = 0.5
"""A yes counts once the question has been shown for so long."""


class Words(Input):
    """Take the words that acts must have."""

    BINDINGS: ClassVar = [Binding("escape", "app.all", "All acts")]


@dataclass(slots=True)
class _Shown:
    acts: dict[int, SeenAct]
    waiting: dict[str, Approval]


class WatchScreen(Screen[str]):
    """Show the screen of ``watch`` over a :class:`WatchSource`. It ends with the id of a note to edit, or without one."""

    TITLE = "mcp-notarium watch"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012 - of the base class
    BINDINGS: ClassVar = [
        Binding("y", "decide(True)", "Yes"),
        Binding("n", "decide(False)", "No"),
        Binding("u", "undo", "Undo"),
        Binding("s", "show", "Show"),
        Binding("o", "open", "Open"),
        Binding("space", "more", "More", show=False),
        Binding("slash", "search", "Search"),
        Binding("q", "quit", "Quit"),
    ]
    CSS = """
    Screen { layout: vertical; }
    #day { height: auto; text-style: bold; padding: 0 1; }
    #main { height: 1fr; }
    OptionList { height: 1fr; border: none; padding: 0 1; }
    #about { height: 50%; border-top: solid $foreground; padding: 0 1; }
    .-wide #main { layout: horizontal; }
    .-wide OptionList { width: 3fr; }
    .-wide #about { width: 2fr; height: 1fr; border-top: none; border-left: solid $foreground; }
    #words { display: none; height: 1; border: none; padding: 0 1; }
    #words.-shown { display: block; }
    """

    def __init__(self, source: WatchSource, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the colours of the terminal, light or dark
        self._source, self._clock = source, clock
        self._feed: ActivityFeed = source.feed
        self._shown = _Shown({}, {})
        self._words = ""
        self._failed = ""
        self.broken: CacheDamaged | None = None
        """Error that has ended the screen: the database can be used no more, or another one is in its place."""
        self._head = ""
        self._left_out = 0
        self._minutes: dict[str, int] = {}
        self._told, self._told_at = "", 0.0

    def compose(self) -> ComposeResult:
        """Lay out the counts, the list, and what the chosen line is about."""
        yield Static(id="day")
        with Container(id="main"):
            yield OptionList(id="acts")
            with VerticalScroll(id="about", can_focus=False):
                yield Static(id="facts")
        yield Words(placeholder="words of a client, an act or a title", id="words")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.look()
        self.query_one(OptionList).focus()
        self.set_interval(POLL_SECONDS, self.look)

    def _fatal_error(self) -> None:
        """End without the library's traceback: it shows variables, and so texts of notes."""
        self._close_messages_no_wait()

    # What there is.

    def look(self) -> None:
        """Show what came since the last look."""
        try:
            waiting = {one.id: one for one in self._source.waiting()}
            self._left_out = self._source.left_out()
            came = self._feed.poll()  # the last of them: it tells an act once
            self._failed = ""
        except CacheDamaged as error:  # defence: watch-ends-with-its-database
            self.broken = error
            self.exit()
            return
        except NotariumError as error:
            came, waiting = [], {}
            self._failed = error.message
        for act in came:
            self._shown.acts[act.number] = act
        for number in sorted(self._shown.acts)[:-MOST_ACTS]:
            del self._shown.acts[number]
        news = {*waiting} - {*self._shown.waiting}
        minutes = {one.id: self._minutes_left(one) for one in waiting.values()}
        if came or minutes != self._minutes:
            self._shown.waiting, self._minutes = waiting, minutes
            self._list(first=bool(news) and not isinstance(self._chosen(), Approval))
        if news:
            self.bell()
        self._say_day()

    def _list(self, *, first: bool = False) -> None:
        acts = self.query_one(OptionList)
        chosen = self._chosen_id()
        waiting = [Option(self._waiting_line(one), f"{_WAITS}{one.id}") for one in self._waiting()]
        found = [
            one for _, one in sorted(self._shown.acts.items(), reverse=True) if self._fits(one)
        ]
        at_end = acts.scroll_offset
        acts.clear_options()
        acts.add_options(
            [*waiting, *(Option(_act_line(one), f"{_ACT}{one.number}") for one in found)]
        )
        ids = [one.id for one in acts.options]
        if ids:
            acts.highlighted = 0 if first or chosen not in ids else ids.index(chosen)
        if chosen in ids and not first:
            acts.scroll_to(y=at_end.y, animate=False)
        self._tell()

    def _waiting(self) -> list[Approval]:
        return list(self._shown.waiting.values())

    def _fits(self, act: SeenAct) -> bool:
        said = f"{act.client} {act.profile} {act.act} {act.does} {act.about} {act.ended}".casefold()
        return all(word in said for word in self._words.casefold().split())

    def _waiting_line(self, one: Approval) -> Text:
        who = f"{one.client} ({one.profile})" if one.profile else one.client
        line = Text(f"WAITS FOR YOU  {one_line(who)}", style="bold reverse")
        asked = f"\n  {one_line(one.question)}  ({self._minutes_left(one)} min)"
        return line.append(asked, style="not reverse not bold")

    def _minutes_left(self, one: Approval) -> int:
        return max(0, round((one.expires_at - self._clock()) / 60))

    def _say_day(self) -> None:
        counts = self._feed.counts
        said = [f"{count:,} {result.value}" for result, count in sorted(counts.items())]
        said = [f"today: {', '.join(said) or 'nothing yet'}"]
        if self._shown.waiting:
            said.append(f"{counted(len(self._shown.waiting), 'question')} for you")
        if self._left_out:
            said.append(f"{self._left_out:,} more could not be asked")
        if self._words:
            said.append(f"with “{one_line(self._words)}”")
        if self._failed:
            said.append(one_line(self._failed))
        head = " · ".join([self._source.account, *said])
        if head != self._head:
            self._head = head
            self.query_one("#day", Static).update(Text(head))

    def on_option_list_option_highlighted(self, _event: OptionList.OptionHighlighted) -> None:
        """Tell more of the chosen line."""
        self._tell()

    def _tell(self) -> None:
        one = self._chosen()
        if self._chosen_id() != self._told:
            self._told, self._told_at = self._chosen_id(), time.monotonic()
        elif isinstance(one, Approval):
            return  # what stands there stays where the person reads it
        about: RenderableType
        if isinstance(one, Approval):
            keys = Text("y: yes, once    n: no    space: more of this\n", style="bold")
            changes = approve.signed_changes(one, most=MOST_LINES)
            about = Group(Text(one_line(one.question)), keys, *changes)
        elif one is None:
            about = Text("Nothing is on record for today.")
        else:
            about = _act_facts(one)
        try:
            self.query_one("#facts", Static).update(about)
            self.query_one("#about", VerticalScroll).scroll_home(animate=False)
        except NoMatches:  # another screen is on top
            return

    def _chosen_id(self) -> str:
        acts = self.query_one(OptionList)
        at = acts.highlighted
        return "" if at is None else acts.get_option_at_index(at).id or ""

    def _chosen(self) -> Approval | SeenAct | None:
        kind, _, rest = self._chosen_id().partition(":")
        if f"{kind}:" == _WAITS:
            return self._shown.waiting.get(rest)
        return self._shown.acts.get(int(rest)) if rest else None

    # What keys do.

    def action_decide(self, agrees: bool) -> None:  # noqa: FBT001 - textual passes it so
        """Answer the chosen question."""
        one = self._chosen()
        if not isinstance(one, Approval):
            self.notify("Choose a line that waits for you.", markup=False)
            return
        # defence: approval-is-seen =False
        if agrees and time.monotonic() - self._told_at < SEEN_SECONDS:
            self.notify("This question has just come: read it first.", markup=False)
            return
        try:
            self.notify(self._source.decide(one, agrees=agrees), markup=False)
        except NotariumError as error:
            self._tell_error(error)
        self.look()

    def action_undo(self) -> None:
        """Take back the last change of the chosen line's note, after a question."""
        note_id = self._note()
        if note_id:
            self.run_worker(self._undo(note_id), exclusive=True)

    async def _undo(self, note_id: str) -> None:
        try:
            title = one_line(self._source.read(note_id)[0])
            question = f"Take back the last change that was saved from here to “{title}”?"
            if await self.push_screen_wait(Question(question)):
                self.notify(one_line(await self._source.undo(note_id)), markup=False)
        except NotariumError as error:
            self._tell_error(error)

    def action_show(self) -> None:
        """Show the note of the chosen line."""
        note_id = self._note()
        if note_id:
            self.push_screen(NoteView(*self._source.read(note_id)), self._see_again)

    def _see_again(self, _nothing: None) -> None:
        self._told_at = time.monotonic()  # another question may have come behind the note

    def action_open(self) -> None:
        """Leave the screen, so that the person's editor opens the note of the chosen line."""
        note_id = self._note()
        if note_id:
            self.exit(note_id)

    def action_more(self) -> None:
        """Show the next part of what the chosen line is about; behind its end the first one again."""
        about = self.query_one("#about", VerticalScroll)
        if about.scroll_offset.y >= about.max_scroll_y:
            about.scroll_home(animate=False)
        else:
            about.scroll_page_down(animate=False)

    def action_search(self) -> None:
        """Ask for the words that acts must have."""
        words = self.query_one("#words", Input)
        words.add_class("-shown")
        words.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only acts with these words."""
        self._words = event.value
        self._list(first=True)
        self._say_day()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Go back to the list, with these words."""
        self._leave_search()

    def action_all(self) -> None:
        """Show all acts again."""
        self.query_one("#words", Input).value = ""
        self._leave_search()

    def _leave_search(self) -> None:
        self.query_one("#words", Input).remove_class("-shown")
        self.query_one(OptionList).focus()

    def _note(self) -> str:
        """Return the id of the one note that the chosen line is about; '' after saying what is in the way."""
        try:
            found = self._find_notes()
        except NotariumError as error:
            self._tell_error(error)
            return ""
        if len(found) == 1:
            return found[0]
        several = "This line is about several notes." if found else "There is no such note here."
        self.notify(several, markup=False)
        return ""

    def _find_notes(self) -> list[str]:
        one = self._chosen()
        notes = (one.note_id,) if isinstance(one, Approval) else (one.notes if one else ())
        return [note for note in notes if note and self._source.read(note)[0]]

    def _tell_error(self, error: NotariumError) -> None:
        said = f"{error.message} {error.person_hint or ''}"
        self.notify(one_line(said), severity="error", markup=False)


def _act_line(act: SeenAct) -> Text:
    clock = console.local_time(act.at, seconds=True)[11:]
    who = f"{act.client} ({act.profile})" if act.profile else act.client
    line = Text(f"{clock}  {who}  ").append(act.does, style="bold")
    about = "  ".join(filter(None, [act.about, act.changed]))
    style = _STYLES[act.result] if act.result is not None else ""
    if about:
        line.append(f"\n  {about}")
    if act.ended:
        line.append(f"\n  {act.ended}", style=style)
    return line


def _act_facts(act: SeenAct) -> Text:
    about = Text(f"{console.local_time(act.at, seconds=True)}  {act.does}\n", style="bold")
    rows = {
        "client": act.client,
        "profile": act.profile,
        "tool": act.act,
        "note": act.about,
        "id": ", ".join(map(one_line, act.notes[:3])),
        "changed": act.changed,
        "result": act.ended or ("" if act.result is None else act.result.value),
    }
    plain = Text("\n".join(f"{name:<8} {value}" for name, value in rows.items() if value))
    return about.append(plain)


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
