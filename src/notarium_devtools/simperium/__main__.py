"""Run ``python -m notarium_devtools.simperium``: serve a private Simperium until stdin closes.

It prints one line of JSON with its address and login, and keeps nothing afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence

from notarium_devtools.simperium.data import prose, tag_objects
from notarium_devtools.simperium.simulator import Simulator


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stdin ends or a signal comes. Return the exit code."""
    chosen = _parser().parse_args(arguments)
    simulator = Simulator(port=chosen.port, latency=chosen.latency / 1000)
    notes = prose(chosen.notes, chosen.seed)
    simulator.load(notes)
    simulator.bucket("tag").load(tag_objects(notes))
    stopped = _stopping()
    with simulator.running():
        sys.stdout.write(json.dumps(_card(simulator)) + "\n")
        sys.stdout.flush()
        stopped.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m notarium_devtools.simperium", description="A Simperium on 127.0.0.1."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes any free one")
    parser.add_argument("--notes", type=int, default=300, help="how many notes to begin with")
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds per answer")
    parser.add_argument("--seed", type=int, default=0, help="other notes for another seed")
    return parser


def _card(simulator: Simulator) -> dict[str, str]:
    return {
        "url": simulator.url,
        "api_url": simulator.api_url,
        "auth_url": simulator.auth_url,
        "app_url": simulator.app_url,
        "username": simulator.username,
        "password": simulator.password,
        "token": simulator.token,
        "app_id": simulator.app_id,
        "api_key": simulator.api_key,
    }


def _stopping() -> threading.Event:
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda _number, _frame: stopped.set())
    threading.Thread(target=_read_to_the_end, args=(stopped,), daemon=True).start()
    return stopped


def _read_to_the_end(stopped: threading.Event) -> None:
    # Past Python's own buffer: a thread asleep inside it would disturb the exit.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stopped.set()


if __name__ == "__main__":
    raise SystemExit(main())
