"""Read a file from a folder that the user has opened for that, and nothing outside of it, whatever its path says.

Below such a folder no link is followed, nothing hidden is opened, and a file with several names is not read: it may be one from elsewhere.
What belongs to this program, or is a place of notes, is closed wherever it lies.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import InvalidRequest, NotPermitted
from mcp_notarium.files import os_errors
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import FileState

_LINKED = (
    "It must be a regular file on this computer, with one name, in a folder that is not hidden, and no part of its path below the "
    "permitted folder may be a link. What lies where notes or settings are is closed."
)


@dataclass(frozen=True, slots=True)
class ImportFolder:
    """Hold a folder as the user has written it, with ``~`` filled in, and its real path."""

    typed: Path
    real: Path


def find_folders(layers: Sequence[Sequence[str]]) -> tuple[ImportFolder, ...]:
    """Return the folders that lie in one of each layer of ``Policy.import_paths``: of two that contain each other the inner one."""
    found: list[ImportFolder] = []
    for number, layer in enumerate(layers):
        folders = [_folder(one) for one in layer]
        if number == 0:
            found = folders
            continue
        pairs = [(outer, inner) for outer in found for inner in folders]
        found = [inner for outer, inner in pairs if inner.real.is_relative_to(outer.real)]
        found += [
            outer
            for outer, inner in pairs
            if outer.real != inner.real and outer.real.is_relative_to(inner.real)
        ]
    return tuple(dict.fromkeys(found))


def _folder(path: str) -> ImportFolder:
    typed = Path(path)
    with suppress(RuntimeError):  # no home folder
        typed = typed.expanduser()
    return ImportFolder(typed, Path(os.path.realpath(typed)))


def find_hindrance(layers: Sequence[Sequence[str]], path: str, closed: Iterable[Path]) -> str:
    """Return why no file can come from a folder of ``Policy.import_paths``, which must lie in these layers as well; '' if one can."""
    folder = _folder(path)
    if not folder.real.is_dir():
        return "there is no such folder"
    if layers and not find_folders((*layers, (path,))):
        return "it is outside the `import_paths` of the policy itself"
    if not {*_identities((folder.real, *folder.real.parents))}.isdisjoint(_identities(closed)):
        return "it belongs to notes, to this program or to a client"
    return ""


def read_file(
    path: str, folders: Sequence[ImportFolder], *, closed: Iterable[Path], largest: int
) -> bytes:
    """Return the bytes of a file in one of these folders. Raises ``NotPermitted``, ``InvalidRequest``."""
    wanted = Path(path)
    with suppress(RuntimeError):
        wanted = wanted.expanduser()
    for folder in folders:
        for base in (folder.typed, folder.real):
            if wanted.is_relative_to(base):
                parts = wanted.relative_to(base).parts
                return _read_below(folder.real, parts, {*_identities(closed)}, largest)
    raise NotPermitted(
        "Files from there may not be kept.",
        resolution_hint="Ask the user to put the file into a folder that `import_paths` in MCP Notarium's policy file names, or to add its "
        "folder there (`mcp-notarium policy show`). Small files can be sent as a `data:` URI.",
    )


def _identities(places: Iterable[Path]) -> Iterable[tuple[int, int]]:
    """Yield what tells these files and folders from all others; not of those that cannot be reached, which cannot be read either."""
    for place in places:
        with suppress(OSError):
            found = _look_at(place)
            yield found.st_dev, found.st_ino


def _look_at(place: Path) -> FileState:
    with suppress(NotADirectoryError), closing_descriptor(SYSTEM.open_top(place)) as here:
        return SYSTEM.look_at_open(here)
    with closing_descriptor(SYSTEM.open_top(place.parent)) as here:
        return SYSTEM.look(here, place.name)


def _read_below(
    folder: Path, parts: Sequence[str], closed: AbstractSet[tuple[int, int]], largest: int
) -> bytes:
    # defence: import-opens-nothing-hidden =False
    if not parts or any(part.startswith(".") for part in parts):
        raise _unfit()
    if not closed.isdisjoint(_identities((folder, *folder.parents))):
        raise _unfit()
    try:
        here = SYSTEM.open_top(folder)
        for part in parts[:-1]:
            with closing_descriptor(here):
                below = SYSTEM.open_folder(here, part)
            here = below
            _require_open(here, closed)
        with closing_descriptor(here):
            return _read(here, parts[-1], closed, largest)
    except FileNotFoundError:
        raise InvalidRequest(
            "There is no such file.",
            subcategory="no_file",
            resolution_hint="Give the whole path of a file that is there.",
        ) from None
    except OSError as error:
        raise _unfit(os_errors.describe(error)) from None
    except ValueError:  # a name that no file can have
        raise _unfit() from None


def _require_open(folder: int, closed: AbstractSet[tuple[int, int]]) -> None:
    found = SYSTEM.look_at_open(folder)
    if (found.st_dev, found.st_ino) in closed:  # defence: import-no-closed-place =False
        os.close(folder)
        raise _unfit()


def _read(folder: int, name: str, closed: AbstractSet[tuple[int, int]], largest: int) -> bytes:
    seen = SYSTEM.look(folder, name)
    if not stat.S_ISREG(seen.st_mode) or SYSTEM.is_elsewhere(seen):
        raise _unfit()
    with os.fdopen(SYSTEM.open_file(folder, name), "rb") as file:
        found = SYSTEM.look_at_open(file.fileno())
        same = (found.st_dev, found.st_ino) == (seen.st_dev, seen.st_ino)
        # One that goes while the file is opened has been seen before.
        names = max(seen.st_nlink, found.st_nlink)
        # defence: imported-one-name -names
        if not same or names > 1 or (found.st_dev, found.st_ino) in closed:
            raise _unfit()
        if found.st_size > largest:
            raise InvalidRequest(
                f"The file is larger than {largest // 1024:,} KiB, the most that is kept here.",
                subcategory="too_large",
                http_status_code=413,
                resolution_hint="Give a smaller file, or ask the user to add it in their app.",
            )
        # What the kernel makes up, such as the environment of a process, has no size.
        return file.read(found.st_size)


def _unfit(why: str = "") -> NotPermitted:
    return NotPermitted(
        f"This file may not be kept{f' ({why})' if why else ''}.", resolution_hint=_LINKED
    )
