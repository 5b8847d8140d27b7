"""List the formats of exports, JSON among them; write an export to new private files, and read one whatever it holds.

A zip file is not extracted: its document is read, and the files that this names, each up to a limit. In a folder links are not followed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from mcp_notarium.domain.exported_note import (
    FILES,
    DocumentFormat,
    ExportedFile,
    ExportedNote,
    NoteFile,
    free_name,
    from_fields,
    to_fields,
    unreadable,
)
from mcp_notarium.domain.file_names import clean_file_name, split_ending
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.files import os_errors
from mcp_notarium.files.private_files import (
    create_private,
    is_there,
    name_unfinished,
    open_regular,
    output_errors,
    remove_tree,
    remove_unfinished,
    sync_folder,
)
from mcp_notarium.markup.obsidian_links import name_key
from mcp_notarium.stores import registry
from mcp_notarium.system import SYSTEM
from mcp_notarium.transfer import markdown_folder

_VERSION = 1


def encode(notes: Sequence[ExportedNote]) -> dict[str, Any]:
    """Return the document of these notes."""
    listed = [
        to_fields(note)
        | ({FILES: [_file_fields(one) for one in note.files]} if note.files else {})
        | {"text": markdown_folder.link_files(note, "")}
        for note in notes
    ]
    return {"format": "mcp-notarium notes", "version": _VERSION, "notes": listed}


def _file_fields(file: NoteFile) -> dict[str, Any]:
    return {"path": file.path, "size": file.size, "digest": file.digest}


def decode(document: Mapping[str, Any]) -> Iterator[ExportedNote]:
    """Yield the notes of a document. Raises ``InvalidRequest``."""
    version, listed = document.get("version"), document.get("notes")
    if version != _VERSION or not isinstance(listed, list):
        raise unreadable(f"it is no list of notes of version {_VERSION}")
    for number, fields in enumerate(listed, 1):
        where = f"note {number}"
        if not isinstance(fields, dict):
            raise unreadable(f"{where} is not an object")
        yield from_fields(fields, text=fields.get("text"), where=where)


FORMAT = DocumentFormat("json", "notes", encode, decode)


Report = Callable[[int, int], object]
"""Takes how many notes are done, and of how many."""

LARGEST_DOCUMENT = 128 * 1024 * 1024
"""Bytes. It is in memory as text and as values while it is read: three times as much."""
LARGEST_NOTE = 16 * 1024 * 1024
_LARGEST_FILE = LARGEST_NOTE + markdown_folder.LARGEST_BLOCK
LARGEST_FILE = 256 * 1024 * 1024
"""Bytes of a file that a note shows: one is in memory while it is exported or imported."""
LARGEST_FILES = 16 * 1024 * 1024 * 1024
MOST_FILES = 200_000
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
_ZIP_ENDING = ".zip"
_DOCUMENT = "notes.json"
"""The document in a zip file of ours."""
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


@contextmanager
def writing(name: str, path: Path) -> Iterator[Export]:
    """Give an export to fill: it appears at its path whole and private when the block ends, or nothing does.

    Raises ``ConfigError``, also if something is there.
    """
    form = next((one for one in documents() if one.name == name), None)
    export = _FolderExport(path) if form is None else _DocumentExport(path, form)
    with output_errors(path, "the export"):
        _require_nothing(path)
        remove_unfinished(path)
        try:
            yield export
            export.finish()
        except BaseException:
            export.drop()
            raise


def _require_nothing(path: Path) -> None:
    if is_there(path):  # defence: export-overwrites-nothing
        raise FileExistsError(path)


class Export(ABC):
    """Take files and notes of an export that is not at its ``path`` yet. Files come first: each under a free name, once."""

    takes_files = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unfinished = name_unfinished(path)
        self._files: dict[tuple[str, str], NoteFile] = {}
        self._taken: dict[str, int] = {}

    def put_file(self, name: str, data: bytes, modified_at: float) -> NoteFile:
        """Write a file, unless it is there under this name, and return what notes say of it."""
        name = clean_file_name(name)
        stem, ending = split_ending(name)
        if ending.lower() in markdown_folder.ENDINGS:  # else it would be a note
            name = f"{stem}.txt"
        digest = hashlib.sha256(data).hexdigest()
        if (digest, name) not in self._files:
            stem, ending = split_ending(name)
            path = free_name(f"{FILES}/", stem, ending, self._taken)
            self.put(path, data, modified_at)
            self._files[digest, name] = NoteFile(path, len(data), digest)
        return self._files[digest, name]

    @abstractmethod
    def put(self, path: str, data: bytes, modified_at: float) -> None:
        """Write a file of the export."""

    @abstractmethod
    def put_notes(self, notes: Sequence[ExportedNote], report: Report) -> None:
        """Write the notes."""

    @abstractmethod
    def finish(self) -> None:
        """Let the export appear at its path."""

    @abstractmethod
    def drop(self) -> None:
        """Remove what is written."""


class _FolderExport(Export):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._made: set[Path] = set()

    def put(self, path: str, data: bytes, modified_at: float) -> None:
        to = self.unfinished / path
        self._make_folder(to.parent)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with os.fdopen(SYSTEM.open_private(to, flags), "wb") as out:
            out.write(data)
            out.flush()
            SYSTEM.set_modified(out.fileno(), modified_at)

    def _make_folder(self, path: Path) -> None:
        if path in self._made:
            return
        if path != self.unfinished:
            self._make_folder(path.parent)
        with suppress(FileExistsError):  # in another letter case
            SYSTEM.make_private_folder(path)
        self._made.add(path)

    def put_notes(self, notes: Sequence[ExportedNote], report: Report) -> None:
        for number, file in enumerate(markdown_folder.encode(notes), 1):
            self.put(file.path, file.data, file.modified_at)
            report(number, len(notes))

    def finish(self) -> None:
        self._make_folder(self.unfinished)
        SYSTEM.flush_below(self.unfinished)
        SYSTEM.move(self.unfinished, self.path)
        sync_folder(self.path.parent)

    def drop(self) -> None:
        with suppress(OSError):
            remove_tree(self.unfinished)  # defence: failed-export-leaves-nothing


class _DocumentExport(Export):
    """Write one JSON document, or a zip file with it and the files of the notes."""

    def __init__(self, path: Path, form: DocumentFormat) -> None:
        super().__init__(path)
        self.takes_files = not form.member
        self._form = form
        self._document = b""
        self._zip: zipfile.ZipFile | None = None
        self._file: IO[bytes]

    def _open(self) -> zipfile.ZipFile:
        if self._zip is None:
            if not self._form.member and self.path.suffix.lower() != _ZIP_ENDING:
                self.path = self.path.with_name(f"{self.path.stem}{_ZIP_ENDING}")
                _require_nothing(self.path)
                remove_unfinished(self.path)
                self.unfinished = name_unfinished(self.path)
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
            self._file = os.fdopen(SYSTEM.open_private(self.unfinished, flags), "w+b")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)
        return self._zip

    def put(self, path: str, data: bytes, modified_at: float) -> None:
        self._open().writestr(_entry(path, modified_at), data)

    def put_notes(self, notes: Sequence[ExportedNote], report: Report) -> None:
        data = json.dumps(self._form.encode(notes), ensure_ascii=False, indent=2).encode()
        if len(data) > LARGEST_DOCUMENT:
            raise ConfigError(
                f"the document would have more than {LARGEST_DOCUMENT >> 20} MB, which `import` does not "
                "read; nothing was written",
                resolution_hint="Export to a folder: --format markdown.",
            )
        if self._form.member or self.path.suffix.lower() == _ZIP_ENDING:
            self._open()
        if self._zip is None:
            self._document = data
            return
        newest = max((note.modified_at for note in notes), default=0.0)
        self.put(self._form.member or _DOCUMENT, data, newest)
        for number, other in enumerate(self._form.others(notes), 1):
            self.put(other.path, other.data, other.modified_at)
            report(number, len(notes))

    def finish(self) -> None:
        if self._zip is None:
            create_private(self.path, self._document)
            return
        self._zip.close()
        with self._file as file:
            file.flush()
            SYSTEM.flush(file.fileno())
            with zipfile.ZipFile(file) as written:
                if written.testzip() is not None:
                    raise OSError(errno.EIO, "it reads back differently from the disk")
        SYSTEM.move(self.unfinished, self.path)
        sync_folder(self.path.parent)

    def drop(self) -> None:
        if self._zip is not None:
            with suppress(OSError):  # of a full disk
                self._zip.close()
            with suppress(OSError):
                self._file.close()
            SYSTEM.remove(self.unfinished)


def _entry(path: str, at: float) -> zipfile.ZipInfo:
    """Describe a file of a zip: its time is one that the format knows, and only its owner may read it."""
    seconds = min(max(at, _OLDEST_IN_ZIP.timestamp()), _NEWEST_IN_ZIP.timestamp())
    entry = zipfile.ZipInfo(path, datetime.fromtimestamp(seconds, UTC).timetuple()[:6])
    packed = path.startswith(f"{FILES}/")  # as pictures and papers are
    entry.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


class UnfitFile(InvalidRequest):
    """Report a file of an export that is damaged."""


@dataclass(frozen=True, slots=True)
class FoundExport:
    """Hold the notes of an export."""

    notes: list[ExportedNote]
    open: Callable[[str], IO[bytes]]
    """Open one of its files by path."""

    def read_file(self, file: NoteFile) -> bytes:
        """Return the bytes of a file. Raises ``UnfitFile`` if it is damaged, or not what the notes say."""
        try:
            with self.open(file.path) as opened:
                most = min(file.size or 0, LARGEST_FILE)  # defence: file-bomb =LARGEST_FILE
                data = opened.read(most + 1)
        except (OSError, KeyError, *_BROKEN) as error:
            raise UnfitFile(f"it cannot be read ({type(error).__name__})") from None
        if len(data) != file.size:
            raise UnfitFile("it has another size than the export says")
        # defence: imported-file-is-the-exported
        if file.digest not in ("", hashlib.sha256(data).hexdigest()):
            raise UnfitFile("it is not the file that was exported")
        return data


@contextmanager
def reading(path: Path) -> Iterator[FoundExport]:
    """Open an export of any format. Raises ``InvalidRequest``."""
    with ExitStack() as stack:
        try:
            found = _read(path, stack)
        except OSError as error:
            raise InvalidRequest(
                f"{path} cannot be read: {os_errors.describe(error)}; nothing was imported",
                resolution_hint="Give the folder, JSON or zip file of an export.",
            ) from error
        yield found


def _read(path: Path, stack: ExitStack) -> FoundExport:
    return _read_folder(path) if path.is_dir() else _read_document(path, stack)


def _read_document(path: Path, stack: ExitStack) -> FoundExport:
    file = stack.enter_context(open_regular(path, follow=True))
    zipped = file.read(len(_ZIP)) == _ZIP
    file.seek(0)
    archive = stack.enter_context(_open_zip(file)) if zipped else None
    document = _parse(_read_zipped(archive) if archive else file.read(LARGEST_DOCUMENT + 1))
    at = os.fstat(file.fileno()).st_mtime
    form = next((one for one in documents() if one.key in document), None)
    if form is None:
        raise unreadable("it is not a list of notes in a form that is known")
    notes = _require_size(
        note if note.dated else replace(note, created_at=at, modified_at=at)
        for note in form.decode(document)
    )
    sizes = {one.filename: one.file_size for one in archive.infolist()} if archive else {}
    named = {one.path for note in notes for one in note.files}
    sizes = {name: size for name, size in sizes.items() if name in named}

    def open_member(name: str) -> IO[bytes]:
        if archive is None or archive.getinfo(name).compress_type > zipfile.ZIP_DEFLATED:
            raise KeyError(name)
        return archive.open(name)

    return FoundExport(_with_files([(note, "") for note in notes], sizes), open_member)


def _with_files(
    notes: Sequence[tuple[ExportedNote, str]], sizes: Mapping[str, int]
) -> list[ExportedNote]:
    """Return the notes with the files that they show. Raises ``InvalidRequest`` if these are too many."""
    if len(sizes) > MOST_FILES:
        raise _too_many(f"files than {MOST_FILES:,}")
    if not sizes and not any(note.files for note, _ in notes):
        return [note for note, _ in notes]
    listed: defaultdict[str, list[str]] = defaultdict(list)
    for path in sizes:
        listed[name_key(path)].append(path)
    found = [markdown_folder.find_files(note, path, listed, sizes) for note, path in notes]
    shown = {one.path: one.size or 0 for note in found for one in note.files}
    if sum(shown.values()) > LARGEST_FILES:  # defence: import-files-in-all
        raise _too_many(f"bytes of files than {LARGEST_FILES:,}")
    return found


def _require_size(notes: Iterable[ExportedNote]) -> list[ExportedNote]:
    """Return the notes. Raises ``InvalidRequest`` for any that an export to a folder could not bring back."""
    found: list[ExportedNote] = []
    values = 0
    for note in notes:
        found.append(note)
        values += len(note.content.tags) + len(note.content.properties) + len(note.files)
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


def _read_folder(root: Path) -> FoundExport:
    """Read the notes of a folder, and find its files. Raises ``OSError``."""
    sizes: dict[str, int] = {}
    places: list[str] = []

    def decoded() -> Iterator[ExportedNote]:
        for note, path in markdown_folder.decode(_list_folder(root, sizes)):
            places.append(path)
            yield note

    notes = _with_files([*zip(_require_size(decoded()), places, strict=True)], sizes)
    return FoundExport(notes, partial(SYSTEM.open_below, root))


def _list_folder(root: Path, sizes: dict[str, int]) -> Iterator[ExportedFile]:
    """Yield the notes of a folder in order, those of hidden folders left out; put the ``sizes`` of other files.

    Raises ``OSError``.
    """

    def enters(folder: Path) -> bool:
        if len(folder.relative_to(root).parts) > DEEPEST:  # defence: folder-depth
            raise unreadable(f"it has more than {DEEPEST} folders, one in another")
        return not folder.name.startswith(".")

    def refuse(folder: Path, error: OSError) -> None:
        name = folder.relative_to(root).as_posix()
        raise InvalidRequest(
            f"the folder {name!r} cannot be read ({os_errors.describe(error)}); nothing was imported",
            resolution_hint="If it was moved or removed meanwhile, run the import again.",
        )

    left = LARGEST_FOLDER
    # defence: import-misses-no-folder -unseen
    for at, entry in SYSTEM.walk(root, enters=enters, unseen=refuse):
        # defence: import-follows-no-link
        if at.name.startswith(".") or not entry.is_file(follow_symlinks=False):
            continue
        path = at.relative_to(root).as_posix()
        if at.suffix.lower() not in markdown_folder.ENDINGS:
            sizes[path] = entry.stat(follow_symlinks=False).st_size
            continue
        with SYSTEM.open_below(root, path) as file:
            data = file.read(_LARGEST_FILE + 1)
            changed = SYSTEM.look_at_open(file.fileno()).st_mtime
        left -= len(data)
        if len(data) > _LARGEST_FILE or left < 0:
            raise unreadable(f"{at.name} is too large, or the folder is")
        yield ExportedFile(os.fsencode(path).decode(errors="replace"), data, changed)


def _open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _BROKEN as error:
        raise _broken_zip(error) from None


def _broken_zip(error: Exception) -> InvalidRequest:
    return unreadable(f"the zip file is damaged or locked ({type(error).__name__})")


def _read_zipped(archive: zipfile.ZipFile) -> bytes:
    """Read the document of a zip file; its declared size is not believed. Raises ``InvalidRequest``."""
    members = {_DOCUMENT, *(one.member for one in documents() if one.member)}
    try:
        for name in sorted(members & {*archive.namelist()}):
            if archive.getinfo(name).compress_type > zipfile.ZIP_DEFLATED:
                raise NotImplementedError  # the others raise errors of their own
            with archive.open(name) as document:
                return document.read(LARGEST_DOCUMENT + 1)
    except _BROKEN as error:
        raise _broken_zip(error) from None
    if _OF_A_BACKUP in archive.namelist():
        raise InvalidRequest(
            "this is a backup, not an export; nothing was imported",
            resolution_hint="`mcp-notarium restore --backup FILE` brings it back.",
        )
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
