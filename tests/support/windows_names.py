"""Read a path as Windows reads it, and find what it names on the real disk.

``C:\\`` is the root of the real disk, so that ``/tmp/vault`` is ``C:\\tmp\\vault``. Names on the real disk are spelled as their
makers spelled them; another spelling in letter case finds them, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container
from dataclasses import dataclass

PREFIX = "\\\\?\\"
DEVICE = "\\Device\\Disk1"
LONGEST_PATH, LONGEST_NAME = 260, 255
NOT_FOUND, PATH_NOT_FOUND, INVALID_NAME, TOO_LONG = 2, 3, 123, 206
_DRIVE = re.compile(r"[A-Za-z]:(?=\\|$)")
_FORBIDDEN = re.compile(r'[\x00-\x1f<>"|?*/]')
_SHORT = re.compile(r"[A-Z0-9!#$%&'()@^_`{}~-]{1,8}(\.[A-Z0-9!#$%&'()@^_`{}~-]{1,3})?")
_NOT_SHORT = re.compile(r"[^A-Z0-9!#$%&'()@^_`{}~-]")
_DEVICE = re.compile(
    r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|con(in|out)\$) *(\..*)?", re.IGNORECASE
)


class Refused(Exception):
    """Windows refuses with a code."""

    def __init__(self, code: int, status: int = 0) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass(frozen=True)
class Named:
    """Hold what a path names. ``real``: on the real disk, spelled as it is there; ``name``: as the path spells it."""

    real: str
    name: str
    exists: bool
    stream: str = ""
    is_device: bool = False

    @property
    def folder(self) -> str:
        """Return the folder that it is in."""
        return os.path.dirname(self.real)

    @property
    def wanted(self) -> str:
        """Return where it is, spelled as the path spells it."""
        return os.path.join(self.folder, self.name)


def upcase(name: str) -> str:
    """Fold letter case as NTFS' table does: each character for itself, and composed letters stay composed."""
    return "".join(up if len(up := one.upper()) == 1 else one for one in name)


def shorten(name: str, taken: Container[str]) -> str:
    """Return the short name that a new file of this name gets; its own if it has the form 8.3."""
    upper = name.upper()
    if _SHORT.fullmatch(upper):
        return upper
    stem, _, ending = (
        upper.lstrip(".").rpartition(".")
        if "." in upper.lstrip(".")
        else (upper.lstrip("."), "", "")
    )
    stem, ending = (_NOT_SHORT.sub("_", re.sub(r"[ .]", "", one)) for one in (stem, ending))
    for number in range(1, 10**6):
        end = f"~{number}"
        made = f"{stem[: min(6, 8 - len(end))]}{end}" + (f".{ending[:3]}" if ending else "")
        if made not in taken:
            return made
    raise AssertionError


def split(path: str, rule: Callable[[str], object]) -> tuple[list[str], bool]:
    """Return the parts of a path below the drive, and whether the last one is a device."""
    if path.startswith(PREFIX):
        rule("prefix is literal")
        rest = _DRIVE.sub(
            "", path[len(PREFIX) :].removeprefix(f"GLOBALROOT{DEVICE}"), count=1
        ).removeprefix("\\")
        parts = rest.split("\\")
        if any(part in ("", ".", "..") for part in parts):
            raise Refused(INVALID_NAME)
        return parts, False
    if len(path.encode("utf-16-le", "surrogatepass")) >= 2 * LONGEST_PATH:
        rule("longest path")
        raise Refused(TOO_LONG)
    parts = []
    for part in _DRIVE.sub("", path.replace("/", "\\"), count=1).split("\\"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    kept = [part.rstrip(" .") for part in parts]
    if kept != parts:
        rule("trailing dots and blanks")
    is_device = bool(kept) and bool(_DEVICE.fullmatch(kept[-1].partition(":")[0]))
    if is_device:
        rule("device names")
    return [part for part in kept if part], is_device


class Finder:
    """Find names. ``links``: real path -> what it leads to and its tag, beside the symbolic links of the disk.

    ``shorts``: folder -> its names -> their short ones, which stay as long as the names.
    """

    def __init__(
        self,
        links: dict[str, tuple[str, int]],
        shorts: dict[str, dict[str, str]],
        rule: Callable[[str], object],
    ) -> None:
        self._links = links
        self._shorts = shorts
        self._rule = rule

    def find(self, path: str, *, follow: bool) -> Named:
        """Find what a path names. Raises :class:`Refused`. ``follow``: a link in the last place leads on."""
        parts, is_device = split(path, self._rule)
        if is_device:
            return Named("/dev/null", parts[-1], exists=True, is_device=True)
        here = "/"
        for part in parts[:-1]:
            self._require_valid(part)
            if ":" in part:
                raise Refused(INVALID_NAME)
            here = self._enter(here, part)
        if not parts:
            return Named("/", "", exists=True)
        name, _, stream = parts[-1].partition(":")
        self._require_valid(name)
        if stream:
            self._rule("streams")
        stream = re.sub(r":?\$data$", "", stream, flags=re.IGNORECASE)
        real, exists = self._entry(here, name)
        if exists and follow and (target := self._target(real)) is not None:
            self._rule("links are followed")
            return Named(target, name, exists=os.path.lexists(target), stream=stream)
        return Named(real, name, exists=exists, stream=stream)

    def _require_valid(self, name: str) -> None:
        if not name or _FORBIDDEN.search(name) or len(name.encode("utf-16-le")) > 2 * LONGEST_NAME:
            self._rule("characters of names")
            raise Refused(INVALID_NAME)

    def _enter(self, here: str, part: str) -> str:
        real, exists = self._entry(here, part)
        if exists and (target := self._target(real)) is not None:
            self._rule("links are followed")
            real = target
        if not exists or not os.path.isdir(real):
            raise Refused(PATH_NOT_FOUND)
        return real

    def _entry(self, folder: str, name: str) -> tuple[str, bool]:
        """Return where an entry is; if only another spelling is there, where that is."""
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            return path, True
        if name.upper() != name.lower():
            folded = upcase(name)
            for other in os.listdir(folder):
                if upcase(other) == folded:
                    self._rule("letter case")
                    return os.path.join(folder, other), True
        if "~" in name:
            for other, short in self._short_names(folder).items():
                if short == upcase(name):
                    self._rule("short names")
                    return os.path.join(folder, other), True
        return path, False

    def _short_names(self, folder: str) -> dict[str, str]:
        names = sorted(os.listdir(folder))
        before = self._shorts.get(folder, {})
        kept = {name: before[name] for name in names if name in before}
        for name in names:
            if name not in kept:
                kept[name] = shorten(name, {*kept.values(), *map(upcase, names)})
        self._shorts[folder] = kept
        return kept

    def _target(self, real: str) -> str | None:
        """Return what stands for another name leads to; a file of the cloud leads nowhere else."""
        if real in self._links:
            return self._links[real][0]
        return os.path.realpath(real) if os.path.islink(real) else None
