"""Define what a note is: frozen values that all packages share. Pure; knows no store and no database.

``Content`` is what a person changes, ``Revision`` is what the store acknowledged (a *base* once we
hold it), ``Note`` is what the index hands to a reader. ``PendingWrite`` is a journal entry: a write
recorded before it is sent and dropped when it is answered.

Two spellings of a path are one path, as with tags (``path_key``): letter case and the form of composed letters do not
tell folders apart, because many file systems do not. A prefix ends where a part ends: ``Work`` covers
``Work/plan.md`` and ``work/a/b.md``, neither ``Workshop/plan.md`` nor ``Work.md``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Final

from mcp_notarium.domain.characters import path_key, replace_surrogates

if TYPE_CHECKING:
    from mcp_notarium.markup.obsidian_links import Links

LONGEST_ID = 1024
"""Characters. A note with a longer id is left out: no call could name it."""
LONGEST_PATH = 200
"""Characters of the titles that lead to a note of a tree, as they are shown."""
Value = bool | int | float | str | tuple[str, ...] | None
"""None: the property is there without a value."""
MARKS: Final = ("pinned", "markdown", "archived")
"""Marks that some stores can set on a note. A property is shown only if it is set; each is a field of ``save``."""
_EXACT = 2**53
_BLOCKS, _INLINE = ("---", "\ufeff---", "+++", "\ufeff+++"), "::"
"""A text without these has no properties."""


_ENDING_OR_DIGITS = re.compile(r"( [0-9a-f]{8})?(\.md|\.markdown)?\Z", re.IGNORECASE)


class Properties(Mapping[str, Value]):
    """Hold names and values; immutable. ``True``, ``1`` and ``1.0`` are three values."""

    __slots__ = ("_values", "json")

    json: Final[str]
    """Hold the same as JSON, sorted by name."""

    def __init__(self, values: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        self._values: Final = dict(sorted(dict(values).items()))
        self.json = json.dumps(self._values, ensure_ascii=False) if self._values else "{}"

    @classmethod
    def from_json(cls, stored: str) -> Properties:
        """Read what ``json`` gave."""
        return NONE if stored == "{}" else cls(read_values(json.loads(stored)))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Properties({list(self._values)!r})"  # never the values, which are a person's

    def having(self, changes: Mapping[str, Value], *, without: Iterable[str] = ()) -> Properties:
        """Return them with these values, and without these names."""
        gone = {*without} - changes.keys()
        kept = {name: value for name, value in self._values.items() if name not in gone}
        return Properties({**kept, **changes})

    def differing(self, other: Properties) -> frozenset[str]:
        """Return the names that only one of the two has, or with another value."""
        names = self._values.keys() | other.keys()
        return frozenset(name for name in names if not _is_same(self, other, name))

    def cleaned(self) -> Properties:
        """Return them in a form that any store can hold: lone surrogates are replaced."""
        if self.json.isascii():
            return self
        return Properties({replace_surrogates(name): _clean(value) for name, value in self.items()})


def flags(*names: str) -> Properties:
    """Return the properties of these names that are set."""
    return Properties(dict.fromkeys(names, True))


def read_values(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return values from JSON; what is of no kind that is known here is left out."""
    read = ((name, tuple(one) if isinstance(one, list) else one) for name, one in values.items())
    return {name: value for name, value in read if is_value(value)}


def is_value(value: Any) -> bool:
    """Tell whether it is a value of a property."""
    if isinstance(value, tuple):
        return all(isinstance(item, str) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return (
            abs(value) <= _EXACT
        )  # a larger one is another number for programs that count in floats
    return value is None or isinstance(value, str)


def _is_same(one: Properties, other: Properties, name: str) -> bool:
    if name not in one or name not in other:
        return False
    return type(one[name]) is type(other[name]) and one[name] == other[name]


def _clean(value: Value) -> Value:
    if isinstance(value, str):
        return replace_surrogates(value)
    return tuple(map(replace_surrogates, value)) if isinstance(value, tuple) else value


NONE: Final = Properties()


class PropertyPlace(Enum):
    """Name where a store keeps properties of any name; marks it keeps in its own way."""

    NOWHERE = "only in a block at the top of the text, if there is one"
    IN_TEXT = "in a block at the top of the text"
    BESIDE = "beside the text"


"""No properties."""


@dataclass(frozen=True, slots=True)
class Content:
    """Hold the parts of a note that a person can change."""

    text: str
    tags: tuple[str, ...] = ()
    """In their order and case."""
    trash: bool = False
    title: str | None = None
    """None where the store has none: there the first line of the text is the title."""
    properties: Properties = NONE
    """Those that stand outside the text; which there can be, says ``Traits.properties``."""
    native: str = ""
    """Native form in which the store is to keep this, if a caller has given one: JSON that only its codec reads.

    It is never merged, stands in no table, and no store returns one.
    """
    dates: tuple[float, float] | None = field(default=None, compare=False)
    """Dates of creation and last change elsewhere, for stores that can set both (``Traits.keeps_dates``).

    They are not compared.
    """

    @property
    def wording(self) -> tuple[str | None, str]:
        """Return title and text: what nobody can restore from memory."""
        return self.title, self.text

    @property
    def may_have_properties(self) -> bool:
        """Tell whether ``domain.properties`` may find any, without a look at the lines."""
        return bool(self.properties) or self.text.startswith(_BLOCKS) or _INLINE in self.text

    @property
    def may_have_tasks(self) -> bool:
        """Tell whether the text may have tasks: boxes, or words behind a dash."""
        return "[" in self.text or "- " in self.text

    def cleaned(self) -> Content:
        """Return it in a form that any store and the index can hold: lone surrogates are replaced."""
        tags = tuple(replace_surrogates(tag) for tag in self.tags)
        title = None if self.title is None else replace_surrogates(self.title)
        text = replace_surrogates(self.text)
        properties = self.properties.cleaned()
        if (text, tags, title, properties) == (self.text, self.tags, self.title, self.properties):
            return self
        return replace(self, text=text, tags=tags, title=title, properties=properties)


@dataclass(frozen=True, slots=True)
class Revision:
    """Hold one state of one note as the store acknowledged it. Times are Unix epoch seconds."""

    id: str
    etag: str
    """Opaque and compared for equality only."""
    content: Content
    created_at: float
    modified_at: float
    raw: bytes
    """The rest of the store's object, unknown fields included, so that a later write can preserve it. Only the
    store's own codec reads it.
    """
    server_version: int | None = None
    """The store's own number, if it has one."""
    tags_understood: bool = True
    """False: the object has tags that ``content`` does not show."""
    identity: str | None = None
    """Names the note beyond its id where a store may rename it.

    A note that is missing under one id and new under another with the same identity is one note, and no other note
    ever gets it. None: ids never change, or it is not certain.
    """
    links: Links | None = field(default=None, compare=False, repr=False)
    """Links of its text; None in a store without paths. The index does not give it back."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Report that the store has removed this note for good."""

    id: str
    hidden: bool = False
    """It is there, and goes because rules hide it."""


def by_identity(identities: Mapping[str, str]) -> dict[str, str]:
    """Return identity to id of those that stand once."""
    often = Counter(identities.values())
    return {identity: note_id for note_id, identity in identities.items() if often[identity] == 1}


@dataclass(frozen=True, slots=True)
class Note:
    """Hold a note as the index has it."""

    id: str
    local_version: int
    """Grows with every change of the row."""
    server_version: int | None
    text: str
    tags: tuple[str, ...]
    trash: bool
    created_at: int
    modified_at: int
    title: str | None = None
    properties: Properties = NONE

    @property
    def content(self) -> Content:
        """Return the changeable part, for comparing and patching."""
        return Content(self.text, self.tags, self.trash, self.title, self.properties)


class WriteKind(StrEnum):
    """Name what the write does at the store."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class WriteState(StrEnum):
    """Name the state: ``IN_FLIGHT`` until answered, ``REJECTED`` if the store will never take it."""

    IN_FLIGHT = "in_flight"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Hold one journal entry. Times are Unix epoch seconds."""

    write_id: str
    """The idempotency key; it never changes over retries."""
    note_id: str
    kind: WriteKind
    base_etag: str | None
    """The acknowledged revision that the content was made from. None: a new note."""
    content: Content
    body: bytes
    """The request body, made by the store's codec."""
    created_at: float
    owner: str
    lease_until: float
    """Until then ``owner`` is working on it."""
    state: WriteState = WriteState.IN_FLIGHT
    reason: str = ""
    """Reason for its rejection; '' if it was not rejected."""
    copied: bool = False
    """The conflict copy of this save is this entry or was made before it, so nothing of it is copied again."""
    repair: bool = False
    """It mends what an earlier push has left of a note, and is not mended again."""
    client: str = ""
    """The program that asked; '' if that is not known."""
    after: str = ""
    """The write_id of one that must be stored first; '' if there is none."""
    replaced: bytes | None = None
    """Data that an UPDATE replaces in the store's own form, as ``Content.native`` takes it. b'': nothing. None: the content says all."""
    first_etag: str | None = None
    """The base of its first attempt, if it has got another one since: it may have arrived on top of any revision from that one on."""
    change_id: str = ""
    """The change of many notes that it belongs to; '' if it is alone."""
    from_id: str = ""
    """The id that the note had before this write has moved it; '' if that is ``note_id``."""
    keeps: bool = field(default=False, compare=False)
    """It is not begun unless what it takes away can be kept. Never stored."""

    def rejected(self, reason: str) -> PendingWrite:
        """Return the entry as text that the store is never asked to take."""
        return replace(self, state=WriteState.REJECTED, reason=reason)


def with_digits(title: str, *, seed: str) -> str:
    """Return a title that no note has; digits that this function added before are replaced."""
    digits = hashlib.sha256(f"{seed}/{title}".encode()).hexdigest()[:8]
    return f"{_ENDING_OR_DIGITS.sub('', title, count=1)} {digits}"


def clean_prefix(text: str) -> str | None:
    """Return a folder or note that a person has typed, without a slash at its end; None if it names neither."""
    prefix = text.removesuffix("/")
    parts = prefix.split("/")
    wrong = "\\" in prefix or any(ord(character) < ord(" ") for character in prefix)
    return None if wrong or any(part.strip() in ("", ".", "..") for part in parts) else prefix


class PathPrefixes:
    """Hold folders and notes, to be asked whether a path is one of them or below one."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._typed = {path_key(one): one for one in sorted(prefixes, reverse=True)}

    @property
    def keys(self) -> list[str]:
        """Return the keys of the prefixes, in order."""
        return sorted(self._typed)

    def find(self, path: str) -> str | None:
        """Return the shortest prefix, as typed, that covers the path; None: none does."""
        key = path_key(path)
        ends = [at for at, character in enumerate(key) if character == "/"]
        return next(
            (self._typed[key[:end]] for end in (*ends, len(key)) if key[:end] in self._typed), None
        )


@dataclass(frozen=True, slots=True)
class Published:
    """Hold which notes everybody may read after a write, and could not before."""

    ids: frozenset[str]
    """'' is a new note."""
    place: str = ""
    """The note below which they come to stand, and which everybody may read; '' where they stand there already."""

    @property
    def digest(self) -> str:
        """Return what tells these notes from others at the same place."""
        return hashlib.sha256("\n".join(sorted(self.ids)).encode("utf-8", "replace")).hexdigest()

    def is_within(self, agreed: Published | None) -> bool:
        """Tell whether an answer about ``agreed`` holds for this."""
        return agreed is not None and self.place == agreed.place and self.ids <= agreed.ids


def join_published(several: Iterable[Published]) -> list[Published]:
    """Return one for each place, with all notes that come to stand there."""
    ids: dict[str, frozenset[str]] = {}
    for one in several:
        ids[one.place] = ids.get(one.place, frozenset()) | one.ids
    return [Published(those, place) for place, those in ids.items()]
