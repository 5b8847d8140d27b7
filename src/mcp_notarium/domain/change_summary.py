"""Say in one line what changed between two versions of a note. Pure.

Lines are counted, not matched: a line that only moved is neither new nor gone. So it takes linear time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from mcp_notarium.domain.front_block import text_start
from mcp_notarium.domain.lines import shared_ends, shorten, split_lines
from mcp_notarium.domain.note import Content

WIDTH = 60


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """Hold what changed in words of ours, and the first changed line, cut; '' if no line changed."""

    facts: str
    line: str

    def __str__(self) -> str:
        """Return both."""
        return f"{self.facts}: {self.line}" if self.line else self.facts


def summarize_change(
    old: Content,
    new: Content,
    *,
    text: bool = True,
    tags: bool = True,
    beside: Collection[str] = (),
) -> ChangeSummary:
    """Return what turned ``old`` into ``new``; without ``text`` and ``tags`` nothing that shows those.

    ``beside``: what else has changed that no content says.
    """
    facts, line = [], ""
    if old.text != new.text:
        counts, line = _text_change(old.text, new.text) if text else ("text", "")
        facts.append(counts)
    if old.title != new.title:
        facts.append("title")
        line = line or (_shown(new.title or "") if text else "")
    if tags and old.tags != new.tags:
        facts.append("tags")
    if old.trash != new.trash:
        facts.append("trashed" if new.trash else "taken out of the trash")
    facts += [f"{name} set" for name in sorted(new.properties - old.properties)]
    facts += [f"{name} removed" for name in sorted(old.properties - new.properties)]
    facts += beside
    return ChangeSummary(", ".join(facts) or "nothing that shows here", line)


def _text_change(old: str, new: str) -> tuple[str, str]:
    head, tail = shared_ends(old, new)
    before, after = (
        split_lines(old[head : len(old) - tail]),
        split_lines(new[head : len(new) - tail]),
    )
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    counts = [f"{sign}{side.total()}" for sign, side in (("+", added), ("-", removed)) if side]
    if not counts:
        return "lines moved", ""
    changed = [line for line in after if line in added]
    changed += [line for line in before if line in removed]
    first = next((line for line in _own_lines(old, new, changed) if line.strip()), "")
    unit = "line" if added.total() + removed.total() == 1 else "lines"
    return f"{' '.join(counts)} {unit}", _shown(first)


def _own_lines(old: str, new: str, changed: list[str]) -> list[str]:
    """Return the changed lines below the front matter; if there are none, those of it without its marks."""
    fronts = [split_lines(text[: text_start(text)]) for text in (new, old)]
    inside = {line for front in fronts for line in front}
    marks = {front[at] for front in fronts if front for at in (0, -1)}
    return [one for one in changed if one not in inside] or [
        one for one in changed if one not in marks
    ]


def _shown(line: str) -> str:
    words = " ".join(line.split())
    cut = shorten(words, WIDTH)
    return cut if cut == words else f"{cut}…"
