"""Define what tells that something which must hold does not."""

from __future__ import annotations


class Broken(AssertionError):
    """Something that must hold does not. The words before the first colon say what; a story begins to be told there."""
