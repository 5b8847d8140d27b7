"""Change notes of a local notebook through whole calls, and say what was answered; as a program, in its folder."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.app import App, open_app
from mcp_notarium.audit.chain import Decision
from mcp_notarium.config import Config
from mcp_notarium.protocol.app_holder import AppHolder
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.secret import Secret
from mcp_notarium.tools.question import Question
from support.account import account
from support.local_notebook import local

RAW = Secret("raw:" + "5a" * 32)
STEPS = ("one\n", "two\n", "three\n")


def configured(home: Path) -> Config:
    """The account in this folder; its key costs no time."""
    return account(home, db_key=RAW, **local())


@dataclass
class Call:
    """A call as it came; whoever is asked agrees."""

    tool: str
    arguments: dict[str, object]
    request_id = None
    client = "test"
    decision = Decision.ALLOWED
    approval = ""

    def is_answered(self, *, irreversible: bool, app: App) -> bool:
        return False

    async def ask(self, _question: Question, *, app: App) -> bool:
        return True


async def change(home: Path) -> None:
    """Make a note and change it twice, make another and remove it; say each step, then stop."""
    holder = AppHolder(partial(open_app, configured(home)), report=lambda _error: None)
    pipeline = CallPipeline(holder)

    async def ask(tool: str, **arguments: object) -> dict[str, object]:
        answer = await pipeline.answer(Call(tool, arguments))
        assert not answer.is_error, answer
        return answer.value

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(holder.keep)
        known: dict[str, object] = {}
        for text in STEPS:
            saved = await ask("save", text=text, **known)
            known = {"id": saved["id"], "local_version": saved["local_version"]}
            print(f"saved {text.strip()}", flush=True)  # noqa: T201
        gone = await ask("save", text="gone\n")
        for action in ("trash", "delete_permanently"):
            version = gone.get("new_local_version") or gone["local_version"]
            given = {"id": gone["id"], "local_version": version, "confirm": True}
            gone = await ask("manage", action=action, **given) | {"id": gone["id"]}
        print("removed", flush=True)  # noqa: T201
        await holder.leave(within=20)
    print("stopped", flush=True)  # noqa: T201


if __name__ == "__main__":
    anyio.run(change, Path.cwd())
