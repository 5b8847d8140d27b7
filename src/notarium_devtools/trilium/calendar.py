"""Make the notes of a simulated Trilium calendar: one of each day, below its month, its year and the calendar's root."""

from __future__ import annotations

import re
from datetime import date, timedelta

from notarium_devtools.trilium.document import ROOT, Document
from notarium_devtools.trilium.records import Note

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS, _DAYS = 12, 31
_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def read_day(text: str) -> str | None:
    """Return a day in the server's form; None if it takes it for none. February has 31 days there."""
    found = _DAY.fullmatch(text)
    if found is None or not 0 < int(found[2]) <= _MONTHS or not 0 < int(found[3]) <= _DAYS:
        return None
    return text


def monday_of(day: str) -> str:
    """Return the first day of the week of a day."""
    at = _date(day)
    return (at - timedelta(days=at.weekday())).isoformat()


def day_note(document: Document, day: str) -> Note:
    """Return the note of a day; the first call makes it, with all that it stands below."""
    root = _labelled(document, "calendarRoot", "") or _make(
        document, ROOT, "Calendar", calendarRoot="", sorted=""
    )
    year, month = day[:4], day[:7]
    above = _labelled(document, "yearNote", year, below=root.id) or _make(
        document, root.id, year, yearNote=year, sorted=""
    )
    number = int(month[5:])
    within = _labelled(document, "monthNote", month, below=above.id) or _make(
        document, above.id, f"{number:02d} - {_NAMES[number - 1]}", monthNote=month, sorted=""
    )
    found = _labelled(document, "dateNote", day, below=within.id)
    if found is not None:
        return found
    title = f"{day[8:]} - {_WEEK[_date(day).weekday()]}"
    made = _make(document, within.id, title, dateNote=day)
    _begin_with_template(document, root, made)
    return made


def _date(day: str) -> date:
    year, month, number = map(int, day.split("-"))
    return date(year, month, 1) + timedelta(days=number - 1)


def _labelled(document: Document, name: str, value: str, *, below: str = "") -> Note | None:
    """Return the note with this label, perhaps only one that stands below another."""
    for one in document.attributes.values():
        note = document.notes.get(one.note_id)
        if note is None or (one.type, one.name, one.value) != ("label", name, value):
            continue
        if not below or below in {branch.parent_id for branch in document.parents(note.id)}:
            return note
    return None


def _make(document: Document, parent: str, title: str, **labels: str) -> Note:
    made = document.create(document.make_id(), title, "text", "text/html", b"")
    document.place(made.id, parent)
    for name, value in labels.items():
        document.set_attribute(document.make_id(), made.id, "label", name, value)
    return made


def _begin_with_template(document: Document, root: Note, made: Note) -> None:
    """Give the note of a day the text of the template that the calendar's root names."""
    for one in document.owned(root.id):
        template = document.notes.get(one.value)
        if (one.type, one.name) == ("relation", "dateTemplate") and template is not None:
            document.set_attribute(document.make_id(), made.id, "relation", "template", template.id)
            made.content = template.content
