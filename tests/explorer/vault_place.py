"""Keep the notes of a run in a folder of real Markdown files, which editors and sync tools write, too.

The store's threads are workers (``workers``), its file times are simulated (``disk``), and so is inotify. Before and after each call that
changes a file, and after each that reads one, is a moment at which others may act, the process may end, or the
disk may refuse. Linux: files are exchanged by its system call.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest import mock

from explorer.disk import Disk, FileCalls, FileEvents, SystemCalls
from explorer.editors import Editors
from explorer.loop import OWNER
from explorer.oracle import words_of
from explorer.workers import TurnLock, Workers, require_alive
from mcp_notarium import threads
from mcp_notarium.domain.note import Content, PendingWrite
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.storage.sync_state import ListingMemory
from mcp_notarium.stores.contract import Acknowledgement, Store
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.vault import (
    file_table,
    file_writer,
    folder,
    note_codec,
    note_writer,
    store,
)
from mcp_notarium.stores.vault.file_writer import NoteFile
from mcp_notarium.stores.vault.kind import KIND, PATH
from mcp_notarium.stores.vault.paths import TRASH, is_note_name
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache

LEFT_BEHIND = Content("a file that the store has left behind")
"""Stands among the notes for a temporary file: it must be removed, or become a note."""
_REFUSED = {
    "open": (errno.EIO,),
    "read": (errno.EIO,),
    "scandir": (errno.EACCES, errno.EIO),
    "unlink": (errno.EACCES, errno.EIO),
    "rename": (errno.EACCES, errno.EIO, errno.ENOSPC),
    "mkdir": (errno.EACCES, errno.EIO, errno.ENOSPC),
}
"""By call why the system may refuse it, beside what it says of new files and flushes."""
AWAY: tuple[dict[str, tuple[int, str]], ...] = (
    {},
    {"open the vault": (errno.ENOENT, "not mounted")},
    {"open the vault": (errno.EACCES, "forbidden")},
    {"scandir": (errno.EIO, "broken"), "open": (errno.EIO, "broken")},
)
"""What each call of the system says while the vault is away, by the way it is."""
_MOVES = {False: "moves a file", True: "exchanges files"}


class SteppedVault(VaultStore):
    """The store of one process."""

    shortest_pause = 10.0

    def __init__(self, place: VaultPlace, process: Process, memory: ListingMemory) -> None:
        super().__init__(place.disk.root, memory)
        self.process = process
        self._place = place
        self._looking: Any = TurnLock(place.workers)
        self._keeping: Any = TurnLock(place.workers)
        self._reading: Any = TurnLock(place.workers)
        self._watch: Any = FileEvents(place.disk, deaf=lambda: place.deaf, loses=place.loses)
        self.unrecorded = ""
        """Words that this process alone has, since the last flush, or since the disk has refused a commit: it has displaced them, and has not recorded that."""
        self.held: NoteFile | None = None
        """What it is about to replace."""
        self.elsewhere = ""
        """Words that it has written in the place of another note, since the last flush: their own has another name by then."""
        process.ends += [self._watch.close, self._forget]
        self._place_of, process.place = process.place, self._step  # type: ignore[method-assign]

    def _step(self, what: str) -> None:
        if what == "has flushed its log":
            self.elsewhere = ""
            if not self.process.missed_commit:
                self.unrecorded = ""
        self._place_of(what)

    def _forget(self) -> None:
        """Expect no words that go with the process (docs/sync.md, where the last writer wins).

        What it has written in the place of another note nobody can take back: that one becomes a note again.
        """
        oracle = self._place.world.oracle
        oracle.forgive(self.unrecorded)
        oracle.perhaps_twice.update(words_of(self.elsewhere))

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        self._place.world.oracle.see_push(write)
        self.process.place("sends push")
        answer = await super().push(write)
        # What it has written in the place of another note may stay there, and where others have moved that.
        if self._place.refuses or write.note_id not in self._place.contents():
            self._place.world.oracle.perhaps_twice.update(words_of(self.elsewhere))
        self.process.place("has the answer to push")
        return answer


class VaultPlace:
    """A vault, and the programs that write it. ``deaf``: the system tells of no changes of files."""

    repeats = False

    traits = VaultStore.traits

    def __init__(self, world: World) -> None:
        self.world = world
        root = world.folder / "vault"
        root.mkdir()
        self.settings: dict[str, Any] = {
            "store": KIND,
            "store_settings": StoreSettings({PATH: str(root)}),
        }
        self.disk = Disk(root, now=world.clock.time)
        self.workers = Workers(world.loop, world.chooser)
        self.editors = Editors(world, self.disk)
        self.deaf = bool(world.chooser.choose("the system tells of no changes", 2, rate=0.15))
        self.refuses = 0
        """How often the disk has refused something."""
        self._looks = Counter[str]()
        """How often each process has opened the vault."""
        self._stores: list[SteppedVault] = []
        self._patches = ExitStack()
        self._patch()
        self._patch_moments()

    def _patch(self) -> None:
        """Let the store meet simulated times, numbers and events, and workers."""

        def is_being_written(file: int) -> bool:
            return self.disk.writers[os.fstat(file).st_ino] > 0

        def born_at(file: int, _found: os.stat_result) -> str:
            return f"{self.disk.facts(os.fstat(file).st_ino).born / 10**9:.9f}"

        calls = FileCalls(self.disk, self._before)
        system = SystemCalls(calls)
        for module in (file_table, file_writer, folder, note_writer):
            self._replace(module, "os", calls)
            self._replace(module, "SYSTEM", system)
        self._replace(threads, "threading", self.workers.threading)
        self._replace(time, "sleep", self.workers.sleep)
        self._replace(store, "_MANY", 1)
        self._replace(file_writer, "is_being_written", is_being_written)
        self._replace(SYSTEM, "birth", born_at)

    def _patch_moments(self) -> None:
        """Let others act before and after the steps of a write, and remember what is known to one process alone."""
        read, replace = file_writer.read_settled, file_writer.replace_file
        rename, remove = file_writer.rename, file_writer.remove_file

        def read_settled(*args: Any, **how: Any) -> Any:
            found = read(*args, **how)
            self.workers.moment("it has read a file")
            return found

        def renamed(parent: int, old: str, target: int, new: str, *, exchange: bool) -> bool:
            note = new if is_note_name(new) else old
            self.world.act_between(f"{_name()} {_MOVES[exchange]}", note=note)
            self.workers.moment(f"it {_MOVES[exchange]}", kill=True)
            self._may_refuse("rename")
            done = rename(parent, old, target, new, exchange=exchange)
            self.disk.look()
            held = self._own_store().held if exchange else None
            if done and held is not None:
                others = [one for name, one in self.disk.files().items() if name[1] != old]
                if any(data == held.data for _, data in others):
                    self._own_store().elsewhere += f" {held.text}"
                self.world.act_between(f"{_name()} reads what it has displaced", note=note)
            self.workers.moment(f"it {_MOVES[exchange]}: done", kill=True)
            return done

        def removed(parent: int, name: str, **how: Any) -> bool:
            inode = os.stat(name, dir_fd=parent).st_ino
            gone = remove(parent, name, **how)
            if gone:
                self.editors.deleted.add(inode)
            return gone

        def replaced(parent: int, name: str, data: bytes, **how: Any) -> Any:
            one = self._own_store()
            one.held = how["held"]
            try:
                written, displaced, certain = replace(parent, name, data, **how)
            except OutcomeUnknown:
                self.world.oracle.perhaps_twice.update(words_of(one.elsewhere))
                raise
            finally:
                one.held = None
            if displaced.digest != how["held"].digest:
                one.unrecorded += f" {displaced.text}"
            return written, displaced, certain

        self._replace(file_writer, "read_settled", read_settled)
        self._replace(file_writer, "remove_file", removed)
        self._replace(file_writer, "replace_file", replaced)
        self._replace(file_writer, "rename", renamed)

    def _own_store(self) -> SteppedVault:
        return next(one for one in self._stores if one.process is OWNER.get())

    def _replace(self, where: Any, name: str, value: Any) -> None:
        self._patches.enter_context(mock.patch.object(where, name, value))

    def _before(self, call: str) -> None:
        require_alive()
        self._looks[_name()] += call == "open the vault"
        if call in AWAY[self.world.down]:
            raise OSError(*AWAY[self.world.down][call])
        if call == "open the vault":
            return
        if call == "scandir":
            self.workers.moment("it lists a folder")
        self._may_refuse(call)
        if call in ("open", "read", "scandir"):
            return
        if call in ("create", "fsync") and self._happens("the disk refuses", 0.5):
            self.refuses += 1
            raise OSError(errno.ENOSPC if call == "create" else errno.EIO, "simulated")
        if call != "create":
            self.workers.moment(f"before {call}", kill=True)

    def _may_refuse(self, call: str) -> None:
        """Raise what the system says, once, if the schedule says so."""
        known, chooser = _REFUSED.get(call, ()), self.world.chooser
        if self.world.calm or not known:
            return
        label, rate = f"{_name()}: the disk refuses to {call}", chooser.rates.faults / 10
        if why := chooser.among(label, ["", *map(os.strerror, known)], rate=rate):
            self.refuses += 1
            self.world.note(f"the disk refuses {_name()} to {call}: {why}")
            raise next(OSError(one, why) for one in known if os.strerror(one) == why)

    def loses(self) -> bool:
        """Tell whether the system loses an event."""
        return self._happens("an event is lost", 0.2)

    def _happens(self, what: str, share: float) -> bool:
        label = f"{_name()}: {what}"
        chooser = self.world.chooser
        return not self.world.calm and bool(
            chooser.choose(label, 2, rate=chooser.rates.faults * share)
        )

    def acts(self) -> dict[str, Callable[[str, str], None]]:
        """See ``Place.acts``."""
        return self.editors.acts()

    def remote(self, process: Process, cache: Cache) -> Store:
        """See ``Place.remote``."""
        self.workers.follow(process)
        made = SteppedVault(self, process, ListingMemory(cache.database))
        self._stores.append(made)
        return made

    def requests(self) -> dict[str, int]:
        """See ``Place.requests``: how often it was opened."""
        return dict(self._looks)

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(one for one, held in self.contents().items() if held is not LEFT_BEHIND)

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``."""
        found: dict[str, Content] = {}
        for (above, name), (_, data) in sorted(self.disk.files().items(), reverse=True):
            below = f"{above}/{name}" if above else name
            trash = below.startswith(f"{TRASH}/")
            if name.startswith(".notarium-"):
                found[below] = LEFT_BEHIND
            elif data is not None and is_note_name(name):
                note_id = below.removeprefix(f"{TRASH}/")
                if not trash or note_id not in found:
                    content = note_codec.content_of(note_id, data.decode(), trash=trash)[0]
                    found[note_id] = content
        return found

    def files(self) -> dict[str, bytes]:
        """See ``FilesPlace.files``."""
        found = {
            f"{above}/{name}".lstrip("/"): data
            for (above, name), (_, data) in self.disk.files().items()
            if data is not None and not is_note_name(name) and not name.startswith(".")
        }
        return {one: data for one, data in found.items() if not one.startswith(f"{TRASH}/")}

    def is_clear(self, note_id: str) -> bool:
        """See ``Place.is_clear``."""
        path = self.editors.path(note_id)
        if not path.exists():
            return True
        return note_codec.content_of(note_id, path.read_bytes().decode(), trash=False)[1]

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        block = f"---\ntags: [{', '.join(tags)}]\n---\n" if "hidden" in tags else ""
        line = "" if block or not tags else f"{' '.join(f'#{tag}' for tag in tags)}\n"
        self.editors.write_anew(f"{name}.md", f"{block}{text}{line}")

    def close(self) -> None:
        """See ``Place.close``."""
        self._patches.close()


def _name() -> str:
    """Return who acts."""
    owner = OWNER.get()
    return "" if owner is None else owner.name
