"""Find dates among typed words, and write each as people write it in notes. Pure.

Dates are read in digits (``18.03.2020``, ``2016-01-21``, ``3/18/20`` by either order) and with the names of months in
seven languages. They are written as phrases of plain words: a phrase of the index does not see what separates
its words, so ``2016 01 21`` is ``2016-01-21`` and ``2016/01/21`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from mcp_notarium.search.folding import fold

_MONTHS = (
    "january januar janvier enero gennaio januari janeiro jan janv ene gen",
    "february februar fevrier febrero febbraio februari fevereiro feb fevr febr fev",
    "march marz mars marzo maart marco mar mrz mrt",
    "april avril abril aprile apr avr abr",
    "may mai mayo maggio mei maio mag",
    "june juni juin junio giugno junho jun giu",
    "july juli juillet julio luglio julho jul juil lug",
    "august aout agosto augustus aug ago",
    "september septembre septiembre settembre setembro sept sep set",
    "october oktober octobre octubre ottobre outubro oct okt ott out",
    "november novembre noviembre novembro nov",
    "december dezember decembre diciembre dicembre dezembro dec dez dic",
)
"""Names of the twelve months, folded: English, German, French, Spanish, Italian, Dutch, Portuguese; short ones last."""
_WITH_DE = frozenset(
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
    "janeiro fevereiro marco maio junho julho setembro outubro novembro dezembro".split()
)
_ENGLISH = frozenset(
    "january february march april may june july august september october november december".split()
)
_SHORTEST_NAME = 4
"""Letters of a name that makes a date of a day without a year; ``set 3`` and ``out 5`` are words."""
_CENTURIES = ("19", "20")
_FIRST_OF_2000 = 70


@dataclass(frozen=True, slots=True)
class DateWords:
    """Hold a date among typed words, those from ``first`` to before ``last``.

    ``forms`` are phrases that mean it, ``month_forms`` those that mean its month. ``year`` is as typed.
    """

    first: int
    last: int
    forms: tuple[str, ...]
    month_forms: tuple[str, ...] = ()
    year: str = ""


@dataclass(frozen=True, slots=True)
class _Day:
    year: int | None
    month: int
    day: int | None


def find_dates(words: Sequence[str]) -> list[DateWords]:
    """Return the dates among the words, in their order; they do not overlap."""
    if not any(map(_may_belong, words)):
        return []
    starts, ends, text = {}, {}, ""
    for index, word in enumerate(words):
        core = fold(word).strip("()[]{},;:!?\"'")
        starts[len(text)] = index
        text += core
        ends[len(text)] = index + 1
        text += " "
    found = []
    for match in _pattern().finditer(text):
        first, last = starts.get(match.start()), ends.get(match.end())
        days = list(_days(match)) if first is not None and last is not None else []
        if first is not None and last is not None and days:
            found.append(_date_words(first, last, days))
    return found


def _may_belong(word: str) -> bool:
    return any("0" <= character <= "9" for character in word)


def _date_words(first: int, last: int, days: Sequence[_Day]) -> DateWords:
    forms = dict.fromkeys(form for day in days for form in _forms(day))
    months = dict.fromkeys(
        form
        for day in days
        if day.day and day.year
        for form in _forms(_Day(day.year, day.month, None))
    )
    year = next((str(day.year) for day in days if day.year), "")
    return DateWords(first, last, tuple(forms), tuple(months), year)


@cache
def _month_of() -> dict[str, int]:
    return {name: at for at, names in enumerate(_MONTHS, 1) for name in names.split()}


@cache
def _pattern() -> re.Pattern[str]:
    names = sorted(_month_of(), key=len, reverse=True)
    long_names = [
        name for name in names if len(name) >= _SHORTEST_NAME or name in {"may", "mai", "mei"}
    ]
    day, month = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])"
    year, ordinal, of = (
        "(?:19|20)[0-9]{2}",
        r"(?:st|nd|rd|th|er|e|o|a|\.)?",
        r"(?:[ ](?:of|de|del|do))?",
    )
    name, long_name = f"(?:{'|'.join(names)})", f"(?:{'|'.join(long_names)})"
    return re.compile(
        rf"""(?<!\S)(?:
          (?P<y1>{year})(?P<s1>[-/.])(?P<m1>{month})(?P=s1)(?P<d1>{day})\.?
        | (?P<a2>[0-3]?[0-9])(?P<s2>[-/.])(?P<b2>[0-3]?[0-9])(?P=s2)(?P<y2>{year}|[0-9]{{2}})
        | (?P<y3>{year})(?P<m3>0[1-9]|1[0-2])(?P<d3>[0-3][0-9])
        | (?P<y4>{year})[-/](?P<m4>{month})
        | (?P<m5>{month})[/.](?P<y5>{year})
        | (?P<y6>{year})\u5e74(?P<m6>{month})\u6708(?:(?P<d6>{day})\u65e5)?
        | (?P<d7>{day}){ordinal}{of}[ -](?P<n7>{name})\.?,?(?:[ ]de|[ ]del|[ ]of)?[ -](?P<y7>{year})
        | (?P<n8>{name})\.?[ ](?P<d8>{day})(?:st|nd|rd|th)?,?[ ](?P<y8>{year})
        | (?P<n9>{name})\.?,?(?:[ ]de|[ ]del|[ ]of)?[ ](?P<y9>{year})
        | (?P<d10>{day}){ordinal}{of}[ ](?P<n10>{long_name})
        | (?P<n11>{long_name})[ ](?P<d11>{day})(?:st|nd|rd|th)?
        )(?!\S)""",
        re.VERBOSE,
    )


def _days(match: re.Match[str]) -> Iterator[_Day]:
    """Yield what the match may mean; only days of the calendar."""
    values = {key.rstrip("0123456789"): value for key, value in match.groupdict().items() if value}
    year = int(_whole_year(values["y"])) if "y" in values else None
    if "a" in values:
        one, other = int(values["a"]), int(values["b"])
        orders = [(one, other)] if values["s"] == "." else [(one, other), (other, one)]
        pairs = [(month, day) for day, month in dict.fromkeys(orders)]
    else:
        month = int(values["m"]) if "m" in values else _month_of()[values["n"]]
        pairs = [(month, int(values["d"]) if "d" in values else None)]
    for month, day in pairs:
        if _exists(year, month, day):
            yield _Day(year, month, day)


def _whole_year(typed: str) -> str:
    if len(typed) > 2:  # noqa: PLR2004  # two digits of four
        return typed
    return _CENTURIES[int(typed) < _FIRST_OF_2000] + typed


def _exists(year: int | None, month: int, day: int | None) -> bool:
    try:
        date(year or 2000, month, day or 1)
    except ValueError:
        return False
    return True


def _forms(day: _Day) -> Iterator[str]:
    """Yield phrases that mean a day or a month."""
    year, month = day.year, day.month
    if day.day is None:
        yield from (f"{year} {month:02}", f"{month:02} {year}", f"{year}\u5e74{month}\u6708")
        yield from (f"{name} {year}" for name in _MONTHS[month - 1].split())
        yield from (f"{name} de {year}" for name in _MONTHS[month - 1].split() if name in _WITH_DE)
        return
    yield from _forms_in_digits(year, month, day.day)
    end = f" {year}" if year else ""
    for name in _MONTHS[month - 1].split():
        yield f"{day.day} {name}{end}"
        yield f"{name} {day.day}{end}"
        if name in _WITH_DE:
            yield f"{day.day} de {name}" + (f" de {year}" if year else "")
        if name in _ENGLISH:
            yield f"{name} {_ordinal(day.day)}{end}"
            yield f"{_ordinal(day.day)} {name}{end}"
            yield f"{_ordinal(day.day)} of {name}{end}"
    if day.day == 1:
        yield f"1er {_MONTHS[month - 1].split()[2]}{end}"


def _forms_in_digits(year: int | None, month: int, day: int) -> Iterator[str]:
    if year is None:
        yield from (f"{month:02} {day:02}", f"{day:02} {month:02}", f"{month}\u6708{day}\u65e5")
        return
    short = f"{year % 100:02}"
    yield f"{year} {month:02} {day:02}"
    yield f"{year}{month:02}{day:02}"
    yield f"{year}\u5e74{month}\u6708{day}\u65e5"
    yield f"{year} {month} {day}"
    for one, other in ((f"{day:02}", f"{month:02}"), (str(day), str(month))):
        yield f"{one} {other} {year}"
        yield f"{other} {one} {year}"
        yield f"{one} {other} {short}"
        yield f"{other} {one} {short}"


def _ordinal(day: int) -> str:
    teens = range(11, 14)
    ending = "th" if day in teens else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"
