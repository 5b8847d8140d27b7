"""Make notes with the sizes and word distribution of real accounts, and queries with known answers.

Note ``n`` depends on ``n`` alone (its random filling on all before it), so how many notes a query
finds is arithmetic: a figure is taken only of a right answer. Filling: about 1.5 kB of made-up words
whose frequencies fall off as in a language.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIRST_DAY = 1_600_000_000
_STEP = 600
_LENGTH = 200
_LINE = 12
_CHARACTERS = "東西南北山川海空花鳥風月春夏秋冬金木水火土日星雲雨雪石田町村駅店学校本紙色音声車道"
_BASE = 40

Predicate = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of ``list`` with a query, and how many notes it must count.

    ``parts``: the query has several words, or pairs of characters. Notes with any of them may be counted too.
    """

    query: str
    total: int
    parts: bool = False

    def answers(self, answer: Mapping[str, Any]) -> bool:
        """Tell whether this is an answer to the query."""
        have_all = answer.get("have_all") or answer["total_items"]
        exact = self.parts or answer["total_items"] == self.total
        return exact and have_all >= self.total and len(answer["content"]) > 0


def note_id(number: int) -> str:
    """The id of note ``number``."""
    return f"{number:032x}"


def trashed(number: int) -> bool:
    """One note of twenty is in the trash."""
    return number % 20 == 7


def active(count: int) -> int:
    """How many of the first ``count`` notes are not in the trash."""
    return sum(not trashed(number) for number in range(count))


def newest(count: int) -> int:
    """The number of the newest note outside the trash."""
    return next(number for number in range(count - 1, -1, -1) if not trashed(number))


def notes(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """``count`` whole note objects with their ids, oldest first."""
    dice = random.Random(20)
    words = ["".join(_syllables(dice)) for _ in range(6000)]
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    for number in range(count):
        filling = dice.choices(words, cum_weights=weights, k=_LENGTH)
        date = FIRST_DAY + number * _STEP
        yield (
            note_id(number),
            {
                "content": _text(number, filling),
                "tags": [f"project-{number % 50}"] + (["work"] if number % 10 == 0 else []),
                "systemTags": [],
                "creationDate": date,
                "modificationDate": date,
                "deleted": trashed(number),
                "shareURL": "",
                "publishURL": "",
            },
        )


def _syllables(dice: random.Random) -> Iterator[str]:
    return (dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(3))


def _text(number: int, filling: list[str]) -> str:
    filling[17] = f"unique{number}"
    filling[31] = f"common{number % 5}"
    filling[60] = f"alpha{number % 97}"
    filling[90] = f"beta{number % 89}"
    filling[121:124] = [f"north{number % 31}", f"wind{number % 37}", "house"]
    if number % 20 == 3:
        filling[150] = f"zażółć{number // 20 % 50}"
    lines = [" ".join(filling[:8])]
    lines += [" ".join(filling[at : at + _LINE]) for at in range(8, _LENGTH, _LINE)]
    if number % 25 == 0:
        lines.append(f"今日は{_characters(number)}に行く。")
    return "\n".join(lines)


def _characters(number: int) -> str:
    place = number // 25
    return f"会議{_CHARACTERS[place % _BASE]}{_CHARACTERS[place // _BASE % _BASE]}"


def _found(count: int, holds: Predicate) -> int:
    return sum(holds(number) and not trashed(number) for number in range(count))


def _spread(count: int, *, step: int = 1, offset: int = 0, wanted: int = 10) -> list[int]:
    """Some note numbers out of the trash, spread over all that are ``offset`` modulo ``step``."""
    possible = [n for n in range(offset, count, step) if not trashed(n)]
    return possible[:: max(1, len(possible) // wanted)][:wanted]


def questions(count: int) -> dict[str, list[Asked]]:
    """For each kind of search, several queries with the number of notes each finds."""
    return {
        "common word": [
            Asked(f"common{k}", _found(count, lambda n, k=k: n % 5 == k))  # type: ignore[misc]
            for k in range(5)
        ],
        "rare word": [Asked(f"unique{n}", 1) for n in _spread(count)],
        "two words": [
            _asked(
                count,
                f"alpha{n % 97} beta{n % 89}",
                lambda m, n=n: (m - n) % (97 * 89) == 0,  # type: ignore[misc]
                parts=True,
            )
            for n in _spread(count)
        ],
        "phrase": [
            _asked(
                count,
                f'"north{n % 31} wind{n % 37} house"',
                lambda m, n=n: (m - n) % (31 * 37) == 0,  # type: ignore[misc]
            )
            for n in _spread(count)
        ],
        "tag": [
            _asked(count, f"tag:project-{k}", lambda n, k=k: n % 50 == k)  # type: ignore[misc]
            for k in range(0, 50, 6)
        ],
        "CJK": [
            _asked(
                count,
                _characters(n),
                lambda m, n=n: m % 25 == 0 and _characters(m) == _characters(n),  # type: ignore[misc]
                parts=True,
            )
            for n in _spread(count, step=25)
        ],
        "accented word": [
            _asked(
                count,
                f"zazolc{n // 20 % 50}",
                lambda m, n=n: m % 20 == 3 and m // 20 % 50 == n // 20 % 50,  # type: ignore[misc]
            )
            for n in _spread(count, step=20, offset=3)
        ],
    }


def _asked(count: int, query: str, holds: Predicate, *, parts: bool = False) -> Asked:
    return Asked(query, _found(count, holds), parts)


def some_ids(count: int) -> list[str]:
    """Ids of notes out of the trash, spread over the account."""
    return [note_id(number) for number in _spread(count, wanted=50)]
