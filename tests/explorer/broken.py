"""Define what tells that something which must hold does not, and what words are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_notarium.domain.note import Content


class Broken(AssertionError):
    """Something that must hold does not. The words before the first colon say what; a story begins to be told there."""


def words_of(text: str) -> list[str]:
    """Return the words of a text: a store may put marks of Markdown beside them."""
    return re.findall(r"\w+", text)


def all_words(content: Content) -> str:
    """Return what a note says, and its tags."""
    return " ".join((content.text, *content.tags))
