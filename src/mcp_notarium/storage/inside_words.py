"""Look inside words, among the terms of the index: for ``fahrt`` in ``Schifffahrt``, and for its parts if no note has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_notarium.search.folding import words_only
from mcp_notarium.search.fts_expression import match_terms
from mcp_notarium.search.ranking import Kind, Piece, Sought
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.vocabulary import Vocabulary

_SHORTEST_PART = 3
_SHORTEST_BESIDE_WORDS = 4
_SHORTEST_REST = 3
_SHORTEST_OF_COMPOUND = 4
_JOINTS = ("", "s", "es", "n", "en")
"""What may stand between the words of a compound."""
_MOST_BESIDE_WORDS = 200
_MOST_TERMS = 1000


def look_inside(vocabulary: Vocabulary, one: Sought) -> Sought:
    """Add what is looked for inside words: compounds beside a word that few notes have, else any part of a word."""
    folded = words_only(one.text)
    if not folded.isalnum() or one.text.endswith("*"):
        return one
    terms = _compounds(vocabulary, folded) if one.notes else _inside(vocabulary, folded)
    if terms:
        return replace(one, pieces=(*one.pieces, Piece(match_terms(terms), Kind.INSIDE)))
    if one.notes or one.whole is not one.pieces[-1]:
        return one
    parts = (Piece(match_terms([term]), Kind.PART) for term in _parts(vocabulary, folded))
    return replace(one, pieces=(*one.pieces, *parts))


def _parts(vocabulary: Vocabulary, folded: str) -> Sequence[str]:
    """Return the two terms that a compound is made of, the most alike in length; nothing if it is none."""
    found: list[tuple[str, str]] = []
    for cut in range(_SHORTEST_OF_COMPOUND, len(folded) - _SHORTEST_OF_COMPOUND + 1):
        first, last = folded[:cut], stem(folded[cut:])
        joints = (joint for joint in _JOINTS if first.endswith(joint))
        firsts = (stem(first.removesuffix(joint)) for joint in joints)
        if vocabulary.has(last):
            found += (
                (one, last) for one in firsts if len(one) >= _SHORTEST_PART and vocabulary.has(one)
            )
    return max(found, key=lambda both: min(map(len, both)), default=())


def _compounds(vocabulary: Vocabulary, folded: str) -> Sequence[str]:
    if len(folded) < _SHORTEST_BESIDE_WORDS:
        return []
    own = stem(folded)
    terms = vocabulary.containing(folded, limit=_MOST_BESIDE_WORDS)
    return [term for term in terms if term != own and _is_compound(term, folded)]


def _inside(vocabulary: Vocabulary, folded: str) -> Sequence[str]:
    if len(folded) < _SHORTEST_PART:
        return []
    terms = vocabulary.containing(folded, limit=_MOST_TERMS)
    if not terms and len(stem(folded)) > _SHORTEST_PART:
        # A compound is stemmed at its end: "Hausbesitzers" is in the index as "hausbesitz".
        cut = stem(folded)
        inside = vocabulary.containing(cut, limit=_MOST_TERMS)
        terms = [term for term in inside if term.endswith(cut)]
    return terms


def _is_compound(term: str, part: str) -> bool:
    """Tell whether the part ends a compound (perhaps inflected) or begins one, in which others begin anew."""
    before = term.find(part)
    after = len(term) - before - len(part)
    return before >= _SHORTEST_REST or (before == 0 and after >= _SHORTEST_REST)
