from __future__ import annotations

import pytest

from mcp_notarium.errors import QueryError
from mcp_notarium.search.parser import MAX_CHARACTERS, MAX_TERMS, find_unknown_filters, parse
from mcp_notarium.search.query import And, InFolder, Not, Or, Phrase, Query, Ranked, Tagged, Word

DAY = 86_400
MAY_1 = 1_714_521_600


@pytest.mark.parametrize("text", [None, "", "  \t\n", '""', '-""', '"  "', "*", "**", " * "])
def test_nothing_asked_for_is_the_plain_listing(text):
    assert parse(text) == Query()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("word", Word("word")),
        ("two words", Ranked((Word("two"), Word("words")))),
        ("a b* c", Ranked((Word("a"), Word("b", prefix=True), Word("c")))),
        ('"a phrase"', Phrase("a phrase")),
        ('say "a phrase"', And((Word("say"), Phrase("a phrase")))),
        ("“curly quotes”", Phrase("curly quotes")),
        ("-word", Not(Word("word"))),
        ('-"a phrase"', Not(Phrase("a phrase"))),
        ("a OR b", Or((Word("a"), Word("b")))),
        ("a OR b OR c", Or((Word("a"), Word("b"), Word("c")))),
        ("x a OR b y", And((Ranked((Word("x"), Word("y"))), Or((Word("a"), Word("b")))))),
        ('a "x y" b', And((Ranked((Word("a"), Word("b"))), Phrase("x y")))),
        ("x a AND b y", And((Ranked((Word("x"), Word("y"))), Word("a"), Word("b")))),
        ("a b AND c", And((Word("a"), Word("b"), Word("c")))),
        ("a OR -b", Or((Word("a"), Not(Word("b"))))),
        ('"a b" OR c', Or((Phrase("a b"), Word("c")))),
        ("pre*", Word("pre", prefix=True)),
        ("pre**", Word("pre", prefix=True)),
        ("-pre*", Not(Word("pre", prefix=True))),
        ("東*", Word("東", prefix=True)),
        ('"whole"*', Phrase("whole")),
        ("tag:a OR tag:b", Or((Tagged("a"), Tagged("b")))),
        ("a OR -tag:b", Or((Word("a"), Not(Tagged("b"))))),
        ("path:a OR path:b/c", Or((InFolder("a"), InFolder("b/c")))),
        ("a OR -path:b", Or((Word("a"), Not(InFolder("b"))))),
        ("a AND b", And((Word("a"), Word("b")))),
        ("a NOT b", And((Word("a"), Not(Word("b"))))),
        ("a AND NOT b", And((Word("a"), Not(Word("b"))))),
        ('NOT "a b"', Not(Phrase("a b"))),
        ("a OR NOT b", Or((Word("a"), Not(Word("b"))))),
        ("a OR b AND c", And((Or((Word("a"), Word("b"))), Word("c")))),
        ("* a", Word("a")),
    ],
)
def test_the_language(text, terms):
    assert parse(text) == Query(terms=terms)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("OR", ["OR"]),
        ("OR a", ["OR", "a"]),
        ("a OR", ["a", "OR"]),
        ("a or b", ["a", "or", "b"]),
        ("a and not b", ["a", "and", "not", "b"]),
        ("AND a NOT", ["AND", "a", "NOT"]),
        ("checkin:b said.in:b", ["checkin:b", "said.in:b"]),
        ("NEAR(a b)", ["NEAR(a", "b)"]),
        ("project-x don't", ["project-x", "don't"]),
        ('5" disk', ['5"', "disk"]),
        ('"open quote', ['"open', "quote"]),
        ("^a b:c {d} (e)", ["^a", "b:c", "{d}", "(e)"]),
        ("++ - -- -> -*", ["++", "-", "--", "->", "-*"]),
        ("--verbose", ["--verbose"]),
        ("*.py", ["*.py"]),
        ("++*", ["++*"]),
        ("text:a notes_fts:b", ["text:a", "notes_fts:b"]),
        ("a\0b", ["a\0b"]),
        ("a\ud800", ["a\ufffd"]),
        ('-"', ['-"']),
    ],
)
def test_everything_else_is_words(text, words):
    terms = tuple(map(Word, words))
    assert parse(text).terms == (terms[0] if len(terms) == 1 else Ranked(terms))


def test_a_second_or_sign_is_an_alternative_itself():
    assert parse("a OR OR b").terms == And((Word("b"), Or((Word("a"), Word("OR")))))
    assert parse("a AND AND b").terms == And((Word("b"), Word("a"), Word("AND")))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("tag:work", Query(tags=("work",))),
        ('tag:"two words" TAG:x', Query(tags=("two words", "x"))),
        ("-tag:work", Query(excluded_tags=("work",))),
        ('path:/Work/ PATH:"two words/b"', Query(folders=("Work", "two words/b"))),
        ("-path:Work NOT path:a.md", Query(excluded_folders=("Work", "a.md"))),
        ('-tag:"two words"', Query(excluded_tags=("two words",))),
        ("after:2024-05-01", Query(after=MAY_1)),
        ("before:2024-05-01", Query(before=MAY_1 + DAY)),
        ("after:1969-12-31", Query(after=-DAY)),
        ("before:9999-12-31", Query(before=253_402_300_800)),
        ("before:2024-05-01 before:2024-05-03", Query(before=MAY_1 + DAY)),
        ("after:2024-05-01 after:2024-04-01", Query(after=MAY_1)),
        ("trash:yes", Query(trash="trashed")),
        ("trash:1", Query(trash="trashed")),
        ("trash:true", Query(trash="trashed")),
        ("trash:no", Query(trash="active")),
        ("trash:any", Query(trash="any")),
        ("trash:2", Query(trash="any")),
        ("in:trash", Query(trash="trashed")),
        ("* in:TRASH", Query(trash="trashed")),
        ("is:trashed is:Trash", Query(trash="trashed")),
        ("updated:2024-05-01", Query(after=MAY_1, before=MAY_1 + DAY)),
        ("NOT tag:work", Query(excluded_tags=("work",))),
        ("modified:2024-05-01", Query(after=MAY_1, before=MAY_1 + DAY)),
        ("modified:2024-05", Query(after=MAY_1, before=MAY_1 + 31 * DAY)),
        ("modified:2023", Query(after=MAY_1 - 486 * DAY, before=MAY_1 - 121 * DAY)),
        ("modified:>2024-05-01", Query(after=MAY_1 + DAY)),
        ("modified:>=2024-05", Query(after=MAY_1)),
        ("modified:<2024-05-01", Query(before=MAY_1)),
        ("modified:<=2024-05-01", Query(before=MAY_1 + DAY)),
        ("modified:2024-05-01..2024-05-03", Query(after=MAY_1, before=MAY_1 + 3 * DAY)),
        ("modified:2024-05-01..", Query(after=MAY_1)),
        ("modified:..2024-05-01", Query(before=MAY_1 + DAY)),
        ("modified:9999-12..", Query(after=253_399_622_400)),
        ("modified:>9999", Query()),
        ("created:2024-05-01", Query(created_after=MAY_1, created_before=MAY_1 + DAY)),
        ("created:>2024-05-01 created:>2024-04", Query(created_after=MAY_1 + DAY)),
        ("word tag:a", Query(terms=Word("word"), tags=("a",))),
        ('"tag:a"', Query(terms=Phrase("tag:a"))),
    ],
)
def test_filters(text, query):
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("before:2024-99-99", "YYYY-MM-DD"),
        ("before:2023-02-29", "YYYY-MM-DD"),
        ("after:0000-01-01", "YYYY-MM-DD"),
        ("after:2024-5-1", "YYYY-MM-DD"),
        ("after:\u0662\u0660\u0662\u0664-\u0660\u0665-\u0660\u0661", "YYYY-MM-DD"),
        ("before:yesterday", "YYYY-MM-DD"),
        ("before: 2024-05-01", "YYYY-MM-DD"),
        ("tag:", "tag:name"),
        ('tag:""', "tag:name"),
        ("-tag:", "tag:name"),
        ("path:", "path:Folder"),
        ("-path:/", "path:Folder"),
        ("trash:maybe", "trash:no"),
        ("modified:", "modified:2024"),
        ("modified:today", "modified:2024"),
        ("modified:..", "modified:2024"),
        ("modified:>2024..2025", "modified:2024"),
        ("created:2024-13", "created:2024"),
        ("created:2024-05-32", "created:2024"),
        ("created:0000", "created:2024"),
        ("in:work", "tag:name"),
        ("is:pinned", "is:trashed"),
        ("is:", "is:trashed"),
        ("updated:yesterday", "updated:2024"),
        ("NOT in:trash", "NOT"),
        ("-is:trashed", "minus"),
        ("NOT before:2024-05-01", "NOT"),
        ("-before:2024-05-01", "minus"),
        ("-trash:yes", "minus"),
        ("a OR before:2024-05-01", "OR"),
        ("trash:any OR a", "OR"),
    ],
)
def test_a_filter_written_wrongly_is_refused_with_how_to_write_it(text, expected):
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert expected in f"{caught.value.message} {caught.value.resolution_hint}"


def test_arguments_and_text_narrow_together():
    query = parse(
        "tag:a before:2024-05-03 after:2024-05-01",
        tags=["b"],
        before="2024-05-02",
        after="2024-04-01",
        sort_by="created_at",
        sort_order="ASC",
    )
    assert query == Query(
        tags=("b", "a"),
        before=MAY_1 + 2 * DAY,
        after=MAY_1,
        sort_by="created_at",
        sort_order="ASC",
    )


def test_lone_surrogates_in_arguments_become_what_is_stored_for_them():
    assert parse("tag:\ud800", tags=["\udfff"]).tags == ("\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("argument", "trash"),
    [(0, "active"), (1, "trashed"), (2, "any"), ("trashed", "trashed"), (None, "active")],
)
def test_the_trash_argument_is_the_default_and_the_text_wins(argument, trash):
    assert parse("a", trash=argument).trash == trash
    assert parse("a trash:any", trash=argument).trash == "any"


@pytest.mark.parametrize(
    "arguments",
    [
        {"before": "tomorrow"},
        {"after": "2024-13-01"},
        {"trash": 3},
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments):
    with pytest.raises(QueryError):
        parse(None, **arguments)


def test_queries_are_bounded():
    assert isinstance(parse("a " * MAX_TERMS).terms, Ranked)
    with pytest.raises(QueryError, match="terms"):
        parse("a " * (MAX_TERMS + 1))
    with pytest.raises(QueryError, match="terms"):
        parse("a", tags=["t"] * MAX_TERMS)
    parse("a" * MAX_CHARACTERS)
    with pytest.raises(QueryError, match="characters"):
        parse("a" * (MAX_CHARACTERS + 1))


def test_what_looks_like_a_filter_and_is_none_is_named():
    text = "title:x -author:ada title:y tag:z https://example.org 10:30 note: 'in:trash' a:b"
    assert find_unknown_filters(text) == ["title", "author"]
