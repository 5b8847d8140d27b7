"""Run the note service in a process of its own, so that its work is not in the measured time.

``python -m bench.service NOTES`` prints one line of JSON that says where it is, then answers orders,
one line of JSON each. It ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import urlsplit

from bench import corpus
from bench.relay import Relay
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose

Json = dict[str, Any]


def carry_out(simulator: Simulator, relay: Relay, order: Json) -> Json:
    """One order; gives what is to be told."""
    match order:
        case {"latency": seconds}:
            simulator.latency = seconds
        case {"put": note_id, **fields}:
            simulator.put(note_id, **fields)
        case {"note": note_id}:
            return simulator.note(note_id)
        case {"notes": _}:
            return {note_id: dict(found) for note_id, found in simulator.notes().items()}
        case {"traffic": _}:
            # Servers that have left may still wait for changes here, as far as the log knows.
            log = [entry for entry in simulator.requests if not entry.path.endswith("/changes")]
            bodies = sum(entry.sent + entry.received for entry in log)
            relayed = {"relayed": relay.requests, "bytes": relay.bytes}
            return {"requests": len(log), "bodies": bodies, **relayed}
    return {}


def main(count: int, *, english: bool) -> None:
    """Serve ``count`` notes of the corpus, or of English prose, until standard input ends."""
    simulator = Simulator()
    simulator.load(prose(count) if english else dict(corpus.notes(count)))
    with simulator.running():
        relay = Relay(urlsplit(simulator.url).port or 0)
        card = {
            "url": simulator.url,
            "relay": relay.url,
            "username": simulator.username,
            "password": simulator.password,
            "token": simulator.token,
            "app_id": simulator.app_id,
            "api_key": simulator.api_key,
        }
        tell(card)
        for line in sys.stdin:
            tell(carry_out(simulator, relay, json.loads(line)))


def tell(answer: Json) -> None:
    """One line out."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), english="--english" in sys.argv)
