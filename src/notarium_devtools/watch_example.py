"""Draw example screens of ``mcp-notarium watch`` as SVG: ``python -m notarium_devtools.watch_example FOLDER``.

The acts and the question are made up; the screen is the one of the product.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp_notarium.cli.activity_feed import SeenAct
from mcp_notarium.cli.watch_screen import WatchScreen
from mcp_notarium.report.activity import Result
from mcp_notarium.storage.approval_table import Approval

NOW = datetime(2026, 11, 23, 14, 5).astimezone().timestamp()
SIZES = {"watch-60": (60, 24), "watch-120": (120, 24)}
_DIFF = """@@ note 1eac1019, removed for good @@
@@ title @@
-Books to read
@@ line 1 @@
-The Dispossessed
-Middlemarch
"""


class Example:
    """Stand in for a ``WatchSource``."""

    account = "home"

    def __init__(self) -> None:
        self.feed = self
        self.counts = Counter({Result.READ: 12, Result.CHANGED: 3, Result.REFUSED: 1})
        self._acts = [
            _act(1, 300, "claude-code 2.1.3", "list", Result.READ, "Sourdough bread, Garden in spring"),
            _act(2, 240, "claude-code 2.1.3", "get", Result.READ, "Sourdough bread"),
            _act(3, 200, "claude-code 2.1.3", "save", Result.CHANGED, "Sourdough bread", "+2 -1 lines"),
            _act(4, 90, "Cursor 1.7.2", "save", Result.CHANGED, "Meeting with Ada", "new", profile="work"),
            _act(5, 30, "Cursor 1.7.2", "manage.trash", Result.REFUSED, "Tax return 2026", profile="work"),
        ]  # fmt: skip

    def poll(self) -> list[SeenAct]:
        """Return the acts once."""
        acts, self._acts = self._acts, []
        return acts

    def waiting(self) -> list[Approval]:
        """Return one question."""
        return [
            Approval(
                id="1eac1019",
                client="Zed 0.198",
                profile=None,
                tool="manage",
                action="delete_permanently",
                note_id="1eac1019",
                question="Delete the note “Books to read” (id 1eac1019) for good? It cannot be brought back.",
                diff=_DIFF,
                asked_at=NOW - 20,
                expires_at=NOW + 580,
            )
        ]

    def left_out(self) -> int:
        """Return that every question found room."""
        return 0


def _act(
    number: int,
    ago: int,
    client: str,
    act: str,
    result: Result,
    *about: str,
    profile: str = "",
) -> SeenAct:
    refused = result is Result.REFUSED
    return SeenAct(
        number=number,
        at=NOW - ago,
        client=client,
        profile=profile,
        act=act,
        result=result,
        decision="refused" if refused else "",
        outcome="policy" if refused else "",
        notes=(f"{number:08x}",),
        about=about[0],
        changed=about[1] if about[1:] else "",
    )


async def draw(folder: Path) -> None:
    """Write a picture for each of ``SIZES``."""
    for name, size in SIZES.items():
        source: Any = Example()
        screen = WatchScreen(source, clock=lambda: NOW)
        async with screen.run_test(size=size) as pilot:
            await pilot.pause()
            drawn = re.sub(r"@font-face \{.*?\}", "", screen.export_screenshot(), flags=re.DOTALL)
            (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1])))
