"""``SearchIndex``: one page of the notes a query asks for, and how many there are.

What a query means in SQL stands in ``search/sql_builder.py``; this runs it. When words find nothing it
looks once more inside words (``fahrt`` in ``Schifffahrt``) and says so; for misspelt words it
offers words that do find something within the same limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mcp_notarium.domain.preview import preview
from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.search.folding import fold, words_only
from mcp_notarium.search.query import Query, Word
from mcp_notarium.search.sql_builder import Place, Statements, build, words_of
from mcp_notarium.search.sql_counts import KEPT
from mcp_notarium.search.stemming import spelling, stem
from mcp_notarium.storage.connection import Database, Row
from mcp_notarium.storage.count_cache import Totals
from mcp_notarium.storage.page_positions import ListingPlaces, Places
from mcp_notarium.storage.vocabulary import Vocabulary

MOST_RANKED = 1000
"""Hits of one word alone that are ranked. Ranking takes three times as long as finding, and says little
where a word stands in a thousand notes; beyond that the newest come first."""

PASSED_PER_HIT = 3
"""Notes that are passed along an index in less time than one is looked up in another (a fifth to a tenth
each): so many more than a tag has are walked in vain without much being lost."""

_SHORTEST_PART = 3
_MOST_EXPANSIONS = 1000
_MOST_CANDIDATES = 12
_MOST_PREVIEWED = 16_384
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Summary:
    """A note in a listing. ``head`` is the preview: its first lines, cut and without blank ones."""

    id: str
    head: str
    local_version: int
    server_version: int | None
    tags: tuple[str, ...]
    modified_at: int
    created_at: int
    trash: bool
    pinned: bool
    total_lines: int


@dataclass(frozen=True, slots=True)
class Found:
    """One page. ``total`` counts all pages; ``inside_words``: no whole word matched."""

    notes: list[Summary]
    total: int
    inside_words: bool = False


def most_passed(hits: int, notes: int, wanted: int) -> int:
    """How many notes to walk past for ``wanted`` of ``hits`` among them; 0 where that is not likely to be enough."""
    # Spread evenly, they are had after half of this.
    return PASSED_PER_HIT * hits if 2 * wanted * notes <= PASSED_PER_HIT * hits * hits else 0


class SearchIndex:
    """Searches one cache. Reads only. ``written`` grows with every change of notes through ``database``."""

    def __init__(self, database: Database, *, written: Callable[[], int]) -> None:
        self._db = database
        self._totals = Totals(database, written=written)
        self._places = Places(database, written=written)
        self._vocabulary = Vocabulary(database)

    def find(self, query: Query, *, limit: int, offset: int = 0, preview_lines: int = 1) -> Found:
        """``limit`` notes after the first ``offset``, in the order the query asks for."""
        places = self._places.of(query, up_to=offset + limit)
        statements = self._statements(query, limit, offset, places.nearest(offset))
        found = self._page(query, statements, limit, offset, places)
        if not found.total and (inside := self._expansions(query)):
            wider = build(query, limit=limit, offset=offset, expansions=inside)
            found = self._page(query, wider, limit, offset, None)
            # Said of hits only: a word that is inside no note there may be one of a note that is gone.
            found = replace(found, inside_words=found.total > 0)
        if preview_lines > 1:
            found = replace(found, notes=self._with_longer_heads(found.notes, preview_lines))
        return found

    def suggest(self, word: str, *, within: Query | None = None, limit: int = 3) -> list[str]:
        """Words spelled almost like this one that do find something, best first.

        ``within`` gives the limits that hold (tags, dates, trash); its terms do not matter. A word
        that stands only in notes outside of them is never offered.
        """
        found: list[str] = []
        wanted = words_only(replace_surrogates(word))
        for term in self._nearby(wanted) if wanted.isalnum() else ():
            spelled = self._as_written(term, within or Query())
            if spelled and spelled not in found and fold(spelled) != wanted:
                found.append(spelled)
            if len(found) == limit:
                break
        return found

    def _statements(self, query: Query, limit: int, offset: int, place: Place | None) -> Statements:
        """The cheapest way to a page: along an index, from its nearer end; ranked where that tells much."""
        ahead = offset - (place.offset if place else 0)
        from_end = ahead > 0 and ahead + offset > self._db.number(KEPT[query.trash])
        page = partial(build, query, limit=limit, offset=offset, from_end=from_end, place=place)
        statements = page()
        if statements.hits is not None and self._totals.of(statements.hits) > MOST_RANKED:
            unranked = page(ranked=False)
            return replace(statements, rows=unranked.rows, walked=unranked.walked)
        if statements.named and (most := self._most_passed(query, statements, ahead + limit)):
            return page(most_passed=most)
        return statements

    def _most_passed(self, query: Query, statements: Statements, wanted: int) -> int:
        """As :func:`most_passed`; what is dear is not counted where the tags alone have too few notes."""
        notes, most = self._db.number(KEPT[query.trash]), 0
        for count in (statements.named, statements.count):
            most = most_passed(self._totals.of(count) if count else 0, notes, wanted)
            if not most:
                break
        return most

    def _page(
        self,
        query: Query,
        statements: Statements,
        limit: int,
        offset: int,
        places: ListingPlaces | None,
    ) -> Found:
        rows = self._db.rows(statements.rows.sql, statements.rows.parameters)
        if statements.otherwise and len(rows) < limit:
            rows = self._db.rows(statements.otherwise.sql, statements.otherwise.parameters)
        if places is not None and statements.walked:
            places.note(offset, rows)
        notes = [_summary(row) for row in rows]
        return Found(notes, self._total(query, statements, len(rows), limit, offset))

    def _total(
        self, query: Query, statements: Statements, rows: int, limit: int, offset: int
    ) -> int:
        if rows < limit and (rows or not offset):
            return offset + rows  # the last page: nothing to count
        if statements.hits is not None and statements.hits_in_trash is not None:
            hits, in_trash = map(self._totals.of, (statements.hits, statements.hits_in_trash))
            # Another process may write between the two.
            return max(hits - in_trash, offset + rows if rows else 0)
        if statements.count is not None:
            return self._totals.of(statements.count)
        return self._db.number(KEPT[query.trash])

    def _expansions(self, query: Query) -> dict[str, list[str]]:
        """For each word asked for: the index terms that have it inside."""
        inside = {}
        for word in words_of(query):
            folded = words_only(word)
            if len(folded) >= _SHORTEST_PART:
                inside[word] = self._inside(folded)
        return {word: terms for word, terms in inside.items() if terms}

    def _inside(self, folded: str) -> list[str]:
        terms = self._vocabulary.containing(folded, limit=_MOST_EXPANSIONS)
        if not terms and len(stem(folded)) > _SHORTEST_PART:
            # A compound is stemmed at its end: "Hausbesitzers" is in the index as "hausbesitz".
            cut = stem(folded)
            inside = self._vocabulary.containing(cut, limit=_MOST_EXPANSIONS)
            terms = [term for term in inside if term.endswith(cut)]
        return terms

    def _nearby(self, word: str) -> list[str]:
        near = self._vocabulary.near(word, limit=_MOST_CANDIDATES)
        stemmed = stem(word)
        if stemmed != word:
            near += self._vocabulary.near(stemmed, limit=_MOST_CANDIDATES)
        return list(dict.fromkeys(near))

    def _as_written(self, term: str, within: Query) -> str | None:
        """A whole word of a note within the limits whose stem is this index term."""
        query = replace(within, terms=Word(spelling(term)))
        statements = build(query, limit=1, expansions={spelling(term): [term]})
        row = self._db.row(statements.rows.sql, statements.rows.parameters)
        if row is None:
            return None
        text = self._db.row("SELECT text FROM notes WHERE pk = ?", (row[0],))
        words = dict.fromkeys(_WORD.findall(text[0])) if text else ()
        return next((word.lower() for word in words if stem(fold(word)) == term), None)

    def _with_longer_heads(self, notes: Sequence[Summary], lines: int) -> list[Summary]:
        ids = json.dumps([note.id for note in notes])
        texts: dict[str, str] = dict(self._db.rows(_BEGINNINGS, (_MOST_PREVIEWED, ids)))
        return [replace(note, head=preview(texts.get(note.id, note.head), lines)) for note in notes]


def _summary(row: Row) -> Summary:
    return Summary(
        id=row[1],
        local_version=row[2],
        server_version=row[3],
        modified_at=row[4],
        created_at=row[5],
        trash=bool(row[6]),
        pinned=bool(row[7]),
        tags=tuple(json.loads(row[8])),
        head=row[9],
        total_lines=row[10],
    )


_BEGINNINGS = """
SELECT n.id, substr(n.text, 1, ?) FROM json_each(?) AS wanted JOIN notes n ON n.id = wanted.value
"""
