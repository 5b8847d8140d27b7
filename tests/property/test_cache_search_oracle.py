"""Compare the search with a scan of all notes and their tags: nothing missing, nothing too much."""

import functools
import random
import re

import pytest

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.search import ranking
from mcp_notarium.search.folding import fold, gram_runs
from mcp_notarium.search.parser import parse
from mcp_notarium.search.stemming import stem
from mcp_notarium.search.stop_words import stop_words
from support import corpus
from support.cache_room import find, make, store

NOTES = list(corpus.revisions(600, seed=7, mix=corpus.MOTLEY))
WORD = re.compile(r"[^\W_]+")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


@functools.cache
def token(word):
    """What the index makes of a word."""
    return stem(fold(word))


@functools.cache
def is_plain(word):
    """Whether the word is one word to the index, and worth asking for."""
    return not gram_runs(fold(word)) and len(word) > 1


def words(text):
    return [word for word in WORD.findall(text) if is_plain(word)]


def in_a_row(text):
    return " " + " ".join(map(token, WORD.findall(text))) + " "


def apart(said):
    """The words of identifiers, each of these for itself."""
    return [HUMP.sub(" ", word) for word in WORD.findall(said) if HUMP.search(word)]


TYPED = {note.id: (note.content.text, *note.content.tags) for note in NOTES}
SAID = {
    note_id: [*typed, *(row for said in typed for row in apart(said))]
    for note_id, typed in TYPED.items()
}
FOLDED = {note_id: "\n".join(map(fold, said)) for note_id, said in SAID.items()}
IN_A_ROW = {note_id: "|".join(map(in_a_row, said)) for note_id, said in SAID.items()}
TOKENS = {note_id: set(row.replace("|", " ").split()) for note_id, row in IN_A_ROW.items()}


def has_word(note, word):
    """Whether the note has the word, or its parts in a row (``SyntaxError``, ``syntax error``)."""
    return token(word) in TOKENS[note.id] or has_phrase(note, HUMP.sub(" ", word))


def has_phrase(note, phrase):
    return in_a_row(phrase) in IN_A_ROW[note.id]


def expected(condition, *, trash=False):
    return {note.id for note in NOTES if note.content.trash is trash and condition(note)}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("oracle"))
    store(made, NOTES)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def whole_words(monkeypatch):
    """Parts of compounds have a test of their own."""
    monkeypatch.setattr(ranking, "FEW", 1)


def found(cache, text):
    page = find(cache, parse(text), limit=len(NOTES), corrects=False)
    assert page.total == len(page.notes)
    return set() if page.inside_words else {summary.id for summary in page.notes}


def sample(things, count):
    unique = sorted(set(things))
    return random.Random(5).sample(unique, min(count, len(unique)))


def all_words():
    return [word for said in SAID.values() for part in said for word in words(part)]


def test_every_word_finds_exactly_the_notes_that_have_it(cache):
    asked = sample(all_words(), 150)
    wrong = [
        word
        for word in asked
        if found(cache, word) != expected(lambda note, word=word: has_word(note, word))
    ]
    assert wrong == []
    assert len(asked) == 150


def is_compound(term, part):
    before = term.find(part)
    after = len(term) - before - len(part)
    return before >= 3 or (before == 0 and after >= 3)


def test_few_whole_words_are_followed_by_exactly_the_compounds(cache, monkeypatch):
    monkeypatch.setattr(ranking, "FEW", 30)
    words = [word for word in all_words() if word.isascii()]
    wrong, longer = [], 0
    for word in sample(
        [*words, *(word[:5] for word in words), *(word[-5:] for word in words)], 400
    ):
        part = fold(word)
        whole = expected(lambda note, word=word: has_word(note, word))
        in_trash = expected(lambda note, word=word: has_word(note, word), trash=True)
        if not whole or len(whole | in_trash) >= 30 or len(part) < 4:
            continue
        terms = {t for said in TOKENS.values() for t in said if part in t and is_compound(t, part)}
        every = whole | expected(lambda note, terms=terms: terms & TOKENS[note.id])
        page = [note.id for note in find(cache, parse(word), limit=len(NOTES)).notes]
        longer += every > whole
        if (set(page[: len(whole)]), set(page)) != (whole, every):
            wrong.append(word)
    assert wrong == []
    assert longer > 3


def test_words_with_accents_are_found_with_and_without_them(cache):
    accented = sample([word for word in all_words() if fold(word) != word.casefold()], 60)
    wrong = [
        spelled
        for word in accented
        for spelled in (word, fold(word), word.upper())
        if found(cache, spelled) != expected(lambda note, word=word: has_word(note, word))
    ]
    assert wrong == []
    assert len(accented) > 30


def test_two_words_with_and_find_exactly_the_notes_that_have_both(cache):
    wrong = []
    for one, other in pairs_of_words():
        both = expected(lambda note, a=one, b=other: has_word(note, a) and has_word(note, b))
        if found(cache, f"{one} AND {other}") != both:
            wrong.append((one, other))
    assert wrong == []


def pairs_of_words():
    dice = random.Random(3)
    most = len(NOTES) / 2
    pool = [
        word
        for word in sample(all_words(), 200)
        if not stop_words([word]) and sum(has_word(note, word) for note in NOTES) <= most
    ]
    return [dice.sample(pool, 2) for _ in range(80)]


def test_two_words_find_exactly_the_notes_that_have_one_and_say_what_each_lacks(cache):
    wrong, few = [], 0
    for words in pairs_of_words():
        holders = [expected(lambda note, word=word: has_word(note, word)) for word in words]
        both, either = holders[0] & holders[1], holders[0] | holders[1]
        wanted = both if len(both) >= ranking.FEWEST else either
        page = find(cache, parse(" ".join(words)), limit=len(NOTES), corrects=False)
        lacks = {note.id: set(note.lacks) for note in page.notes}
        right = {
            note_id: {word for word, has in zip(words, holders, strict=True) if note_id not in has}
            for note_id in wanted
        }
        few += 0 < len(both) < len(either)
        have_all = page.total if page.have_all is None else page.have_all
        if (lacks, page.total, have_all) != (right, len(wanted), len(both)):
            wrong.append(words)
    assert wrong == []
    assert few > 3


def test_the_strict_parts_of_a_query_hold_for_every_hit(cache):
    wrong = []
    for one, other in pairs_of_words():
        either = expected(lambda note, a=one, b=other: has_word(note, a) or has_word(note, b))
        python = expected(lambda note: has_word(note, "python"))
        if found(cache, f"{one} {other} -python") != either - python:
            wrong.append((one, other))
        work = expected(lambda note: "work" in map(tag_key, note.content.tags))
        if found(cache, f"{one} {other} tag:work") != either & work:
            wrong.append((one, other))
    assert wrong == []


def test_a_phrase_finds_exactly_the_notes_that_have_its_words_in_a_row(cache):
    dice = random.Random(4)
    wrong, asked = [], 0
    for note in dice.sample(NOTES, 150):
        line = dice.choice([line for line in note.content.text.splitlines() if line.strip()])
        pieces = re.findall(r"[^\W_]+(?: [^\W_]+){1,2}", line)
        pieces = [piece for piece in pieces if all(map(is_plain, piece.split(" ")))]
        if not pieces:
            continue
        phrase = dice.choice(pieces)
        asked += 1
        if found(cache, f'"{phrase}"') != expected(lambda note, p=phrase: has_phrase(note, p)):
            wrong.append(phrase)
    assert wrong == []
    assert asked > 60


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_scripts_without_spaces_are_found_like_by_reading(cache, length):
    dice = random.Random(length)
    runs = sorted({run for folded in FOLDED.values() for run in gram_runs(folded)})
    runs = [run for run in runs if len(run) >= length]
    wrong = []
    for run in dice.choices(runs, k=60):
        start = dice.randrange(len(run) - length + 1)
        piece = run[start : start + length]
        if found(cache, piece) != expected(lambda note, piece=piece: piece in FOLDED[note.id]):
            wrong.append(piece)
    assert wrong == []


@pytest.mark.parametrize("tag", [*corpus.TAGS, "tag-3-7", "WORK", "Reading LIST"])
def test_a_tag_finds_exactly_the_notes_that_carry_it(cache, tag):
    carried = expected(lambda note: tag_key(tag) in map(tag_key, note.content.tags))
    assert found(cache, f'tag:"{tag}"') == carried
    assert found(cache, f'-tag:"{tag}"') == expected(lambda _: True) - carried


def test_the_trash_has_its_own_answers(cache):
    for word in sample(all_words(), 40):
        in_trash = expected(lambda note, word=word: has_word(note, word), trash=True)
        assert found(cache, f"{word} trash:yes") == in_trash
        assert not in_trash & found(cache, word)
