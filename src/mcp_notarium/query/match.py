"""Write a condition as one FTS5 expression; the only place that quotes text for FTS5.

Everything a person typed ends up between double quotes, where FTS5 sees only tokens. What cannot
be said in one expression (nothing but exclusions, signs without letters, tags) is left to ``sql``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mcp_notarium.query.fold import (
    fold,
    gram_runs,
    grams,
    tokenizer_folds,
    without_grams,
    words_only,
)
from mcp_notarium.query.model import And, Condition, Not, Or, Phrase, Tagged, Word
from mcp_notarium.query.stem import completions, spelling

Expansions = Mapping[str, Sequence[str]]
"""For words as typed: the index terms to search in their place."""

_BOTH = "{text supplement}"
_TEXT = "{text}"
_SUPPLEMENT = "{supplement}"
_GRAM_LENGTHS = (7, 14)


def match_of(condition: Condition, expansions: Expansions) -> str | None:
    """The condition as one FTS5 expression, or None if it cannot be said in one."""
    match condition:
        case Word(text, prefix):
            terms = () if prefix else expansions.get(text, ())
            return _expanded(terms) if terms else _leaf(text, prefix=prefix)
        case Phrase(text):
            return _leaf(text, prefix=False)
        case Or(conditions):
            parts = [match_of(item, expansions) for item in conditions]
            return _joined(" OR ", [part for part in parts if part]) if all(parts) else None
        case And(conditions):
            ranked, rest = split(conditions, expansions)
            return None if rest else ranked
        case Not() | Tagged():
            return None


def split(
    conditions: Sequence[Condition], expansions: Expansions
) -> tuple[str | None, list[Condition]]:
    """All conditions together as (one FTS5 expression, what it could not take in).

    Exclusions go into the expression if there is anything to exclude from.
    """
    wanted, unwanted, rest = [], [], []
    for condition in conditions:
        if part := match_of(condition, expansions):
            wanted.append(part)
        elif isinstance(condition, Not) and (part := match_of(condition.condition, expansions)):
            unwanted.append((part, condition))
        else:
            rest.append(condition)
    if not wanted:
        return None, [*(condition for _, condition in unwanted), *rest]
    expression = _joined(" AND ", wanted)
    if unwanted:
        excluded = _joined(" OR ", [part for part, _ in unwanted])
        expression = f"({expression} NOT {excluded})"
    return expression, rest


def plain_words(condition: Condition) -> Iterator[str]:
    """The words asked for that are one word to the index, as typed; not those excluded."""
    match condition:
        case Word(text, prefix=False) if words_only(text).isalnum() and not gram_runs(fold(text)):
            yield text
        case And(conditions) | Or(conditions):
            for item in conditions:
                yield from plain_words(item)


def _leaf(text: str, *, prefix: bool) -> str | None:
    """A word or phrase: its words as one phrase, and each run of grams as another."""
    runs = gram_runs(fold(text))
    at_end = prefix and not (runs and fold(text).endswith(runs[-1]))
    parts = [_words(text, prefix=at_end), *map(_gram_phrase, runs)]
    found = [part for part in parts if part]
    return _joined(" AND ", found) if found else None


def _words(text: str, *, prefix: bool) -> str | None:
    typed, folded = without_grams(text).strip(), words_only(text)
    if not folded:
        return None
    spellings = [] if tokenizer_folds(typed) else [typed]
    *before, last = folded.split(" ")
    if prefix:
        spellings = [_quoted(spelled) + "*" for spelled in (*spellings, _phrase(before, last))]
        spellings += [_quoted(" ".join([*before, word])) for word in completions(last)]
    else:
        spellings = [_quoted(spelled) for spelled in (*spellings, folded)]
    return f"{_columns(folded, prefix=prefix)} : ({' OR '.join(spellings)})"


def _phrase(before: Sequence[str], last: str) -> str:
    """Words whose last one is a prefix: spelled so that the stemmer leaves it whole."""
    return " ".join([*before, spelling(last)])


def _columns(folded: str, *, prefix: bool) -> str:
    """Where to look: a number that looks like a gram must not meet one."""
    numbers = folded.split()
    last = len(numbers) - 1
    gram_like = all(
        number.isdigit()
        and number.startswith("0")
        and (len(number) in _GRAM_LENGTHS or (prefix and index == last))
        for index, number in enumerate(numbers)
    )
    return _TEXT if gram_like else _BOTH


def _gram_phrase(run: str) -> str:
    *pairs, last = grams(run)
    phrase = _quoted(" ".join(pairs)) if pairs else _quoted(last) + "*"
    return f"{_SUPPLEMENT} : {phrase}"


def _expanded(terms: Sequence[str]) -> str:
    phrases = [_quoted(spelling(term)) for term in terms]
    return f"{_BOTH} : ({' OR '.join(phrases)})"


def _quoted(text: str) -> str:
    # FTS5 reads its expression up to the first NUL.
    return '"' + text.replace("\0", " ").replace('"', '""') + '"'


def _joined(operator: str, parts: Sequence[str]) -> str:
    return f"({operator.join(parts)})" if len(parts) > 1 else parts[0]
