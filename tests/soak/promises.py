"""What was promised in a run, held against what the note service has. Knows no process and no network.

Every write carries a token of its own, and every token stands on a line (or as a tag) of its own. A token
that was said to be saved must be at the service when that is said, and at the end, unless somebody set out
to take it away: such an intention is told *before* it is carried out. Thread-safe.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

COPY = "(conflict copy) "
TOKEN = re.compile(r"tok-[0-9]{6}")

Truth = Mapping[str, Mapping[str, Any]]
"""Notes as the service has them, by id."""


def tokens_in(note: Mapping[str, Any] | None) -> Counter[str]:
    """The tokens of a note's text and tags, and how often each is there."""
    if note is None:
        return Counter()
    return Counter(TOKEN.findall("\n".join([note["content"], *note["tags"]])))


@dataclass
class Promises:
    """One run's ledger. ``acknowledged`` gives the note that each token was said to be saved in.

    ``witnessed``: :meth:`arrived` tells of every write before it is acknowledged.
    """

    witnessed: bool = True
    acknowledged: dict[str, str] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)
    """How many acts of agents were said to be done, by note."""
    versions: dict[str, set[int]] = field(default_factory=dict)
    """Every version that an agent was told of, by note."""
    deleted: set[str] = field(default_factory=set)
    """Notes that an agent was told are gone for good."""
    broken: list[str] = field(default_factory=list)
    _elsewhere: set[str] = field(default_factory=set)
    _creating: set[str] = field(default_factory=set)
    _removable: set[str] = field(default_factory=set)
    _arrived: set[str] = field(default_factory=set)
    _trashed: set[tuple[str, bool]] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def token(self, *, creates: bool = False) -> str:
        """A new token, for a note to be created or for a line in one that is there."""
        with self._lock:
            made = f"tok-{next(self._numbers):06}"
            if creates:
                self._creating.add(made)
            return made

    def arrived(self, note_id: str, note: Mapping[str, Any] | None) -> None:
        """The service has this now; None: it removed the note."""
        with self._lock:
            self._arrived.update(tokens_in(note))
            if note is not None:
                self._trashed.add((note_id, bool(note["deleted"])))

    def going_to_remove(self, tokens: Iterable[str]) -> None:
        """Somebody sets out to take these away."""
        with self._lock:
            self._removable.update(tokens)

    def saved(self, token: str, note_id: str) -> None:
        """An agent was told that the write with this token is done."""
        with self._lock:
            self.acknowledged[token] = note_id
            self.acts[note_id] += 1
            if self.witnessed and token not in self._arrived:
                self.broken.append(f"{token} was said to be saved and never reached the service")

    def told(self, note_id: str, version: int) -> None:
        """An agent was told that its write made this version."""
        with self._lock:
            self.versions.setdefault(note_id, set()).add(version)

    def not_shown(self, token: str, note_id: str, version: object) -> None:
        """The answer that says it is saved is without it: right only if somebody set out to take it away.

        An answer gives the note as it is by then, and a write whose answer was lost is looked for
        again until it is found; meanwhile another client may have replaced the line.
        """
        with self._lock:
            if token not in self._removable:
                where = f"note {note_id}, version {version}"
                self.broken.append(f"{token} is not in the answer that says it is saved ({where})")

    def trashed(self, note_id: str, *, trash: bool) -> None:
        """An agent was told that the note is in the trash, or is not."""
        with self._lock:
            self.acts[note_id] += 1
            if self.witnessed and (note_id, trash) not in self._trashed:
                word = "in" if trash else "out of"
                self.broken.append(f"note {note_id} was said to be {word} the trash and never was")

    def removed(self, note_id: str, truth: Truth) -> None:
        """An agent was told that the note is gone for good."""
        with self._lock:
            self.acts[note_id] += 1
            self.deleted.add(note_id)
            if note_id in truth:
                self.broken.append(f"note {note_id} was said to be deleted and is there")

    def written_elsewhere(self, token: str) -> None:
        """Another device has written this."""
        with self._lock:
            self._elsewhere.add(token)

    def complain(self, what: str) -> None:
        """Something else was not as it has to be."""
        with self._lock:
            self.broken.append(what)

    def check(self, truth: Truth) -> list[str]:
        """Everything that is wrong, now that nothing is on its way any more."""
        with self._lock:
            wrong = [*self.broken, *self._lost(truth), *_copied_twice(truth), *self._twice(truth)]
            if not self.witnessed:
                back = sorted(self.deleted & truth.keys())
                wrong += [f"note {note_id} was said to be deleted and is there" for note_id in back]
            return wrong

    def _lost(self, truth: Truth) -> list[str]:
        there = {token for note in truth.values() for token in tokens_in(note)} | self._removable
        ours = [
            f"{token} was said to be saved (note {note_id}) and is not at the service"
            for token, note_id in self.acknowledged.items()
            if token not in there
        ]
        theirs = [
            f"{token} was written on another device and is not at the service"
            for token in sorted(self._elsewhere - there)
        ]
        return ours + theirs

    def _twice(self, truth: Truth) -> list[str]:
        homes: dict[str, list[str]] = {}
        wrong = []
        for note_id, note in truth.items():
            first, copy = note["content"].partition("\n")[0], note["content"].startswith(COPY)
            for token in TOKEN.findall(first):
                if token in self._creating and not copy:
                    homes.setdefault(token, []).append(note_id)
            wrong += [
                f"{token} stands {times} times in note {note_id}"
                for token, times in tokens_in(note).items()
                if times > 1
            ]
        return wrong + [
            f"the note of {token} is there {len(ids)} times: {', '.join(ids)}"
            for token, ids in homes.items()
            if len(ids) > 1
        ]


def _copied_twice(truth: Truth) -> list[str]:
    copies = Counter(n["content"] for n in truth.values() if n["content"].startswith(COPY))
    return [
        f"there are {times} equal conflict copies of {text[len(COPY) :][:40]!r}"
        for text, times in copies.items()
        if times > 1
    ]
