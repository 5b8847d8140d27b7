"""Put files into a vault where its app puts attachments, move and trash files that are no notes, remove empty folders.

No step overwrites a file. What another program does meanwhile is kept: a file goes to the trash only with the bytes that were asked for.

A move is one step of the file system. Doing it twice changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from urllib.parse import quote

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.file_names import kind_of_name, numbered
from mcp_notarium.errors import NoteNotFound, NoteReadOnly, OutcomeUnknown, StoreRejected
from mcp_notarium.markup.obsidian_links import name_key
from mcp_notarium.stores.contract import check_not_withdrawn
from mcp_notarium.stores.extensions import KeptFile, Restored
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault.app_settings import AttachmentSettings
from mcp_notarium.stores.vault.attachments import may_be_shown
from mcp_notarium.stores.vault.folder import (
    NotANote,
    OtherSpelling,
    list_files,
    open_file,
    open_folder,
)
from mcp_notarium.stores.vault.paths import TRASH, folder_parts, is_note_name, split_path
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor

LARGEST = 64 * 1024 * 1024
_MOST_NAMES = 1000
_CHUNK = 1 << 20
_NOT_IN_WIKI = re.compile(r"[\[\]|#^]")
_PLAIN = "/!$&'*+,;=:@~"
_MOST_ASCII = 127


def keep(
    root: int,
    note: str,
    name: str,
    data: bytes,
    *,
    settings: AttachmentSettings,
    files: Callable[[], Iterable[str]],
) -> KeptFile:
    """Put a file where the settings say, under the first free name. ``files``: the paths of all files next to the notes."""
    if is_note_name(name) or not may_be_shown(name) or not SYSTEM.takes_name(name):
        raise StoreRejected(
            "a file of this name would be a note, or nothing that is shown",
            resolution_hint="Give the file another name; make a note of a text by `text`.",
        )
    try:
        parent = file_writer.make_folders(root, folder_parts(settings.folder))
    except (OtherSpelling, FileExistsError, NotADirectoryError):
        raise StoreRejected(
            "the folder for attachments has the name of a file, or is spelled in another way",
            resolution_hint="Ask the user to choose another folder for attachments in the settings of their app.",
        ) from None
    with closing_descriptor(parent):
        free, made = _create(parent, name, data)
        file_writer.flush(parent)
    path = f"{settings.folder}/{free}".lstrip("/")
    before = "- " if settings.outline else ""
    return KeptFile(path, _link(path, note, settings, files), made, before)


def _create(parent: int, name: str, data: bytes) -> tuple[str, bool]:
    """Create a file under a name that is free in any letter case; return that, or of a file of these bytes and such a name its own."""
    digest = hashlib.sha256(data).hexdigest()
    for number in range(1, _MOST_NAMES):
        free = numbered(name, number)
        for held in [one for one in SYSTEM.list_names(parent) if tag_key(one) == tag_key(free)]:
            if digest_of(parent, held, size=len(data)) == digest:
                return held, False
            break
        else:
            if SYSTEM.is_read_only(parent, ""):
                raise NoteReadOnly
            with suppress(FileExistsError):
                file_writer.create_other_file(parent, free, data, before=check_not_withdrawn)
                return free, True
            if digest_of(parent, free, size=len(data)) == digest:  # another call was faster
                return free, False
    raise StoreRejected(
        "there are too many files of this name", resolution_hint="Give the file another name."
    )


def digest_of(parent: int, name: str, *, size: int | None = None) -> str:
    """Return the SHA-256 of a regular file with one name; '' if it is none, or has another size."""
    with suppress(OSError, NotANote):
        file, found = open_file(parent, name)
        with os.fdopen(file, "rb") as opened:
            if size is not None and found.st_size != size:
                return ""
            digest = hashlib.sha256()
            while chunk := opened.read(_CHUNK):
                digest.update(chunk)
            return digest.hexdigest()
    return ""


def discard(root: int, path: str, digest: str) -> bool:
    """Move a file with these bytes to the trash. Raises ``NoteNotFound`` if it is gone."""
    folder, _, name = path.rpartition("/")
    if path not in list_files(root, folder):
        if _is_gone(root, folder, name):
            raise NoteNotFound("no such file in the vault", details={"id": path})
        return False
    with closing_descriptor(open_folder(root, folder_parts(folder))) as parent:
        if digest_of(parent, name) != digest:
            return False
        with closing_descriptor(
            file_writer.make_folders(root, (TRASH, *folder_parts(folder)))
        ) as target:
            gone = _move_free(parent, name, target)
            # defence: discarded-was-kept =False
            if gone and digest_of(target, gone) != digest:
                file_writer.move(target, gone, parent, name)
                gone = ""
            _flush_names(target, parent)
    return bool(gone)


def _is_gone(root: int, folder: str, name: str) -> bool:
    """Tell whether there is nothing of this name; False where that cannot be told."""
    try:
        with closing_descriptor(open_folder(root, folder_parts(folder))) as here:
            SYSTEM.look(here, name)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _flush_names(*folders: int) -> None:
    """Flush folders between which a file was moved: it has moved, whatever the disk says of that."""
    for one in folders:
        with suppress(OutcomeUnknown):  # defence: moved-is-moved
            file_writer.flush(one)


def _move_free(parent: int, name: str, target: int) -> str:
    """Move a file under the first free name; return that, or '' if it is gone or no name is free."""
    for number in range(1, _MOST_NAMES):
        with suppress(FileExistsError):
            try:
                file_writer.move(parent, name, target, numbered(name, number))
            except FileNotFoundError:
                return ""
            return numbered(name, number)
    return ""


def restore(root: int, path: str, digest: str) -> Restored:
    """Move a file with these bytes from the trash to its place, if that is free."""
    folder, _, name = path.rpartition("/")
    with closing_descriptor(file_writer.make_folders(root, folder_parts(folder))) as parent:
        if path in list_files(root, folder):
            return Restored.THERE if digest_of(parent, name) == digest else Restored.LOST
        in_trash = (TRASH, *folder_parts(folder))
        with suppress(OSError), closing_descriptor(open_folder(root, in_trash)) as trash:
            if _take_back(trash, parent, name, digest):
                return Restored.BACK
    return Restored.LOST


def _take_back(trash: int, parent: int, name: str, digest: str) -> bool:
    names = {*SYSTEM.list_names(trash)}
    for number in range(1, _MOST_NAMES):
        gone = numbered(name, number)
        if gone in names and digest_of(trash, gone) == digest:
            file_writer.move(trash, gone, parent, name)
            _flush_names(parent, trash)
            return True
    return False


def _link(
    path: str, note: str, settings: AttachmentSettings, files: Callable[[], Iterable[str]]
) -> str:
    name, folder = path.rpartition("/")[2], note.rpartition("/")[0]
    target = path
    if settings.target == "relative":
        target = posixpath.relpath(path, folder or ".")
    elif settings.target == "shortest":
        alone = all(one == path for one in files() if name_key(one) == name_key(path))
        target = name if alone else path
    is_picture = kind_of_name(name).startswith("image/")
    mark = "!" if settings.embeds_all or is_picture else ""
    if settings.wiki and not _NOT_IN_WIKI.search(target):
        return f"{mark}[[{target}]]"
    return f"{mark}[{name if settings.named else ''}]({_encoded(target)})"


def _encoded(target: str) -> str:
    return "".join(one if ord(one) > _MOST_ASCII else quote(one, _PLAIN) for one in target)


def move_other_file(root: int, old: str, new: str) -> bool:
    """Give a regular file that is no note another path. True if it has that afterwards; False: it stays as it is.

    Raises ``OSError`` if that cannot be told.
    """
    folder, _, name = old.rpartition("/")
    *parts, new_name = new.split("/")
    if is_note_name(new_name) or split_path("/".join((*parts, "any.md"))) is None:
        return False
    if old not in list_files(root, folder):
        return new in list_files(root, "/".join(parts))
    target = file_writer.make_folders(root, parts)
    try:
        with closing_descriptor(open_folder(root, folder_parts(folder))) as parent:
            file_writer.rename_file(parent, name, target, new_name)
            file_writer.flush(target)
            file_writer.flush(parent)
    except (FileExistsError, FileNotFoundError):
        return False
    finally:
        os.close(target)
    return True


def remove_empty_folders(root: int, folder: str) -> list[str]:
    """Remove a folder and those below it, the deepest first; return the paths of the files that keep some of them."""
    parts, left = folder.split("/"), list[str]()
    if not folder or split_path("/".join((*parts, "any.md"))) is None:
        return left
    with suppress(OSError), closing_descriptor(open_folder(root, parts[:-1])) as parent:
        _remove(parent, parts[-1], folder, left)
    return left


def _remove(parent: int, name: str, path: str, left: list[str]) -> None:
    with closing_descriptor(open_folder(parent, [name])) as here:
        with SYSTEM.scan(here) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
        left += [f"{path}/{one}" for one, is_folder in found if not is_folder]
        for one in (one for one, is_folder in found if is_folder):
            with suppress(OSError):
                _remove(here, one, f"{path}/{one}", left)
    SYSTEM.remove_folder(parent, name)
