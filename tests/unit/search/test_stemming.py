from __future__ import annotations

import random
import re
import sqlite3
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import sqlcipher3.dbapi2

from mcp_notarium.search.folding import fold
from mcp_notarium.search.stemming import completions, spelling, stem

DOCS = Path(__file__).parents[3] / "docs"
ROOTS = "abandon bubbl communic databas easi form gener happi ident jump kiss logic motion nation"
ENDINGS = """
a able ably al alize ally ance ant ate ated ation ational ed eed eing ement ence ency er
ers es esses fulness ful ibility ic ical icate icity ies ing ings ion ism ist ities ity ive iveness
ization ize izer ll lly ly ment ness ness ogical or ous ousness s sses ss tional y ying yed
"""


def _made_up_words():
    chance = random.Random(11)
    letters = "aeiouylstnrgbdz"
    words = {
        "".join(chance.choices(letters, k=chance.randint(1, 9)))
        + chance.choice(["", *ENDINGS.split()])
        for _ in range(30_000)
    }
    words |= {root + ending for root in ROOTS.split() for ending in ENDINGS.split()}
    return sorted(
        words
        | {
            "ies",
            "sses",
            "eed",
            "eeds",
            "yyed",
            "a",
            "by",
            "sky",
            "z" * 70 + "ing",
            "łodies",
            "яed",
            "xяings",
        }
    )


def _written_words():
    """Words of Python's manual and of the pages of this project."""
    pages = [page.read_text("utf-8") for page in DOCS.rglob("*.md")]
    return set(re.findall(r"[^\W_]+", fold(" ".join([*topics.values(), *pages]))))


@pytest.mark.parametrize("driver", [sqlite3, sqlcipher3.dbapi2])
def test_stems_are_those_of_the_index(driver):
    words = sorted(_written_words() | set(_made_up_words()))
    assert len(words) > 30_000
    db = driver.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
    db.executemany("INSERT INTO t(rowid, x) VALUES (?, ?)", enumerate(words))
    stored = {words[row]: term for term, row in db.execute("SELECT term, doc FROM v")}
    db.close()
    assert {word: stem(word) for word in words} == stored


@pytest.mark.parametrize(
    ("prefix", "word"),
    [
        ("organiz", "organization"),
        ("automat", "automation"),
        ("optimi", "optimize"),
        ("runni", "running"),
        ("runn", "running"),
        ("running", "running"),
        ("universit", "universities"),
        ("studyin", "studying"),
        ("study", "study"),
        ("happy", "happy"),
        ("responsibi", "responsibility"),
        ("engineeri", "engineering"),
        ("agree", "agreed"),
        ("ratin", "ratings"),
    ],
)
def test_a_prefix_reaches_words_whose_stem_does_not_begin_so(prefix, word):
    assert not stem(word).startswith(prefix)
    assert stem(word) in map(stem, completions(prefix))


def test_every_beginning_of_a_word_reaches_its_stem():
    @cache
    def reached(prefix):
        return stem(spelling(prefix)), {stem(word) for word in completions(prefix)}

    missed = []
    for word in (root + ending for root in ROOTS.split() for ending in ENDINGS.split()):
        for prefix in (word[:size] for size in range(3, len(word) + 1)):
            beginning, others = reached(prefix)
            if not stem(word).startswith(beginning) and stem(word) not in others:
                missed.append((prefix, word))
    assert missed == []


@pytest.mark.parametrize("prefix", ["thes", "thei", "ins", "bes", "nos", "mes", "des", "los"])
def test_a_prefix_does_not_reach_words_of_every_note(prefix):
    assert {"the", "in", "be", "no", "me", "de", "lo"}.isdisjoint(map(stem, completions(prefix)))


@pytest.mark.parametrize(("form", "word"), [("being", "be"), ("one", "on"), ("use", "us")])
def test_a_whole_form_of_such_a_word_reaches_it(form, word):
    assert word in map(stem, completions(form))


def test_a_prefix_inside_the_stem_needs_no_completion():
    assert completions("qw") == []
    assert completions("x1") == []
    assert completions("é") == []


@pytest.mark.parametrize(
    "term", ["databas", "organ", "happi", "run", "łodz", "gener", "decis", "thes", "los"]
)
def test_a_spelling_of_a_stem_has_that_stem(term):
    assert stem(spelling(term)) == term


def test_nearly_every_stem_has_a_spelling():
    stems = {stem(word) for word in _made_up_words()}
    missed = [term for term in stems if stem(spelling(term)) != term]
    assert len(missed) < len(stems) / 500
