"""Check what a save asks for before it is tried: title, tags, section, and whether a new text drops most of the old.

Tags hold no comma, and no white space unless those of the store do. ``Work`` and ``work`` are one tag. Existing tags stay as
they are: other clients have set them. A tag that is an e-mail address shares the note with
that person. The store decides what it takes for an address, so every tag that could be one counts.

A text keeps what both texts contain: whole lines in any order, or runs of three words. So sorting a list,
indenting, and rewording here and there keep a text; writing something else over it does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import shared_ends
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.section_edit import SectionChange
from mcp_notarium.markup.section_names import find_part
from mcp_notarium.tools.requests import PathSaveRequest, SaveRequest
from mcp_notarium.tools.tags import spell_tags

if TYPE_CHECKING:
    from mcp_notarium.app import App

SMALL = 500
"""Texts up to this many characters may be overwritten without asking."""

KEPT_AT_LEAST = 0.1

# Scripts without spaces count by character: Thai to Myanmar, Khmer, kana, Han, Hangul.
_WORDS = re.compile(r"[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")
LONGEST_TITLE = 1000
MOST_TAGS = 100
LONGEST_TAG = 256

_DIGITS = re.compile(r" [0-9a-f]{8}\d*\Z")
_LINE = re.compile(r"\S(?:[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]*\S)?")
"""A line without the blanks at its ends, and no line of blanks only. It ends where ``str.splitlines`` ends one."""
_BREAKS = re.compile(r"[\s,\x00-\x1f\x7f]+")
_BREAKS_OF_WORDS = re.compile(r"[,\x00-\x1f\x7f\x85\u2028\u2029]+")
"""The same where a tag may have several words."""
_ADDRESS = re.compile(r"[^@]@+[^@]")
"""Text on both sides of the sign: also ``"a@b"@example.org`` and ``name@host``, but not ``@home``."""


def check_title(requested: str) -> str | None:
    """Return the title to store, one trimmed line; None for an empty one. Raises ``InvalidRequest`` for a long one."""
    title = " ".join(requested.splitlines()).strip()
    if len(title) > LONGEST_TITLE:
        raise InvalidRequest(
            f"The title has {len(title)} characters; a title can hold {LONGEST_TITLE}.",
            subcategory="too_large",
            http_status_code=413,
            resolution_hint="Shorten it; nothing was saved.",
        )
    return title or None


def compare_titles(asked: str, title: str | None, *, digits: bool) -> str:
    """Return what to say if a note is not called as was asked for, where its title is the name of a file.

    ``digits``: each new name gets some, whether it was free or not.
    """
    if title is None:
        return ""
    last = asked.rpartition("/")[2]
    meant = {_plain(last), _plain(last.rpartition(".")[0])}
    if _plain(title) in meant:
        return ""
    why = ["each new name gets digits while rules may hide notes"] if digits else []
    if not digits or _plain(_DIGITS.sub("", title)) not in meant:
        why.append(
            "no file can be called that" if digits else "no file can be called that, or a note is"
        )
    return f"`title` is not the one you gave: {', and '.join(why)}."


def _plain(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).split())


def check_front_matter(text: str) -> None:
    """Raise ``InvalidRequest`` if the block at the top of a new note is no readable YAML, or never closed."""
    from mcp_notarium.markup.front_matter import NotUnderstood, require_readable  # noqa: PLC0415 - it imports a parser, which few stores need

    try:
        require_readable(text)
    except NotUnderstood:
        raise InvalidRequest(
            "The front matter would not be readable YAML with mere keys and values; nothing was saved.",
            subcategory="front_matter",
            http_status_code=422,
            resolution_hint="Close the block with a second `---` line, and quote values that hold `: `, `#` or "
            "brackets. A line across the page is `***`.",
        ) from None


def check_tags(
    requested: Sequence[str], *, present: Sequence[str] = (), spaced: bool = False
) -> tuple[str, ...]:
    """Return the tags to store: trimmed, each once, in the given order.

    Raises ``InvalidRequest`` for a *new* tag that is empty, too long, or holds a comma or white space
    (``spaced``: a line break), and for more than 100 tags if the note had fewer.
    """
    if tuple(requested) == tuple(present):
        return tuple(present)
    kept: dict[str, str] = {}
    spelled = {tag_key(tag): tag for tag in reversed(present)}
    for tag in requested:
        name = tag if tag in present else _name(tag, spaced=spaced)
        kept.setdefault(tag_key(name), spelled.get(tag_key(name), name))
    if len(kept) > max(MOST_TAGS, len(present)):
        raise InvalidRequest(
            f"A note can have at most {MOST_TAGS} tags.",
            details={"tags": len(kept)},
            resolution_hint="Leave some out; nothing was saved.",
        )
    return tuple(kept.values())


def _name(tag: str, *, spaced: bool) -> str:
    name = tag.strip()
    if not name:
        raise InvalidRequest("A tag is empty.", resolution_hint="Leave it out.")
    if len(name) > LONGEST_TAG:
        raise InvalidRequest(
            f"A tag is longer than {LONGEST_TAG} characters.",
            resolution_hint="Shorten it; nothing was saved.",
        )
    breaks = _BREAKS_OF_WORDS if spaced else _BREAKS
    if breaks.search(name):
        raise InvalidRequest(
            f"A tag cannot hold {'a line break' if spaced else 'white space'} or a comma.",
            resolution_hint=f"Write it like “{breaks.sub('-', name)[:60]}”, or as several tags.",
        )
    return name


def require_meant(emptied: Sequence[str]) -> None:
    """Raise ``InvalidRequest`` for empty values that come with another change and would remove something."""
    if emptied:
        named = " and ".join(f"`{name}`" for name in emptied)
        raise InvalidRequest(
            f"{named} came empty beside another change; nothing was saved.",
            subcategory="arguments",
            resolution_hint="Leave it out to keep what the note has; to remove that, send it in a call of its own.",
        )


def find_new_addresses(requested: Sequence[str], *, present: Sequence[str]) -> tuple[str, ...]:
    """Return the e-mail addresses among ``requested`` that the note is not shared with yet."""
    known = {tag_key(tag) for tag in present}
    return tuple(tag for tag in requested if tag_key(tag) not in known and _may_be_address(tag))


def _may_be_address(tag: str) -> bool:
    """Return whether the tag could be an address; full-width letters count as plain ones."""
    return _ADDRESS.search(unicodedata.normalize("NFKC", tag)) is not None


def drops_most(old: str, new: str) -> bool:
    """Return whether ``new`` loses more than nine tenths of a text that is worth asking about."""
    if len(old) <= SMALL or old in new or not old.strip():
        return False
    if _certainly_kept(old, new) >= KEPT_AT_LEAST * len(old):
        return False
    return _kept_lines(old, new) < KEPT_AT_LEAST and _share_of_runs(old, new) < KEPT_AT_LEAST


def _certainly_kept(old: str, new: str) -> int:
    """Return how many characters of the lines that both texts begin and end with are not blank."""
    head, tail = shared_ends(old, new)
    return len("".join((old[:head] + old[len(old) - tail :]).split()))


def _kept_lines(old: str, new: str) -> float:
    """Return the part of the old lines, by length, that the new text has too."""
    before, after = Counter(_strip_lines(old)), Counter(_strip_lines(new))
    whole = sum(len(line) * times for line, times in before.items())
    kept = sum(len(line) * times for line, times in (before & after).items())
    return kept / whole


def _strip_lines(text: str) -> list[str]:
    return _LINE.findall(text)


def _share_of_runs(old: str, new: str) -> float:
    """Return the part of the old runs of three words that the new text has too."""
    before, after = _runs(old), _runs(new)
    return (before & after).total() / before.total() if before else 0.0


def _runs(text: str) -> Counter[tuple[str, str, str]]:
    words = _WORDS.findall(text)
    return Counter(zip(words, words[1:], words[2:], strict=False))


def check_section(request: SaveRequest, given: list[str]) -> None:
    """Raise ``InvalidRequest`` for a section without a change of it, or a change that no section has."""
    if request.done is not None and request.task is None:
        raise InvalidRequest(
            "`done` was given without `task`.",
            resolution_hint="Give the words of the task, or its line with `local_version`, as `task`.",
        )
    if request.section is None:
        if request.heading is not None:
            raise InvalidRequest(
                "`heading` was given without `section`.",
                resolution_hint="Name the section by its present heading as `section`.",
            )
        return
    if request.id is None:
        raise InvalidRequest(
            "A new note has no section yet.", resolution_hint="Give `id` to change a note."
        )
    if request.heading is not None and isinstance(request, PathSaveRequest) and request.title:
        raise InvalidRequest(
            "`title` and `heading` came in one call; both may change links.",
            resolution_hint="Make two calls.",
        )
    if given in (["text_patch"], ["task"]) or not (given or request.heading is not None):
        raise InvalidRequest(
            "`section` needs one of `append`, `prepend`, `text`, `find` with `replace`, and `heading`.",
            resolution_hint="`text_patch` and `task` find their lines without a `section`.",
        )


def check_tag_changes(request: SaveRequest) -> None:
    """Raise ``InvalidRequest`` for tags that are replaced and changed, or come and go, in one call."""
    if request.tags is not None:
        raise InvalidRequest(
            "`tags` replaces all tags, and stands without `add_tags` and `remove_tags`.",
            resolution_hint="Give `add_tags` and `remove_tags` alone; they leave the other tags.",
        )
    gone = set(map(tag_key, request.remove_tags or ()))
    if any(tag_key(tag) in gone for tag in request.add_tags or ()):
        raise InvalidRequest(
            "A tag is in both `add_tags` and `remove_tags`.", resolution_hint="Decide for one."
        )


def section_change(request: SaveRequest, section: str) -> SectionChange:
    """Return what becomes of the section."""
    return SectionChange(
        section,
        append=request.append,
        prepend=request.prepend,
        text=request.text,
        replacing=None if request.find is None else (request.find, request.replace or ""),
        heading=request.heading,
    )


def section_number(request: SaveRequest, text: str) -> int:
    """Return the number of the section that the request names, in this text; 0: it names none of a heading."""
    part = None if request.section is None else find_part(text, request.section)
    return 0 if part is None or part.section is None else part.section.ordinal


def changed_tags(app: App, request: SaveRequest, held: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags that the note is to have after single ones came and went."""
    gone = set(map(tag_key, spell_tags(app, request.remove_tags or ())))
    kept = tuple(tag for tag in held if tag_key(tag) not in gone)
    here = set(map(tag_key, kept))
    added = spell_tags(app, request.add_tags or ())
    return (*kept, *(tag for tag in added if tag_key(tag.strip()) not in here))
