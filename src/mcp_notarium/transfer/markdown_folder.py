"""Convert notes to Markdown files with front matter, and back. Pure.

The text of a note stands in its file as it is, byte for byte, behind a block of front matter whose first key says
who wrote it; only links to files lead to where these lie in the export. A file without that block is a note with the file's whole text, named after the file; tags that another
program has put into its front matter count as the note's tags, too, and the date there as its date.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import yaml

from mcp_notarium.domain.exported_note import (
    FIELDS,
    FILES,
    TIDY_TAGS,
    UNREAD_TAGS,
    ExportedFile,
    ExportedNote,
    NoteFile,
    free_name,
    from_fields,
    safe_folder,
    to_fields,
    unreadable,
)
from mcp_notarium.domain.lines import first_line
from mcp_notarium.domain.note import Content
from mcp_notarium.markup.file_links import FileLink, link_key, relink
from mcp_notarium.markup.front_matter import NotUnderstood, are_tags_plain, read_created, read_tags
from mcp_notarium.markup.obsidian_links import Link, find_links, name_key, relative_place, resolve

NAME = "markdown"
ENDING = ".md"
ENDINGS = (ENDING, ".markdown")
"""Those of notes in a folder, in any letter case."""
_MARK = "notarium"
_VERSION = "1"
_TRASH = "trash/"
_FENCE = "---\n"
_START = re.compile(f"\ufeff?---\r?\n(?={_MARK}: )")
_END = re.compile("^---\r?\n", re.MULTILINE)
"""An editor may have ended the lines differently, or put a byte order mark before them."""
LARGEST_BLOCK = 1_000_000
"""Characters of front matter."""
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def encode(notes: Iterable[ExportedNote]) -> Iterator[ExportedFile]:
    """Yield a file for each note, in the folder of the note; those in the trash are below one of their own."""
    taken: dict[str, int] = {}
    for note in notes:
        folder = (_TRASH if note.content.trash else "") + safe_folder(note.folder)
        path = free_name(folder, note.content.title or first_line(note.content.text), ENDING, taken)
        fields = {_MARK: int(_VERSION)} | to_fields(note)
        if unshown := [one.path for one in note.files if not one.links]:
            fields[FILES] = unshown
        block = yaml.dump(fields, Dumper=_DUMPER, allow_unicode=True, sort_keys=False, width=1000)
        data = f"{_FENCE}{block}{_FENCE}{link_files(note, path)}".encode()
        yield ExportedFile(path, data, note.modified_at)


def link_files(note: ExportedNote, path: str) -> str:
    """Return the text of a note, whose links to files lead to them from the file ``path`` of the export."""
    folder = path.rpartition("/")[0] or "."
    links = {
        link: FileLink(posixpath.relpath(one.path, folder) if link[1] else one.path)
        for one in note.files
        for link in one.links
    }
    return relink(note.content.text, links)


def find_files(
    note: ExportedNote, path: str, listed: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> ExportedNote:
    """Return the note, read from the file ``path``, with the files that it shows.

    ``listed``: the paths of the files of the export, by ``name_key``; ``sizes``: their bytes.
    """
    found = {one.path: replace(one, size=sizes.get(one.path)) for one in note.files}
    for link in find_links(note.content.text, within=True):
        candidates = listed.get(name_key(link.target), ()) if link.target else ()
        place = relative_place(link.target, path) if link.form != "wiki" else None
        to = place if place in candidates else resolve(link.target, path, candidates)
        if to is not None and to in sizes:
            one = found.get(to) or NoteFile(to, sizes[to])
            links: tuple[Link, ...] = (*one.links, link_key(link))
            found[to] = replace(one, links=tuple(dict.fromkeys(links)))
    return replace(note, files=tuple(found.values())) if found else note


def decode(files: Iterable[ExportedFile]) -> Iterator[tuple[ExportedNote, str]]:
    """Yield the notes of the files, each with the path of its file. Raises ``InvalidRequest``."""
    for file in files:
        try:
            text = file.data.decode()
        except UnicodeDecodeError:
            raise unreadable(f"{file.path} is not UTF-8 text") from None
        if found := _START.match(text):
            note, at = _read(text, found.end(), file.path), file.modified_at
            note = note if note.dated else replace(note, created_at=at, modified_at=at)
            yield note, file.path
        else:
            folder, _, name = file.path.rpartition("/")
            tags, changed = _read_tags(text)
            content = Content(text, tags, title=posixpath.splitext(name)[0]).cleaned()
            created = read_created(text)
            made = file.modified_at if created is None else created
            dated = created is not None
            note = ExportedNote(
                file.path, content, made, file.modified_at, folder, dated=dated, changed=changed
            )
            yield note, file.path


def _read_tags(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags in the front matter of another program, and what reading changed of them."""
    try:
        tags = tuple(dict.fromkeys(read_tags(text)))
        return tags, () if are_tags_plain(text) else (TIDY_TAGS,)
    except NotUnderstood:
        return (), (UNREAD_TAGS,)


def _read(text: str, start: int, path: str) -> ExportedNote:
    end = _END.search(text, start, LARGEST_BLOCK)
    if end is None:
        raise unreadable(f"{path}: the front matter has no end")
    try:
        fields = _read_block(text[start : end.start()])
    except (yaml.YAMLError, ValueError):
        raise unreadable(f"{path}: the front matter is not a plain list of values") from None
    if fields.pop(_MARK, None) != _VERSION:
        raise unreadable(f"{path}: the front matter has another version")
    folder = path.removeprefix(_TRASH).rpartition("/")[0]  # where a person has put the file
    return from_fields({"folder": folder} | fields, text=text[end.end() :], where=path)


def _read_block(block: str) -> dict[str, Any]:
    """Read a mapping of strings and lists of strings. Raises ``ValueError`` and ``yaml.YAMLError``.

    YAML is read as a stream of events, which expands no alias and does not recurse.
    """
    fields: dict[str, Any] = {}
    key: str | None = None
    items: list[str] | None = None
    events = (one for one in yaml.parse(block, Loader=_LOADER) if not _is_frame(one))
    if type(next(events, None)) is not yaml.MappingStartEvent:
        raise ValueError("no mapping")
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            return fields
        if isinstance(event, yaml.SequenceStartEvent) and key is not None and items is None:
            items = []
        elif isinstance(event, yaml.SequenceEndEvent) and items is not None and key is not None:
            fields[key], key, items = items, None, None
        elif not isinstance(event, yaml.ScalarEvent):  # defence: front-matter-flat
            raise ValueError("a value in a value")
        elif items is not None:
            items.append(event.value)
        elif key is None:
            key = event.value
        else:
            fields[key], key = _read_value(key, event), None
    raise ValueError("no end")


def _read_value(key: str, event: yaml.ScalarEvent) -> Any:
    """Return a text, but for a property without quotes what its words mean."""
    if not event.implicit[0] or key in (_MARK, *FIELDS):
        return event.value
    value = yaml.safe_load(event.value)  # one scalar, as `yaml.dump` has written it
    return event.value if isinstance(value, date) else value


def _is_frame(event: yaml.Event) -> bool:
    return isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent)
