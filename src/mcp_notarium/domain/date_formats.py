"""Write dates as formats of other programs say: moment.js (Obsidian) and Java's letters (Logseq). Pure.

Names of months and days are English. A format is text of a person's settings: it is bounded, and each one gives a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta

LONGEST = 300
"""Characters of a format. Who passes a longer one gets its beginning formatted."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LOCAL = {
    "LTS": "h:mm:ss A",
    "LT": "h:mm A",
    "L": "MM/DD/YYYY",
    "LL": "MMMM D, YYYY",
    "LLL": "MMMM D, YYYY h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A",
    "l": "M/D/YYYY",
    "ll": "MMM D, YYYY",
    "lll": "MMM D, YYYY h:mm A",
    "llll": "ddd, MMM D, YYYY h:mm A",
}
_MOMENT_LOCAL = re.compile(r"(\[[^\[]*\])|(\\)?(LTS|LT|LL?L?L?|l{1,4})")
_MOMENT = re.compile(
    r"(?P<kept>\[[^\[]*\])|(?P<escaped>\\)?(?P<token>[Hh]mm(?:ss)?|Mo|MM?M?M?|Do|DDDo|DD?D?D?|ddd?d?|do?|w[ow]?|W[oW]?|Qo?"
    r"|N{1,5}|YYYYYY|YYYYY|YYYY|YY|y{2,4}|yo?|gg(?:ggg?)?|GG(?:GGG?)?|e|E|a|A|hh?|HH?|kk?|mm?|ss?|S{1,9}|x|X|zz?|ZZ?|.)",
    re.DOTALL,
)
_JAVA = re.compile(
    r"'(?P<quoted>(?:[^']|'')*+)'|(?P<token>do|dth|([A-Za-z])\3*)|(?P<other>[^A-Za-z'])|'"
)


def format_moment(form: str, when: datetime) -> str:
    """Return the date as moment.js writes it with this format, in English. ``when`` has a time zone."""
    expanded = _MOMENT_LOCAL.sub(_expand, form[:LONGEST])
    return _MOMENT.sub(lambda found: _moment_part(found, when), expanded)


def format_java(form: str, when: datetime) -> str:
    """Return the date as cljs-time writes it with this format; letters that mean nothing there stay."""

    def part(found: re.Match[str]) -> str:
        if (quoted := found["quoted"]) is not None:
            return quoted.replace("''", "'") or "'"
        token = found["token"]
        if token is None:
            return found["other"] or ""
        write = _JAVA_TOKENS.get(token)
        return token if write is None else write(when)

    return _JAVA.sub(part, form[:LONGEST])


def _expand(found: re.Match[str]) -> str:
    kept, escaped, token = found.groups()
    return found[0] if kept or escaped else _LOCAL[token]


def _moment_part(found: re.Match[str], when: datetime) -> str:
    if (kept := found["kept"]) is not None:
        return kept[1:-1]
    token = found["token"]
    if found["escaped"]:
        return token.replace("\\", "")
    write = _MOMENT_TOKENS.get(token)
    if write is not None:
        return write(when)
    if token.startswith("S"):
        return f"{when.microsecond * 1000:09d}"[: len(token)]
    return "" if token == "\\" else token  # noqa: S105 - no secret


def _ordinal(number: int) -> str:
    """Return the number with its English ending."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{('th', 'st', 'nd', 'rd')[number % 10] if number % 10 < 4 else 'th'}"  # noqa: PLR2004


def _day_of_year(when: datetime) -> int:
    return when.timetuple().tm_yday


def _from_sunday(when: datetime) -> int:
    return when.isoweekday() % 7


def _local_week(when: datetime) -> tuple[int, int]:
    """Return year and week where weeks begin on Sunday, and the first of a year is that of its January 1st."""
    saturday = when.date().toordinal() + 6 - _from_sunday(when)
    year = when.year
    if saturday >= _new_year(year + 1):
        return year + 1, 1
    first = _new_year(year)
    opening = first - (first % 7)  # the Sunday on or before it: day 7 of the calendar was one
    return year, (when.date().toordinal() - opening) // 7 + 1


def _new_year(year: int) -> int:
    """Return the number of January 1st of a year, which may be the one after the last."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 1


def _hour12(when: datetime) -> int:
    return when.hour % 12 or 12


def _half(when: datetime) -> str:
    return "am" if when.hour < 12 else "pm"  # noqa: PLR2004


def _zone(when: datetime, between: str) -> str:
    offset = when.utcoffset() or timedelta()
    minutes = abs(int(offset.total_seconds())) // 60
    sign = "-" if offset < timedelta() else "+"
    return f"{sign}{minutes // 60:02d}{between}{minutes % 60:02d}"


_MOMENT_TOKENS: dict[str, Callable[[datetime], str]] = {
    "YYYYYY": lambda when: f"+{when.year:06d}",
    "YYYYY": lambda when: f"{when.year:05d}",
    "YYYY": lambda when: f"{when.year:04d}",
    "YY": lambda when: f"{when.year % 100:02d}",
    "Y": lambda when: f"{when.year:04d}",
    "y": lambda when: f"{when.year}",
    "yy": lambda when: f"{when.year:02d}",
    "yyy": lambda when: f"{when.year:03d}",
    "yyyy": lambda when: f"{when.year:04d}",
    "yo": lambda when: f"{when.year}",
    "N": lambda _when: "AD",
    "NN": lambda _when: "AD",
    "NNN": lambda _when: "AD",
    "NNNN": lambda _when: "Anno Domini",
    "NNNNN": lambda _when: "AD",
    "Q": lambda when: f"{(when.month + 2) // 3}",
    "Qo": lambda when: _ordinal((when.month + 2) // 3),
    "M": lambda when: f"{when.month}",
    "MM": lambda when: f"{when.month:02d}",
    "MMM": lambda when: _MONTHS[when.month - 1][:3],
    "MMMM": lambda when: _MONTHS[when.month - 1],
    "Mo": lambda when: _ordinal(when.month),
    "D": lambda when: f"{when.day}",
    "DD": lambda when: f"{when.day:02d}",
    "Do": lambda when: _ordinal(when.day),
    "DDD": lambda when: f"{_day_of_year(when)}",
    "DDDD": lambda when: f"{_day_of_year(when):03d}",
    "DDDo": lambda when: _ordinal(_day_of_year(when)),
    "d": lambda when: f"{_from_sunday(when)}",
    "do": lambda when: _ordinal(_from_sunday(when)),
    "dd": lambda when: _DAYS[when.weekday()][:2],
    "ddd": lambda when: _DAYS[when.weekday()][:3],
    "dddd": lambda when: _DAYS[when.weekday()],
    "e": lambda when: f"{_from_sunday(when)}",
    "E": lambda when: f"{when.isoweekday()}",
    "w": lambda when: f"{_local_week(when)[1]}",
    "ww": lambda when: f"{_local_week(when)[1]:02d}",
    "wo": lambda when: _ordinal(_local_week(when)[1]),
    "W": lambda when: f"{when.isocalendar().week}",
    "WW": lambda when: f"{when.isocalendar().week:02d}",
    "Wo": lambda when: _ordinal(when.isocalendar().week),
    "gg": lambda when: f"{_local_week(when)[0] % 100:02d}",
    "gggg": lambda when: f"{_local_week(when)[0]:04d}",
    "ggggg": lambda when: f"{_local_week(when)[0]:05d}",
    "GG": lambda when: f"{when.isocalendar().year % 100:02d}",
    "GGGG": lambda when: f"{when.isocalendar().year:04d}",
    "GGGGG": lambda when: f"{when.isocalendar().year:05d}",
    "H": lambda when: f"{when.hour}",
    "HH": lambda when: f"{when.hour:02d}",
    "h": lambda when: f"{_hour12(when)}",
    "hh": lambda when: f"{_hour12(when):02d}",
    "k": lambda when: f"{when.hour or 24}",
    "kk": lambda when: f"{when.hour or 24:02d}",
    "hmm": lambda when: f"{_hour12(when)}{when.minute:02d}",
    "hmmss": lambda when: f"{_hour12(when)}{when.minute:02d}{when.second:02d}",
    "Hmm": lambda when: f"{when.hour}{when.minute:02d}",
    "Hmmss": lambda when: f"{when.hour}{when.minute:02d}{when.second:02d}",
    "a": _half,
    "A": lambda when: _half(when).upper(),
    "m": lambda when: f"{when.minute}",
    "mm": lambda when: f"{when.minute:02d}",
    "s": lambda when: f"{when.second}",
    "ss": lambda when: f"{when.second:02d}",
    "X": lambda when: f"{math.floor(when.timestamp())}",
    "x": lambda when: f"{math.floor(when.timestamp()) * 1000 + when.microsecond // 1000}",
    "z": lambda _when: "",
    "zz": lambda _when: "",
    "Z": lambda when: _zone(when, ":"),
    "ZZ": lambda when: _zone(when, ""),
}  # fmt: skip
_JAVA_TOKENS: dict[str, Callable[[datetime], str]] = {
    "y": lambda when: f"{when.year}",
    "yy": lambda when: f"{when.year % 100:02d}",
    "yyyy": lambda when: f"{when.year:04d}",
    "YYYY": lambda when: f"{when.year:04d}",
    "M": _MOMENT_TOKENS["M"],
    "MM": _MOMENT_TOKENS["MM"],
    "MMM": _MOMENT_TOKENS["MMM"],
    "MMMM": _MOMENT_TOKENS["MMMM"],
    "d": _MOMENT_TOKENS["D"],
    "dd": _MOMENT_TOKENS["DD"],
    "do": _MOMENT_TOKENS["Do"],
    "dth": _MOMENT_TOKENS["Do"],
    "D": _MOMENT_TOKENS["DDD"],
    "DDD": _MOMENT_TOKENS["DDDD"],
    "e": _MOMENT_TOKENS["E"],
    "E": _MOMENT_TOKENS["ddd"],
    "EEE": _MOMENT_TOKENS["ddd"],
    "EEEE": _MOMENT_TOKENS["dddd"],
    "w": _MOMENT_TOKENS["W"],
    "ww": _MOMENT_TOKENS["WW"],
    "H": _MOMENT_TOKENS["H"],
    "HH": _MOMENT_TOKENS["HH"],
    "h": _MOMENT_TOKENS["h"],
    "hh": _MOMENT_TOKENS["hh"],
    "m": _MOMENT_TOKENS["m"],
    "mm": _MOMENT_TOKENS["mm"],
    "s": _MOMENT_TOKENS["s"],
    "ss": _MOMENT_TOKENS["ss"],
    "a": _half,
    "A": lambda when: _half(when).upper(),
}
