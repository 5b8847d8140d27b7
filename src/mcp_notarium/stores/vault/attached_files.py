"""Find and read the files of a vault that notes show, such as pictures: regular ones with one name, on this computer."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from mcp_notarium.domain.media_types import kind_of_name
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.markup.obsidian_links import name_key, relative_place, resolve
from mcp_notarium.stores.extensions import Attachment
from mcp_notarium.stores.vault.folder import (
    NotANote,
    list_files,
    missing_as,
    missing_error,
    open_file,
    open_folder,
)

_UNREADABLE = "this file is not read: it is a link, has several names, or is protected"


def resolve_files(
    root: int, folders: Iterable[str], links: Sequence[tuple[str, str]]
) -> Mapping[tuple[str, str], Attachment]:
    """See ``FolderStore.resolve_files``; ``folders``: where files may lie."""
    named: dict[str, list[str]] = defaultdict(list)
    for file in (one for folder in folders for one in list_files(root, folder)):
        named[name_key(file)].append(file)
    found: dict[tuple[str, str], Attachment] = {}
    for target, source in links:
        candidates = named.get(name_key(target), ())
        place = relative_place(target, source)
        path: str | None = place if place in candidates else resolve(target, source, candidates)
        if path is not None and (facts := _look_at(root, path)) is not None:
            found[target, source] = facts
    return found


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
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return _facts(path, found)
    return None


def _facts(path: str, found: os.stat_result) -> Attachment:
    return Attachment(path, kind_of_name(path), found.st_size, int(found.st_mtime))
