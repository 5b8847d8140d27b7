"""Find and read the files of a vault that notes show, such as pictures: regular ones with one name, on this computer."""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from mcp_notarium.domain.media_types import kind_of_name
from mcp_notarium.errors import NoteNotFound, NoteUnreadable
from mcp_notarium.markup.obsidian_links import find_targets, name_key, relative_place, resolve
from mcp_notarium.stores.extensions import Attachment
from mcp_notarium.stores.vault.file_table import Found, State
from mcp_notarium.stores.vault.file_writer import read_file as read_note
from mcp_notarium.stores.vault.folder import (
    NotANote,
    list_files,
    missing_as,
    missing_error,
    open_file,
    open_folder,
    open_parent,
)
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.port import FileState

_REMEMBERED = 2.0
"""Seconds for which the names of files are believed that are still there."""
_UNREADABLE = "this file is not read: it is a link, has several names, or is protected"


class FileNames:
    """Find the files that links mean. Names are remembered for a moment: what is not among them is looked for again."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = {}
        self._listed_at = float("-inf")

    def resolve(
        self, root: int, folders: Callable[[], Iterable[str]], links: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Attachment]:
        """See ``FolderStore.resolve_files``; ``folders`` gives those in which files may lie."""
        found = self._find(root, links)
        if len(found) < len(set(links)) or time.monotonic() - self._listed_at > _REMEMBERED:
            named: dict[str, list[str]] = defaultdict(list)
            for file in (one for folder in folders() for one in list_files(root, folder)):
                named[name_key(file)].append(file)
            self._named, self._listed_at = named, time.monotonic()
            found = self._find(root, links)
        return found

    def _find(
        self, root: int, links: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Attachment]:
        found: dict[tuple[str, str], Attachment] = {}
        for target, source in links:
            candidates = self._named.get(name_key(target), ())
            place = relative_place(target, source)
            path = place if place in candidates else resolve(target, source, candidates)
            if path is not None and (facts := _look_at(root, path)) is not None:
                found[target, source] = facts
        return found


class LinksOfNotes:
    """Remember the links of notes that the index does not have, until their files change. Not for two threads at once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[State, tuple[str, ...]]] = {}

    def read(
        self, root: int, files: Iterable[Found], *, but_of: Collection[str]
    ) -> list[tuple[str, str]]:
        """See ``FolderStore.read_links``. A file that cannot be read as a note has none."""
        wanted = {
            one.path: one
            for one in files
            if one.is_note and not one.trash and one.path not in but_of
        }
        kept = {path: one for path, one in self._read.items() if path in wanted}
        for path, found in wanted.items():
            if path not in kept or kept[path][0] != found.state:
                kept[path] = found.state, _targets_of(root, path)
        self._read = kept
        return [(target, path) for path, (_, targets) in kept.items() for target in targets]


def _targets_of(root: int, path: str) -> tuple[str, ...]:
    with (
        suppress(OSError, NoteNotFound, NoteUnreadable),
        open_parent(root, path, exact=False) as (parent, name),
    ):
        return find_targets(read_note(parent, name, exact=False).text)
    return ()


def read_file(root: int, path: str, *, largest: int) -> tuple[Attachment, bytes | None]:
    """See ``FolderStore.read_file``."""
    folder, _, name = path.rpartition("/")
    if path not in list_files(root, folder):
        raise missing_error(path)
    with missing_as(path):
        parent = open_folder(root, folder.split("/") if folder else [])
        try:
            file, found = open_file(parent, name)
        except NotANote as error:
            if type(error) is NotANote:
                raise NotANote(_UNREADABLE) from None
            raise
        finally:
            os.close(parent)
        with os.fdopen(file, "rb") as opened:
            data = opened.read(largest + 1) if found.st_size <= largest else None
    whole = data is not None and len(data) <= largest
    return _facts(path, found), data if whole else None


def _look_at(root: int, path: str) -> Attachment | None:
    folder, _, name = path.rpartition("/")
    with suppress(OSError, NoteNotFound):
        parent = open_folder(root, folder.split("/") if folder else [])
        try:
            found = SYSTEM.look(parent, name)
        finally:
            os.close(parent)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not SYSTEM.is_elsewhere(found):
            return _facts(path, found)
    return None


def _facts(path: str, found: FileState) -> Attachment:
    return Attachment(path, kind_of_name(path), found.st_size, int(found.st_mtime))
