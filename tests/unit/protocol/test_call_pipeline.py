"""The pipeline where nobody reads the answers: a call waits until there is room for what it makes."""

from typing import ClassVar

import anyio
import pytest

from mcp_notarium.audit.chain import Decision
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.protocol.stdio import MOST_UNREAD, FlowControl
from support.tool_harness import Caller, ToolHarness

pytestmark = pytest.mark.anyio


class Incoming(Caller):
    """A call of ``get`` as it came."""

    tool = "get"
    arguments: ClassVar = {"id": "plain"}
    decision = Decision.ALLOWED
    approval = ""


async def test_a_reading_that_waited_for_the_network_is_not_answered_above_the_bound(tmp_path):
    harness, come, flow, answers = ToolHarness(tmp_path), anyio.Event(), FlowControl(), []
    harness.store.put("plain", "x\n")
    get, asked = harness.remote.get, []

    async def late(*args, **options):
        asked.append(args)
        await come.wait()
        return await get(*args, **options)

    harness.remote.get = late

    holder = AppHolder(harness.opened, report=lambda _error: None)
    pipeline = CallPipeline(holder, flow=flow)

    async def call():
        answers.append(await pipeline.answer(Incoming()))

    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(holder.keep)
                tasks.start_soon(call)
                await anyio.wait_all_tasks_blocked()
                assert asked
                flow.add_unwritten(MOST_UNREAD + 1)
                come.set()
                await anyio.wait_all_tasks_blocked()
                assert not answers
                flow.written(MOST_UNREAD + 1)
                await anyio.wait_all_tasks_blocked()
                assert not answers[0].is_error
                await holder.leave(within=1)
    finally:
        harness.close()
