"""Find one page of the notes a query asks for, also inside words, and count all of them.

``search/sql_builder.py`` turns a query into SQL; this module runs it. It looks once more inside words
(``fahrt`` in ``Schifffahrt``) if words find little, puts what that finds behind the rest, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from mcp_notarium.domain.lines import preview
from mcp_notarium.domain.note import NONE, Properties
from mcp_notarium.markup.front_block import shown_part
from mcp_notarium.search import ranking
from mcp_notarium.search.folding import words_only
from mcp_notarium.search.fts_expression import match_terms
from mcp_notarium.search.query import And, Query, Word
from mcp_notarium.search.ranking import Kind, Piece, Sought, bare_words, strict_conditions
from mcp_notarium.search.ranking_sql import ROWS
from mcp_notarium.search.snippets import Snippet, Term, find_snippet, terms_of
from mcp_notarium.search.sql_builder import build, words_of
from mcp_notarium.search.stemming import stem
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.ranked_search import (
    Hits,
    Page,
    count_words,
    find_hits,
    find_permitted,
    is_filtered,
    is_long,
)
from mcp_notarium.storage.spelling import Spelled, Speller, correct, suggest
from mcp_notarium.storage.vocabulary import Vocabulary

_SHORTEST_PART = 3
_SHORTEST_BESIDE_WORDS = 4
_SHORTEST_REST = 3
_SHORTEST_OF_COMPOUND = 4
_JOINTS = ("", "s", "es", "n", "en")
"""Letters that may stand between the words of a compound."""
_MOST_BESIDE_WORDS = 200
_MOST_TERMS = 1000


def look_inside(vocabulary: Vocabulary, one: Sought) -> Sought:
    """Add what is looked for inside words: compounds as well as a word that few notes have, else any part of a word."""
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
    """Tell whether the part ends a compound (perhaps inflected) or begins one, in which others begin again."""
    before = term.find(part)
    after = len(term) - before - len(part)
    return before >= _SHORTEST_REST or (before == 0 and after >= _SHORTEST_REST)


_STRICT = 0.5
"""Weight of a strict condition for the best place in a text: it holds in every hit."""
_MOST_NEAR = 50
"""Notes that count as near to a question by meaning."""
_MOST_PREVIEWED = 16_384
_MOST_EXPLAINED = 262_144
"""Characters of a text, at most, in which the place of a hit is looked for."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Hold a note of a listing."""

    id: str
    local_version: int
    modified_at: int
    trash: bool
    tags: tuple[str, ...]
    title: str | None
    head: str
    """The preview of its text: the first lines, cut, without blank ones."""
    properties: Properties = NONE
    match: Snippet | None = None
    """Place of the query's words, if not all of them stand in title, ``head`` and tags."""
    lacks: tuple[str, ...] = ()
    by_meaning: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Hold one page of ``size`` notes."""

    notes: list[Summary]
    total: int
    """Number of notes on all pages."""
    inside_words: bool = False
    """Some match inside words only."""
    have_all: int | None = None
    """Number of notes that lack no word; None: all."""
    size: int = 0
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Misspelt words as typed, and what they were searched as, too."""
    suggestions: Sequence[str] = ()
    """Possible meanings of words that found nothing or little."""
    read: bool = True
    """The terms of all notes were known."""

    @property
    def is_short(self) -> bool:
        """Tell whether no note has all that was asked for."""
        return not (self.total if self.have_all is None else self.have_all)


class Nearest(Protocol):
    """Find notes by meaning (``meaning/``)."""

    async def find_nearest(
        self, text: str, *, most: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, float]]:
        """Return the nearest notes (pk, cosine), best first; ``among``: of these notes only."""


class SearchIndex:
    """Search the notes of one cache. Reads only; what takes long does not hold up the event loop."""

    def __init__(self, database: Database, vocabulary: Vocabulary) -> None:
        self._db = database
        self._vocabulary = vocabulary
        self._speller = Speller(database, vocabulary)
        self.meaning: Nearest | None = None

    async def find(
        self,
        query: Query,
        *,
        limit: int,
        offset: int = 0,
        short_page: int | None = None,
        preview_lines: int = 1,
        corrects: bool = True,
    ) -> Found:
        """Return ``limit`` notes after the first ``offset``, in the order the query asks for, with what matches in each.

        ``short_page``: the number of a page, from 1, instead of an offset; a page has fewer notes if the others match less
        well. ``corrects``: misspelt words are also searched as what they mean, and others suggested.
        """
        if query.terms is not None and (words := bare_words(query)):
            page = Page(limit, offset, short_page)
            return await self._find_ranked(
                query, words, page, preview_lines=preview_lines, corrects=corrects
            )
        if short_page is not None:
            offset = (short_page - 1) * limit
        found = self.find_words(
            query, limit=limit, offset=offset, preview_lines=preview_lines, explain=True
        )
        if found.total or not corrects or not words_of(query):
            return found
        read = await self._vocabulary.refresh()
        near = await suggest(self._speller, Spelled([], read), words_of(query), within=query)
        return replace(found, suggestions=near, read=read)

    async def _find_ranked(
        self, query: Query, words: Sequence[Word], page: Page, *, preview_lines: int, corrects: bool
    ) -> Found:
        sought = count_words(self._db, query, words)
        read = None
        if any(one.notes < ranking.FEW for one in sought):
            read = await self._vocabulary.refresh()
            sought = [
                look_inside(self._vocabulary, one) if one.notes < ranking.FEW else one
                for one in sought
            ]
        spelled = Spelled(sought, read)
        if corrects:
            spelled = await correct(self._speller, sought, within=query, read=read)
            sought = spelled.sought
        near: list[int] = []
        if self.meaning is not None:
            asked = ranking.typed_words(query)
            among = None
            if is_filtered(query):
                among = await self._db.run_aside(partial(find_permitted, query=query))
            found_near = await self.meaning.find_nearest(asked, most=_MOST_NEAR, among=among)
            near = [pk for pk, _ in found_near]
        work = partial(_find_rows, query=query, sought=sought, page=page, near=near)
        hits, rows = await self._db.run_aside(work) if is_long(sought) else work(self._db)
        before = page.begin(hits.size)
        by_pk = {row[-1]: row for row in rows}
        found = [(hit, by_pk[hit.pk]) for hit in hits.notes if hit.pk in by_pk]
        terms = ranking.places_of(sought, inside=any(hit.inside for hit, _ in found))
        terms += terms_of(And(tuple(map(Word, spelled.corrected.values()))))
        terms += (replace(one, weight=_STRICT) for one in terms_of(And(strict_conditions(query))))
        notes = self._show([row for _, row in found], preview_lines, terms)
        lacking = [
            replace(note, lacks=hit.lacks, by_meaning=hit.by_meaning)
            if hit.lacks or hit.by_meaning
            else note
            for note, (hit, _) in zip(notes, found, strict=True)
        ]
        by_words = hits.total - hits.near
        if by_words:
            spelled.unknown.clear()
        others = () if by_words or not corrects else words_of(query)
        suggested = await suggest(self._speller, spelled, others, within=query)
        return Found(
            lacking,
            _at_least(hits.total, before, notes),
            inside_words=any(hit.inside for hit in hits.notes),
            have_all=hits.have_all if hits.have_all < hits.total else None,
            size=hits.size,
            corrected=spelled.corrected if by_words else {},
            suggestions=suggested,
            read=spelled.read is not False,
        )

    def find_words(
        self,
        query: Query,
        *,
        limit: int,
        offset: int = 0,
        preview_lines: int = 1,
        explain: bool = False,
    ) -> Found:
        """Return what :meth:`find` does, of whole words only."""
        statements = build(query, limit=limit, offset=offset)
        total = self._db.number(statements.count.sql, statements.count.parameters)
        rows = self._db.rows(statements.rows.sql, statements.rows.parameters)
        terms = terms_of(query.terms) if explain and query.terms is not None else ()
        notes = self._show(rows, preview_lines, terms)
        return Found(notes, _at_least(total, offset, notes))

    def _show(self, rows: Sequence[Row], lines: int, terms: Sequence[Term]) -> list[Summary]:
        notes = list(map(_summary, rows))
        if lines > 1:
            notes = self._lengthen_heads(notes, lines)
        return self._explain(notes, terms) if terms else notes

    def _explain(self, notes: Sequence[Summary], terms: Sequence[Term]) -> list[Summary]:
        texts = self._read_beginnings(notes, _MOST_EXPLAINED)
        return [
            replace(note, match=find_snippet(texts.get(note.id, ""), terms, shown=_shown(note)))
            for note in notes
        ]

    def _read_beginnings(self, notes: Sequence[Summary], characters: int) -> dict[str, str]:
        ids = json.dumps([note.id for note in notes])
        return dict(self._db.rows(_BEGINNINGS, (characters, ids)))

    def _lengthen_heads(self, notes: Sequence[Summary], lines: int) -> list[Summary]:
        texts = self._read_beginnings(notes, _MOST_PREVIEWED)
        return [
            replace(note, head=preview(shown_part(texts.get(note.id, note.head)), lines))
            for note in notes
        ]


def _find_rows(
    database: Database, *, query: Query, sought: Sequence[Sought], page: Page, near: Sequence[int]
) -> tuple[Hits, list[Row]]:
    """Return one page of hits, and their rows, as they are at one moment."""
    with database.moment():
        hits = find_hits(database, query, sought, page=page, near=near)
        pks = json.dumps([hit.pk for hit in hits.notes])
        return hits, database.rows(ROWS, (pks,))


def _at_least(total: int, offset: int, notes: Sequence[Summary]) -> int:
    """Return the total, or what is there if another process has written since it was counted."""
    return max(total, offset + len(notes)) if notes else total


def _shown(note: Summary) -> str:
    return "\n".join((note.title or "", note.head, *note.tags))


def _summary(row: Row) -> Summary:
    note_id, local_version, modified_at, trash, tags, title, head, properties, _ = row
    known, are_set = tuple(json.loads(tags)), Properties.from_json(properties)
    return Summary(note_id, local_version, modified_at, bool(trash), known, title, head, are_set)


_BEGINNINGS = """
SELECT n.id, substr(n.text, 1, ?) FROM json_each(?) AS wanted JOIN notes n ON n.id = wanted.value
"""
