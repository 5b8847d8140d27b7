"""Break the product on purpose, in each thing that the explorer demands, to see that it finds that.

A break is a world, a function that makes it by a ``setattr`` such as that of a ``MonkeyPatch``, and words that the
fault found must contain, one of them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mcp_notarium.domain.note import PendingWrite, WriteKind
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.library import history
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.sync import pull_decisions, write_commit, write_decisions
from mcp_notarium.sync.batch_apply import BatchApplier, BatchCommitter
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_locks import NoteLocks
from mcp_notarium.sync.pull_decisions import LocalState, Move, RemoteState
from mcp_notarium.sync.replay import Replay
from mcp_notarium.sync.scheduler import Scheduler
from mcp_notarium.sync.write_attempt import WriteAttempt
from mcp_notarium.sync.write_commit import WriteCommit
from mcp_notarium.sync.write_decisions import Attempt, Decision, Held, Step, View

Set = Callable[[Any, str, Any], None]


@dataclass(frozen=True, slots=True)
class Break:
    """Hold how the product is broken, and how that shows."""

    world: str
    make: Callable[[Set], None]
    words: tuple[str, ...]


def _decides(kind: WriteKind, attempt: Attempt, held: Held, step: Step) -> Callable[[Set], None]:
    changed = (Decision(kind, attempt, held, None, step, "broken"), *write_decisions.DECISIONS)

    def make(set_attribute: Set) -> None:
        set_attribute(write_decisions, "DECISIONS", changed)

    return make


def _act_not_recorded(set_attribute: Set) -> None:
    record = Journal.record
    set_attribute(
        Journal,
        "record",
        lambda self, view, _act, following: record(self, view, None, following),
    )


def _journal_not_flushed(set_attribute: Set) -> None:
    async def flush(_self: Cache) -> None:
        return

    set_attribute(Cache, "flush", flush)


def _outcome_not_recorded(set_attribute: Set) -> None:
    set_attribute(AuditLog, "record_outcome", lambda _self, _entry, **_how: None)


def _other_write_id(set_attribute: Set) -> None:
    push = WriteAttempt._push

    async def again(self: WriteAttempt, write: PendingWrite, base: Any, *, repeated: bool) -> Any:
        if repeated:
            renamed = replace(write, write_id=uuid.uuid4().hex)
            with self._journal._cache.transaction():
                self._journal._cache.journal.drop(write.write_id)
                self._journal._cache.journal.add(renamed)
            write = renamed
        return await push(self, write, base, repeated=repeated)

    set_attribute(WriteAttempt, "_push", again)


def _nothing_hidden(set_attribute: Set) -> None:
    set_attribute(Visibility, "hidden_by", lambda _self, *_asked, **_how: None)


def _news_not_flushed(set_attribute: Set) -> None:
    fetch = BatchApplier.fetch

    async def fetched(self: BatchApplier, *args: Any) -> Any:
        return replace(await fetch(self, *args), is_news=False)

    set_attribute(BatchApplier, "fetch", fetched)


class _Anything:
    """Equal to whatever it is compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _other: object) -> bool:
        return True


class _AnyRow(_Anything):
    """A version that is the newest one, and whose result is still there."""

    made = _Anything()

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


def _undo_of_anybody(set_attribute: Set) -> None:
    last_of = history._last_of

    def last(rows: Any, client: Any) -> Any:
        row = last_of(rows, client)
        return row and _AnyRow(row)

    set_attribute(history, "_last_of", last)


def _tombstones_passed_over(set_attribute: Set) -> None:
    moves = dict(pull_decisions.CHANGES)
    moves[LocalState.KNOWN, RemoteState.GONE] = Move.NOTHING, "broken"
    set_attribute(pull_decisions, "CHANGES", moves)


def _cursor_first(set_attribute: Set) -> None:
    commit = BatchCommitter.commit

    def bookmark_first(self: BatchCommitter, batch: Any) -> Any:
        if batch.bookmark is not None:
            with self._cache.transaction():
                batch.bookmark(self._cache.progress)
        return commit(self, replace(batch, bookmark=None))

    set_attribute(BatchCommitter, "commit", bookmark_first)


def _nothing_replayed(set_attribute: Set) -> None:
    async def finish(_self: Replay) -> Counter[Any]:
        return Counter()

    set_attribute(Replay, "finish_all", finish)
    set_attribute(Replay, "finish_not_found", finish)


def _stale_texts(set_attribute: Set) -> None:
    get, texts = NoteTable.get, dict[tuple[int, str], str]()

    def stale(self: NoteTable, note_id: str) -> Any:
        note = get(self, note_id)
        if note is None:
            return None
        return replace(note, text=texts.setdefault((id(self), note_id), note.text))

    set_attribute(NoteTable, "get", stale)


def _no_pause(set_attribute: Set) -> None:
    async def back_off(_self: Scheduler) -> None:
        return

    set_attribute(Scheduler, "_back_off", back_off)


def _tasks_kept(set_attribute: Set) -> None:
    set_attribute(NoteLocks, "_track", lambda self, task: self._running.add(task))


def _displaced_dropped(set_attribute: Set) -> None:
    settle = write_commit.settle
    set_attribute(write_commit, "settle", lambda **how: settle(**(how | {"displaced": None})))


def _removal_read_as_text(set_attribute: Set) -> None:
    finish = WriteCommit.finish_arrived

    def read(self: WriteCommit, view: View) -> Any:
        self._store.revision_of(view.write.note_id, view.write.body)
        return finish(self, view)

    set_attribute(WriteCommit, "finish_arrived", read)


def _text_not_kept(set_attribute: Set) -> None:
    set_attribute(HeadReader, "_has_text_to_keep", lambda _self, _write: False)


def _half_a_transaction(set_attribute: Set) -> None:
    finish = Journal.finish

    def in_two(self: Journal, write: PendingWrite, **how: Any) -> Any:
        with self._cache.transaction():
            self._cache.journal.drop(write.write_id)
        return finish(self, write, **how)

    set_attribute(Journal, "finish", in_two)


_UPDATE, _REPEATED = WriteKind.UPDATE, Attempt.REPEATED
BREAKS: dict[str, Break] = {
    "an act is not recorded before it": Break(
        "simplenote", _act_not_recorded, ("audit chain", "lacks what a save")
    ),
    "the journal is not flushed before a push": Break(
        "simplenote", _journal_not_flushed, ("audit chain",)
    ),
    "the outcome of an act is not recorded": Break(
        "simplenote", _outcome_not_recorded, ("audit chain",)
    ),
    "a repeated write has another write_id": Break(
        "simplenote", _other_write_id, ("doubled", "journal", "the store", "nobody planned")
    ),
    "a creation that arrived is made again": Break(
        "example",
        _decides(WriteKind.CREATE, _REPEATED, Held.OURS, Step.NEW_ID),
        ("doubled", "journal", "the store"),
    ),
    "hidden notes are shown": Break("simplenote, hidden", _nothing_hidden, ("hidden",)),
    "news is not flushed": Break("trilium", _news_not_flushed, ("version",)),
    "undo takes back what somebody else did": Break(
        "simplenote", _undo_of_anybody, ("lost", "names who has not written")
    ),
    "what was removed stays": Break("simplenote", _tombstones_passed_over, ("the store",)),
    "the cursor moves before what it covers": Break("simplenote", _cursor_first, ("the store",)),
    "nothing is replayed": Break("trilium", _nothing_replayed, ("journal", "the store")),
    "a read is of an older version": Break("simplenote", _stale_texts, ("version", "the store")),
    "no pause after a failure": Break("simplenote", _no_pause, ("Endless", "requests")),
    "ended tasks are kept": Break("simplenote", _tasks_kept, ("kept",)),
    "the text that a push replaced is dropped": Break("trilium", _displaced_dropped, ("lost",)),
    "a repeated write covers a clashing edit": Break(
        "memento",
        _decides(_UPDATE, _REPEATED, Held.CLASHING, Step.PUSH),
        ("lost", "journal", "the store"),
    ),
    "the text of a removed note is dropped": Break("memento", _text_not_kept, ("lost",)),
    "a repeated removal removes what came since": Break(
        "trilium",
        _decides(WriteKind.DELETE, _REPEATED, Held.CLASHING, Step.PUSH),
        ("lost", "the store"),
    ),
    "a removal is read as a text": Break(
        "memento", _removal_read_as_text, ("nobody planned", "journal", "the store")
    ),
    "an entry goes before its answer is stored": Break(
        "trilium", _half_a_transaction, ("lost", "the store", "version")
    ),
}
"""By what is broken."""
