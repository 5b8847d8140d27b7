"""Find the headings of a Markdown text. Pure.

Headings are those of CommonMark with tables, as ``markdown-it`` reads them, outside lists and quotes; and the first line of
a list item in the form ``- # words``, at any depth, as outliners write it. Front matter has none, nor has a comment between
two lines that begin with ``%%``.

One pass looks at lines that can begin a block only. ``markdown-it`` reads the few lines in question if a line alone
does not tell whether it continues the paragraph above.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from mcp_notarium.domain.lines import LF
from mcp_notarium.markup.front_block import text_start

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MOST_ASKED, _MOST_READ = 500, 500_000
"""Most questions to the parser about one text, and most characters in them: that takes a second at most."""
_LARGEST_ITEM = 100_000
"""Characters of an item in which further headings are looked for: that takes half a second at most."""

_LINE = re.compile(
    r"^(?![\r\n])(?: {0,3}(?=[#`~>*+_<=-]|%%|\d{1,9}[.)](?:[ \t\r\n]|\Z))|[ \t]++(?=- #))",
    re.MULTILINE,
)
"""A line that may begin a block, or a heading within an item. All others are text, blank or indented; that nothing is in it is seen three times sooner."""
_HEADING = re.compile(r"(?:- )?(#{1,6})(?=[ \t\r\n]|\Z)")
_FENCE = re.compile(r"(`{3,})(?=[^`\n]*(?:\n|\Z))|(~{3,})")
_BREAK = re.compile(r"([-*_])[ \t]*+(?:\1[ \t]*+){2,}\r?$", re.MULTILINE)
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*\r?$", re.MULTILINE)
_ITEM = re.compile(r"([-+*]|(\d{1,9})[.)])(?=([ \t]+|(?=\r?$))(\r?$)?)", re.MULTILINE)
_QUOTE = re.compile(r"(?: {0,3}>[^\n]*(?:\n|\Z))++")
_BLANK = re.compile(r"^[ \t]*\r?$", re.MULTILINE)
_NESTED = re.compile(r"^[ \t]+- #{1,6}(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NO_TEXT = re.compile(r"^ ?(?:[-+*][ \t]+\S|#{1,6}[ \t])|^[ \t]*\r?$", re.MULTILINE)
"""A line that carries on no paragraph of an item above it."""
_COMMENT = "%%"
_LISTS = ("bullet_list_open", "ordered_list_open")
_TAB = 4
_MOST_SPACES = 4
"""Blanks behind a list marker; more of them begin code."""


class Heading(NamedTuple):
    """Hold a heading: its line, and the first line below it. A text may have a million of them."""

    level: int
    line: int
    body: int
    words: str
    item_end: int = 0
    """The first line below the item that it is the first line of; 0: it is in none."""
    outermost: int = 0
    """First line of the outermost item around it."""


class HeadingReader:
    """Read the headings of one text.

    ``_done``: up to where lines have been looked at. ``_para``: where the paragraph begins that is open there.
    ``_unclear``: where the lines begin that tell whether one is; only one of the two is set. ``_offset``: these are an
    item, whose further lines are indented so far. ``_of_item``: which of the headings is the first line of the item that
    was passed last.
    """

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._done = text_start(text) - (len(text) - len(self._text)) if text_start(text) else 0
        self._para: int | None = None
        self._unclear: int | None = None
        self._offset = 0
        self._found: list[Heading] = []
        self._of_item: int | None = None
        self._counted, self._line = 0, 1
        self._asked = self._read = 0
        self._leaves: dict[str, Callable[[int, int, int], int]] = {
            "#": self._end_of_heading,
            **dict.fromkeys("-*_", self._end_of_break),
            **dict.fromkeys("`~", self._end_of_fence),
            "%": self._end_of_comment,
            "<": self._end_of_html,
        }

    def read(self, looks: int | None = None) -> list[Heading]:
        """Return the headings, in order; ``looks``: of so many lines that may begin a block, None: of all."""
        at = self._done
        for _ in range(looks) if looks else repeat(None):
            if (line := _LINE.search(self._text, at)) is None:
                break
            at = self._goes_on(line.start()) if self._offset else 0
            if not at and _indent(self._text, line.start()) >= _TAB:
                at = self._below(line.end())  # text, or code
            elif not at:
                self._pass_text(line.start())
                at = self._look(line.start(), line.end())
        return self._found

    def _goes_on(self, at: int) -> int:
        """Pass the further lines of an item behind text that carries on its paragraph; 0: it has none."""
        text, start = self._text, self._unclear
        blank = _BLANK.search(text, self._done, at)
        if blank:
            at = _next_words(text, blank.start())
        if start is None or _indent(text, at) < self._offset:
            return 0
        last = self._ask(start, self._below(at))
        if (
            last is None
            or last.type not in _LISTS
            or self._place(start, (last.map or [0])[0]) == at
        ):
            return 0
        return self._pass_item(start, at, self._offset)

    def _pass_text(self, at: int) -> None:
        """Pass the lines up to ``at``: text, blank or indented ones, of which only the last block counts."""
        text, start = self._text, at
        while start > self._done:
            begin = text.rfind(LF, self._done, start - 1) + 1 or self._done
            if not text[begin:start].strip(" \t\r\n"):
                self._para, self._unclear, self._offset = None, None, 0
                break
            start = begin
        self._done = at
        if self._para is None and self._unclear is None:
            while start < at and _indent(text, start) >= _TAB:
                start = text.find(LF, start) + 1 or at
            if start < at:
                self._open(start, at)
        elif self._para is not None and text.find("|", start, at) >= 0:
            self._unclear, self._para = self._para, None

    def _open(self, start: int, end: int) -> None:
        """Begin a paragraph, or what may be one: a table, or the definition of a link."""
        text = self._text
        told = text.find("|", start, end) < 0 and not text[start : start + 4].lstrip().startswith(
            "["
        )
        self._para, self._unclear = (start, None) if told else (None, start)
        self._offset = 0

    def _look(self, at: int, words: int) -> int:
        """Look at the line of ``at``, whose first word begins at ``words``; return where to go on."""
        text, first = self._text, self._text[words]
        below = self._below(words)
        if first in "=-" and _UNDERLINE.match(text, words):
            last = self._find_underlined(at, words, below)
            if last in ("heading_open", "hr"):
                return self._close(below)
            if last and not _ITEM.match(text, words):
                return below
        if first == ">":
            return self._quote(at)
        if (leaf := self._leaves.get(first)) and (end := leaf(at, words, below)):
            return self._close(end)
        item = _ITEM.match(text, words)
        return self._item(at, item, below) if item else below  # text

    def _close(self, below: int) -> int:
        """End all blocks above this place."""
        self._para, self._unclear, self._offset = None, None, 0
        self._done = below
        return below

    def _find_underlined(self, at: int, words: int, below: int) -> str:
        """Return what the line is to the text above it, as the parser names it; a heading is added. '': there is none."""
        start, last = self._para, "heading_open"
        if start is None and self._unclear is not None:
            block = self._ask(self._unclear, below)
            last = "" if block is None else block.type
            if block is not None and block.map:
                start = self._place(self._unclear, block.map[0])
        if start is None or last != "heading_open":
            return last if start is not None else ""
        said = " ".join(self._text[start:at].split())
        level = 1 if self._text[words] == "=" else 2
        line = self._number(start)
        self._found.append(Heading(level, line, self._number(below), said))
        return last

    def _end_of_heading(self, at: int, words: int, below: int) -> int:
        """Add the heading that this line is, and return where it ends; 0: it is none."""
        found = _HEADING.match(self._text, words)
        if found is None:
            return 0
        said = self._text[found.end() : below].strip()
        bare = said.rstrip("#")
        if bare != said and (not bare or bare[-1] in " \t"):
            said = bare.rstrip()
        line = self._number(at)
        self._found.append(Heading(len(found[1]), line, line + 1, said))
        return below

    def _end_of_break(self, _at: int, words: int, below: int) -> int:
        return below if _BREAK.match(self._text, words) else 0

    def _number(self, at: int) -> int:
        """Return the number of the line that begins here."""
        self._line += self._text.count(LF, self._counted, at)
        self._line -= self._text.count(LF, at, self._counted)
        self._counted = at
        return self._line + (at == len(self._text) and not self._text.endswith(LF))

    def _end_of_fence(self, _at: int, words: int, below: int) -> int:
        """Return where code ends that begins with this line; 0: none does."""
        fence = _FENCE.match(self._text, words)
        if fence is None:
            return 0
        end = _fence_end(fence[0][0], len(fence[0])).search(self._text, below)
        return self._below(end.end()) if end else len(self._text)

    def _end_of_comment(self, _at: int, words: int, below: int) -> int:
        """Return where a comment ends that begins with this line; 0: none does."""
        text = self._text
        if text.find(_COMMENT, words + len(_COMMENT), below) >= 0:
            return 0
        end = text.find(_COMMENT, below)
        return self._below(end) if end >= 0 else 0

    def _end_of_html(self, at: int, words: int, below: int) -> int:
        """Return where HTML ends that begins with this line; 0: none does."""
        text = self._text
        line = text[words:below].rstrip("\r\n")
        for begins, ends, interrupts in _html_forms():
            if not begins.search(line):
                continue
            if not interrupts and self._is_text(at):
                return 0
            if ends.search(line):
                return below
            blank = ends.pattern == "^$"
            end = _BLANK.search(text, below) if blank else ends.search(text, below)
            if end is None:
                return len(text)
            return end.start() if blank else self._below(end.start())
        return 0

    def _below(self, at: int) -> int:
        return self._text.find(LF, at) + 1 or len(self._text)

    def _quote(self, at: int) -> int:
        start = at if self._unclear is None else self._unclear
        quote = _QUOTE.match(self._text, at)
        self._close(quote.end() if quote else len(self._text))
        self._unclear = start
        return self._done

    def _item(self, at: int, item: re.Match[str], below: int) -> int:
        """Pass an item with its children, or the text that its line is."""
        text, empty = self._text, item[4] is not None
        bounded = empty or (item[2] is not None and int(item[2]) != 1)
        if bounded and self._is_text(at, lazy=False):
            return below
        self._of_item = None
        words = item.start()
        if text.startswith("- #", words) and self._end_of_heading(at, words, below):
            self._of_item = len(self._found) - 1
            own = self._found[-1]
            self._found[-1] = own._replace(item_end=own.body, outermost=own.line)
        self._close(below)
        marks = len(text[at : item.end()])
        columns = len((" " * marks + item[3]).expandtabs(_TAB)) - marks
        offset = marks + (1 if empty or columns > _MOST_SPACES else columns)
        if empty and _BLANK.match(text, below):
            return below
        return self._pass_item(at, below, offset)

    def _pass_item(self, start: int, at: int, offset: int) -> int:
        """Pass the lines of an item from here on."""
        text = self._text
        end = self._close(_end_of_item(text, at, offset))
        above = text.rfind(LF, 0, end - 1) + 1
        self._add_nested(start, at, end)
        if end < len(text) and text[above:end].strip(" \t\r\n"):
            self._unclear, self._offset = start, offset
        if (which := self._of_item) is not None:
            below = self._end_of_text(start, end) if self._unclear is not None else end
            self._found[which] = self._found[which]._replace(item_end=self._number(below))
        return end

    def _add_nested(self, start: int, at: int, end: int) -> None:
        """Add the headings of items within an item that begins at ``start``, of the lines from ``at`` on."""
        if end - start > _LARGEST_ITEM or _NESTED.search(self._text, at, end) is None:
            return
        first, least = self._number(start), self._text.count(LF, start, at)
        tokens = self._parse(start, end)
        begin, passed = start, 0
        for number, token in enumerate(tokens):
            item = tokens[number - 1]
            if token.type != "heading_open" or item.type != "list_item_open" or not item.map:
                continue
            line, below = item.map
            begin, passed = self._place(begin, line - passed), line
            if line < least or not (found := _NESTED.match(self._text, begin)):
                continue
            words = tokens[number + 1].content
            level = found[0].count("#")
            place = first + line
            self._found.append(Heading(level, place, place + 1, words, first + below, first))

    def _end_of_text(self, start: int, end: int) -> int:
        """Return where an item ends, text included that carries on its last paragraph without being indented."""
        text = self._text
        if text.find(LF, start) + 1 == end or _NO_TEXT.match(text, end):
            return end
        other = _NO_TEXT.search(text, end)
        stop = other.start() if other else len(text)
        item = next((one for one in self._parse(start, stop) if one.type == "list_item_open"), None)
        return max(end, self._place(start, item.map[1])) if item and item.map else end

    def _is_text(self, at: int, *, lazy: bool = True) -> bool:
        """Tell whether text in this line would carry on a paragraph; ``lazy``: also one within a quote or an item."""
        if self._unclear is None:
            return self._para is not None
        last = self._ask(self._unclear, at, "x")
        if last is None or last.map is None:
            return False
        begins = self._place(self._unclear, last.map[0])
        if last.type == "paragraph_open":
            self._unclear, self._para = None, begins if begins < at else None
            return self._para is not None
        return lazy

    def _ask(self, start: int, end: int, probe: str = "") -> Token | None:
        """Return the last block that the parser finds in these lines; None if it was asked too often."""
        tokens = self._parse(start, end, probe)
        return next((one for one in reversed(tokens) if not one.level and one.nesting >= 0), None)

    def _parse(self, start: int, end: int, probe: str = "") -> list[Token]:
        """Return what the parser finds in these lines; nothing if it was asked too often."""
        self._asked, self._read = self._asked + 1, self._read + end - start
        if self._asked > _MOST_ASKED or self._read > _MOST_READ:
            return []
        tokens: list[Token] = []
        parser = markdown_parser()
        part = self._text[start:end].replace("\r\n", LF) + probe
        parser.block.parse(part, parser, {}, tokens)
        return tokens

    def _place(self, start: int, lines: int) -> int:
        for _ in range(lines):
            start = self._below(start)
        return start


@functools.cache
def markdown_parser() -> MarkdownIt:
    """Return the parser that decides."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - most texts need none

    return MarkdownIt("commonmark").enable("table")


def _html_forms() -> list[tuple[re.Pattern[str], re.Pattern[str], bool]]:
    """Return how HTML begins and ends, and whether it may interrupt a paragraph."""
    from markdown_it.rules_block.html_block import HTML_SEQUENCES  # noqa: PLC0415

    return HTML_SEQUENCES


@functools.cache
def _fence_end(mark: str, least: int) -> re.Pattern[str]:
    return re.compile(rf"^ {{0,3}}{mark}{{{least},}}[ \t]*\r?$", re.MULTILINE)


@functools.cache
def _outside(offset: int) -> re.Pattern[str]:
    """Find a line that is not blank and not indented by so many spaces."""
    return re.compile(rf"^(?! {{{offset}}})[ \t]*+(?!\r?$)", re.MULTILINE)


def _end_of_item(text: str, at: int, offset: int) -> int:
    """Return where the first line begins that is less indented than the text of an item."""
    pattern = _outside(offset)
    while found := pattern.search(text, at):
        if _indent(text, found.start()) < offset:
            return found.start()
        at = text.find(LF, found.start()) + 1
        if not at:
            break
    return len(text)


def _next_words(text: str, at: int) -> int:
    """Return where the next line begins that is not blank; the end of the text if there is none."""
    found = _WORD.search(text, at)
    return text.rfind(LF, 0, found.start()) + 1 if found else len(text)


_WORD = re.compile(r"[^ \t\r\n]")
_INDENT = re.compile(r"[ \t]*")


def _indent(text: str, at: int) -> int:
    """Return the column in which the words of a line begin."""
    found = _INDENT.match(text, at)
    blanks = found[0] if found else ""
    return len(blanks.expandtabs(_TAB)) if "\t" in blanks else len(blanks)
