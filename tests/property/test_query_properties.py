from __future__ import annotations

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_notarium.errors import QueryError
from mcp_notarium.search.folding import (
    CONTEXT,
    fold,
    grams,
    inner_words,
    is_run,
    pieces,
    spaced,
    supplement,
)
from mcp_notarium.search.fts_expression import build_match
from mcp_notarium.search.parser import parse
from mcp_notarium.search.query import And, Condition, Not, Or, Phrase, Query, Ranked, Tagged, Word
from mcp_notarium.search.query_expansion import unit_of
from mcp_notarium.search.sql_builder import build
from mcp_notarium.search.stemming import completions, spelling, stem
from support.long import LONG
from support.search_index import Entry, SearchTables

TOKENS = st.sampled_from(
    [
        *["one", "two", "tree", "trees", "running", "Café", "cafe", "Łódź", "lodz", "straße"],
        *["strasse", "Việt", "viet", "ёж", "еж", "don't", "project-x", "2024", "007", "026481"],
        *["\ue000026481", "\ue000"],
        *[
            "東京",
            "京",
            "東京都",
            "สวัสดี",
            "한글",
            "😀",
            "🎉😀",
            "iPhone手机",
            "手机",
            "++",
            "->",
            "©",
        ],
        *["AND", "NOT", "or", "a_b", "x\u0301", "ﬁn", "fin", "100₽", "\ufffd", "²"],
        *["l'arte", "arte", "aB", "ab", "user's", "2016-01-21", "21.1.2016", "21 Januar 2016"],
    ]
)
GLUE = st.sampled_from([" ", " ", " ", ", ", "-", ""])
SYNTAX = st.sampled_from([*"\"-*:^(){}+\0'|~ \n", "OR", "tag:", "before:", "NEAR(", "\ud800"])
TYPED = st.one_of(
    st.text(st.characters() | st.characters(categories=["Cs"])),
    st.lists(TOKENS | SYNTAX | GLUE, max_size=14).map("".join),
)


@st.composite
def note_texts(draw):
    """A few words over some lines, sometimes with a stretch of plain text in the middle."""
    words = draw(st.lists(TOKENS, max_size=7))
    text = "".join(word + draw(GLUE | st.just("\n")) for word in words)
    plain = draw(st.sampled_from([0, 0, CONTEXT - 1, 2 * CONTEXT, 2 * CONTEXT + 1, 40]))
    if not plain:
        return text
    more = "".join(word + draw(GLUE) for word in draw(st.lists(TOKENS, max_size=4)))
    return text + draw(GLUE | st.just("\n")) + "fill " * plain + "\n" + more


BARE_WORDS = st.builds(Word, TOKENS, st.booleans()).filter(
    lambda word: build_match(word) is not None
)


@st.composite
def conditions(draw, depth=2):
    leaf = st.one_of(
        st.builds(Word, TOKENS),
        st.builds(Word, TOKENS, st.just(True)),
        st.builds(Phrase, st.lists(TOKENS, min_size=1, max_size=3).map(" ".join)),
        st.builds(Tagged, st.sampled_from(["a", "B"])),
        st.builds(Ranked, st.lists(BARE_WORDS, min_size=2, max_size=3).map(tuple)),
    )
    kind = draw(st.sampled_from(["leaf", "leaf", "not", "and", "or"])) if depth else "leaf"
    if kind == "leaf":
        return draw(leaf)
    if kind == "not":
        return Not(draw(conditions(depth=depth - 1)))
    parts = tuple(draw(st.lists(conditions(depth=depth - 1), min_size=2, max_size=3)))
    return And(parts) if kind == "and" else Or(parts)


ENTRIES = st.lists(
    st.builds(
        Entry,
        note_texts(),
        st.lists(st.sampled_from(["A", "b"]) | TOKENS, max_size=2, unique=True).map(tuple),
        st.integers(0, 5),
        st.integers(0, 5),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


# --- the oracle: goes through every note, knows nothing of indexes ---


def in_a_row(wanted: list[str], have: list[str], *, prefix: bool) -> bool:
    """Whether the pieces stand in ``have``; a run at either end may be part of a longer one."""
    last = len(wanted) - 1

    def fits(index: int, there: str) -> bool:
        piece = wanted[index]
        if not is_run(piece) or not is_run(there):
            both_words = not is_run(piece) and not is_run(there)
            return both_words and same(there, piece, prefix=prefix and index == last)
        if index == 0:
            return piece in there if last == 0 else there.endswith(piece)
        return there.startswith(piece) if index == last else piece == there

    starts = range(len(have) - last)
    return any(all(fits(i, have[at + i]) for i in range(len(wanted))) for at in starts)


def same(have: str, wanted: str, *, prefix: bool) -> bool:
    if not prefix:
        return stem(have) == stem(wanted)
    completed = {stem(word) for word in completions(wanted)}
    return stem(have).startswith(stem(spelling(wanted))) or stem(have) in completed


def holds(condition: Condition | None, entry: Entry, *, in_tags: bool = True) -> bool:  # noqa: PLR0911  # one per kind
    match condition:
        case None:
            return True
        case Not(inner):
            return not holds(inner, entry, in_tags=in_tags)
        case And(parts):
            return all(holds(part, entry, in_tags=in_tags) for part in parts)
        case Ranked(parts) | Or(parts):
            return any(holds(part, entry, in_tags=in_tags) for part in parts)
        case Tagged(tag):
            return tag.lower() in map(str.lower, entry.tags)
        case Word(text, prefix):
            unit = None if prefix else unit_of(text)
            return any(
                has_text(entry, spelling, prefix=prefix, in_tags=in_tags)
                for spelling in (unit.spellings if unit else (text,))
            )
        case Phrase(text):
            return has_text(entry, text, prefix=False, in_tags=in_tags)


def has_text(entry: Entry, text: str, *, prefix: bool, in_tags: bool) -> bool:
    wanted = pieces(fold(text))
    if not wanted:
        return text in entry.text
    said = [entry.text, *inner_words(entry.text)]
    if in_tags:
        said += [*entry.tags, *map(spaced, entry.tags)]
    return any(has_pieces(pieces(fold(part)), wanted, prefix=prefix) for part in said)


def has_pieces(have: list[str], wanted: list[str], *, prefix: bool) -> bool:
    without_pictures = [piece for piece in have if any(map(str.isalnum, piece))]
    if any(map(is_run, wanted)):
        return in_a_row(wanted, have, prefix=prefix)
    return any(in_a_row(wanted, row, prefix=prefix) for row in (have, without_pictures))


def matches(query: Query, entry: Entry) -> bool:
    tags = {tag.lower() for tag in entry.tags}
    return (
        holds(query.terms, entry, in_tags=query.in_tags)
        and query.trash in {"any", "trashed" if entry.trash else "active"}
        and all(tag.lower() in tags for tag in query.tags)
        and not any(tag.lower() in tags for tag in query.excluded_tags)
        and (query.after is None or entry.modified_at >= query.after)
        and (query.before is None or entry.modified_at < query.before)
        and (query.created_after is None or entry.created_at >= query.created_after)
        and (query.created_before is None or entry.created_at < query.created_before)
    )


TAGS = st.lists(st.sampled_from(["a", "B", "c"]), max_size=2).map(tuple)
QUERIES = st.builds(
    Query,
    terms=st.none() | conditions(),
    tags=TAGS,
    excluded_tags=TAGS,
    before=st.none() | st.integers(0, 6),
    after=st.none() | st.integers(0, 6),
    created_before=st.none() | st.none() | st.integers(0, 6),
    created_after=st.none() | st.none() | st.integers(0, 6),
    trash=st.sampled_from(["active", "trashed", "any"]),
    in_tags=st.booleans(),
    sort_by=st.sampled_from(["modified_at", "created_at"]),
    sort_order=st.sampled_from(["ASC", "DESC"]),
)


@given(ENTRIES, QUERIES)
@settings(max_examples=120 if LONG else 50, deadline=None)
def test_search_finds_what_a_linear_scan_finds(entries, query):
    tables = SearchTables(entries)
    try:
        expected = {pk for pk, entry in enumerate(entries, 1) if matches(query, entry)}
        assert set(tables.found(query)) == expected
        assert tables.counted(query) in {None, len(expected)}
    finally:
        tables.close()


@given(ENTRIES, st.none() | conditions())
@settings(max_examples=60, deadline=None)
def test_search_with_terms_only_finds_what_a_linear_scan_finds(entries, terms):
    """As above, without filters that leave little to compare."""
    tables = SearchTables(entries)
    try:
        query = Query(terms=terms, trash="any")
        expected = {pk for pk, entry in enumerate(entries, 1) if holds(terms, entry)}
        assert set(tables.found(query)) == expected
    finally:
        tables.close()


@given(ENTRIES, QUERIES)
@settings(max_examples=30, deadline=None)
def test_without_text_the_order_is_the_sort(entries, query):
    tables = SearchTables(entries)
    plain = Query(sort_by=query.sort_by, sort_order=query.sort_order, trash=query.trash)
    try:
        found = tables.found(plain)
    finally:
        tables.close()
    sign = -1 if query.sort_order == "DESC" else 1
    keys = [(sign * getattr(entries[pk - 1], query.sort_by), -sign * pk) for pk in found]
    assert keys == sorted(keys)


SMALL = SearchTables([Entry("one two ++ 東京 Łódź", ("a",)), Entry("", (), trash=True)])


@given(TYPED)
@example('"')
@example("\0")
@example('"\0"')
@example('-"" OR *')
@example("NEAR(a b, 2)")
@example("{text} : a")
@example("a AND")
@example("\u0301")
@example("\U00010ffff")
@settings(max_examples=250 if LONG else 100, deadline=None)
def test_any_typed_text_runs_or_is_a_query_error(text):
    with suppress(QueryError):
        query = parse(text)
        statements = build(query, limit=5)
        rows = SMALL.run(statements.rows)
        if statements.count is not None:
            assert SMALL.run(statements.count) == [(len(rows),)]


@given(TYPED, TYPED)
def test_arguments_of_any_text_parse_or_are_a_query_error(text, argument):
    with suppress(QueryError):
        assert isinstance(parse(text, tags=[argument], before=argument, after=argument), Query)
    with suppress(QueryError):
        assert isinstance(parse(text, tags=[argument], trash=argument), Query)


@given(st.text())
def test_folding_twice_changes_nothing_more(text):
    assert fold(fold(text)) == fold(text)
    assert supplement(text) == supplement(text.replace("\r", "\r"))


@given(st.text(), st.text())
def test_lines_fold_each_for_itself(one, other):
    assert fold(f"{one}\n{other}") == f"{fold(one)}\n{fold(other)}"


@given(st.text(st.sampled_from("東京都会議"), min_size=1), st.data())
def test_every_part_of_a_run_is_a_phrase_of_its_grams(run, data):
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    have, wanted = grams(run), grams(part)
    if len(part) == 1:
        assert any(token.startswith(wanted[0]) for token in have)
    else:
        pairs = wanted[:-1]
        assert pairs in [have[at : at + len(pairs)] for at in range(len(have))]


WORDS = """
abilities administration analysis analyze automatically automation boxes businesses cities
communication configured databases engineering happiness happy hopefulness meetings
nationalization optimizer organizational poly polymer ponies relational relativity responsibility
running studies troubling universities utilities
"""
ENGLISH = st.sampled_from(WORDS.split())


@given(ENGLISH, st.data())
@settings(deadline=None)
def test_every_beginning_of_a_word_finds_it_as_a_prefix(word, data):
    prefix = word[: data.draw(st.integers(1, len(word)))]
    tables = SearchTables([Entry(f"some {word} here")])
    try:
        assert tables.found(parse(f"{prefix}*")) == [1]
    finally:
        tables.close()
