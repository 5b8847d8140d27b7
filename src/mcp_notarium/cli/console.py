"""Render for a person with rich, ask with questionary, and list every variable (``--print-config-vars``).

Messages and questions stand on stderr; ``terminal`` has data for programs, and asks for passwords. Questions raise
``ConfigError`` without a terminal, ``InvalidRequest`` without an answer, and ``KeyboardInterrupt`` for Ctrl+C. The list
of variables works with a wrong configuration too. Secrets appear as their length, never in part.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mcp_notarium import config, logs
from mcp_notarium.cli.terminal import (
    columns,
    forget_typed,
    name_account,
    print_data,
    require_terminal,
    wrap,
)
from mcp_notarium.config import Setting
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.logs.redaction import one_line

Report = Callable[[int, int | None], None]
"""Takes how many are done, and of how many; None: nobody knows yet."""

_HEADINGS = ("NAME", "VALUE", "FROM", "PURPOSE")
_HEIGHT = 25
_UNWRAPPED = 10_000
"""Columns of a line that is read by a program."""
_DIFF_HEAD = 2
_VALUE = re.compile(r"""(?:"(?:[^"\\]|\\.)*"(?P<colon>\s*:)?|'[^']*'|(?://|/\*|\#).*)""")
"""A text in JSON or TOML, or a comment."""
DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def console() -> Console:
    """Return the console of messages: standard error as it is now."""
    return _console(stderr=True, width=columns(sys.stderr))


def output() -> Console:
    """Return the console of data: standard output, with lines of any length if it is no terminal."""
    return _console(
        file=sys.stdout, width=columns(sys.stdout) if sys.stdout.isatty() else _UNWRAPPED
    )


def _console(**options: Any) -> Console:
    # Without a height rich takes every terminal of the kind `dumb` for 80 columns wide.
    return Console(height=_HEIGHT, highlight=False, emoji=False, markup=False, **options)


def show(shown: Iterable[RenderableType]) -> None:
    """Show data on standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines(shown)))


def lines(shown: Iterable[RenderableType]) -> list[str]:
    """Return the lines of data as standard output shows them."""
    out, found = output(), list[str]()
    for one in shown:
        with out.capture() as made:
            out.print(
                one, no_wrap=getattr(one, "no_wrap", None), overflow=getattr(one, "overflow", None)
            )
        found += [line.rstrip() for line in made.get().splitlines()]
    return found


def table(
    headings: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, least: int = 0
) -> Table:
    """Return a table whose cells are wrapped if it is too wide; the first column has ``least`` columns."""
    made = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold",
        show_header=any(headings),
    )  # fmt: skip
    for number, heading_ in enumerate(headings):
        made.add_column(heading_, overflow="fold", min_width=least if number == 0 else None)
    for row in rows:
        made.add_row(*row)
    return made


def pairs(rows: Iterable[tuple[str, str]]) -> Table:
    """Return labels with their values, wrapped in a column of their own."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for label, value in rows:
        made.add_row(label, name_account(value))
    return made


def hint(text: str) -> Table:
    """Return what to do, behind an arrow."""
    made = Table.grid(padding=(0, 1, 0, 0))
    made.add_row("→", Text(name_account(text), overflow="fold"))
    return made


def local_time(epoch: float, *, seconds: bool = False) -> str:
    """Return a time as clocks here show it; a time that no calendar has stays a number."""
    try:
        return (
            datetime.fromtimestamp(epoch, UTC)
            .astimezone()
            .isoformat(" ", "seconds" if seconds else "minutes")[: 19 if seconds else 16]
        )
    except (OverflowError, ValueError, OSError):
        return str(epoch)


def iso_time(epoch: float) -> str:
    """Return a time as JSON for scripts has it: ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="milliseconds")


def say(text: str = "", *, style: str = "") -> None:
    """Show a paragraph. ``style`` is one of rich."""
    out = console()
    for line in wrap(name_account(text), out.width):
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


def show_diff(before: str, after: str, *, name: str, ours: Collection[str]) -> None:
    """Show which lines change in a file of settings; of its values only those that are ``ours``.

    A line of somebody else changes, too, if it gets a comma, or holds the whole file: it may hold a secret.
    """

    def masked(found: re.Match[str]) -> str:
        text = found[0]
        return text if found["colon"] or text[1:-1].replace("\\\\", "\\") in ours else '"..."'

    compared = difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, f"{name} (new)", n=0, lineterm=""
    )
    out = console()
    for number, line in enumerate(compared):
        shown = line if number < _DIFF_HEAD else _VALUE.sub(masked, line)
        out.print(Text(f"  {shown}", style=DIFF_COLOURS.get(line[:1], "dim")), soft_wrap=True)


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
        began, first = time.monotonic(), -1

        def report(done: int, total: int | None) -> None:
            nonlocal began, first
            if first < 0:  # neither rate nor time left is about what was there before
                began, first = time.monotonic(), done
                bar.reset(task, completed=done)
            rate = (done - first) / max(time.monotonic() - began, 0.001)
            count = f"{done:,} of {total:,}" if total else f"{done:,}"
            bar.update(task, completed=done, total=total, count=f"{count}, {rate:,.0f} a second")

        yield report


def _marked(mark: str, colour: str, text: str) -> None:
    out = console()
    first, *rest = wrap(name_account(text[:1].upper() + text[1:]), out.width - len(mark) - 1)
    out.print(Text.assemble((mark, colour), f" {first}"), soft_wrap=True)
    for line in rest:
        out.print(f"{'':{len(mark)}} {line}", soft_wrap=True)


_BESIDE = 9
"""Columns of what stands before and behind a question."""


def choose(question: str, choices: Sequence[tuple[str, str]], *, default: str, option: str) -> str:
    """Ask for one of several answers, each a value and how it is shown. ``option`` gives the answer without a question."""
    asked = _require(option)
    shown = [asked.Choice(title, value=value) for value, title in choices]
    return str(_ask(asked.select, question, choices=shown, default=default))


def choose_some(question: str, choices: Sequence[tuple[str, str]], *, option: str) -> list[str]:
    """Ask for any number of answers; all are chosen at first."""
    asked = _require(option)
    shown = [asked.Choice(title, value=value, checked=True) for value, title in choices]
    hint = "(space: on or off)"  # no longer: lines of questions break within words
    return list(_ask(asked.checkbox, question, choices=shown, instruction=hint))


def ask_text(
    question: str,
    *,
    default: str,
    option: str,
    problem: Callable[[str], str | None],
    is_path: bool = False,
) -> str:
    """Ask for a line until ``problem`` returns none; what is wrong with one is shown below it.

    ``is_path``: Tab completes it, as in a shell.
    """
    asked = _require(option)
    completes = _completing_paths() if is_path else {}
    while True:
        # It is typed in a line of its own: next to the question a path would be broken within a word.
        typed = str(_ask(asked.text, question, below="\n ", default=default, **completes)).strip()
        if (wrong := problem(typed)) is None:
            return typed
        warn(wrong)
        default = typed


def _completing_paths() -> dict[str, Any]:
    from prompt_toolkit.shortcuts import CompleteStyle  # noqa: PLC0415 - slow, as questionary
    from questionary.prompts.path import GreatUXPathCompleter  # noqa: PLC0415 - the same

    return {
        "completer": GreatUXPathCompleter(expanduser=True),
        "complete_style": CompleteStyle.READLINE_LIKE,
        "complete_while_typing": False,
    }


def confirm(question: str, *, default: bool, option: str) -> bool:
    """Ask a yes-or-no question, whose answer ends with Enter: a key typed too early answers no other one."""
    asked = _require(option)
    from prompt_toolkit.input import create_input  # noqa: PLC0415 - slow, as questionary
    from prompt_toolkit.input.typeahead import clear_typeahead  # noqa: PLC0415 - the same

    read = create_input()
    clear_typeahead(read)  # what came behind the answer to the question before
    forget_typed()
    return bool(_ask(asked.confirm, question, input=read, default=default, auto_enter=False))


def _require(option: str) -> Any:
    require_terminal(f"Run the command in a terminal, or give `{option}`.")
    import questionary  # noqa: PLC0415 - slow, and only for those who are asked

    return questionary


def _ask(kind: Any, question: str, below: str = "", **options: Any) -> Any:
    from prompt_toolkit.output import create_output  # noqa: PLC0415 - the same

    # A question that is too wide would be broken within a word.
    question = "\n".join(wrap(question, console().width - _BESIDE)) + below
    try:
        return kind(question, output=create_output(stdout=sys.stderr), **options).unsafe_ask()
    except (EOFError, OSError):  # Ctrl+D, or the terminal is gone
        raise InvalidRequest(
            "no answer was given", resolution_hint="Run the command again and answer its questions."
        ) from None


def print_variables(args: argparse.Namespace) -> int:
    """Print the table (or JSON) to stdout and the warnings to stderr; exit code 0."""
    logs.protect(*config.secrets_here())  # a secret may be in a wrong variable, too
    inspected = config.inspect_here(env_file=args.env_file, account=args.account)
    settings = inspected.settings
    facts = [asdict(one) for one in settings]
    print_data(
        logs.scrub_for_client(facts),
        _rendered(settings),
        as_json=args.json,
    )
    problem = inspected.source_problem
    for note in [*([problem.message] if problem else []), *inspected.warnings]:
        sys.stderr.write(f"note: {logs.scrub_for_client(one_line(note))}\n")
    return 0


def _rendered(settings: tuple[Setting, ...]) -> list[RenderableType]:
    """Return a paragraph for each setting at a terminal, else a table with a line for each."""
    if not sys.stdout.isatty():
        rows = [(one.name, _value(one), one.origin, _about(one)) for one in settings]
        return [table(_HEADINGS, rows)]
    lines: list[RenderableType] = []
    for one in settings:
        name = Text.assemble((one.name, "bold"), " = ", _value(one), (f"  ({one.origin})", "dim"))
        lines += [name, Padding(Text(_about(one)), (0, 0, 0, 4))]
    return lines


def _value(one: Setting) -> str:
    return logs.scrub_for_client(one_line(one.value)) or "-"


def _about(one: Setting) -> str:
    problem = logs.scrub_for_client(one_line(one.problem)).removesuffix(one.purpose).rstrip()
    return f"! {problem} {one.purpose}" if problem else one.purpose
