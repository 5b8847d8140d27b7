"""List the formats of exports, JSON among them; write an export to new private files, and read one whatever it holds.

A zip file is not extracted: its document alone is read, up to a limit. In a folder links are not followed.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from mcp_notarium.domain.note_archive import (
    ArchivedFile,
    ArchivedNote,
    DocumentFormat,
    from_fields,
    to_fields,
    unreadable,
)
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.files import os_errors
from mcp_notarium.files.private_files import (
    create_private,
    name_unfinished,
    open_regular,
    output_errors,
    remove_unfinished,
    sync_folder,
)
from mcp_notarium.stores import registry
from mcp_notarium.system import SYSTEM
from mcp_notarium.transfer import markdown_folder

_VERSION = 1


def encode(notes: Sequence[ArchivedNote]) -> dict[str, Any]:
    """Return the document of these notes."""
    listed = [to_fields(note) | {"text": note.content.text} for note in notes]
    return {"format": "mcp-notarium notes", "version": _VERSION, "notes": listed}


def decode(document: Mapping[str, Any]) -> Iterator[ArchivedNote]:
    """Yield the notes of a document. Raises ``InvalidRequest``."""
    version, listed = document.get("version"), document.get("notes")
    if version != _VERSION or not isinstance(listed, list):
        raise unreadable(f"it is no list of notes of version {_VERSION}")
    for number, fields in enumerate(listed, 1):
        where = f"note {number}"
        if not isinstance(fields, dict):
            raise unreadable(f"{where} is not an object")
        yield from_fields(fields, text=fields.get("text"), where=where)


FORMAT = DocumentFormat("json", "JSON", "notes", encode, decode)


Report = Callable[[int, int], object]
"""Takes how many notes are done, and of how many."""

LARGEST_DOCUMENT = 128 * 1024 * 1024
"""Bytes. It is in memory as text and as values while it is read: three times as much."""
LARGEST_NOTE = 16 * 1024 * 1024
_LARGEST_FILE = LARGEST_NOTE + markdown_folder.LARGEST_BLOCK
LARGEST_FOLDER = 1024 * 1024 * 1024
MOST_NOTES = 200_000
MOST_VALUES = 4_000_000
"""Values of a document, or tags of a folder: an empty one takes as much memory as many bytes of text."""
DEEPEST = 100
"""Folders, one in another."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""One without an end goes to the end: no byte is looked at twice."""
_VALUE_OR_STRING = re.compile(_STRING + rb"|[\[{,]", re.DOTALL)
_BROKEN = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, UnicodeDecodeError,
)  # fmt: skip
_OF_A_BACKUP = "notarium_keys.json"
_QUOTE = ord('"')
_ZIP = b"PK\x03\x04"
_OLDEST_IN_ZIP = datetime(1980, 1, 1, tzinfo=UTC)
_NEWEST_IN_ZIP = datetime(2107, 12, 31, tzinfo=UTC)


def documents() -> tuple[DocumentFormat, ...]:
    """Return the formats that are one document: ours, and those of the apps of stores."""
    found = (kind.export_format() for kind in registry.kinds())
    return (FORMAT, *filter(None, found))


def names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return (markdown_folder.NAME, *(one.name for one in documents()))


def guess(path: Path) -> str:
    """Return the format that a path of an export suggests by its ending."""
    suffix = path.suffix.lower()
    if suffix == ".zip":
        return next(one.name for one in documents() if one.member)
    return FORMAT.name if suffix == ".json" else markdown_folder.NAME


def write(name: str, path: Path, notes: Sequence[ArchivedNote], report: Report) -> None:
    """Write an export to ``path``, where nothing is yet: whole and private, or nothing.

    Raises ``ConfigError``.
    """
    form = next((one for one in documents() if one.name == name), None)
    with output_errors(path, "the export"):
        if os.path.lexists(path):  # defence: export-overwrites-nothing
            raise FileExistsError(path)
        if form is None:
            _write_folder(path, markdown_folder.encode(notes), len(notes), report)
        else:
            data = json.dumps(form.encode(notes), ensure_ascii=False, indent=2).encode()
            if len(data) > LARGEST_DOCUMENT:
                raise ConfigError(
                    f"the document would have more than {LARGEST_DOCUMENT >> 20} MB, which `import` does not "
                    "read; nothing was written",
                    resolution_hint="Export to a folder: --format markdown.",
                )
            create_private(path, _zip(form, data, notes, report) if form.member else data)


def _write_folder(path: Path, files: Iterator[ArchivedFile], total: int, report: Report) -> None:
    remove_unfinished(path)
    unfinished = name_unfinished(path)
    SYSTEM.make_private_folder(unfinished)
    try:
        for number, file in enumerate(files, 1):
            to = unfinished / file.path
            _make_folder(to.parent)
            # defence: export-private 0o600=0o644
            with os.fdopen(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
                out.write(file.data)
            os.utime(to, (file.modified_at, file.modified_at))
            report(number, total)
        SYSTEM.flush_below(unfinished)
        SYSTEM.move(unfinished, path)
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)  # defence: failed-export-leaves-nothing
        raise


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(mode=0o700)


def _zip(form: DocumentFormat, data: bytes, notes: Sequence[ArchivedNote], report: Report) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        newest = max((note.modified_at for note in notes), default=0.0)
        file.writestr(_entry(form.member, newest), data)
        for number, other in enumerate(form.others(notes), 1):
            file.writestr(_entry(other.path, other.modified_at), other.data)
            report(number, len(notes))
    return out.getvalue()


def _entry(path: str, at: float) -> zipfile.ZipInfo:
    """Describe a file of a zip: its time is one that the format knows, and only its owner may read it."""
    seconds = min(max(at, _OLDEST_IN_ZIP.timestamp()), _NEWEST_IN_ZIP.timestamp())
    entry = zipfile.ZipInfo(path, datetime.fromtimestamp(seconds, UTC).timetuple()[:6])
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    return entry


def read(path: Path) -> list[ArchivedNote]:
    """Read an export of any format. Raises ``InvalidRequest``."""
    try:
        if path.is_dir():
            return _require_size(markdown_folder.decode(_read_folder(path)))
        with open_regular(path, follow=True) as file:
            zipped = file.read(len(_ZIP)) == _ZIP
            file.seek(0)
            document = _parse(_read_zipped(file) if zipped else file.read(LARGEST_DOCUMENT + 1))
            at = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be read: {os_errors.describe(error)}; nothing was imported",
            resolution_hint="Give the folder, JSON or zip file of an export.",
        ) from error
    form = next((one for one in documents() if one.key in document), None)
    if form is None:
        raise unreadable("it is not a list of notes in a form that is known")
    return _require_size(
        note if note.dated else replace(note, created_at=at, modified_at=at)
        for note in form.decode(document)
    )


def _require_size(notes: Iterable[ArchivedNote]) -> list[ArchivedNote]:
    """Return the notes. Raises ``InvalidRequest`` for any that an export to a folder could not bring back."""
    found: list[ArchivedNote] = []
    values = 0
    for note in notes:
        found.append(note)
        values += len(note.content.tags) + len(note.content.properties)
        if len(note.content.text.encode()) > LARGEST_NOTE:
            raise unreadable(f"the note {(note.content.title or note.id)[:60]!r} is too large")
        if len(found) > MOST_NOTES:
            raise _too_many(f"notes than {MOST_NOTES:,}")
        if values > MOST_VALUES:
            raise _too_many(f"tags than {MOST_VALUES:,}")
    return found


def _too_many(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"the export has more {what}; nothing was imported",
        resolution_hint="Import it in parts: no note is imported twice.",
    )


def _read_folder(root: Path) -> Iterator[ArchivedFile]:
    """Yield the notes of a folder in order, those of hidden folders left out. Raises ``OSError``."""
    left = LARGEST_FOLDER
    # defence: unreadable-folder-told -_raise
    for folder, below, files in os.walk(root, onerror=_raise):
        below[:] = sorted(one for one in below if not one.startswith("."))
        if below and folder.count(os.sep, len(str(root))) >= DEEPEST:  # defence: folder-depth
            raise unreadable(f"it has more than {DEEPEST} folders, one in another")
        for name in sorted(files):
            at = Path(folder, name)
            if name.startswith(".") or at.suffix.lower() != markdown_folder.ENDING:
                continue
            if not stat.S_ISREG(at.lstat().st_mode):  # defence: import-follows-no-link
                continue
            with open_regular(at) as file:
                data, changed = file.read(_LARGEST_FILE + 1), os.fstat(file.fileno()).st_mtime
            left -= len(data)
            if len(data) > _LARGEST_FILE or left < 0:
                raise unreadable(f"{name} is too large, or the folder is")
            path = PurePosixPath(*at.relative_to(root).parts)
            yield ArchivedFile(os.fsencode(path).decode(errors="replace"), data, changed)


def _raise(error: OSError) -> NoReturn:
    raise error


def _read_zipped(file: Any) -> bytes:
    """Read the document of a zip file; its declared size is not believed. Raises ``InvalidRequest``."""
    members = {one.member for one in documents() if one.member}
    try:
        with zipfile.ZipFile(file) as archive:
            for name in sorted(members & {*archive.namelist()}):
                if archive.getinfo(name).compress_type > zipfile.ZIP_DEFLATED:
                    raise NotImplementedError  # the others raise errors of their own
                with archive.open(name) as document:
                    return document.read(LARGEST_DOCUMENT + 1)
            if _OF_A_BACKUP in archive.namelist():
                raise InvalidRequest(
                    "this is a backup, not an export; nothing was imported",
                    resolution_hint="`mcp-notarium restore --backup FILE` brings it back.",
                )
    except _BROKEN as error:
        raise unreadable(f"the zip file is damaged or locked ({type(error).__name__})") from None
    raise unreadable(f"the zip file has no {' or '.join(sorted(members))}")


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > LARGEST_DOCUMENT:  # defence: document-size
        raise InvalidRequest(
            f"the export has more than {LARGEST_DOCUMENT >> 20} MB; nothing was imported",
            resolution_hint="Export to a folder (--format markdown), and import that, in parts if it is very large.",
        )
    _require_few_values(data)  # defence: document-values
    try:
        text = data.decode("utf-8-sig")
        del data  # else the document is in memory once more
        document = json.loads(text)
    except RecursionError:
        raise unreadable("its values are nested too deeply") from None
    except ValueError:
        raise unreadable("it is not JSON in UTF-8") from None
    if not isinstance(document, dict):
        raise unreadable("it is not a JSON object")
    return document


def _require_few_values(data: bytes) -> None:
    """Raise ``InvalidRequest`` for a document with so many values that they would fill the memory."""
    if sum(map(data.count, (b"[", b"{", b","))) <= MOST_VALUES:
        return
    values = 0
    for found in _VALUE_OR_STRING.finditer(data):
        values += data[found.start()] != _QUOTE
        if values > MOST_VALUES:
            raise _too_many(f"values than {MOST_VALUES:,}")
