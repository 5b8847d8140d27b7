"""Tell what typed words ask for: each in the ways in which notes write it, dates among them. Pure.

A word is not always one word of the index. ``l'animation`` asks for ``animation``; ``snake_case`` stands in other
notes as ``snakeCase``; a run of Chinese or Thai has no spaces where its words end; three words may be one date. Only
bare words are read so: what stands in quotes is searched as it was typed.

Dates are read in digits (``18.03.2020``, ``2016-01-21``; ``3/4/20`` by either order) and with the names of months in
seven languages. They are written as phrases of plain words: a phrase of the index does not see what separates
its words, so ``2016 01 21`` is ``2016-01-21`` and ``2016/01/21`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from itertools import pairwise

from mcp_notarium.search.folding import fold, is_run, pieces, spaced

_MONTHS = (
    ("january", "janvier", "enero", "janeiro", "januar", "januari", "gennaio", "jan", "janv", "ene", "gen"),
    ("february", "fevrier", "febrero", "fevereiro", "februar", "februari", "febbraio", "feb", "fevr", "febr", "fev"),
    ("march", "mars", "marzo", "marco", "marz", "maart", "marzo", "mar", "mrz", "mrt"),
    ("april", "avril", "abril", "abril", "april", "april", "aprile", "apr", "avr", "abr"),
    ("may", "mai", "mayo", "maio", "mai", "mei", "maggio", "may", "mag"),
    ("june", "juin", "junio", "junho", "juni", "juni", "giugno", "jun", "giu"),
    ("july", "juillet", "julio", "julho", "juli", "juli", "luglio", "jul", "juil", "lug"),
    ("august", "aout", "agosto", "agosto", "august", "augustus", "agosto", "aug", "ago"),
    ("september", "septembre", "septiembre", "setembro", "september", "september", "settembre", "sep", "sept", "set"),
    ("october", "octobre", "octubre", "outubro", "oktober", "oktober", "ottobre", "oct", "okt", "ott", "out"),
    ("november", "novembre", "noviembre", "novembro", "november", "november", "novembre", "nov"),
    ("december", "decembre", "diciembre", "dezembro", "dezember", "december", "dicembre", "dec", "dez", "dic"),
)  # fmt: skip
"""Names of each month, folded: English, French, Spanish, Portuguese, German, Dutch, Italian, and short ones."""
_ENGLISH, _FRENCH, _SPANISH, _PORTUGUESE = range(4)
_SHORT = 7
_JOINTS = ("", " de", " del")
_CENTURIES = ("19", "20")
_FIRST_OF_1900 = 70


@dataclass(frozen=True, slots=True)
class DateWords:
    """Hold a date among typed words, those from ``first`` to before ``last``."""

    first: int
    last: int
    forms: tuple[str, ...]
    """Phrases that mean it."""
    month_forms: tuple[str, ...]
    """Phrases that mean the month of a day, in digits."""


@dataclass(frozen=True, slots=True)
class _Date:
    year: int | None
    month: int
    day: int | None


def find_dates(words: Sequence[str]) -> Iterator[DateWords]:
    """Yield the dates among the words, in their order; they do not overlap."""
    if not any(character.isdecimal() for word in words for character in word):
        return
    starts, ends, text = {}, {}, ""
    for index, word in enumerate(words):
        starts[len(text)] = index
        text += fold(word).strip("()[]{},;:!?\"'")
        ends[len(text)] = index + 1
        text += " "
    for match in _pattern().finditer(text):
        dates = list(_dates(match))
        if dates and match.start() in starts and match.end() in ends:
            forms = dict.fromkeys(form for one in dates for form in _forms(one))
            months = dict.fromkeys(form for one in dates for form in _forms_of_month(one))
            yield DateWords(starts[match.start()], ends[match.end()], tuple(forms), tuple(months))


@cache
def _month_of() -> dict[str, int]:
    return {name: month for month, names in enumerate(_MONTHS, 1) for name in names}


@cache
def _pattern() -> re.Pattern[str]:
    """Return what finds a date between spaces. A day without a year needs the full name: ``set 3`` are words."""
    names = sorted(_month_of(), key=len, reverse=True)
    in_full = {name for names in _MONTHS for name in names[:_SHORT]}
    name, full = "|".join(names), "|".join(one for one in names if one in in_full)
    day, month, year = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])", "(?:19|20)[0-9]{2}"
    nth, of = r"(?:st|nd|rd|th|er|o|a|\.)?(?:[ ](?:of|de|do))?", "(?:[ ](?:of|de|del|do))?"
    return re.compile(
        rf"""(?<!\S)(?:
          (?P<y1>{year})(?P<s1>[-/.])(?P<m1>{month})(?P=s1)(?P<d1>{day})\.?
        | (?P<a2>[0-3]?[0-9])(?P<s2>[-/.])(?P<b2>[0-3]?[0-9])(?P=s2)(?P<y2>{year}|[0-9]{{2}})
        | (?P<y3>{year})(?P<m3>0[1-9]|1[0-2])(?P<d3>[0-3][0-9])
        | (?P<y4>{year})[-/](?P<m4>{month})
        | (?P<m5>{month})[/.](?P<y5>{year})
        | (?P<y6>{year})\u5e74(?P<m6>{month})\u6708(?:(?P<d6>{day})\u65e5)?
        | (?P<d7>{day}){nth}[ -](?P<n7>{name})\.?,?{of}[ -](?P<y7>{year})
        | (?P<n8>{name})\.?[ ](?P<d8>{day})(?:st|nd|rd|th)?,?[ ](?P<y8>{year})
        | (?P<n9>{name})\.?,?{of}[ ](?P<y9>{year})
        | (?P<d10>{day}){nth}[ ](?P<n10>{full})
        | (?P<n11>{full})[ ](?P<d11>{day})(?:st|nd|rd|th)?
        )(?!\S)""",
        re.VERBOSE,
    )


def _dates(match: re.Match[str]) -> Iterator[_Date]:
    """Yield what the match may mean: only days of the calendar, the day before the month if both can be."""
    values = {key.rstrip("0123456789"): value for key, value in match.groupdict().items() if value}
    year = _whole_year(values["y"]) if "y" in values else None
    if "a" in values:
        one, other = int(values["a"]), int(values["b"])
        orders = [(one, other)] if values["s"] == "." else [(one, other), (other, one)]
        found = [_Date(year, month, day) for day, month in orders]
    else:
        month = int(values["m"]) if "m" in values else _month_of()[values["n"]]
        found = [_Date(year, month, int(values["d"]) if "d" in values else None)]
    yield from filter(_exists, found)


def _whole_year(typed: str) -> int:
    short = len(typed) == 2  # noqa: PLR2004  # of four digits
    return int(_CENTURIES[int(typed) < _FIRST_OF_1900] + typed if short else typed)


def _exists(one: _Date) -> bool:
    try:
        date(one.year or 2000, one.month, one.day or 1)
    except ValueError:
        return False
    return True


def _forms(one: _Date) -> Iterator[str]:
    if one.day is None:
        yield from _month_and_year(one.year, one.month)
        return
    yield from _digits(one.year, one.month, one.day)
    year = f" {one.year}" if one.year else ""
    names = _MONTHS[one.month - 1]
    for name in dict.fromkeys(names):
        yield f"{one.day} {name}{year}"
        yield f"{name} {one.day}{year}"
    for name in (names[_SPANISH], names[_PORTUGUESE]):
        yield from (f"{one.day} de {name}{joint}{year}" for joint in _JOINTS if year or not joint)
    nth = _ordinal(one.day)
    for name in (names[_ENGLISH], names[_SHORT]):
        yield from (f"{name} {nth}{year}", f"{nth} {name}{year}", f"{nth} of {name}{year}")
    if one.day == 1:
        yield f"1er {names[_FRENCH]}{year}"


def _forms_of_month(one: _Date) -> Iterator[str]:
    if one.day and one.year:
        yield from (f"{one.year} {one.month:02}", f"{one.month:02} {one.year}")


def _month_and_year(year: int | None, month: int) -> Iterator[str]:
    yield from (f"{year} {month:02}", f"{month:02} {year}", f"{year}\u5e74{month}\u6708")
    names = _MONTHS[month - 1]
    yield from (f"{name} {year}" for name in names)
    for name in (names[_SPANISH], names[_PORTUGUESE]):
        yield from (f"{name}{joint} {year}" for joint in _JOINTS)


def _digits(year: int | None, month: int, day: int) -> Iterator[str]:
    """Yield a day in digits: the year first or last or not at all, the day before or after the month."""
    if year is None:
        yield from (f"{month:02} {day:02}", f"{day:02} {month:02}", f"{month}\u6708{day}\u65e5")
        return
    yield from (f"{year} {month:02} {day:02}", f"{year} {month} {day}")
    yield from (f"{year}{month:02}{day:02}", f"{year}\u5e74{month}\u6708{day}\u65e5")
    for end in (str(year), f"{year % 100:02}"):
        yield from (f"{day:02} {month:02} {end}", f"{month:02} {day:02} {end}")
        yield from (f"{day} {month} {end}", f"{month} {day} {end}")


def _ordinal(day: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{day}{'th' if day in range(11, 14) else endings.get(day % 10, 'th')}"


MOST_PARTS = 32
"""Parts of one unit, at most: each is looked for in the index."""

_APOSTROPHE = "['\u2019\u02bc\uff07]"
_ELIDED = re.compile(
    rf"\A\W*(?:l|d|j|m|t|s|n|c|qu|jusqu|lorsqu|puisqu|quoiqu|un|all|dall|dell|nell|sull|coll|quell|bell|sant)"
    rf"{_APOSTROPHE}(?=[^\W\d_]{{2}})",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(rf"(?<=[^\W\d_]{{2}}){_APOSTROPHE}s?(?=\W*$)", re.IGNORECASE)
_CONTRACTED = re.compile(rf"n{_APOSTROPHE}t\W*$", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![0-9])[0-9]{1,3}(?:[.,'\u2019][0-9]{3})+(?![0-9])")
_SHORTEST_PART = 2
_PAIR = 2
_JOINED = (2, 3)
_SHORTEST_JOINED = 5
"""Letters of words that may stand in a note as one; shorter ones are other words (``to do``, ``as is``)."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Hold one thing that typed words ask for."""

    text: str
    """Text as typed."""
    spellings: tuple[str, ...]
    """Words and phrases: a note with any of them has the unit."""
    parts: tuple[str, ...] = ()
    """A note with some of them has some of it (the pairs of a run, the words of an identifier)."""
    words: int = 1
    """Number of typed words it stands for."""


def units_of(words: Sequence[str]) -> tuple[Unit, ...]:
    """Return the units of typed words, in their order; a word without a letter, digit or picture has none."""
    units: list[Unit] = []
    at = 0
    for found in find_dates(words):
        units += _units_of_words(words[at : found.first])
        units.append(_date(words, found))
        at = found.last
    return tuple(_joined([*units, *_units_of_words(words[at:])]))


def unit_of(word: str) -> Unit | None:
    """Return the unit of one typed word."""
    return next(iter(units_of([word])), None)


def _joined(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units, each also as one word with its neighbours: ``array pool`` is in ``ArrayPool``, ``back up`` in ``backup``."""
    words = [_single_word(unit) for unit in units]
    joined: list[list[str]] = [[] for _ in units]
    for size in _JOINED:
        for start in range(len(units) - size + 1):
            row = words[start : start + size]
            if all(row) and sum(map(len, row)) >= _SHORTEST_JOINED:
                for index in range(start, start + size):
                    joined[index].append("".join(row))
    for unit, more in zip(units, joined, strict=True):
        yield replace(unit, spellings=(*unit.spellings, *more)) if more else unit


def _single_word(unit: Unit) -> str:
    """Return a unit that is one word of letters, folded; else nothing."""
    word = "" if len(unit.spellings) > 1 else next(iter(pieces(fold(unit.spellings[0]))))
    return word if len(word) >= _SHORTEST_PART and word.isalpha() and not is_run(word) else ""


def _units_of_words(words: Sequence[str]) -> Iterator[Unit]:
    for word in words:
        if unit := _unit(word):
            yield unit


def _date(words: Sequence[str], found: DateWords) -> Unit:
    typed = words[found.first : found.last]
    own = [word for word in typed if len("".join(pieces(fold(word)))) > _SHORTEST_PART]
    own = own if len(typed) > 1 else []
    parts = tuple(dict.fromkeys([*found.month_forms, *own]))
    return Unit(" ".join(typed), found.forms, parts, found.last - found.first)


def _unit(word: str) -> Unit | None:
    found = pieces(fold(word))
    if not found:
        return None
    if any(map(is_run, found)):
        parts = tuple(dict.fromkeys(_script_parts(found)))
        is_pair = len(found) == 1 and len(found[0]) <= _PAIR
        return Unit(word, (word,), () if is_pair else parts)
    core = _POSSESSIVE.sub("", _ELIDED.sub("", word))
    found = pieces(fold(core))
    parts = () if len(found) == 1 or _CONTRACTED.search(core) else _word_parts(found)
    return Unit(word, tuple(_spellings(core, found)), parts)


def _spellings(word: str, found: Sequence[str]) -> Iterator[str]:
    """Yield a word as typed, as one word of the index, and with a space before each capital inside it."""
    yield word
    if len(found) > 1 and (_has_letter(word) or _THOUSANDS.search(word)):
        yield "".join(found)
    apart = spaced(word)
    if apart != word:
        yield apart


def _word_parts(found: Sequence[str]) -> tuple[str, ...]:
    telling = [piece for piece in found if len(piece) >= _SHORTEST_PART and _has_letter(piece)]
    return tuple(dict.fromkeys(telling))[:MOST_PARTS]


def _script_parts(found: Sequence[str]) -> Iterator[str]:
    left = MOST_PARTS
    for piece in found:
        pairs = [a + b for a, b in pairwise(piece)] if is_run(piece) else _word_parts([piece])
        yield from pairs[:left]
        left = max(0, left - len(pairs))


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))
