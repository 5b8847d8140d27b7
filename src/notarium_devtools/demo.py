"""Demonstrate the real server, with a local notebook and against a simulated store: ``./scripts/demo``.

Starts the installed program as an MCP client would, first without any service. Then starts the simulator on
loopback with notes of real prose, and shows what a person wants to see before trusting it. Needs no account and no network, and
leaves nothing behind.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_notarium.sync.listing_pages import FIRST_PAGE, PAGE
from notarium_devtools import demo_parts
from notarium_devtools.demo_parts import call, open_client
from notarium_devtools.http_faults import Hold
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose

if TYPE_CHECKING:
    from mcp import Client

SEARCH = "garbage collection"
HELD_BACK = 2.5
"""Minimum seconds for which all pages of notes but the first are held back."""
_GLANCE = 0.5
_PATIENCE = 30.0
_WIDTH = 96


def main() -> int:
    """Run the whole demo; return 0 only if every step did what it says."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument(
        "--notes", type=int, default=400, help="how many notes the account has (default 400)"
    )
    args = parser.parse_args()
    screen = Screen()
    asyncio.run(demo_parts.run_local(screen))
    simulator = Simulator(latency=0.02)
    simulator.load(prose(args.notes, seed=7))
    # All pages but the first are held back, so that a person can see what happens meanwhile.
    rest = threading.Event()
    simulator.faults.add(Hold(rest), query={"limit": str(PAGE), "data": "1"}, times=5)
    with simulator.running(), tempfile.TemporaryDirectory(prefix="notarium-demo-") as folder:
        stage = DemoRun(screen=screen, simulator=simulator, folder=Path(folder), rest=rest)
        asyncio.run(stage.run())
    screen.check(not Path(folder).exists(), "and nothing is left behind")
    return screen.close()


class Screen:
    """Print what the demo shows, and count the claims that held."""

    def __init__(self) -> None:
        self._steps = 0
        self._failed = 0
        self._checks = 0
        self._started = time.perf_counter()

    def title(self, text: str) -> None:
        """Print the title."""
        self._line(f"\n{text}\n{'=' * len(text)}")

    def step(self, text: str) -> None:
        """Print the heading of a step."""
        self._steps += 1
        self._line(f"\n{self._steps}. {text}")

    def say(self, text: str) -> None:
        """Print one remark."""
        self._line(textwrap.fill(text, _WIDTH, initial_indent="   ", subsequent_indent="   "))

    def quote(self, text: str) -> None:
        """Print some lines of a note, as they are."""
        for line in text.splitlines():
            self._line(f"   │ {line[: _WIDTH - 5]}")

    def check(self, true: bool, claim: str) -> None:  # noqa: FBT001 - reads as a sentence
        """Print a claim, marked as kept or broken."""
        self._checks += 1
        self._failed += not true
        self._line(f"   {'✓' if true else '✗ NOT TRUE:'} {claim}")

    def close(self) -> int:
        """Print the last line and return the exit code."""
        took = time.perf_counter() - self._started
        kept = self._checks - self._failed
        self._line(f"\n{kept} of {self._checks} claims kept, in {took:.0f} s.\n")
        return 1 if self._failed else 0

    def _line(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class DemoRun:
    """Hold the demo's environment: a simulator, a data folder and the variables a client would set."""

    def __init__(
        self, *, screen: Screen, simulator: Simulator, folder: Path, rest: threading.Event
    ) -> None:
        self.screen = screen
        self.rest = rest
        self.simulator = simulator
        self.folder = folder
        self.key = secrets.token_urlsafe(24)

    def environment(self, *, key: str | None = None) -> dict[str, str]:
        """Return what stands in an MCP client's configuration for this server."""
        return {
            "SIMPLENOTE_USERNAME": self.simulator.username,
            "SIMPLENOTE_PASSWORD": self.simulator.password,
            "DB_ENCRYPTION_KEY": key or self.key,
            "NOTARIUM_DATA_DIR": str(self.folder),
            "NOTARIUM_KEYCHAIN": "off",
            "SIMPERIUM_API_URL": self.simulator.api_url,
            "SIMPERIUM_AUTH_URL": self.simulator.auth_url,
            "SIMPLENOTE_APP_URL": self.simulator.app_url,
            "SIMPERIUM_API_KEY": self.simulator.api_key,
            "LOG_LEVEL": "fatal",
        }

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Client]:
        """Run the real server in a process of its own, with the SDK's client over stdio."""
        async with open_client(self.environment(), self.folder) as client:
            yield client

    async def run(self) -> None:
        """Run all steps in order."""
        self.screen.title("MCP Notarium: a Simplenote account, served to an agent")
        self.screen.say(
            f"A simulated store holds {len(self.simulator.notes())} notes. "
            "The server is a process of its own, spoken to over stdio."
        )
        async with self.server() as client:
            await self.first_sync(client)
            await self.read(client)
            note = await self.write(client)
            await self.conflict(client, note)
        demo_parts.encrypted_file(self.screen, self.folder)
        self.simulator.stop_listening()
        self.screen.step("Restart with no network")
        async with self.server() as client:
            await demo_parts.read_and_refuse(self.screen, client, SEARCH)
        demo_parts.wrong_key(self.screen, self.folder, self.environment(key="not the right one"))
        demo_parts.clean_exit(self.screen, self.folder, self.environment())

    async def first_sync(self, client: Client) -> None:
        """Show that the first page answers at once and the rest arrives meanwhile."""
        self.screen.step("First sync")
        started = time.perf_counter()
        answer = await call(client, "list", limit=3)
        self.screen.say(
            f"first answer after {_ms(started)}, with the newest notes; the rest is held back here"
        )
        shown, said = 0, ""
        while (facts := answer.get("sync")) and time.perf_counter() - started < _PATIENCE:
            shown = max(shown, facts.get("loaded", 0))
            if shown and time.perf_counter() - started > HELD_BACK:
                self.rest.set()
            if facts["note"] != said:
                self.screen.say(f"  {facts['note']}")
            said = facts["note"]
            await asyncio.sleep(_GLANCE)
            answer = await call(client, "list", limit=1)
        self.rest.set()
        truth = sum(not note.get("deleted") for note in self.simulator.notes().values())
        total = answer["total_items"]
        if truth > FIRST_PAGE:
            self.screen.check(shown > 0, "while it loaded, it said how many notes are here")
        self.screen.check(total == truth, f"all {total} notes are here after {_ms(started)}")

    async def read(self, client: Client) -> None:
        """Show list, search, and one note by lines."""
        self.screen.step("List, search, read by lines")
        for item in (await call(client, "list", limit=3))["content"]:
            self.screen.say(f"  {item['uuid'][:8]}  v{item['local_version']}  {item['text'][:60]}")
        started = time.perf_counter()
        found = await call(client, "list", query=SEARCH, limit=3)
        self.screen.check(
            found["total_items"] > 0,
            f'search "{SEARCH}": {found["total_items"]} notes in {_ms(started)}',
        )
        first = found["content"][0]
        part = await call(client, "get", id=first["uuid"], range_line_start=1, range_line_count=3)
        self.screen.quote(part["text"])
        self.screen.check(
            part["text_is_partial"] is True,
            f"lines 1 to 3 of {part['text_total_lines']} of “{first['text'][:40]}”",
        )

    async def write(self, client: Client) -> dict[str, Any]:
        """Show a new note, confirmed by the service, then a patch of one line."""
        self.screen.step("Save, then patch one line")
        text = "Garden plan\n\n- beans\n- carrots\n- leeks\n"
        note = await call(client, "save", text=text, tags=["garden"])
        at_service = self.simulator.note(note["id"])
        self.screen.check(
            at_service is not None and at_service["content"] == text,
            f"saved as version {note['server_version']}, confirmed by the service",
        )
        patch = [{"operation": "modification", "line_number": 4, "value": "- carrots, two rows"}]
        note = await call(
            client, "save", id=note["id"], local_version=note["local_version"], text_patch=patch
        )
        self.screen.check(
            "two rows" in self.simulator.note(note["id"])["content"],
            f"line 4 patched, now version {note['server_version']}",
        )
        return note

    async def conflict(self, client: Client, note: dict[str, Any]) -> None:
        """Show an edit of another device while the agent still holds the old version."""
        self.screen.step("A conflict with another device")
        theirs = self.simulator.note(note["id"])["content"]
        theirs = theirs.replace("- beans", "- beans, climbing ones")
        self.simulator.edit(note["id"], content=theirs)
        self.screen.say("another device changed line 3; the agent, not knowing, changes line 5 ...")
        patch = [{"operation": "modification", "line_number": 5, "value": "- leeks, late"}]
        about = {"id": note["id"], "local_version": note["local_version"]}
        answer = await call(client, "save", **about, text_patch=patch)
        self.screen.check(answer["merged"] is True, "merged by lines with the newest version")
        merged = self.simulator.note(note["id"])["content"]
        self.screen.quote(merged)
        self.screen.check(
            "climbing ones" in merged and "late" in merged,
            "both edits are in the note at the service; nothing was lost",
        )


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
