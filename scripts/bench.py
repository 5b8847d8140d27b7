"""Ratios of MCP Notarium against bare loops that do the same work, in one interleaved run.

* start: process start to the `initialize` reply, against `python -c pass`;
* warm: process start to the first correct `list`;
* list, search: one tool call over stdio, against a bare JSON loop on plain SQLite doing like work;
* first sync: all notes at 40 ms an answer, against fetching the same pages one after another;
* memory: peak resident size of the server.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from mcp_notarium.simulator import Simulator

LATENCY = 0.04
ROUNDS = 200
KEY = "raw:" + "5a" * 32
RNG = random.Random(20)
WORDS = [
    "".join(RNG.choice("bdfgklmnprstvz") + RNG.choice("aeiou") for _ in range(3))
    for _ in range(6000)
]


def notes(count: int) -> dict[str, dict[str, Any]]:
    """Notes of about 1.5 KB; word frequencies fall off as in a language."""
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    made = {}
    for number in range(count):
        words = RNG.choices(WORDS, weights, k=210)
        words[17] = f"unique{number}"
        date = 1_600_000_000 + number * 600
        made[f"{number:032x}"] = {
            "content": " ".join(words[:8])
            + "\n"
            + "\n".join(" ".join(words[at : at + 12]) for at in range(8, 210, 12)),
            "tags": ["work"] if number % 10 == 0 else [],
            "systemTags": [],
            "creationDate": date,
            "modificationDate": date,
            "deleted": False,
            "shareURL": "",
            "publishURL": "",
        }
    return made


class Loop:
    """A process that answers JSON lines; the server and the bare loop look alike from here."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),
        )
        self.number = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request, one reply."""
        self.number += 1
        frame = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            reply = json.loads(self.process.stdout.readline())
            if reply.get("id") == self.number:
                return reply["result"]

    def hello(self) -> float:
        """The handshake; seconds from process start to the reply."""
        self.ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        took = time.perf_counter() - self.started
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return took

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """One tool call."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})["structuredContent"]

    def close(self) -> None:
        """End of input, and the process's end."""
        self.process.stdin.close()
        self.process.wait(10)


BARE = """
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for line in sys.stdin:
    m = json.loads(line); a = m["params"].get("arguments") or {}; q = a.get("query")
    if q:
        match = " ".join('"%s"' % w for w in q.split())
        rows = db.execute("SELECT n.id, n.modified, substr(n.text,1,80) FROM (SELECT rowid AS pk, rank FROM f WHERE f MATCH ? ORDER BY rank LIMIT 20) h JOIN notes n ON n.pk=h.pk", (match,)).fetchall()
        total = db.execute("SELECT count(*) FROM f WHERE f MATCH ?", (match,)).fetchone()[0]
    else:
        rows = db.execute("SELECT id, modified, substr(text,1,80) FROM notes ORDER BY modified DESC LIMIT 20").fetchall()
        total = db.execute("SELECT count(*) FROM notes").fetchone()[0]
    print(json.dumps({"jsonrpc": "2.0", "id": m.get("id"), "result": {"structuredContent": {"content": rows, "total_items": total}}}), flush=True)
"""


def bare_database(path: Path, made: dict[str, dict[str, Any]]) -> None:
    """The same notes in plain SQLite with FTS5."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE notes(pk INTEGER PRIMARY KEY, id TEXT, modified REAL, text TEXT)")
        db.execute("CREATE INDEX m ON notes(modified)")
        db.execute(
            "CREATE VIRTUAL TABLE f USING fts5(text, content=notes, content_rowid=pk, tokenize='porter unicode61')"
        )
        db.executemany(
            "INSERT INTO notes VALUES(NULL,?,?,?)",
            ((key, n["modificationDate"], n["content"]) for key, n in made.items()),
        )
        db.execute("INSERT INTO f(f) VALUES('rebuild')")
        db.commit()


def pair(name: str, ours: Loop, bare: Loop, queries: list[str | None]) -> None:
    """Interleaved calls of both; medians in ms and their ratio."""
    taken: dict[Loop, list[float]] = {ours: [], bare: []}
    for turn in range(ROUNDS):
        query = queries[turn % len(queries)]
        for loop in (ours, bare):
            started = time.perf_counter()
            loop.tool("list", limit=20, **({"query": query} if query else {}))
            taken[loop].append(time.perf_counter() - started)
    mine, theirs = (statistics.median(taken[loop]) * 1000 for loop in (ours, bare))
    tail = sorted(taken[ours])[int(ROUNDS * 0.99)] * 1000
    print(f"{name:<22}{mine:9.2f} ms{theirs:9.2f} ms   x{mine / theirs:.2f}   (p99 {tail:.1f} ms)")


def wire_limit(simulator: Simulator) -> float:
    """Seconds to fetch every page of 500 one after another and do nothing with it."""
    started = time.perf_counter()
    url = f"{simulator.api_url}/chalk-bump-f49/note/index"
    with httpx.Client(headers={"X-Simperium-Token": simulator.token}, trust_env=False) as client:
        mark = None
        while True:
            query = {"data": "1", "limit": "500"} | ({"mark": mark} if mark else {})
            mark = client.get(url, params=query).json().get("mark")
            if mark is None:
                return time.perf_counter() - started


def main(count: int) -> None:
    """Run everything once and print."""
    made = notes(count)
    simulator = Simulator(latency=LATENCY)
    simulator.load(made)
    with simulator.running(), tempfile.TemporaryDirectory(prefix="notarium-bench-") as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "NOTARIUM_DATA_DIR": folder,
            "SIMPLENOTE_USERNAME": simulator.username,
            "SIMPLENOTE_PASSWORD": simulator.password,
            "DB_ENCRYPTION_KEY": KEY,
            "NOTARIUM_KEYCHAIN": "off",
            "LOG_LEVEL": "error",
            "SIMPERIUM_API_URL": simulator.api_url,
            "SIMPERIUM_AUTH_URL": simulator.auth_url,
            "SIMPLENOTE_APP_URL": simulator.app_url,
            "SIMPERIUM_API_KEY": simulator.api_key,
        }
        command = [sys.executable, "-m", "mcp_notarium"]
        floor = wire_limit(simulator)
        server = Loop(command, environment)
        server.hello()
        first = server.tool("list", limit=20)
        first_list = time.perf_counter() - server.started
        while server.tool("list", limit=1)["total_items"] < count:
            time.sleep(0.02)
        loaded = time.perf_counter() - server.started
        print(f"{count} notes, {LATENCY * 1000:.0f} ms added to each answer of the service")
        print(
            f"first list after {first_list:.2f} s ({len(first['content'])} notes); all loaded after "
            f"{loaded:.2f} s, pages alone take {floor:.2f} s   x{loaded / floor:.2f}"
        )
        peak = Path(f"/proc/{server.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        server.close()

        starts, warm, pythons = [], [], []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            pythons.append(time.perf_counter() - began)
            again = Loop(command, environment)
            starts.append(again.hello())
            assert again.tool("list", limit=20)["total_items"] == count
            warm.append(time.perf_counter() - again.started)
            again.close()
        bare_python = statistics.median(pythons)
        print(
            f"{'initialize reply':<22}{statistics.median(starts) * 1000:9.1f} ms{bare_python * 1000:9.1f} ms   x{statistics.median(starts) / bare_python:.2f}   (against python -c pass)"
        )
        print(
            f"{'first list, warm':<22}{statistics.median(warm) * 1000:9.1f} ms{'':>12}   x{statistics.median(warm) / bare_python:.1f}"
        )

        path = Path(folder) / "bare.sqlite"
        bare_database(path, made)
        server = Loop(command, environment)
        server.hello()
        bare = Loop([sys.executable, "-c", BARE, str(path)], environment)
        print(f"{'over stdio':<22}{'ours':>9}   {'bare loop':>9}")
        pair("list, newest 20", server, bare, [None])
        pair(
            "rare word", server, bare, [f"unique{n}" for n in range(5, count, max(1, count // 50))]
        )
        pair(
            "two words", server, bare, [" ".join(RNG.sample(WORDS[200:900], 2)) for _ in range(50)]
        )
        pair("common word", server, bare, WORDS[10:20])
        after = Path(f"/proc/{server.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        print(
            f"peak memory: {int(peak) / 1000:.0f} MB during the first sync, {int(after) / 1000:.0f} MB when reading"
        )
        server.close()
        bare.close()
    print(
        f"(this bench itself: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
