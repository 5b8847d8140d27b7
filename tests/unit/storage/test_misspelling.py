"""How far words are apart, and the parts that a misspelt word leaves whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.storage.vocabulary import Part, distance, parts_of, reach_of

WORDS = st.text("abcä", max_size=9)
LONG_WORDS = st.text("abcdeж", min_size=4, max_size=14)


def slowly(one: str, other: str) -> int:
    """The whole table, letter by letter."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, letter in enumerate(one, 1):
        for j, facing in enumerate(other, 1):
            cost = min(
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (letter != facing)
            )
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], facing):
                cost = min(cost, table[i - 2, j - 2] + 1)
            table[i, j] = cost
    return table[len(one), len(other)]


@given(WORDS, WORDS, st.integers(1, 3))
def test_the_distance_is_that_of_the_whole_table(one, other, at_most):
    assert distance(one, other, at_most=at_most) == min(slowly(one, other), at_most + 1)


@given(LONG_WORDS, st.data())
def test_a_word_with_mistakes_has_one_of_the_parts(word, data):
    reach = reach_of(word)
    typed = word
    for _ in range(reach):
        typed = data.draw(st.sampled_from(list(_mistakes(typed))))
    assert any(_has(typed, part) for part in parts_of(word, reach))


def _mistakes(word):
    for at in range(len(word) + 1):
        yield f"{word[:at]}x{word[at:]}"
        yield word[:at] + word[at + 1 :]
        yield f"{word[:at]}x{word[at + 1 :]}"
        yield word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def _has(word: str, part: Part) -> bool:
    if part.first and part.last:
        return word == part.letters
    if part.first:
        return word.startswith(part.letters)
    return word.endswith(part.letters) if part.last else part.letters in word


@pytest.mark.parametrize(
    ("word", "reach"), [("cat", 0), ("note", 1), ("recipe", 1), ("pancakes", 2)]
)
def test_one_mistake_is_made_in_four_letters_and_two_in_eight(word, reach):
    assert reach_of(word) == reach
