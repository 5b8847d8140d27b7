"""Decide which paths of a vault name a note. Pure.

A note's id is its path below the vault: parts between ``/``, the last one with a Markdown ending.
"""

from __future__ import annotations

import re
import unicodedata

from mcp_notarium.domain.file_names import DEVICES

TRASH = ".trash"
"""Folder where Obsidian puts what it deletes. Notes there keep their path below it."""
ENDINGS = (".md", ".markdown")
_IGNORED = frozenset({"node_modules"})
"""Folders that hold no notes, beside those whose name begins with a dot."""
_LOGSEQ_COPIES = ("logseq", "bak")
_PLACEHOLDER = ".icloud"
_TEMPORARY = ("~$", "~syncthing~")
_LONGEST_PATH = 1024
_LONGEST_PART = 255
_DEEPEST = 64
_LONGEST_TITLE = 100
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|#^\[\]\u2028\u2029]+')
"""Characters that Windows refuses in a name, or that end a name inside ``[[...]]``."""
_RESERVED = re.compile(rf"({DEVICES}|node_modules)(?= *(?:\.|$))", re.IGNORECASE)
"""Names of devices on Windows, with any ending, and of the folders that hold no notes."""
UNTITLED = "Untitled"

Place = tuple[str, bool]
"""A note's path, and whether it lies in the trash."""
Name = tuple[str, str]
"""A folder below the vault, and the name of a file in it."""


def split_path(path: str) -> tuple[str, ...] | None:
    """Return the parts of a note's path; None if no note can have it."""
    parts = tuple(path.split("/"))
    if not 0 < len(path) <= _LONGEST_PATH or len(parts) > _DEEPEST or not _is_encodable(path):
        return None
    if not is_note_name(parts[-1]) or not all(map(_is_part, parts)):
        return None
    # defence: ignored-folders-any-depth =False
    return None if any(map(is_ignored_folder, ("", *parts), parts[:-1])) else parts


def folder_parts(folder: str) -> list[str]:
    """Return the names of the folders on the way to one; none for the top."""
    return folder.split("/") if folder else []


def is_whole_path(path: str) -> bool:
    """Tell whether a path can be an id, if it is made of the name of a note and of folders that are not ignored."""
    return (
        len(path) <= _LONGEST_PATH and "\\" not in path and (path.isascii() or _is_encodable(path))
    )


def is_in_trash(folder: str) -> bool:
    """Tell whether a folder is that of the trash, or lies in it."""
    return folder == TRASH or folder.startswith(f"{TRASH}/")


def is_note_name(name: str) -> bool:
    """Tell whether a file of this name is a note, not another program's temporary file."""
    return (
        name.lower().endswith(ENDINGS) and not _is_hidden(name) and not name.startswith(_TEMPORARY)
    )


def is_temporary(name: str) -> bool:
    """Tell whether a file of this name is one of those that other programs have for a moment."""
    return name.startswith(_TEMPORARY) or name.endswith("~")


def placeholder_of(name: str) -> str:
    """Return what iCloud calls the file that it puts in the place of a note's that is not on this computer."""
    return f".{name}{_PLACEHOLDER}"


def named_by(placeholder: str) -> str | None:
    """Return the name of the note in whose place such a file stands; None if it is another file."""
    name = placeholder[1:].removesuffix(_PLACEHOLDER)
    return name if placeholder == placeholder_of(name) and is_note_name(name) else None


def is_ignored_folder(above: str, name: str) -> bool:
    """Tell whether the folder holds no notes; ``above``: the name of the folder that it is in."""
    folded = name.casefold()
    return _is_hidden(name) or folded in _IGNORED or (above.casefold(), folded) == _LOGSEQ_COPIES


def title_of(path: str) -> str:
    """Return the title of a note: the name of its file without the ending."""
    name = path.rpartition("/")[2]
    return name[: name.rfind(".")]


def name_from(title: str) -> str:
    """Make the path of a new note, without ending, from its title: a ``/`` in it is a folder.

    Every system takes the name, and a link can hold it.
    """
    parts = [_safe_part(part) for part in _without_ending(title).split("/")]
    named = [part for part in parts if part][-_DEEPEST + 1 :]
    return "/".join(named) or UNTITLED


def names_note(title: str) -> bool:
    """Tell whether something is left of the last part of a title as the name of a file; not of ``Work/`` or ``.md``."""
    return bool(_safe_part(_without_ending(title).rpartition("/")[2]))


def leads_up(title: str) -> bool:
    """Tell whether a title has ``..`` among its folders: nobody could say where the note belongs."""
    return "/" in title and any(part.strip() == ".." for part in title.split("/"))


def renamed_path(path: str, title: str) -> str | None:
    """Return the path of a note that gets this title: with a ``/`` in it from the top, else in its folder.

    None: the title names nothing, as ``.md`` or ``Work/``.
    """
    folder, _, name = path.rpartition("/")
    if not names_note(title):
        return None
    new = name_from(title)
    placed = new if "/" in title or not folder else f"{folder}/{new}"
    return placed + name[name.rfind(".") :]


def _without_ending(title: str) -> str:
    ending = next((one for one in ENDINGS if title.lower().endswith(one)), "")
    return title[: len(title) - len(ending)]


def _safe_part(part: str) -> str:
    words = " ".join(unicodedata.normalize("NFC", _NOT_IN_NAMES.sub(" ", part)).split())
    cut = words.strip(" .~").encode()[:_LONGEST_TITLE].decode(errors="ignore").strip(" .")
    return _RESERVED.sub(r"\1_", cut, count=1) if _RESERVED.match(cut) else cut


def _is_hidden(name: str) -> bool:
    return name.startswith(".") and not name.startswith("..")


def _is_part(part: str) -> bool:
    return (
        part not in ("", ".", "..")
        and not {"\0", "\\"} & {*part}
        and len(part.encode()) <= _LONGEST_PART
    )


def _is_encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
