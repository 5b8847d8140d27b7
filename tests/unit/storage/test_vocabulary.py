"""The terms in memory: what they cost, and how common each is said to be."""

import asyncio
import random
import statistics
import sys
import time

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.search.parser import parse
from support import corpus
from support.cache_room import find, make, store

WORDS = 100_000


def note(number, text):
    return corpus.make(f"id{number}", Content(text))


@pytest.fixture
def cache(tmp_path):
    cache = make(tmp_path, key=None)
    yield cache
    cache.close()


def words(count: int) -> list[str]:
    """Words of many lengths, each once, which share beginnings and ends like those of a language."""
    dice = random.Random(5)
    parts = [
        a + b + c for a in "bcdfghklmnprstvwxz" for b in "aeiou" for c in ("", "n", "r", "st", "l")
    ]
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(dice.choice(parts) for _ in range(dice.randint(2, 5)))] = None
    return list(found)


def near(cache, word, reach=1):
    return {one.term: one.notes for one in cache.vocabulary.near(word, reach=reach)}


def test_each_term_is_said_to_be_in_so_many_notes_to_a_power_of_two(cache):
    numbers = {"graph": 1, "grapf": 2, "grapg": 3, "grapx": 9, "grapz": 300}
    texts = [" ".join(word for word, most in numbers.items() if at < most) for at in range(300)]
    store(cache, [note(at, text) for at, text in enumerate(texts)])
    asyncio.run(cache.vocabulary.refresh())
    assert near(cache, "grap") == {"graph": 1, "grapf": 2, "grapg": 2, "grapx": 8, "grapz": 256}
    store(cache, [note(400, "graph grapy grapz")])
    asyncio.run(cache.vocabulary.refresh())
    assert near(cache, "grap") == {
        "graph": 1, "grapf": 2, "grapg": 2, "grapx": 8, "grapz": 256, "grapi": 1,
    }  # fmt: skip


@pytest.mark.slow("a hundred thousand words are indexed")
def test_a_misspelt_word_among_a_hundred_thousand_costs_little_time_and_memory(cache):
    known = words(WORDS)
    store(cache, [note(at, " ".join(known[at::100])) for at in range(100)])
    asyncio.run(cache.vocabulary.refresh())
    held = sys.getsizeof(cache.vocabulary._lines)
    assert held < sum(map(len, known)) + 4 * WORDS
    dice, spent = random.Random(6), []
    for word in dice.sample(known, 40):
        at = dice.randrange(1, len(word) - 1)
        typed = word[:at] + word[at:][1::-1] + word[at + 2 :]
        query = parse(f"{typed} {dice.choice(known)}")
        began = time.process_time()
        find(cache, query, limit=5)
        spent.append(time.process_time() - began)
    assert statistics.median(spent) < 0.1
