"""Change properties of notes where they stand: marks of the store, values outside the text, or spans of the text.

A property that a note has is changed where it is. A new one goes where the store keeps such properties. Nothing else
of the text changes. Every refusal names the forms that are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import newline_of, shorten
from mcp_notarium.domain.note import Content, Properties, PropertyPlace, Value, is_value
from mcp_notarium.domain.policy import Field
from mcp_notarium.domain.properties import LONGEST_KEY, LONGEST_VALUE, MOST, MOST_ITEMS
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.front_block import find_block
from mcp_notarium.tools.answers import PropertiesAnswer, PropertyRow
from mcp_notarium.tools.requests import PropertyChanges, read_flag
from mcp_notarium.tools.sync_notice import page_fields, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.stores.contract import Traits
    from mcp_notarium.tools.requests import ManageRequest

FORMS = "a text, a number, true, false, a list of texts, or null to remove it"
_ELSEWHERE = {"tags": "`tags`", "tag": "`tags`", "title": "`title`"}
_MARKDOWN = "markdown"
_BLOCK_IS_TITLE = "The properties stand in a block at the top of the text now, so the app shows its first line, `---`, as the title."
MOST_LISTED = 100
"""Properties of a page of `list_properties`."""
Changes = Mapping[str, Value]
"""Values by names; None removes."""


def read_changes(given: PropertyChanges, *, marks: frozenset[str]) -> dict[str, Value]:
    """Return what a request sets and removes (None). Raises ``InvalidRequest`` for what is no property."""
    changes: dict[str, Value] = {}
    spelled = {tag_key(mark): mark for mark in marks}
    for said, sent in given.model_dump(exclude_unset=True).items():
        name = spelled.get(tag_key(said), said)
        if sent is None:
            changes[_checked(name)] = None
        else:
            changes[name] = _read_mark(name, sent) if name in marks else _read_value(name, sent)
    return changes


def _read_mark(name: str, sent: Any) -> Value:
    value = read_flag(sent)
    if not isinstance(value, bool):
        raise _value_error(name, "true or false")
    return value or None


def _read_value(name: str, sent: Any) -> Value:
    name = _checked(name)
    value = (
        tuple(one if isinstance(one, str) else _as_text(one) for one in sent)
        if isinstance(sent, list)
        else sent
    )
    if not is_value(value):
        raise _value_error(name, FORMS)
    items = value if isinstance(value, tuple) else (value,)
    if len(items) > MOST_ITEMS or any(
        isinstance(one, str) and len(one) > LONGEST_VALUE for one in items
    ):
        raise _value_error(
            name, f"at most {LONGEST_VALUE} characters, and lists at most {MOST_ITEMS} items"
        )
    return value


def _as_text(item: Any) -> Any:
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    return str(item) if is_number else item


def _checked(name: str) -> str:
    if (key := name.strip().casefold()) in _ELSEWHERE:
        raise InvalidRequest(
            f"`{key}` is changed by an argument of its own; nothing was saved.",
            subcategory="arguments",
            resolution_hint=f"Give {_ELSEWHERE[key]}.",
        )
    if name != name.strip() or not 0 < len(name) <= LONGEST_KEY or len(name.splitlines()) != 1:
        raise InvalidRequest(
            "A name of a property cannot be taken; nothing was saved.",
            subcategory="arguments",
            resolution_hint=f"Write it in one line of 1 to {LONGEST_KEY} characters, without blanks around it.",
        )
    return name


def _value_error(name: str, forms: str) -> InvalidRequest:
    return InvalidRequest(
        f"The property “{shorten(name)}” cannot have this value; nothing was saved.",
        subcategory="arguments",
        resolution_hint=f"Give {forms}.",
    )


def with_marks(held: Properties, changes: Mapping[str, bool]) -> Properties:
    """Return the properties after these marks are set (True) or removed (False)."""
    wanted = dict.fromkeys((name for name, is_set in changes.items() if is_set), True)
    return held.having(wanted, without=changes.keys())


def with_properties(app: App, content: Content, changes: Changes) -> Content:
    """Return the content with these properties changed, each where it stands. Raises ``InvalidRequest``."""
    traits = app.library.traits
    beside: dict[str, Value] = {}
    in_text: dict[str, Value] = {}
    spelled = {tag_key(name): name for name in content.properties}
    stand = _names_in_text(content)
    fields = {tag_key(name): name for name in traits.fields}
    is_markdown = _is_markdown(content, changes, traits.properties)
    for name, value in changes.items():
        if name in traits.properties:
            beside[name] = value
        elif (key := tag_key(name)) in fields:
            beside |= _field_change(fields[key], value, content.properties, traits)
        elif key in spelled:
            beside[spelled[key]] = value
        elif key in stand or _goes_into_text(content.text, traits.other_properties, is_markdown):
            in_text[name] = value
        elif traits.other_properties is PropertyPlace.BESIDE:
            beside[name] = value
        elif value is not None:
            raise _no_property_error(name, traits)
    keeps_block = traits.other_properties is PropertyPlace.IN_TEXT
    content = _with_text(content, in_text, keeps_block=keeps_block)
    gone = {name for name, value in beside.items() if value is None}
    kept = {name: value for name, value in beside.items() if value is not None}
    properties = content.properties.having(kept, without=gone)
    if len(properties) > max(MOST, len(content.properties)):
        raise InvalidRequest(
            f"A note can have at most {MOST} properties.",
            resolution_hint="Remove some with null; nothing was saved.",
        )
    tags = _with_names(content.tags, kept, gone) if traits.names_are_tags else content.tags
    return replace(content, properties=properties, tags=tags)


def title_lost_to_block(old: str, new: str) -> list[str]:
    """Return what is said where the first line is the title, and a block of properties has come above it."""
    return [_BLOCK_IS_TITLE] if find_block(new) and not find_block(old) else []


def _names_in_text(content: Content) -> set[str]:
    if not content.may_have_properties:
        return set()
    from mcp_notarium.markup.front_matter import NotUnderstood  # noqa: PLC0415 - few notes need YAML
    from mcp_notarium.markup.properties import read_properties  # noqa: PLC0415

    try:
        return {tag_key(name) for name in read_properties(content.text)}
    except NotUnderstood:
        return set()


def _goes_into_text(text: str, place: PropertyPlace, is_markdown: bool) -> bool:  # noqa: FBT001
    if place is PropertyPlace.BESIDE:
        return False
    return place is PropertyPlace.IN_TEXT or is_markdown or find_block(text) is not None


def _is_markdown(content: Content, changes: Changes, marks: frozenset[str]) -> bool:
    """Tell whether the note has the mark of a text in Markdown, or gets it."""
    if _MARKDOWN not in marks:
        return False
    return bool(changes.get(_MARKDOWN, content.properties.get(_MARKDOWN)))


def _field_change(name: str, value: Value, held: Properties, traits: Traits) -> dict[str, Value]:
    """Return the change of a field of the app; none if it says this already. Raises ``InvalidRequest``."""
    values = traits.fields[name]
    if not values and value != held.get(name):
        known = ", ".join(f"`{one}`" for one in traits.settable)
        raise InvalidRequest(
            f"`{name}` is shown, and set only in the app of the notes; nothing was saved.",
            subcategory="read_only_property",
            resolution_hint=f"The user can change it there. Properties that can be set here: {known}.",
        )
    if value == held.get(name) or (value is None and name not in held):
        return {}
    if value is not None and value not in values:
        raise _value_error(name, f"one of {', '.join(values)}, or null")
    return {name: None if value == values[0] else value}


def _with_text(content: Content, changes: Changes, *, keeps_block: bool) -> Content:
    if not changes:
        return content
    from mcp_notarium.markup.front_matter import NotUnderstood  # noqa: PLC0415
    from mcp_notarium.markup.properties import REMOVE, change_properties  # noqa: PLC0415
    from mcp_notarium.markup.property_values import RepeatedProperty, UnfitProperty, from_json  # noqa: PLC0415

    try:
        wanted = {
            name: REMOVE if value is None else from_json(value) for name, value in changes.items()
        }
        text = change_properties(content.text, wanted)
    except NotUnderstood:
        raise InvalidRequest(
            "The properties at the top of the note cannot be read, so none was changed.",
            subcategory="front_matter",
            resolution_hint="Mend the top of the note with `text_patch`: YAML, lines `key: value` between two lines `---`; TOML (`+++`) is not read.",
        ) from None
    except RepeatedProperty as refusal:
        raise InvalidRequest(
            f"{refusal} Apps do not agree which one counts, so nothing was saved.",
            subcategory="front_matter",
            resolution_hint="Remove all but one of these lines with `text_patch`, then set the property.",
        ) from None
    except UnfitProperty as refusal:
        raise InvalidRequest(
            f"{refusal} Nothing was saved.",
            subcategory="arguments",
            resolution_hint=f"Give a name in one line, and {FORMS}.",
        ) from None
    if keeps_block and find_block(content.text) and not find_block(text):
        # A text without a block would get back the one that the note has.
        mark, end = "\ufeff" * text.startswith("\ufeff"), newline_of(content.text)
        text = f"{mark}---{end}---{end}{text.removeprefix(mark)}"
    return replace(content, text=text)


def _with_names(tags: Sequence[str], kept: Mapping[str, Value], gone: set[str]) -> tuple[str, ...]:
    """Return the tags with the names of properties that are kept, and without those that are gone."""
    left = [tag for tag in tags if tag not in gone]
    return (*left, *(name for name in kept if name not in left))


def _no_property_error(name: str, traits: Traits) -> InvalidRequest:
    known = ", ".join(traits.settable) or "none"
    markdown = " A note with `markdown` can have any: they stand in a block at the top of its text."
    return InvalidRequest(
        f"this note can have no property {shorten(name)}; nothing was saved",
        subcategory="no_property",
        resolution_hint=f"The properties that can be set here: {known}."
        + markdown * (_MARKDOWN in traits.properties),
    )


def require_filter(app: App) -> None:
    """Raise ``NotPermitted`` if notes may not be filtered by properties: the results would show hidden parts."""
    app.config.policy.require_filter(Field.TEXT)
    if app.library.traits.names_are_tags:
        app.config.policy.require_filter(Field.TAGS)


async def with_types(app: App, changes: Changes) -> Changes:
    """Return the changes with values of the types that the app of the notes gives to them. Raises ``InvalidRequest``."""
    types = await app.library.property_types() if changes else {}
    if not types:
        return changes
    from mcp_notarium.domain.properties import FORMS as TYPED  # noqa: PLC0415 - few apps have types
    from mcp_notarium.domain.properties import UnfitType, with_type  # noqa: PLC0415

    fitted: dict[str, Value] = {}
    for name, value in changes.items():
        kind = types.get(tag_key(name), "")
        try:
            fitted[name] = with_type(value, kind) if kind else value
        except UnfitType:
            raise InvalidRequest(
                f"The property “{shorten(name)}” has the type `{kind}` in the user's app; nothing was saved.",
                subcategory="arguments",
                resolution_hint=f"Give {TYPED[kind]}, or null to remove it.",
            ) from None
    return fitted


async def count(app: App, request: ManageRequest, _call: CallContext) -> PropertiesAnswer:
    """Return one page of the properties of visible notes outside the trash, most used first.

    Raises ``NotPermitted`` if the policy hides texts, and ``StillLoading``.
    """
    require_filter(app)
    status = await wait_for_notes(app)
    size, page = app.usage_limits.limit_rows(MOST_LISTED), request.page or 1
    types = await app.library.property_types()
    found, total = app.library.count_properties(limit=size, offset=(page - 1) * size)
    return PropertiesAnswer(
        properties=[
            PropertyRow(
                name=one.name,
                notes=one.notes,
                kinds=list(one.kinds),
                type=types.get(tag_key(one.name)),
                values={shorten(value): notes for value, notes in one.values} or None,
            )
            for one in found
        ],
        **page_fields(app, status, page=page, size=size, total=total),
    )
