"""Tell what changes in folders by the library watchdog: FSEvents on macOS, ``ReadDirectoryChangesW`` on Windows.

Both watch the whole tree below the root for the price of one folder, and follow no links. Unlike inotify they tell of a change
some time after it, and the library does not say that events were lost; a look at all files finds those.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from queue import Empty

from watchdog.events import (
    EVENT_TYPE_CLOSED,
    EVENT_TYPE_CLOSED_NO_WRITE,
    EVENT_TYPE_CREATED,
    EVENT_TYPE_DELETED,
    EVENT_TYPE_MOVED,
    EVENT_TYPE_OPENED,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

_BATCH_SECONDS = 0.1
"""On Windows the library tells of events when none has come for so long."""
_END_SECONDS = 2.0
_SHORT = re.compile(r"~\d")
"""Mark of each short name of Windows; "FILE_NOTIFY_INFORMATION structure" says that either name may be told."""
_MOST = 10_000
"""Changed files after which anything may have changed."""
_NO_NEWS = {EVENT_TYPE_OPENED, EVENT_TYPE_CLOSED, EVENT_TYPE_CLOSED_NO_WRITE}
_COME_OR_GONE = {EVENT_TYPE_CREATED, EVENT_TYPE_DELETED, EVENT_TYPE_MOVED}


class TreeEvents(FileSystemEventHandler):
    """Implement ``FolderEvents`` with one observer, which :meth:`follow` starts, and again for another root."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._above = _parts(self._root)
        self._observer: BaseObserver | None = None
        self._watched: tuple[int, int] | None = None
        self._folders: dict[str, str] = {}
        """Spelling that does not count -> the folder as it is spelled."""
        self._lock = threading.Lock()
        self._changed: set[tuple[str, str]] = set()
        self._uncertain = True
        """Anything may have changed."""
        self._has_news = False
        self._waiting: Callable[[], object] | None = None
        self._closed = False

    def follow(self, folders: Iterable[str]) -> bool:
        """See ``FolderEvents.follow``."""
        wanted = {_plain(folder): folder for folder in folders}
        with self._lock:
            new = bool(wanted.keys() - self._folders.keys())
            self._folders = wanted
        return new if self._runs else self._start()

    @property
    def _runs(self) -> bool:
        """Tell whether the watched folder is still the root, and all threads of the library live."""
        seen = self._observer
        if seen is None or self._watched != _identify(self._root):
            return False
        return all(one.is_alive() for one in (seen, *seen.emitters))

    def _start(self) -> bool:
        self._stop()
        if self._closed:
            return False
        watched, observer = _identify(self._root), Observer(timeout=_BATCH_SECONDS)
        try:
            observer.schedule(self, self._root, recursive=True)
            observer.start()
        except (OSError, RuntimeError, Empty):  # no folder, or no more threads; Empty: no answer
            return False
        self._observer, self._watched = observer, watched
        return True

    def dispatch(self, event: FileSystemEvent) -> None:
        """Record what the library tells, in its thread."""
        if event.event_type in _NO_NEWS:
            return
        paths = [
            event.src_path,
            *([event.dest_path] if event.event_type == EVENT_TYPE_MOVED else []),
        ]
        come_or_gone = event.event_type in _COME_OR_GONE
        with self._lock:
            for path in paths:
                self._note(
                    os.fsdecode(path), is_folder=event.is_directory, come_or_gone=come_or_gone
                )
            if self._has_news and self._waiting is not None:
                self._waiting()

    def _note(self, path: str, *, is_folder: bool, come_or_gone: bool) -> None:
        """Note one path. Windows does not say whether what has gone was a folder, and may use short names of files and folders."""
        parts = [*Path(path).parts]
        above, below = parts[: len(self._above)], parts[len(self._above) :]
        folder = self._folders.get(_plain("/".join(below[:-1]))) if below else None
        if [*map(_plain, above)] != self._above:
            lost = True
        elif is_folder or not below or _plain("/".join(below)) in self._folders:
            lost = come_or_gone and (folder is not None or not below)
        elif any(map(_SHORT.search, below)):  # defence: event-of-short-name =False
            lost = True
        elif folder is None:
            lost = False
        else:
            self._changed.add((folder, below[-1]))
            lost, self._has_news = len(self._changed) > _MOST, True
        if lost:
            self._uncertain = self._has_news = True

    def take(self) -> set[tuple[str, str]] | None:
        """See ``FolderEvents.take``."""
        runs = self._runs
        with self._lock:
            changed = self._changed if runs and not self._uncertain else None
            self._changed, self._uncertain, self._has_news = set(), False, False
        return changed

    async def wait(self, seconds: float) -> bool:
        """See ``FolderEvents.wait``."""
        came = asyncio.Event()
        with self._lock:
            if self._has_news:
                came.set()
            self._waiting = partial(asyncio.get_running_loop().call_soon_threadsafe, came.set)
        try:
            await asyncio.wait_for(came.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting, self._has_news = None, False
        return True

    def _stop(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(_END_SECONDS)

    def close(self) -> None:
        """See ``FolderEvents.close``."""
        self._closed = True
        self._stop()


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - of a path that came from the system
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _parts(path: str) -> list[str]:
    return [_plain(part) for part in Path(path).parts]


def _plain(path: str) -> str:
    """Return the same text for names that such a file system may take for one."""
    return unicodedata.normalize("NFC", path).casefold()
