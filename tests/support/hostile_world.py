"""Run a loaded server whose note service turns hostile: simulator, proxy, real server."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from notarium_devtools.simperium import Simulator
from support import hostile_service as hostile
from support.hostile_service import DELETE, FEED, INDEX, NOTE, WRITE, HostileService, Twist
from support.whole import Server, environment, until

CANARY = "quietlighthouse"
CALL_SECONDS = 60.0
"""The shortest deadline that can be set for the service is 5 seconds; a save may need several calls.

The rest is for a busy machine: what waits for ever is found by any bound.
"""
MOST_MIB = 400
"""An answer may have 32 MiB, and be in memory as bytes, as text and as values."""
LEFT_SECONDS = 150.0
"""The client hangs up after 75 seconds at the latest, which is the deadline of a long poll."""


class PatientServer(Server):
    """Waits for an answer as long as a busy machine may take."""

    def receive(self, *, within: float = CALL_SECONDS) -> Any:
        return super().receive(within=within)


class World:
    """A simulator, the hostile proxy before it, and a loaded server."""

    def __init__(self, folder: Path) -> None:
        self.simulator = Simulator(poll_seconds=1.0, publish_delay=None)
        for number in range(3):
            self.simulator.put(f"before{number}", content=f"before {number} {CANARY}\n")
        self.stack = ExitStack()
        self.stack.enter_context(self.simulator.running())
        self.service = self.stack.enter_context(HostileService(self.simulator))
        self.env = environment(
            self.service,
            folder,
            API_TIMEOUT_SECONDS="5",
            LOG_LEVEL="debug",
            NOTARIUM_DESTRUCTIVE="trust",
        )
        self.number = 0

    def serve(self) -> Server:
        return self.stack.enter_context(PatientServer(self.env))

    def alive(self, server: Server) -> None:
        """Tools are answered at once, and what was there before still is."""
        began = time.monotonic()
        for number in range(3):
            assert CANARY in server.tool("get", id=f"before{number}")["text"]
        assert server.tool("list", query=CANARY)["total_items"] >= 3
        assert server.tool("manage", action="get_stats")["stats"]["db_total_notes"] >= 3
        assert time.monotonic() - began < CALL_SECONDS
        assert hostile.peak_mib(server.process.pid) < MOST_MIB

    def in_step(self, server: Server) -> None:
        """The cache holds what the service has, text for text, and no write is open."""
        found = {name: note["content"] for name, note in self.simulator.notes().items()}

        def same() -> bool:
            stats = server.tool("manage", action="get_stats")["stats"]
            if stats["db_total_notes"] != len(found) or stats["pending_writes"]:
                return False
            return all(server.tool("get", id=name)["text"] == found[name] for name in found)

        until(same, within=2 * CALL_SECONDS)
        assert hostile.peak_mib(server.process.pid) < MOST_MIB

    def meet(self, server: Server, kind: str, twist: Twist, *, whole: bool = True) -> None:
        """Make a call of this kind happen, and see it answered by the twist.

        The twist is lifted when its answer is sent or the client has hung up, so that what can be
        read of it is read; without ``whole`` as soon as the call has met it.
        """
        self.number += 1
        note_id, text = f"new{self.number}", f"new {self.number} {CANARY}\n"
        met, over = self.service.met[kind], self.service.over[kind]
        if kind in (WRITE, DELETE):
            self._by_tool(server, kind, twist, text)
            return
        with ExitStack() as twists:
            if kind == NOTE:
                dumb = hostile.says(lambda body: body.replace(b'"o":"M"', b'"o":"?"'))
                twists.enter_context(self.service.twisted(FEED, dumb))
            if kind == INDEX:
                twists.enter_context(self.service.twisted(FEED, hostile.CURSOR_LOST))
            twists.enter_context(self.service.twisted(kind, twist))
            self.simulator.put(note_id, content=text)
            until(lambda: self.service.met[kind] > met, within=CALL_SECONDS)
            self.alive(server)
            if whole:
                until(lambda: self.service.over[kind] > over, within=LEFT_SECONDS)

    def _by_tool(self, server: Server, kind: str, twist: Twist, text: str) -> None:
        began = time.monotonic()
        if kind == WRITE:
            with self.service.twisted(kind, twist):
                server.result("save", text=text)
            assert time.monotonic() - began < CALL_SECONDS
            self.alive(server)
            self.in_step(server)
            texts = [note["content"] for note in self.simulator.notes().values()]
            assert texts.count(text) == 1, "neither lost nor doubled"
            return
        made = server.tool("save", text=text)
        trashed = server.tool(
            "manage", action="trash", id=made["id"], local_version=made["local_version"]
        )
        with self.service.twisted(kind, twist):
            arguments = {"id": made["id"], "local_version": trashed["new_local_version"]}
            server.result("manage", action="delete_permanently", confirm=True, **arguments)
        assert time.monotonic() - began < CALL_SECONDS
        assert made["id"] not in self.simulator.notes()
        self.alive(server)
