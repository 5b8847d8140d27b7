"""Searches that were worth writing down, run in SQLite."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.errors import QueryError
from mcp_notarium.search.parser import MAX_TERMS, parse
from mcp_notarium.search.query import Query
from mcp_notarium.search.sql_builder import build, words_of
from support.search_index import Entry, SearchTables

TEXTS = {
    "running": "I was running to the shops",
    "c++": "Write C++ and c# in the morning",
    "project": "The project-x plan: don't panic",
    "projectx": "x marks the project; panic, t don",
    "polish": "Wycieczka do Łodzi\nŁódź jest piękna",
    "lines": "jutro\nŻółw",
    "german": "Die Straße zum Handschuhfach",
    "danish": "Rødgrød med fløde",
    "vietnamese": "Tiếng Việt đẹp",
    "nfd": "Tie\u0302\u0301ng Vie\u0323\u0302t",
    "russian": "Ещё один ёжик, мой",
    "japanese": "東京都の会議メモ iPhone手機 を買う",
    "kana": "ガラス",
    "thai": "สวัสดีครับ ยินดีที่ได้รู้จัก",
    "korean": "안녕하세요 세계",
    "emoji": "party 🎉🎈 time 👩\u200d💻 hello🫠",
    "logic": "AND OR NOT NEAR are words",
    "quoted": 'she said "well: done" (twice) *now* ^here',
    "digits": "call 0026481 or 0026481002014 at 12:30",
    "nul": "before\0after",
    "replaced": "broken \ufffd sign",
    "organization": "organization of databases",
    "empty": "",
    "tagged": "nothing but words",
    "nested": "leaves, twigs",
}


TAGS = ("secretword", "Café", "大阪出張", "Dienstreise", "łódzkie", "two words", "project-z")
TAGGED = {"tagged": TAGS, "nested": ("Nest/Deep",)}


@pytest.fixture(scope="module")
def tables():
    tables = SearchTables(
        Entry(text, tags=TAGGED.get(name, ()), modified_at=number)
        for number, (name, text) in enumerate(TEXTS.items())
    )
    yield tables
    tables.close()


def found(tables, text):
    names = list(TEXTS)
    return {names[pk - 1] for pk in tables.found(parse(text))}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("run", {"running"}),
        ("RUNS shop", {"running"}),
        ("project-x", {"project"}),
        ('"project x"', {"project"}),
        ("don't", {"project"}),
        ("don\u2019t", {"project"}),
        ("project AND panic", {"project", "projectx"}),
        ("project panic", {"project", "projectx", "tagged"}),
        ("lodz", {"polish"}),
        ("ŁÓDŹ", {"polish"}),
        ("lodzi piekna", {"polish"}),
        ('"lodzi lodz jest"', {"polish"}),
        ('"jutro żółw"', {"lines"}),
        ("strasse", {"german"}),
        ("STRASSE", {"german"}),
        ("straße", {"german"}),
        ("rodgrod", {"danish"}),
        ("rødgrød flode", {"danish"}),
        ("viet", {"vietnamese", "nfd"}),
        ("tiếng", {"vietnamese", "nfd"}),
        ("Vie\u0323\u0302t", {"vietnamese", "nfd"}),
        ("dep", {"vietnamese"}),
        ("еще", {"russian"}),
        ("ещё ежик", {"russian"}),
        ("мои", set()),
        ("東", {"japanese"}),
        ("東京", {"japanese"}),
        ("京都の会", {"japanese"}),
        ("議メ", {"japanese"}),
        ("東都", set()),
        ("会議 東京", {"japanese"}),
        ("iPhone", {"japanese"}),
        ("iphone手機", {"japanese"}),
        ("手機iphone", set()),
        ('"メモ iphone"', {"japanese"}),
        ('"モ iphone手"', {"japanese"}),
        ('"会議 iphone"', set()),
        ("東*", {"japanese"}),
        ("ip手*", set()),
        ("iphone手*", {"japanese"}),
        ("-東 メモ", set()),
        ("ｶﾞﾗｽ", {"kana"}),
        ("カ", set()),
        ("ครับ", {"thai"}),
        ("ยินดี", {"thai"}),
        ("세요", {"korean"}),
        ("🎉", {"emoji"}),
        ("🎈", {"emoji"}),
        ("🎉🎈", {"emoji"}),
        ("🎈🎉", set()),
        ("👩", {"emoji"}),
        ("👩\u200d💻", {"emoji"}),
        ("hello", {"emoji"}),
        ("party -🎉", set()),
        ("AND", {"c++", "logic"}),
        ("not near", {"logic"}),
        ("not AND NEAR(are AND words", {"logic"}),
        ("OR", {"digits", "logic"}),
        ('"well: done" *now*', {"quoted"}),
        ("well:done ^here (twice)", {"quoted"}),
        ('"say', set()),
        ("0026481", {"digits"}),
        ("00264*", {"digits"}),
        ("12:30", {"digits"}),
        ("before\0after", {"nul"}),
        ("before after", {"nul"}),
        ("\ufffd", {"replaced"}),
        ("++", {"c++"}),
        ("c++", {"c++"}),
        ("#", {"c++"}),
        ('"++" OR strasse', {"c++", "german"}),
        ("++ -morning", set()),
        ('morning -strasse -"++"', set()),
        ("secretword", {"tagged"}),
        ("secretwo*", {"tagged"}),
        ("cafe nothing", {"tagged"}),
        ('"secretword cafe"', set()),
        ("words -secretword", {"logic"}),
        ("dienstreise", {"tagged"}),
        ("出張", {"tagged"}),
        ("lodzkie", {"tagged"}),
        ('"two words"', {"tagged"}),
        ("project-z", {"tagged"}),
        ("0026481002014", {"digits"}),
        ("handschuh", set()),
        ("handschuh*", {"german"}),
        ("organiz*", {"organization"}),
        ("databas*", {"organization"}),
        ("runni*", {"running"}),
        ("running*", {"running"}),
        ("pan*", {"project", "projectx"}),
        ("project-pl*", set()),
        ("x-pl*", {"project"}),
        ('"iphone*"', {"japanese"}),
        ("tag:secretword", {"tagged"}),
        ("tag:SECRETWORD tag:cafe\u0301", {"tagged"}),
        ("tag:cafe", set()),
        ("tag:nest", {"nested"}),
        ("tag:nest/deep OR tag:cafe", {"nested"}),
        ("tag:nes", set()),
        ("tag:deep", set()),
        ("twigs -tag:nest", set()),
        ("nothing -tag:secretword", set()),
        ("tag:secretword OR strasse", {"tagged", "german"}),
        ("tag:secretword OR tag:other", {"tagged"}),
        ("run OR strasse -zum", {"running"}),
        ("run OR -words", set(TEXTS) - {"logic", "tagged"}),
    ],
)
def test_search_finds(tables, text, names):
    assert found(tables, text) == names
    count = tables.counted(parse(text))
    assert count == len(names)


@pytest.mark.parametrize("text", ["secretword", "出張", "lodzkie", "secretwo*", '"two words"'])
def test_tags_are_no_words_where_they_may_not_be_seen(tables, text):
    names = list(TEXTS)
    query = replace(parse(f"nothing AND {text}"), in_tags=False)
    assert tables.found(query) == []
    query = replace(parse(f"nothing -{text}"), in_tags=False)
    assert [names[pk - 1] for pk in tables.found(query)] == ["tagged"]
    assert tables.found(replace(parse(f"-{text}"), in_tags=False)) == list(range(len(TEXTS), 0, -1))


def test_a_word_in_the_heading_counts_more_than_in_the_text():
    entries = [
        Entry("filler and more filler\n" + "Soup, soup and soup again, so much soup.\n"),
        Entry("\n Soup\nfiller and more filler of the same length, here as there and so on.\n"),
        Entry("word " * 60 + "soup\n"),
    ]
    with closing(SearchTables(entries)) as tables:
        assert tables.found(parse("soup")) == [2, 1, 3]


def test_only_exclusions_find_everything_else(tables):
    assert found(tables, "-strasse") == set(TEXTS) - {"german"}
    assert found(tables, '-strasse -"running to"') == set(TEXTS) - {"german", "running"}
    assert found(tables, '-"++"') == set(TEXTS) - {"c++"}


def test_a_lone_surrogate_in_the_query_finds_what_was_stored_for_one(tables):
    assert found(tables, "\ud800") == {"replaced"}


def test_a_word_of_many_forms_is_one_match_expression():
    for text in ["a b", '"a b" c', "pre* x", "a OR b", "a -b", "東京 x", "iPhone手機 OR łódź"]:
        rows = build(parse(text), limit=1).rows
        assert rows.sql.count("MATCH") == 1, text
        assert "instr" not in rows.sql


def test_typed_text_is_never_in_the_sql():
    typed = (
        "Zq1 \"Zq2 x\" Zq3* -Zq4 tag:Zq5 -tag:Zq6 Zq7 OR tag:Zq8 Zq9'; AND ';-- AND ++ OR '\";--"
    )
    for statement in (build(parse(typed), limit=7).rows, build(parse(typed), limit=7).count):
        assert "zq" not in statement.sql.lower()
        assert not re.search(r"['\";]", statement.sql)
        assert statement.sql.count("?") == len(statement.parameters)


def test_a_sort_that_is_none_is_not_built():
    with pytest.raises(KeyError):
        build(Query(sort_by="pk; DROP TABLE notes"), limit=1)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(KeyError):
        build(Query(sort_order="?"), limit=1)  # type: ignore[arg-type]  # on purpose


# --- order, pages, counts ---


@pytest.fixture(scope="module")
def shelf():
    shelf = SearchTables(
        Entry(
            text="rare " * (number % 4 == 0) + f"common word {number % 2}",
            tags=("even",) * (number % 2 == 0) + ("Three",) * (number % 3 == 0),
            modified_at=1000 - number // 2 * 10,
            created_at=number % 7,
            trash=number % 10 == 9,
        )
        for number in range(40)
    )
    yield shelf
    shelf.close()


ACTIVE = [pk for pk in range(1, 41) if pk % 10]


def test_the_plain_listing_is_last_changed_first_and_takes_the_kept_count(shelf):
    assert shelf.found(Query()) == ACTIVE
    assert shelf.counted(Query()) == len(ACTIVE)
    assert shelf.found(Query(sort_order="ASC")) == ACTIVE[::-1]
    assert shelf.found(Query(trash="trashed")) == [10, 20, 30, 40]
    assert shelf.found(Query(trash="any")) == list(range(1, 41))


def test_created_at_sorts_with_equals_in_a_fixed_order(shelf):
    expected = sorted(ACTIVE, key=lambda pk: (-((pk - 1) % 7), pk))
    assert shelf.found(Query(sort_by="created_at")) == expected
    assert shelf.found(Query(sort_by="created_at", sort_order="ASC")) == expected[::-1]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "common",
        "tag:even",
        "common tag:three",
        "-rare",
        "-rare -word",
        '-rare -"no such phrase"',
        "-tag:even",
        "-tag:even -tag:three",
        "-tag:none",
        "-rare -tag:even",
        "-rare -++",
        "-rare after:1970-01-01",
    ],
)
@pytest.mark.parametrize("trash", ["active", "trashed", "any"])
def test_pages_join_to_the_whole_and_the_count_is_its_length(shelf, text, trash):
    query = parse(text, trash=trash)
    whole = shelf.found(query)
    pages = [shelf.found(query, limit=7, offset=offset) for offset in range(0, 49, 7)]
    assert [pk for page in pages for pk in page] == whole
    assert shelf.counted(query) == len(whole)
    assert shelf.found(query, limit=7, offset=1000) == []


def test_the_best_match_comes_first_and_the_sort_decides_between_equals():
    entries = [
        Entry("rare word" if number % 3 == 0 else "other word", modified_at=-number)
        for number in range(9)
    ]
    with closing(SearchTables(entries)) as tables:
        assert tables.found(parse("rare OR word")) == [1, 4, 7, 2, 3, 5, 6, 8, 9]
        ascending = parse("rare OR word", sort_order="ASC")
        assert tables.found(ascending) == [7, 4, 1, 9, 8, 6, 5, 3, 2]


@pytest.mark.parametrize(
    ("query", "pks"),
    [
        (Query(tags=("EVEN",)), [pk for pk in ACTIVE if pk % 2]),
        (Query(tags=("even", "three")), [pk for pk in ACTIVE if pk % 6 == 1]),
        (Query(excluded_tags=("even", "three")), [pk for pk in ACTIVE if pk % 6 in {0, 2, 3, 5} and not (pk % 2 or pk % 3 == 1)]),
        (Query(after=900), [pk for pk in ACTIVE if 1000 - (pk - 1) // 2 * 10 >= 900]),
        (Query(before=900), [pk for pk in ACTIVE if 1000 - (pk - 1) // 2 * 10 < 900]),
        (Query(after=900, before=900), []),
        (Query(created_after=3, created_before=5), [pk for pk in ACTIVE if (pk - 1) % 7 in {3, 4}]),
        (Query(created_after=3, tags=("even",)), [pk for pk in ACTIVE if pk % 2 and (pk - 1) % 7 >= 3]),
        (Query(tags=("even",), after=900, trash="any"), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21]),
    ],
)  # fmt: skip
def test_filters_narrow(shelf, query, pks):
    assert shelf.found(query) == pks
    assert shelf.counted(query) == len(pks)


@pytest.mark.parametrize(
    "text", ["common", "rare OR common", "-rare", "common -rare", "tag:even OR rare"]
)
@pytest.mark.parametrize(
    "narrow",
    [
        {},
        {"tags": ("even",)},
        {"excluded_tags": ("three",)},
        {"after": 850, "before": 950},
        {"created_after": 2, "created_before": 5},
        {"tags": ("even",), "before": 950, "trash": "any"},
        {"trash": "trashed"},
    ],
)
def test_text_and_filters_meet(shelf, text, narrow):
    """What both find apart is what they find together."""
    terms = parse(text).terms
    trash = narrow.get("trash", "active")
    by_text = set(shelf.found(Query(terms=terms, trash=trash)))
    both = set(shelf.found(Query(terms=terms, **narrow)))
    assert both == by_text & set(shelf.found(Query(**narrow)))
    assert shelf.counted(Query(terms=terms, **narrow)) == len(both)


def test_a_row_brings_what_a_listing_shows():
    long = Entry("x" * 3000, ("Tag",), modified_at=5, created_at=4)
    with closing(SearchTables([long])) as tables:
        row = tables.run(build(Query(), limit=1).rows)[0]
        assert row == ("id1", 1, 5, 0, '["Tag"]', None, "x" * 80, "{}", 1)


# --- how SQLite goes about it ---

QUERIES = [
    None, "word", "two words", '"a phrase"', "pre*", "a OR b", "-word", "a OR -b", "tag:x",
    "-tag:x", "tag:x OR tag:y", "word tag:x", "word -tag:x", "東京", "before:2024-01-01",
    "word after:2024-01-01 tag:x", "tag:x after:2024-01-01", "created:2024", "word created:2024",
]  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("trash", [0, 1, 2])
@pytest.mark.parametrize("sort_by", ["modified_at", "created_at"])
def test_the_wide_table_is_read_for_the_page_only(shelf, text, trash, sort_by):
    statements = build(parse(text, trash=trash, sort_by=sort_by), limit=20)
    steps = shelf.plan(statements.rows)
    wide = [step for step in steps if re.match(r"(SCAN|SEARCH) (m|n|notes|wide)\b", step)]
    # Searching n by rowid is the join of the page with its rows; nothing else may do it.
    assert [step for step in wide if "COVERING INDEX" not in step] == [
        "SEARCH n USING INTEGER PRIMARY KEY (rowid=?)"
    ]
    counting = shelf.plan(statements.count)
    assert [step for step in counting if re.search(r" (m|n|notes|wide)\b", step)] == [
        step for step in counting if re.search(r" (m|notes) USING COVERING INDEX", step)
    ]


def test_the_first_page_of_a_plain_listing_sorts_nothing(shelf):
    for order in ("ASC", "DESC"):
        steps = shelf.plan(build(Query(sort_order=order), limit=20).rows)
        deciding = steps[: steps.index("SCAN page")]
        assert not [step for step in deciding if "TEMP B-TREE" in step]


def test_text_is_looked_into_after_everything_an_index_can_decide():
    for text in ("++ -tag:x", "++ OR -word tag:x", '-"++" -word -tag:x'):
        sql = build(parse(text), limit=1).rows.sql
        assert sql.index("instr") > sql.rindex("note_tags")


def test_a_text_search_passes_the_index_once_also_with_tags_and_never_asks_note_by_note(shelf):
    for text in ("word", "word tag:x", "word trash:yes"):
        statements = build(parse(text), limit=20)
        # The number of active notes is that of all hits without those in the trash.
        for statement, passes in ((statements.rows, 1), (statements.count, 1 + (text == "word"))):
            virtual = [step for step in shelf.plan(statement) if "VIRTUAL TABLE" in step]
            assert len(virtual) == passes
            # An equals sign would be a search per note that the tag names.
            assert not [step for step in virtual if "=" in step]


# --- limits of FTS5 ---


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"{letter}runni*" for letter in "abcdefghijklmnopqrstuvwxyz" * 2),
        " OR ".join(f"w{number}" for number in range(MAX_TERMS // 2)),
        " ".join(f"-w{number}" for number in range(MAX_TERMS)),
        " ".join(f"w{number} OR -v{number}" for number in range(MAX_TERMS // 3)),
        '"' + "a " * 2000 + '"',
        "東" * 4096,
        "x" * 4096,
        '"' + "東x" * 2000 + '"',
        " ".join("ł*" for _ in range(MAX_TERMS)),
    ],
)
def test_the_largest_queries_run(shelf, text):
    query = parse(text)
    shelf.found(query)
    shelf.counted(query)


# --- inside words ---


def test_words_of_are_the_plain_positive_words():
    query = parse('fach Łódź "a phrase" pre* -gone project-x 東京 ++ tag:t one OR two fach 2024')
    assert words_of(query) == ("fach", "Łódź", "2024", "one", "two")
    assert words_of(Query()) == ()


def test_a_query_error_is_all_a_bad_filter_raises():
    with pytest.raises(QueryError):
        parse("before:2024-02-30")
