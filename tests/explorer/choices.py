"""Decide everything that is not decided by the code: from a seed, or from a file.

A choice has a key, which says in words what it is about and which time it comes up, and a number of options. Option 0
is the calm one: nothing goes wrong, everything in its turn. A *schedule* is the choices that are not calm, so a
shorter one is a calmer one, and leaving one choice out moves no other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explorer.swarm import Swarm

Schedule = dict[str, int]
ANOTHER = -1
"""Stands in a schedule for any option but the calm one."""
_TURNS = (
    "in its turn",
    "a later one goes first",
    *(f"{more} later ones go first" for more in range(2, 9)),
)
SECONDS = (0.4, 3.0, 40.0, 400.0)
"""Seconds that an event may be late: within a poll, beyond it, beyond a lease, beyond a pause."""
_LATE = ("in time", *(f"by {one:g} s" for one in SECONDS))
_YES_OR_NO = 2

STARTS_AGAIN = " starts again"
"""Ends the label of an event in which a server starts that has ended."""
HIDING_PROPERTY = "pinned"
"""The property that hides a note in worlds that hide any."""
HIDE = "hide it where it is"
"""The act of another device that hides a note with what it says."""
NOT_UNDERSTOOD = "tags that nobody understands"
_OTHERWISE = 0.6
"""How often a note is hidden by something else than a tag."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Hold how often a choice is not calm; a run draws one for each kind, so that kinds come alone as well."""

    order: float
    steps: float
    faults: float
    kills: float
    late: float
    away: float
    """How often a server that has ended starts late."""
    others: float
    """How often another device acts in the middle of something."""
    takes_back: float
    """How often a client takes a call back."""
    answers: float
    """How often a person who is asked does not agree at once."""

    @classmethod
    def draw(cls, draws: random.Random, *, seed: str) -> Rates:
        """Draw the rates of a run."""
        return cls(
            order=draws.choice((0.0, 0.1, 0.4)),
            steps=draws.choice((0.0, 0.0, 0.02, 0.2)),
            faults=draws.choice((0.0, 0.02, 0.1, 0.3)),
            kills=draws.choice((0.0, 0.01, 0.03, 0.05)),
            late=draws.choice((0.0, 0.0, 0.05)),
            away=draws.choice((0.0, 0.5)),
            others=draws.choice((0.0, 0.1, 0.3, 0.5)),
            takes_back=random.Random(f"{seed} takes back").choice((0.0, 0.0, 0.3, 0.6)),
            answers=random.Random(f"{seed} answers").choice((0.0, 0.5, 0.9)),
        )


class Chooser:
    """Decide from a seed, as a ``schedule`` says, or both; ``made`` is the schedule so far.

    ``mute`` True: all choices are calm, and no key is counted. ``added``: what is not in the schedule is decided by the
    seed, so much as often as by a seed alone.
    """

    def __init__(
        self, *, seed: str = "", schedule: Mapping[str, int] | None = None, added: float = 1.0
    ) -> None:
        self._draws = random.Random(seed) if schedule is None or seed else None
        self._given = schedule or {}
        self._added = added
        self._times: Counter[str] = Counter()
        self.rates = (
            Rates(0, 0, 0, 0, 0, 0, 0, 0, 0)
            if self._draws is None
            else Rates.draw(self._draws, seed=seed)
        )
        self._swarm = None if self._draws is None else Swarm(seed, self._draws)
        self.made: Schedule = {}
        self.mute = False
        self.tell: Callable[[str], None] = lambda _line: None
        """Takes a line about each choice that is not calm."""

    def choose(self, label: str, options: int, *, rate: float, said: Sequence[object] = ()) -> int:
        """Return one of so many options; ``rate``: how often it is not the calm one, ``said``: what each is in words."""
        return self._choose(label, range(options), rate=rate, said=said)

    def among(self, label: str, options: Sequence[str], *, rate: float = 1.0) -> str:
        """Return one of these; the first is the calm one."""
        return options[self._choose(label, options, rate=rate, said=options)]

    def _choose(
        self, label: str, names: Sequence[object], *, rate: float, said: Sequence[object]
    ) -> int:
        options = len(names)
        if self.mute or options < 2:
            return 0
        self._times[label] += 1
        key = f"{label} #{self._times[label]}"
        chosen = min(self._given.get(key, 0), options - 1)
        if self._draws is None or self._swarm is None:
            pass
        elif chosen == ANOTHER:
            chosen = self._draws.randrange(1, options)
        elif not chosen and self._draws.random() < self._swarm.rate(label, rate) * self._added:
            chosen = self._draws.choice(self._swarm.options(label, names))
        if chosen:
            self.made[key] = chosen
            # Of two options without words the label itself says what the other one is.
            name = said[chosen] if said else chosen if options > _YES_OR_NO else ""
            self.tell(f"chosen: {key}: {name}".removesuffix(": "))
        return chosen

    def take_back(self, who: str) -> str:
        """Return how a client takes back the call that it makes now; '' if it does not.

        It goes on, "repeats" it, "leaves", or is "late": the answer has been sent by then, and it repeats the call.
        """
        if not self.rates.takes_back and not self._given and self._draws is not None:
            return ""  # such runs are the same without this choice
        options = ("", "goes on", "repeats", "leaves", "late")
        return self.among(f"{who} takes a call back", options, rate=self.rates.takes_back)

    def answer(self, who: str, answers: Sequence[str]) -> tuple[str, bool]:
        """Return what a person does whom a server asks, and whether they think first: who does not agree always does."""
        rate, agrees = self.rates.answers, answers[0]
        if not rate and not self._given and self._draws is not None:
            return agrees, False  # as above
        answer = self.among(f"the person whom {who} asks", answers, rate=rate / 2)
        label = f"the person whom {who} asks thinks first"
        return answer, answer != agrees or bool(self.choose(label, 2, rate=rate))

    # What the loop asks.

    def delay_event(self, label: str, *, late: bool) -> tuple[int, float]:
        """See ``Decider.delay_event``."""
        rate = self.rates.away if label.endswith(STARTS_AGAIN) else self.rates.late
        seconds = self.choose(f"{label}: late", len(_LATE), rate=rate, said=_LATE) if late else 0
        if seconds:
            return 0, SECONDS[seconds - 1]
        rate = self.rates.order
        return self.choose(f"{label}: turns", len(_TURNS), rate=rate, said=_TURNS), 0.0

    def delay_step(self, owner: str) -> int:
        """See ``Decider.delay_step``."""
        if not self.rates.steps and not self._given and self._draws is not None:
            return 0
        rate = self.rates.steps
        return self.choose(f"a step of {owner}", len(_TURNS), rate=rate, said=_TURNS)

    # What those who play every order have to know.

    def observe(self, process: str, sql: str, found: object) -> None:
        """Learn what a process has read in its database."""

    def committed(self, machine: str, process: str) -> None:
        """Learn that a process has committed something."""

    def flushed(self, machine: str) -> None:
        """Learn that the disk of a computer has all that was committed."""

    def bring(self, found: object) -> None:
        """Learn what the next event that is made brings: an answer."""

    def mark(self, label: str, owner: object) -> str:
        """See ``Decider.mark``: nobody asks for it."""
        del label, owner
        return ""

    def pick(self, events: Sequence[object]) -> int:
        """See ``Decider.pick``: each has its turn already."""
        del events
        return 0


KILL = "kill: "
"""Begins the label of a choice about the end of a process."""


def way_to_hide(chooser: Chooser, note_id: str, *ways: str) -> str:
    """Return what is to hide a note: a tag, or one of these ways."""
    return chooser.among(f"what hides {note_id}", ["a tag", *ways], rate=_OTHERWISE)
