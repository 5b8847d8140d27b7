"""Test the change feed over real HTTP, with a reader that shares no code with it."""

from __future__ import annotations

import asyncio
import threading
import time
from urllib.parse import unquote_to_bytes

import httpx
import pytest

from notarium_devtools.simperium import Limits, Simulator
from notarium_devtools.simperium.data import dirty


def applied(before: dict, operations: dict) -> dict:
    """Carry out a difference, by the letter of its description."""
    after = dict(before)
    for key, operation in operations.items():
        kind = operation["o"]
        if kind == "-":
            del after[key]
        elif kind == "d":
            after[key] = text_applied(after[key], operation["v"])
        elif kind == "O":
            after[key] = applied(after[key], operation["v"])
        else:
            assert kind in {"+", "r"}
            assert (kind == "+") == (key not in after)
            after[key] = operation["v"]
    return after


def text_applied(before: str, delta: str) -> str:
    units = before.encode("utf-16-le", "surrogatepass")
    place, parts = 0, []
    for step in delta.split("\t"):
        kind, value = step[0], step[1:]
        if kind == "+":
            text = unquote_to_bytes(value).decode("utf-8", "surrogatepass")
            parts.append(text.encode("utf-16-le", "surrogatepass"))
            continue
        end = place + 2 * int(value)
        if kind == "=":
            parts.append(units[place:end])
        place = end
    assert place == len(units)
    return b"".join(parts).decode("utf-16-le", "surrogatepass")


class Mirror:
    """Follows the feed and keeps what it understood."""

    def __init__(self, wire) -> None:
        self.wire = wire
        listed = wire.get("index?limit=1000&data=1").json()
        self.cv = listed["current"]
        self.notes = {entry["id"]: entry["d"] for entry in listed["index"]}
        self.versions = {entry["id"]: entry["v"] for entry in listed["index"]}

    def follow(self) -> list[dict]:
        changes = self.wire.changes(self.cv)
        for change in changes:
            self.take(change)
            self.cv = change["cv"]
        return changes

    def take(self, change: dict) -> None:
        name = change["id"]
        if change["o"] == "-":
            assert "v" not in change
            del self.notes[name]
            return
        assert change.get("sv") == self.versions.get(name)
        self.notes[name] = applied(self.notes.get(name, {}), change["v"])
        self.versions[name] = change["ev"]


TEXTS = [
    "plain",
    "plain text with more",
    "x😀y",
    "x😀zy 😁",
    "x😁zy 😀",
    "half \ud83d pair",
    "half \ude00 other",
    "percent %41 + tab\there 'quoted' #*;",
    "Zażółć gęślą jaźń\r\nÜber 京都\u2028",
    "",
    "back again " * 500,
]


def test_every_edit_can_be_followed(wire, sim, note):
    sim.put("a", note("start"))
    mirror = Mirror(wire)
    for number, text in enumerate(TEXTS):
        sim.edit("a", content=text, tags=[str(number)], modificationDate=number)
        mirror.follow()
        assert mirror.notes == sim.notes()


def test_creates_removals_and_odd_fields_can_be_followed(wire, sim, note):
    sim.put("a", {**note(), "owner": {"name": "x", "n": 1}, "junk": 1})
    mirror = Mirror(wire)
    sim.put("b", note("new"))
    sim.put("a", {**note("other"), "owner": {"name": "y", "z": [1, {"k": None}]}})
    sim.delete("b")

    changes = mirror.follow()

    assert [(c["id"], c["o"]) for c in changes] == [("b", "M"), ("a", "M"), ("b", "-")]
    assert "sv" not in changes[0]
    assert mirror.notes == sim.notes()
    assert mirror.cv == sim.bucket().current


def test_dirty_notes_can_be_followed(wire, sim):
    mirror = Mirror(wire)
    for note_id, value in dirty().notes.items():
        sim.put(note_id, value)
        sim.put(note_id, {**value, "content": value["content"][::-1] + "!"})

    mirror.follow()

    assert mirror.notes == sim.notes()


def test_a_client_recognises_its_own_changes(wire, note):
    cv = wire.cv()
    wire.post("i/a?ccid=c0ffee&clientid=me-on-laptop", note())

    [change] = wire.changes(cv)

    assert (change["ccids"], change["clientid"]) == (["c0ffee"], "me-on-laptop")
    assert (change["o"], change["ev"]) == ("M", 1)


def test_nothing_new_is_an_empty_list(wire):
    assert wire.changes(wire.cv()) == []


@pytest.mark.parametrize("query", ["", "cv=", "cv=nonsense", "cv=000000000000000000000000"])
def test_a_missing_or_unknown_cv_is_404(wire, query):
    assert wire.get(f"changes?wait=0&{query}").status_code == 404


def test_an_aged_out_cv_is_404():
    simulator = Simulator(limits=Limits(change_log=2))
    first = simulator.bucket().current
    for number in range(3):
        simulator.put(f"n{number}", content="x")
    with simulator.running():
        answer = httpx.get(
            f"{simulator.api_url}/{simulator.app_id}/note/changes?cv={first}&wait=0",
            headers={"X-Simperium-Token": simulator.token},
            trust_env=False,
            verify=False,
        )

    assert answer.status_code == 404


def test_a_long_poll_wakes_up_when_something_happens(wire, sim):
    cv = wire.cv()
    answers = []
    poll = threading.Thread(target=lambda: answers.append(wire.get(f"changes?cv={cv}").json()))
    poll.start()
    # The poll is being held once the bucket has a listener for it.
    wait_until(lambda: len(sim.bucket().listeners) > 1)
    assert answers == []

    sim.put("a", content="news")
    poll.join(5)

    assert [change["id"] for change in answers[0]] == ["a"]
    wait_until(lambda: len(sim.bucket().listeners) == 1)


def test_a_long_poll_answers_at_once_if_something_already_happened(wire, sim):
    cv = wire.cv()
    sim.put("a", content="news")

    assert [change["id"] for change in wire.get(f"changes?cv={cv}").json()] == ["a"]


def test_a_long_poll_misses_nothing_that_happens_while_it_begins():
    simulator = Simulator()
    bucket = simulator.bucket()
    seen = bucket.current
    simulator.put("a", content="news")

    async def wait() -> None:
        async with asyncio.timeout(5):
            await simulator._wait_for_change(bucket, seen)

    asyncio.run(wait())


def test_a_long_poll_ends_with_nothing_after_its_time(wire, sim):
    sim.poll_seconds = 0.05

    assert wire.get(f"changes?cv={wire.cv()}").json() == []


def test_a_held_poll_does_not_keep_the_simulator_from_stopping(note):
    simulator = Simulator()
    with simulator.running():
        url = f"{simulator.api_url}/{simulator.app_id}/note"
        headers = {"X-Simperium-Token": simulator.token}
        cv = httpx.get(f"{url}/index", headers=headers, trust_env=False, verify=False).json()[
            "current"
        ]
        failures = []

        def poll() -> None:
            try:
                httpx.get(
                    f"{url}/changes?cv={cv}",
                    headers=headers,
                    trust_env=False,
                    verify=False,
                    timeout=30,
                )
            except httpx.TransportError as failure:
                failures.append(failure)

        thread = threading.Thread(target=poll)
        thread.start()
        wait_until(lambda: len(simulator.bucket().listeners) > 1)
    thread.join(5)

    assert len(failures) == 1


def test_aggregated_entries_span_several_versions(wire, sim):
    sim.put("a", content="one")
    mirror = Mirror(wire)
    sim.edit("a", content="one two")
    sim.put("b", content="between")
    sim.edit("a", content="one two three")
    sim.faults.distort_feed(aggregate=True)

    changes = mirror.follow()

    assert [(c["id"], c.get("sv"), c["ev"]) for c in changes] == [("b", None, 1), ("a", 1, 3)]
    assert mirror.notes == sim.notes()
    assert mirror.cv == sim.bucket().current


def test_aggregation_does_not_reach_over_a_removal(wire, sim):
    sim.put("a", content="one")
    cv = wire.cv()
    sim.edit("a", content="two")
    sim.delete("a")
    sim.put("a", content="again")
    sim.edit("a", content="and again")
    sim.faults.distort_feed(aggregate=True)

    changes = wire.changes(cv)

    assert [(c["o"], c.get("sv"), c["ev"]) for c in changes] == [("-", 1, 3), ("M", None, 2)]


def test_repeated_and_reordered_entries_keep_the_newest_cv_last(wire, sim):
    cv = wire.cv()
    for name in "abc":
        sim.put(name, content=name)

    sim.faults.distort_feed(duplicate=True)
    assert [c["id"] for c in wire.changes(cv)] == ["a", "a", "b", "b", "c", "c"]

    sim.faults.distort_feed(reorder=True)
    reordered = wire.changes(cv)
    assert [c["id"] for c in reordered] == ["b", "a", "c"]
    assert reordered[-1]["cv"] == sim.bucket().current

    sim.faults.distort_feed()
    assert [c["id"] for c in wire.changes(cv)] == ["a", "b", "c"]


def test_publishing_gives_an_address_later_as_a_version_of_the_service(note):
    simulator = Simulator(publish_delay=0.01)
    with simulator.running():
        simulator.put("a", {**note(), "systemTags": ["published"]})
        wait_until(lambda: simulator.note("a")["publishURL"] != "")

    assert simulator.version("a") == 2


def test_publishing_on_demand(wire, sim, note):
    sim.put("a", note())
    cv = wire.cv()

    sim.publish("a")

    [change] = wire.changes(cv)
    assert list(change["v"]) == ["publishURL"]


def wait_until(condition) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
