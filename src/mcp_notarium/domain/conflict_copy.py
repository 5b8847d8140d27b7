"""Build conflict copies, and compare a stored note with the one that was sent. Pure.

A text that cannot be merged becomes a note of its own. This module makes the content and the write_id of
that copy. It tells whether every line is still there after the store merged an edit, what to do if not,
and what a store that merged nothing has changed or overwritten. It writes nothing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from mcp_notarium.domain.diff import find_changes
from mcp_notarium.domain.lines import split_lines
from mcp_notarium.domain.merge import fields_clash, merge_content, merge_tags
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.properties import merge_properties, shown_value
from mcp_notarium.markup.front_block import text_start

MARK = "(conflict copy) "
"""Stands before the title of a copy, or before its first line; the rest is untouched."""
_ITEM = re.compile(r"\s*- ")
_BREAK = re.compile(r"\\(?=\r?\n|\Z)")
MOST_LINES = 3
"""Most line numbers that are named where a store has changed a text."""


def copy_write_id(write_id: str, *, of: str = "ours") -> str:
    """Derive the write_id of a write's copy: the same in every process and every retry.

    ``of``: "ours", or the etag of the text that the write has overwritten.
    """
    label = f"mcp-notarium/conflict-copy/{of}/{write_id}"
    return hashlib.sha256(label.encode()).hexdigest()[:32]


def copy_content(content: Content, *, shares_by_tag: bool, folder: str | None = None) -> Content:
    """Make the content of a copy from a write that could not be merged.

    Tags are kept, except e-mail addresses where such a tag shares the note: nobody agreed to share
    the copy. ``folder``: that of the note ('': the top; None: there are none). A copy elsewhere may be where the policy hides
    it from who wrote it.
    """
    tags = tuple(tag for tag in content.tags if not (shares_by_tag and "@" in tag))
    if content.title:
        name = _mark(content.title if folder is None else content.title.rpartition("/")[2])
        return replace(content, title=f"{folder}/{name}" if folder else name, tags=tags)
    return replace(content, text=_mark(content.text), tags=tags)


def _mark(text: str) -> str:
    return text if text.startswith(MARK) else MARK + text


def inserted_lines(base: str, mine: str) -> Counter[str]:
    """Count the lines that ``mine`` has more often than ``base``, without terminators or blank lines."""
    return _count_lines(mine) - _count_lines(base)


def contains_change(*, base: Content, sent: Content, stored: Content) -> bool:
    """Tell whether a text has every line that we added to ``base`` as often, and none that we took away.

    False if we added none: what is missing may be missing for another reason. A backslash that ends a line counts for
    nothing: in Markdown it only joins the line with the next one.
    """
    old, ours, theirs = (_without_breaks(one.text) for one in (base, sent, stored))
    added, gone = inserted_lines(old, ours), inserted_lines(ours, old)
    return (
        bool(added)
        and added <= inserted_lines(old, theirs)
        and gone <= inserted_lines(theirs, old)
        and not fields_clash(base, sent, stored)
    )


def _without_breaks(text: str) -> str:
    return _BREAK.sub("", text)


def same_but_blanks(one: Content, other: Content) -> bool:
    """Tell whether two contents differ in nothing but blanks, line ends and the composition of letters."""
    return replace(one, text=_without_blanks(one.text)) == replace(
        other, text=_without_blanks(other.text)
    )


def is_ours_rewritten(*, base: Content, sent: Content, stored: Content) -> bool:
    """Tell whether a store holds what was sent, up to blanks; not of a change of blanks, which may never have arrived."""
    return same_but_blanks(sent, stored) and not same_but_blanks(base, sent)


def _without_blanks(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def _count_lines(text: str) -> Counter[str]:
    return Counter(line for line in _without_ends(text) if line.strip())


def _without_ends(text: str) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text)]


class StoredAs(Enum):
    """Name the result of comparing what the store holds with what was sent."""

    AS_SENT = "as sent"
    MERGED = "merged"
    """Somebody else's change is in it too, and every line of ours."""
    TAGS_LOST = "tags lost"
    """Every line of ours is there; a tag, a property, the trash flag or the title is not."""
    TEXT_LOST = "text lost"


def compare_stored(*, base: Content, sent: Content, stored: Content) -> StoredAs:
    """Compare what the store holds after a write with what was sent over ``base``."""
    if stored == sent:  # defence: stored-compared-with-sent =True
        return StoredAs.AS_SENT
    if not inserted_lines(base.text, sent.text) <= _count_lines(stored.text):
        return StoredAs.TEXT_LOST
    if with_lost_tags(base=base, sent=sent, stored=stored) != stored:
        return StoredAs.TAGS_LOST
    return StoredAs.MERGED


@dataclass(frozen=True, slots=True)
class Repair:
    """Hold what the note should be instead of what the store made of it."""

    content: Content
    copies: bool = False
    """Our text is not in ``content``, and needs a note of its own."""
    copies_theirs: bool = False
    """The text that ours has overwritten is not, either."""

    def with_tags(self, tags: tuple[str, ...]) -> Repair:
        """Return it with these tags."""
        return replace(self, content=replace(self.content, tags=tags))


def plan_repair(*, base: Content, sent: Content, theirs: Content, stored: Content) -> Repair | None:
    """Plan the repair of a note where the store merged our write into ``theirs`` and lost something.

    A store that merges by letters can spoil any line near the edits: ours, theirs, or one that
    nobody touched. None if every line and tag is there that a merge by lines would keep.
    """
    merged = merge_content(base, sent, theirs)
    if merged is None:
        common = _count_lines(sent.text) & _count_lines(theirs.text)
        both = inserted_lines(base.text, sent.text) | inserted_lines(base.text, theirs.text)
        lines = (common | both) <= _count_lines(stored.text)
        whole = lines and not fields_clash(base, sent, theirs)
        return None if whole else Repair(theirs, copies=True)
    whole = _count_lines(merged.text) <= _count_lines(stored.text)
    same = (merged.trash, merged.title) == (stored.trash, stored.title)
    same = same and merged.properties == stored.properties
    if whole and same and set(merged.tags) <= set(stored.tags):
        return None
    return Repair(merged, copies=False)


def merge_repair(base: Content, sent: Content, theirs: Content) -> Content | None:
    """Merge a repair with what the note holds by now; None if both changed the same lines.

    Its lines are those of others. Another process that has repaired the note has put the same ones there, perhaps in another
    order: a line that both have added stands once. Of front matter that is so of items alone: a key or an end that is missing
    would make text of what is left.
    """
    old, ours, others = (_without_keys(one.text) for one in (base, sent, theirs))
    common = inserted_lines(old, ours) & inserted_lines(old, others)
    lines, dropped = split_lines(sent.text), set[int]()
    block = len(split_lines(sent.text[: text_start(sent.text)]))
    for change in find_changes(split_lines(base.text), lines):
        for at in range(change.start, change.stop) if change.adds_only else ():
            line = lines[at].rstrip("\r\n")
            if common[line] and (at >= block or _ITEM.match(line)):
                common[line] -= 1
                dropped.add(at)
    text = "".join(line for at, line in enumerate(lines) if at not in dropped)
    return merge_content(base, replace(sent, text=text), theirs)


def _without_keys(text: str) -> str:
    """Return a text with nothing of its front matter but the items of lists."""
    at = text_start(text)
    return "".join(filter(_ITEM.match, split_lines(text[:at]))) + text[at:]


def has_arrived_in_part(*, base: Content | None, sent: Content, stored: Content) -> bool:
    """Tell whether a note is somewhere on the way from ``base`` (None: not known) to ``sent``, one request after the other."""
    if base is None:
        return False
    wholes = [(one.text, one.title, one.trash) for one in (base, sent, stored)]
    if any(now not in (old, new) for old, new, now in zip(*wholes, strict=True)):
        return False
    return _is_between(*({("", tag) for tag in one.tags} for one in (base, sent, stored))) and (
        _is_between(*map(_values_of, (base, sent, stored)))
    )


def _is_between(base: set[Any], sent: set[Any], stored: set[Any]) -> bool:
    return base & sent <= stored <= base | sent


def _values_of(content: Content) -> set[tuple[str, Any]]:
    """Return each value of each property; a text stands for a value that reads so."""
    return {
        (name, shown_value(one))
        for name, value in content.properties.items()
        for one in (value if isinstance(value, tuple) else (value,))
    }


def settle(
    *,
    base: Content,
    sent: Content,
    displaced: Content | None,
    held: Content,
    once: bool = False,
) -> Repair:
    """Bring together texts of which the store kept only the last.

    ``displaced`` is what our write has overwritten, ``held`` what the store has now: our write, or
    another one over it. Somebody else's text stays in the note where two cannot be merged; ours becomes
    a copy. The displaced one becomes a copy as well if there are two others. ``held`` may be the store's own form of our text
    if nothing was displaced: merging the two could repeat a change, so ours becomes a copy if both changed one place.
    ``once``: others may have brought the lines of ``sent``, too; see ``merge_repair``.
    """
    content, copies_theirs = held, False
    merge = merge_repair if once else merge_content
    if displaced is not None and held == sent:
        content = displaced
    elif displaced is not None and _is_over(held, base=base, sent=sent):
        # Merged with the base once more, ours would stand there twice.
        ours = merge(base, sent, displaced)
        both = merge(sent, ours, held) if ours is not None else None
        return Repair(both or held, copies_theirs=both is None)
    elif displaced is not None:
        merged = merge(base, displaced, held)
        content, copies_theirs = merged or held, merged is None
    both = merge(base, sent, content)
    doubtful = displaced is None and both is not None and both.text != held.text
    if doubtful and _change_same_place(base.text, sent.text, held.text):
        both = None
    return Repair(both or content, both is None, copies_theirs)


def _is_over(held: Content, *, base: Content, sent: Content) -> bool:
    """Tell whether who wrote ``held`` has seen what we sent: nothing of it is missing."""
    fields = replace(held, text=sent.text) == sent
    return fields and contains_change(base=base, sent=sent, stored=held)


def _change_same_place(base: str, sent: str, held: str) -> bool:
    """Tell whether both texts changed lines at one place of the base, and not the same; not if ours only takes lines away that the other one has."""
    old, ours, theirs = map(_without_ends, (base, sent, held))
    others = find_changes(old, theirs)
    return any(
        mine.low <= other.high
        and other.low <= mine.high
        and ours[mine.start : mine.stop] != theirs[other.start : other.stop]
        and not (mine.deletes_only and other.adds_only)
        for mine in find_changes(old, ours)
        for other in others
    )


def with_lost_tags(*, base: Content, sent: Content, stored: Content) -> Content:
    """Apply our change of everything but the text again to what the store holds."""
    return Content(
        text=stored.text,
        tags=merge_tags(base.tags, sent.tags, stored.tags),
        trash=sent.trash if sent.trash != base.trash else stored.trash,
        title=sent.title if sent.title != base.title else stored.title,
        properties=merge_properties(base.properties, sent.properties, stored.properties),
    )


def differences(*, sent: Content, stored: Content) -> str:
    """Describe where the store holds something else than was sent, by line numbers; "" if nowhere."""
    texts = () if sent.text == stored.text else (sent.text, stored.text)
    lines = [
        line
        for change in (find_changes(*map(split_lines, texts)) if texts else ())
        for line in range(change.low + 1, max(change.high, change.low + 1) + 1)
    ]
    parts = [_name_lines(lines)] if lines else []
    parts += ["tags"] if sent.tags != stored.tags else []
    parts += ["trash"] if sent.trash != stored.trash else []
    parts += ["title"] if sent.title != stored.title else []
    parts += sorted(sent.properties.differing(stored.properties))
    return ", ".join(parts)


def _name_lines(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers[:MOST_LINES]))
    more = len(numbers) - MOST_LINES
    return (
        ("lines " if numbers[1:] else "line ") + named + (f" and {more} more" if more > 0 else "")
    )
