"""Stem English words like the index (Porter 1980, as FTS5's ``porter``).

The index does its own stemming. This answers two questions: which whole words a prefix may stand for
(``completions``), because the index has only stems, and which word finds a stem (``spelling``).
"""

from __future__ import annotations

from itertools import pairwise

_VOWELS = frozenset("aeiou")
_SHORTEST, _LONGEST = 3, 64

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "logi": "log", "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous",
    "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive",
    "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_STEP_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip
_ENDINGS = tuple(dict.fromkeys([
    "s", "es", "ies", "ed", "ing", "ings", "ly", "y", "ity", "ities", "ability", "ibility",
    "ically", "ably", "ibly", "ency", "ancy", "ists",
    *_STEP_2, *_STEP_3, *_STEP_4,
]))  # fmt: skip

_FUNCTION_WORDS = frozenset([
    "an", "and", "as", "at", "be", "but", "by", "da", "de", "der", "die", "do", "du", "el", "en", "er",
    "et", "for", "go", "he", "her", "if", "il", "in", "it", "la", "le", "lo", "me", "mi", "my", "no",
    "of", "off", "on", "or", "our", "out", "se", "she", "si", "so", "the", "to", "un", "und", "up",
    "we", "you", "zu",
])  # fmt: skip
_THEIR_FORMS = frozenset(["being", "beings", "doing", "doings", "going", "goings", "one"])


def _consonant(word: str, index: int) -> bool:
    letter = word[index]
    if letter in _VOWELS:
        return False
    return letter != "y" or index == 0 or not _consonant(word, index - 1)


def _measure(stem: str) -> int:
    kinds = [_consonant(stem, index) for index in range(len(stem))]
    return sum(not kind and after for kind, after in pairwise(kinds))


def _has_vowel(stem: str) -> bool:
    return any(not _consonant(stem, index) for index in range(len(stem)))


def _short(stem: str) -> bool:
    """Tell whether it ends consonant, vowel, consonant, the last not w, x or y."""
    size = len(stem)
    return (
        size > 2  # noqa: PLR2004  # three letters are looked at
        and _consonant(stem, size - 3)
        and not _consonant(stem, size - 2)
        and _consonant(stem, size - 1)
        and stem[-1] not in "wxy"
    )


def stem(word: str) -> str:
    """Return what the index stores for this token (lower case, folded)."""
    # The index counts bytes, so every byte is a letter here.
    letters = word.encode().decode("latin-1")
    if not _SHORTEST <= len(letters) <= _LONGEST:
        return word
    return _stem_word(letters).encode("latin-1").decode(errors="replace")


def _stem_word(word: str) -> str:
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for endings in (_STEP_2, _STEP_3):
        word = _replace_ending(word, endings)
    return _last(_drop_ending(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")) and word not in {"sses", "ies"}:
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed") and word != "eed":
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _has_vowel(word[: -len(ending)]):
            return _restore_ending(word[: -len(ending)])
    return word


def _restore_ending(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and word[-1] not in _VOWELS:
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short(word) else word


def _replace_ending(word: str, endings: dict[str, str]) -> str:
    found = max((ending for ending in endings if word.endswith(ending)), key=len, default="")
    if found and _measure(word[: -len(found)]) > 0:
        return word[: -len(found)] + endings[found]
    return word


def _drop_ending(word: str) -> str:
    found = max((ending for ending in _STEP_4 if word.endswith(ending)), key=len, default="")
    rest = word[: -len(found)] if found else ""
    if not found or _measure(rest) < 2 or (found == "ion" and rest[-1] not in "st"):  # noqa: PLR2004  # Porter's m > 1
        return word
    return rest


def _last(word: str) -> str:
    rest = word[:-1]
    if word.endswith("e") and (_measure(rest) > 1 or (_measure(rest) == 1 and not _short(rest))):
        word = rest
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def spelling(term: str) -> str:
    """Return a word whose stem is this index term; the term itself if none is known."""
    for ending in ("", "e", "s", "ing", "ed", "es", "y", "ion", "al", "ness"):
        if stem(term + ending) == term:
            return term + ending
    return term


def completions(prefix: str) -> list[str]:
    """Return words to search as well as the terms that begin with the prefix, one for each stem.

    Their stems do not begin with the prefix: ``organiz*`` must also find "organ", the stem of "organize",
    and ``running*`` the stem "run". The endings tried are those the stemmer knows. Stems that are words
    of nearly every note are left out: ``thes*`` looks for "thesis", not for "the".
    """
    if not (prefix.isascii() and prefix.isalpha()):
        return []
    found: dict[str, str] = {}
    for word in _candidates(prefix):
        reached = stem(word)
        floods = reached in _FUNCTION_WORDS and prefix not in _THEIR_FORMS
        if not (reached.startswith(prefix) or floods):
            found.setdefault(reached, word)
    return list(found.values())


def _candidates(prefix: str) -> list[str]:
    """Return the prefix, completed by each ending that may have begun, and with a few endings added."""
    begun = [
        prefix + ending[size:]
        for ending in _ENDINGS
        for size in range(1, len(ending))
        if prefix.endswith(ending[:size])
    ]
    return [prefix, *begun, *(prefix + ending for ending in ("s", "ing", "ed", "es", "ies", "y"))]
