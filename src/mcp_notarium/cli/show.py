"""Show a note: rendered and in a pager at a terminal, and as it is to a program.

The notes are first brought in step with the store, if that can be reached. What the policy hides stays hidden. Rendering leaves out no
words: nobody can hide a line from its owner behind HTML, a comment, a title, or a sign that steers the terminal.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import RenderableType
from rich.markdown import Heading, Markdown
from rich.text import Text

from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.history import find_named, note_title, open_synced, person_config, record_read
from mcp_notarium.cli.terminal import print_data
from mcp_notarium.domain.note import Note
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.logs.redaction import one_line, several_lines
from mcp_notarium.markup.front_block import text_start
from mcp_notarium.system import SYSTEM

_BELOW = 1
"""Rows of a terminal that a prompt takes."""
_PAGER = "less -R"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("note", nargs="+", metavar="NOTE", help="its id, or words of it alone")
    parser.add_argument(
        "--raw", action="store_true", help="print the text as it is, byte by byte, and nothing else"
    )
    parser.epilog = "A long note opens in PAGER (`less -R`); PAGER=cat shows it at once."
    command_context.options("--json")(parser)


async def _show(args: argparse.Namespace) -> int:
    if args.raw and args.json:
        raise InvalidRequest(
            "`--raw` and `--json` exclude each other", resolution_hint="Give one of them."
        )
    async with open_synced(person_config(args)) as app:
        note = await find_named(app, " ".join(args.note))
        record_read(app, "cli.show", note.id)
    if args.raw:
        print_raw(note.text)
    elif args.json or not sys.stdout.isatty():
        print_data(_facts(note), note.text.removesuffix("\n"), as_json=args.json)
    else:
        page(_rendered(note))
    return 0


def _facts(note: Note) -> dict[str, Any]:
    return {
        "id": note.id,
        "title": note_title(note.title, note.text),
        "tags": list(note.tags),
        "created_at": datetime.fromtimestamp(note.created_at, UTC).isoformat(),
        "modified_at": datetime.fromtimestamp(note.modified_at, UTC).isoformat(),
        "trash": note.trash,
        "text": note.text,
    }


def print_raw(text: str) -> None:
    """Print the exact bytes; a terminal is not steered by them."""
    if sys.stdout.isatty():  # defence: raw-text-steers-no-terminal =False
        text = several_lines(text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _rendered(note: Note) -> list[RenderableType]:
    tags = "".join(f"  #{one_line(tag)}" for tag in note.tags) + ("  (trash)" if note.trash else "")
    about = f"{console.local_time(note.modified_at)}  {one_line(note.id)}"
    head: list[RenderableType] = [Text(one_line(note.title), style="bold")] if note.title else []
    start = text_start(note.text)
    block = several_lines(note.text[:start]).rstrip("\n")
    above: list[RenderableType] = [Text(block, style="dim"), ""] if block else []
    text = several_lines(note.text[start:])
    return [*head, Text(about, style="dim").append(tags, style="cyan"), "", *above, _Note(text)]


class _Heading(Heading):
    """Show a heading at the left, for the title stands there, too."""

    def __rich_console__(self, _console: Any, _options: Any) -> Any:
        self.text.justify = "left"
        yield Text("") if self.tag == "h2" else ""
        yield self.text


class _Note(Markdown):
    """Render Markdown as a note has it: lines stay lines, and what Markdown would leave out is shown, too."""

    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, code_theme="ansi_dark")
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        # defence: markdown-hides-nothing
        parser.disable(["reference", "entity"])
        self.parsed = parser.parse(text)
        for token in self.parsed:
            if " " in token.info.strip():
                token.content = f"{several_lines(token.info.strip())}\n{token.content}"
            for child in token.children or ():
                _show_whole(child)


def _show_whole(token: Token) -> None:
    """Let a part of a line show what its rendering would leave out."""
    title = token.attrs.pop("title", "")
    behind = f' "{several_lines(str(title))}"' if title else ""
    if token.type == "softbreak":
        token.type = "hardbreak"
    elif token.type == "link_open":
        token.attrs["href"] = f"{token.attrs.get('href', '')}{behind}"
    elif token.type == "image":
        token.type = "text"
        token.content = f"![{token.content}]({token.attrs.get('src', '')}{behind})"


def page(shown: list[RenderableType]) -> None:
    """Show it at the terminal, in a pager if it has more lines than the screen."""
    lines = console.lines(shown)
    command = _pager()
    if command and len(lines) > _rows() - _BELOW and sys.stdin.isatty():
        with suppress(OSError):
            _run_pager(command, "".join(f"{line}\n" for line in lines))
            return
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _pager() -> list[str]:
    """Return the command of the pager; nothing if the user or the terminal wants none.

    Windows sets no TERM and has no pager that reads UTF-8, so there it has to be named.
    """
    terminal, named = os.environ.get("TERM", ""), os.environ.get("PAGER")
    if terminal == "dumb" or not (terminal or named):
        return []
    with suppress(ValueError):
        words = SYSTEM.split_command(_PAGER if named is None else named)
        found = SYSTEM.find_program(words[0]) if words and words[0] != "cat" else None
        return [found, *words[1:]] if found else []
    return []


def _rows() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).lines
    return 0


def _run_pager(command: list[str], text: str) -> None:
    environ = {"LESS": "-R", **os.environ}  # for `less` alone, which would show colours as signs
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)  # noqa: S603 - the user's own
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl+C is the pager's
    try:
        with suppress(BrokenPipeError):  # it was left before the end
            process.communicate(text.encode(errors="replace"))
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


COMMANDS = {"show": (_add_arguments, _show)}
