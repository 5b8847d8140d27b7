"""What may lie on a disk after the power went at some moment of a recording.

The model is what POSIX promises, and not more:

* A write reaches the disk for certain only with an ``fsync`` of its file. Until then it is lost,
  kept, or torn: every sector of 512 bytes by itself, later ones without earlier ones. So is a
  change of size.
* A name that was made, moved or removed is certain only with an ``fsync`` of its folder; that of
  the file does not do. A rename is one step, also between two folders, and certain as soon as one
  of the two is flushed.
* Of the names that are not certain either the first so many have changed (a file system with a
  journal), or any of them (one without).
* What SQLite maps into memory (``-shm``) may hold anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from support.disk_trace import (
    Cut,
    Flush,
    FlushFolder,
    Named,
    OnProgress,
    Operation,
    Recording,
    Write,
)

SECTOR = 512
_MAPPED = 32 * 1024

Keeps = Callable[[Operation], bool]


@dataclass
class Disk:
    """Names and files that are certain, and what has been done since."""

    names: dict[Path, int]
    contents: dict[int, bytearray]
    folders: frozenset[int]
    _writes: dict[int, list[Write | Cut]] = field(default_factory=dict)
    _renames: list[tuple[int, Named]] = field(default_factory=list)
    _newest: dict[Path, int] = field(default_factory=dict)
    _count: int = 0

    def do(self, one: Operation) -> None:
        """One more operation."""
        self._count += 1
        match one:
            case Write(file) | Cut(file):
                self._writes.setdefault(file, []).append(one)
            case Named():
                self._renames.append((self._count, one))
            case Flush(file):
                self._write(file, self._writes.pop(file, []))
            case FlushFolder(folder):
                self._flush(folder)
            case OnProgress():
                pass

    def lose_power(self, dice: random.Random) -> None:
        """Decide on everything that is not certain."""
        if dice.random() < 0.5:
            kept = self._renames[: dice.randint(0, len(self._renames))]
        else:
            kept = [one for one in self._renames if dice.random() < 0.5]
        self._rename(kept)
        for file, written in self._writes.items():
            self._write(file, _survivors(written, dice))

    def finish(self) -> None:
        """Everything becomes certain: a machine that is shut down."""
        self._rename(self._renames)
        for file, written in self._writes.items():
            self._write(file, written)

    def lay_out(self, root: Path, target: Path, dice: random.Random | None = None) -> None:
        """Make the files that are certain below ``target`` instead of ``root``."""
        for path, file in sorted(self.names.items()):
            place = target / path.relative_to(root)
            if file in self.folders:
                if place.parent.is_dir():
                    place.mkdir(mode=0o700, exist_ok=True)
            elif place.parent.is_dir():
                mapped = dice is not None and path.name.endswith("-shm")
                content = (
                    dice.randbytes(_MAPPED) if dice and mapped else self.contents.get(file, b"")
                )
                place.touch(mode=0o600)
                place.write_bytes(content)

    def _flush(self, folder: Path) -> None:
        certain = [
            one for one in self._renames if folder in {path.parent for path, _ in one[1].names}
        ]
        self._rename(certain)
        self._renames = [one for one in self._renames if one not in certain]

    def _rename(self, changes: Iterable[tuple[int, Named]]) -> None:
        for number, change in changes:
            for path, file in change.names:
                if self._newest.get(path, 0) > number:
                    continue
                self._newest[path] = number
                if file is None:
                    self.names.pop(path, None)
                else:
                    self.names[path] = file

    def _write(self, file: int, written: Iterable[Write | Cut]) -> None:
        content = self.contents.setdefault(file, bytearray())
        for one in written:
            if isinstance(one, Cut):
                del content[one.size :]
                content.extend(bytes(one.size - len(content)))
            else:
                content.extend(bytes(max(0, one.offset - len(content))))
                content[one.offset : one.offset + len(one.data)] = one.data


def cut_power(
    recording: Recording, moment: int, dice: random.Random, *, heeded: Keeps = lambda _one: True
) -> Disk:
    """The disk after the power went before operation ``moment``.

    ``heeded``: the operations a disk takes notice of; a control leaves out the flushes.
    """
    disk = before(recording)
    for one in recording.operations[:moment]:
        if heeded(one):
            disk.do(one)
    disk.lose_power(dice)
    return disk


def before(recording: Recording) -> Disk:
    """The disk as it was before the command."""
    contents = {file: bytearray(content) for file, content in recording.contents.items()}
    return Disk(dict(recording.names), contents, recording.folders)


def some_moment(recording: Recording, dice: random.Random) -> int:
    """A moment to cut the power at: mostly near a flush, a name or a word, where things turn.

    The end is one of them, as often as all that is written together.
    """
    last = len(recording.operations)
    turns = [n for n, one in enumerate(recording.operations) if not isinstance(one, Write | Cut)]
    match dice.choice(("turn", "turn", "end", "any")):
        case "turn":
            return dice.choice(turns) + dice.randint(0, 1)
        case "end":
            return last
        case _:
            return dice.randint(0, last)


def _survivors(written: list[Write | Cut], dice: random.Random) -> list[Write | Cut]:
    """What is left of writes that nobody flushed: nothing, all, the first of them, or any."""
    pieces = [piece for one in written for piece in _sectors(one)]
    match dice.choice(("nothing", "all", "first", "any")):
        case "nothing":
            return []
        case "all":
            return pieces
        case "first":
            return pieces[: dice.randint(0, len(pieces))]
        case _:
            share = dice.random()
            return [piece for piece in pieces if dice.random() < share]


def _sectors(one: Write | Cut) -> list[Write | Cut]:
    if isinstance(one, Cut):
        return [one]
    end = one.offset + len(one.data)
    inner = range(one.offset - one.offset % SECTOR + SECTOR, end, SECTOR)
    edges = pairwise([one.offset, *inner, end])
    return [
        Write(one.file, start, one.data[start - one.offset : stop - one.offset])
        for start, stop in edges
    ]
