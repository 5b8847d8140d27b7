"""Break on purpose what holds for calls that their client takes back; each has to be found, and told in words."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.audit.chain import CANCELLED
from mcp_notarium.protocol.call_audit import Recorder, Recording
from mcp_notarium.sync.note_locks import NoteLock
from mcp_notarium.sync.write_attempt import WriteAttempt
from mcp_notarium.sync.write_decisions import WriteResult


def _ends_with_its_call(set_attribute: Set) -> None:
    run = NoteLock.run_cancellable

    async def unknown(self: NoteLock, work: Coroutine[Any, Any, Any], _act: Any) -> Any:
        return await run(self, work, None)

    set_attribute(NoteLock, "run_cancellable", unknown)


def _has_no_end(set_attribute: Set) -> None:
    leave = Recording.__exit__

    def left(self: Recording, kind: Any, error: Any, trace: Any) -> None:
        if not (isinstance(error, asyncio.CancelledError) and self._number):
            leave(self, kind, error, trace)

    set_attribute(Recording, "__exit__", left)


def _called_for_nothing(set_attribute: Set) -> None:
    set_attribute(Recorder, "take_back", lambda _self, _request_id: None)


def _waits_for_nothing(set_attribute: Set) -> None:
    carry_out = WriteAttempt._carry_out_act

    async def ended(self: WriteAttempt, view: Any, asked: Any) -> WriteResult:
        result = await carry_out(self, view, asked)
        if asked.act is not None and not result.stored:
            asked.act.outcome = CANCELLED
        return result

    set_attribute(WriteAttempt, "_carry_out_act", ended)


def _counts_as_begun(set_attribute: Set) -> None:
    write = Recording._write

    def written(self: Recording, *, flushed: bool) -> None:
        made = [*self.steps.made]
        write(self, flushed=flushed)
        self.steps.made[:] = made

    set_attribute(Recording, "_write", written)


BREAKS: dict[str, Break] = {
    "an act ends with its call, not with its write": Break(
        "trilium", _ends_with_its_call, ("does not say what became of it",)
    ),
    "a call that is taken back has no end in the audit chain": Break(
        "simplenote", _has_no_end, ("audit chain",)
    ),
    "what was taken back and is called again is done twice": Break(
        "simplenote", _called_for_nothing, ("doubled",)
    ),
    "a text that waits counts as not saved": Break(
        "vault files", _waits_for_nothing, ("counts as cancelled",)
    ),
    "a save of which nothing came is what the same call means later": Break(
        "trilium", _counts_as_begun, ("does not serve", "what fits is refused")
    ),
}
"""By what is broken."""
