"""Run one server of an account inside a simulated computer: its cache, its sync, its tools; and start it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.broken import all_words
from explorer.client import Client, TakenBack
from explorer.consent import TALK, Asked, Talk, see_begun
from explorer.machine import Killed, Machine, Process
from explorer.oracle import UNKNOWN
from explorer.orders import EveryOrder
from explorer.place import MemoryPlace
from mcp_notarium.app import App
from mcp_notarium.audit.chain import AuditEntry, AuditKeys, Record
from mcp_notarium.audit.verification import Verification
from mcp_notarium.config import Config
from mcp_notarium.domain.note import (
    Content,
    Note,
    PendingWrite,
    Revision,
    WriteKind,
    WriteState,
)
from mcp_notarium.domain.policy import Policy
from mcp_notarium.domain.properties import read_properties_of
from mcp_notarium.errors import CacheError, NotariumError
from mcp_notarium.keys.secret_places import StoredToken
from mcp_notarium.library import Library
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_rows import Change
from mcp_notarium.storage.note_table import Applied
from mcp_notarium.storage.usage_limits import UsageLimits
from mcp_notarium.sync import scheduler as scheduling
from mcp_notarium.sync.writer import Saved, Writer
from mcp_notarium.tools.toolsets import find_toolset
from support.sync_rig import LEASE, open_cache

if TYPE_CHECKING:
    from explorer.world import World
    from mcp_notarium.protocol.call_audit import CallResult, IncomingCall
    from mcp_notarium.protocol.connection import RequestId
    from mcp_notarium.storage.cache import Cache

KEYS = AuditKeys(Secret(b"c" * 32), Secret(b"d" * 32), Secret(b"a" * 32))
INTERVAL = 60.0
_COMPARE = "INSERT INTO notes_fts(notes_fts, rank) VALUES ('integrity-check', 1)"
"""Fails if the words of the search are not those of the notes."""
_REOPEN = "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'a' LIMIT 1"
"""Lets a connection read again how the words are kept, which another one may have changed."""
_GONE_SINCE = "removed right after it was saved"


class Holder:
    """Give out an account that is open already."""

    def __init__(self, app: App) -> None:
        self.opened: App | None = app
        self.on_open: Callable[[], None] = lambda: None

    async def app(self) -> App:
        """Return the open account."""
        assert self.opened is not None
        return self.opened

    def answer(self, error: NotariumError) -> NotariumError:
        """Return the error as it is."""
        return error

    def lock(self, error: NotariumError) -> None:
        """Refuse to be locked: no rules change behind the back of a server here."""
        raise AssertionError(error)


@dataclass(frozen=True, slots=True)
class Made:
    """Hold what a save has made, and the note that it was drafted from."""

    before: Note | None
    saved: Saved

    @property
    def is_pure(self) -> bool:
        """Tell whether it has made just what was asked for, of just that note."""
        return not (self.saved.merged or self.saved.differs or self.saved.copy_id)

    def added(self, word: str) -> bool:
        """Tell whether it has put the word there."""
        return (
            self.before is not None
            and word not in self.before.text
            and word in self.saved.note.text
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold what an agent got; ``value`` has the fields of the answer or of the error."""

    ok: bool
    value: dict[str, Any]
    text: str
    again: bool = False
    """The same call came before, and was taken back."""

    @property
    def may_have_changed(self) -> bool:
        """Tell whether the store may have the change; an error says so by its kind, or that the note has gone since."""
        told = self.value.get("subcategory") == UNKNOWN or _GONE_SINCE in self.text
        return self.ok or self.again or told

    @property
    def refusal(self) -> str:
        """Return why nothing was done, '' if it was, also if somebody has removed the note since."""
        return "" if self.ok or _GONE_SINCE in self.text else self._error

    @property
    def _error(self) -> str:
        return f"{self.value.get('subcategory')}, {self.value.get('message')}"

    @property
    def words(self) -> str:
        """Return what a story says of it."""
        if not self.ok:
            return self._error
        facts = ("id", "local_version", "changed", "text", "note")
        return (
            ", ".join(f"{one} {self.value[one]!r}" for one in facts if one in self.value) or "done"
        )


class Server:
    """A server process, and after it the next one. All their calls come from the client ``name``."""

    def __init__(self, world: World, name: str, machine: Machine, policy: Policy) -> None:
        self.world = world
        self.name = name
        self.machine = machine
        self.policy = policy
        self._lives = 0
        self.process: Process
        self.app: App
        self.done = 0
        """Acts of its plan that have begun."""
        self.busy = 0
        """Acts that have not ended."""
        self.saves: list[Made] = []
        """What its saves have made."""
        self._notes: list[Note] = []
        self._read_at: Any = None
        """The state of the database in which it had these notes."""
        self._answered: dict[RequestId | None, Talk] = {}
        """Calls that were answered by their ids; None: the last one that has none."""
        self.talks: list[Talk] = []
        """Calls that ask a person by the protocol, of whom its client does not know yet."""
        self.client: Client
        self._left: set[str] = set()
        """Ids of writes that go on without a caller, who has taken the call back."""

    @property
    def alive(self) -> bool:
        """Tell whether a process of it runs."""
        return self._lives > 0 and not self.process.dead

    @property
    def ended(self) -> bool:
        """Tell whether its last process is gone."""
        return self._lives > 0 and self.process.dead

    def start(self, *, syncing: bool) -> None:
        """Start a process; a task of it syncs if ``syncing``."""
        self._lives += 1
        self.talks.clear()
        self.saves.clear()  # a call that was cut off may have changed its note since
        self.process = process = self.machine.start(f"{self.name}{self._lives}")
        with process.running():
            cache = open_cache(self.machine.folder, self.policy.visibility, key=None)
            config = Config(
                **self.world.place.settings, data_dir=self.machine.folder, policy=self.policy
            )
            lock = self.machine.folder / "sync.lock"
            self._wire(cache, config, KEYS, lock=lock, syncing=syncing)

    def _wire(
        self, cache: Cache, config: Config, keys: AuditKeys, *, lock: Path, syncing: bool
    ) -> None:
        """Build what answers calls, as ``app`` does, and sync."""
        run, process = self.world, self.process
        cache.versions.clock = run.clock.time
        self.machine.watch(cache, process)
        remote = run.place.remote(process, cache)
        self._watch_journal(cache, remote)
        if isinstance(run.place, MemoryPlace) and not isinstance(run.chooser, EveryOrder):
            self._watch_index(cache)  # its numbers go on where a note is made again
        writer = Writer(
            cache,
            remote,
            owner=process.name,
            lease=LEASE,
            stopwatch=run.clock.monotonic,
            owner_ended=run.has_ended,
            on_step=self._reached,
        )
        self._watch_saves(writer)
        scheduler = scheduling.Scheduler(
            cache,
            remote,
            writer,
            stopwatch=run.clock.monotonic,
            interval=INTERVAL,
            leader_lock_path=lock,
            jitter=lambda: 0.5,
        )
        process.ends.append(scheduler._leader.release)
        self._watch_cycles(scheduler)
        native = config.store.native if remote.traits.tree else None
        self.app = App(
            config,
            cache,
            remote,
            writer,
            scheduler,
            StoredToken(cache.sync_state, owner=config.owner_hash, system=None),
            AuditLog(
                cache.database,
                keys,
                clock=run.clock.time,
                days=365,
                stopwatch=run.clock.monotonic,
            ),
            UsageLimits(config.policy.limits, cache, clock=run.clock.time),
            library=Library(
                cache,
                remote,
                writer,
                scheduler,
                native=None if native is None else native(remote, NativeIndex(cache, remote)),
            ),
            clock=run.clock.time,
        )
        self._watch_acts(self.app.audit)
        self.pipeline = CallPipeline(Holder(self.app), find_toolset(config.toolset))  # type: ignore[arg-type]
        self.client = Client(self)
        if syncing:
            run.loop.create_task(scheduler.run())

    def _watch_journal(self, cache: Cache, remote: Any) -> None:
        """Tell the oracle of which notes a write has ended that this process has begun, and that no link follows or is."""
        journal, touched = cache.journal, self.world.oracle.touched
        add, drop, ours = journal.add, journal.drop, dict[str, set[str]]()
        claim = journal.claim

        def added(write: PendingWrite, **how: bool) -> None:
            ours.pop(write.after, None)
            see_begun(self.world.writes, write.write_id)
            if write.kind is not WriteKind.DELETE:
                sent = remote.revision_of(write.note_id, write.body)
                self.world.oracle.lost_notes.sends(sent.content)
            if not write.after:
                ours[write.write_id] = {write.note_id}
            if (
                write.kind is WriteKind.UPDATE and not write.after
            ):  # it may give the note another id
                ours[write.write_id].add(remote.revision_of(write.note_id, write.body).id)
            add(write, **how)

        def dropped(write_id: str) -> None:
            asked = "SELECT owner FROM journal WHERE write_id = ?"
            for (owner,) in cache.database._live().execute(asked, (write_id,)):
                works = not self.world.has_ended(owner)
                self.world.oracle.require_own(self, write_id, owner, works=works)
            if write_id in ours and write_id not in self._left:
                touched.update((self.machine.name, note_id) for note_id in ours[write_id])
            drop(write_id)

        def claimed(write_id: str, **how: Any) -> bool:
            has = claim(write_id, **how)
            if has:
                self.world.set_clock_at(f"{self.process.name} has claimed a write", often=True)
            return has

        journal.add, journal.drop = added, dropped  # type: ignore[method-assign]
        journal.claim = claimed  # type: ignore[method-assign]

    def _watch_index(self, cache: Cache) -> None:
        """Show the oracle which revision of a note takes the place of which."""
        notes, apply = cache.notes, cache.notes.apply

        def applied(changes: Iterable[Change], **how: bool) -> Applied:
            given = [*changes]
            for one in given:
                before = notes.base(one.id) if isinstance(one, Revision) else None
                if isinstance(one, Revision) and before is not None:
                    self.world.oracle.require_newer(self, before, one)
            return apply(given, **how)

        notes.apply = applied  # type: ignore[method-assign]

    def _watch_cycles(self, scheduler: scheduling.Scheduler) -> None:
        """Show the oracle who else of the computer syncs when a cycle begins, and errors that no cycle may meet."""
        work, event_of_failure = scheduler._runner.work, scheduler._runner._event_of_failure
        process = self.process

        async def watched(event: scheduling.Event) -> Any:
            here = [one for one in self.world.servers if one.machine is self.machine]
            self.world.oracle.require_one_leader(self, [one for one in here if one is not self])
            return await work(event)

        def failed(error: Exception) -> scheduling.Event:
            # What takes a process away that has ended is no error of its own.
            if not isinstance(error, NotariumError) and not process.dead:
                self.world.oracle.breaks(
                    f"sync meets an error that nobody planned: {self.name}: {error!r}"
                )
            return event_of_failure(error)

        scheduler._runner.work = watched  # type: ignore[method-assign]
        scheduler._runner._event_of_failure = failed  # type: ignore[method-assign]

    def _watch_saves(self, writer: Writer) -> None:
        """Show the oracle what each save was to make of its note, and what was made of it; a person has agreed to what is asked about."""
        save, remove, revive = writer.save, writer.remove, writer.revive

        async def watched(*, note: Note | None, content: Content, **how: Any) -> Saved:
            if talk := TALK.get():
                talk.require_agreed(note, content)
            saved = await save(note=note, content=content, **how)
            self.saves.append(Made(note, saved))
            self.world.oracle.see_made(self, content, saved)
            return saved

        async def removed(note: Note, **how: Any) -> None:
            if talk := TALK.get():
                talk.require_agreed(note)
            await remove(note, **how)

        async def revived(note_id: str, content: Content, **how: Any) -> Saved:
            if talk := TALK.get():
                talk.require_agreed(None, content)
            return await revive(note_id, content, **how)

        writer.save, writer.remove = watched, removed  # type: ignore[method-assign]
        writer.revive = revived  # type: ignore[method-assign]

    def _watch_acts(self, audit: AuditLog) -> None:
        """Learn which call begins an act."""
        recording_begin = audit.recording_begin

        @contextmanager
        def begins(entry: AuditEntry, **how: bool) -> Iterator[int]:
            with recording_begin(entry, **how) as number:
                yield number
            if talk := TALK.get():
                talk.begin(number)

        audit.recording_begin = begins  # type: ignore[method-assign]

    def _reached(self, step: str) -> None:
        talk = TALK.get()
        if step == "recorded" and talk is not None:  # else sync does it, by itself
            self.world.oracle.see_recorded(self, talk)
        self.process.place(step)
        self.world.set_clock_at(f"{self.process.name} {step}")

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool as its client does. Raises ``TakenBack`` if the client takes the call back and does not repeat it."""
        return await self._call(tool, arguments, again=False)

    async def _call(self, tool: str, arguments: dict[str, Any], *, again: bool) -> Answer:
        while self.client.has_left:
            await self.world.loop.create_future()
        self.world.note(f"{self.name} calls {tool} {arguments.get('action', '')}".rstrip())
        since = self.world.loop.time()
        if tool in ("save", "manage"):
            note_id = str(arguments.get("id", ""))
            self.world.oracle.lost_notes.writes(note_id, computer=self.machine.name)
            self.world.oracle.see_writer(self, tool, arguments, note_id)
            if tool == "manage" and "id" in arguments:
                self.world.act_before(f"{self.name} calls manage", note_id)
        how = self.world.chooser.take_back(self.name)
        if how or again:
            try:
                number, told = await self.client.call(tool, arguments, how)
            except TakenBack:
                self.world.oracle.see_taken_back(self, tool, arguments, late=how == "late")
                # A note that is gone is not deleted once more, and nobody promises that.
                removes = arguments.get("action") == "delete_permanently"
                if how not in ("repeats", "late") or removes:
                    raise
                return replace(await self._call(tool, arguments, again=True), again=True)
            text = told["content"][0]["text"]
            value = told.get("structuredContent") or json.loads(text)
            answer = Answer(not told.get("isError"), value, text)
        else:
            number, result = None, await self.answer(Asked(self.name, tool, arguments))
            value = result.value if result.value is not None else json.loads(result.text)
            answer = Answer(not result.is_error, value, result.text)
        shown = {name: value for name, value in arguments.items() if name != "confirm"}
        self.world.note(f"{self.name}: {tool} {shown} is answered: {answer.words}")
        self.world.oracle.saw(self, self._answered[number], answer, since=since)
        return answer

    async def answer(self, call: IncomingCall) -> CallResult:
        """Let the process answer a call, however it came."""
        digest = self.app.audit.digest(call.tool, call.arguments)
        talk = Talk(self, call.tool, call.arguments, digest)
        TALK.set(talk)
        talk.watch(call)
        self.world.oracle.calls.setdefault(digest, set()).add(self.process)
        self.world.oracle.talks.append(talk)
        try:
            result = await self.pipeline.answer(call)
        except asyncio.CancelledError:
            going_on = {one.write_id for one in self.app.cache.journal.all()}
            self._left |= going_on & talk.writes
            raise
        if self.process.dead:
            raise Killed
        self._answered[call.request_id] = talk
        return result

    async def history(self, note_id: str) -> None:
        """Compare who made each version of a note with what is new in it."""
        versions: list[tuple[str, Content]] = []
        made = tuple(self.world.oracle.made.get((self.machine.name, note_id), ()))
        try:
            async with aclosing(self.app.library.history.walk(note_id)) as walk:
                versions = [(one.made_by, one.content) async for one in walk]
        except NotariumError as error:
            self.world.require_served(self, "a history", note_id, str(error))
        self.world.oracle.see_history(self, note_id, versions, made)
        self.world.oracle.require_replaced(self, note_id)

    async def sync(self) -> None:
        """Run one cycle now."""
        await self.app.scheduler._runner.work(scheduling.Event.DUE)

    # What the oracle looks at.

    def contents(self) -> dict[str, Content]:
        """Return what is in the index."""
        return {note.id: note.content for note in self.notes()}

    def sees(self, note_id: str, content: Content) -> bool:
        """Tell whether its rules show a note of this id: those on ids follow their notes, as far as the index knows that."""
        visibility = self.app.cache.notes.visibility
        followed = visibility.names.find_rule(note_id, None) is not None
        if not visibility.rules.has_rules:
            return True
        properties, clear = read_properties_of(content)
        clear = clear and self.world.place.is_clear(note_id)
        hides = visibility.rules.hidden_by(note_id, content.tags, properties, clear=clear)
        return hides is None and not followed

    def notes(self) -> list[Note]:
        """Return the notes in the index, read again only if anything was written since the last time."""
        cache = self.app.cache
        connection = cache.database._live()
        number = connection.execute("PRAGMA data_version").fetchone()
        state = (cache, number, connection.total_changes)
        if self._read_at != state or cache.database.in_transaction:
            self._read_at = state
            self._notes = [note for one in cache.notes.etags() if (note := cache.notes.get(one))]
        return self._notes

    def index_faults(self) -> list[str]:
        """Say what in the index does not fit to its notes: the words of the search, or the totals."""
        database, found = self.app.cache.database, list[str]()
        database.rows(_REOPEN)
        try:
            database.rows(_COMPARE)
        except CacheError as error:
            found.append(f"its words are not those of the notes: {error}")
        trash = [note.trash for note in self.notes()]
        counts = self.app.cache.notes.counts()
        if (counts.active, counts.trashed) != (trash.count(False), trash.count(True)):
            found.append(
                f"it counts {counts}, and has {len(trash)} notes, {sum(trash)} in the trash"
            )
        return found

    def works(self) -> bool:
        """Tell whether a write goes on."""
        return bool(self.app.writer.locks._running)

    def owes_records(self) -> bool:
        """Tell whether ends of acts are only in memory because the disk has refused them."""
        return self.process.missed_commit and self.app.audit.waiting > 0

    def unfinished(self) -> list[str]:
        """Return the texts of writes that are neither done nor refused for good."""
        writes = self.app.cache.journal.all()
        return [one.content.text for one in writes if one.state is not WriteState.REJECTED]

    def refused(self) -> list[str]:
        """Return the words of writes that the store refused for good."""
        writes = self.app.cache.journal.all()
        return [all_words(one.content) for one in writes if one.state is WriteState.REJECTED]

    def verify(self) -> tuple[Verification, list[Record]]:
        """Return the state of the audit chain, and its records."""
        seen: list[Record] = []
        return self.app.audit.table.verify(anchored=None, also=seen.append), seen

    def kept(self) -> int:
        """Return how many tasks, calls, claimed entries and records are kept in memory."""
        locks, claimed = self.app.writer.locks, self.app.writer._journal._ends_flushed
        tasks = len(locks._running) + len(locks._calls) + len(locks._locks)
        return tasks + len(claimed) + self.app.audit.waiting

    def close(self) -> None:
        """End it in order."""
        if self.alive:
            with self.process.running():
                self.app.audit.flush(wait=True)
            with suppress(CacheError):
                self.app.cache.close()
            self.process.kill()
