"""Say who takes part in a run: computers with servers, a store, somebody else who writes; and let them act."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from explorer.choices import HIDE, HIDING_PROPERTY, KILL, SECONDS, STARTS_AGAIN, Chooser
from explorer.client import TakenBack
from explorer.local_place import LocalPlace
from explorer.loop import DeterministicLoop
from explorer.machine import Clock, Killed, Machine, Process
from explorer.memento_place import MementoPlace
from explorer.more_acts import FIRST_TAG, MoreActs
from explorer.oracle import MOST_REQUESTS, UNKNOWN, Broken, Oracle, all_words, is_copy, words_of
from explorer.orders import EveryOrder
from explorer.place import MemoryPlace, Place
from explorer.questions import ask, serve
from explorer.rewriting_place import RewritingPlace
from explorer.server import INTERVAL, Answer, Server
from explorer.simplenote_place import SimplenotePlace
from explorer.trilium_place import TriliumPlace
from explorer.vault_place import VaultPlace
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import PERMISSIVE, Policy, Visibility
from mcp_notarium.storage.sync_progress import SWEEP_PERIOD
from mcp_notarium.stores.contract import Retry, Traits, WriteGuard
from mcp_notarium.sync.write_attempt import ROUNDS
from support.memory_client import ROWS
from support.sync_rig import DATABASE

_SERVERS = ("a", "b")
_TROUBLES = ("kill: ", "fails", "no connection", "refuses", "does not answer", "late")
"""What choices say about something that goes wrong."""
_BACK = "bring a note back"
_TAGS = ("tag", "label", "give a tag")
_TAKES_NAME = "take a name that was left"
_AS_IT_IS = "save it as it is"
_LATER_ACTS = (
    *("hide the note", "move below", "remove and make anew", "give a tag", _BACK),
    *(_AS_IT_IS, _TAKES_NAME, "take a place away", "show the note again", HIDE),
)
"""Acts of another device that came after the others: schedules name acts by number."""
_OF_NO_NOTE = (
    "put",
    "set a clock",
    "hide",
    "forget cursors",
    "distort the feed",
    "count anew",
    "read for long",
    "write on the canvas",
    _TAKES_NAME,
)
"""Acts of another device that change no note that is there."""
_MADE_AGAIN = ("remove and make again", "remove and make anew")
_UNDER_A_HIDDEN_NAME = "create under a hidden name"
_LATER_ACTS_OF_SERVERS = ("make a note again", _UNDER_A_HIDDEN_NAME)
"""Such acts of servers."""
_TABLES = (
    "sync_metadata",
    "notes",
    "note_base",
    "note_versions",
    "note_aliases",
    "note_counts",
    "index_changes",
    "merge_bases",
    "hidden_notes",
    "hidden_names",
    "journal",
)
"""What a small world has in its database; other tables are empty there, or made from these."""
_RECORDS = (
    "SELECT at_ms, client, act, digest, notes, decision, outcome, bytes_out, facts FROM audit"
)
_DIGITS = re.compile(r"(?<= )[0-9a-f]{8,}(?=\.md$)")
"""What ends the name of a note that is made from a seed."""
_LATE_ARRIVAL = re.compile(r"arrives: late")
"""A request that is late: it lands whatever has become of who has sent it."""
_BETWEEN = 2
_IN_THE_MIDDLE = 0.3
"""How often another device acts in the middle of something, at least: few things are in its middle often enough."""
_WHILE_ASKED = 0.6
"""How often a client calls again while a person thinks about what it has asked for."""
_ONCE_MORE = 0.7
"""How often another device that has acted in the middle of something acts in the middle of the next thing."""
_EVENTS = (*range(30), *range(50, 800, 25))
"""Events after which something happens: before the first save is answered, or long after that."""
DAY = "daily:2031-06-20"
HEALING_SECONDS = 7200.0
QUIET_SECONDS = 600.0
LOGIN_SECONDS = 3660.0
"""No refused password is sent again before, at most."""
WAYS_TO_BE_AWAY = 3
"""Ways in which a store is not reached: no connection, an error, no answer; a folder that is gone, forbidden or broken."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Describe a world. ``apart``: the two servers run on two computers, else on one.

    ``place`` makes what holds the notes.
    """

    place: Callable[[World], Place]
    apart: bool = False
    hides: bool = False
    acts: int = 3
    """Acts of each server, and of the other writer, at most."""
    kills: int = 2
    syncing: bool = True
    """Servers sync by themselves, else once when they start."""
    world: Callable[..., World] | None = None
    """Makes the world itself, where that is another one."""
    changes: str = ""
    """What a person changes about the account: "policy" or "key"."""
    script: Mapping[str, tuple[str, ...]] | None = None
    """What each does, where that is no choice."""
    only: tuple[str, ...] = ()
    """Names of the acts of servers, where they are not all."""
    notes: int = 2
    """Notes that there are at the beginning."""
    shows: tuple[str, ...] = ()
    """Tags of which a note needs one to be seen; the first notes have them all. (): any note is seen."""


class World:
    """Hold everything that takes part in one run; ``first`` names the folder that a computer begins with, if it has one."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        loop: DeterministicLoop,
        clock: Clock,
        chooser: Chooser,
        *,
        first: Callable[[str], Path | None] = lambda _machine: None,
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = clock
        self.chooser = chooser
        chooser.tell = self.note
        self.oracle = Oracle(is_smooth=self._is_smooth)
        self.story: list[str] = []
        self.calm = True
        """Nothing goes wrong on the way to the store."""
        self.down = 0
        """The store is not reached at all, in one of several ways; 0: it is."""
        self.writes: set[str] = set()
        """Ids of all writes that were ever in a journal."""
        self._words: Counter[str] = Counter()
        self._foreign_left = 0
        """Acts of others that have not ended."""
        self._seen_versions: set[tuple[str, str, int]] = set()
        self._in_question: list[str] = []
        """Ids of notes with a version that may be lost with the power."""
        self._between_left = _BETWEEN
        """Acts of others in the middle of something, at most."""
        self.acts = plan.acts
        """Acts of each server, and of the other writer, at most."""
        self.folder = folder
        self._first = first
        self.place = plan.place(self)
        self._more_acts = MoreActs(self)
        hiding = Visibility(hidden_tags=("hidden",), hidden_properties=(HIDING_PROPERTY,))
        rules = hiding if plan.hides else Visibility()
        rules = Visibility(allowed_tags=plan.shows, untagged=False) if plan.shows else rules
        policy = replace(PERMISSIVE, visibility=rules)
        names = ("m", "n") if plan.apart else ("m",)
        self.machines = [self.make_machine(name) for name in names]
        self.servers = [
            self.make_server(name, self.machines[at % len(self.machines)], policy)
            for at, name in enumerate(_SERVERS)
        ]
        self._clock_was_set = False
        self._ended: set[str] = set()
        self._away = ""
        """Name of a server that has ended for good: the other one has to do all that is left."""
        if isinstance(chooser, EveryOrder):
            assert isinstance(self.place, MemoryPlace), "nobody counts what happens at other stores"
            chooser.changes, chooser.contents = self.place.changes, self._contents
        for machine in self.machines:
            machine.disk.gives_up = self.oracle.breaks
            machine.before_cut = partial(self._see_all, machine)
            machine.after_cut = partial(self._meddle_in_the_dark, machine)
            machine.after_commit = partial(self._see_commit, machine)
            machine.after_flush = partial(self.oracle.flushed, machine.name)

    def make_machine(self, name: str) -> Machine:
        """Return a computer."""
        first, kills = self._first(name), self.plan.kills
        return Machine(name, self.folder, self.chooser, self.note, kills=kills, first=first)

    def make_server(self, name: str, machine: Machine, policy: Policy) -> Server:
        """Return what runs one server after the other on a computer."""
        return Server(self, name, machine, policy)

    # What the parts ask.

    def note(self, line: str) -> None:
        """Add a line to the story of the run."""
        self.story.append(f"{self.loop.time():9.2f} s  {self.named(line)}")

    def is_away(self, server: Server) -> bool:
        """Tell whether a server has ended for good."""
        return server.name == self._away

    def named(self, line: str) -> str:
        """Leave out of a line where this machine has the folders of runs."""
        return line.replace(str(self.folder), "").replace(str(self.folder.parent), "")

    def word(self, who: str) -> str:
        """Return a word that nobody has used."""
        of = who if self.plan.script else ""  # else whoever begins first would name all others
        self._words[of] += 1
        word = f"{who}{self._words[of]}"
        if who in (*_SERVERS, "them", "old"):
            self.oracle.authors[word] = who
        return word

    def secret(self, word: str) -> str:
        """Return a word that no agent may see."""
        self.oracle.hidden.add(f"secret{word}")
        return f"secret{word}"

    def _is_smooth(self) -> bool:
        """Tell whether nothing has gone wrong so far, and each save makes what it was to make."""
        return not self.oracle.rewritten and not self.has_trouble()

    def has_trouble(self) -> bool:
        """Tell whether anything has gone wrong so far."""
        return any(word in key for key in self.chooser.made for word in _TROUBLES)

    def require_served(self, server: Server, what: str, note_id: str, refusal: str) -> None:
        """Demand that nothing is refused once all is calm, nor while nothing has gone wrong and no other writes the note.

        ``refusal``: what was said, '' if it was not refused.
        """
        busy = any(one.busy for one in self.servers if one is not server)
        alone = self.oracle.writers.get(note_id, set()) <= {server.name} and server.busy == 1
        alone = alone and not self._clock_was_set  # else a lease may have ended
        fits = alone and not busy and self._is_smooth() and not self.plan.changes
        # What goes on of a call that was taken back is before it, and an app that keeps its file locked is waited for in vain.
        others = ("takes a call back", "the app commits after", "the app has read after")
        fits = fits and not any(one in key for key in self.chooser.made for one in others)
        is_there = not note_id or note_id in server.app.cache.notes.etags()
        if refusal and is_there and (self.calm or fits):
            raise self.oracle.breaks(
                f"what fits is refused: {server.name} refuses {what} {note_id}: {refusal}"
            )

    def has_ended(self, owner: str) -> bool:
        """Tell whether the process of this name has ended."""
        return any(
            one.name == owner and one.dead for machine in self.machines for one in machine.processes
        )

    def _see_all(self, machine: Machine) -> None:
        """Count what is in the index as shown: a read at this moment would have shown it."""
        for server in self.servers:
            open_now = server.alive and server.app.cache.database.in_transaction
            for note in (
                server.notes()
                if server.alive and server.machine is machine and not open_now
                else ()
            ):
                self.oracle.see_version(server, note.id, note.local_version, note.content)

    def _see_commit(self, machine: Machine, process: Process) -> None:
        """Let the power fail right after somebody has read a version that is not flushed, if the schedule says so."""
        owner = next((one for one in self.servers if one.alive and one.process is process), None)
        if self.calm or owner is None or not machine.kills_left:
            return
        found = owner.app.cache.database.rows("SELECT id, local_version FROM notes")
        versions = {(machine.name, note_id, version) for note_id, version in found}
        fresh = sorted(versions - self.oracle.versions.keys() - self._seen_versions)
        self._seen_versions |= versions
        self._in_question = [one[1] for one in fresh if one[:2] not in self.oracle.touched]
        label = f"{KILL}{process.name} has committed, and another one has read that"
        rate = min(1.0, 10 * self.chooser.rates.kills)
        if self._in_question and self.chooser.choose(label, 2, rate=rate):
            machine.kills_left -= 1
            machine.lose_power("right after a read")
            raise Killed

    def _contents(self) -> str:
        """See ``EveryOrder.contents``. The order of the records in an audit log makes no difference."""
        found: list[Any] = [(one.name, one.done, one.busy) for one in self.servers]
        found.append(self.oracle.expects())
        for machine in self.machines:
            server = next(one for one in self.servers if one.machine is machine)
            database = server.app.cache.database
            found += [database.rows(f"SELECT * FROM {table}") for table in _TABLES]
            found.append(sorted(database.rows(_RECORDS)))
        return repr(found)

    # The parts of a run.

    def begin(self, loaded: Any) -> None:
        """Fill the store, start the servers, and let them load: nothing of this is a choice.

        ``loaded``: what the machines begin with, where they do not have it yet.
        """
        del loaded
        self.chooser.mute = True
        for number in range(self.plan.notes):
            word = self.word("old")
            self.oracle.promise(word, "the store")
            self.put_first(number, word)
        if self.plan.hides:
            self._hide("note-hidden")
        first: list[asyncio.Task[None]] = []
        for server in self.servers:
            server.start(syncing=self.plan.syncing)
            if not self.plan.syncing:
                with server.process.running():
                    first.append(self.loop.create_task(server.sync()))
        self.loop.run_until(
            lambda: self._loaded() and all(one.done() for one in first),
            deadline=self.loop.time() + 600,
        )
        self._seen_versions = {
            (server.machine.name, note.id, note.local_version)
            for server in self.servers
            if server.alive
            for note in server.notes()
        }
        self.chooser.mute = self.calm = False
        if self.plan.apart:
            self._put_clock_wrong()
        self.acts -= self.chooser.choose("acts left out", self.acts, rate=0.6)

    def put_first(self, number: int, word: str) -> None:
        """Make one of the notes that there are at the beginning; it has the word."""
        tags = self.plan.shows or (FIRST_TAG,)
        self.place.put(f"note{number}", f"title {number}\n{word}\n", tags=tags)

    def loaded(self) -> bytes | None:
        """Return the database after :meth:`begin`, closed in order; None if another run cannot begin with it."""
        if not self.place.repeats:
            return None
        for server in self.servers:
            server.close()
        return (self.machines[0].folder / DATABASE).read_bytes()

    def act(self) -> None:
        """Let everybody carry out a plan, and whoever is killed start again."""
        for server in self.servers:
            self._begin_acts(server)
        self._plan_foreign()
        self.loop.run_until(self._all_acted, deadline=self.loop.time() + HEALING_SECONDS)
        names = ["none", *(one.name for one in self.servers)]
        ends = self.chooser.choose("a server ends for good", len(names), rate=0.15, said=names)
        if ends and not self.plan.apart and self.plan.syncing:
            server = self.servers[ends - 1]
            self._away = server.name
            self.note(f"{server.name} ends for good")
            server.process.kill()
            self._take_away()  # no step has ended it, which would do that

    def heal(self) -> None:
        """Let nothing go wrong any more, and wait until all agree."""
        self.chooser.mute = self.calm = True
        for server in self.servers:
            if server.ended and not self.is_away(server):
                self._restart(server)
        if not self.place.ids():
            self._put(self.word("them"))
        for server in self.servers if not self.plan.syncing else ():
            with server.process.running():
                self.loop.create_task(server.sync())
        self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
        if any(
            _LATE_ARRIVAL.search(key) for key in self.chooser.made
        ):  # it may still be on its way
            self.loop.run_until(lambda: False, deadline=self.loop.time() + SECONDS[-1])
            self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
        if any("log in: fails" in key for key in self.chooser.made):
            self.loop.run_until(lambda: False, deadline=self.loop.time() + LOGIN_SECONDS)
        if self.oracle.outdated and not self._in_step():  # the next listing tells
            self.loop.run_until(self._in_step, deadline=self.loop.time() + SWEEP_PERIOD)
        self._read_histories()
        if judge_more := getattr(
            self.place, "judge_more", None
        ):  # of a store that has more than contents
            judge_more()
        self.oracle.judge([one for one in self.servers if one.alive], self.place.contents())

    def _read_histories(self) -> None:
        """Read the history of each note on each computer: the servers there share its rows, and take turns."""
        asked: list[asyncio.Task[None]] = []
        for machine in self.machines if not self.oracle.broken else ():
            servers = [one for one in self.servers if one.alive and one.machine is machine]
            for at, note_id in enumerate(servers[0].contents() if servers else ()):
                server = servers[at % len(servers)]
                with server.process.running():
                    asked.append(self.loop.create_task(server.history(note_id)))
            if servers and self.plan.syncing:
                with servers[-1].process.running():
                    asked.append(self.loop.create_task(ask(self, servers[-1])))
        for one in asked:
            one.add_done_callback(self.see_end)
        deadline = self.loop.time() + QUIET_SECONDS
        self.loop.run_until(lambda: all(one.done() for one in asked), deadline=deadline)

    def serve(self) -> None:
        """Let each server serve, one after the other: with the note that has changed most often there."""
        for server in self.servers:
            notes = server.notes() if server.alive else []
            if notes:
                note = max(notes, key=lambda one: (one.local_version, one.id))
                with server.process.running():
                    served = self.loop.create_task(serve(self, server, note.id))
                served.add_done_callback(self.see_end)
                self.loop.run_until(served.done, deadline=self.loop.time() + QUIET_SECONDS)
                if not served.done():
                    self.oracle.breaks(f"a server does not serve: {server.name} does not answer")
                self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
            if self.oracle.broken:
                raise Broken(self.oracle.broken)

    def rest(self) -> None:
        """Let ten quiet minutes pass, ten without the store, and ten more; see that little happens in them, and that all agree again."""
        self._rest_quietly()
        self.chooser.mute = False
        self.down = 1 + self.chooser.choose("how the store is away", WAYS_TO_BE_AWAY, rate=0.7)
        self.chooser.mute = True
        self.oracle.judge_requests(self._pass_ten_minutes(), "minutes without the store")
        self.down = 0
        self._put(self.word("them"))
        self.loop.run_until(self._in_step, deadline=self.loop.time() + QUIET_SECONDS)
        self.oracle.judge([one for one in self.servers if one.alive], self.place.contents())
        self._rest_quietly()

    def _rest_quietly(self) -> None:
        asked = self._pass_ten_minutes()
        self.oracle.judge_quiet(
            [one for one in self.servers if one.alive], self.loop.waiting(), asked
        )

    def _pass_ten_minutes(self) -> dict[str, int]:
        before = self.place.requests()

        def since() -> dict[str, int]:
            requests = self.place.requests()
            return {name: count - before.get(name, 0) for name, count in requests.items()}

        self.loop.run_until(
            lambda: max(since().values(), default=0) > MOST_REQUESTS,
            deadline=self.loop.time() + QUIET_SECONDS,
        )
        return since()

    def ends(self) -> str:
        """Tell what the store has, and what each has met, without the order among them."""
        lines = [line.partition(" s  ")[2] for line in self.story]
        of: dict[str, list[str]] = {}
        for line in lines:
            of.setdefault(line.partition(" ")[0].rstrip(":"), []).append(line)
        held = sorted((one, repr(content)) for one, content in self.place.contents().items())
        return repr((held, sorted(of.items())))

    def require_no_errors(self) -> None:
        """Raise what no task took."""
        if self.loop.errors:
            raise self.loop.errors[0]

    def close(self) -> None:
        """End everything."""
        for server in self.servers:
            server.close()
        self._take_away()
        self.loop.close_all()
        self.place.close()

    def after_step(self, label: str) -> None:
        """Take away what a killed process leaves, and start another one in its place; ``label``: of the event that it was."""
        for server in self.servers if label else ():
            if server.alive:
                server.client.happened()
        if self._take_away() and not self.calm:
            self.start_ended()

    def start_ended(self) -> None:
        """Start another process for each server that has ended: when the schedule says, at once if it says no more."""
        for server in self.servers:
            if self.calm and server.ended and not self.is_away(server):
                self._restart(server)
            elif server.ended and server.name not in self._ended:
                self._ended.add(server.name)
                self.loop.expect(
                    f"{server.name}{STARTS_AGAIN}", lambda one=server: self._again(one)
                )

    def _take_away(self) -> bool:
        """Drop what belonged to processes that have ended; tell whether any has."""
        ended = False
        for machine in self.machines:
            while machine.gone:
                self.loop.drop(machine.gone.pop())
                ended = True
        return ended

    def _again(self, server: Server) -> None:
        self._ended.discard(server.name)
        if server.ended and not self.is_away(server):
            self._restart(server)
            self._begin_acts(server)

    def _restart(self, server: Server) -> None:
        self.note(f"{server.name} starts again")
        try:
            server.start(syncing=self.plan.syncing)
        except Killed:
            return
        if not self.plan.syncing:
            with server.process.running():
                self.loop.create_task(server.sync())

    def _loaded(self) -> bool:
        return all(
            one.alive and one.contents() and one.app.library.status().complete
            for one in self.servers
        )

    def _all_acted(self) -> bool:
        alive = all(server.alive for server in self.servers)
        ended = all(one.done >= self.acts and not one.busy for one in self.servers)
        return alive and ended and not self._foreign_left

    def _in_step(self) -> bool:
        store = self.place.contents()

        def agrees(server: Server) -> bool:
            seen = {one: content for one, content in store.items() if server.sees(one, content)}
            return server.contents() == seen

        workers = getattr(self.place, "workers", None)  # of a store of files
        return not (workers and workers.parked) and all(
            one.alive
            and not one.works()
            and not one.unfinished()
            and not one.owes_records()
            and agrees(one)
            and one.app.library.status().complete
            for one in self.servers
            if one.name != self._away
        )

    # What servers do.

    def _begin_acts(self, server: Server) -> None:
        with server.process.running():
            self.loop.create_task(self._acts(server))

    async def _acts(self, server: Server) -> None:
        try:
            await self._act_by_act(server)
        except Exception as error:
            self.oracle.breaks(f"{server.name} acts, and meets {error!r}")
            raise

    async def _act_by_act(self, server: Server) -> None:
        while server.done < self.acts:
            number = server.done + 1
            names = sorted(self._possible(), key=_LATER_ACTS_OF_SERVERS.__contains__)
            name = self._next_act(number, server.name, names)
            server.done += 1
            if name == "nothing":
                continue
            act = self.loop.create_task(self._act(server, name))
            act.add_done_callback(self.see_end)
            # A client may call again before it is answered.
            label = f"act {number} of {server.name} is not awaited"
            if not self.chooser.choose(label, 2, rate=self.chooser.rates.order / 2):
                await act

    def see_end(self, act: asyncio.Task[None]) -> None:
        """Keep the error of a task that nobody waits for."""
        error = None if act.cancelled() else act.exception()
        if error is not None and not isinstance(error, Killed | Broken):
            self.loop.errors.append(error)

    async def _act(self, server: Server, name: str) -> None:
        server.busy += 1
        try:
            await self.loop.gate(f"{server.name} begins to {name}")
            with suppress(TakenBack):
                await self._possible()[name](server)
        finally:
            server.busy -= 1

    def _next_act(self, number: int, who: str, names: list[str]) -> str:
        if self.plan.script is None:
            return self.chooser.among(f"act {number} of {who}", ["nothing", *names])
        acts = self.plan.script.get(who, ())
        return acts[number - 1] if number <= len(acts) else "nothing"

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, Any]]]:
        traits = self.place.traits
        acts = {
            "create": self._create,
            "append": self._append,
            "prepend": self._prepend,
            "rewrite": self._rewrite,
            "undo": self._undo,
            "look": self._look,
            "remove": self._remove,
        }
        if traits.ids.paths:
            acts["rename"] = self._rename
        if traits.tags:
            acts["tag"] = self._tag
        if traits.trash:
            acts |= {"trash": self._trash, "untrash": self._untrash}
        acts |= {"wait": self._wait, "ask for a history": self._history}
        if traits.ids.named:
            acts["create under the same name"] = self._create_namesake
            if self.plan.hides:
                acts[_UNDER_A_HIDDEN_NAME] = self._create_under_a_hidden_name
        if self.plan.only:
            acts |= {"save a day": self._save_day, "append and move": self._append_and_move}
            acts |= {"take a tag": self._take_tag, "create and remove": self._create_and_remove}
            acts |= self._more_acts.acts()
            return {name: acts[name] for name in self.plan.only}
        return acts | self._more_acts.acts()

    async def _create(self, server: Server) -> Answer:
        word, twice = self.word(server.name), self.oracle.perhaps_twice
        if self.place.traits.ids.named:
            twice.add(word)
        asked: dict[str, Any] = {"text": f"{word}\nnew\n"}
        if self.chooser.choose(f"a new note of {server.name} has a tag", 2, rate=0.3):
            self.oracle.tags.born[word] = self.word("tag")
            asked["tags"] = [self.oracle.tags.born[word]]
        saved = await self._promising(server, word, "save", **asked)
        if saved.ok and not server.process.missed_flush:
            twice.discard(word)
        if saved.again:
            self.oracle.called_again.add(word)
        made = self.place.contents().items()
        hidden = [one for one, held in made if word in held.text and not server.sees(one, held)]
        self.require_served(server, "a new note", "", "" if hidden else saved.refusal)
        return saved

    async def _create_and_remove(self, server: Server) -> None:
        """Remove a note that was just made: an answer of before knows of none."""
        saved = await self._create(server)
        if saved.ok:
            await self._remove_note(server, str(saved.value["id"]))

    async def _create_namesake(self, server: Server) -> None:
        """Make a note whose title another one may have, by this server or the other one."""
        word = self.word(server.name)
        self.oracle.perhaps_twice.add(word)
        text = f"the same name\n{word}\n"
        saved = await self._promising(server, word, "save", text=text)
        if saved.ok and not server.process.missed_flush:
            self.oracle.perhaps_twice.discard(word)

    async def _create_under_a_hidden_name(self, server: Server) -> None:
        """Make a note whose title a hidden one has, and one whose title nobody has: their ids are made alike."""
        every = sorted(self.place.contents().items())
        hidden = [one for one, held in every if " " not in one and not server.sees(one, held)]
        word = self.word(server.name)
        titles = [PurePosixPath(hidden[-1]).stem, f"{word}alone"] if hidden else []
        forms: set[str] = set()
        for title in titles:
            word = self.word(server.name)
            self.oracle.perhaps_twice.add(word)
            saved = await self._promising(server, word, "save", text=f"{title}\n{word}\n")
            if saved.ok and not server.process.missed_flush:
                self.oracle.perhaps_twice.discard(word)
                left = str(saved.value["id"]).replace(title, "")
                forms.add(_DIGITS.sub("0", left))
        if len(forms) > 1:
            self.oracle.breaks(
                f"a taken name betrays a hidden note: {server.name} gets ids that end in {sorted(forms)}"
            )

    async def _save_day(self, server: Server) -> None:
        """Make the note of a day, or add to it."""
        word, twice = self.word(server.name), self.oracle.perhaps_twice
        if self.place.traits.ids.named:
            twice.add(word)  # as of a new note
        saved = await self._promising(server, word, "save", id=DAY, append=f"{word}\n")
        if saved.ok and not server.process.missed_flush:
            twice.discard(word)

    async def _append(self, server: Server) -> None:
        await self._change(server, lambda word: {"append": f"{word}\n"})

    async def _append_and_move(self, server: Server) -> None:
        """Change the text of a note, and move it to the trash or back, by one save."""
        note_id = self.some_note(server)
        read = await server.call("get", id=note_id) if note_id else None
        if read is not None and read.ok:
            word, version = self.word(server.name), read.value["local_version"]
            trash = not read.value.get("trash", False)
            more = {"append": f"{word}\n", "trash": trash, "local_version": version}
            await self._promising(server, word, "save", id=note_id, **more)

    async def _prepend(self, server: Server) -> None:
        await self._change(server, lambda word: {"prepend": f"{word}\n"})

    async def _change(self, server: Server, how: Callable[[str], dict[str, Any]]) -> None:
        note_id = self.some_note(server)
        if note_id:
            word = self.word(server.name)
            answer = await self._promising(server, word, "save", id=note_id, **how(word))
            self.require_served(server, "a line for", note_id, answer.refusal)

    async def _rewrite(self, server: Server) -> None:
        note_id = self.some_note(server)
        if not note_id:
            return
        anew = self.oracle.begun_anew[note_id]
        read = await server.call("get", id=note_id)
        if not read.ok or read.value.get("text_is_partial"):
            return
        note = server.app.cache.notes.get(note_id)
        await self.loop.gate(f"{server.name} has read")
        word, text = self.word(server.name), read.value["text"]
        lines = [*text.split("\n")[:1], word, *text.split("\n")[1:]]
        version = read.value["local_version"]
        answer = await self._promising(
            server, word, "save", id=note_id, text="\n".join(lines), local_version=version
        )
        # After so many changes of others right before its push a save gives up.
        met = sum("right before a push" in key for key in self.chooser.made)
        same = note is not None and note.local_version == version
        # The index need not have a note that was made again meanwhile: another save goes over it.
        if note and same and met < ROUNDS - 1 and anew == self.oracle.begun_anew[note_id]:
            self.oracle.require_merged(server, answer, note, "\n".join(lines))

    async def _rename(self, server: Server) -> None:
        note = self.some_note(server)
        read = await server.call("get", id=note) if note else None
        if read is not None and read.ok and not is_copy(Content("", title=read.value["title"])):
            version = read.value["local_version"]
            title = self.word("name")
            saved = await server.call("save", id=note, title=title, local_version=version)
            if saved.ok:
                self.oracle.renamed(server, str(note), str(saved.value["id"]))

    async def _tag(self, server: Server) -> None:
        note = self.some_note(server)
        if not note:
            return
        read = await server.call("get", id=note)
        if read.ok:
            word, version = self.word("tag"), read.value["local_version"]
            tags = [*read.value["tags"], word]
            asked = {"id": note, "tags": tags, "local_version": version}
            answer = await self.giving_tag(server, word, "save", **asked)
            if answer.ok and not answer.value.get("conflict_copy_id"):
                self.oracle.tags.given.setdefault(note, set()).add(word)

    async def _take_tag(self, server: Server) -> None:
        """Take one of its tags from a note, as a client does that has read it a while ago."""
        note_id = self.some_note(server)
        read = await server.call("get", id=note_id) if note_id else None
        if read is None or not read.ok or not (tags := read.value["tags"]):
            return
        await self.loop.gate(f"{server.name} has read")
        label = f"tag that {server.name} takes"
        at = self.chooser.choose(label, len(tags), rate=0.5, said=tags)
        self.oracle.forgive(tags.pop(at))
        version = read.value["local_version"]
        self.oracle.alike.add(note_id)  # the other server may take the same one
        await server.call("save", id=note_id, tags=tags, local_version=version)

    async def _trash(self, server: Server) -> None:
        await self._manage(server, "trash")

    async def _untrash(self, server: Server) -> None:
        await self._manage(server, "untrash")

    async def _manage(self, server: Server, action: str) -> Answer | None:
        note_id = self.some_note(server)
        read = await server.call("get", id=note_id) if note_id else None
        if read is None or not read.ok:
            return None
        version = read.value["local_version"]
        answer = await server.call(
            "manage", action=action, id=note_id, local_version=version, confirm=True
        )
        note = server.app.cache.notes.get(note_id)
        if answer.ok and note and note.local_version == answer.value.get("new_local_version"):
            self.oracle.require_trash(server, note, trash=action == "trash")
        return answer

    async def _remove(self, server: Server) -> None:
        await self._remove_note(server, self.some_note(server))

    async def _remove_note(self, server: Server, note_id: str) -> None:
        note = server.app.cache.notes.get(note_id) if note_id else None
        if note is None or (self.place.traits.trash and not note.trash):
            await self._trash(server) if self.place.traits.trash else None
            return
        words = all_words(note.content)

        def expect() -> None:
            self.oracle.forgive(words)
            self.oracle.lost_notes.deleted(note_id)

        await self.guarded(
            server,
            "manage",
            expect,
            action="delete_permanently",
            id=note_id,
            local_version=note.local_version,
            confirm=True,
        )

    async def _undo(self, server: Server) -> None:
        mine = [note_id for client, note_id in self.oracle.last if client == server.name]
        if not mine:
            return
        note_id, begun = mine[-1], (server.done, server.busy)
        word, certain = self.oracle.last[server.name, note_id][-1]
        certain = (
            certain and word not in self.oracle.taken
        )  # an undo takes back one that was cut off
        made = server.saves[-1] if server.saves else None
        self.oracle.tags.forget(note_id)
        answer = await self.guarded(
            server,
            "manage",
            lambda: self.oracle.undone(server.name, note_id),
            action="undo",
            id=note_id,
            confirm=True,
        )
        known = self.oracle.seen_again[server.name, note_id]
        if certain and answer.ok and self.oracle.again_at_call[note_id] > known:
            self.oracle.breaks(
                f"an undo goes over what came since: {server.name}, {note_id}: {answer.words}"
            )
        asked = any("goes on while a person is asked" in key for key in self.chooser.made)
        alone = begun == (server.done, server.busy) and server.busy == 1 and not asked
        if not (certain and alone and made is not None and made.added(word)):
            return
        if not any("the person whom" in key for key in self.chooser.made):  # they may say no
            self.require_served(server, "an undo of", note_id, answer.refusal)
        # Where the last writer wins, another may have come over it in the same lines, and a copy keeps what it says.
        covered = self.place.traits.write_guard is WriteGuard.LAST_WRITER and server.saves
        if answer.ok and not (covered and server.saves[-1].saved.copy_id):
            self.oracle.require_taken_back(server, str(answer.value.get("id") or note_id), word)

    async def _wait(self, server: Server) -> None:
        """Let news arrive, also where the store is asked once an interval."""
        self.note(f"{server.name} waits")
        await asyncio.sleep(INTERVAL + 1)

    async def _look(self, server: Server) -> None:
        listed = await server.call("list")
        self.require_served(server, "a list", "", listed.refusal)
        note_id = self.some_note(server)
        if note_id:
            read = await server.call("get", id=note_id)
            self.require_served(server, "a read of", note_id, read.refusal)

    async def _history(self, server: Server) -> None:
        note_id = self.some_note(server)
        if note_id:
            told = await server.call("manage", action="history", id=note_id)
            self.require_served(server, "a history", note_id, told.refusal)
            await server.history(note_id)

    def some_note(self, server: Server) -> str:
        """Return the id of a note that a server knows, '' if it knows none."""
        ids = sorted(server.app.cache.notes.etags())
        label = f"note of {server.name}"
        return ids[self.chooser.choose(label, len(ids), rate=0.4, said=ids)] if ids else ""

    async def _promising(self, server: Server, word: str, tool: str, **arguments: Any) -> Answer:
        """Call a tool that adds a word, and remember what was promised of it."""
        answer = await server.call(tool, **arguments)
        self.see_promise(server, word, arguments.get("id"), answer)
        return answer

    def see_promise(self, server: Server, word: str, asked: Any, answer: Answer) -> None:
        """Remember what an answer about a word promises; ``asked``: the id that was sent, if any."""
        unknown = answer.value.get("subcategory") == UNKNOWN
        hides = self.plan.hides or self.plan.shows or self.plan.changes == "policy"
        if answer.ok or (unknown and not hides):  # where rules hide notes, no copy tells
            self.oracle.promise(word, server.name)
        if unknown and server.process.missed_flush:
            self.oracle.unflushed[word] = server.machine.name
        note_id = answer.value.get("id") or asked
        if note_id in self.oracle.renumbered:
            self.oracle.forgive(word)
        if (answer.ok or unknown) and isinstance(note_id, str):
            key = (server.name, note_id)
            earlier = self.oracle.last.pop(key, [])  # the newest one is the last
            self.oracle.last[key] = [*earlier, (word, answer.ok)]
            self.oracle.seen_again[key] = self.oracle.saved_again[note_id]
            note = server.app.cache.notes.get(note_id)
            if note is not None:
                self.oracle.see_version(server, note_id, note.local_version, note.content)

    async def guarded(
        self, server: Server, tool: str, forgive: Callable[[], None], **arguments: Any
    ) -> Answer:
        """Call a tool that takes words away: if it is not answered, they may be gone or not."""
        answered = False
        try:
            answer = await server.call(tool, **arguments)
            answered = True
            if answer.may_have_changed:
                forgive()
            return answer
        finally:
            if not answered:
                forgive()

    async def giving_tag(self, server: Server, tag: str, call: str, /, **arguments: Any) -> Answer:
        """Call a tool that gives notes a tag: if nobody knows whether it has, it may do so later."""
        unsure = self.oracle.tags.unsure if self.place.traits.retry is Retry.ASK else set[str]()
        unsure.add(tag)
        answer = await server.call(call, **arguments)
        if answer.value.get("subcategory") != UNKNOWN:
            unsure.discard(tag)
        return answer

    # What somebody else does at the store.

    def _plan_foreign(self) -> None:
        self._foreign_left = 0
        names = [*self._foreign_acts()]
        for number in range(1, self.acts + 1):
            name = self._next_act(number, "another device", names)
            if name == "nothing":
                continue
            self._foreign_left += 1
            turns = self.comes_after(f"act {number} of another device")
            self.loop.expect_after(
                turns, f"another device: {name}", lambda name=name: self._foreign(name)
            )

    def comes_after(self, act: str) -> int:
        """Return how many events an act comes after: before the first save is answered, or long after that."""
        label = f"{act} comes after"
        return _EVENTS[self.chooser.choose(label, len(_EVENTS), rate=1.0, said=_EVENTS)]

    def _foreign_acts(self) -> dict[str, Callable[[str, str], None]]:
        acts = self.place.acts()
        later = {name: act for name in _LATER_ACTS if (act := acts.pop(name, None))}
        acts |= {
            "put": lambda _one, word: self._put(word),
            "set a clock": lambda _one, _word: self._set_clock(),
        }
        if self.plan.hides:
            acts["hide"] = lambda _one, word: self._hide(f"hidden-{word}")
        return acts | later

    def _foreign(self, name: str, *, note: str = "") -> None:
        """Let another device act; on this note if there is one."""
        self._foreign_left -= 1
        ids = [one for one in self.place.ids() if "hidden" not in one]
        label = "note of another device"
        at = self.chooser.choose(label, len(ids), rate=0.4, said=ids) if ids else 0
        note_id = note if note in ids else ids[at] if ids else ""
        if ids or name in ("put", "set a clock", "hide"):
            word = self._act_elsewhere(name, note_id)
            if word:
                self.oracle.promise(word, "another device")

    def meddle(self, when: str, note_id: str, *, rate: float | None = None) -> str:
        """Let another device act on a note at this moment, perhaps; return the word that it wrote there."""
        if self.calm or note_id not in self.place.ids():
            return ""
        # A file that is renamed at this moment is left to the worlds with real files.
        names = ["nothing", *(one for one in self.place.acts() if one != "rename")]
        rate = self.chooser.rates.others if rate is None else rate
        name = self.chooser.among(f"another device acts {when}", names, rate=rate)
        return "" if name == "nothing" else self._act_elsewhere(name, note_id)

    def act_before(self, what: str, note_id: str) -> None:
        """Let another device act on a note that a server is asked to change, before the server can have heard of that."""
        word = ""
        if note_id in self.place.ids():
            word = self.meddle(f"right before {what}", note_id)
        elif note_id and _BACK in self.place.acts() and not self.calm:
            label, rate = f"a note is brought back right before {what}", self.chooser.rates.others
            word = (
                self._act_elsewhere(_BACK, note_id)
                if self.chooser.choose(label, 2, rate=rate)
                else ""
            )
        if word:
            self.oracle.promise(word, "another device")
        self.oracle.again_at_call[note_id] = self.oracle.saved_again[note_id]

    async def act_meanwhile(self, server: Server) -> None:
        """Let the client of a server call again while a person is asked about another call of it, perhaps, and wait for that."""
        names = ["nothing", *sorted(self._possible(), key=_LATER_ACTS_OF_SERVERS.__contains__)]
        label = f"{server.name} goes on while a person is asked"
        name = self.chooser.among(label, names, rate=_WHILE_ASKED)
        if name != "nothing" and not self.calm:
            act = self.loop.create_task(self._act(server, name))
            act.add_done_callback(self.see_end)
            await asyncio.wait({act})  # it goes on where the answer is too late

    def _meddle_in_the_dark(self, machine: Machine) -> None:
        """Let another device act before the computer starts again; it belongs to no process and to no thread."""
        self.oracle.lose_power(machine.name)
        label = f"it is dark at {machine.name}"
        Context().run(self.loop.expect_after, 0, label, partial(self._act_in_the_dark, machine))

    def _act_in_the_dark(self, machine: Machine) -> None:
        ids = [one for one in self.place.ids() if "hidden" not in one]
        if ids:
            asked = [one for one in self._in_question if one in ids] or ids
            label = "note of another device in the dark"
            at = self.chooser.choose(label, len(asked), rate=0.4, said=asked)
            rate = 0.9 if self._in_question else 0.5
            word = self.meddle(f"while {machine.name} is dark", asked[at], rate=rate)
            self._in_question = []
            if word:
                self.oracle.promise(word, "another device")

    def _act_elsewhere(self, name: str, note_id: str) -> str:
        word = self.word("them")
        if name not in _OF_NO_NOTE:
            self.oracle.writers.setdefault(note_id, set()).add("them")
        if name not in (*_OF_NO_NOTE, _AS_IT_IS, "edit the top", "edit the end", "rewrite"):
            self.oracle.unmade.add(note_id)
        if name in _MADE_AGAIN:
            self.oracle.begun_anew[note_id] += 1
        before = self.place.contents().get(note_id) if name == "remove" else None
        if before is None:
            self.oracle.lost_notes.writes(note_id)
        # It belongs to no process, also in a moment in which one ends.
        Context().run(self._foreign_acts()[name], note_id, word)
        if before is not None and note_id not in self.place.contents():
            self.oracle.lost_notes.removes(note_id, before)
        self.note(f"another device: {name} {note_id} ({word})")
        if name in _TAGS:
            self.oracle.tags.theirs[word] = note_id
        there = words_of(" ".join(map(all_words, self.place.contents().values())))
        return word if word in there else ""

    def set_clock_at(self, step: str, *, often: bool = False) -> None:
        """Set the clock in the middle of a write, perhaps: its lease has ended then, for whoever looks."""
        rate = self.chooser.rates.late * (10 if often else 1)
        label, by = f"{step}: the clock is set", (0.0, -4000.0, 90.0, 4000.0)
        if not self.calm and (at := self.chooser.choose(label, len(by), rate=rate, said=by)):
            self._clock_was_set = True
            self.clock.set_by = by[at]
            self.note(f"the clock is set to {self.clock.set_by:+g} s: {step}")

    def forget_labels(self, note_id: str) -> None:
        """Expect any tags of a note: a write that nobody waits for changes them."""
        self.oracle.tags.forget(note_id)
        self.oracle.tags.dropped.add(note_id)

    def act_between(self, what: str, *, note: str = "") -> None:
        """Let another device act in the middle of something, right before ``what``, if the schedule says so."""
        if self.calm or not self._between_left:
            return
        names, rate = list(self.place.acts()), max(self.chooser.rates.others, _IN_THE_MIDDLE)
        if self._between_left < _BETWEEN:
            rate = _ONCE_MORE
        label = f"another device acts before {what}"
        name = self.chooser.among(label, ["nothing", *names], rate=rate)
        if name != "nothing":
            self._between_left -= 1
            self._foreign_left += 1
            Context().run(partial(self._foreign, name, note=note))  # it belongs to no process

    def _put(self, word: str) -> None:
        self.place.put(f"other-{word}", f"{word} title\nline\n")

    def _set_clock(self) -> None:
        label, by = "seconds that a clock is set by", (-4000.0, 90.0, 4000.0, 0.0)
        self._clock_was_set = True
        self.clock.set_by = by[self.chooser.choose(label, len(by), rate=1.0, said=by)]

    def _put_clock_wrong(self) -> None:
        """Let the clock of the second computer differ from all others', perhaps, in the whole run."""
        label, by = "seconds that the clock of n is ahead by", (0.0, -3600.0, -2.0, 2.0, 3600.0)
        ahead = by[self.chooser.choose(label, len(by), rate=0.5, said=by)]
        if ahead:
            self.clock.ahead["n"] = ahead
            self.note(f"the clock of n is ahead by {ahead:+g} s")

    def _hide(self, name: str) -> None:
        word = self.secret(self.word("hidden"))
        self.place.put(name, f"{word}\nhidden\n", tags=("hidden",))


def memory(traits: Traits) -> Callable[[World], Place]:
    """Return what makes a store in memory."""
    return lambda world: MemoryPlace(world, traits)


def _rewriting(traits: Traits) -> Callable[[World], Place]:
    return lambda world: RewritingPlace(world, traits)


def _account(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.account_world import AccountWorld  # noqa: PLC0415 - it is made of this one

    return AccountWorld(plan, *args, **how)


def _links(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.link_world import LinkWorld  # noqa: PLC0415 - as above

    return LinkWorld(plan, *args, **how)


def _parts(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.parts_world import PartsWorld  # noqa: PLC0415 - as above

    return PartsWorld(plan, *args, **how)


def _folders(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.folder_world import FolderWorld  # noqa: PLC0415 - as above

    return FolderWorld(plan, *args, **how)


def _many(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.many_world import ManyWorld  # noqa: PLC0415 - as above

    return ManyWorld(plan, *args, **how)


def _many_in_the_trash(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.many_world import TrashWorld  # noqa: PLC0415 - as above

    return TrashWorld(plan, *args, **how)


def _attachments(plan: Plan, *args: Any, **how: Any) -> World:
    from explorer.files_world import FilesWorld  # noqa: PLC0415 - as above

    return FilesWorld(plan, *args, **how)


_DAYS = ("save a day", "append", "wait")
_HTTP: dict[str, Callable[[World], Place]] = {
    "simplenote over http": SimplenotePlace,
    "trilium over http": lambda world: TriliumPlace(world, "0.102.1"),
    "trilium 0.93 over http": lambda world: TriliumPlace(world, "0.93.0"),
}
WORLDS: dict[str, Plan] = {
    **{row: Plan(memory(traits)) for row, traits in ROWS.items()},
    **{f"{row}, apart": Plan(memory(traits), apart=True) for row, traits in ROWS.items()},
    **{f"{row}, hidden": Plan(memory(traits), hides=True) for row, traits in ROWS.items()},
    "local files": Plan(LocalPlace),
    "local files, hidden": Plan(LocalPlace, hides=True),
    "memento files": Plan(MementoPlace),
    "memento files, apart": Plan(MementoPlace, apart=True),
    "memento files, hidden": Plan(MementoPlace, hides=True),
    "vault files": Plan(VaultPlace),
    "vault files, apart": Plan(VaultPlace, apart=True),
    "vault files, hidden": Plan(VaultPlace, hides=True),
    **{name: Plan(place) for name, place in _HTTP.items()},
    **{f"{name}, apart": Plan(place, apart=True) for name, place in _HTTP.items()},
    **{f"{name}, hidden": Plan(place, hides=True) for name, place in _HTTP.items()},
    **{
        f"{row}, {changes} changes": Plan(memory(ROWS[row]), world=_account, changes=changes)
        for row, changes in (
            ("simplenote", "policy"),
            ("memento", "policy"),
            ("simplenote", "key"),
            ("trilium", "key"),
        )
    },
    "vault files, policy changes": Plan(VaultPlace, world=_account, changes="policy"),
    "vault files, links": Plan(VaultPlace, world=_links),
    "vault files, days": Plan(VaultPlace, only=_DAYS),
    "trilium over http, days": Plan(_HTTP["trilium over http"], only=_DAYS),
    "local files, days": Plan(LocalPlace, only=_DAYS),
    **{
        f"local files, {changes} changes": Plan(LocalPlace, world=_account, changes=changes)
        for changes in ("policy", "key")
    },
    "simplenote, parts": Plan(memory(ROWS["simplenote"]), world=_parts),
    "local files, parts": Plan(LocalPlace, world=_parts),
    "vault files, parts": Plan(VaultPlace, world=_parts, hides=True),
    "vault files, folders": Plan(VaultPlace, world=_folders),
    "memento files, parts": Plan(MementoPlace, world=_parts),
    "trilium over http, parts": Plan(_HTTP["trilium over http"], world=_parts),
    "local files, attachments": Plan(LocalPlace, world=_attachments),
    "vault files, attachments": Plan(VaultPlace, world=_attachments),
    "vault files, attachments, apart": Plan(VaultPlace, apart=True, world=_attachments),
    "trilium over http, attachments": Plan(_HTTP["trilium over http"], world=_attachments),
    "vault files, trash": Plan(VaultPlace, only=("append and move",)),
    "trilium over http, removals": Plan(
        _HTTP["trilium over http"],
        only=("remove", "create", "append", "create and remove"),
    ),
    "trilium 0.93 over http, moves": Plan(
        _HTTP["trilium 0.93 over http"], only=("move below", "append"), notes=4
    ),
    "memento files, removals": Plan(
        MementoPlace, only=("append", "tag", "remove", "make a note again", "wait")
    ),
    "simplenote, asked": Plan(memory(ROWS["simplenote"]), acts=5, only=("append", "undo")),
    "trilium, handed over": Plan(memory(ROWS["trilium"]), only=("append",)),
    **{
        f"{row}, shown by tags": Plan(
            memory(ROWS[row]), shows=("t", "u"), only=("take a tag", "append", "look")
        )
        for row in ("simplenote", "memento")
    },
    **{
        f"{row}, many notes": Plan(memory(ROWS[row]), world=_many, only=("look", "wait"))
        for row in ("simplenote", "example")
    },
    **{
        f"{row}, rewritten": Plan(
            _rewriting(ROWS[row]), only=("append", "rewrite", "create", "look", "wait")
        )
        for row in ("simplenote", "memento", "example")
    },
    "local, many notes": Plan(
        memory(ROWS["local"]), world=_many_in_the_trash, only=("look", "wait")
    ),
}
"""By name: each supported row of the contract, on one computer and on two, and with notes that rules hide."""


def _small(
    traits: Traits, foreign: str, *, kills: int, acts: tuple[str, ...], beside: tuple[str, ...]
) -> Plan:
    script = {"a": acts, "b": beside, "another device": (foreign,) if foreign else ()}
    return Plan(memory(traits), kills=kills, syncing=False, acts=len(acts), script=script)


_ONE = ("append",)
SMALL: dict[str, Plan] = {
    **{
        f"{row}, {foreign}": _small(
            traits, foreign, kills=0, acts=("append", "rewrite"), beside=_ONE
        )
        for row, traits in ROWS.items()
        for foreign in ("edit the end", "remove")
    },
    **{
        f"{row}, {foreign}, killed": _small(traits, foreign, kills=1, acts=_ONE, beside=_ONE)
        for row, traits in ROWS.items()
        for foreign in ("edit the end", "remove")
    },
    **{
        f"{row}, {foreign}, alone, killed": _small(traits, foreign, kills=1, acts=_ONE, beside=())
        for row, traits in ROWS.items()
        for foreign in ("edit the end", "remove")
    },
    **{
        f"{row}, nobody else, killed": _small(traits, "", kills=1, acts=_ONE, beside=_ONE)
        for row, traits in ROWS.items()
    },
}
"""By name: three writes of two servers and one of another device; two writes, that one, and an end of a process or of
the power at every place; the same with one server that writes, and with two and no other device, which are played to
their end."""
