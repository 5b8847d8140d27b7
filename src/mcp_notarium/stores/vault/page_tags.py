"""Change the tags in the properties at the top of a page in Logseq (``tags:: a, b``), and nothing else. Pure.

A block of YAML above them would take them their meaning: Logseq reads properties of a page at its very top alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import newline_of
from mcp_notarium.markup.front_block import looks_like_block

_BOM = "\ufeff"
_PROPERTY = re.compile(r"(?P<indent>- |  )?(?P<key>[^\s:]++):: *(?P<value>[^\r\n]*)\r?\n?")


def change_page_tags(
    text: str, *, added: Sequence[str], removed: Sequence[str], replaced: Mapping[str, str]
) -> str | None:
    """Return the text with tags added to its line ``tags::`` and removed from it; None if it begins with no property.

    ``replaced``: removed tags in whose place an added one comes. Where there is no such line, one comes below the properties.
    """
    if looks_like_block(text):
        return None
    at = len(_BOM) * text.startswith(_BOM)
    kept, missing, last = [text[:at]], [*added], None
    becomes = dict.fromkeys(map(tag_key, removed), "")
    becomes |= {tag_key(old): new for old, new in replaced.items()}
    while stated := _PROPERTY.match(text, at):
        last, at, line = stated, stated.end(), stated[0]
        if stated["key"].casefold() == "tags":
            value = _changed(stated["value"], becomes, missing)
            missing = []
            start, end = (one - stated.start() for one in stated.span("value"))
            blank = " " * (line[start - 1] == ":" and bool(value))
            stays = value or value == stated["value"] or stated["indent"] == "- "
            line = line[:start] + blank + value + line[end:] if stays else ""
        kept.append(line)
    if last is None or (missing and last["indent"]):  # a list begins the text
        return None
    if missing:
        newline = newline_of(text)
        line = f"tags:: {_changed('', {}, missing)}"
        kept.append(line + newline if last[0].endswith("\n") else newline + line)
    return "".join(kept) + text[at:]


def _changed(value: str, becomes: Mapping[str, str], added: Sequence[str]) -> str:
    """Return the tags of a line with each of these keys replaced, or gone for '', and the added ones behind them."""
    parts, placed = [], set[str]()
    for part in value.split(","):
        name = part.strip().strip("[]#").strip()
        new = becomes.get(tag_key(name), name) if name else name
        if new:
            parts.append(part.replace(name, new) if new != name else part)
            placed.add(new)
    kept = ",".join(parts).lstrip() if len(parts) < value.count(",") + 1 else ",".join(parts)
    more = [tag for tag in added if tag not in placed]
    if not kept.strip():
        return ", ".join(f"#{tag}" for tag in more) or kept  # other apps know a tag by its sign
    return (" #" if "#" in kept else ", ").join((kept, *more))
