"""Which tags a note may be given. Pure.

Tags hold no white space and no comma, and ``Work`` and ``work`` are one tag. What a note already
carries stays as it is, however odd: other clients have put it there. A tag that is an e-mail address
shares the note with that person; what the service takes for one is for it to say, so every tag counts that
could be one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from mcp_notarium.domain.text_normalization import tag_key
from mcp_notarium.errors import InvalidRequest

MOST_TAGS = 100
LONGEST_TAG = 256

_BREAKS = re.compile(r"[\s,\x00-\x1f\x7f]+")
_ADDRESS = re.compile(r"[^@]@+[^@]")
"""Something on both sides: also ``"a@b"@example.org`` and ``name@host``, but not ``@home``."""


def checked_tags(wanted: Sequence[str], *, present: Sequence[str] = ()) -> tuple[str, ...]:
    """The tags to store: trimmed, each once, in the order given.

    Raises ``InvalidRequest`` for a *new* tag that is empty, too long, or holds white space or a
    comma, and for more than 100 tags where the note had fewer.
    """
    if tuple(wanted) == tuple(present):
        return tuple(present)
    kept: dict[str, str] = {}
    spelled = {tag_key(tag): tag for tag in reversed(present)}
    for tag in wanted:
        name = tag if tag in present else _name(tag)
        kept.setdefault(tag_key(name), spelled.get(tag_key(name), name))
    if len(kept) > max(MOST_TAGS, len(present)):
        raise InvalidRequest(
            f"A note can have at most {MOST_TAGS} tags.",
            details={"tags": len(kept)},
            resolution_hint="Leave some out; nothing was saved.",
        )
    return tuple(kept.values())


def _name(tag: str) -> str:
    name = tag.strip()
    if not name:
        raise InvalidRequest("A tag is empty.", resolution_hint="Leave it out.")
    if len(name) > LONGEST_TAG:
        raise InvalidRequest(
            f"A tag is longer than {LONGEST_TAG} characters.",
            resolution_hint="Shorten it; nothing was saved.",
        )
    if _BREAKS.search(name):
        raise InvalidRequest(
            "A tag cannot hold white space or a comma.",
            resolution_hint=f'Write it as one word, like "{_BREAKS.sub("-", name)[:60]}", '
            "or as several tags.",
        )
    return name


def new_addresses(wanted: Sequence[str], *, present: Sequence[str]) -> tuple[str, ...]:
    """The e-mail addresses among ``wanted`` that the note is not shared with yet."""
    known = {tag_key(tag) for tag in present}
    return tuple(tag for tag in wanted if tag_key(tag) not in known and _may_be_address(tag))


def _may_be_address(tag: str) -> bool:
    """In any width of letters: who takes full-width ones for plain ones shares by them too."""
    return _ADDRESS.search(unicodedata.normalize("NFKC", tag)) is not None
