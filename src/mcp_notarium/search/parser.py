"""Parse what was typed into a Query. Any text either parses or raises ``QueryError``.

::

    words              any of them, also inflected; notes with more and rarer ones come first
    a AND b            both
    "a phrase"         these words next to each other
    -word  -"phrase"   not with it; NOT word is the same
    a OR b             one of them; binds closer than the space: ``x a OR b`` is x and (a or b)
    prefix*            words beginning so; * alone: every note
    tag:x  -tag:x      with, without a tag; tag:"two words"; also in ``tag:x OR tag:y``
    path:x  -path:x    in, not in a folder, or the note of that path; also in ``path:x OR path:y``
    key:x  "a key":x   with a property of this name, if any note has one: a text, >number, a..b, <2024-05-01, 2024-05
    task:open          with an open task; also done, any, due<2024-05-01, scheduled:2024-05: one task is all of it
    has:key  -has:key  with, without a property of this name; has:tags, has:tasks: with any
    before:2024-05-31  last changed on that day (UTC) or earlier
    after:2024-05-01   last changed on that day (UTC) or later
    modified:2024-05   last changed in that month, also a year, a day, >day, <=day, day..day; or updated:
    created:2024-05    the same for when it was made
    trash:yes|no|any   only trashed notes, only others (default), all; in:trash and is:trashed are trash:yes

Everything else is words, brackets included. A malformed filter is an error, because
as words it would quietly find something else; in quotes it is words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import NoReturn

from mcp_notarium.domain.characters import replace_surrogates, tag_key
from mcp_notarium.errors import QueryError
from mcp_notarium.search import property_filter
from mcp_notarium.search.folding import is_searchable
from mcp_notarium.search.property_filter import EPOCH, TASK_USAGE, joined, read_task_filter
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
    Query,
    Ranked,
    SortBy,
    SortOrder,
    Tagged,
    Trash,
    Word,
)

MAX_CHARACTERS = 4096
MAX_TERMS = 64

_DAY = 86_400
_MONTHS = 12
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_PERIOD = re.compile(r"[0-9]{4}(?:-[0-9]{2}){0,2}")
_TIMES = re.compile(r"(?P<sign>[<>]=?|)(?P<first>[0-9-]*)(?:(?P<range>\.\.)(?P<last>[0-9-]*))?")
_KEYS = "tags?|path|before|after|modified|updated|created|trash|in|is|has|task"
_ITEM = re.compile(
    rf"""(?P<minus>-)?
        (?:(?P<key>{_KEYS}):)?
        (?:"(?P<quoted>[^"]*)"\*?|(?P<bare>\S+))""",
    re.VERBOSE | re.IGNORECASE,
)
_OWN_KEY = re.compile(rf"-?(?:{_KEYS}):", re.IGNORECASE)
_UNFINISHED = re.compile(rf"-?({_KEYS}):", re.IGNORECASE)
_UNKNOWN = re.compile(rf"(?<!\S)-?(?!(?:{_KEYS}):)([a-z][a-z-]{{1,11}}):(?=[^\s/])", re.IGNORECASE)
FILTERS = "Filters: tag:, before:, after:, modified:, created:, in:trash, has: (also has:tags, has:tasks), task:, and properties that notes have."
_CURLY_QUOTES = str.maketrans("“”„‟", '""""')
_TRASH: dict[str, Trash] = {
    "no": "active",
    "0": "active",
    "false": "active",
    "active": "active",
    "yes": "trashed",
    "1": "trashed",
    "true": "trashed",
    "trashed": "trashed",
    "any": "any",
    "2": "any",
    "all": "any",
}
_NAMES_OF_TRASH = {"in": {"trash"}, "is": {"trash", "trashed"}}


@dataclass(frozen=True, slots=True)
class _Filter:
    """Hold a date or trash filter, which applies to the whole query."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class _Sign:
    """Stand for OR, AND or NOT in capitals, outside quotes."""

    word: str


_Item = Condition | _Filter | _Sign


def parse(
    text: str | None,
    *,
    tags: Sequence[str] = (),
    trash: Trash | int | None = None,
    before: str | None = None,
    after: str | None = None,
    sort_by: SortBy | None = None,
    sort_order: SortOrder | None = None,
    is_property: Callable[[str], bool] = lambda _name: False,
    today: date | None = None,
) -> Query:
    """Parse a text and arguments into one query.

    Raises ``QueryError`` and nothing else. Tags add up, and the narrowest of several dates counts.

    * ``trash``: 0 or "active", 1 or "trashed", 2 or "any"; ``trash:`` in the text wins over it;
    * ``before``, ``after``: days, YYYY-MM-DD;
    * ``is_property`` tells whether notes have a property: what looks like a filter by another one is words;
    * ``today``: what this word means to properties and tasks.
    """
    typed = replace_surrogates(text or "").translate(_CURLY_QUOTES)
    if len(typed) > MAX_CHARACTERS:  # defence: query-size
        _refuse(f"The query is longer than {MAX_CHARACTERS} characters.", "Search for less text.")
    query = Query(
        tags=tuple(map(replace_surrogates, tags)),
        sort_by=sort_by or "modified_at",
        sort_order=sort_order or "DESC",
    )
    for key, value in (("before", before), ("after", after), ("trash", trash)):
        if value is not None:
            query = _add_filter(query, _Filter(key, str(value)))
    items = _negate(list(_items(typed, is_property, today))) if typed else []
    if len(items) + len(tags) > MAX_TERMS:
        _refuse(f"The query has more than {MAX_TERMS} terms.", "Leave out the less telling ones.")
    return _with_groups(query, _groups(items))


def find_unknown_filters(text: str) -> list[str]:
    """Return the names of what looks like a filter (``author:ada``) and was parsed as words."""
    return list(dict.fromkeys(_UNKNOWN.findall(text)))


def _items(typed: str, is_property: Callable[[str], bool], today: date | None) -> Iterator[_Item]:
    position = 0
    while position < len(typed):
        named = property_filter.match_filter(typed, position) if ":" in typed else None
        if (
            named
            and not _OWN_KEY.match(typed, position)
            and is_property(property_filter.name_of(named))
        ):
            position = named.end()
            minus = named["minus"] is not None
            yield _apply_sign(property_filter.read_filter(named, today), minus=minus)
            continue
        found = _ITEM.match(typed, position)
        if found is None:
            position += 1
            continue
        position = found.end()
        item = _item(found, is_property, today)
        if item is not None:
            yield item


def _item(
    found: re.Match[str], is_property: Callable[[str], bool], today: date | None
) -> _Item | None:
    """Parse one item of the text; None for empty quotes and a star, which stands for anything."""
    minus, key = found["minus"] is not None, (found["key"] or "").lower()
    quoted, bare = found["quoted"], found["bare"]
    if not key and bare and (unfinished := _UNFINISHED.fullmatch(bare)):
        _refuse_filter(unfinished[1].lower())
    if key:
        value = (bare if quoted is None else quoted).strip()
        return _filter(key, value, is_property, today, minus=minus)
    if quoted is not None:
        return _apply_sign(Phrase(quoted), minus=minus) if quoted.strip() else None
    if not minus and bare in {"OR", "AND", "NOT"}:
        return _Sign(bare)
    if not bare.strip("*"):
        return Word("-" + bare) if minus else None
    if minus and (bare.startswith("-") or not is_searchable(bare)):
        return Word("-" + bare)
    return _apply_sign(_word(bare), minus=minus)


def _word(bare: str) -> Word:
    stem = bare.rstrip("*")
    return Word(stem, prefix=True) if stem != bare and is_searchable(stem) else Word(bare)


def _apply_sign(condition: Condition, *, minus: bool) -> Condition:
    return Not(condition) if minus else condition


def _filter(
    key: str, value: str, is_property: Callable[[str], bool], today: date | None, *, minus: bool
) -> _Item:
    if not value:
        _refuse_filter(key)
    if key in {"tag", "tags"}:
        return _apply_sign(Tagged(value), minus=minus)
    if key == "path":
        if not (folder := value.strip("/")):
            _refuse_filter(key)
        return _apply_sign(InFolder(folder), minus=minus)
    if key == "task":
        task = read_task_filter(value, today)
        return _refuse_filter(key) if task is None else _apply_sign(task, minus=minus)
    if key == "has":
        return _apply_sign(_had(value, is_property), minus=minus)
    if minus:
        _refuse_negated(key)
    if key in _NAMES_OF_TRASH:
        if value.lower() not in _NAMES_OF_TRASH[key]:
            _refuse_filter(key)
        return _Filter("trash", "yes")
    return _Filter(key, value)


def _had(name: str, is_property: Callable[[str], bool]) -> Condition:
    """Return what notes have by this name: tags, tasks where no property is called so, else a property."""
    if tag_key(name) in {"tag", "tags"}:
        return HasTags()
    is_tasks = tag_key(name) in {"task", "tasks"} and not is_property(name)
    return HasTask() if is_tasks else HasProperty(name)


def _negate(items: Sequence[_Item]) -> list[_Item]:
    """Apply NOT to the item behind it. A NOT with nothing behind it is a word."""
    found: list[_Item] = []
    for item in reversed(items):
        behind = found[-1] if found else None
        if item != _Sign("NOT"):
            found.append(item)
        elif isinstance(behind, _Filter):
            _refuse_negated(behind.key)
        elif behind is None or isinstance(behind, _Sign | Not):
            found.append(Word("NOT"))
        else:
            found[-1] = Not(behind)
    return found[::-1]


@dataclass(slots=True)
class _Group:
    """Hold items joined by OR."""

    items: list[Condition | _Filter]
    strict: bool = False
    """AND stands next to it."""


def _groups(items: Sequence[_Item]) -> Iterator[_Group]:
    """Group items joined by OR; AND separates. Either with nothing on one side is a word."""
    group = _Group([])
    joined: _Sign | None = None
    for index, item in enumerate(items):
        sign = item if isinstance(item, _Sign) else None
        if sign and group.items and joined is None and index + 1 < len(items):
            joined = sign
            continue
        if group.items and joined != _Sign("OR"):
            group.strict |= joined is not None
            yield group
            group = _Group([], strict=joined is not None)
        group.items.append(Word(item.word) if isinstance(item, _Sign) else item)
        joined = None
    if group.items:
        yield group


def _with_groups(query: Query, groups: Iterable[_Group]) -> Query:
    """Return the query with what was typed; items of one group are alternatives."""
    words: list[Word] = []
    conditions: list[Condition] = []
    tasks: list[HasTask] = []
    for group in groups:
        match group.items:
            case [Word() as word] if not group.strict:
                words.append(word)
            case [Tagged(tag)]:
                query = replace(query, tags=(*query.tags, tag))
            case [Not(Tagged(tag))]:
                query = replace(query, excluded_tags=(*query.excluded_tags, tag))
            case [InFolder(path)]:
                query = replace(query, folders=(*query.folders, path))
            case [Not(InFolder(path))]:
                query = replace(query, excluded_folders=(*query.excluded_folders, path))
            case [HasTask() as task]:
                tasks.append(task)
            case [_Filter() as item]:
                query = _add_filter(query, item)
            case _:
                conditions.append(_join_alternatives(group.items))
    conditions += joined(tasks)
    bare: list[Condition] = [Ranked(tuple(words))] if words[1:] else [*words]
    terms = (*bare, *conditions)
    return replace(query, terms=And(terms) if terms[1:] else next(iter(terms), None))


def _join_alternatives(group: list[Condition | _Filter]) -> Condition:
    alternatives = [item for item in group if not isinstance(item, _Filter)]
    if len(alternatives) < len(group):
        _refuse(
            "OR works between words, phrases, tags, paths, properties and tasks, not with dates or trash:.",
            "Search twice, or leave the OR out.",
        )
    return Or(tuple(alternatives)) if alternatives[1:] else alternatives[0]


def _add_filter(query: Query, item: _Filter) -> Query:
    match item.key:
        case "before":
            return _narrow(query, before=_day_start(item) + _DAY)
        case "after":
            return _narrow(query, after=_day_start(item))
        case "modified" | "updated":
            after, before = _times(item)
            return _narrow(query, after=after, before=before)
        case "created":
            after, before = _times(item)
            return replace(
                query,
                created_after=_latest(query.created_after, after),
                created_before=_earliest(query.created_before, before),
            )
        case _:
            if (trash := _TRASH.get(item.value.lower())) is None:
                _refuse_filter("trash")
            return replace(query, trash=trash)


def _narrow(query: Query, *, after: int | None = None, before: int | None = None) -> Query:
    return replace(query, after=_latest(query.after, after), before=_earliest(query.before, before))


def _latest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _times(item: _Filter) -> tuple[int | None, int | None]:
    """Return from when (inclusive) until when (exclusive), None for no bound on that side."""
    found = _TIMES.fullmatch(item.value)
    if found is None or not found["first"] + (found["last"] or ""):
        _refuse_filter(item.key)
    sign, is_range = found["sign"], found["range"] is not None
    if sign and is_range:
        _refuse_filter(item.key)
    first = _period(item, found["first"])
    last = _period(item, found["last"]) if is_range else first
    match sign:
        case ">":
            return first[1], None
        case ">=":
            return first[0], None
        case "<":
            return None, first[0]
        case "<=":
            return None, first[1]
        case _:
            return first[0], last[1]


def _period(item: _Filter, text: str | None) -> tuple[int | None, int | None]:
    """Return the start and the end of a day, month or year; Nones for no text."""
    if not text:
        return None, None
    if not _PERIOD.fullmatch(text):
        _refuse_filter(item.key)
    year, month, day = (*text.split("-"), "", "")[:3]
    after_year = f"{int(year) + 1:04}-01-01"
    after_month = f"{year}-{int(month) + 1:02}-01" if month and int(month) < _MONTHS else after_year
    start = day_start(f"{year}-{month or '01'}-{day or '01'}")
    if start is None:
        _refuse_filter(item.key)
    if day:
        return start, start + _DAY
    return start, day_start(after_month if month else after_year)


def _day_start(item: _Filter) -> int:
    start = day_start(item.value)
    if start is None:
        _refuse_filter(item.key)
    return start


def day_start(day: str) -> int | None:
    """Return the epoch seconds of the start of a day (YYYY-MM-DD, UTC); None if there is no such day."""
    found = _DATE.fullmatch(day)
    try:
        known = date(*map(int, found.groups())) if found else None
    except ValueError:
        return None
    return None if known is None else (known.toordinal() - EPOCH) * _DAY


_USAGE = {
    "tag": 'Write tag:name, or tag:"two words".',
    "path": 'Write path:Folder, path:Folder/Below, or path:"two words".',
    "task": TASK_USAGE,
    "has": 'Write has:due, or has:"two words", with the name of a property, has:tags or has:tasks.',
    "before": "Write before:YYYY-MM-DD with a day of the calendar, such as before:2024-05-31.",
    "after": "Write after:YYYY-MM-DD with a day of the calendar, such as after:2024-05-31.",
    **{
        key: f"Write {key}:2024-05-31, {key}:2024-05, {key}:>2024-05-31 or {key}:2024-05-01..2024-05-31."
        for key in ("modified", "updated", "created")
    },
    "trash": "Write trash:no, trash:yes or trash:any.",
    "in": "Write in:trash for the trash, or tag:name for a tag; there are no folders.",
    "is": "Write is:trashed for the trash; there is no other filter of this name, and rows show what is pinned.",
}


def _refuse_filter(key: str) -> NoReturn:
    _refuse(
        f"The filter `{key}:` is not written as it should be.",
        f'{_USAGE[key]} To search for the text itself, put it in quotes: "{key}:".',
    )


def _refuse_negated(key: str) -> NoReturn:
    _refuse(
        f"`{key}:` cannot be excluded with a minus or NOT.",
        "Write before:, after: or trash:no|yes|any for what should be found.",
    )


def _refuse(message: str, hint: str) -> NoReturn:
    raise QueryError(message, resolution_hint=hint)
