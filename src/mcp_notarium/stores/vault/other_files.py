"""Move files of a vault that are no notes, such as images, and remove folders that they leave empty.

A move overwrites nothing, and is one step of the file system. Doing it twice changes nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress

from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault.folder import list_files, open_folder
from mcp_notarium.stores.vault.paths import is_note_name, split_path
from mcp_notarium.system import SYSTEM


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
        parent = open_folder(root, folder.split("/") if folder else [])
        try:
            file_writer.rename_file(parent, name, target, new_name)
            file_writer.flush(target)
            file_writer.flush(parent)
        finally:
            os.close(parent)
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
    with suppress(OSError):
        parent = open_folder(root, parts[:-1])
        try:
            _remove(parent, parts[-1], folder, left)
        finally:
            os.close(parent)
    return left


def _remove(parent: int, name: str, path: str, left: list[str]) -> None:
    here = open_folder(parent, [name])
    try:
        with SYSTEM.scan(here) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
        left += [f"{path}/{one}" for one, is_folder in found if not is_folder]
        for one in (one for one, is_folder in found if is_folder):
            with suppress(OSError):
                _remove(here, one, f"{path}/{one}", left)
    finally:
        os.close(here)
    SYSTEM.remove_folder(parent, name)
