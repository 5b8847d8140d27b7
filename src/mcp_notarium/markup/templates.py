"""Fill the templates of notes as Obsidian does: ``{{date}}``, ``{{time}}``, ``{{title}}``, each in any letter case. Pure.

``{{date:FORMAT}}`` and ``{{time:FORMAT}}`` take a format of moment.js. Whatever else stands in a template stays as it is:
code of Templater (``<% %>``) is text here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from mcp_notarium.domain.date_formats import format_moment

TAG = "template"
"""The tag, or label, that makes a note a template where no folder does."""
DATE_FORMAT, TIME_FORMAT = "YYYY-MM-DD", "HH:mm"
_PLACE = re.compile(
    r"\{\{[ \t]*(?:(?P<title>title)|(?P<what>date|time)[ \t]*(?::(?P<form>[^\n{}]*))?)[ \t]*\}\}",
    re.IGNORECASE,
)
_CODE = re.compile(r"<%(?:[^%]|%(?!>))*%>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filling:
    """Hold what the places of a template become. ``at`` has a time zone; ``title`` is None if nobody knows it yet."""

    at: datetime
    title: str | None
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
