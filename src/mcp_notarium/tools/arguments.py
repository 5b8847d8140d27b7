"""Read the arguments of a call as agents and proxies send them, before the types of the request check them. Pure.

Every request, of our tools and of native ones, is read here (``requests.Wire``). Numbers, flags and lists may arrive as
text, a text as a number. An empty value means "not given" where nothing else is meant by it: ``null``, ``""``, ``[]``,
and ``0`` where numbers begin above it, also as text. A field whose emptiness is a value has the mark ``EMPTY``. What
does not fit stays as it came, and the request refuses it.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge
from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Empty:
    """Mark a field whose emptiness is a value; ``null``: so is ``null``."""

    null: bool = False


@dataclass(frozen=True, slots=True)
class LoneText:
    """Mark a list of texts without commas that may arrive as one text: the only one, or all with commas between."""


EMPTY, NULL, LONE_TEXT = Empty(), Empty(null=True), LoneText()
_FLAGS = {"true": True, "false": False}
_EXACT = 2**53
"""From here on a float may stand for several whole numbers."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Hold what reading has to know of a field: the names that it may have, its type, and its marks."""

    names: tuple[str, ...]
    kind: Any
    required: bool
    empty: Empty | None
    lone_text: bool
    from_one: bool


def read_arguments(model: type[BaseModel], sent: Any) -> Any:
    """Return the arguments in the form that the model checks; anything but an object as it is."""
    if not isinstance(sent, Mapping):
        return sent
    read = dict(sent)
    for field in _fields(model):
        for name in field.names:
            if name in read:
                read[name] = _read(field, read[name])
                if not field.required and _is_absent(field, read[name]):
                    del read[name]
    return read


def _is_absent(field: _Field, value: Any) -> bool:
    """Tell whether a value can only mean that there is none."""
    if value is None:
        return field.empty is None or not field.empty.null
    if isinstance(value, str):
        if field.kind is str:
            return not value and field.empty is None
        zero = value.strip() == "0" and (field.from_one or field.kind is bool)
        return zero or not value.strip()
    if isinstance(value, list | dict):
        return not value and field.empty is None
    is_zero = value == 0 and not isinstance(value, bool)
    return is_zero and (field.from_one or field.kind is bool)


def _read(field: _Field, value: Any) -> Any:
    kind, origin = field.kind, get_origin(field.kind)
    if kind is str:
        return _read_text(value)
    if kind is bool:
        return read_flag(value)
    if origin is Literal:
        return _read_choice(value, get_args(kind))
    if origin is list:
        return _read_list(field, value)
    return _parse_json(value) if _is_model(kind) else value


def read_flag(value: Any) -> Any:
    """Take ``"true"`` and ``"false"`` for flags; anything else as it is."""
    return _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _read_text(value: Any) -> Any:
    """Take a number for its text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    whole_digits = isinstance(value, int) and abs(value) < 10**_MOST_DIGITS
    return (
        str(value) if whole_digits or (isinstance(value, float) and math.isfinite(value)) else value
    )


_MOST_DIGITS = 400


def _read_choice(value: Any, choices: tuple[Any, ...]) -> Any:
    """Take a choice in any letter case."""
    if not isinstance(value, str):
        return value
    meant = value.strip().casefold()
    return next((one for one in choices if str(one).casefold() == meant), value)


def _read_list(field: _Field, value: Any) -> Any:
    """Take a list as JSON text, an object for the list of it, and one text if it may stand for a list."""
    [inner] = get_args(field.kind)
    value = _parse_json(value)
    if isinstance(value, str) and field.lone_text and value.strip():
        return _read_lone_text(value)
    if isinstance(value, Mapping) and value and _is_model(inner):
        return [value]
    if isinstance(value, list) and inner is str:
        return [_read_text(one) for one in value]
    return value


def _read_lone_text(value: str) -> Any:
    """Take a text for the list of its parts between commas, unless it may be a list in some notation."""
    if value.lstrip()[0] in "[{":
        return value
    if "," not in value:
        return [value]
    parts = [part.strip() for part in value.split(",") if part.strip()]
    return parts if parts and _NOTATION.isdisjoint(value) else value


_NOTATION = frozenset("[]{}\"'")


def _parse_json(value: Any) -> Any:
    """Parse a list or an object that was sent as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


@functools.cache
def _fields(model: type[BaseModel]) -> tuple[_Field, ...]:
    return tuple(_describe(name, field) for name, field in model.model_fields.items())


def _describe(name: str, field: FieldInfo) -> _Field:
    kind, marks = _unwrap(field.annotation)
    marks = [*marks, *_flat(field.metadata)]
    alias = field.validation_alias
    names = (
        [one for one in alias.choices if isinstance(one, str)]
        if isinstance(alias, AliasChoices)
        else []
    )
    return _Field(
        names=tuple(names) or (name,),
        kind=kind,
        required=field.is_required(),
        empty=next((one for one in marks if isinstance(one, Empty)), None),
        lone_text=any(isinstance(one, LoneText) for one in marks),
        from_one=any(
            isinstance(one, Ge) and isinstance(one.ge, int) and one.ge > 0 for one in marks
        ),
    )


def _unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the type without ``None`` and ``Annotated``, and the marks on the way to it."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        kind, more = _unwrap(inner)
        return kind, [*_flat(marks), *more]
    if get_origin(annotation) in (Union, UnionType):
        [kept] = [one for one in get_args(annotation) if one is not type(None)]
        return _unwrap(kept)
    return annotation, []


def _flat(marks: Any) -> Iterator[Any]:
    for mark in marks:
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
        else:
            yield mark


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
