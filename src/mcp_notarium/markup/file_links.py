"""Let the links of a text lead to files under other names, in the form of another store. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from mcp_notarium.markup.obsidian_links import Link, Occurrence, find_links

_PLAIN = "/!$&'*+,;=:@~"
_MOST_ASCII = 127
_BLOCK = "- "
"""Text that may stand before a link in a line of its own."""
_WIKI_ENDS = ("[[", "]]")


@dataclass(frozen=True, slots=True)
class FileLink:
    """Hold a link to a file: its target, and whether it is a wikilink; None: as the link that it replaces.

    A target that begins with ``#`` is no address of a picture.
    """

    target: str
    wiki: bool | None = None
    embeds: bool = False
    """It shows the file, also where the link that it replaces does not."""


@dataclass(frozen=True, slots=True)
class WholeLink:
    """Hold a link with its brackets, and ``shown``, the words in it; None where it is a line of its own, ``[1]: target``."""

    link: Occurrence
    start: int
    end: int
    embeds: bool
    shown: str | None


def link_key(link: Occurrence) -> Link:
    """Return what tells links to files apart: where no target is written, what is behind the ``#``."""
    return link.link if link.target else link.whole


def read_link(written: str) -> FileLink | None:
    """Return the one link that a text is; None if it is none."""
    found = next(find_whole_links(written), None)
    if found is None:
        return None
    link = found.link
    target = link.target or f"#{link.part}"
    return FileLink(target, link.form == "wiki", found.embeds)


def find_whole_links(text: str) -> Iterator[WholeLink]:
    """Yield the links of a text in order, none inside another."""
    last = 0
    for link in find_links(text, within=True):
        whole = _widen(text, link)
        if whole.start >= last:
            last = whole.end
            yield whole


def _widen(text: str, link: Occurrence) -> WholeLink:
    if link.form == "wiki":
        start = text.rindex(_WIKI_ENDS[0], 0, link.start + 1)
        close = text.index(_WIKI_ENDS[1], link.end)
        shown = text[start + 2 : close].partition("|")[2]
        end = close + 2
    else:
        close = text.rindex("]", 0, link.start)
        start = _find_opening(text, close)
        if text.startswith("]:", close) or start < 0:
            return WholeLink(link, link.start, _find_end(link), embeds=False, shown=None)
        shown = text[start + 1 : close]
        end = text.index(")", _find_end(link)) + 1
    embeds = text[start - 1 : start] == "!"
    return WholeLink(link, start - embeds, end, embeds, shown)


def _find_end(link: Occurrence) -> int:
    return link.part_start + len(link.part) if link.part else link.end


def _find_opening(text: str, close: int) -> int:
    """Return the place of the bracket that one closes; -1 if there is none in the line."""
    depth = 0
    for at in range(close, text.rfind("\n", 0, close), -1):
        if text[at] in "[]" and text[at - 1 : at] != "\\":
            depth += 1 if text[at] == "]" else -1
            if depth == 0:
                return at
    return -1


def find_unchanged(text: str, original: str) -> Iterator[WholeLink]:
    """Yield the links of a text that mean the same as the link at their place in ``original``."""
    for whole, other in zip(find_whole_links(text), find_whole_links(original), strict=False):
        if link_key(whole.link) == link_key(other.link):
            yield whole


def relink(text: str, links: Mapping[Link, FileLink], *, original: str | None = None) -> str:
    """Return the text with other links for these keys; ``original``: only those that stand in that text as well."""
    kept, at = [], 0
    for whole in find_unchanged(text, text if original is None else original) if links else ():
        if (wanted := links.get(link_key(whole.link))) is not None:
            written = _write(text, whole, wanted)
            kept += [text[at : whole.start], written]
            at = whole.end
    return "".join((*kept, text[at:]))


def _write(text: str, whole: WholeLink, wanted: FileLink) -> str:
    link = whole.link
    part = f"#{link.part}" if link.target and link.part and "#" not in wanted.target else ""
    encoded = _encode(wanted.target) + part
    if whole.shown is None:
        return encoded
    mark = "!" if (whole.embeds or wanted.embeds) and not wanted.target.startswith("#") else ""
    if link.form != "wiki":  # Obsidian finds a target in such a link as it does in its own
        begin = link.start if link.target else link.part_start - 1
        before = text[whole.start + whole.embeds : begin]
        written = text[begin : link.end]
        # What stands for no words.
        if mark and not whole.embeds and whole.shown in (link.target, written):
            before = f"[{before[1 + len(whole.shown) :]}"
        if whole.embeds and not mark and not whole.shown:  # nothing of it would be seen
            before = f"[{link.target.rpartition('/')[2]}{before[1:]}"
        return f"{mark}{before}{encoded}{text[_find_end(link) : whole.end]}"
    if wanted.wiki is not False:
        shown = f"|{whole.shown}" if whole.shown else ""
        return f"{mark}[[{wanted.target}{part}{shown}]]"
    shown = whole.shown or ("" if mark else link.target.rpartition("/")[2])
    return f"{mark}[{shown}]({encoded})"


def _encode(target: str) -> str:
    plain = f"{_PLAIN}#?" if target.startswith("#") else _PLAIN
    return "".join(
        one if ord(one) > _MOST_ASCII and not one.isspace() else quote(one, plain) for one in target
    )


def says_the_same(
    held: str, original: str, *, leads: Callable[[Link], bool], more: int = 0
) -> bool:
    """Tell whether two texts are the same but for their links to files.

    ``leads`` tells whether a link of ``original`` leads to a file. At most ``more`` further links may stand at the end of ``held``.
    """
    held_parts, held_end = _split(held)
    original_parts, original_end = _split(original)
    extra = held_parts[len(original_parts) :]
    if len(held_parts) < len(original_parts) or len(extra) > more:
        return False
    same = all(
        words == original_words and (written == original_written or leads(key))
        for (words, _, written), (original_words, key, original_written) in zip(
            held_parts, original_parts, strict=False
        )
    )
    if not extra:
        return same and held_end == original_end
    before, *between = (words.removesuffix(_BLOCK) for words, _, _ in extra)
    return (
        same
        and before.strip() == original_end.strip()
        and not "".join((*between, held_end)).strip()
    )


def _split(text: str) -> tuple[list[tuple[str, Link, str]], str]:
    """Return the links of a text, each with the words before it and as it is written, and the words behind them."""
    found: list[tuple[str, Link, str]] = []
    at = 0
    for whole in find_whole_links(text):
        written = text[whole.start : whole.end]
        found.append((text[at : whole.start], link_key(whole.link), written))
        at = whole.end
    return found, text[at:]
