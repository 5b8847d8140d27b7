"""Find and read the files of a vault that notes show, such as pictures: regular ones with one name, on this computer."""

from __future__ import annotations

import codecs
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import unescape
from urllib.parse import unquote

from yaml import ScalarEvent, YAMLError

from mcp_notarium.domain.file_names import kind_of_name
from mcp_notarium.errors import NoteNotFound, NoteUnreadable
from mcp_notarium.markup.front_block import find_block, text_start
from mcp_notarium.markup.front_matter import LARGEST, parse_events
from mcp_notarium.markup.obsidian_links import find_links, name_key, relative_place, resolve
from mcp_notarium.stores.extensions import Attachment
from mcp_notarium.stores.vault.file_table import Found, State
from mcp_notarium.stores.vault.folder import (
    NotANote,
    list_files,
    missing_as,
    missing_error,
    open_file,
    open_folder,
    open_parent,
    read_settled,
)
from mcp_notarium.stores.vault.paths import Place, folder_parts, is_temporary
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor
from mcp_notarium.system.port import FileState

_REMEMBERED = 2.0
"""Seconds for which the names of files are believed that are still there."""
_LARGEST_NOTE = 64 * 1024 * 1024
_HTML = re.compile(
    r"""\b(?:src|href|poster|data)\s{0,9}=\s{0,9}(?:"([^"\n]{1,1024})"|'([^'\n]{1,1024})'|([^\s"'>]{1,1024}))""",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\s\"'()<>\[\]{}|=,;:/\\]+")
"""Anything that reads as the name of a file: in code, in CSS, or in a link of a form that is not looked for."""
_WORD = re.compile(r"[^\s<>|]+")
_MOST_PARTS = 8
"""Brackets and quotes of a word at which a name is looked for, on each side."""
_LONGEST_WORD = 1024
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_AROUND_VALUES = " \t\r-\"'[]{}"
_COPY_OF_NOTE = re.compile(r"\.(?:md|markdown)[.~]", re.IGNORECASE)
_UNREADABLE = "this file is not read: it is a link, has several names, or is protected"


class FileNames:
    """Find the files that links mean. Names are remembered for a moment: what is not among them is looked for again."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = {}
        self._listed_at = float("-inf")

    def resolve(
        self,
        root: int,
        folders: Callable[[], Iterable[str]],
        links: Sequence[tuple[str, str]],
        sees: Callable[[str], bool] | None,
    ) -> Mapping[tuple[str, str], Attachment]:
        """See ``FolderStore.resolve_files``; ``folders`` gives those in which files may lie."""
        found = self._find(root, links, sees)
        if len(found) < len(set(links)) or time.monotonic() - self._listed_at > _REMEMBERED:
            named: dict[str, list[str]] = defaultdict(list)
            for file in (one for folder in folders() for one in list_files(root, folder)):
                if may_be_shown(file):
                    named[name_key(file)].append(file)
            self._named, self._listed_at = named, time.monotonic()
            found = self._find(root, links, sees)
        return found

    def _find(
        self, root: int, links: Sequence[tuple[str, str]], sees: Callable[[str], bool] | None
    ) -> dict[tuple[str, str], Attachment]:
        found: dict[tuple[str, str], Attachment] = {}
        for target, source in links:
            candidates = [*filter(sees or bool, self._named.get(name_key(target), ()))]
            place = relative_place(target, source)
            path = place if place in candidates else resolve(target, source, candidates)
            if path is not None and (facts := _look_at(root, path)) is not None:
                found[target, source] = facts
        return found


class ShownNames:
    """Remember which files notes that the index lacks may show, until they change. Not for two threads at once."""

    def __init__(self) -> None:
        self._read: dict[Place, tuple[State, frozenset[str]]] = {}

    def read(self, root: int, files: Iterable[Found]) -> tuple[set[str], list[str]]:
        """See ``FolderStore.read_file_names``."""
        wanted = {one.place: one for one in files if one.is_note}
        kept = {place: one for place, one in self._read.items() if place in wanted}
        unread: list[str] = []
        for place, found in wanted.items():
            if place in kept and kept[place][0] == found.state:
                continue
            kept.pop(place, None)
            try:
                kept[place] = found.state, _names_in(_read_text(root, found))
            except NoteNotFound:
                continue
            except (OSError, NoteUnreadable):  # perhaps for a moment
                unread.append(found.path)
        self._read = kept
        return {name for _, names in kept.values() for name in names}, unread


def _read_text(root: int, found: Found) -> str:
    with open_parent(root, found.path, trash=found.trash, exact=False) as (parent, name):
        file, _ = open_file(parent, name, exact=False)
        with closing_descriptor(file):
            data = read_settled(file, largest=_LARGEST_NOTE).data
    coding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        return data.decode(coding)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _names_in(text: str) -> frozenset[str]:
    """Return the keys of the names to which anything in a text may lead: links, HTML, and values of its properties."""
    bare = unescape(_ESCAPED.sub(r"\1", text))
    targets = [*_values_in(text)]
    for form in dict.fromkeys((text, bare, "\n".join(targets))):
        targets += [link.target for link in find_links(form)]
        targets += (unquote(unescape(one[one.lastindex or 0])) for one in _HTML.finditer(form))
        targets += (unquote(unescape(one)) for one in _words_in(form))
    return frozenset(map(name_key, targets))


def _words_in(text: str) -> Iterator[str]:
    """Yield what reads as the name of a file, also within brackets and quotes that may be a part of the name."""
    for word in _WORD.findall(text):
        if "." not in word:
            continue
        yield from (one for one in _NAME.findall(word) if "." in one[1:256])
        if len(word) > _LONGEST_WORD:
            continue
        starts = [at + 1 for at, one in enumerate(word) if one in "([{<'\"`=:,/"][:_MOST_PARTS]
        ends = [at for at, one in enumerate(word) if one in ")]}>'\"`,;"][-_MOST_PARTS:]
        for start in (0, *starts):
            yield from (word[start:end] for end in (*ends, len(word)) if start < end)


def _values_in(text: str) -> Iterator[str]:
    """Yield the values of the properties of a text: as YAML reads them, and as they stand in their lines."""
    block = text[: text_start(text)]
    inner = find_block(text)
    if inner and inner[1] - inner[0] <= LARGEST:
        with suppress(YAMLError, RecursionError, ValueError):
            for event in parse_events(text[inner[0] : inner[1]]):
                if isinstance(event, ScalarEvent):
                    yield from (event.value, *(one.strip() for one in event.value.split(",")))
    for line in block.splitlines():
        value = line.partition(":")[2] or line
        yield from (one.strip(_AROUND_VALUES) for one in (value, *value.split(",")))


def read_file(root: int, path: str, *, largest: int) -> tuple[Attachment, bytes | None]:
    """See ``FolderStore.read_file``."""
    folder, _, name = path.rpartition("/")
    if path not in list_files(root, folder):
        raise missing_error(path)
    with missing_as(path):
        parent = open_folder(root, folder_parts(folder))
        try:
            file, found = open_file(parent, name)
        except NotANote as error:
            if type(error) is NotANote:
                raise NotANote(_UNREADABLE) from None
            raise
        finally:
            os.close(parent)
        try:
            read = read_settled(file, largest=largest)
        except NotANote as error:
            if type(error) is not NotANote:
                raise
            return _facts(path, found), None
        finally:
            os.close(file)
    return _facts(path, read.found), read.data


def may_be_shown(path: str) -> bool:
    """Tell whether a file is one that an app shows: no hidden one, and none that a program left, perhaps with the text of a note."""
    name = path.rpartition("/")[2]
    left = name.startswith(".") or is_temporary(name) or _COPY_OF_NOTE.search(name) is not None
    return not left  # defence: only-shown-files-read =True


def _look_at(root: int, path: str) -> Attachment | None:
    folder, _, name = path.rpartition("/")
    with suppress(OSError, NoteNotFound):
        with closing_descriptor(open_folder(root, folder_parts(folder))) as parent:
            found = SYSTEM.look(parent, name)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not SYSTEM.is_elsewhere(found):
            return _facts(path, found)
    return None


def _facts(path: str, found: FileState) -> Attachment:
    return Attachment(path, kind_of_name(path), found.st_size, int(found.st_mtime))
