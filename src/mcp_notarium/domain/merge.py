r"""Merge two changes of one note that have the same base. Loses no line either side added.

Lines are compared by their words. Their ends (``\n``, ``\r\n``, none at the end of the text) are
merged separately, so that a change of line ends never clashes with a change of words. The rules:

* A change on one side only is taken; the same change on both sides is taken once.
* Changes that touch but do not overlap are both taken.
* Lines that both sides added at the same place are both kept, theirs first. What both added there in
  the same way, at the beginning, at the end or where the two meet, is taken once.
* Lines deleted by one side or by both are gone. Blocks changed line for line are merged line by line.
* Front matter that a side added stays at the top, and is merged by itself where both did.
* A property of front matter that both sides added would stand there twice, so it is no merge.
* Everything else that overlaps (one side deletes or rewrites what the other edits) is no merge:
  a person or the agent has to decide.

Very large texts of few different lines may be compared coarsely (see ``diff``): then more overlaps,
and no text is lost. Nothing here raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.diff import Change, find_changes
from mcp_notarium.domain.lines import CRLF, LF, end_of, newline_of, split_lines, with_end
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.properties import merge_properties, properties_clash
from mcp_notarium.markup.front_block import looks_like_block, text_start

_KEY = re.compile(r"^([^\s#'\"\[{:-][^:\n]*):(?=\s)", re.MULTILINE)
_TOML_KEY = re.compile(r"^([^\s#\[=][^=\n]*)=", re.MULTILINE)
_SILENT = frozenset({"", "---", "+++", "..."})
_BOM = "\ufeff"
_Line = tuple[str, str]
"""The words of a line, and its end."""


@dataclass(slots=True)
class _Lines:
    """Hold lines: their words and their ends. Texts of millions of lines are split as a whole."""

    texts: list[str]
    ends: list[str]

    @classmethod
    def of(cls, text: str) -> _Lines:
        """Split a text."""
        texts = text.replace(CRLF, LF).split(LF)
        last = LF if not texts[-1] else ""
        if not texts[-1]:
            texts.pop()
        with_return = text.count(CRLF)
        if with_return in (0, text.count(LF)):
            ends = [CRLF if with_return else LF] * len(texts)
            if not last and ends:
                ends[-1] = ""
            return cls(texts, ends)
        return cls(texts, [*map(end_of, split_lines(text))])

    def part(self, start: int, stop: int) -> list[_Line]:
        """Return some of the lines one by one."""
        return list(zip(self.texts[start:stop], self.ends[start:stop], strict=True))

    def add(self, lines: Sequence[_Line]) -> None:
        """Append lines."""
        self.texts += [text for text, _ in lines]
        self.ends += [end for _, end in lines]


@dataclass(slots=True)
class _Cluster:
    """Hold changes of both sides that overlap, over the base lines ``low`` .. ``high``."""

    low: int
    high: int
    mine: list[Change] = field(default_factory=list)
    theirs: list[Change] = field(default_factory=list)

    def touches(self, change: Change) -> bool:
        both_add = change.adds_only and self.low == self.high == change.low
        return change.low < self.high or both_add

    def add(self, change: Change, *, mine: bool) -> None:
        (self.mine if mine else self.theirs).append(change)
        self.high = max(self.high, change.high)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Hold a cluster and what each side has in its place; ``start``: where that is in theirs."""

    cluster: _Cluster
    mine: list[_Line]
    theirs: list[_Line]
    start: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Hold lines that both sides changed, as each has them."""

    line: int
    """First line of theirs in their text, from 1."""
    mine: str
    theirs: str


def merge(base: str, mine: str, theirs: str) -> str | None:
    """Return the text with both changes; None if both concern the same lines. Equal sides, or one unchanged, always merge."""
    was, is_mine, is_theirs = (text[: text.startswith(_BOM)] for text in (base, mine, theirs))
    base, mine, theirs = (text.removeprefix(_BOM) for text in (base, mine, theirs))
    at, their_at = _new_block(base, mine), _new_block(base, theirs)
    block = _merge_texts("", mine[:at], theirs[:their_at])
    below = _merge_texts(base, mine[at:], theirs[their_at:])
    if block is None or below is None:
        return None
    if block and below and not block.endswith(LF):
        block = with_end(block, newline_of(block))
    return (is_theirs if is_mine == was else is_mine) + block + below


def _merge_texts(base: str, mine: str, theirs: str) -> str | None:
    if mine in (base, theirs):
        return theirs
    return mine if theirs == base else _merge_lines(base, mine, theirs)


def _merge_lines(base: str, mine: str, theirs: str) -> str | None:
    """Merge with theirs first, or with mine first where only that leaves each line of front matter below its key."""
    for one, other in ((mine, theirs), (theirs, mine)):
        merged = _merge_in_order(base, one, other)
        if merged is None or not _strays(merged, base, mine, theirs):
            return merged
    return None


def _merge_in_order(base: str, mine: str, theirs: str) -> str | None:
    run = _Merge(*map(_Lines.of, (base, mine, theirs)))
    if run.overlaps:
        return None
    final_end = _final_end(base, mine, theirs)
    merged = _join(run.merged, newline=newline_of(theirs or mine), final_end=final_end)
    doubled = _doubled_keys(merged)
    return None if doubled and doubled - _doubled_keys(mine) - _doubled_keys(theirs) else merged


def _strays(merged: str, base: str, mine: str, theirs: str) -> bool:
    """Tell whether a line of the front matter stands below a key below which no side has it, or left one that got it."""
    was, *sides = ({*_entries(text[: _block_end(text)])} for text in (base, mine, theirs))
    held, now = sides[0] | sides[1], {*_entries(merged[: text_start(merged)])}
    return bool(held and (now or was)) and not (now <= held and held - was <= now)


def _entries(block: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of front matter that say something, each with the line of the key that it is below."""
    key, pattern = "", _TOML_KEY if block.startswith("+++") else _KEY
    for line in map(str.rstrip, block.splitlines(keepends=True)):
        if pattern.match(f"{line}\n"):
            key = line
        if line not in _SILENT and not line.startswith("#"):
            yield key, line


def _doubled_keys(text: str) -> set[str]:
    """Return the keys that stand twice in the front matter: it would be none any more."""
    key = _TOML_KEY if text.startswith("+++") else _KEY
    counts = Counter(map(str.strip, key.findall(text[: text_start(text)])))
    return {key for key, count in counts.items() if count > 1}


def find_overlaps(base: str, mine: str, theirs: str) -> list[Overlap]:
    """Return the lines for which :func:`merge` gives no text; none if it gives one."""
    base, mine, theirs = (text.removeprefix(_BOM) for text in (base, mine, theirs))
    mine = mine[_new_block(base, mine) :]
    above, theirs = (theirs[: (at := _new_block(base, theirs))].count(LF), theirs[at:])
    if mine in (base, theirs) or theirs == base:
        return []
    found = _Merge(*map(_Lines.of, (base, mine, theirs))).overlaps
    return [replace(one, line=one.line + above) for one in found]


def _new_block(base: str, side: str) -> int:
    """Return where front matter ends that a side has added; 0 if it has not.

    As lines among others a block could get lines above it, or share its end with another one, and would end up as text.
    """
    return 0 if _block_end(base) else _block_end(side)


def _block_end(text: str) -> int:
    """Return where front matter ends; 0 if there is none, also between two lines across the page."""
    return text_start(text) if looks_like_block(text) else 0


class _Merge:
    """Run one merge of three texts: ``merged`` has theirs where they overlap, ``overlaps`` says where.

    ``mine_shift``, ``theirs_shift``: how many lines further down each side is than the base.
    """

    def __init__(self, base: _Lines, mine: _Lines, theirs: _Lines) -> None:
        self.base, self.mine, self.theirs = base, mine, theirs
        self.mine_shift = self.theirs_shift = 0
        self.overlaps: list[Overlap] = []
        self.merged = _Lines([], [])
        at = 0
        for block in _blocks(base.texts, mine.texts, theirs.texts):
            self._keep(at, block[0].low)
            self.merged.add(self._block([self._piece(cluster) for cluster in block]))
            at = block[-1].high
        self._keep(at, len(base.texts))

    def _piece(self, cluster: _Cluster) -> _Piece:
        mine_low, theirs_low = cluster.low + self.mine_shift, cluster.low + self.theirs_shift
        self.mine_shift += sum(change.growth for change in cluster.mine)
        self.theirs_shift += sum(change.growth for change in cluster.theirs)
        return _Piece(
            cluster,
            self.mine.part(mine_low, cluster.high + self.mine_shift),
            self.theirs.part(theirs_low, cluster.high + self.theirs_shift),
            theirs_low,
        )

    def _block(self, pieces: list[_Piece]) -> list[_Line]:
        """Merge clusters that touch. As a whole they may be one edit that both sides made."""
        theirs = [line for piece in pieces for line in piece.theirs]
        if _texts_of(theirs) == [text for piece in pieces for text, _ in piece.mine]:
            return theirs
        return self._in_turn(pieces)

    def _in_turn(self, pieces: list[_Piece]) -> list[_Line]:
        merged: list[_Line] = []
        before: tuple[_Cluster, list[_Line]] | None = None
        for piece in pieces:
            lines = self._resolve(piece)
            if lines is None:
                sides = ("".join(map("".join, side)) for side in (piece.mine, piece.theirs))
                self.overlaps.append(Overlap(piece.start + 1, *sides))
                lines = piece.theirs
            shared = _find_shared_border(before, piece.cluster, lines) if before else 0
            merged += lines[shared:]
            before = None if shared else (piece.cluster, lines)
        return merged

    def _keep(self, at: int, stop: int) -> None:
        """Take over lines that neither side changed, with the line end that either side gave them."""
        base = self.base.ends[at:stop]
        mine = self.mine.ends[at + self.mine_shift : stop + self.mine_shift]
        theirs = self.theirs.ends[at + self.theirs_shift : stop + self.theirs_shift]
        kept = base == mine and "" not in theirs
        ends = theirs if kept else [*map(_merge_end, base, mine, theirs)]
        self.merged.texts += self.base.texts[at:stop]
        self.merged.ends += ends

    def _resolve(self, piece: _Piece) -> list[_Line] | None:
        cluster, mine, theirs = piece.cluster, piece.mine, piece.theirs
        if not cluster.mine or _texts_of(mine) == _texts_of(theirs):
            return theirs
        if not cluster.theirs:
            return mine
        parts = cluster.mine + cluster.theirs
        if all(part.deletes_only for part in parts):
            return []
        if all(part.adds_only for part in parts):
            return _join_additions(theirs, mine)
        if not any(part.growth for part in parts):
            return _line_by_line(self.base.texts[cluster.low : cluster.high], mine, theirs)
        return None


def _clusters(mine: list[Change], theirs: list[Change]) -> Iterator[_Cluster]:
    """Yield changes of both sides in order, those that overlap together."""
    marked = [(change.low, change.high, True, change) for change in mine]
    marked += [(change.low, change.high, False, change) for change in theirs]
    cluster: _Cluster | None = None
    for low, high, is_mine, change in sorted(marked, key=lambda mark: mark[:3]):
        if cluster is None or not cluster.touches(change):
            if cluster is not None:
                yield cluster
            cluster = _Cluster(low, high)
        cluster.add(change, mine=is_mine)
    if cluster is not None:
        yield cluster


def _blocks(
    base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]
) -> Iterator[list[_Cluster]]:
    """Yield the clusters of both sides' changes, those that touch together."""
    block: list[_Cluster] = []
    for cluster in _clusters(find_changes(base, mine), find_changes(base, theirs)):
        if block and cluster.low > block[-1].high:
            yield block
            block = []
        block.append(cluster)
    if block:
        yield block


def _line_by_line(
    base: Sequence[str], mine: Sequence[_Line], theirs: Sequence[_Line]
) -> list[_Line] | None:
    merged: list[_Line] = []
    for old, my_line, their_line in zip(base, mine, theirs, strict=True):
        if my_line[0] in (old, their_line[0]):
            merged.append(their_line)
        elif their_line[0] == old:
            merged.append(my_line)
        else:
            return None
    return merged


def _find_shared_border(
    before: tuple[_Cluster, list[_Line]],
    cluster: _Cluster,
    block: list[_Line],
) -> int:
    """Return how many lines end one side's block and begin the other's; 0 unless one side only adds."""
    other, lines = before
    sides_differ = bool(other.mine) != bool(cluster.mine)
    one_sided = not (other.mine and other.theirs) and not (cluster.mine and cluster.theirs)
    adds = other.low == other.high or cluster.low == cluster.high
    if not (sides_differ and one_sided and adds):
        return 0
    return _find_overlap(_texts_of(lines), _texts_of(block))[0]


def _texts_of(lines: Sequence[_Line]) -> list[str]:
    return [text for text, _ in lines]


def _join_additions(first: list[_Line], second: list[_Line]) -> list[_Line]:
    """Join two blocks of added lines, the first first, with what they share at the borders once.

    Lines are compared by their words. Blank lines are never shared: they separate what was added, and
    two additions must not run together.
    """
    head = _common_start(first, second)
    tail = _common_start(first[head:][::-1], second[head:][::-1])
    middle = first[head : len(first) - tail]
    other = second[head : len(second) - tail]
    meeting, inside = _find_overlap(_texts_of(middle), _texts_of(other))
    if inside:
        other = []
    elif _find_overlap(_texts_of(other), _texts_of(middle))[1]:
        middle, meeting = [], 0
    return first[:head] + middle + other[meeting:] + first[len(first) - tail :]


def _common_start(first: list[_Line], second: list[_Line]) -> int:
    """Return how many lines both begin with, not counting blank ones at the end of these.

    Blank lines separate what was added; sharing one would run two additions together.
    """
    count = 0
    for index, ((text, _), (other, _)) in enumerate(zip(first, second, strict=False), start=1):
        if text != other:
            break
        if text.strip():
            count = index
    return count


def _find_overlap(left: list[str], right: list[str]) -> tuple[int, bool]:
    """Return the longest end of ``left`` that begins ``right``, and whether all of ``right`` is in it.

    Blank lines alone do not count as an overlap. Linear (Knuth, Morris and Pratt).
    """
    both = [*right, None, *left]
    border = [0] * len(both)
    for index in range(1, len(both)):
        length = border[index - 1]
        while length and both[index] != both[length]:
            length = border[length - 1]
        border[index] = length + (both[index] == both[length])
    inside = not right or len(right) in border[len(right) :]
    blank, all_blank = (not any(map(str.strip, part)) for part in (right[: border[-1]], right))
    return (0 if blank else border[-1]), inside and (not right or not all_blank)


def _merge_end(base: str, mine: str, theirs: str) -> str:
    return mine if mine and mine != base else theirs or mine or base


def _final_end(base: str, mine: str, theirs: str) -> bool:
    """Return whether the merged text ends with a line end: the side that changed this decides."""
    before = base.endswith(LF)
    changed = mine != "" and mine.endswith(LF) != before
    decided_by = mine if changed or not theirs else theirs
    return decided_by.endswith(LF)


def _join(lines: _Lines, *, newline: str, final_end: bool) -> str:
    """Join the lines to a text; no two of them run together, no empty last line is lost."""
    if not lines.texts:
        return ""
    *before, last = lines.texts
    *ends, end = lines.ends
    one = ends[0] if ends and ends.count(ends[0]) == len(ends) else ""
    parts = (
        before
        if one
        else [t + e if e else with_end(t, newline) for t, e in zip(before, ends, strict=True)]
    )
    if not final_end and last:
        end = ""
    elif not end:
        last, end = with_end(last, newline), ""
    return one.join([*parts, last]) + end


def merge_tags(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """Merge two changes of the tags; tags are the same if only case or composition differs.

    Keeps the order and spelling of theirs, removes what mine removed, appends what mine added.
    One side is the result if the other changed nothing, order and spelling included.
    """
    if list(theirs) == list(base):
        return tuple(mine)
    had, have = {tag_key(tag) for tag in base}, {tag_key(tag) for tag in mine}
    kept = [tag for tag in theirs if tag_key(tag) in have or tag_key(tag) not in had]
    present = {tag_key(tag) for tag in kept} | had
    for tag in mine:
        if tag_key(tag) not in present:
            kept.append(tag)
            present.add(tag_key(tag))
    return tuple(kept)


def fields_clash(base: Content, mine: Content, theirs: Content) -> bool:
    """Tell whether both sides gave the note another title, or a property another value, and not the same."""
    titles = base.title not in (mine.title, theirs.title) and mine.title != theirs.title
    return titles or properties_clash(base.properties, mine.properties, theirs.properties)


def merge_content(base: Content, mine: Content, theirs: Content) -> Content | None:
    """Merge each field separately. Return None if the texts overlap, or both changed the title or one property.

    Trash: the side that changed it wins. A note that they moved to the trash while mine edited it
    keeps the edit and stays in the trash, where it can be restored. It leaves the trash only if
    mine itself restored it. A property that one side set or removed is so in the result.
    """
    text = merge(base.text, mine.text, theirs.text)
    if text is None or fields_clash(base, mine, theirs):
        return None
    return Content(
        text=text,
        tags=merge_tags(base.tags, mine.tags, theirs.tags),
        trash=mine.trash if mine.trash != base.trash else theirs.trash,
        title=mine.title if mine.title != base.title else theirs.title,
        properties=merge_properties(base.properties, mine.properties, theirs.properties),
    )
