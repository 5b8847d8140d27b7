"""Fold letters and split identifiers for search beyond what the index's own tokenizer does. Pure.

The index tokenizer (FTS5 ``unicode61 remove_diacritics 1``) folds case and takes one accent off
Latin letters. It does not see that ``ł`` is an ``l`` or ``ß`` is ``ss``, drops only one of two
accents, leaves Greek and Cyrillic accents, and takes a whole sentence in a script without spaces
for one word. ``fold`` closes the first gap, ``grams`` the second; ``supplement`` is the text that
is indexed with a note so that both are found, each in its place between the others.

The index takes such an identifier for one word. Its words are indexed as well, so that they find it too.
Those of ``snake_case`` are words of the index anyway.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_SHAPE = b"." * 65 + b"A" * 26 + b"." * 6 + b"a" * 26 + b"." * 133
"""Letters as ``a`` or ``A``, all else as dots: a thousand characters are looked through in a microsecond."""
_HINTS = (b"aA", b"AAaa")
_LONGEST = 48
"""Letters of an identifier, at most: what is longer is no word but data."""


def spaced(text: str) -> str:
    """Return the text with a space before each capital that begins a word inside another."""
    return _INNER_CAPITAL.sub(" ", text)


def inner_words(text: str) -> dict[str, None]:
    """Return the identifiers of a text, each once and with spaces between its words, in the order of the text."""
    return {spaced(word): None for word in _identifiers(text) if len(word) <= _LONGEST}


def _identifiers(text: str) -> Iterator[str]:
    end = 0
    for place in _places(text):
        if place < end:
            continue
        start = end = place
        while start and _is_inside(text[start - 1]):
            start -= 1
        while end < len(text) and _is_inside(text[end]):
            end += 1
        yield text[start:end]


def _places(text: str) -> list[int]:
    shape = text.encode("ascii", "replace").translate(_SHAPE)
    places = []
    for hint in _HINTS:
        place = shape.find(hint)
        while place >= 0:
            places.append(place)
            place = shape.find(hint, place + 1)
    return sorted(places)


def _is_inside(character: str) -> bool:
    """Tell whether a character goes on with a word; those from Thai on may stand in a run."""
    return character.isalnum() and character < "\u0e00"


GRAM = "\ue000"
"""Beginning of a gram: a character of nobody, which the tokenizer takes for a letter."""
SENTINEL = GRAM
"""A token no query contains; it keeps phrases from matching across left-out text."""
CONTEXT = 12
"""Tokens of plain text kept before and after a line in the supplement. A phrase of one more token
always stands whole in one column."""

LONGEST_TITLE = 200
"""Characters of a title that can be found as a whole."""

_LETTERS = {
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
    "ð": "d",
    "\u0131": "i",
    "ĸ": "k",
    "ŋ": "n",
    "ə": "e",
}
# Cyrillic short i, short u and yi: letters of their own, which only look accented.
_WHOLE = frozenset("\u0439\u045e\u0457")
_STROKED = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")

# Accents, vowel points and invisible characters that stand inside a word without changing it.
_MARKS = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u2060\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\ufeff]"
)

# Scripts written without spaces (Thai, Lao, Myanmar, Hangul, Khmer, Tai, kana, Han), and pictures.
_SCRIPT = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3030-\u303d\u3041-\u30ff\u3105-\u31ff\u3200-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U00016fe0-\U00018fff\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"
)
_PICTURE = "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_GRAM = _SCRIPT + _PICTURE
_SEPARATORS = re.compile(r"[\W_]+")

# Characters the tokenizer treats as ``fold`` does (tested against it, one by one).
_PLAIN = (
    "\\x00-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4-\u00b8\u00bb\u00bf-\u00c5\u00c7-\u00cf\u00d1-\u00d7"
    "\u00d9-\u00dd\u00e0-\u00e5\u00e7-\u00ef\u00f1-\u00f7\u00f9-\u00fd\u00ff-\u010f\u0112-\u0125"
    "\u0128-\u0130\u0134-\u0137\u0139-\u013e\u0143-\u0148\u014c-\u0151\u0154-\u0165\u0168-\u017f"
    "\u0218-\u021b\u0391-\u03a1\u03a3-\u03a9\u03b1-\u03c9\u0402\u0404-\u040b\u040e-\u044f\u0452"
    "\u0454-\u045b\u045e-\u0475\u05d0-\u05ea\u0621\u0627-\u063f\u0641-\u064a\u0660-\u0669"
    "\u2010-\u2029\u2030-\u203b\u203d-\u2046\u20a0-\u20a7\u20a9-\u20b9\u2190-\u21ff\u2200-\u22ff"
    "\u2500-\u25ff\u3001-\u3003\u3008-\u3011\u3014-\u301b\ufffd"
)
_NOT_PLAIN = re.compile(f"[^{_PLAIN}]")


# Compiled on first use: together that takes 20 ms.


@cache
def _gram_run() -> re.Pattern[str]:
    return re.compile(f"[{_SCRIPT}]+|[{_PICTURE}]+")


@cache
def _piece() -> re.Pattern[str]:
    return re.compile(f"[{_SCRIPT}]+|[{_PICTURE}]+|[^\\W_{_GRAM}]+")


@cache
def _gram_pattern() -> re.Pattern[str]:
    return re.compile(f"[^{_PLAIN}{_GRAM}]")


class _FoldTable(dict[int, str]):
    """Map each character to its folded form; filled as characters occur."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_letter(chr(code))
        return folded


def _fold_letter(character: str) -> str:
    lower = character.casefold()
    if lower in _WHOLE:
        return lower
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", lower)).casefold()
    return unicodedata.normalize("NFC", "".join(map(_remove_stroke, bare)))


def _remove_stroke(letter: str) -> str:
    if letter in _LETTERS:
        return _LETTERS[letter]
    found = _STROKED.match(unicodedata.name(letter, ""))
    return found[1].lower() if found else letter


_TABLE = _FoldTable()


def fold(text: str) -> str:
    """Return the text in lower case, without accents, strokes, ligatures and invisible characters.

    Folding again changes nothing. Lines and separators stay where they are.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).translate(_TABLE)


def gram_runs(folded: str) -> list[str]:
    """Return the runs of a folded text that are indexed by grams instead of words."""
    return _gram_run().findall(folded)


def without_grams(text: str) -> str:
    """Replace every run that is indexed by grams by a space."""
    return _gram_run().sub(" ", text)


def grams(run: str) -> list[str]:
    """Return the index tokens of one run: every pair of neighbours, and the last character alone.

    A token has 6 decimal digits per character. So it is one token of the index, which the stemmer leaves alone, and
    the token of a character is a prefix of the pairs that begin with it.
    """
    digits = [f"{ord(character):06d}" for character in run]
    return [f"{GRAM}{both}" for both in (*map("".join, pairwise(digits)), digits[-1])]


def pieces(folded: str) -> list[str]:
    """Return the words and runs of a folded text, in its order."""
    return _piece().findall(folded)


def next_piece(folded: str, place: int) -> re.Match[str] | None:
    """Return the word or run that begins next at or after ``place``, or the rest of one that ``place`` is in."""
    return _piece().search(folded, place)


def title_key(title: str) -> str:
    """Return what equal titles have in common: their folded words; nothing of a very long one."""
    return " ".join(pieces(fold(title))) if len(title) <= LONGEST_TITLE else ""


def is_run(piece: str) -> bool:
    """Tell whether a piece is a run, indexed by grams."""
    return bool(_gram_run().match(piece))


def tokens(folded: str) -> list[str]:
    """Return the supplement's tokens of a folded text: its words, and the grams of its runs."""
    found: list[str] = []
    for piece in pieces(folded):
        found += grams(piece) if is_run(piece) else [piece]
    return found


def words_only(text: str) -> str:
    """Return the folded words of a text, one space between them, without runs."""
    return _SEPARATORS.sub(" ", without_grams(fold(text))).strip()


def tokenizer_folds(text: str) -> bool:
    """Tell whether the tokenizer folds these words (apart from runs) like ``fold``."""
    return not _gram_pattern().search(text)


def is_searchable(text: str) -> bool:
    """Tell whether the index can find anything of this text: a letter, a digit or a gram."""
    return any(map(str.isalnum, text)) or bool(gram_runs(fold(text)))


def supplement(text: str) -> str:
    """Return the text to index with this note's text; empty for most notes in most languages.

    Behind what :func:`_special_lines` says come the words of its identifiers.
    """
    parts = [" ".join(_special_lines(text))]
    parts += (" ".join(tokens(fold(words))) for words in inner_words(text))
    return f" {SENTINEL} ".join(filter(None, parts))


def _special_lines(text: str) -> list[str]:
    """Return the tokens that the tokenizer would not make of a text.

    These are the lines that it folds differently or that contain a run: all their tokens in
    the order of the note, and ``CONTEXT`` tokens before and after. So a phrase that begins on one line
    and ends on the next stands whole in it. ``SENTINEL`` marks what is left out.
    """
    if text.isascii() or not _NOT_PLAIN.search(text):
        return []
    lines = text.split("\n")
    special = [number for number, line in enumerate(lines) if _differs(line)]
    if not special:
        return []
    found = _last_tokens(lines[: special[0]])
    for number, following in pairwise([*special, len(lines)]):
        found += tokens(fold(lines[number]))
        between = lines[number + 1 : following]
        after = _first_tokens(between, 2 * CONTEXT + 1)
        if len(after) > 2 * CONTEXT or following == len(lines):
            found += after[:CONTEXT]
            if following < len(lines):
                found += [SENTINEL, *_last_tokens(between)]
        else:
            found += after
    return found


def tag_words(tags: Sequence[str]) -> str:
    """Return what is indexed of a note's tags: their tokens, so that no phrase goes over from one to the next."""
    return f" {SENTINEL} ".join(map(_tag_tokens, tags))


@lru_cache(maxsize=1024)  # few tags, many notes
def _tag_tokens(tag: str) -> str:
    folded = fold(tag)
    inner = fold(spaced(tag))
    return " ".join(tokens(folded) + ([SENTINEL, *tokens(inner)] if inner != folded else []))


def _differs(line: str) -> bool:
    """Tell whether the tokenizer indexes words of this line differently from a query."""
    return not (line.isascii() or (tokenizer_folds(line) and not gram_runs(fold(line))))


def _first_tokens(lines: Sequence[str], most: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        if len(found) >= most:
            break
        found += tokens(fold(line))
    return found[:most]


def _last_tokens(lines: Sequence[str]) -> list[str]:
    found: list[str] = []
    for line in reversed(lines):
        if len(found) >= CONTEXT:
            break
        found = tokens(fold(line)) + found
    return found[-CONTEXT:]
