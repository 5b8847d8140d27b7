"""Read ETAPI's note objects as revisions, and compose what a save sends. Pure.

A text note is HTML at the server and Markdown here (``html_codec``). Code and the like are kept as they are.
Of files, images and folders only title and labels are here; their text says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mcp_notarium.domain.note import Content, Properties, Revision, Value
from mcp_notarium.domain.properties import shown_value, typed
from mcp_notarium.errors import InvalidRequest, StoreProtocolError, StoreRejected, UnfitContent
from mcp_notarium.markup import html_codec
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.label_order import arrange

VERSION = 3
ROOT = "root"
SHARE = "_share"
"""Trilium's own note: all that stands below it is published."""
SHARE_LOGIN = "shareCredentials"
"""The label whose value is a name and password for a published note."""
HTML = "text"
_JSON = "application/json"
OWN_IMAGES = ("api/attachments/", "api/images/")
MIMES = {
    HTML: "text/html",
    "code": "text/plain",
    "mermaid": "text/vnd.mermaid",
    "canvas": _JSON,
    "mindMap": _JSON,
    "relationMap": _JSON,
    "spreadsheet": _JSON,
}
"""Types of notes that have a text, with the MIME type of a new one."""
VERBATIM = MIMES.keys() - {HTML}
_ATTRIBUTE = ("noteId", "type", "name", "value", "isInheritable")
_PROPERTIES = (
    "mime", "blobId", "dateCreated", "dateModified", "utcDateCreated", "utcDateModified",
)  # fmt: skip
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,127}")
_LABEL_NAME = re.compile(r"[\w:]+")
_DEFINITION = re.compile(r"(label|relation):")
_BOOKMARK = "internalBookmark"
"""A label that 0.103 makes of each bookmark in the text by itself: no tag of a person's."""
DAY = "dateNote"
"""The label whose value names the day of a note of the calendar."""
_NEW = "New note"
_TWO = 2
_LONGEST_TITLE = 100
_MARKUP = re.compile(r"^[\s#>*+\-\[\]]+|[*_`~\\]+")


@dataclass(frozen=True, slots=True)
class Label:
    """Hold a label that a note owns."""

    id: str
    name: str
    value: str
    position: int
    inheritable: bool = False


@dataclass(frozen=True, slots=True)
class NoteObject:
    """Hold a note as the API lists it: everything but its content."""

    id: str
    title: str
    kind: str
    mime: str
    blob_id: str
    created: float
    modified: float
    protected: bool
    labels: tuple[Label, ...]
    inherited: tuple[tuple[str, str], ...]
    tags_understood: bool
    children: int
    places: tuple[str, ...] = ()
    """The ids of the notes right above it, but Trilium's own."""

    @property
    def has_text(self) -> bool:
        """Tell whether its content can be read here."""
        return self.kind == HTML or self.kind in VERBATIM

    @property
    def etag(self) -> str:
        """Return the hash of everything that a reader or the policy sees, inherited labels and places too."""
        labels = [(one.name, one.value) for one in self.labels]
        tags = [labels, self.inherited, self.tags_understood]
        seen = [self.title, self.kind, self.mime, self.blob_id, tags, sorted(self.places)]
        return hashlib.sha256(to_json(seen)).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class TreeNote:
    """Hold a note as the server has just answered it, without its text."""

    id: str
    title: str
    kind: str
    version: str
    """It changes with the text."""
    etag: str
    """As that of a ``Revision``."""
    tags: tuple[str, ...]
    """Tags that the policy judges, as of a ``Revision``."""
    tags_understood: bool
    passed_on: tuple[tuple[str, str], ...]
    """Names and values of the labels that a note gets which is made below it."""
    parents: tuple[str, ...]
    children: tuple[str, ...]
    values: Properties
    attributes: tuple[Mapping[str, Any], ...] = field(repr=False)
    """Each names its owner as ``noteId``, and a note as ``value`` if its ``type`` is ``relation``."""
    properties: Mapping[str, Any] = field(repr=False)
    """The rest, by the service's own names."""


def is_possible_id(note_id: str) -> bool:
    """Tell whether a note of ours can have this id: the root and Trilium's own notes are none."""
    return _ID.fullmatch(note_id) is not None and note_id not in (ROOT, "none")


def blob_id(content: bytes) -> str:
    """Return the id that Trilium gives to this content."""
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    return digest.replace("+", "X").replace("/", "Y")[:20]


def note_object(value: Any) -> NoteObject:
    """Read a note object. Raises ``StoreProtocolError``."""
    try:
        found = list(filter(_is_label, value["attributes"]))
        shown = [one for one in found if _LABEL_NAME.fullmatch(one["name"])]
        owned = [one for one in shown if one["noteId"] == value["noteId"]]
        labels = sorted(map(_label, owned), key=lambda one: one.position)
        own_names = {one.name for one in labels}
        inherited = [
            (_text(one["name"]), _text(one["value"]))
            for one in shown
            if one["noteId"] != value["noteId"] and one["name"] not in own_names
        ]
        return NoteObject(
            id=_text(value["noteId"]),
            title=_text(value["title"]),
            kind=_text(value["type"]),
            mime=_text(value["mime"]),
            blob_id=_text(value["blobId"]),
            created=_seconds(value["utcDateCreated"]),
            modified=_seconds(value["utcDateModified"]),
            protected=value["isProtected"] is not False,
            labels=tuple(labels),
            inherited=tuple(dict.fromkeys(inherited)),
            tags_understood=shown == found,
            children=len(value["childNoteIds"]),
            places=tuple(one for one in map(_text, value["parentNoteIds"]) if one[:1] != "_"),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise StoreProtocolError(
            "Trilium answered a note in a form that is not known here (0.61 or newer is needed)"
        ) from None


def revision_objects(value: Any) -> list[tuple[str, NoteObject]]:
    """Read a list of revisions: the id of each, and what the note was, without its labels.

    Those that are protected or have no text are left out. Raises ``StoreProtocolError``.
    """
    found = []
    try:
        for one in value:
            edited = _seconds(one["utcDateLastEdited"])
            note = NoteObject(
                id=_text(one["noteId"]),
                title=_text(one["title"]),
                kind=_text(one["type"]),
                mime=_text(one["mime"]),
                blob_id=_text(one["blobId"]),
                created=edited,
                modified=edited,
                protected=one["isProtected"] is not False,
                labels=(),
                inherited=(),
                tags_understood=False,
                children=0,
            )
            if note.has_text and not note.protected:
                found.append((_text(one["revisionId"]), note))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise StoreProtocolError("Trilium answered revisions in an unknown form") from None
    return found


def tags_of(note: NoteObject) -> tuple[str, ...]:
    """Return the names of all labels of a note, its own first."""
    names = [*(one.name for one in note.labels), *(name for name, _ in note.inherited)]
    return tuple(dict.fromkeys(names))


def shown_labels(labels: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those labels that are tags here, each once."""
    shown = [one for one in labels if _LABEL_NAME.fullmatch(one[0]) and _is_tag(one[0])]
    return list(dict.fromkeys(shown))


def tree_note(value: Any) -> TreeNote:
    """Read a note object with all of its attributes. Raises ``StoreProtocolError``."""
    note = note_object(value)
    try:
        attributes = tuple({name: one[name] for name in _ATTRIBUTE} for one in value["attributes"])
        for one in attributes:
            _text(one["noteId"]), _text(one["type"]), _text(one["name"]), _text(one["value"])
        properties = {name: _text(value[name]) for name in _PROPERTIES}
        parents, children = (
            tuple(map(_text, value[name])) for name in ("parentNoteIds", "childNoteIds")
        )
    except (KeyError, TypeError, ValueError):
        raise StoreProtocolError(
            "Trilium answered a note in a form that is not known here"
        ) from None
    passed_on = (one for one in attributes if one["isInheritable"] is True and _is_label(one))
    return TreeNote(
        id=note.id,
        title=note.title,
        kind=note.kind,
        version=note.blob_id,
        etag=note.etag,
        tags=tags_of(note),
        tags_understood=note.tags_understood,
        passed_on=tuple(dict.fromkeys((one["name"], one["value"]) for one in passed_on)),
        parents=parents,
        children=tuple(child for child in children if not child.startswith("_")),
        values=values_of([(one.name, one.value) for one in note.labels] + [*note.inherited]),
        attributes=attributes,
        properties=properties,
    )


def server_facts(value: Any, *, date: float | None, now: float) -> str:
    """Return the version that ``app-info`` says, and by how much the date of its answer differs from ``now``.

    The time that ``app-info`` names is that of the server's start.
    """
    facts = value if isinstance(value, dict) else {}
    version = facts.get("appVersion")
    known = version[:40] if isinstance(version, str) and version.isprintable() else None
    clock = "unknown" if date is None else f"{round(date + 0.5 - now):+d} s"
    return f"{known or 'of unknown version'} (its clock: {clock})"


def given(text: str, base: Revision | None, **fields: Any) -> Content:
    """Return the content of a text: of HTML, which is kept as it is, or of what ``compose`` takes."""
    kind = fields.get("type", HTML) if base is None else json.loads(base.raw)["type"]
    if kind == HTML and html_codec.is_html(text):
        fields["stored"], text = text, html_codec.to_markdown(text)
    return Content(text, native=to_json(fields).decode() if fields else "")


def is_markdown(revision: Revision) -> bool:
    """Tell whether a note is HTML, which is Markdown here; the content of others is as it is."""
    return bool(json.loads(revision.raw)["type"] == HTML)


def day_of(revision: Revision) -> str:
    """Return the day that a note of the calendar is of, '' for any other note."""
    labels = json.loads(revision.raw)["labels"]
    return next((str(one[2]) for one in labels if one[1] == DAY), "")


def is_of_day(note: NoteObject, day: str) -> bool:
    """Tell whether this is the calendar's note of the day."""
    return any((one.name, one.value) == (DAY, day) for one in note.labels)


def as_it_was(revision: Revision) -> str:
    """Return what makes ``compose`` store the HTML of an older revision as it was; '' if it has none."""
    html = json.loads(revision.raw).get("html")
    return "" if html is None else to_json({"stored": html, "kept": True}).decode()


def form_losses(base: Revision, body: bytes) -> tuple[str, ...]:
    """Name what a composed body takes from the words of a note, whose text stays."""
    html, made = json.loads(base.raw).get("html"), json.loads(body)
    changes = html is not None and made["edited"]
    # defence: lost-formatting-asks =()
    return ("formatting",) if changes and html_codec.loses_formatting(html, made["content"]) else ()


def forms(base: Revision, body: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the HTML that a composed body replaces, and its own."""
    html, made = json.loads(base.raw).get("html"), json.loads(body)
    changes = html is not None and made["edited"]
    return ({"HTML": html}, {"HTML": made["content"]}) if changes else ({}, {})


def given_below(
    parent: TreeNote, text: str, *, kind: str, title: str | None, public: bool
) -> Content:
    """Return the content of a new note below another; ``public``: everybody may read it. Raises ``InvalidRequest``."""
    if kind not in MIMES:
        raise InvalidRequest(
            "A note of this type cannot be made here.",
            subcategory="type",
            resolution_hint=f"Types are: {', '.join(MIMES)}.",
        )
    labels = parent.passed_on
    inherited = [list(one) for one in labels]
    place = {"parent": parent.id, "inherited": inherited} | ({"public": True} if public else {})
    content = given(text, None, type=kind, mime=MIMES[kind], **place)
    tags = tuple(dict.fromkeys(name for name, _ in labels))
    return replace(content, title=title, tags=tags, properties=values_of(labels))


def revision(note: NoteObject, content: bytes | None) -> Revision:
    """Return the revision of a note; ``content`` None: it is not read. Raises ``StoreProtocolError``."""
    try:
        stored = None if content is None else content.decode()
    except UnicodeDecodeError:
        raise StoreProtocolError("the content of this note is not text") from None
    fields: dict[str, Any] = {
        "type": note.kind,
        "mime": note.mime,
        "labels": [
            [one.id, one.name, one.value, one.position, one.inheritable] for one in note.labels
        ],
        "inherited": [list(one) for one in note.inherited],
        "places": list(note.places),
    }
    if stored is None:
        fields["unread"] = True
    elif note.kind == HTML:
        fields["html"] = stored
    return Revision(
        note.id,
        note.etag,
        Content(
            _shown_text(note.kind, note.mime, stored),
            _tags(fields),
            title=note.title or None,
            properties=values_of(pairs_of(fields)),
        ),
        note.created,
        note.modified,
        to_json(fields),
        tags_understood=note.tags_understood,
    )


def compose(base: Revision | None, content: Content) -> dict[str, Any]:
    """Compose the object that a save sends. Raises ``StoreRejected`` for what Trilium cannot hold.

    ``edited`` False: the content is the base's, and is not sent.
    """
    said = json.loads(content.native) if content.native else {}
    new = {"type": HTML, "mime": MIMES[HTML], **said}
    held = new if base is None else json.loads(base.raw)
    move = {"move": said["move"]} if base is not None and "move" in said else {}
    if move:
        held, content = _moved(held, content, said["move"])
    html = said.get("stored") if held["type"] == HTML and not held.get("unread") else None
    if html is not None and not said.get("kept"):
        _require_passive(held, html)
    title = content.title or ""
    if not title and (base is None or base.content.title is not None):
        title = _title_of(content.text)
    stored = _stored_text(held, base, content.text) if html is None else html
    before = None if base is None else held.get("html", base.content.text)
    link = {"template": held["template"]} if base is None and "template" in held else {}
    return {
        "parent": held.get("parent", ROOT),
        **({"public": True} if base is None and "public" in said else {}),
        "type": held["type"],
        "mime": held["mime"],
        "title": title,
        "content": stored,
        "edited": stored is not None and stored != before,
        "labels": _wanted_labels(held, content),
        "inherited": held.get("inherited", []),
        **link,
        **move,
    }


def _moved(
    held: dict[str, Any], content: Content, move: Mapping[str, Any]
) -> tuple[dict[str, Any], Content]:
    """Return what is held of a note, and what it becomes, as if it stood at its new place: with the labels that it gets there."""
    owned = {one[1] for one in held["labels"]}
    above = [(name, value) for name, value in move.get("inherited", held["inherited"])]
    loose = {name for name, _ in (*above, *held["inherited"])} - owned
    own = [one for one in content.tags if one not in loose]
    inherited = [one for one in above if one[0] not in own]
    tags = tuple(dict.fromkeys((*own, *(name for name, _ in inherited))))
    kept = {name: value for name, value in content.properties.items() if name not in loose}
    properties = values_of(inherited).having(kept)
    held = {**held, "inherited": [list(one) for one in inherited]}
    return held, replace(content, tags=tags, properties=properties)


def moved_content(base: Revision, content: Content, move: Mapping[str, Any]) -> Content:
    """Return what a note becomes that also gets another place: see ``moves``."""
    return _moved(json.loads(base.raw), content, move)[1]


def content_of(body: dict[str, Any]) -> Content:
    """Return how a composed object reads."""
    text = _shown_text(body["type"], body["mime"], body["content"])
    return Content(
        text, _tags(body), title=body["title"] or None, properties=values_of(pairs_of(body))
    )


def _shown_text(kind: str, mime: str, stored: str | None) -> str:
    if stored is None:
        return f"({' '.join(filter(None, (kind, mime)))}: the content is not shown here)"
    return html_codec.to_markdown(stored) if kind == HTML else stored


def _stored_text(held: dict[str, Any], base: Revision | None, text: str) -> str | None:
    """Return the content to store; None: none is stored, for none was read."""
    if base is None and "begins" not in held:
        return html_codec.to_html(text, images=OWN_IMAGES) if held["type"] == HTML else text
    html = str(held["begins"] if base is None else held.get("html", ""))
    shown = base.content.text if base is not None else html_codec.to_markdown(html)
    if held.get("unread"):
        if text != shown:
            raise UnfitContent(
                "the content of this note is not text: only its title and tags can be changed; nothing was saved",
                resolution_hint="Save without a text.",
            )
        return None
    if held["type"] != HTML:
        return text
    if text == shown:
        return html
    try:
        return html_codec.edit(html, text, images=OWN_IMAGES)
    except html_codec.WouldLose as refusal:
        named = ", ".join(refusal.lines.values())
        if refusal.broken:
            raise UnfitContent(
                f"HTML that is not well formed is in the way: {named}; nothing was saved",
                subcategory="formatting",
                resolution_hint="Change other lines, or ask the user to write this one again in Trilium.",
            ) from None
        raise UnfitContent(
            f"this edit would lose what Markdown cannot show: {named}; nothing was saved",
            subcategory="formatting",
            resolution_hint="Leave that as it is and change the words beside it, one place at a time.",
        ) from None


def _require_passive(held: dict[str, Any], html: str) -> None:
    """Raise ``UnfitContent`` for HTML that would act by itself and is new in the note."""
    had = html_codec.find_active(held.get("html", ""), images=OWN_IMAGES)
    found = html_codec.find_active(html, images=OWN_IMAGES) - had
    if found:  # defence: acting-html-refused
        raise UnfitContent(
            f"this HTML would act by itself: {', '.join(sorted(found)[:5])}; nothing was saved",
            subcategory="active_content",
            resolution_hint="Leave it out; write a link to an image of another host.",
        )


def _tags(fields: dict[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in pairs_of(fields)))


def pairs_of(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of all labels, of those that are held or wanted, the note's own first."""
    owned = [(one[0], one[1]) if len(one) == _TWO else (one[1], one[2]) for one in fields["labels"]]
    return owned + [(name, value) for name, value in fields["inherited"]]


def values_of(labels: Iterable[tuple[str, str]]) -> Properties:
    """Return the properties that labels with a value are; several of one name are a list."""
    found: dict[str, list[str]] = {}
    for name, value in labels:
        if value:
            found.setdefault(name, []).append(value)
    return Properties(
        {
            name: tuple(values) if len(values) > 1 else typed(values[0])
            for name, values in found.items()
        }
    )


def _label_values(value: Value) -> list[str]:
    """Return the values of the labels that a property is."""
    return list(dict.fromkeys(value)) if isinstance(value, tuple) else [shown_value(value)]


def _wanted_labels(held: dict[str, Any], content: Content) -> list[tuple[str, str]]:
    """Return names and values of the labels that the note is to own. Raises what says why it cannot have them."""
    tags = content.tags
    inherited = list(dict.fromkeys(name for name, _ in held.get("inherited", [])))
    missing = [name for name in inherited if name not in tags]
    if missing:
        raise UnfitContent(
            f"{len(missing)} of the tags or properties to remove come from a note above this one; nothing was saved",
            subcategory="inherited_tags",
            resolution_hint="Keep them; only the user can remove them, at that note in Trilium.",
        )
    changed = values_of(held.get("inherited", [])).differing(content.properties)
    if changed := changed.intersection(inherited):
        raise UnfitContent(
            f"{len(changed)} of the properties come from a note above this one and can only be changed there; "
            "nothing was saved",
            subcategory="inherited_properties",
            resolution_hint="Leave them out; the user can change them at that note.",
        )
    wanted = [tag for tag in dict.fromkeys(tags) if tag not in inherited]
    if unnamed := [name for name in content.properties if name not in tags]:
        raise UnfitContent(
            f"{len(unnamed)} of the tags to remove are labels with a value; nothing was saved",
            subcategory="label_value",
            resolution_hint="Remove them by `properties`, with null as their value.",
        )
    found = [(one[1], one[2]) for one in held.get("labels", [])]
    owned = dict.fromkeys(name for name, _ in found)
    passed_on = {place for place, one in enumerate(held.get("labels", [])) if one[4]}
    for tag in wanted:
        if tag not in owned and not _can_be_made(tag):
            raise UnfitContent(
                "the name of a tag or property here has letters, digits, `_` and `:` only, and does not begin with "
                "`label:` or `relation:`; nothing was saved",
                subcategory="tag_name",
                resolution_hint="Write it with these characters, such as `my_name`.",
            )
    kept = [name for name in owned if name in wanted]
    kept += [tag for tag in wanted if tag not in owned]
    differing = values_of(found).differing(content.properties)
    labels: list[tuple[str, str]] = []
    for name in kept:
        same = name in owned and name not in differing
        # A label that keeps its value keeps its spelling, and those of one name without a value are one tag.
        labels += (
            dict.fromkeys(one for one in found if one[0] == name)
            if same
            else [(name, value) for value in _label_values(content.properties.get(name))]
        )
    stay, new = arrange(found, labels)
    if passed_on.difference(stay):
        raise StoreRejected(
            "a tag or property to change is a label that the notes below inherit; nothing was saved",
            subcategory="label_passed_on",
            resolution_hint="Ask the user to change the label in Trilium.",
        )
    return [found[place] for place in stay] + new


def _title_of(text: str) -> str:
    for line in text.splitlines():
        words = " ".join(_MARKUP.sub("", line).split())
        if words:
            return words[:_LONGEST_TITLE].strip()
    return _NEW


def _can_be_made(tag: str) -> bool:
    return bool(_LABEL_NAME.fullmatch(tag)) and not _DEFINITION.match(tag) and tag != _BOOKMARK


def _is_label(attribute: dict[str, Any]) -> bool:
    return attribute["type"] == "label" and _is_tag(_text(attribute["name"]))


def _is_tag(name: str) -> bool:
    return not _DEFINITION.match(name) and name != _BOOKMARK


def _label(one: dict[str, Any]) -> Label:
    position = one["position"]
    return Label(
        _text(one["attributeId"]),
        _text(one["name"]),
        _text(one["value"]),
        position if isinstance(position, int) else 0,
        one["isInheritable"] is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    value.encode()  # a lone surrogate raises a ValueError
    return value


def _seconds(value: object) -> float:
    date = datetime.fromisoformat(_text(value))
    if date.tzinfo is None:
        raise ValueError("no date in UTC")
    return date.timestamp()
