"""Write a condition as one FTS5 expression; nothing else quotes text for FTS5.

Everything a person typed goes between double quotes, where FTS5 sees only tokens. ``sql_builder``
handles what one expression cannot say: exclusions alone, signs without letters, tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from mcp_notarium.search.folding import (
    CONTEXT,
    GRAM,
    fold,
    gram_runs,
    grams,
    is_run,
    pieces,
    tokenizer_folds,
    tokens,
    words_only,
)
from mcp_notarium.search.query import (
    And,
    Condition,
    HasProperty,
    HasTags,
    HasTask,
    InFolder,
    Not,
    Or,
    Phrase,
    Ranked,
    Tagged,
    Word,
)
from mcp_notarium.search.query_expansion import unit_of
from mcp_notarium.search.stemming import completions, spelling

_SUPPLEMENT = "{tag_words supplement}"
_WITHOUT_TAGS = "{text heading supplement}"
_LONGEST_PART = CONTEXT + 1


def build_match(condition: Condition) -> str | None:
    """Return the condition as one FTS5 expression, or None if one cannot say it."""
    match condition:
        case Word(text, prefix):
            return _word(text, prefix=prefix)
        case Phrase(text):
            return _leaf(text, prefix=False)
        case Or(conditions):
            parts = [build_match(item) for item in conditions]
            return _join(" OR ", [part for part in parts if part]) if all(parts) else None
        case Ranked(words):
            parts = [build_match(word) for word in words]
            return _join(" OR ", [part for part in parts if part]) if any(parts) else None
        case And(conditions):
            ranked, rest = split(conditions)
            return None if rest else ranked
        case Not() | Tagged() | InFolder() | HasProperty() | HasTags() | HasTask():
            return None


def split(conditions: Sequence[Condition]) -> tuple[str | None, list[Condition]]:
    """Split the conditions into one FTS5 expression and the conditions it cannot say.

    Exclusions go into the expression if there is anything to exclude from.
    """
    required, excluded_parts, rest = [], [], []
    for condition in conditions:
        if part := build_match(condition):
            required.append(part)
        elif isinstance(condition, Not) and (part := build_match(condition.condition)):
            excluded_parts.append((part, condition))
        else:
            rest.append(condition)
    if not required:
        return None, [*(condition for _, condition in excluded_parts), *rest]
    expression = _join(" AND ", required)
    if excluded_parts:
        excluded = _join(" OR ", [part for part, _ in excluded_parts])
        expression = f"({expression} NOT {excluded})"
    return expression, rest


def without_tags(expression: str) -> str:
    """Narrow an expression to what notes say apart from their tags."""
    return f"{_WITHOUT_TAGS} : ({expression})"


def in_heading(expressions: Sequence[str]) -> str:
    """Write what finds the notes whose heading has all of the expressions."""
    return f"{{heading}} : ({' AND '.join(expressions)})"


def match_terms(terms: Sequence[str]) -> str:
    """Write index terms, any of which will do."""
    phrases = [_quote(spelling(term)) for term in terms]
    return f"({' OR '.join(phrases)})"


def plain_words(condition: Condition) -> Iterator[str]:
    """Yield the words that are one word to the index, as typed; excluded ones are left out."""
    match condition:
        case Word(text, prefix=False) if words_only(text).isalnum() and not gram_runs(fold(text)):
            yield text
        case Ranked(conditions) | And(conditions) | Or(conditions):
            for item in conditions:
                yield from plain_words(item)


def match_any(texts: Sequence[str]) -> str | None:
    """Write words and phrases, any of which will do; None if none has a letter, digit or picture."""
    return _match_any(tuple(texts))


@lru_cache(maxsize=64)  # several times in a search; a date is 45 phrases
def _match_any(texts: tuple[str, ...]) -> str | None:
    parts = dict.fromkeys(_leaf(text, prefix=False) for text in texts)
    return _join(" OR ", [part for part in parts if part]) if any(parts) else None


def _word(text: str, *, prefix: bool) -> str | None:
    unit = None if prefix else unit_of(text)
    return match_any(unit.spellings) if unit else _leaf(text, prefix=prefix)


def _leaf(text: str, *, prefix: bool) -> str | None:
    """Write a word or phrase: words where they stand in a row, a run of grams wherever it stands."""
    found = pieces(fold(text))
    if not any(map(is_run, found)):
        return _words(text, prefix=prefix)
    if len(found) == 1:
        return _gram_phrase(found[0])
    return _mix(found, prefix=prefix)


def _words(text: str, *, prefix: bool) -> str | None:
    folded = words_only(text)
    if not folded:
        return None
    words = folded.split(" ")
    expression = _phrase_of(words, _endings(words, prefix=prefix))
    if tokenizer_folds(text):
        return expression
    typed = _quote(text.replace(GRAM, " ").strip()) + ("*" if prefix else "")
    return f"({expression} OR {typed})"


def _mix(found: Sequence[str], *, prefix: bool) -> str:
    *_, last = found
    before = tokens(" ".join(found[:-1]))
    if not is_run(last):
        words = [*before, last]
        return _phrase_of(words, _endings(words, prefix=prefix))
    *pairs, alone = grams(last)
    row = [*before, *(pairs or [alone])]
    return _phrase_of(row, [(row, not pairs)])


_Ending = tuple[Sequence[str], bool]
"""Tokens in a row; whether the last one is only the beginning of one."""


def _endings(words: Sequence[str], *, prefix: bool) -> list[_Ending]:
    """Return the ways to spell words whose last one may be a prefix."""
    if not prefix:
        return [(words, False)]
    *before, last = words
    # Spelled so that the stemmer leaves it whole.
    return [
        ([*before, spelling(last)], True),
        *(([*before, word], False) for word in completions(last)),
    ]


def _phrase_of(words: Sequence[str], endings: Sequence[_Ending]) -> str:
    """Write tokens that follow each other in one column.

    The supplement holds plain text only near other text, so a long row is searched in parts that
    overlap; each part stands whole in one of the columns.
    """
    first, rest = 0, len(words)
    parts = []
    while rest - first > _LONGEST_PART:
        part = words[first : first + _LONGEST_PART]
        parts.append(_where_it_is(part, _quote(" ".join(part))))
        first += _LONGEST_PART // 2
    for_last = [
        _quote(" ".join(ending[first:])) + ("*" if open_ended else "")
        for ending, open_ended in endings
    ]
    spelled = " OR ".join(for_last)
    parts.append(_where_it_is(words[first:], f"({spelled})" if len(for_last) > 1 else spelled))
    return _join(" AND ", parts)


def _where_it_is(found: Sequence[str], expression: str) -> str:
    """Name the columns if there are grams; without a name FTS5 need not look where a word stands."""
    has_grams = any(token.startswith(GRAM) for token in found)
    return f"{_SUPPLEMENT} : {expression}" if has_grams else expression


def _gram_phrase(run: str) -> str:
    *pairs, last = grams(run)
    phrase = _quote(" ".join(pairs)) if pairs else _quote(last) + "*"
    return f"{_SUPPLEMENT} : {phrase}"


def _quote(text: str) -> str:
    # FTS5 reads its expression up to the first NUL.
    # defence: search-words-quoted =text
    return '"' + text.replace("\0", " ").replace('"', '""') + '"'


def _join(operator: str, parts: Sequence[str]) -> str:
    return f"({operator.join(parts)})" if len(parts) > 1 else parts[0]
