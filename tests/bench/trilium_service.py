"""Run a simulated Trilium server in a process of its own.

``python -m bench.trilium_service NOTES`` prints one line of JSON that says where it is, then answers orders.
"""

from __future__ import annotations

import asyncio
import html
import json
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

from bench import corpus
from bench.relay import Relay
from bench.service import tell
from notarium_devtools.trilium import TriliumSimulator

Json = dict[str, Any]
_EVERY = 20
"""Every twentieth note has a label."""


def main(count: int) -> None:
    """Serve ``count`` notes of the corpus as HTML, until standard input ends."""
    simulator, ready = TriliumSimulator(), threading.Event()
    for number, (note_id, fields) in enumerate(corpus.notes(count)):
        put(simulator, note_id, fields["content"])
        if number % _EVERY == 0:
            simulator.document.set_attribute(
                f"marked{number}", note_id, "label", "marked", "", position=10
            )
    threading.Thread(target=lambda: asyncio.run(_serve(simulator, ready)), daemon=True).start()
    ready.wait(10)
    relay = Relay(urlsplit(simulator.url).port or 0)
    tell({"url": relay.url, "token": simulator.token})
    for line in sys.stdin:
        order: Json = json.loads(line)
        if "put" in order:
            put(simulator, order["put"], order["content"])
        tell({"requests": relay.requests, "bytes": relay.bytes})


def put(simulator: TriliumSimulator, note_id: str, text: str) -> None:
    """Write a note as a person does in the editor: one paragraph for each line."""
    title, _, rest = text.partition("\n")
    lines = [html.escape(line, quote=False) for line in rest.splitlines() if line.strip()]
    simulator.write(note_id, title[:80], "".join(f"<p>{line}</p>" for line in lines))


async def _serve(simulator: TriliumSimulator, ready: threading.Event) -> None:
    async with simulator.serving():
        ready.set()
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
