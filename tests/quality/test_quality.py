"""Hold how well ``list`` finds: a change of ranking that answers fewer of the judged queries fails here.

The floors are what was reached, less what chance may take: the lower bound of the interval. Raise them with the
ranking; to lower one, show by ``scripts/bench --rows search --against COMMIT`` what is gained for it (docs/testing.md).
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from mcp_notarium.search import folding
from quality import asked, texts
from quality.plain import PlainIndex
from quality.scoring import Answer, difference, interval, rank, values

QUERIES = texts.queries()
_FEWEST = 20
_GROUPS = {
    "words", "questions", "paraphrases", "typos", "dates", "names", "identifiers", "scripts",
}  # fmt: skip
_LANGUAGES = {"en", "de", "fr", "es", "ru", "zh", "ja"}
_MADE_UP = 1500


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The first page of ``list`` for each query."""
    notes = [*texts.notes(), *texts.beside(_MADE_UP)]
    harness = asked.opened(tmp_path_factory.mktemp("quality"), notes)
    try:
        yield asyncio.run(asked.ask(harness, QUERIES))
    finally:
        harness.close()


def of_group(group, answers):
    places = [at for at, query in enumerate(QUERIES) if group in {"all", query.group}]
    return [answers[at] for at in places], [QUERIES[at] for at in places]


HIT5 = {
    "all": 0.88,
    "words": 0.95,
    "questions": 0.9,
    "paraphrases": 0.41,
    "typos": 0.93,
    "dates": 0.79,
    "names": 0.95,
    "identifiers": 0.9,
    "scripts": 0.83,
}
EMPTY = 0.03
BEYOND = {"AND": 0.4, "OR": 0.1}


@pytest.mark.parametrize("group", HIT5)
def test_a_right_note_is_among_the_first_five(answers, group):
    reached = interval(values("hit@5", *of_group(group, answers)))
    assert reached.value >= HIT5[group], failures(*of_group(group, answers))


def test_few_queries_find_nothing(answers):
    found, asked_ = of_group("all", answers)
    assert interval(values("empty", found, asked_)).value <= EMPTY, failures(found, asked_)


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_more_is_found_than_by_plain_full_text_search(answers, operator):
    """A ranking that asks for all words again finds what AND does, and fails here."""
    index = PlainIndex([*texts.notes(), *texts.beside(_MADE_UP)])
    try:
        plain = [index.ask(query.text, operator) for query in QUERIES]
    finally:
        index.close()
    ours, theirs = (values("hit@5", given, QUERIES) for given in (answers, plain))
    assert difference(ours, theirs).low >= BEYOND[operator]


def failures(answers, queries):
    """Name the queries whose right note is not among the first five."""
    missed = (
        query.text
        for answer, query in zip(answers, queries, strict=True)
        if (rank(answer, query) or 99) > 5
    )
    return "\n".join(missed)


def test_the_set_is_large_enough_to_judge_by():
    sizes = Counter(query.group for query in QUERIES)
    assert set(sizes) == _GROUPS
    assert min(sizes.values()) >= _FEWEST
    assert sum(sizes.values()) >= 200
    assert len({(query.group, query.text) for query in QUERIES}) == len(QUERIES)
    names = [note.name for note in texts.notes()]
    assert len(set(names)) == len(names) >= 120
    assert {name.partition("/")[0] for name in names} == _LANGUAGES


def test_every_word_of_the_group_words_is_in_its_note():
    held = {note.id: folding.fold(note.text) for note in texts.notes()}
    for query in QUERIES:
        if query.group == "words":
            words = folding.fold(query.text).split()
            assert all(all(word in held[one] for word in words) for one in query.wanted), query


def test_an_index_page_holds_more_of_the_words_than_a_right_note():
    """Ranking by the number of words alone is not enough."""
    held = {note.id: set(folding.fold(note.text).split()) for note in texts.notes()}
    indexes = [held[note.id] for note in texts.notes() if set(note.tags) & _INDEX_TAGS]
    beaten = 0
    for query in QUERIES:
        words = set(folding.fold(query.text).split())
        right = max(len(words & held[one]) for one in query.wanted)
        beaten += max(len(words & index) for index in indexes) > right
    assert beaten >= 30


_INDEX_TAGS = {"index", "Verzeichnis", "sommaire", "índice", "оглавление", "目录", "目次"}


def test_plain_full_text_search_finds_what_it_should():
    notes = texts.notes()
    index = PlainIndex(notes)
    try:
        queries = [query for query in QUERIES if query.group == "words"]
        all_words = [index.ask(query.text, "AND") for query in queries]
        assert interval(values("hit@5", all_words, queries)).value == 1.0
        assert index.ask("zzqqx okafor", "AND") == Answer(())
        assert index.ask("zzqqx okafor", "OR").ids
        assert index.ask("?!", "OR") == Answer(())
    finally:
        index.close()


def test_a_rank_is_that_of_the_first_right_note():
    query = texts.Query("words", "x", frozenset({"b", "c"}))
    assert rank(Answer(("a", "c", "b")), query) == 2
    assert rank(Answer(("a",)), query) is None
    answers = [Answer(("a", "c", "b")), Answer(()), Answer(("b",)), Answer(("a",) * 5 + ("b",))]
    scored = {
        measure: values(measure, answers, [query] * 4)
        for measure in ("hit@1", "hit@5", "MRR", "empty")
    }
    assert scored == {
        "hit@1": [0.0, 0.0, 1.0, 0.0],
        "hit@5": [1.0, 0.0, 1.0, 0.0],
        "MRR": [0.5, 0.0, 1.0, 1 / 6],
        "empty": [0.0, 1.0, 0.0, 0.0],
    }


def test_an_interval_holds_the_average_and_narrows_with_more_queries():
    few, many = interval([0.0, 1.0] * 10), interval([0.0, 1.0] * 200)
    assert few.value == many.value == 0.5
    assert few.low < many.low < 0.5 < many.high < few.high
    assert interval([0.0, 1.0] * 10) == few


def test_a_difference_is_taken_in_pairs():
    old = [0.0, 1.0] * 20
    better = [1.0, 1.0, *old[2:]]
    assert difference(old, old).low == difference(old, old).high == 0.0
    assert 0.0 <= difference(better, old).low < difference(better, old).value == 1 / 40
    half = [0.0] * 20 + [1.0] * 20
    assert difference(half, [0.0] * 40).low > 0.3
