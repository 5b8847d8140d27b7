"""Break on purpose what the product makes of a disk that refuses, and of a store that is away, to see that the explorer finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from explorer.breaks import BREAKS as FIRST
from explorer.breaks import Break, Set
from mcp_notarium.errors import CacheError
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.write_ahead_log import WalFlusher
from mcp_notarium.stores.vault import canvases, file_writer
from mcp_notarium.sync.link_writes import CardMoves
from mcp_notarium.sync.replay import Replay
from mcp_notarium.sync.write_commit import WriteCommit


def _failed_commit_passed_over(set_attribute: Set) -> None:
    transaction: Callable[..., Any] = Database.transaction

    @contextmanager
    def passing(self: Database, *, durable: bool = False) -> Iterator[None]:
        whole = False
        try:
            with transaction(self, durable=durable):
                yield
                whole = True
        except CacheError:
            if not whole:
                raise

    set_attribute(Database, "transaction", passing)


def _failed_flush_passed_over(set_attribute: Set) -> None:
    try_flush = WalFlusher._try_flush

    def flush(self: WalFlusher) -> None:
        try_flush(self)

    set_attribute(WalFlusher, "_try_flush", flush)


def _refused_end_dropped(set_attribute: Set) -> None:
    store = AuditLog._store

    def stored(self: AuditLog, **how: bool) -> bool:
        done = store(self, **how)
        self._forget_due()
        return done

    set_attribute(AuditLog, "_store", stored)


def _taken_back_text_goes(set_attribute: Set) -> None:
    set_attribute(file_writer, "_is_still", lambda *_given: True)


def _unread_canvas_has_no_cards(set_attribute: Set) -> None:
    count = canvases._count
    set_attribute(canvases, "_count", lambda *given: count(*given) or 0)


def _displaced_text_forgotten(set_attribute: Set) -> None:
    finish = WriteCommit.finish

    def forgets(self: WriteCommit, *given: Any, **how: Any) -> bool:
        self.unstored.clear()
        return finish(self, *given, **how)

    set_attribute(WriteCommit, "finish", forgets)


def _own_left_to_the_leader(set_attribute: Set) -> None:
    async def nothing(_self: Replay) -> None:
        return

    set_attribute(Replay, "finish_own", nothing)


def _cards_stay_with_their_server(set_attribute: Set) -> None:
    def ended(self: CardMoves, key: str = "") -> None:
        self._active.discard(key)
        with suppress(CacheError):
            if move := self._moves().get(key):
                self._put(key, replace(move, owner=""))

    set_attribute(CardMoves, "release", ended)


_NO_PAUSE = FIRST["no pause after a failure"].make
_TOO_OFTEN = ("Endless", "requests")
BREAKS: dict[str, Break] = {
    "no pause after a failure, over http": Break("simplenote over http", _NO_PAUSE, _TOO_OFTEN),
    "no pause after a failure, in a vault": Break("vault files", _NO_PAUSE, _TOO_OFTEN),
    "no pause after a failure, in a file": Break("memento files", _NO_PAUSE, _TOO_OFTEN),
    "a commit that fails is passed over": Break(
        "simplenote", _failed_commit_passed_over, ("audit chain", "lost", "journal", "the store")
    ),
    "a flush that fails is passed over": Break(
        "simplenote", _failed_flush_passed_over, ("audit chain", "lost", "version")
    ),
    "an end that the disk refuses is dropped": Break(
        "simplenote", _refused_end_dropped, ("no end in the audit chain",)
    ),
    "what a push has displaced goes where the disk refuses the answer": Break(
        "trilium, apart", _displaced_text_forgotten, ("lost",)
    ),
    "what another server has displaced is left to the leader": Break(
        "trilium", _own_left_to_the_leader, ("lost",)
    ),
    "cards that the disk has kept to a server stay with it": Break(
        "vault files, links", _cards_stay_with_their_server, ("the cards show",)
    ),
    "what a save takes back goes, whoever has changed it": Break(
        "vault files", _taken_back_text_goes, ("lost",)
    ),
    "a canvas that cannot be read counts as one without cards": Break(
        "vault files, links", _unread_canvas_has_no_cards, ("the cards show",)
    ),
}
"""By what is broken."""
