"""Run one blocking call outside the event loop, in a thread that does not delay the end of the process; wait for a task that goes on.

The process waits at its end for threads of ``asyncio.to_thread``. A call that waits for a lock of
another process would keep a server alive that was told to stop.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeVar

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")

_STACK_BYTES = 16 * 1024 * 1024
"""Large enough for deeply nested JSON, which overflows the default stack of some systems. Only the
used part takes memory."""
_WORKER = "worker"
_END_SECONDS = 0.5
"""Seconds that the end of the process waits for calls that are nearly done. Python stops a thread where it is then,
and an extension module in Rust answers that by aborting the process."""


async def run_in_thread(
    call: Callable[[], _Result], *, too_late: Callable[[_Result], object] = lambda _: None
) -> _Result:
    """Run ``call`` in a thread, with the caller's context variables; return its result, raise what it raises.

    ``call`` goes on if the caller is cancelled, and its result goes to ``too_late`` instead. Neither
    survives the end of the process.
    """
    handover = _Handover(partial(copy_context().run, call), too_late)
    usual = threading.stack_size(_STACK_BYTES)
    try:
        threading.Thread(target=handover.work, name=_WORKER, daemon=True).start()
    finally:
        threading.stack_size(usual)
    try:
        await handover.ready
    except asyncio.CancelledError:
        handover.abandon()
        raise
    return handover.take_result()


async def shield_task(task: asyncio.Future[_Result]) -> _Result:
    """Wait for a task, which goes on if the caller is cancelled: nobody is told of its error then.

    Since Python 3.14 ``asyncio.shield`` reports that error to the loop, as one that nobody has planned.
    """
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.add_done_callback(lambda _: task.cancelled() or task.exception())
        raise
    return task.result()


def in_thread(blocks: Callable[_Given, _Result]) -> Callable[_Given, Coroutine[Any, Any, _Result]]:
    """Return the function as one that is awaited: each call runs by :func:`run_in_thread`."""

    @wraps(blocks)
    async def call(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        return await run_in_thread(partial(blocks, *given, **named))

    return call


@atexit.register
def _wait_for_calls() -> None:
    end = time.monotonic() + _END_SECONDS
    for thread in threading.enumerate():
        if thread.name == _WORKER:
            thread.join(max(0.0, end - time.monotonic()))


class _Handover(Generic[_Result]):
    """Pass one result from a thread to the loop; exactly one receiver gets it."""

    def __init__(self, call: Callable[[], _Result], too_late: Callable[[_Result], object]) -> None:
        self._call = call
        self._too_late = too_late
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._results: list[_Result] = []
        self._error: BaseException | None = None
        self._abandoned = False
        self.ready: asyncio.Future[None] = self._loop.create_future()

    def work(self) -> None:
        """Make the call and hand over its result. Runs in the thread."""
        try:
            result = self._call()
            # Not in one expression: the list may be replaced during the call.
            self._results.append(result)
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self._error = error
        with self._lock:
            late = self._abandoned
        if late:
            self._dispose_late_result()
            return
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def take_result(self) -> _Result:
        """Return the result, or raise what the call raised. Runs in the loop, once ready."""
        if self._error is not None:
            raise self._error
        return self._results.pop()

    def abandon(self) -> None:
        """Record that nobody waits for the result any more. Runs in the loop."""
        with self._lock:
            self._abandoned = True
        self._dispose_late_result()

    def _wake(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _dispose_late_result(self) -> None:
        with self._lock:
            results, self._results = self._results, []
        for result in results:
            self._too_late(result)
