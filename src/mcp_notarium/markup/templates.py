"""Fill the templates of notes: Obsidian's ``{{date}}``, ``{{time}}`` and ``{{title}}``, and the blocks of Logseq. Pure.

``{{date:FORMAT}}`` and ``{{time:FORMAT}}`` take a format of moment.js. Whatever else stands in a template stays as it is:
code of Templater (``<% %>``) is text here.

The code of a template of Logseq (``<% %>``) names dates, the time and the page. Whatever else stands there, such as a date in words, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mcp_notarium.domain.date_formats import format_java, format_moment

TAG = "template"
"""The tag, or label, that makes a note a template where no folder does."""
DATE_FORMAT, TIME_FORMAT = "YYYY-MM-DD", "HH:mm"
_PLACE = re.compile(
    r"\{\{[ \t]*(?:(?P<title>title)|(?P<what>date|time)[ \t]*(?::(?P<form>[^\n{}]*))?)[ \t]*\}\}",
    re.IGNORECASE,
)
_CODE = re.compile(r"<%(?:[^%]|%(?!>))*%>", re.DOTALL)


PAGE_TITLE_FORMAT = "MMM do, yyyy"
_BLOCK = re.compile(r"(?P<indent>[ \t]*)-(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*(?:-[ \t]+)?(?:```|~~~)")
_PROPERTY = re.compile(r"[ \t]*(?:-[ \t]+)?(?P<name>[\w-]+)::(?:[ \t]+(?P<value>.*?))?[ \t\r]*$")
_LEFT_OUT = {"id", "template", "template-including-parent"}
"""Properties that no block from a template has."""
_LOGSEQ_CODE = re.compile(r"<%(?P<said>[^%].*?)%>")
DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
"""Names of days, and how far they are from today."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Hold what the places of a template become."""

    at: datetime
    """A time with its zone."""
    title: str | None
    """None if nobody knows it yet."""
    date_format: str = DATE_FORMAT
    time_format: str = TIME_FORMAT

    def fill(self, template: str) -> str:
        """Return the text of a note that begins with this template."""
        return _PLACE.sub(self._part, template)

    def _part(self, found: re.Match[str]) -> str:
        if found["title"]:
            return found[0] if self.title is None else self.title
        plain = self.date_format if found["what"].lower() == "date" else self.time_format
        form = (found["form"] or "").strip()
        return format_moment(form or plain, self.at)


def names_title(template: str) -> bool:
    """Tell whether a template needs the title of its note."""
    return any(found["title"] for found in _PLACE.finditer(template))


def has_code(template: str) -> bool:
    """Tell whether a template has code that only Templater runs."""
    return _CODE.search(template) is not None


@dataclass(frozen=True, slots=True)
class _Block:
    """Hold which lines a block is, without those of the blocks below it."""

    indent: str
    width: int
    """Of its indent; -1: the page's own lines."""
    start: int
    end: int


def find_template(text: str, name: str) -> str | None:
    """Return the blocks that a template of this name in a page stands for; None if the page has none."""
    lines = text.split("\n")
    blocks = list(_blocks(lines))
    for place, block in enumerate(blocks):
        own = lines[block.start : block.end]
        found = _properties(own)
        if found.get("template", "").casefold() != name.strip().casefold():
            continue
        below = [*_below(blocks, place)]
        made: list[str] = []
        indent = below[0].indent if below else ""
        if block.width >= 0 and found.get("template-including-parent", "").lower() != "false":
            indent = block.indent
            made += _without_properties(own, indent)
        for one in below:
            made += _without_properties(lines[one.start : one.end], indent)
        while made and not made[-1].strip():
            made.pop()
        return "".join(f"{line}\n" for line in made)
    return None


def name_templates(text: str) -> list[str]:
    """Return the names of the templates in a page."""
    lines = text.split("\n")
    own = (_properties(lines[one.start : one.end]) for one in _blocks(lines))
    return [name for found in own if (name := found.get("template"))]


def fill(
    template: str, at: datetime, *, title_format: str = PAGE_TITLE_FORMAT, page: str | None = ""
) -> tuple[str, bool]:
    """Return the blocks as they stand in a page, and whether something in them is left as it was.

    ``at``: the present time, of the day of a journal; ``page``: its title, '' for that journal, None if nobody knows it yet.
    """
    left = False

    def part(found: re.Match[str]) -> str:
        nonlocal left
        said = found["said"].strip().lower()
        if not said:
            return ""
        if said == "time":
            return at.strftime("%H:%M")
        if said == "current page" and page:
            return f"[[{page}]]"
        day = at if said == "current page" and page == "" else _read_day(said, at)
        if day is None:
            left = True
            return found[0]
        return f"[[{format_java(title_format, day)}]]"

    return _LOGSEQ_CODE.sub(part, template), left


def _read_day(said: str, at: datetime) -> datetime | None:
    try:
        if said in DAYS:
            return at + timedelta(days=DAYS[said])
        return datetime.combine(date.fromisoformat(said), at.timetz())
    except (ValueError, OverflowError):
        return None


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """Yield the page's own lines above its first block, then each block in order."""
    begun, start, fenced = ("", -1), 0, False
    for number, line in enumerate(lines):
        found = None if fenced else _BLOCK.match(line)
        if _FENCE.match(line):
            fenced = not fenced
        if found is not None:
            yield _Block(*begun, start, number)
            indent = found["indent"]
            begun, start = (indent, len(indent.expandtabs(2))), number
    yield _Block(*begun, start, len(lines))


def _below(blocks: list[_Block], place: int) -> Iterator[_Block]:
    for one in blocks[place + 1 :]:
        if one.width <= blocks[place].width:
            return
        yield one


def _properties(own: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in own:
        if said := _PROPERTY.match(line):
            name = said["name"].lower().replace("_", "-")
            found.setdefault(name, (said["value"] or "").strip())
    return found


def _without_properties(own: list[str], indent: str) -> Iterator[str]:
    """Yield the lines of a block, less indented, without the properties that belong to the template."""
    for number, line in enumerate(own):
        said = _PROPERTY.match(line)
        gone = said is not None and said["name"].lower().replace("_", "-") in _LEFT_OUT
        if gone and number:
            continue
        shown = line.removeprefix(indent).rstrip("\r")
        yield f"{shown[: shown.index('-') + 1]}" if gone else shown
