"""Save one note through the whole call, and say each step that matters; as a program, in its folder."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import anyio

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.audit.chain import Decision
from mcp_notarium.files.private_files import ignore_step
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from support import cache_room
from support.stories import Stop, killing
from support.tool_harness import Caller, ToolHarness

Say = Callable[[str], None]


@dataclass
class Call(Caller):
    """A call of ``save``, as it came."""

    arguments: dict[str, object]
    tool = "save"
    request_id = None
    client = "test"
    decision = Decision.ALLOWED
    approval = ""


async def save(folder: Path, say: Say, stops: AbstractContextManager[Stop] | None = None) -> None:
    """Change a note that was saved before, so that nothing is done for the first time; ``stops`` are in that change."""
    harness = ToolHarness(folder, cache=cache_room.create(folder, key=None, name="cache.sqlite"))
    harness.app.cache.database.set_checkpointer(True)
    await harness.sync()
    holder = AppHolder(harness.opened, report=lambda _error: None)
    pipeline = CallPipeline(holder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder.keep)
        made = (await pipeline.answer(Call({"text": "one\n"}))).value
        asked = {"id": made["id"], "local_version": made["local_version"], "text": "two\n"}
        push = harness.remote.push
        say("begins")
        with stops or nullcontext(ignore_step) as stop:

            async def watched(write):
                stop("push")
                say("sent")
                answer = await push(write)
                stop("pushed")
                return answer

            harness.remote.push = watched
            answer = await pipeline.answer(Call(asked))
            say("answered")
        assert not answer.is_error
        await holder.leave(within=5)
    harness.close()


def save_killed(folder: Path, number: int) -> None:
    """Save, killed at stop ``number`` (from 1); what is said goes to the file ``said``."""
    with (folder / "said").open("w") as file:
        anyio.run(save, folder, lambda word: print(word, file=file, flush=True), killing(number))


if __name__ == "__main__":
    anyio.run(save, Path.cwd(), lambda word: print(word, flush=True))  # noqa: T201
