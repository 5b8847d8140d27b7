"""Measure from launch to the first answers, with a new process each time."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.measure import Act, Figure, turned
from bench.processes import CONSOLE, HELLO, MODULE, Speaker, script, surroundings
from bench.site import Site

SDK = "import anyio, mcp_types, mcp.server.lowlevel"

Times = dict[str, list[float]]


def start(site: Site) -> Iterator[Figure]:
    """Rows ``initialize``, ``tools/list`` and the first correct ``list`` of a loaded cache."""
    settings = site.encrypted()
    times: Times = {}
    acts: list[Act] = [
        lambda: _ours(times, "ours", CONSOLE, settings, site),
        lambda: _ours(times, "module", MODULE, settings, site),
        lambda: _floor(times, "bare loop", script("floor_bare")),
        lambda: _floor(times, "SDK", script("floor_sdk")),
        lambda: _process(times, "python -c pass", "pass"),
        lambda: _process(times, "SDK import", SDK),
    ]
    older = site.older()
    acts += [
        lambda name=name, old=old: _ours(times, name, CONSOLE, old, site)  # type: ignore[misc]
        for name, old in older.items()
    ]
    for number in range(site.pace.starts):
        for act in turned(acts, number):
            act()
    ms = {name: statistics.median(taken) * 1000 for name, taken in times.items()}
    for step in ("initialize", "tools/list"):
        floors = {
            "bare loop": ms[f"bare loop {step}"],
            "SDK": ms[f"SDK {step}"],
            "python -c pass": ms["python -c pass"],
        }
        beside = {name: ms[f"{name} {step}"] for name in older}
        yield Figure("start", step, site.count, "ms", ms[f"ours {step}"], floors=floors | beside)
        value = ms[f"module {step}"]
        yield Figure("start", f"{step}, python -m", site.count, "ms", value, floors=floors)
    warm, imported = ms["ours first call"], ms["SDK import"]
    floors = {"SDK": ms["SDK first call"], "bare loop": ms["bare loop first call"]}
    floors |= {name: ms[f"{name} first call"] for name in older}
    yield Figure("start", "first list, warm", site.count, "ms", warm, floors=floors)
    bare = ms["python -c pass"]
    beyond = "first list, warm: beyond the interpreter"
    yield Figure("start", beyond, site.count, "ms", warm - bare)
    yield Figure("start", "first list, warm: SDK import", site.count, "ms", imported)
    # The key is raw: nothing is stretched (group "keys" has that).
    yield Figure(
        "start",
        "first list, warm: beyond the SDK's import",
        site.count,
        "ms",
        max(warm - imported, 0.0),
    )


def _ours(
    times: Times, name: str, command: list[str], settings: dict[str, str], site: Site
) -> None:
    with Speaker(command, settings) as server:
        _steps(times, name, server)
        answer = server.tool("list")
        times.setdefault(f"{name} first call", []).append(server.age)
        site.demand(answer)


def _floor(times: Times, name: str, command: list[str]) -> None:
    with Speaker(command, surroundings()) as server:
        _steps(times, name, server)
        server.call("echo", text="x")
        times.setdefault(f"{name} first call", []).append(server.age)


def _steps(times: Times, name: str, server: Speaker) -> None:
    server.ask("initialize", HELLO)
    times.setdefault(f"{name} initialize", []).append(server.age)
    server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    server.ask("tools/list")
    times.setdefault(f"{name} tools/list", []).append(server.age)


def _process(times: Times, name: str, code: str) -> None:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=surroundings())
    times.setdefault(name, []).append(time.perf_counter() - began)
