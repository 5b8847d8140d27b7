"""Write a vault's files as editors, sync tools and people do: at once, in steps, late, from an old buffer, under other names.

A program that writes over what it has not read takes words away by itself: nobody else has to keep those.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from explorer.choices import HIDE, HIDING_PROPERTY, NOT_UNDERSTOOD, way_to_hide
from explorer.oracle import is_copy, words_of
from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.markup.front_block import text_start
from mcp_notarium.stores.vault.paths import TRASH

if TYPE_CHECKING:
    from explorer.disk import Disk
    from explorer.world import World

GAPS = (0.01, 0.2, 2.0, 30.0, 900.0)
"""Seconds that a program takes between two steps: shorter than a reader waits, longer, longer than a writer
waits, long, and longer than what a save has displaced is kept if nobody has it open."""


class Editors:
    """All programs that write the files of a vault, beside the servers."""

    def __init__(self, world: World, disk: Disk) -> None:
        self._world = world
        self._disk = disk
        self._steps = 0
        """Steps that are still to come."""
        self._exchanged = False
        """Whether two files have exchanged their names."""
        self._emptying = Counter[str]()
        """Counts the programs that have emptied a note and not yet written it."""
        self.emptied: dict[str, float] = {}
        """Id of each note whose file was emptied, to be written then, and when."""
        self.deleted: set[int] = set()
        """Inodes of files that were removed for good, and not to be replaced by a server's."""

    def acts(self) -> dict[str, Callable[[str, str], None]]:
        """See ``Place.acts``."""
        return {
            "edit the top": lambda one, word: self._rename_over(
                one, lambda text: _added_on_top(text, word)
            ),
            "edit the end": lambda one, word: self._rename_over(
                one, lambda text: added_below(text, word)
            ),
            "edit in place": lambda one, word: self._write(
                one, lambda text: added_below(text, word)
            ),
            "append": self._append,
            "empty and write": self._empty_and_write,
            "hold open and write": self._hold_open,
            "write an old buffer": self._write_old_buffer,
            "write an old buffer over the file": self._rename_old_buffer,
            "rewrite": self._rewrite,
            "tag": self._tag,
            "trash": self._trash,
            "remove": self._remove,
            "rename": self._rename,
            "copy and remove": self._copy,
            "exchange": self._exchange,
            "take a name": self._take_name,
            "edit above front matter": self._edit_above,
            "take a name that was left": self._take_left_name,
            **({HIDE: self._hide} if self._world.plan.hides else {}),
        }

    def _hides(self, note_id: str) -> bool:
        """Tell whether front matter hides a note that was there before."""
        return bool({*words_of(self._text(note_id))} & self._world.oracle.hidden)

    def write_anew(self, name: str, text: str) -> None:
        """Make a file, or put one in the place of another."""
        path = self._disk.root / name
        temporary = self._disk.root / ".editor.tmp"
        temporary.write_bytes(text.encode())
        self._orphan(path)
        temporary.replace(path)
        self._disk.look()

    def _orphan(self, path: Path) -> None:
        """Note that a file loses its name to a program that cares for no other: what is written into it afterwards is lost."""
        if path.exists():
            self.deleted.add(path.stat().st_ino)

    def path(self, note_id: str) -> Path:
        """Return where the file of a note is, or would be."""
        path = self._disk.root / note_id
        return path if path.exists() else self._disk.root / TRASH / note_id

    def _text(self, note_id: str) -> str:
        return self.path(note_id).read_bytes().decode()

    # At once.

    def _hide(self, note_id: str, word: str) -> None:
        """Add a word that no agent may see, and what hides the note: in front matter, if it has none yet."""
        text = self._text(note_id)
        if text.startswith("---") or len(self._world.place.ids()) < 3:
            return
        way = way_to_hide(self._world.chooser, note_id, NOT_UNDERSTOOD, HIDING_PROPERTY)
        blocks = {HIDING_PROPERTY: f"{HIDING_PROPERTY}: yes", NOT_UNDERSTOOD: "tags: {a: tag}"}
        block = blocks.get(way, "tags: [hidden]")
        secret = self._world.secret(word)
        self._rename_over(note_id, lambda text: f"---\n{block}\n---\n{added_below(text, secret)}")

    def _edit_above(self, note_id: str, word: str) -> None:
        if self._hides(note_id):  # it would be shown by that
            return
        if self._text(note_id).startswith("---"):
            self._world.oracle.tags.as_text.add(note_id)
        self._rename_over(note_id, lambda text: f"{word}\n{text}")

    def _rename_over(self, note_id: str, change: Callable[[str], str]) -> None:
        below = self.path(note_id).relative_to(self._disk.root).as_posix()
        self.write_anew(below, change(self._text(note_id)))

    def _write(self, note_id: str, change: Callable[[str], str]) -> None:
        text = change(self._text(note_id))
        with self.path(note_id).open("r+b") as file:
            _overwrite(file, text)
            self._disk.touch(os.fstat(file.fileno()).st_ino)
        self._disk.look()

    def _append(self, note_id: str, word: str) -> None:
        text = self._text(note_id)
        with self.path(note_id).open("ab") as file:
            file.write(added_below(text, word).removeprefix(text).encode())
        self._disk.look()

    def _rewrite(self, note_id: str, word: str) -> None:
        self._world.oracle.forgive(self._text(note_id))
        self._rename_over(note_id, lambda _text: f"{word} other\n")

    def _tag(self, note_id: str, word: str) -> None:
        if not self._text(note_id).startswith("---"):
            self._rename_over(note_id, lambda text: f"---\ntags:\n  - {word}\n---\n{text}")

    def _trash(self, note_id: str, _word: str) -> None:
        path, trash = self.path(note_id), self._disk.root / TRASH / note_id
        trash.parent.mkdir(parents=True, exist_ok=True)
        if path != trash and not trash.exists():
            path.rename(trash)
        elif path == trash:
            path.rename(self._disk.root / note_id)
        self._disk.look()

    def _remove(self, note_id: str, _word: str) -> None:
        if len(self._world.place.ids()) > 1:
            self._world.oracle.forgive(self._text(note_id))
            self._orphan(self.path(note_id))
            self.path(note_id).unlink()
            self._disk.look()

    def _rename(self, note_id: str, word: str) -> None:
        path = self._disk.root / note_id
        if path.exists() and not is_copy(self._world.place.contents()[note_id]):
            path.rename(self._disk.root / f"{word}.md")
            self._world.oracle.left_names.append(note_id)
            self._disk.look()

    def _copy(self, note_id: str, word: str) -> None:
        """Move a note as git and sync tools do: another file with the same bytes, and the old one goes."""
        path = self._disk.root / note_id
        if path.exists() and not is_copy(self._world.place.contents()[note_id]):
            (self._disk.root / f"{word}.md").write_bytes(path.read_bytes())
            self._orphan(path)
            path.unlink()
            self._disk.look()

    def _exchange(self, note_id: str, _word: str) -> None:
        alive = [one for one in self._world.place.ids() if (self._disk.root / one).exists()]
        visible = [one for one in alive if "hidden" not in one]
        unwritten = self._steps > 0  # what is in a buffer would come into the other note
        # A save that meets two of them in its middle may leave each of its texts in two notes.
        if self._exchanged or unwritten or note_id not in visible or len(visible) < 2:
            return
        self._exchanged = True
        other = visible[(visible.index(note_id) + 1) % len(visible)]
        self._see_exchange(note_id, other)
        if MARK in f"{note_id} {other}":  # a copy loses its mark by that
            said = f"{self._text(note_id)} {self._text(other)}"
            self._world.oracle.perhaps_twice.update(words_of(said))
        first, second = self._disk.root / note_id, self._disk.root / other
        between = self._disk.root / ".editor.tmp"
        first.rename(between)
        second.rename(first)
        between.rename(second)
        self._disk.look()

    def _see_exchange(self, *ids: str) -> None:
        """Note that files exchange their names, in the middle of saves perhaps, and whether their servers know both."""
        oracle = self._world.oracle
        oracle.tags.dropped |= {*ids}  # each goes with its text
        oracle.swapped |= {*ids}
        for server in self._world.servers:
            if server.alive and server.works():
                oracle.exchanged |= {*ids}
                known = (server.app.cache.notes.base(one) for one in ids)
                numbers = [one.identity.partition(":")[0] for one in known if one and one.identity]
                if numbers != [str((self._disk.root / one).stat().st_ino) for one in ids]:
                    oracle.exchanged_unread |= {*ids}

    def _take_name(self, _note_id: str, word: str) -> None:
        """Make notes under the names that the next new notes of the servers would have."""
        number = int(word.removeprefix("them")) + 1
        for who in ("a", "b"):
            path = self._disk.root / f"{who}{number}.md"
            if not path.exists():
                path.write_bytes(f"somebody else {word}\n".encode() if who == "a" else b"taken\n")
        self._disk.look()

    def _take_left_name(self, _note_id: str, word: str) -> None:
        """Make a note under the name that another one has left."""
        if left := self._world.oracle.take_name(self._names()):
            self.write_anew(left, f"{word}\nin its place\n")

    def _names(self) -> list[str]:
        """Return the names of all files, those in the trash as they are outside of it."""
        return [
            f"{above}/{name}".lstrip("/").removeprefix(f"{TRASH}/")
            for above, name in self._disk.files()
        ]

    # In steps.

    def _empty_and_write(self, note_id: str, word: str) -> None:
        text = self._text(note_id)
        lines = added_below(text, word).splitlines(keepends=True)
        file = self._open(note_id)
        self._emptying[note_id] += 1
        if (
            self._emptying[note_id] > 1
        ):  # of two at once, what one leaves looks like a removal of what the other brings
            self._world.oracle.perhaps_twice.update(words_of(text))
        file.truncate()
        self.emptied[note_id] = self._world.loop.time()
        self._disk.touch(os.fstat(file.fileno()).st_ino)
        self._disk.look()

        def write_half() -> None:
            self._finish(file, "".join(lines[:1]), word="")
            self._later("writes the rest", write_all)

        def write_all() -> None:
            self._world.oracle.tags.taken_back.add(note_id)  # it was read before
            if not self._has_name(
                file, note_id
            ):  # empty, it gave its tags to what stands there now
                self._world.oracle.tags.dropped.add(note_id)
            self._emptying[note_id] -= 1
            self._finish(file, "".join(lines), word=word)

        self._later("writes the first line", write_half)

    def _hold_open(self, note_id: str, word: str) -> None:
        text, file = self._text(note_id), self._open(note_id)

        def write() -> None:
            file.seek(0)
            self._see_old_text(file.read().decode(), text)
            if self.path(note_id).exists():  # the file in hand may have been displaced
                self._see_old_text(self._text(note_id), text)
            self._finish(file, added_below(text, word), word=word)

        self._later("writes", write)

    def _has_name(self, file: BinaryIO, note_id: str) -> bool:
        path = self.path(note_id)
        return path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino

    def _open(self, note_id: str) -> BinaryIO:
        file = self.path(note_id).open("r+b", buffering=0)
        self._disk.writers[os.fstat(file.fileno()).st_ino] += 1
        return file  # type: ignore[return-value]

    def _finish(self, file: BinaryIO, text: str, *, word: str) -> None:
        """Write into an open file, wherever it is by now; close it if a word is given."""
        state = os.fstat(file.fileno())
        oracle = self._world.oracle
        file.seek(0)
        oracle.forgive(_missing(file.read().decode(), text))
        _overwrite(file, text)
        self._disk.touch(state.st_ino)
        if word:
            file.close()
            self._disk.writers[state.st_ino] -= 1
            if state.st_ino in self.deleted:
                oracle.forgive(text)
            oracle.promise(word, "another program")
        self._disk.look()

    def _write_old_buffer(self, note_id: str, word: str) -> None:
        self._from_buffer(note_id, word, lambda text: self._write(note_id, lambda _now: text))

    def _rename_old_buffer(self, note_id: str, word: str) -> None:
        self._from_buffer(note_id, word, lambda text: self._rename_over(note_id, lambda _now: text))

    def _from_buffer(self, note_id: str, word: str, write: Callable[[str], None]) -> None:
        text = added_below(self._text(note_id), word)

        def save() -> None:
            if self.path(note_id).exists() and not self._stands_elsewhere(note_id, text):
                now = self._text(note_id)
                self._world.oracle.forgive(_missing(now, text))
                self._see_old_text(now, text)
                self._world.oracle.tags.taken_back.add(note_id)
                write(text)
                self._world.oracle.promise(word, "another program")

        self._later("writes its buffer", save)

    def _see_old_text(self, now: str, text: str) -> None:
        """Note which words a program brings back that were taken away since it has read the text."""
        self._world.oracle.from_buffers |= {*words_of(_missing(text, now))}

    def _stands_elsewhere(self, note_id: str, text: str) -> bool:
        """Tell whether the file that the text was read from has another name by now."""
        notes = self._world.place.contents().items()
        others = [one.text for name, one in notes if name != note_id and not is_copy(one)]
        return any(
            {*text.split()} & {*other.split()} & {*self._world.oracle.promised} for other in others
        )

    def _later(self, what: str, step: Callable[[], None]) -> None:
        """Take the next step after a while."""
        world = self._world
        world._foreign_left += 1
        self._steps += 1
        label, said = f"another program {what} after", [f"{one:g} s" for one in GAPS]
        at = world.chooser.choose(label, len(said), rate=1.0, said=said)

        def happen() -> None:
            world._foreign_left -= 1
            self._steps -= 1
            step()
            world.note(f"another program {what}")

        world.loop.call_later(GAPS[at], happen)


def added_below(text: str, word: str) -> str:
    """Return a text with a line more."""
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{word}\n"


def _added_on_top(text: str, word: str) -> str:
    """Return a text with a line more, below its front matter: above it that would be none any more."""
    at = text_start(text)
    return f"{text[:at]}{word}\n{text[at:]}"


def _overwrite(file: BinaryIO, text: str) -> None:
    data = text.encode()
    file.seek(0)
    file.write(data)
    file.truncate(len(data))
    file.flush()


def _missing(now: str, then: str) -> str:
    """Return the words that a file has, and the text that is about to be written over it has not."""
    return " ".join({*now.split()} - {*then.split()})
