"""Live a person's day on a running Trilium server: 200 notes, a client that saves and undoes, a second writer.

Nothing is lost, every save of the client is its own in the history, and an undo is exact to the byte.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from mcp_notarium.stores.http_rules import is_loopback
from support.real_trilium import TOKEN, URL
from support.trilium_notes import OTHERS, TEXTS
from support.whole import Server, store_environment, until

if not URL:
    pytest.skip("no Trilium server was named (docs/testing.md)", allow_module_level=True)
pytestmark = [pytest.mark.slow("a day with 200 notes"), pytest.mark.timeout(900)]
CLIENT = "talker"
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_JOINT = 30
"""Notes that the second writer edits as well, beside the others."""
_IN_THE_WINDOW = 2
"""Edits of the second writer that may be lost: those between our last comparison and our write (docs/trilium.md)."""
_PAUSE = 0.3
"""Seconds between two edits of the second writer, who comes back to a note after some ten."""


@dataclass(frozen=True, slots=True)
class State:
    """What a note is at the server, as a person would miss it."""

    title: str
    content: str
    labels: tuple[str, ...]
    scheduled: tuple[tuple[str, bool], ...]
    """Attachments, and whether they are to be erased."""


class Person:
    """Writes through the API, as an app of its own, and may work in a thread."""

    def __init__(self) -> None:
        if not is_loopback(httpx.URL(URL).host):
            raise RuntimeError("only a server of this machine is emptied")
        headers = {"authorization": TOKEN}
        self._http = httpx.Client(base_url=f"{URL.rstrip('/')}/etapi", headers=headers, timeout=60)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        reply = self._http.request(method, path, **options)
        reply.raise_for_status()
        return reply

    def leave(self) -> None:
        self._http.close()

    def erase(self) -> None:
        for child in self.ask("GET", "/notes/root").json()["childNoteIds"]:
            if not child.startswith("_"):
                self.ask("DELETE", f"/notes/{child}")

    def make(self, title: str, kind: str, mime: str, content: str) -> str:
        value = {"parentNoteId": "root", "title": title, "type": kind, "mime": mime, "content": ""}
        note_id = self.ask("POST", "/create-note", json=value).json()["note"]["noteId"]
        for token, role, name in (("«file»", "file", "a.txt"), ("«image»", "image", "p.svg")):
            if token in content:
                mime = "image/svg+xml" if role == "image" else "text/plain"
                attachment = {"ownerId": note_id, "role": role, "mime": mime, "title": name, "content": f"{title}"}  # fmt: skip
                made = self.ask("POST", "/attachments", json=attachment).json()
                content = content.replace(token, made["attachmentId"])
        self.write(note_id, content.replace("«note»", note_id))
        label = {"noteId": note_id, "type": "label", "name": "mine", "value": "", "position": 10}
        self.ask("POST", "/attributes", json=label)
        return note_id

    def read(self, note_id: str) -> str:
        return self.ask("GET", f"/notes/{note_id}/content").content.decode()

    def write(self, note_id: str, content: str) -> None:
        self.ask("PUT", f"/notes/{note_id}/content", content=content.encode(), headers=_TEXT)

    def state(self, note_id: str) -> State:
        note = self.ask("GET", f"/notes/{note_id}").json()
        attached = self.ask("GET", f"/notes/{note_id}/attachments").json()
        gone = sorted(
            (one["attachmentId"], one["utcDateScheduledForErasureSince"] is not None)
            for one in attached
        )
        labels = sorted(
            f"{one['name']}={one['value']}"
            for one in note["attributes"]
            if one["noteId"] == note_id and one["type"] == "label"
        )
        return State(note["title"], self.read(note_id), tuple(labels), tuple(gone))

    def everything(self, note_ids: list[str]) -> str:
        """All contents that are at the server, and the revisions of these notes where it lists them."""
        children = self.ask("GET", "/notes/root").json()["childNoteIds"]
        paths = [f"/notes/{one}/content" for one in children if not one.startswith("_")]
        for note_id in note_ids:
            reply = self._http.get(f"/notes/{note_id}/revisions")
            held = reply.json() if reply.is_success else []
            paths += [f"/revisions/{one['revisionId']}/content" for one in held]
        return "\n".join(self.ask("GET", path).text for path in paths)

    def keeps_revisions(self) -> bool:
        return self._http.get("/notes/root/revisions").is_success


@dataclass
class Faults:
    """Collect what went wrong, by kind of note and of change, so that one run tells all."""

    found: list[str] = field(default_factory=list)

    def expect(self, holds: bool, change: str, kind: str, what: str) -> None:
        if not holds:
            self.found.append(f"{change} | {kind} | {what}")

    def report(self) -> str:
        def head(fault: str) -> str:
            change, _, what = fault.split(" | ", 2)
            return f"{change}: {what.partition(':')[0]}"

        counted = Counter(map(head, self.found)).most_common()
        summary = [f"{number} x {what}" for what, number in counted]
        return "\n".join([f"{len(self.found)} faults", *summary, "", *self.found])


Change = Callable[[dict[str, Any]], dict[str, Any]]
CHANGES: dict[str, Change] = {
    "append": lambda _note: {"append": "Added below."},
    "append task": lambda _note: {"append": "- [ ] added task"},
    "prepend": lambda _note: {"prepend": "Added above."},
    "find": lambda _note: {"find": "alpha", "replace": "omega"},
    "title": lambda note: {"title": f"{note['title']} renamed"},
    "tags": lambda note: {"tags": [*note["tags"], "new"]},
    "no tags": lambda _note: {"tags": []},
    "text": lambda note: {"text": note["text"].replace("alpha beta", "alpha **gamma**")},
}
"""What is saved. ``rewrite`` is one more."""
MAY_REFUSE = {"rewrite": '"formatting"', "no tags": '"label_value"'}
"""A rewrite may lose a format; newer servers make a label with a value of a bookmark, which is no tag to remove."""
KEEPS_CONTENT = {"title", "tags", "no tags"}


def _keeps_the_rest(change: str, before: str, after: str) -> bool:
    if change in KEEPS_CONTENT:
        return after == before
    if change == "append task":  # the item may join a list of tasks at the end
        return after.startswith(before.removesuffix("</ul>"))
    if change == "append":
        return after.startswith(before)
    if change == "prepend":
        return after.endswith(before)
    begin, _, end = before.partition("alpha beta")
    return after.startswith(begin) and after.endswith(end)


class Day:
    """One client and its notes."""

    def __init__(self, person: Person, server: Server, faults: Faults) -> None:
        self.person, self.server, self.faults = person, server, faults

    def save_and_undo(self, note_id: str, change: str, kind: str) -> None:
        before = self.person.state(note_id)
        note = self.server.tool("get", id=note_id)
        asked = (
            {"text": "All new.\n\n- a\n- b", "confirm": True}
            if change == "rewrite"
            else CHANGES[change](note)
        )
        result = self.server.result(
            "save", id=note_id, local_version=note["local_version"], **asked
        )
        if result.get("isError"):
            said = result["content"][-1]["text"]
            self.faults.expect(
                MAY_REFUSE.get(change, "never") in said, change, kind, f"refused: {said[:300]}"
            )
            self.faults.expect(
                self.person.state(note_id) == before, change, kind, "refused, but changed"
            )
            return
        after = self.person.state(note_id)
        self.faults.expect(after != before, change, kind, "saved, but nothing changed")
        if change != "rewrite" and kind in TEXTS:
            kept = _keeps_the_rest(change, before.content, after.content)
            self.faults.expect(kept, change, kind, f"touched more: {before.content[:300]!r} became {after.content[:400]!r}")  # fmt: skip
        self._check_author(note_id, change, kind)
        self._undo(note_id, change, kind, before)

    def _check_author(self, note_id: str, change: str, kind: str) -> None:
        history = self.server.tool("manage", action="history", id=note_id)["history"]
        newest, oldest = history[0].get("by"), history[-1].get("by")
        self.faults.expect(CLIENT in (newest or ""), change, kind, f"made by {newest}")
        self.faults.expect(oldest is None, change, kind, f"the person's own made by {oldest}")

    def _undo(self, note_id: str, change: str, kind: str, before: State) -> None:
        result = self.server.result("manage", action="undo", id=note_id, confirm=True)
        if result.get("isError"):
            said = result["content"][-1]["text"]
            self.faults.expect(False, change, kind, f"undo refused: {said[:300]}")
            return
        now = self.person.state(note_id)
        for name in State.__slots__:
            was, is_now = getattr(before, name), getattr(now, name)
            self.faults.expect(was == is_now, change, kind, f"undone {name}: {was!r:.300} is {is_now!r:.400}")  # fmt: skip


class SecondWriter(threading.Thread):
    """Adds a line to one joint note after another until it is told to stop."""

    def __init__(self, note_ids: list[str]) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._ended = threading.Event()
        self._note_ids = note_ids

    def run(self) -> None:
        person = Person()
        try:
            for number, note_id in enumerate(itertools.cycle(self._note_ids)):
                line = f"theirs {number} in {note_id}"
                person.write(note_id, f"{person.read(note_id)}<p>{line}</p>")
                self.lines.append(line)
                if self._ended.wait(_PAUSE):
                    return
        except Exception as error:  # noqa: BLE001 - reported by the test
            self.error = error
        finally:
            person.leave()

    def stop(self) -> None:
        self._ended.set()
        self.join(30)


def _day(person: Person) -> Iterator[tuple[str, str, list[str]]]:
    """Make the notes; yield id, kind of note and two kinds of change. Most kinds of note meet all of them."""
    changes = [*CHANGES, "rewrite"]
    kinds = [*((name, "text", "text/html", html) for name, html in TEXTS.items())]
    kinds += [(name, *rest) for name, rest in OTHERS.items()]
    for number in range(200 - _JOINT):
        turn, place = divmod(number, len(kinds))
        name, kind, mime, content = kinds[place]
        text = content.replace("«line»", f"alpha beta {number}")
        first = place + 2 * turn
        chosen = [changes[one % len(changes)] for one in (first, first + 1)]
        yield person.make(f"{name} {number}", kind, mime, text), name, chosen


def test_a_day_with_two_hundred_notes_and_a_second_writer(tmp_path):
    person, faults = Person(), Faults()
    person.erase()
    notes = list(_day(person))
    joint = [person.make(f"joint {n}", "text", "text/html", "<p>start</p>") for n in range(_JOINT)]
    untouched = {note_id: person.state(note_id) for note_id, _, _ in notes}
    env = store_environment(tmp_path, "trilium", TRILIUM_URL=URL, TRILIUM_TOKEN=TOKEN)
    ours: list[str] = []
    with Server(env) as server:
        server.loaded(200)
        first = {note_id: person.state(note_id) for note_id, _, _ in notes}
        assert first == untouched, "the first load changed notes"
        other = SecondWriter(joint)
        other.start()
        day = Day(person, server, faults)
        turn = itertools.cycle(joint)
        try:
            for note_id, kind, changes in notes:
                for change in changes:
                    day.save_and_undo(note_id, change, kind)
                joint_id = next(turn)
                line = f"ours {len(ours)} in {joint_id}"
                if not server.result("save", id=joint_id, append=line).get("isError"):
                    ours.append(line)
        finally:
            other.stop()
        assert other.error is None
        missing = _missing(person, joint, [*ours, *other.lines])
        assert server.leave() == 0
    person.leave()
    theirs = [line for line in missing if line in other.lines]
    for line in missing if len(theirs) > _IN_THE_WINDOW else set(missing) - set(theirs):
        faults.expect(False, "second writer", line.partition(" ")[0], f"lost: {line}")
    assert len(ours) > 100
    assert len(other.lines) > 50
    assert not faults.found, faults.report()


def _missing(person: Person, note_ids: list[str], lines: list[str]) -> list[str]:
    """Return the lines that the server has nowhere, also not after some time: repairs follow the next cycle."""
    missing = lines

    def none() -> bool:
        nonlocal missing
        found = person.everything(note_ids)
        missing = [line for line in lines if line not in found]
        return not missing

    with suppress(AssertionError):
        until(none, within=20.0)
    return missing
